/* Prepared roots that sandboxes live on (cell/skeleton.h): a shared lock on each, for as long as one of them does.
 *
 * The root that code inside sees is the same folder for all sandboxes of one plan. Without our lock on it any of them
 * could take it for itself alone, and every later start would have to do without. One descriptor serves all of them. */
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/warden.h"

static struct tree_lock *find(struct warden *w, const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(w->tree_locks); i++)
                if (str_eq(w->tree_locks[i].name, name))
                        return &w->tree_locks[i];
        return NULL;
}

void trees_hold(struct sandbox *s, int *lock) {
        struct tree_lock *t = find(s->w, s->skeleton);

        if (!t && (t = find(s->w, ""))) {
                memcpy(t->name, s->skeleton, sizeof t->name);
                t->fd = *lock;
                *lock = -EBADF;
        }
        if (!t)
                return; /* more kinds than are kept: this one is not guarded */
        t->users++;
        s->tree = t;
}

void trees_adopt(struct sandbox *s) {
        _cleanup_fd_ int fd = s->skeleton[0] ? openat(s->w->trees, s->skeleton,
                                                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                             : -EBADF;

        /* while there was no warden somebody inside may have been faster: then it is his until he ends */
        if (fd >= 0 && (find(s->w, s->skeleton) || flock(fd, LOCK_SH | LOCK_NB) == 0))
                trees_hold(s, &fd);
}

void trees_release(struct sandbox *s) {
        struct tree_lock *t = TAKE_PTR(s->tree);

        if (!t || --t->users > 0)
                return;
        fd_close(&t->fd);
        t->name[0] = '\0';
}
