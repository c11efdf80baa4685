/* See the header. Only sources change: what is confined, and how, is as the plan says. */
#include "driver/vm-plan.h"

/* The owner was mapped when the tree was built, and its links were judged. */
static void add_bind(struct buf *out, const char *path, unsigned flags) {
        plan_add(out, OP_BIND, flags & (STEP_OPTIONAL | STEP_WRITE | STEP_NOEXEC), path, path);
}

static int add_step(struct buf *out, const struct plan_step *s, bool own_disk, struct err *err) {
        switch ((int)s->op) {
        case OP_BIND:
                if (s->flags & STEP_DEVICE)
                        break; /* the machine's own */
                add_bind(out, s->text[1], s->flags);
                return 0;
        case OP_OVERLAY: /* the view was made outside, with its limits */
                add_bind(out, s->text[1], (s->flags & STEP_NOEXEC) | STEP_WRITE);
                return 0;
        case OP_DISK:
                if (own_disk)
                        break;
                add_bind(out, s->text[0], (s->flags & STEP_NOEXEC) | STEP_WRITE);
                return 0;
        case OP_REACH: /* the gate's matter, and nobody's inside */
        case OP_SECRET:
                return 0;
        case OP_NETWORK: /* the rules are outside, at the other end of the link, and what the gate says is in the tree
                          */
                plan_add(out, OP_LOOPBACK, 0);
                add_bind(out, s->text[0], STEP_NOEXEC);
                return 0;
        case OP_ROOT_BIND:
        case OP_ROOT_OVERLAY:
        case OP_ROOT_DISK:
                (void)err_set(err, ERR_UNENFORCED, "a microVM cannot have an image or another folder as its root");
                return err_hint(err, "use driver 'native' for it, or a profile without an image");
        default:
                break;
        }
        plan_add_step(out, s);
        return 0;
}

int vm_plan(const struct plan *p, bool own_disk, struct buf *out, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;
        int r = 0;

        plan_begin(out, p->policy_hash);
        while (r == 0 && plan_next(p, &walk, &s))
                r = add_step(out, &s, own_disk, err);
        return r < 0 ? r : plan_end(out, err);
}
