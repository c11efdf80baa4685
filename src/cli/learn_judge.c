/* Would this be refused inside because of the policy, although it is there outside? And the notes about it.
 *
 * Paths come from a hostile process and are looked up with our rights, which may be root's. So nothing that a path
 * names is opened: O_PATH, fstat and fstatfs have no effect on what they look at, links of /proc are never followed,
 * and what is found goes nowhere but into the notes. Two exceptions, both for what is inside: whether a folder is
 * empty, and the first line of a program that is a script.
 *
 * A look is made in two views: the sandbox's, below its root directory, and the host's. A name that is missing inside
 * is first led through the links that are there inside, because that is the place where it would have to appear. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "base/kernel.h"
#include "cli/learn.h"
#include "cli/run.h"

#define LINKS_MAX    40
#define MOUNT_RDONLY 1 /* of statfs */
#define MOUNT_NOEXEC 8
#define SCRIPT_LINE  256

/* ---- notes ---- */

static uint64_t mix(enum learn_kind kind, const char *path) {
        uint64_t h = 0xcbf29ce484222325 ^ (uint64_t)kind;

        for (const unsigned char *p = (const unsigned char *)path; *p; p++)
                h = (h ^ *p) * 0x100000001b3;
        return h;
}

static uint32_t keep_text(struct learn_notes *n, const char *text) {
        size_t size = strlen(text) + 1;

        if (n->text_used == 0)
                n->text_used = 1; /* the empty text */
        if (size > LEARN_TEXT_MAX - n->text_used)
                return 0;
        uint32_t at = n->text_used;
        memcpy(n->text + at, text, size);
        n->text_used += (uint32_t)size;
        return at;
}

void learn_note(struct learn_notes *n, enum learn_kind kind, unsigned flags, const char *path, const char *real) {
        uint64_t hash = mix(kind, path);

        for (uint32_t i = 0; i < n->entry_count; i++) {
                struct learn_entry *e = &n->entries[i];

                if (e->hash == hash && e->kind == kind && str_eq(n->text + e->path, path)) {
                        e->count++;
                        e->flags |= (uint16_t)flags;
                        return;
                }
        }
        uint32_t at = n->entry_count < LEARN_ENTRIES_MAX ? keep_text(n, path) : 0;
        if (at == 0) {
                n->more++;
                return;
        }
        n->entries[n->entry_count] = (struct learn_entry){.hash = hash,
                                                          .count = 1,
                                                          .path = at,
                                                          .real = real && !str_eq(real, path) ? keep_text(n, real) : 0,
                                                          .kind = (uint16_t)kind,
                                                          .flags = (uint16_t)flags};
        /* we may be killed at any moment: an entry is whole before it counts */
        __atomic_store_n(&n->entry_count, n->entry_count + 1, __ATOMIC_RELEASE);
}

/* ---- looking ---- */

static int look_inside(int root, const char *path, bool follow) {
        return kernel_openat2(root, path, O_PATH | O_CLOEXEC | (follow ? 0U : (unsigned)O_NOFOLLOW), 0,
                              RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static int look_outside(const char *path) {
        return kernel_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);
}

/* The name that the kernel has for what fd stands for. */
static bool name_of(int fd, char ret[LEARN_PATH_SIZE]) {
        char link[40];

        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, ret, LEARN_PATH_SIZE - 1);
        ret[n > 0 ? n : 0] = '\0';
        return ret[0] == '/';
}

static bool mounted(int fd, unsigned long flag) {
        struct statfs s;

        return fstatfs(fd, &s) == 0 && ((unsigned long)s.f_flags & flag);
}

/* Adds "/part" to a path; ".." takes the last part away. */
static bool append(char path[LEARN_PATH_SIZE], const char *part, size_t length) {
        size_t n = strlen(path);

        if (length == 0 || (length == 1 && part[0] == '.'))
                return true;
        if (length == 2 && part[0] == '.' && part[1] == '.') {
                char *slash = strrchr(path, '/');
                if (slash)
                        *slash = '\0';
                return true;
        }
        if (n + 1 + length >= LEARN_PATH_SIZE)
                return false;
        path[n] = '/';
        memcpy(path + n + 1, part, length);
        path[n + 1 + length] = '\0';
        return true;
}

/* Where a path leads inside, as far as there is something to follow: a path without links, "." and ".."; its last parts
 * may not exist. False if it leads nowhere, or to /proc, which is the sandbox's own matter. */
static bool where(int root, const char *path, bool follow, char ret[LEARN_PATH_SIZE]) {
        char todo[2 * LEARN_PATH_SIZE], target[LEARN_PATH_SIZE], rest[2 * LEARN_PATH_SIZE];
        bool gone = false, back = false;
        unsigned links = 0;

        (void)snprintf(todo, sizeof todo, "%s", path);
        ret[0] = '\0';
        for (char *at = todo; *at;) {
                size_t length = strcspn(at, "/"), before = strlen(ret);

                if (!append(ret, at, length))
                        return false;
                at += length;
                at += strspn(at, "/");
                back = back || (gone && strlen(ret) < before);
                if (length == 0 || strlen(ret) <= before || gone)
                        continue;
                if (str_eq(ret, "/proc"))
                        return false;
                _cleanup_fd_ int fd = kernel_openat2(root, ret, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
                                                     RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
                struct stat st;
                if (fd < 0 || fstat(fd, &st) < 0) {
                        gone = true;
                        continue;
                }
                if (!S_ISLNK(st.st_mode) || (*at == '\0' && !follow))
                        continue;
                ssize_t n = readlinkat(fd, "", target, sizeof target - 1);
                if (n <= 0 || ++links > LINKS_MAX)
                        return false;
                target[n] = '\0';
                ret[target[0] == '/' ? 0 : before] = '\0';
                int used = snprintf(rest, sizeof rest, "%s/%s", target, at);
                if (used < 0 || (size_t)used >= sizeof rest)
                        return false;
                memcpy(todo, rest, (size_t)used + 1);
                at = todo;
        }
        if (ret[0] == '\0')
                (void)snprintf(ret, LEARN_PATH_SIZE, "/");
        /* through a folder that is missing and back: it is that folder that is wanted, unless this is missing too */
        _cleanup_fd_ int there = back ? look_inside(root, ret, follow) : -EBADF;
        return there < 0;
}

static void folder_of(const char *path, char ret[LEARN_PATH_SIZE]) {
        const char *slash = strrchr(path, '/');

        (void)snprintf(ret, LEARN_PATH_SIZE, "%.*s", slash && slash > path ? (int)(slash - path) : 1, path);
}

/* What is on the host, in flags. False: not there either, so nothing was refused. */
static bool outside(const char *path, bool execute, unsigned *ret_flags, mode_t *ret_type, char real[LEARN_PATH_SIZE]) {
        _cleanup_fd_ int fd = look_outside(path);
        struct stat st;
        unsigned flags = 0;

        if (fd < 0 || fstat(fd, &st) < 0 || !name_of(fd, real))
                return false;
        unsigned need = S_ISDIR(st.st_mode) ? R_OK | X_OK : execute ? R_OK | X_OK : R_OK;
        if (S_ISDIR(st.st_mode))
                flags |= LEARN_FOLDER;
        if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
                flags |= LEARN_DEVICE;
        /* root's sandboxes have ids of their own: to the host's files they are others; a user's have the user's */
        if (geteuid() == 0 ? (st.st_mode & need) != need
                           : syscall(SYS_faccessat2, fd, "", need, AT_EMPTY_PATH | AT_EACCESS) < 0)
                flags |= LEARN_UNUSABLE;
        *ret_flags = flags;
        *ret_type = st.st_mode & S_IFMT;
        return true;
}

/* ---- judging ---- */

static void judge_missing(int root, const struct learn_call *c, struct learn_notes *notes) {
        char name[LEARN_PATH_SIZE], real[LEARN_PATH_SIZE];
        unsigned flags;
        mode_t type;

        if (!where(root, c->path, c->follow, name) || !outside(name, c->kind == LEARN_EXEC, &flags, &type, real))
                return;
        if (c->kind == LEARN_CONNECT && type != S_IFSOCK)
                return;
        if (c->kind == LEARN_EXEC && type != S_IFREG)
                return;
        if (c->used)
                flags |= LEARN_USED;
        learn_note(notes, c->kind, flags, name, real);
}

static bool has_entries(int folder) {
        _cleanup_fd_ int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
        unsigned entries = 0;

        if (!d)
                return true;
        fd = -EBADF; /* closedir closes it */
        while (entries < 3 && readdir(d))
                entries++;
        (void)closedir(d);
        return entries > 2;
}

static void judge_make(int root, const struct learn_call *c, struct learn_notes *notes) {
        char name[LEARN_PATH_SIZE], folder[LEARN_PATH_SIZE], real[LEARN_PATH_SIZE];
        unsigned flags, inside = 0;
        mode_t type;

        if (!where(root, c->path, false, name))
                return;
        folder_of(name, folder);
        _cleanup_fd_ int fd = look_inside(root, folder, true);
        if (fd >= 0) {
                if (!mounted(fd, MOUNT_RDONLY))
                        return; /* what fails here fails by permissions, sizes and the like */
                inside = LEARN_INSIDE | (has_entries(fd) ? LEARN_FULL : 0U);
        }
        if (outside(folder, false, &flags, &type, real) && type == S_IFDIR)
                learn_note(notes, LEARN_MAKE, inside | LEARN_FOLDER, folder, real);
}

static void judge_change(int root, const struct learn_call *c, int fd, struct learn_notes *notes) {
        char name[LEARN_PATH_SIZE], real[LEARN_PATH_SIZE];
        struct stat st;
        unsigned flags;
        mode_t type;

        if (fd < 0) {
                if (c->create) /* also if the host has it: a private folder is enough to make it in */
                        judge_make(root, c, notes);
                else
                        judge_missing(root, c, notes);
                return;
        }
        if (fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)) ||
            !mounted(fd, MOUNT_RDONLY) || !where(root, c->path, c->follow, name))
                return;
        if (outside(name, false, &flags, &type, real))
                learn_note(notes, LEARN_CHANGE, flags | LEARN_INSIDE, name, real);
}

/* The program that the first line of a script names; only a full path can be told from here. */
static bool interpreter(int program, char ret[SCRIPT_LINE]) {
        char link[40], line[SCRIPT_LINE];

        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", program);
        _cleanup_fd_ int fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
        if (n < 3 || line[0] != '#' || line[1] != '!')
                return false;
        line[n] = '\0';
        const char *from = line + 2 + strspn(line + 2, " \t");
        (void)snprintf(ret, SCRIPT_LINE, "%.*s", (int)strcspn(from, " \t\n"), from);
        return ret[0] == '/';
}

static void judge_exec(int root, const struct learn_call *c, int fd, struct learn_notes *notes) {
        static struct learn_call script;
        char name[LEARN_PATH_SIZE], line[SCRIPT_LINE];
        struct stat st, host;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111) || !name_of(fd, name))
                return;
        if (mounted(fd, MOUNT_NOEXEC)) {
                _cleanup_fd_ int same = look_outside(name);
                bool own = same < 0 || fstat(same, &host) < 0 || host.st_dev != st.st_dev || host.st_ino != st.st_ino;

                learn_note(notes, LEARN_EXEC, LEARN_INSIDE | (own ? LEARN_OWN : 0U), name, NULL);
        }
        if (c == &script || !interpreter(fd, line))
                return;
        script = (struct learn_call){.kind = LEARN_EXEC, .follow = true};
        (void)snprintf(script.path, sizeof script.path, "%s", line);
        learn_look(root, &script);
        learn_judge(root, &script, notes);
}

void learn_look(int root, struct learn_call *c) {
        c->inside = look_inside(root, c->path, c->kind != LEARN_MAKE && c->follow);
}

void learn_judge(int root, struct learn_call *c, struct learn_notes *notes) {
        _cleanup_fd_ int fd = TAKE_FD(c->inside);

        if (c->kind == LEARN_MAKE) {
                if (fd < 0)
                        judge_make(root, c, notes);
                return;
        }
        if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR)
                return; /* links of /proc, permissions: not for want of a profile */
        if (c->kind == LEARN_CHANGE)
                judge_change(root, c, fd, notes);
        else if (fd < 0)
                judge_missing(root, c, notes);
        else if (c->kind == LEARN_EXEC)
                judge_exec(root, c, fd, notes);
}
