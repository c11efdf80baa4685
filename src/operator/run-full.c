/* A run failed. Was there no room for what it wrote? Of a disk the warden says it. A workspace in memory nobody sees
 * but the guest: what that says is as good as what the run itself says, and decides about nothing but a word; a guest
 * that does not answer is not waited for. */
#include "operator/life.h"
#include "operator/run.h"
#include "operator/warden-link.h"

#define FULL    65536 /* bytes free, or fewer */
#define LATE_MS 1000

static void finish(struct run *r, bool full) {
        if (full)
                run_tell_limit(r->sandbox, r->number, "files.write"); /* the word of `stockade run`, too */
        run_finish(r, full ? REASON_DISK_FULL : REASON_EXITED);
}

static void disk_seen(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        const uint64_t *n = answer->numbers;

        (void)fds;
        (void)fd_count;
        finish(data, answer->error == 0 && (n[WARDEN_SPACE_BYTES_USED] + FULL >= n[WARDEN_SPACE_BYTES] ||
                                            n[WARDEN_SPACE_INODES_USED] >= n[WARDEN_SPACE_INODES]));
}

/* --- in memory --- */

struct question {
        struct guest_request request;
        struct sandbox *sandbox;
        uint32_t run; /* it may have been finished otherwise when the answer comes */
};

static void memory_seen(struct guest_request *request, const struct guest_message *m) {
        struct question *q = LOOP_OWNER(request, struct question, request);
        struct run *r = run_find(q->sandbox, q->run);
        const uint64_t *n = m->numbers;
        bool full = m->error == 0 && ((n[GUEST_BYTES] > 0 && n[GUEST_BYTES_FREE] <= FULL) ||
                                      (n[GUEST_INODES] > 0 && n[GUEST_INODES_FREE] == 0));

        free(q);
        if (r && r->phase == RUN_ENDING)
                finish(r, full);
}

static void late(struct loop_timer *timer) {
        finish(LOOP_OWNER(timer, struct run, timer), false);
}

static bool ask_guest(struct run *r) {
        struct sandbox *s = r->sandbox;
        struct guest_message m = {.kind = GUEST_USAGE, .path = s->frozen->cwd};
        struct question *q = s->guest && s->frozen->cwd ? calloc(1, sizeof *q) : NULL;

        if (!q)
                return false;
        *q = (struct question){.request.end = memory_seen, .sandbox = s, .run = r->number};
        if (guest_link_ask(s->guest, &q->request, &m) < 0) {
                free(q);
                return false;
        }
        r->timer.fire = late;
        loop_timer_set(s->o->loop, &r->timer, loop_now(s->o->loop) + LATE_MS);
        return true;
}

bool run_look_full(struct run *r) {
        struct warden_message m = {.kind = WARDEN_DISK_SPACE};
        const struct disk *d = r->sandbox->disk;

        if (!d)
                return ask_guest(r);
        copy_text(m.id, sizeof m.id, d->id);
        return warden_call(r->sandbox->o, &m, NULL, 0, disk_seen, r) == 0;
}
