/* The state folder: one daemon at a time, nobody else's hands in it, and what is in it is of this boot.
 *
 *   <state>/token                  sixteen digits: in the names of our cgroups
 *   <state>/operator/              the operator's own, and all of it that the operator can name
 *   <state>/disks, images, blank   disk/volume.h
 *   <state>/trees/                 prepared roots
 *   <run>/lock, boot-id            who we are, and since when
 *   <run>/operator.sock            where clients go
 *   <run>/sandboxes/<id>/          info, guest.sock, names, key
 *   <run>/nests/<hash>             where cgroups of ours are or were */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "cell/ids.h"
#include "warden/warden.h"

#define OPERATOR_ID 1744830464U /* 0x68000000: of an operator that root starts, unless stockade.conf names a user */
#define BOOT_ID     "/proc/sys/kernel/random/boot_id"
#define BACKLOG     1024
#define SPACE_MS    1000
#define LOCK_TRIES  500
#define LOCK_PAUSE  10000 /* µs */

int high_fd(int fd) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, WARDEN_HIGH_FD);

        if (high < 0)
                return fd;
        (void)close(fd);
        return high;
}

/* A folder below dir, made if it is not there. Ours, and nobody else can write to it. */
static int open_folder(int dir, const char *name, mode_t mode, const char *shown, struct err *err) {
        struct stat st;

        if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
                return err_set(err, -errno, "cannot make the folder '%s'", shown);
        _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot open the folder '%s'", shown);
        if (st.st_uid != geteuid() || st.st_mode & 022) {
                (void)err_set(err, ERR_REFUSED, "the folder '%s' belongs to somebody else, or others can write to it",
                              shown);
                return err_hint(err, "chown and chmod it ('chmod go-w'), or name another with --state or --run");
        }
        return TAKE_FD(fd);
}

/* The folder that was named, with those above it that are missing. ret_path is its one true name. */
static int open_named(const char *path, mode_t mode, char ret_path[PATH_MAX], struct err *err) {
        char parent[PATH_MAX];
        const char *name;

        if (snprintf(parent, sizeof parent, "%s", path) >= (int)sizeof parent)
                return err_set(err, -ENAMETOOLONG, "cannot use the folder '%.100s'", path);
        for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--)
                parent[n - 1] = '\0';
        char *slash = strrchr(parent, '/');
        for (char *part = parent + 1; slash && slash > parent && part < slash; part++)
                if (*part == '/' || part + 1 == slash) {
                        char *end = *part == '/' ? part : slash, kept = *end;
                        *end = '\0';
                        if (mkdir(parent, 0755) < 0 && errno != EEXIST)
                                return err_set(err, -errno, "cannot make the folder '%s'", parent);
                        *end = kept;
                }
        name = slash ? slash + 1 : parent;
        if (slash)
                *slash = '\0';
        _cleanup_fd_ int above = open(!slash ? "." : slash == parent ? "/" : parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (above < 0)
                return err_set(err, -errno, "cannot open the folder above '%s'", path);
        int fd = open_folder(above, name, mode, path, err);
        if (fd >= 0 && !realpath(path, ret_path)) {
                int r = -errno;
                (void)close(fd);
                return err_set(err, r, "cannot name the folder '%s'", path);
        }
        return fd;
}

/* The process that the lock's file names, if it is one that lives. */
static pid_t lock_owner(int fd) {
        char text[64] = "", *end;
        ssize_t n = pread(fd, text, sizeof text - 1, 0);

        text[n > 0 ? n : 0] = '\0';
        long pid = strtol(text, &end, 10);
        _cleanup_fd_ int process = pid > 0 ? ids_open_process((pid_t)pid, strtoull(end, NULL, 10)) : -ESRCH;
        return process < 0 ? 0 : (pid_t)pid;
}

/* A child of a daemon that was killed a moment ago may have the lock still: that one is waited for. */
static int take_lock(struct warden *w, struct err *err) {
        char text[64];
        uint64_t start = 0;
        pid_t owner = 0;
        _cleanup_fd_ int fd = openat(w->run, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
                return err_set(err, -errno, "cannot open '%s/lock'", w->run_path);
        for (unsigned tries = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; tries++) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return err_set(err, -errno, "cannot lock '%s/lock'", w->run_path);
                owner = lock_owner(fd);
                if (owner > 0 || tries >= LOCK_TRIES) {
                        (void)err_set(err, ERR_REFUSED, "another daemon (process %d) has the state folder '%s'",
                                      (int)owner, w->state_path);
                        return err_hint(err, "use that one, end it with 'stockade down', or name another folder with "
                                             "--state");
                }
                (void)usleep(LOCK_PAUSE);
        }
        (void)ids_start_time(getpid(), &start);
        int n = snprintf(text, sizeof text, "%d %llu\n", (int)getpid(), (unsigned long long)start);
        if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
                return err_set(err, -errno, "cannot write '%s/lock'", w->run_path);
        w->lock = TAKE_FD(fd);
        return 0;
}

static int take_token(struct warden *w, struct err *err) {
        static const char digits[] = "0123456789abcdef";
        char text[32];
        uint8_t bytes[8];

        if (fd_read_at(w->state, "token", text, sizeof text) > 0 && warden_is_id(text)) {
                memcpy(w->token, text, sizeof w->token);
                return 0;
        }
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
                return err_set(err, -errno, "could not get random bytes");
        for (size_t i = 0; i < sizeof bytes; i++) {
                w->token[2 * i] = digits[bytes[i] >> 4];
                w->token[2 * i + 1] = digits[bytes[i] & 15];
        }
        int r = fd_replace_file(w->state, "token", 0600, w->token, WARDEN_ID_SIZE - 1);
        return r < 0 ? err_set(err, r, "cannot write '%s/token'", w->state_path) : 0;
}

int state_remove_tree(int parent, const char *name) {
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;

        if (!d) {
                fd_close(&fd);
                return errno == ENOENT ? 0 : -errno;
        }
        while ((e = readdir(d)))
                if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
                        (void)unlinkat(dirfd(d), e->d_name, 0);
        (void)closedir(d);
        return unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* Nothing of an earlier boot runs. */
static void forget_earlier_boot(struct warden *w) {
        char now[64], then[64];
        DIR *d;
        struct dirent *e;

        if (fd_read_at(AT_FDCWD, BOOT_ID, now, sizeof now) <= 0)
                return;
        if (fd_read_at(w->run, "boot-id", then, sizeof then) > 0 && str_eq(now, then))
                return;
        int copy = openat(w->sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        d = copy < 0 ? NULL : fdopendir(copy);
        if (!d)
                fd_close(&copy);
        while (d && (e = readdir(d)))
                if (e->d_name[0] != '.' && state_remove_tree(w->sandboxes, e->d_name) == 0)
                        log_line(LOG_LEVEL_INFO, e->d_name, "it ran before this host was started again, and is gone");
        if (d)
                (void)closedir(d);
        (void)state_remove_tree(w->run, "nests");
        (void)fd_replace_file(w->run, "boot-id", 0600, now, strlen(now));
}

static int find_user(const char *name, uid_t *ret, struct err *err) {
        const struct passwd *p = getpwnam(name);

        if (!p) {
                (void)err_set(err, ERR_INPUT, "there is no user '%s', which stockade.conf names", name);
                return err_hint(err, "make it ('useradd --system %s'), or leave the key out", name);
        }
        if (p->pw_uid == 0)
                return err_set(err, ERR_REFUSED, "user '%s' of stockade.conf is root", name);
        *ret = p->pw_uid;
        return 0;
}

/* What belonged to the user who had the folder before goes to the one who has it now; nothing else does. */
static void hand_over(int dir, uid_t from, uid_t to, unsigned depth) {
        int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *e;

        if (!d)
                fd_close(&copy);
        while (d && (e = readdir(d))) {
                struct stat st;

                if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") ||
                    fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != from)
                        continue;
                if (S_ISDIR(st.st_mode) && depth < 4) {
                        _cleanup_fd_ int below = openat(dir, e->d_name,
                                                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        if (below >= 0)
                                hand_over(below, from, to, depth + 1);
                }
                if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 1))
                        (void)fchownat(dir, e->d_name, to, to, AT_SYMLINK_NOFOLLOW);
        }
        if (d)
                (void)closedir(d);
}

static int make_operator_folder(struct warden *w, struct err *err) {
        struct stat st;

        if (mkdirat(w->state, "operator", 0700) < 0 && errno != EEXIST)
                return err_set(err, -errno, "cannot make '%s/operator'", w->state_path);
        _cleanup_fd_ int fd = openat(w->state, "operator", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot open '%s/operator'", w->state_path);
        if (st.st_uid != w->operator_uid) {
                if (st.st_uid != 0 || !w->rootless)
                        hand_over(fd, st.st_uid, w->operator_uid, 0);
                if (fchown(fd, w->operator_uid, w->rootless ? getegid() : w->operator_uid) < 0)
                        return err_set(err, -errno, "cannot give '%s/operator' to user %u", w->state_path,
                                       w->operator_uid);
        }
        if (fchmod(fd, 0700) < 0)
                return err_set(err, -errno, "cannot close '%s/operator' to others", w->state_path);
        return 0;
}

static int find_users(struct warden *w, struct err *err) {
        w->operator_uid = w->rootless ? geteuid() : OPERATOR_ID;
        if (w->rootless)
                return 0;
        int r = w->conf.operator_user[0] ? find_user(w->conf.operator_user, &w->operator_uid, err) : 0;
        return r < 0 || !w->conf.gate_user[0] ? r : find_user(w->conf.gate_user, &w->gate_uid, err);
}

int state_open(struct warden *w, struct err *err) {
        char state[PATH_MAX], run[PATH_MAX];
        mode_t mode = w->rootless ? 0700 : 0711; /* who may be a client has to get to the socket */

        memcpy(state, w->state_path, sizeof state);
        w->state = open_named(state, mode, w->state_path, err);
        if (w->state < 0)
                return w->state;
        if (w->run_path[0])
                memcpy(run, w->run_path, sizeof run);
        else if (snprintf(run, sizeof run, "%s/run", w->state_path) >= (int)sizeof run)
                return err_set(err, -ENAMETOOLONG, "cannot use the folder '%.100s'", w->state_path);
        w->run = open_named(run, mode, w->run_path, err);
        if (w->run < 0)
                return w->run;
        int r = take_lock(w, err);
        if (r == 0)
                r = take_token(w, err);
        if (r == 0)
                r = find_users(w, err);
        if (r == 0)
                r = make_operator_folder(w, err);
        if (r < 0)
                return r;
        w->sandboxes = open_folder(w->run, "sandboxes", 0700, "sandboxes", err);
        if (w->sandboxes < 0)
                return w->sandboxes;
        forget_earlier_boot(w);
        w->trees = open_folder(w->state, "trees", 0711, "trees", err);
        return MIN(w->trees, 0);
}

/* Who may connect: whoever runs the daemon; where that is root, a group besides, or everybody. The operator asks the
 * kernel who is at the other end. */
static int open_to_clients(struct warden *w, struct err *err) {
        bool all = str_eq(w->conf.local_group, "*");

        if (w->rootless || !w->conf.local_group[0])
                return 0;
        const struct group *g = all ? NULL : getgrnam(w->conf.local_group);
        if (!all && !g) {
                log_line(LOG_LEVEL_INFO, NULL, "there is no group '%s' (local_group): only root is let in locally",
                         w->conf.local_group);
                return 0;
        }
        if ((g && fchownat(w->run, "operator.sock", (uid_t)-1, g->gr_gid, AT_SYMLINK_NOFOLLOW) < 0) ||
            fchmodat(w->run, "operator.sock", all ? 0666 : 0660, 0) < 0)
                return err_set(err, -errno, "cannot open '%s/operator.sock' to its clients", w->run_path);
        return 0;
}

int state_listen(struct warden *w, struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return err_set(err, -errno, "could not make a socket");
        if (unlinkat(w->run, "operator.sock", 0) < 0 && errno != ENOENT)
                return err_set(err, -errno, "cannot remove the old '%s/operator.sock'", w->run_path);
        /* by descriptor: its path may be longer than such an address */
        (void)snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/operator.sock", w->run);
        mode_t mask = umask(0177);
        int r = bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
        (void)umask(mask);
        if (r < 0)
                return err_set(err, r, "cannot listen at '%s/operator.sock'", w->run_path);
        r = open_to_clients(w, err);
        if (r < 0)
                return r;
        w->listener = TAKE_FD(fd);
        return 0;
}

/* --- space --- */

static void look_at_space(struct loop_timer *t) {
        struct warden *w = LOOP_OWNER(t, struct warden, space_timer);
        struct statvfs fs;
        uint64_t mark = w->conf.disk_reserve;

        loop_timer_set(w->loop, t, loop_now(w->loop) + SPACE_MS);
        if (mark == 0 || fstatvfs(w->state, &fs) < 0)
                return;
        uint64_t free = (uint64_t)fs.f_bavail * fs.f_frsize;
        /* it has to rise a little above the mark, so that this does not go to and fro */
        bool low = w->low_on_space ? free < mark + mark / 8 : free < mark;
        if (low == w->low_on_space)
                return;
        w->low_on_space = low;
        w->free_bytes = free;
        log_line(low ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, NULL, "the file system of '%s' has %llu MiB left",
                 w->state_path, (unsigned long long)(free >> 20));
        link_tell(w, &(struct warden_message){.kind = WARDEN_PRESSURE, .numbers = {low, free}});
}

void state_watch_space(struct warden *w) {
        w->space_timer.fire = look_at_space;
        loop_timer_set(w->loop, &w->space_timer, loop_now(w->loop));
}
