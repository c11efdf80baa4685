/* The end of a cell with a box: the tree stands, and a driver's program is executed in place of the guest.
 *
 * It stays real root with the host's tree as its root, in the cell's namespaces and cgroup; nothing of the plan's enter
 * and confine phases is done to it but what is about the tree itself. Whatever the guest has to be confined with is in
 * the plan, and the driver's to do. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/kernel.h"
#include "cell/tree.h"
#include "wire/box.h"

#define ABOVE 16 /* every number that is about to be given away */

int box_open_folder(struct cell_context *c) {
        c->folder = open(c->box->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return c->folder < 0 ? -errno : 0;
}

/* For what a driver puts into the tree: it is read-only soon. */
static int make_place(const struct cell_context *c) {
        return mkdirat(c->root, &BOX_PLACE[1], 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_readonly(const struct cell_context *c, const char *path) {
        struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY};
        _cleanup_fd_ int point = tree_inside(c, path);

        return point < 0 ? point : kernel_mount_setattr(point, "", AT_EMPTY_PATH, &readonly);
}

int box_step(struct cell_context *c, const struct plan_step *s) {
        switch ((int)s->op) {
        case OP_PIVOT:
                return make_place(c);
        case OP_READONLY:
                return make_readonly(c, s->text[0]);
        case OP_SESSION:
                return enter_session();
        case OP_IDS:
        case OP_NO_NESTING:
        case OP_CAPS:
                return 0;
        default:
                return -EINVAL;
        }
}

static int place_descriptors(struct cell_context *c) {
        const int from[] = {
                c->stdio[0], c->stdio[1], c->stdio[2],  c->report, /* BOX_REPORT_FD */
                c->listener, c->root,     c->box->plan, c->folder,
        };
        int high[ELEMENTSOF(from)];

        static_assert(ELEMENTSOF(from) == BOX_FD_END, "one for each number");
        for (size_t i = 0; i < ELEMENTSOF(from); i++)
                if ((high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, ABOVE)) < 0)
                        return -errno;
        c->report = high[BOX_REPORT_FD]; /* a failure from here on is reported there */
        for (size_t i = 0; i < ELEMENTSOF(from); i++)
                if (dup2(high[i], (int)i) < 0)
                        return -errno;
        c->report = BOX_REPORT_FD;
        return kernel_close_range(BOX_FD_END, ~0U, 0);
}

int box_exec(struct cell_context *c) {
        static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        char *const env[] = {path, NULL};

        /* a disk as the root was written to as the sandbox's own root (tree.c) */
        (void)syscall(SYS_setfsuid, 0);
        (void)syscall(SYS_setfsgid, 0);
        if (prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) < 0)
                return -errno;
        int r = place_descriptors(c);
        if (r < 0)
                return r;
        (void)execve(c->box->program, c->box->argv, env);
        return -errno;
}
