/* Each running sandbox's connection to its guest: made at the start, made again when it breaks, never in a hurry. After
 * every new one the guest says which runs it knows, and we go on with each from the byte that we have. */
#include "base/fd.h"
#include "base/log.h"
#include "operator/life.h"
#include "operator/run.h"
#include "operator/warden-link.h"

#define RECONNECT_MS     100
#define RECONNECT_MAX_MS 30000
#define LASTED_MS        30000

static void again(struct loop_timer *t);

static bool on_output(void *data, uint32_t run, enum guest_stream stream, uint64_t offset, const uint8_t *bytes,
                      size_t size) {
        return run_output(data, run, stream, offset, bytes, size);
}

static void on_exited(void *data, const struct guest_message *m) {
        run_exited(data, m);
}

static void on_room(void *data, uint32_t run) {
        run_room(data, run);
}

static void on_hello(void *data) {
        (void)data;
}

static void on_started(void *data, uint32_t run, int pid) {
        (void)data;
        (void)run;
        (void)pid;
}

/* Nothing is wrong with a sandbox whose guest breaks the protocol or its connection, as far as we can know. */
static void on_broken(void *data, const char *why) {
        struct sandbox *s = data;

        s->guest = NULL;
        if (!s->up || s->stopping || s->state != STATE_RUNNING)
                return;
        if (loop_now(s->o->loop) > s->connected + LASTED_MS)
                s->reconnects = 0; /* one that says hello and goes again gets slower answers */
        log_line(LOG_LEVEL_WARNING, NULL, "sandbox %s: the connection to its guest broke: %s", s->id, why);
        uint64_t wait = MIN((uint64_t)RECONNECT_MS << MIN(s->reconnects, 12U), (uint64_t)RECONNECT_MAX_MS);
        s->reconnects++;
        loop_timer_set(s->o->loop, &s->reconnect, loop_now(s->o->loop) + wait);
}

static const struct guest_link_events events = {
        .hello = on_hello,
        .started = on_started,
        .output = on_output,
        .exited = on_exited,
        .room = on_room,
        .broken = on_broken,
};

void guest_connect(struct sandbox *s, int fd) {
        struct err err = {0};

        guest_close(s);
        s->reconnect.fire = again;
        s->connected = loop_now(s->o->loop);
        if (guest_link_open(s->o, fd, &events, s, &s->guest, &err) < 0)
                on_broken(s, err.text);
}

void guest_close(struct sandbox *s) {
        loop_timer_clear(s->o->loop, &s->reconnect);
        if (s->guest)
                guest_link_close(TAKE_PTR(s->guest));
}

/* --- again ----------------------------------------------------------------------------------------------------------
 */

struct listing {
        struct guest_request request;
        struct sandbox *sandbox;
};

static void listed(struct guest_request *r, const struct guest_message *m) {
        struct listing *l = LOOP_OWNER(r, struct listing, request);

        if (m->kind == GUEST_RUN)
                run_listed(l->sandbox, m);
}

static void list_ended(struct guest_request *r, const struct guest_message *m) {
        struct listing *l = LOOP_OWNER(r, struct listing, request);
        struct sandbox *s = l->sandbox;

        free(l);
        s->listing = false;
        if (m->error < 0)
                return; /* the link broke: there will be another */
        run_list_done(s);
        run_feed(s);
        if (s->listed)
                s->listed(s);
}

static void list_runs(struct sandbox *s) {
        struct guest_message m = {.kind = GUEST_LIST_RUNS};
        struct listing *l = calloc(1, sizeof *l);

        for (struct run *r = s->runs; r; r = r->next)
                r->seen = false;
        if (l) {
                l->sandbox = s;
                l->request = (struct guest_request){.item = listed, .end = list_ended};
        }
        s->listing = true;
        if (!l || guest_link_ask(s->guest, &l->request, &m) < 0) {
                s->listing = false;
                free(l);
                guest_close(s);
                on_broken(s, "it could not be asked for its runs");
        }
}

static void connected(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct sandbox *s = LOOP_OWNER(data, struct sandbox, reconnect);

        s->connecting = false;
        if (!s->up || s->state != STATE_RUNNING)
                return;
        if (answer->error < 0 || fd_count == 0) {
                on_broken(s, answer->error < 0 ? answer->text : "the warden gave none");
                return;
        }
        guest_connect(s, TAKE_FD(fds[0]));
        if (s->guest)
                list_runs(s);
}

void guest_reconnect(struct sandbox *s) {
        struct warden_message m = {.kind = WARDEN_CONNECT};

        if (s->connecting)
                return;
        s->reconnect.fire = again;
        copy_text(m.id, sizeof m.id, s->id);
        if (warden_call(s->o, &m, NULL, 0, connected, &s->reconnect) < 0)
                on_broken(s, "the warden cannot be asked now");
        else
                s->connecting = true;
}

static void again(struct loop_timer *t) {
        struct sandbox *s = LOOP_OWNER(t, struct sandbox, reconnect);

        if (s->up && s->state == STATE_RUNNING && !s->guest)
                guest_reconnect(s);
}
