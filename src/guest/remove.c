/* Removing a file, an empty folder, or with GUEST_RECURSIVE a folder and all that is in it, a bounded number of entries
 * at a time. Links are removed, never followed. It stops at the first thing that cannot be removed. */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/files.h"
#include "guest/walk.h"

#define REMOVE_ONCE 128 /* entries of one step */

struct removing {
        struct request request;
        int dir; /* where the start is */
        char name[NAME_MAX + 1];
        struct walk walk;
};

static int remove_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct removing *t = (struct removing *)r;
        struct stat st;

        t->dir = -EBADF;
        int error = files_parent(m->path, t->name, &t->dir);
        if (error < 0)
                return error;
        if (fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode) || !(r->flags & GUEST_RECURSIVE)) {
                if (unlinkat(t->dir, t->name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
                        return -errno;
                r->entries = 1;
                request_end(g, r, 0, NULL);
                return 0;
        }
        int fd = openat(t->dir, t->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        error = walk_begin(&t->walk, fd);
        if (error == 0)
                request_wake(g, r);
        return error;
}

static int remove_one(struct removing *t, int item) {
        struct walk *w = &t->walk;

        if (item == WALK_ENTRY && S_ISDIR(w->st.st_mode))
                return walk_enter(w);
        if (unlinkat(walk_dir(w), w->name, item == WALK_LEFT ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
                return -errno;
        t->request.entries++;
        return 0;
}

static void remove_step(struct guest *g, struct request *r) {
        struct removing *t = (struct removing *)r;

        for (unsigned n = 0; n < REMOVE_ONCE; n++) {
                int item = walk_next(&t->walk), error = item;

                if (item == WALK_END) {
                        r->entries++;
                        error = unlinkat(t->dir, t->name, AT_REMOVEDIR) < 0 ? -errno : 0;
                        return request_end(g, r, error, "cannot remove '%s'", t->name);
                }
                if (item > 0)
                        error = remove_one(t, item);
                if (error < 0)
                        return request_end(g, r, error, "cannot remove '%s/%s'", t->name, t->walk.path.data);
        }
}

static void remove_free(struct guest *g, struct request *r) {
        struct removing *t = (struct removing *)r;

        (void)g;
        walk_end(&t->walk);
        fd_close(&t->dir);
}
const struct request_kind remove_kind = {
        .size = sizeof(struct removing), .begin = remove_begin, .step = remove_step, .free = remove_free};
