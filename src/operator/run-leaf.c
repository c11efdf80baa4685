/* The cgroup leaves of runs after their end. A leaf goes with its last process: what a run started in the background
 * may live on in it, has no more time than the run had (time.run), and is killed when that is over.
 *
 * The warden has the leaves, unless the box has a kernel of its own: then the guest is asked. What it says of a run is
 * believed no more than anything else that it says, but nobody else knows. */
#include <stdio.h>

#include "operator/life.h"
#include "operator/reaper.h"
#include "operator/run.h"
#include "operator/warden-link.h"

void run_stale_add(struct sandbox *s, uint32_t run, uint64_t due) {
        struct stale *more;

        for (unsigned i = 0; i < s->stale_count; i++)
                if (s->stale[i].run == run)
                        return;
        more = s->stale_count < WARDEN_LEAVES_MAX ? realloc(s->stale, (s->stale_count + 1) * sizeof *s->stale) : NULL;
        if (!more)
                return;
        s->stale = more;
        s->stale[s->stale_count++] = (struct stale){run, due};
        reaper_look(s);
}

static uint64_t stale_take(struct sandbox *s, uint32_t run) {
        for (unsigned i = 0; i < s->stale_count; i++)
                if (s->stale[i].run == run) {
                        uint64_t due = s->stale[i].due;

                        s->stale[i] = s->stale[--s->stale_count];
                        return due;
                }
        return UINT64_MAX;
}

uint64_t run_stale_due(const struct sandbox *s) {
        uint64_t due = UINT64_MAX;

        for (unsigned i = 0; i < s->stale_count; i++)
                due = MIN(due, s->stale[i].due);
        return due;
}

void run_tell_limit(struct sandbox *s, uint32_t run, const char *key) {
        char data[128];

        (void)snprintf(data, sizeof data, "{\"run\":%u,\"limit\":\"%s\"}", run, key);
        (void)record(s->o, LEDGER_LIMIT_HIT, s->id, "operator", data);
}

void run_tell_counts(struct sandbox *s, uint32_t run, const struct warden_usage *u) {
        if (u->oom_kills != UINT64_MAX && u->oom_kills > 0)
                run_tell_limit(s, run, "limits.memory");
        if (u->fork_refusals != UINT64_MAX && u->fork_refusals > 0)
                run_tell_limit(s, run, "limits.processes");
}

/* --- ending one --- */

/* One that is being asked for. */
struct leaf_end {
        struct leaf_end *next;
        struct core *o;
        char sandbox[STORE_ID];
        uint32_t run;
        bool kill;
        struct guest_request request;
        struct warden_usage usage; /* what the warden said of the whole box */
        warden_done *done;         /* NULL: nobody wants to know any more */
        void *data;
};
static struct leaf_end *leaf_ends;

static void leaf_end_say(struct leaf_end *e, const struct warden_message *answer) {
        if (e->done)
                e->done(e->data, answer, NULL, 0);
        e->done = NULL;
}

static void leaf_end_free(struct leaf_end *e) {
        for (struct leaf_end **p = &leaf_ends; *p; p = &(*p)->next)
                if (*p == e) {
                        *p = e->next;
                        break;
                }
        free(e);
}

void run_leaf_forget(const void *data) {
        for (struct leaf_end *e = leaf_ends; e; e = e->next)
                if (e->data == data)
                        e->done = NULL;
}

static void take_number(uint64_t from, uint64_t *to) {
        if (from != UINT64_MAX)
                *to = from;
}

static void guest_said(struct guest_request *r, const struct guest_message *m) {
        struct leaf_end *e = LOOP_OWNER(r, struct leaf_end, request);
        struct warden_message answer = {.kind = WARDEN_ANSWER, .error = m->error, .usage = e->usage, .text = m->text};

        if (answer.error == -ECONNRESET)
                answer.error = -EBUSY;
        if (answer.error == -EOPNOTSUPP && !e->kill)
                answer.error = 0; /* a guest that knows no more than the warden */
        if (answer.error == 0 || answer.error == -EBUSY) {
                take_number(m->numbers[GUEST_LEAF_CPU], &answer.usage.cpu_us);
                take_number(m->numbers[GUEST_LEAF_MEMORY], &answer.usage.memory_peak);
                take_number(m->numbers[GUEST_LEAF_OOMS], &answer.usage.oom_kills);
                take_number(m->numbers[GUEST_LEAF_REFUSALS], &answer.usage.fork_refusals);
        }
        leaf_end_say(e, &answer);
        leaf_end_free(e);
}

/* A frozen guest hears it when it goes on, and nobody waits for that. 0 if it was asked. */
static int ask_guest(struct leaf_end *e, struct warden_message *answer) {
        struct guest_message m = {.kind = GUEST_LEAF_END, .run = e->run, .flags = e->kill ? GUEST_KILL : 0U};
        const struct sandbox *s = sandbox_find(e->o, e->sandbox);

        if (!s || !s->up || !s->guest)
                return -EPIPE;
        e->usage = answer->usage;
        e->request = (struct guest_request){.end = guest_said};
        int r = guest_link_ask(s->guest, &e->request, &m);
        if (r == 0 && (s->state != STATE_RUNNING || s->pressed)) {
                answer->error = e->kill ? 0 : -EBUSY;
                leaf_end_say(e, answer);
        }
        return r;
}

static void warden_said(void *data, const struct warden_message *said, int *fds, size_t fd_count) {
        struct leaf_end *e = data;
        struct warden_message answer = *said;

        (void)fds;
        (void)fd_count;
        if (said->error == -EOPNOTSUPP) {
                int r = ask_guest(e, &answer);

                if (r == 0)
                        return;
                if (!e->kill) /* an old guest does not know either; another may later */
                        answer.error = r == -EOPNOTSUPP ? 0 : -EBUSY;
        }
        leaf_end_say(e, &answer);
        leaf_end_free(e);
}

int run_leaf_end(struct sandbox *s, uint32_t run, bool kill, warden_done *done, void *data) {
        struct warden_message m = {.kind = WARDEN_LEAF_END, .run = run, .flags = kill ? WARDEN_KILL : 0};
        struct leaf_end *e = malloc(sizeof *e);

        if (!e)
                return -ENOMEM;
        *e = (struct leaf_end){.next = leaf_ends, .o = s->o, .run = run, .kill = kill, .done = done, .data = data};
        copy_text(e->sandbox, sizeof e->sandbox, s->id);
        copy_text(m.id, sizeof m.id, s->id);
        int r = warden_call(s->o, &m, NULL, 0, warden_said, e);
        if (r < 0)
                free(e);
        else
                leaf_ends = e;
        return r;
}

/* --- what is left --- */

/* What it started in the background lives on: looked at again when another run ends, and ended when its time is over.
 */
static void leaf_left(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct whose *w = data;
        struct sandbox *s = sandbox_find(w->o, w->sandbox);

        (void)fds;
        (void)fd_count;
        if (s && w->first && (answer->error == 0 || answer->error == -EBUSY))
                run_tell_counts(s, w->run, &answer->usage);
        if (answer->error == -EBUSY && s && s->up)
                run_stale_add(s, w->run, w->due);
        free(w);
}

static void leave(struct sandbox *s, uint32_t run, uint64_t due, bool kill, bool first) {
        struct whose *w = whose_new(s, run);

        if (!w)
                return;
        w->due = due;
        w->first = first;
        if (run_leaf_end(s, run, kill, leaf_left, w) < 0)
                free(w);
}

void run_leave(struct sandbox *s, uint32_t run, uint64_t due, bool kill) {
        leave(s, run, due, kill, true);
}

void run_end_leaf(struct sandbox *s, uint32_t run, bool kill) {
        run_leave(s, run, wall_ms(), kill);
}

/* When the time of a run, and of all that it started, is over. */
uint64_t run_due(const struct run *r) {
        return r->timeout == FROZEN_UNSET ? UINT64_MAX : r->started_ms + r->timeout;
}

void run_stale_ask(struct sandbox *s) {
        unsigned count = s->stale_count;

        for (unsigned i = 0; i < count && s->stale_count > 0; i++) {
                uint32_t run = s->stale[0].run;
                uint64_t due = stale_take(s, run);

                leave(s, run, due, false, false);
        }
}

void run_stale_look(struct sandbox *s) {
        uint64_t now = wall_ms();

        for (unsigned i = 0; i < s->stale_count; i++)
                if (now >= s->stale[i].due) {
                        uint32_t run = s->stale[i].run;
                        char data[96];

                        (void)stale_take(s, run);
                        (void)snprintf(data, sizeof data, "{\"run\":%u,\"limit\":\"time.run\",\"background\":true}",
                                       run);
                        (void)record(s->o, LEDGER_LIMIT_HIT, s->id, "operator", data);
                        leave(s, run, now + 1000, true, false); /* dying: looked at once more */
                        i--;
                }
}
