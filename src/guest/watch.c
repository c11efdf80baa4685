/* Telling what changes below a path. Reading and opening are not told: only making, removing, moving, contents and
 * attributes. With GUEST_RECURSIVE every folder below is watched too, as many as WATCHES_MAX; folders that appear are
 * added when they appear, and what was in them by then is said as made, perhaps twice.
 *
 * When something may have been missed (the kernel's queue ran over, a folder could not be watched), GUEST_LOST says so:
 * never silence. */
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/files.h"
#include "guest/walk.h"

#define WATCHES_MAX 8192
#define EVENTS_ONCE 2048 /* bytes of events of one step: some may say two long paths */
#define SCAN_ONCE   64   /* entries of one step */
#define CHANGES                                                                                                        \
        (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_EXCL_UNLINK)

struct place {
        int wd;
        char *path; /* relative; "" for the start */
};

struct watching {
        struct request request;
        struct guest *guest;
        struct loop_watch watch;
        int fd;
        int root; /* wd of the start */
        char *start;
        struct place *places; /* in the order of wd */
        size_t count, room;
        bool scanning; /* a walk is under way: through everything at first, then through folders that appeared */
        bool opened;   /* the first walk is over */
        char *scanned; /* the folder that the walk is through */
        struct walk walk;
        char *todo[64]; /* folders that appeared and are to be walked through */
        size_t todo_count;
        char *moved; /* from where something was moved; where to is the next event, or it is gone */
        uint32_t moved_cookie;
        uint32_t moved_mode;
};

static void say(struct watching *w, enum guest_change change, const char *path, const char *target, uint32_t mode) {
        struct guest_message m = {
                .kind = GUEST_CHANGE, .number = (int32_t)change, .path = path, .target = target, .mode = mode};

        if (strlen(path) >= GUEST_PATH_MAX || (target && strlen(target) >= GUEST_PATH_MAX))
                m = (struct guest_message){.kind = GUEST_CHANGE, .number = GUEST_LOST};
        request_say(w->guest, &w->request, &m);
}

static char *join(const char *folder, const char *name) {
        char *path;

        return asprintf(&path, "%s%s%s", folder, folder[0] && name[0] ? "/" : "", name) < 0 ? NULL : path;
}

/* --- places, by number --- */

static size_t find(const struct watching *w, int wd) {
        size_t low = 0, high = w->count;

        while (low < high) {
                size_t middle = (low + high) / 2;
                if (w->places[middle].wd < wd)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static struct place *place_of(const struct watching *w, int wd) {
        size_t at = find(w, wd);

        return at < w->count && w->places[at].wd == wd ? &w->places[at] : NULL;
}

static int keep(struct watching *w, int wd, const char *path) {
        struct place *p = place_of(w, wd);
        char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;
        if (p) { /* the same folder by another way */
                free(p->path);
                p->path = copy;
                return 0;
        }
        if (w->count == w->room) {
                size_t room = w->room ? 2 * w->room : 16;
                struct place *more = reallocarray(w->places, room, sizeof *more);

                if (!more) {
                        free(copy);
                        return -ENOMEM;
                }
                w->places = more;
                w->room = room;
        }
        size_t at = find(w, wd);
        memmove(w->places + at + 1, w->places + at, (w->count - at) * sizeof *w->places);
        w->places[at] = (struct place){wd, copy};
        w->count++;
        return 0;
}

static void forget(struct watching *w, struct place *p) {
        free(p->path);
        w->count--;
        memmove(p, p + 1, (size_t)(w->places + w->count - p) * sizeof *p);
}

static int add(struct watching *w, const char *path, uint32_t extra) {
        _cleanup_free_ char *whole = join(w->start, path);

        if (!whole)
                return -ENOMEM;
        if (w->count >= WATCHES_MAX)
                return -ENOSPC;
        int wd = inotify_add_watch(w->fd, whole, CHANGES | extra);
        if (wd < 0)
                return -errno;
        return keep(w, wd, path) < 0 ? -ENOMEM : wd;
}

static bool is_below(const char *path, const char *folder) {
        size_t n = strlen(folder);

        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* A folder went elsewhere: the places below it go by their new names, or are not watched any more. */
static void move_places(struct watching *w, const char *from, const char *to) {
        for (size_t i = w->count; i-- > 0;) {
                struct place *p = &w->places[i];

                if (!is_below(p->path, from))
                        continue;
                char *path = to ? join(to, p->path + strlen(from) + (p->path[strlen(from)] == '/')) : NULL;
                if (path) {
                        free(p->path);
                        p->path = path;
                } else {
                        (void)inotify_rm_watch(w->fd, p->wd);
                        forget(w, p);
                }
        }
}

/* --- walking through folders --- */

static void lost(struct watching *w) {
        say(w, GUEST_LOST, "", NULL, 0);
}

static int scan(struct watching *w, char *path) {
        _cleanup_free_ char *whole = join(w->start, path);
        int fd = whole ? open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (path[0] ? O_NOFOLLOW : 0)) : -1;
        int error = fd < 0 ? (whole ? -errno : -ENOMEM) : walk_begin(&w->walk, fd);

        if (error < 0) {
                walk_end(&w->walk);
                free(path);
                return error;
        }
        w->scanned = path;
        w->scanning = true;
        return 0;
}

static void scan_end(struct watching *w) {
        walk_end(&w->walk);
        free(TAKE_PTR(w->scanned));
        w->scanning = false;
        if (!w->opened) {
                struct guest_message m = {.kind = GUEST_OPENED};

                w->opened = true;
                request_say(w->guest, &w->request, &m);
        }
        while (w->todo_count > 0 && !w->scanning)
                (void)scan(w, w->todo[--w->todo_count]); /* one that is gone again is no loss */
}

/* One entry of a walk. -errno for what ends the request: only while it is still to be opened. */
static int scan_entry(struct watching *w) {
        _cleanup_free_ char *path = join(w->scanned, w->walk.path.data);
        int error = path ? 0 : -ENOMEM;

        if (path && w->opened)
                say(w, GUEST_MADE, path, NULL, w->walk.st.st_mode & S_IFMT);
        if (path && S_ISDIR(w->walk.st.st_mode)) {
                error = add(w, path, IN_ONLYDIR | IN_DONT_FOLLOW);
                if (error >= 0)
                        error = walk_enter(&w->walk);
                if (error == -ENOENT || error == -ENOTDIR || error == -EACCES)
                        error = 0; /* gone, or not for us */
        }
        if (error < 0 && w->opened) {
                lost(w);
                error = 0;
        }
        return error;
}

static void appeared(struct watching *w, const char *path) {
        int error = add(w, path, IN_ONLYDIR | IN_DONT_FOLLOW);
        char *copy = error >= 0 && w->todo_count < ELEMENTSOF(w->todo) ? strdup(path) : NULL;

        if (copy)
                w->todo[w->todo_count++] = copy;
        else if (error != -ENOENT && error != -ENOTDIR)
                lost(w);
        if (copy && !w->scanning)
                (void)scan(w, w->todo[--w->todo_count]);
}

/* --- events --- */

/* What was moved away and did not come back within sight is removed. */
static void moved_away(struct watching *w) {
        if (!w->moved)
                return;
        say(w, GUEST_REMOVED, w->moved, NULL, w->moved_mode);
        if (w->moved_mode == S_IFDIR)
                move_places(w, w->moved, NULL);
        free(TAKE_PTR(w->moved));
}

static void take_event(struct watching *w, const struct inotify_event *e) {
        uint32_t mode = e->mask & IN_ISDIR ? S_IFDIR : 0;
        struct place *p = place_of(w, e->wd);
        bool tree = w->request.flags & GUEST_RECURSIVE;

        if (e->mask & IN_Q_OVERFLOW)
                return lost(w);
        if (e->mask & IN_IGNORED) {
                if (p)
                        forget(w, p);
                return;
        }
        if (!p || (e->len == 0 && e->wd != w->root))
                return; /* of a folder itself its parent tells */
        _cleanup_free_ char *path = join(p->path, e->len > 0 ? e->name : "");
        if (!path)
                return lost(w);
        if (w->moved && e->mask & IN_MOVED_TO && e->cookie == w->moved_cookie) {
                say(w, GUEST_MOVED, w->moved, path, mode);
                if (mode == S_IFDIR)
                        move_places(w, w->moved, path);
                free(TAKE_PTR(w->moved));
                return;
        }
        moved_away(w);
        if (e->mask & IN_MOVED_FROM) {
                w->moved = TAKE_PTR(path);
                w->moved_cookie = e->cookie;
                w->moved_mode = mode;
        } else if (e->mask & (IN_CREATE | IN_MOVED_TO)) {
                say(w, GUEST_MADE, path, NULL, mode);
                if (tree && mode == S_IFDIR)
                        appeared(w, path);
        } else if (e->mask & (IN_DELETE | IN_DELETE_SELF)) {
                say(w, GUEST_REMOVED, path, NULL, mode);
        } else if (e->mask & IN_MODIFY) {
                say(w, GUEST_CHANGED, path, NULL, mode);
        } else if (e->mask & IN_ATTRIB) {
                say(w, GUEST_ATTRIBUTES, path, NULL, mode);
        }
}

static void take_events(struct watching *w) {
        struct guest *g = w->guest;
        struct request *r = &w->request;
        ssize_t n = read(w->fd, g->scratch, EVENTS_ONCE);

        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *e = (const void *)(g->scratch + at);

                take_event(w, e);
                at += (ssize_t)(sizeof *e + e->len);
        }
        if (n > 0)
                return;
        moved_away(w);
        if (w->count == 0) /* the start is gone */
                return request_end(g, r, -ENOENT, "what was watched is gone");
        r->ready = false;
        if (loop_watch(g->loop, &w->watch, w->fd, EPOLLIN) < 0)
                request_end(g, r, -ENOMEM, "cannot watch");
}

static void watch_step(struct guest *g, struct request *r) {
        struct watching *w = (struct watching *)r;

        for (unsigned n = 0; w->scanning && n < SCAN_ONCE; n++) {
                int item = walk_next(&w->walk);

                if (item == WALK_END || (item < 0 && w->opened))
                        scan_end(w);
                else if (item == WALK_ENTRY)
                        item = scan_entry(w);
                if (item < 0 && !w->opened)
                        return request_end(g, r, item, "cannot watch everything below '%s'", w->start);
        }
        if (!w->scanning)
                take_events(w);
}

static void ready(struct loop_watch *watch, uint32_t events) {
        struct watching *w = LOOP_OWNER(watch, struct watching, watch);

        (void)events;
        loop_unwatch(w->guest->loop, watch); /* until its events were read */
        request_wake(w->guest, &w->request);
}

static int watch_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct watching *w = (struct watching *)r;
        struct stat st;

        w->guest = g;
        w->watch.ready = ready;
        w->start = strdup(m->path);
        w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (w->fd < 0 || !w->start)
                return w->fd < 0 ? -errno : -ENOMEM;
        if (stat(m->path, &st) < 0)
                return -errno;
        w->root = add(w, "", 0);
        if (w->root < 0)
                return w->root;
        if (S_ISDIR(st.st_mode) && r->flags & GUEST_RECURSIVE) {
                char *top = strdup("");
                int error = top ? scan(w, top) : -ENOMEM;
                if (error < 0)
                        return error;
        } else {
                scan_end(w); /* there is nothing to walk through: it is open */
        }
        request_wake(g, r);
        return 0;
}

static void watch_free(struct guest *g, struct request *r) {
        struct watching *w = (struct watching *)r;

        loop_unwatch(g->loop, &w->watch);
        fd_close(&w->fd);
        walk_end(&w->walk);
        while (w->count > 0)
                forget(w, &w->places[w->count - 1]);
        while (w->todo_count > 0)
                free(w->todo[--w->todo_count]);
        free(w->places);
        free(w->scanned);
        free(w->start);
        free(w->moved);
}
const struct request_kind watch_kind = {
        .size = sizeof(struct watching), .begin = watch_begin, .step = watch_step, .free = watch_free};
