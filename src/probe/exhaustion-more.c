/* More attempts to use up what everybody shares: kernel memory behind descriptors, names, links, locks on memory. All
 * are GUARDED, and each stops at ceiling=N or at its process's alarm. Those that a neighbour might feel keep what they
 * got for hold=MS and say "full" first, so that the judge can look at what is left for others. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

#define MIB (1UL << 20)

static unsigned long ceiling(unsigned long otherwise) {
        return probe_number("ceiling", otherwise);
}

static void finish(struct result *r, unsigned long made, unsigned long most, int error, const char *what) {
        unsigned long ms = probe_number("hold", 0);
        struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

        (void)fd_write_full(STDOUT_FILENO, "full\n", 5);
        (void)nanosleep(&t, NULL);
        if (made >= most)
                probe_done(r, "%lu %s", made, what);
        else
                probe_refused(r, error, "%lu %s", made, what);
}

/* Memory without a mapping and without a path. */
static void memfd_memory(struct result *r) {
        int fd = (int)syscall(SYS_memfd_create, "probe", 1U /* MFD_CLOEXEC */);

        if (fd < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        probe_pour(r, fd, ceiling(1024 * MIB));
}

/* One touched page in every two megabytes: nearly all of it is page tables. */
static void page_tables(struct result *r) {
        unsigned long made = 0, most = ceiling(64 * 1024); /* page tables of 4 KiB, and as many pages */
        size_t stride = 2 * MIB, size = most * stride;
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        (void)madvise(p, size, MADV_NOHUGEPAGE);
        for (; made < most; made++)
                p[made * stride] = 1;
        probe_done(r, "%lu page tables", made);
}

static void locked_memory(struct result *r) {
        unsigned long size = 0, most = ceiling(64 * MIB);

        while (size < most) {
                void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED || mlock(p, MIB) < 0) {
                        probe_refused(r, errno, "%lu MiB", size / MIB);
                        return;
                }
                size += MIB;
        }
        probe_done(r, "%lu MiB", size / MIB);
}

static void events(struct result *r) {
        unsigned long made = 0, most = ceiling(100000);

        while (made < most && eventfd(0, EFD_CLOEXEC) >= 0)
                made++;
        finish(r, made, most, errno, "eventfds");
}

/* Every poll instance watches every other descriptor: kernel memory that grows with the square. */
static void polls(struct result *r) {
        enum { ROWS = 480 };
        unsigned long made = 0, most = ceiling((unsigned long)ROWS * ROWS);
        int columns[ROWS], error = 0, count = 0;

        while (count < ROWS && (columns[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
                count++;
        while (made < most && error == 0) {
                int poll = epoll_create1(EPOLL_CLOEXEC);
                struct epoll_event e = {.events = EPOLLIN};

                if (poll < 0)
                        error = errno;
                for (int i = 0; i < count && made < most && error == 0; i++) {
                        if (epoll_ctl(poll, EPOLL_CTL_ADD, columns[i], &e) < 0)
                                error = errno;
                        else
                                made++;
                }
        }
        finish(r, made, most, error, "watches");
}

/* Bytes in pipes that nobody reads. */
static void pipe_buffers(struct result *r) {
        static char block[1 << 20];
        unsigned long size = 0, most = ceiling(256 * MIB);
        int ends[2], error = 0;

        while (size < most && error == 0) {
                if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
                        error = errno;
                        break;
                }
                (void)fcntl(ends[1], F_SETPIPE_SZ, (int)MIB);
                for (ssize_t n; (n = write(ends[1], block, sizeof block)) > 0;)
                        size += (unsigned long)n;
        }
        finish(r, size / MIB, most / MIB, error, "MiB in pipes");
}

/* Bytes in sockets that nobody reads. */
static void socket_buffers(struct result *r) {
        static char block[65536];
        unsigned long size = 0, most = ceiling(256 * MIB);
        int ends[2], error = 0;

        while (size < most && error == 0) {
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
                        error = errno;
                        break;
                }
                for (ssize_t n; (n = send(ends[0], block, sizeof block, MSG_NOSIGNAL)) > 0;)
                        size += (unsigned long)n;
                if (errno != EAGAIN)
                        error = errno;
        }
        finish(r, size / MIB, most / MIB, error, "MiB in sockets");
}

/* Signals that wait for somebody who does not take them. */
static void signals(struct result *r) {
        unsigned long made = 0, most = ceiling(200000);
        union sigval value = {0};
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGRTMIN);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        while (made < most && sigqueue(getpid(), SIGRTMIN, value) == 0)
                made++;
        finish(r, made, most, errno, "signals");
}

/* Names of the greatest length, in a folder that is then removed. */
static void long_names(struct result *r) {
        unsigned long made = 0, most = ceiling(300000);
        char folder[PATH_MAX / 2], name[256];
        int error = 0;

        (void)snprintf(folder, sizeof folder, "%s/probe-long-%d", probe_folder(), getpid());
        (void)mkdir(folder, 0700);
        _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        while (dir >= 0 && made < most && error == 0) {
                (void)snprintf(name, sizeof name, "%0255lu", made);
                _cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (fd < 0)
                        error = errno;
                else
                        made++;
        }
        for (unsigned long i = 0; i < made; i++) {
                (void)snprintf(name, sizeof name, "%0255lu", i);
                (void)unlinkat(dir, name, 0);
        }
        (void)rmdir(folder);
        finish(r, made, most, error, "names of 255 bytes");
}

/* One file under very many names. */
static void hard_links(struct result *r) {
        unsigned long made = 0, most = ceiling(300000);
        char first[PATH_MAX], path[PATH_MAX + 32];
        int error = 0;
        _cleanup_fd_ int fd = probe_scratch(first, sizeof first, "link");

        if (fd < 0) {
                probe_note(r, "no scratch file: %s", strerror(-fd));
                return;
        }
        while (made < most && error == 0) {
                (void)snprintf(path, sizeof path, "%s-%lu", first, made);
                if (link(first, path) < 0)
                        error = errno;
                else
                        made++;
        }
        for (unsigned long i = 0; i < made; i++) {
                (void)snprintf(path, sizeof path, "%s-%lu", first, i);
                (void)unlink(path);
        }
        (void)unlink(first);
        finish(r, made, most, error, "links");
}

const struct attempt exhaustion_more_attempts[] = {
        {"memfd-bomb", memfd_memory, GUARDED},
        {"page-table-bomb", page_tables, GUARDED},
        {"lock-memory-bomb", locked_memory, GUARDED},
        {"eventfd-bomb", events, GUARDED},
        {"epoll-bomb", polls, GUARDED},
        {"pipe-buffer-bomb", pipe_buffers, GUARDED},
        {"socket-buffer-bomb", socket_buffers, GUARDED},
        {"signal-bomb", signals, GUARDED},
        {"long-names", long_names, GUARDED},
        {"hard-links", hard_links, GUARDED},
        {0},
};
