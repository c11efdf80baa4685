/* The cgroup leaves of runs after their end. A leaf goes with its last process: what a run started in the background
 * may live on in it, has no more time than the run had (time.run), and is killed when that is over. */
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
        struct warden_message m = {.kind = WARDEN_LEAF_END, .run = run, .flags = kill ? WARDEN_KILL : 0};
        struct whose *w = whose_new(s, run);

        if (!w)
                return;
        w->due = due;
        w->first = first;
        copy_text(m.id, sizeof m.id, s->id);
        if (warden_call(s->o, &m, NULL, 0, leaf_left, w) < 0)
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
