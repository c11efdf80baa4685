/* Positive controls: the same attempts where nothing stands in their way. A refusal means something only if the attempt
 * works there; where it does not, the check could not be tried on this host.
 *
 * Nothing here is in a sandbox: the probe runs only what is harmless even for root, and the judge's own namespaces are
 * around it. */
#include <fcntl.h>

#include "base/fd.h"
#include "verify/judge.h"

static bool wanted(const struct judge *j, size_t i, enum control control) {
        const struct check *c = check_at(i);

        return judge_tries(j, i) && !c->scene && c->control == control;
}

static void settle(struct judge *j, size_t i, const struct outcome *o) {
        const struct check *c = check_at(i);
        struct finding *f = &j->findings[i];
        struct said s = {0};
        char heard[128];

        if (!said_find(&o->out, c->name, &s)) {
                finding_control(f, false, "the probe said nothing of it (status %d)", o->status);
                return;
        }
        bool worked = str_eq(s.result, "done") ||
                      (c->group == GROUP_NETWORK && world_lost(&j->world) == 0 &&
                       world_heard(&j->world, c->name, heard, sizeof heard) && strstr(heard, c->name));
        finding_control(f, worked, "%.180s%s%s", s.evidence, s.error[0] ? ": " : "", s.error);
}

static void run_all(struct judge *j, enum launch_where where, enum control control) {
        _cleanup_outcome_ struct outcome o = {0};
        _cleanup_buf_ struct buf names = {0};
        struct err err;

        for (size_t i = 0; i < j->count; i++)
                if (wanted(j, i, control))
                        buf_printf(&names, "%s%s", names.size ? "," : "", check_at(i)->name);
        if (names.size == 0 || !buf_ok(&names))
                return;
        const char *const argv[] = {"{probe}", names.data, "control=yes", NULL};
        _cleanup_fd_ int leak = open("/", O_RDONLY | O_DIRECTORY); /* for the attempt that looks for one */
        const struct launch l = {.where = where, .argv = argv, .facts = true, .leak = leak, .timeout_ms = 60000};
        world_fact(&j->world, "share", "%s", j->world.share);
        world_fact(&j->world, "folder", "%s", j->world.share);
        world_forget(&j->world);
        if (launch_run(j, &l, &o, &err) < 0)
                return;
        for (size_t i = 0; i < j->count; i++)
                if (wanted(j, i, control))
                        settle(j, i, &o);
        attempts_tidy(j);
}

/* PID 1 being the probe itself: one at a time. */
static void run_init(struct judge *j, size_t i) {
        _cleanup_outcome_ struct outcome o = {0};
        const char *const argv[] = {"{probe}", check_at(i)->name, "control=yes", NULL};
        const struct launch l = {.where = LAUNCH_INIT, .argv = argv, .facts = true, .timeout_ms = 20000};
        struct err err;

        if (launch_run(j, &l, &o, &err) == 0)
                settle(j, i, &o);
}

/* The check whose control stands for another's: the first word of its note. */
static const struct finding *other(const struct judge *j, const struct check *c) {
        char name[64];
        size_t i;

        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(c->note ? c->note : "", ":; "), c->note ? c->note : "");
        return check_find(name, &i) && judge_tries(j, i) ? &j->findings[i] : NULL;
}

void controls_conclude(struct judge *j, size_t i) {
        const struct check *c = check_at(i);
        struct finding *f = &j->findings[i];
        const struct finding *shown = c->control == CONTROL_OTHER ? other(j, c) : NULL;

        if (c->control == CONTROL_NONE || c->control == CONTROL_OTHER)
                f->control = shown && shown->control == SHOWN_NO ? SHOWN_NO : SHOWN_ELSEWHERE;
        if (f->control == SHOWN_NO && (f->verdict == VERDICT_PROMISED || f->verdict == VERDICT_OTHERWISE))
                finding_untried(f, "without a sandbox it does not work here either");
}

void controls_make(struct judge *j) {
        run_all(j, LAUNCH_OUTSIDE, CONTROL_USER);
        if (j->uid == 0)
                run_all(j, LAUNCH_ROOT, CONTROL_ROOT);
        for (size_t i = 0; i < j->count; i++)
                if (wanted(j, i, CONTROL_INIT))
                        run_init(j, i);
        for (size_t i = 0; i < j->count; i++)
                if (judge_tries(j, i) && !check_at(i)->scene)
                        controls_conclude(j, i);
}
