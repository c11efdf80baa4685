/* The watcher of `stockade run --learn`: a process of its own that is told of every call that names a file, notes what
 * would be refused, and lets the call go on.
 *
 * Always holds: the only answer is SECCOMP_USER_NOTIF_FLAG_CONTINUE, so nothing is decided here, and it does no harm
 * that the caller can change the path between our look and the kernel's: it only spoils its own notes. What was read is
 * thrown away unless the caller was still in that call after the reading. Numbers and texts come from a hostile
 * process: they are copied, bounded, and looked up, never opened; see learn_judge.c. If this process ends, told calls
 * fail. The sandbox's first process is ours and is not noted. */
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "base/kernel.h"
#include "cli/learn.h"
#include "cli/run.h"

#define CALL_PATHS 2    /* that one call can name */
#define NONE       0xff /* no such argument */

enum how {
        HOW_OPEN,    /* flags say what is wanted */
        HOW_LOOK,    /* stat, access */
        HOW_LINK,    /* readlink */
        HOW_ENTER,   /* chdir */
        HOW_EXEC,    /* execve */
        HOW_MAKE,    /* mkdir, link: it must not be there */
        HOW_PUT,     /* rename to, creat: made, or replaced */
        HOW_CHANGE,  /* chmod, truncate */
        HOW_REMOVE,  /* unlink, rename from: of a link, the link itself */
        HOW_CONNECT, /* a socket's address instead of a path */
};

/* Where a call has its path. Calls with two paths have two rows. */
static const struct row {
        uint16_t number;
        uint8_t dir, path, flags; /* positions of arguments */
        enum how how;
} rows[] = {
        {SYS_openat, 0, 1, 2, HOW_OPEN},
        {SYS_execve, NONE, 0, NONE, HOW_EXEC},
        {SYS_execveat, 0, 1, 4, HOW_EXEC},
        {SYS_newfstatat, 0, 1, 3, HOW_LOOK},
        {SYS_statx, 0, 1, 2, HOW_LOOK},
        {SYS_faccessat, 0, 1, NONE, HOW_LOOK},
        {SYS_faccessat2, 0, 1, 3, HOW_LOOK},
        {SYS_readlinkat, 0, 1, NONE, HOW_LINK},
        {SYS_chdir, NONE, 0, NONE, HOW_ENTER},
        {SYS_mkdirat, 0, 1, NONE, HOW_MAKE},
        {SYS_unlinkat, 0, 1, NONE, HOW_REMOVE},
        {SYS_renameat2, 0, 1, NONE, HOW_REMOVE},
        {SYS_renameat2, 2, 3, NONE, HOW_PUT},
        {SYS_linkat, 2, 3, NONE, HOW_MAKE},
        {SYS_symlinkat, 1, 2, NONE, HOW_MAKE},
        {SYS_mknodat, 0, 1, NONE, HOW_MAKE},
        {SYS_truncate, NONE, 0, NONE, HOW_CHANGE},
        {SYS_fchmodat, 0, 1, NONE, HOW_CHANGE},
        {SYS_fchownat, 0, 1, 4, HOW_CHANGE},
        {SYS_utimensat, 0, 1, 3, HOW_CHANGE},
        {SYS_connect, NONE, 1, NONE, HOW_CONNECT},
#ifdef SYS_renameat
        {SYS_renameat, 0, 1, NONE, HOW_REMOVE},
        {SYS_renameat, 2, 3, NONE, HOW_PUT},
#endif
#ifdef SYS_open
        {SYS_open, NONE, 0, 1, HOW_OPEN},
        {SYS_creat, NONE, 0, NONE, HOW_PUT},
        {SYS_stat, NONE, 0, NONE, HOW_LOOK},
        {SYS_lstat, NONE, 0, NONE, HOW_LINK},
        {SYS_access, NONE, 0, NONE, HOW_LOOK},
        {SYS_readlink, NONE, 0, NONE, HOW_LINK},
        {SYS_mkdir, NONE, 0, NONE, HOW_MAKE},
        {SYS_rmdir, NONE, 0, NONE, HOW_REMOVE},
        {SYS_unlink, NONE, 0, NONE, HOW_REMOVE},
        {SYS_rename, NONE, 0, NONE, HOW_REMOVE},
        {SYS_rename, NONE, 1, NONE, HOW_PUT},
        {SYS_link, NONE, 1, NONE, HOW_MAKE},
        {SYS_symlink, NONE, 1, NONE, HOW_MAKE},
        {SYS_mknod, NONE, 0, NONE, HOW_MAKE},
        {SYS_chmod, NONE, 0, NONE, HOW_CHANGE},
        {SYS_chown, NONE, 0, NONE, HOW_CHANGE},
        {SYS_lchown, NONE, 0, NONE, HOW_REMOVE},
        {SYS_utime, NONE, 0, NONE, HOW_CHANGE},
        {SYS_utimes, NONE, 0, NONE, HOW_CHANGE},
#endif
};

/* Reads up to size bytes, page by page, so that a text at the end of what is mapped is read as far as it goes. */
static ssize_t read_memory(pid_t pid, uint64_t address, void *ret, size_t size) {
        struct iovec here = {.iov_base = ret, .iov_len = size}, there[3];
        unsigned long count = 0;

        for (uint64_t at = address; size > 0 && count < ELEMENTSOF(there); count++) {
                size_t part = MIN(size, (size_t)(4096 - at % 4096));

                there[count] = (struct iovec){(void *)(uintptr_t)at, part};
                at += part;
                size -= part;
        }
        ssize_t n = process_vm_readv(pid, &here, 1, there, count, 0);
        return n < 0 ? -errno : n;
}

/* A text of the caller's that ends within LEARN_PATH_SIZE. */
static int read_text(pid_t pid, uint64_t address, char ret[LEARN_PATH_SIZE]) {
        ssize_t n = read_memory(pid, address, ret, LEARN_PATH_SIZE);

        if (n < 0)
                return (int)n;
        return memchr(ret, '\0', (size_t)n) ? 0 : -ENAMETOOLONG;
}

/* The path of a unix socket's address; "" if it is another kind, or has no path. */
static int read_address(pid_t pid, uint64_t address, uint64_t size, char ret[LEARN_PATH_SIZE]) {
        struct sockaddr_un a = {0};

        ret[0] = '\0';
        if (size <= offsetof(struct sockaddr_un, sun_path) || size > sizeof a)
                return 0;
        ssize_t n = read_memory(pid, address, &a, (size_t)size);
        if (n < (ssize_t)sizeof a.sun_family)
                return n < 0 ? (int)n : -EFAULT;
        if (a.sun_family == AF_UNIX)
                (void)snprintf(ret, LEARN_PATH_SIZE, "%.*s", (int)sizeof a.sun_path, a.sun_path);
        return 0;
}

/* The name of the folder that a relative path begins at, as the sandbox sees it. */
static int read_folder(pid_t pid, const struct row *row, const uint64_t *args, char ret[LEARN_PATH_SIZE]) {
        int fd = row->dir == NONE ? AT_FDCWD : (int)(uint32_t)args[row->dir];
        char link[64];

        if (fd == AT_FDCWD)
                (void)snprintf(link, sizeof link, "/proc/%d/cwd", pid);
        else if (fd >= 0)
                (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, fd);
        else
                return -EBADF; /* and so it will be for the caller */
        ssize_t n = readlink(link, ret, LEARN_PATH_SIZE - 1);
        if (n < 0)
                return -errno;
        ret[n] = '\0';
        return 0;
}

/* What the call is about. An empty path: nothing that a profile speaks of. */
static int read_call(pid_t pid, const struct row *row, const uint64_t *args, struct learn_call *ret) {
        static char text[LEARN_PATH_SIZE], folder[LEARN_PATH_SIZE];
        int r;

        ret->path[0] = '\0';
        if (row->how == HOW_CONNECT)
                r = read_address(pid, args[row->path], args[2], text);
        else
                r = read_text(pid, args[row->path], text);
        /* what the kernel cannot read or take either will fail by itself */
        if (r == -EFAULT || r == -ENAMETOOLONG || (r == 0 && text[0] == '\0'))
                return 0;
        if (r == 0 && text[0] != '/') {
                r = read_folder(pid, row, args, folder);
                if (r == -ENOENT || r == -EBADF || (r == 0 && folder[0] != '/'))
                        return 0;
        }
        if (r < 0)
                return r;
        (void)snprintf(ret->path, sizeof ret->path, "%s%s%s", text[0] == '/' ? "" : folder, text[0] == '/' ? "" : "/",
                       text);
        return 0;
}

static void read_open(uint64_t flags, struct learn_call *c) {
        c->used = !(flags & O_PATH);
        c->follow = !(flags & O_NOFOLLOW);
        if (flags & O_PATH)
                return;
        if ((flags & O_TMPFILE) == O_TMPFILE) {
                size_t n = strlen(c->path);

                c->kind = LEARN_MAKE;
                (void)snprintf(c->path + n, sizeof c->path - n, "/new");
        } else if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC))) {
                c->kind = LEARN_CHANGE;
                c->create = flags & O_CREAT;
        }
}

static void read_how(const struct row *row, const uint64_t *args, struct learn_call *c) {
        uint64_t flags = row->flags == NONE ? 0 : args[row->flags];

        c->kind = LEARN_READ;
        c->follow = !(flags & AT_SYMLINK_NOFOLLOW);
        switch (row->how) {
        case HOW_OPEN:
                read_open(flags, c);
                break;
        case HOW_LOOK:
                break;
        case HOW_LINK:
                c->follow = false;
                break;
        case HOW_ENTER:
                c->used = true;
                break;
        case HOW_EXEC:
                c->kind = LEARN_EXEC;
                break;
        case HOW_MAKE:
                c->kind = LEARN_MAKE;
                c->follow = false;
                break;
        case HOW_PUT:
                c->kind = LEARN_CHANGE;
                c->create = true;
                c->follow = false;
                break;
        case HOW_CHANGE:
                c->kind = LEARN_CHANGE;
                break;
        case HOW_REMOVE:
                c->kind = LEARN_CHANGE;
                c->follow = false;
                break;
        case HOW_CONNECT:
                c->kind = LEARN_CONNECT;
                break;
        }
}

struct watch {
        int listener;
        int root; /* the sandbox's; all its processes have the same, because none can leave it */
        pid_t guest;
        struct learn_notes *notes;
};

/* Raw: libcs disagree about the type of a request. */
static int ask(const struct watch *w, unsigned long request, void *argument) {
        return (int)kernel_result(syscall(SYS_ioctl, w->listener, request, argument));
}

static bool still_there(const struct watch *w, uint64_t id) {
        return ask(w, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static int open_root(pid_t pid) {
        char path[64];

        (void)snprintf(path, sizeof path, "/proc/%d/root", pid);
        return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Reads what the call names and looks at it inside. Returns how many paths there are to be judged. */
static size_t note_call(struct watch *w, const struct seccomp_notif *n, struct learn_call calls[CALL_PATHS]) {
        size_t count = 0;
        uint64_t args[6];
        pid_t pid = (pid_t)n->pid;

        memcpy(args, n->data.args, sizeof args);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (rows[i].number != n->data.nr || count >= CALL_PATHS)
                        continue;
                struct learn_call *c = &calls[count];
                *c = (struct learn_call){.inside = -EBADF};
                int r = read_call(pid, &rows[i], args, c);
                _cleanup_fd_ int root = r == 0 && w->root < 0 ? open_root(pid) : -EBADF;
                /* the number of a process that has ended may be another's by now */
                if (!still_there(w, n->id))
                        return count;
                if (w->root < 0)
                        w->root = TAKE_FD(root);
                if (r < 0 || w->root < 0) {
                        w->notes->unread++;
                        return count;
                }
                if (c->path[0] != '/')
                        continue;
                read_how(&rows[i], args, c);
                learn_look(w->root, c);
                count++;
        }
        return count;
}

/* One call: noted, then let go on. */
static void take_call(struct watch *w) {
        static struct learn_call calls[CALL_PATHS]; /* too large for the stack of a loop */
        size_t count = 0;
        union { /* a newer kernel may have more to say than our headers know */
                struct seccomp_notif n;
                char room[1024];
        } told;
        union {
                struct seccomp_notif_resp r;
                char room[1024];
        } answer;

        memset(&told, 0, sizeof told);
        if (ask(w, SECCOMP_IOCTL_NOTIF_RECV, &told) < 0)
                return; /* the caller was killed meanwhile */
        if (w->guest == 0)
                w->guest = (pid_t)told.n.pid; /* the first call is the cell's, into the guest */
        else if ((pid_t)told.n.pid != w->guest) {
                w->notes->calls++;
                count = note_call(w, &told.n, calls);
        }
        memset(&answer, 0, sizeof answer);
        answer.r.id = told.n.id;
        answer.r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        (void)ask(w, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        for (size_t i = 0; i < count; i++)
                learn_judge(w->root, &calls[i], w->notes);
}

/* Waits for the listener, which comes once, from the cell, before anything foreign runs. */
static int receive_listener(int socket) {
        struct pollfd p = {.fd = socket, .events = POLLIN};
        struct report m;
        int fds[CELL_REPORT_FDS];
        size_t count;

        while (poll(&p, 1, -1) < 0 && errno == EINTR)
                ;
        if (cell_receive(socket, &m, NULL, fds, &count) != 1)
                return -EPIPE;
        return m.kind == REPORT_LEARN && count == 1 ? fds[0] : -EBADMSG;
}

_noreturn_ void learn_watch(int socket, struct learn_notes *notes) {
        struct watch w = {.listener = receive_listener(socket), .root = -EBADF, .notes = notes};
        struct pollfd p = {.fd = w.listener, .events = POLLIN};

        (void)close(socket);
        while (w.listener >= 0) {
                if (poll(&p, 1, -1) < 0 && errno != EINTR)
                        break;
                if (p.revents & POLLIN)
                        take_call(&w);
                else if (p.revents & (POLLHUP | POLLERR | POLLNVAL))
                        break; /* nobody is left under the filter */
        }
        _exit(0);
}
