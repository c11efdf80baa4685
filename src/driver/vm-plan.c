/* See the header. Only sources change: what is confined, and how, is as the plan says. */
#include "driver/vm-plan.h"

#include <limits.h>
#include <stdio.h>

struct translation {
        struct buf *out;
        bool own_disk;
        bool in_tree; /* the root is the tree: what was made in it is there */
};

/* The owner was mapped when the tree was built, and its links were judged. */
static void add_bind(struct buf *out, const char *from, const char *path, unsigned flags) {
        plan_add(out, OP_BIND, flags & (STEP_OPTIONAL | STEP_WRITE | STEP_NOEXEC), from, path);
}

static int add_live(struct buf *out, const char *path, unsigned flags, struct err *err) {
        char from[PATH_MAX];
        int n = snprintf(from, sizeof from, VM_LIVE "%s", path);

        if (n < 0 || (size_t)n >= sizeof from)
                return err_set(err, -ENAMETOOLONG, "a path inside is too long for a machine");
        add_bind(out, from, path, flags);
        return 0;
}

/* What somebody named, or what is written to from both sides. */
static bool is_live(const struct plan_step *s) {
        return s->op == OP_NETWORK || s->op == OP_OVERLAY ||
               (s->op == OP_BIND && !(s->flags & STEP_DEVICE) && (s->flags & (STEP_WRITE | STEP_EXACT)));
}

static int add_step(const struct translation *t, const struct plan_step *s, struct err *err) {
        switch ((int)s->op) {
        case OP_REACH: /* the gate's matter, and nobody's inside */
        case OP_SECRET:
                return 0;
        case OP_ROOT_BIND:
        case OP_ROOT_OVERLAY: /* limits and copy-on-write are outside */
                plan_add(t->out, OP_ROOT_DISK, 0, UINT64_MAX, UINT64_MAX);
                return 0;
        case OP_BIND:
                if (s->flags & STEP_DEVICE)
                        break; /* the machine's own */
                if (is_live(s))
                        return add_live(t->out, s->text[1], s->flags, err);
                add_bind(t->out, s->text[1], s->text[1], s->flags);
                return 0;
        case OP_OVERLAY:
                return add_live(t->out, s->text[1], (s->flags & STEP_NOEXEC) | STEP_WRITE, err);
        case OP_DISK:
                if (t->own_disk)
                        break;
                add_bind(t->out, s->text[0], s->text[0], (s->flags & STEP_NOEXEC) | STEP_WRITE);
                return 0;
        case OP_NETWORK: /* the rules are outside, at the other end of the link; what the gate says is in the tree */
                plan_add(t->out, OP_LOOPBACK, 0);
                return add_live(t->out, s->text[0], STEP_NOEXEC, err);
        case OP_DIR:
        case OP_FILE:
        case OP_COPY:
        case OP_LINK:
                if (t->in_tree)
                        return 0;
                break;
        default:
                break;
        }
        plan_add_step(t->out, s);
        return 0;
}

static bool has(const struct plan *p, bool (*is)(const struct plan_step *)) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s))
                if (is(&s))
                        return true;
        return false;
}

static bool is_empty_root(const struct plan_step *s) {
        return s->op == OP_ROOT_TMPFS;
}

bool vm_plan_is_live(const struct plan *p) {
        return has(p, is_live);
}

int vm_plan(const struct plan *p, bool own_disk, struct buf *out, struct err *err) {
        const struct translation t = {.out = out, .own_disk = own_disk, .in_tree = !has(p, is_empty_root)};
        struct plan_walk walk = {0};
        struct plan_step s;
        int r = 0;

        plan_begin(out, p->policy_hash);
        while (r == 0 && plan_next(p, &walk, &s))
                r = add_step(&t, &s, err);
        return r < 0 ? r : plan_end(out, err);
}
