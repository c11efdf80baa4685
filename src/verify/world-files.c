/* What is planted outside of namespaces: canaries in files, a folder for everything else, shared memory and keys; and
 * how it goes away, also when the judge was killed.
 *
 * All of it is in one folder, in /tmp or where files can be shared with a sandbox, but for files whose point is to be
 * elsewhere: those are listed in the folder's manifest before they are made. The judge holds a lock on the manifest as
 * long as it lives, so a later one can tell what is left over. Only files of our own whose names carry the folder's
 * number are ever removed, no link is followed and no mount is entered. */
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "verify/world-own.h"

#define TMP      "/tmp"
#define STEM     "stockade-verify-"
#define MANIFEST "manifest"
#define RESOLVER "/etc/resolv.conf"

enum { DEPTH_MAX = 64, MANIFEST_MAX = 1 << 16, YOUNG_S = 60, ORPHAN_S = 3600, KEY_LIFE_S = 3600, NOBODY = 65534 };

/* Where the judge's folder can be: the first that will do. */
static const char *const places[] = {TMP, "/var/tmp", "/run"};

/* --- taking away --- */

static int open_below(int dir, const char *name, uint64_t flags) {
        return kernel_openat2(dir, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
                              RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
}

/* A folder to be emptied; one that was closed to its owner is opened first. */
static int open_folder(int dir, const char *name) {
        char path[48];
        int fd = open_below(dir, name, O_RDONLY);

        if (fd != -EACCES)
                return fd;
        _cleanup_fd_ int handle = open_below(dir, name, O_PATH);
        if (handle < 0)
                return handle;
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
        (void)chmod(path, 0700);
        return open_below(dir, name, O_RDONLY);
}

/* Empties the folder and closes it. What is too deep is moved to the top, which is emptied again. True: it was. */
static bool empty(int dir, int top, unsigned depth) {
        static unsigned moved;
        bool deep = false;
        DIR *d = fdopendir(dir);

        if (!d) {
                (void)close(dir);
                return false;
        }
        for (const struct dirent *e; (e = readdir(d));) {
                char name[32];

                if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || unlinkat(dir, e->d_name, 0) == 0)
                        continue;
                if (depth >= DEPTH_MAX) {
                        (void)snprintf(name, sizeof name, "deep-%u", moved++);
                        deep |= renameat(dir, e->d_name, top, name) == 0;
                        continue;
                }
                int inner = open_folder(dir, e->d_name);
                if (inner >= 0)
                        deep |= empty(inner, top, depth + 1);
                (void)unlinkat(dir, e->d_name, AT_REMOVEDIR);
        }
        (void)closedir(d);
        return deep;
}

void world_remove_tree(const char *path) {
        _cleanup_fd_ int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (top < 0 || fstat(top, &st) < 0 || st.st_uid != geteuid())
                return;
        for (bool again = true; again;) {
                int copy = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                again = copy >= 0 && empty(copy, top, 0);
        }
        (void)rmdir(path);
}

/* The files that a manifest lists; nonce is the number of its folder. */
static void remove_listed(char *text, const char *nonce) {
        char stem[64];

        (void)snprintf(stem, sizeof stem, "/" STEM "%s.", nonce);
        for (char *line = text, *next; line && *line; line = next) {
                struct stat st;

                next = strchr(line, '\n');
                if (!next)
                        break; /* the judge was killed while it wrote this one, and made nothing */
                *next++ = '\0';
                const char *name = strrchr(line, '/');
                if (name && str_starts(name, stem) && lstat(line, &st) == 0 && S_ISREG(st.st_mode) &&
                    st.st_uid == geteuid())
                        (void)unlink(line);
        }
}

static void remove_key(const char *nonce) {
        char name[64];

        (void)snprintf(name, sizeof name, STEM "%.32s", nonce);
        long key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", name, 0);

        if (key >= 0)
                (void)syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING);
}

/* One folder of a judge of this user: nothing happens while it lives. */
static void sweep_one(const char *place, const char *name, const char *nonce) {
        _cleanup_free_ char *text = NULL;
        char path[320], manifest[sizeof path + 16];
        struct stat st;

        (void)snprintf(path, sizeof path, "%.32s/%.255s", place, name);
        (void)snprintf(manifest, sizeof manifest, "%s/" MANIFEST, path);
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
                return;
        _cleanup_fd_ int fd = open(manifest, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno != ENOENT || time(NULL) - st.st_mtime < YOUNG_S))
                return; /* it may just be beginning */
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
                return;
        if (fd >= 0 && fd_read_file(AT_FDCWD, manifest, MANIFEST_MAX, true, &text, NULL, NULL) == 0)
                remove_listed(text, nonce);
        remove_key(nonce);
        world_remove_tree(path);
}

static bool has_folder(const char *nonce) {
        char folder[320];

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                (void)snprintf(folder, sizeof folder, "%s/" STEM "%u-%.16s", places[i], geteuid(), nonce);
                if (access(folder, F_OK) == 0)
                        return true;
        }
        return false;
}

/* Canaries of this user whose folder is gone, with the list that named them: /tmp was cleaned meanwhile. */
static void sweep_orphans(const char *place) {
        DIR *d = place ? opendir(place) : NULL;

        if (!d)
                return;
        for (const struct dirent *e; (e = readdir(d));) {
                const char *nonce = e->d_name + sizeof STEM - 1;
                struct stat st;

                if (!str_starts(e->d_name, STEM) || strspn(nonce, "0123456789abcdef") != 16 || nonce[16] != '.')
                        continue;
                if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
                    st.st_uid == geteuid() && time(NULL) - st.st_mtime > ORPHAN_S && !has_folder(nonce))
                        (void)unlinkat(dirfd(d), e->d_name, 0);
        }
        (void)closedir(d);
}

static void sweep_folders(const char *place) {
        char stem[64];
        DIR *d = opendir(place);

        if (!d)
                return;
        (void)snprintf(stem, sizeof stem, STEM "%u-", geteuid());
        for (const struct dirent *e; (e = readdir(d));)
                if (str_starts(e->d_name, stem))
                        sweep_one(place, e->d_name, e->d_name + strlen(stem));
        (void)closedir(d);
}

void world_files_sweep(void) {
        const char *const planted[] = {"/root", "/home", TMP, getenv("HOME")};

        for (size_t i = 0; i < ELEMENTSOF(planted); i++)
                sweep_orphans(planted[i]);
        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                sweep_folders(places[i]);
}

void world_files_remove(struct world *w) {
        struct world_own *own = world_own(w);
        _cleanup_free_ char *text = NULL;
        char manifest[sizeof w->folder + 16], queue[sizeof w->nonce + 1];

        if (own->shm >= 0)
                (void)shmctl(own->shm, IPC_RMID, NULL);
        (void)snprintf(queue, sizeof queue, "/%s", w->nonce);
        if (own->queue)
                (void)mq_unlink(queue);
        if (own->resolver)
                (void)umount2(RESOLVER, MNT_DETACH); /* without root it goes with the namespace */
        remove_key(w->nonce);
        if (w->folder[0] == '\0')
                return;
        (void)snprintf(manifest, sizeof manifest, "%s/" MANIFEST, w->folder);
        if (fd_read_file(AT_FDCWD, manifest, MANIFEST_MAX, true, &text, NULL, NULL) == 0)
                remove_listed(text, w->nonce);
        world_remove_tree(w->folder);
        fd_close(&own->manifest);
}

/* --- planting --- */

/* In the first place where it can be made and, if that is asked for, shared. */
static int make_folder(struct world *w, bool shareable, struct err *err) {
        int r = -ENOENT;

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                char path[sizeof w->folder];

                (void)snprintf(path, sizeof path, "%s/" STEM "%u-%s", places[i], geteuid(), w->nonce);
                if (mkdir(path, 0700) < 0)
                        r = err_set(err, -errno, "could not make '%s'", path);
                else if (shareable && !world_share_can(path)) {
                        r = err_set(err, -EOPNOTSUPP, "cannot share '%s'", path);
                        (void)rmdir(path);
                } else {
                        (void)snprintf(w->folder, sizeof w->folder, "%s", path); /* there is something to remove now */
                        w->shareable = shareable;
                        return 0;
                }
        }
        return r;
}

int world_files_manifest(const char *folder, struct err *err) {
        char path[320], fresh[320];

        (void)snprintf(path, sizeof path, "%.255s/" MANIFEST, folder);
        (void)snprintf(fresh, sizeof fresh, "%.255s/" MANIFEST ".new", folder);
        _cleanup_fd_ int fd = open(fresh, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || rename(fresh, path) < 0)
                return err_set(err, -errno, "could not make '%s'", path);
        return TAKE_FD(fd);
}

int world_files_folder(struct world *w, struct err *err) {
        struct world_own *own = world_own(w);
        char path[sizeof w->folder + 16];
        int r = make_folder(w, true, err);

        if (r < 0)
                r = make_folder(w, false, err);
        if (r < 0)
                return r;
        (void)snprintf(path, sizeof path, "%s", w->folder);
        /* no other user of this machine gets in: what controls write to, without a sandbox, could be a link otherwise
         */
        (void)snprintf(w->share, sizeof w->share, "%.200s/closed/share", path);
        char *name = strrchr(w->share, '/');
        *name = '\0';
        int made = chmod(path, 0700) < 0 || mkdir(w->share, 0700) < 0 || chmod(w->share, 0700) < 0 ? -1 : 0;
        *name = '/';
        if (made < 0 || mkdir(w->share, 0777) < 0 || chmod(w->share, 0777) < 0)
                return err_set(err, -errno, "could not make '%s'", w->share);
        own->manifest = world_files_manifest(w->folder, err);
        return own->manifest < 0 ? own->manifest : 0;
}

/* A canary in a new file of this name, with exactly this mode. */
static int plant(struct world *w, enum canary which, const char *path, mode_t mode) {
        char line[300], text[WORLD_TOKEN + 1];

        int n = snprintf(line, sizeof line, "%s\n", path);
        if (n < 0 || (size_t)n > sizeof w->paths[0])
                return -ENAMETOOLONG;
        int r = fd_write_full(world_own(w)->manifest, line, (size_t)n);
        if (r < 0)
                return r;
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        n = snprintf(text, sizeof text, "%s\n", w->tokens[which]);
        r = fd_write_full(fd, text, (size_t)n);
        if (r == 0 && fchmod(fd, mode) < 0)
                r = -errno;
        if (r == 0 && w->paths[which][0] == '\0')
                (void)snprintf(w->paths[which], sizeof w->paths[which], "%s", path);
        return r;
}

/* In this place or, where there is no such place for us, in the judge's own folder: outside of every sandbox too. */
static int plant_in(struct world *w, enum canary which, const char *place, const char *word, mode_t mode) {
        char path[sizeof w->paths[0]];

        if (place && place[0] == '/') {
                (void)snprintf(path, sizeof path, "%.180s/" STEM "%s.%s", place, w->nonce, word);
                if (plant(w, which, path, mode) == 0)
                        return 0;
        }
        (void)snprintf(path, sizeof path, "%.180s/" STEM "%s.%s", w->folder, w->nonce, word);
        return plant(w, which, path, mode);
}

int world_copy_file(const char *source, const char *target, uid_t owner, mode_t mode) {
        char data[65536];
        ssize_t n;

        _cleanup_fd_ int from = open(source, O_RDONLY | O_CLOEXEC);
        _cleanup_fd_ int to = open(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
        if (from < 0 || to < 0)
                return -errno;
        while ((n = fd_read_full(from, data, sizeof data)) > 0) {
                int r = fd_write_full(to, data, (size_t)n);
                if (r < 0)
                        return r;
        }
        if (n < 0)
                return (int)n;
        return fchown(to, owner, owner) < 0 || fchmod(to, mode) < 0 ? -errno : 0;
}

/* Whoever executes this becomes its owner: as root that is nobody, so that root too becomes somebody else by it.
 * Only the caller gets to it, and what binds it into a sandbox. */
static int copy_probe(struct world *w, const char *probe) {
        char path[sizeof w->setid];

        (void)snprintf(path, sizeof path, "%.200s/closed/setid", w->folder);
        int r = world_copy_file(probe, path, geteuid() == 0 ? NOBODY : (uid_t)-1, 04755);
        if (r < 0)
                return r;
        (void)snprintf(w->setid, sizeof w->setid, "%s", path);
        return 0;
}

int world_files_plant(struct world *w, const char *probe, struct err *err) {
        bool root = geteuid() == 0;
        const char *home = getenv("HOME");

        int r = plant_in(w, CANARY_ROOT, root ? "/root" : home, "root", root ? 0644 : 0600);
        if (r == 0)
                r = plant_in(w, CANARY_HOME, root ? "/home" : home, "home", 0644);
        if (r == 0)
                r = plant_in(w, CANARY_TMP, TMP, "tmp", 0644);
        if (r < 0)
                return err_set(err, r, "could not plant a file");
        if (probe)
                (void)copy_probe(w, probe); /* one check less where it cannot be read */
        return 0;
}

static void plant_keys(struct world *w) {
        const char *value = w->tokens[CANARY_KEY];
        char name[64];

        (void)snprintf(name, sizeof name, STEM "%s", w->nonce);
        /* a session of our own: what is in it goes with the last process of it */
        if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
                (void)syscall(SYS_add_key, "user", name, value, strlen(value), KEY_SPEC_SESSION_KEYRING);
        long key = syscall(SYS_add_key, "user", name, value, strlen(value), KEY_SPEC_USER_KEYRING);
        if (key >= 0)
                (void)syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, KEY_LIFE_S);
        world_fact(w, "key", "%s", name);
}

void world_files_memory(struct world *w) {
        struct world_own *own = world_own(w);
        struct mq_attr size = {.mq_maxmsg = 4, .mq_msgsize = WORLD_TOKEN};
        char name[sizeof w->nonce + 1], path[128];
        /* a number that the probe is told; namespaces are new, so it is free */
        key_t key = (key_t)(0x53540000 | strtoul(w->nonce + 12, NULL, 16));

        own->shm = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666);
        char *at = own->shm < 0 ? (char *)-1 : shmat(own->shm, NULL, 0);
        if (at != (char *)-1) {
                (void)snprintf(at, 4096, "%s", w->tokens[CANARY_SHM]);
                (void)shmdt(at);
                world_fact(w, "shm-key", "%d", key);
        }
        (void)snprintf(name, sizeof name, "/%s", w->nonce);
        mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666, &size);
        own->queue = queue != (mqd_t)-1;
        if (own->queue) {
                (void)fchmod(queue, 0666);
                (void)mq_send(queue, w->tokens[CANARY_SHM], strlen(w->tokens[CANARY_SHM]), 0);
                (void)mq_close(queue);
                world_fact(w, "mq", "%s", w->nonce);
        }
        (void)snprintf(path, sizeof path, "/dev/shm/" STEM "%s.shm", w->nonce);
        if (plant(w, CANARY_SHM, path, 0666) == 0)
                world_fact(w, "posix-shm", "%s", strrchr(path, '/'));
        plant_keys(w);
}

void world_files_resolver(struct world *w) {
        static const char text[] = "nameserver " WORLD_DNS "\noptions timeout:2 attempts:2\n";
        char path[sizeof w->folder + 16];

        (void)snprintf(path, sizeof path, "%s/resolv.conf", w->folder);
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        /* a host without the file asks itself, where the listener answers too */
        world_own(w)->resolver = fd >= 0 && fd_write_full(fd, text, sizeof text - 1) == 0 && fchmod(fd, 0644) == 0 &&
                                 mount(path, RESOLVER, NULL, MS_BIND, NULL) == 0;
}
