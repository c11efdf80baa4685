/* Which changes may be applied.
 *
 * Each change is judged by itself, then along the tree: what is in a refused new directory is refused, and a directory
 * is removed whole or not at all. */
#include <fcntl.h>
#include <unistd.h>

#include "base/knockout.h"
#include "disk/apply.h"
#include "disk/journal.h"
#include "disk/tree.h"

static const char *const reasons[] = {
        [APPLY_YES] = "applied",
        [APPLY_UNWANTED] = "left out, because the host's tools would execute or obey it",
        [APPLY_CONFLICT] = "changed outside the sandbox since the run began",
        [APPLY_SPECIAL] = "devices, sockets and fifos are not applied",
        [APPLY_SETID] = "setuid and setgid bits are not applied",
        [APPLY_MOUNT] = "a mount point is in the way",
        [APPLY_TOO_LARGE] = "larger than the cap for one file",
        [APPLY_UNWRITABLE] = "the directory that it is in is not writable",
        [APPLY_NOT_ABOVE] = "the directory that it belongs to is not applied",
        [APPLY_NOT_BELOW] = "something in it cannot be removed",
};
static_assert(ELEMENTSOF(reasons) == APPLY_NOT_BELOW + 1, "every verdict has a reason");

const char *apply_reason(enum apply_verdict v) {
        return reasons[v];
}

void apply_decision_free(struct apply_decision *v) {
        free(v->verdict);
        *v = (struct apply_decision){0};
}

static enum apply_verdict verdict_of_errno(int r) {
        switch (r) {
        case 0:
                return APPLY_YES;
        case -EXDEV:
                return APPLY_MOUNT;
        case -EACCES:
        case -EPERM:
        case -EROFS:
                return APPLY_UNWRITABLE;
        default:
                return APPLY_CONFLICT;
        }
}

/* Whether lower still is what the diff saw, and may be written. above_is_new: the parent will be made by us. */
static enum apply_verdict judge_lower(const struct diff_entry *e, int lower, bool above_is_new) {
        const char *name;
        unsigned strict = JOURNAL_SAME_MODE | (e->kind == DIFF_MODE ? 0 : JOURNAL_SAME_NAMES);

        if (above_is_new)
                return APPLY_YES;
        int r = journal_check(lower, e->path, &e->old, strict);
        if (r < 0)
                return verdict_of_errno(r);
        if (e->kind == DIFF_MODE)
                return geteuid() == 0 || geteuid() == e->old.uid ? APPLY_YES : APPLY_UNWRITABLE;
        _cleanup_fd_ int parent = tree_open_parent(lower, e->path, &name);
        if (parent < 0)
                return verdict_of_errno(parent);
        return verdict_of_errno(faccessat(parent, ".", W_OK | X_OK, 0) < 0 ? -errno : 0);
}

static enum apply_verdict judge(const struct diff_entry *e, int lower, bool above_is_new,
                                const struct apply_options *o) {
        uint64_t max = o->max_size ? o->max_size : (uint64_t)64 << 30;

        if (e->flags & DIFF_MOUNT)
                return APPLY_MOUNT;
        if (e->flags & DIFF_SPECIAL)
                return APPLY_SPECIAL;
        if (e->flags & DIFF_SETID && !knockout_off(KNOCKOUT_LAUNCHER))
                return APPLY_SETID;
        if (e->flags & DIFF_CONFLICT)
                return APPLY_CONFLICT;
        if (S_ISREG(e->mode) && e->size > max)
                return APPLY_TOO_LARGE;
        enum apply_verdict v = judge_lower(e, lower, above_is_new);
        if (v != APPLY_YES || !e->risk || o->risky == APPLY_RISKY_ALL)
                return v;
        return o->risky == APPLY_RISKY_ASK && o->ask && o->ask(o->data, e) ? APPLY_YES : APPLY_UNWANTED;
}

/* Whether what is below this entry hangs on it: a new directory, or one that goes. */
static bool carries(const struct diff_entry *e) {
        return e->kind == DIFF_ADDED || e->kind == DIFF_REMOVED || e->kind == DIFF_TYPE;
}

static void spread(const struct diff *d, const size_t *above, enum apply_verdict *verdict) {
        for (size_t i = d->count; i-- > 0;) {
                size_t up = above[i];
                if (verdict[i] != APPLY_YES && d->entry[i].kind == DIFF_REMOVED && up != SIZE_MAX &&
                    carries(&d->entry[up]) && verdict[up] == APPLY_YES)
                        verdict[up] = APPLY_NOT_BELOW;
        }
        for (size_t i = 0; i < d->count; i++)
                if (above[i] != SIZE_MAX && verdict[i] == APPLY_YES && carries(&d->entry[above[i]]) &&
                    verdict[above[i]] != APPLY_YES)
                        verdict[i] = verdict[above[i]] == APPLY_UNWANTED ? APPLY_UNWANTED : APPLY_NOT_ABOVE;
}

int apply_check(const struct diff *d, int lower, const struct apply_options *o, struct apply_decision *ret,
                struct err *err) {
        _cleanup_free_ size_t *above = calloc(d->count + 1, sizeof *above);
        _cleanup_(apply_decision_free) struct apply_decision v = {.count = d->count};

        v.verdict = calloc(d->count + 1, sizeof *v.verdict);
        if (!above || !v.verdict)
                return err_set(err, -ENOMEM, "cannot check the changes");
        for (size_t i = 0; i < d->count; i++) {
                above[i] = diff_above(d, above, i);
                const struct diff_entry *up = above[i] == SIZE_MAX ? NULL : &d->entry[above[i]];
                bool above_is_new = up && S_ISDIR(up->mode) && (up->kind == DIFF_ADDED || up->kind == DIFF_TYPE);
                v.verdict[i] = judge(&d->entry[i], lower, above_is_new, o);
        }
        spread(d, above, v.verdict);
        for (size_t i = 0; i < d->count; i++) {
                v.chosen += v.verdict[i] == APPLY_YES;
                v.refused += v.verdict[i] != APPLY_YES && v.verdict[i] != APPLY_UNWANTED;
        }
        *ret = v;
        v = (struct apply_decision){0};
        return 0;
}
