/* Attempts to use up what everybody shares. All of them are GUARDED, and each stops at a ceiling (ceiling=N, above what
 * the sandbox may have) or when the alarm of its process rings: where nothing holds them back, they still end. */
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

#define MIB (1UL << 20)

static unsigned long ceiling(unsigned long otherwise) {
        return probe_number("ceiling", otherwise);
}

static void pause_for_ever(void) {
        for (;;)
                (void)pause();
}

/* Children that stay; counts how many came to be. */
static void processes(struct result *r) {
        unsigned long made = 0, most = ceiling(4096);
        int error = 0;

        while (made < most) {
                pid_t pid = fork();
                if (pid == 0) {
                        (void)alarm(5);
                        pause_for_ever();
                }
                if (pid < 0) {
                        error = errno;
                        break;
                }
                made++;
        }
        if (error)
                probe_refused(r, error, "%lu processes", made);
        else
                probe_done(r, "%lu processes", made);
}

static int thread(void *unused) {
        (void)unused;
        pause_for_ever();
        return 0;
}

static void threads(struct result *r) {
        unsigned long made = 0, most = ceiling(4096);
        int error = 0;
        char *stacks = mmap(NULL, most * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (stacks == MAP_FAILED)
                return;
        while (made < most) {
                int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
                if (clone(thread, stacks + (made + 1) * 4096, flags, NULL) < 0) {
                        error = errno;
                        break;
                }
                made++;
        }
        if (error)
                probe_refused(r, error, "%lu threads", made);
        else
                probe_done(r, "%lu threads", made);
}

/* Orphans that end at once: somebody must reap them. */
static void zombies(struct result *r) {
        unsigned long most = ceiling(2000), refused = 0;

        for (unsigned long i = 0; i < most; i++) {
                pid_t pid = fork();
                if (pid == 0) {
                        if (fork() == 0)
                                _exit(0);
                        _exit(0);
                }
                if (pid < 0)
                        refused++;
                else
                        (void)waitpid(pid, NULL, 0);
        }
        if (refused > most / 2)
                probe_done(r, "%lu of %lu forks were refused: nobody reaps", refused, most);
        else
                probe_refused(r, 0, "%lu orphans, %lu forks refused", most, refused);
}

static void memory(struct result *r) {
        unsigned long size = 0, most = ceiling(1024 * MIB);

        while (size < most) {
                char *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED) {
                        probe_refused(r, errno, "%lu MiB", size / MIB);
                        return;
                }
                for (size_t i = 0; i < 4 * MIB; i += 4096)
                        p[i] = 1;
                size += 4 * MIB;
                r->outcome = NOT_TRIED;
                (void)snprintf(r->evidence, sizeof r->evidence, "%lu MiB", size / MIB);
        }
        probe_done(r, "all of it");
}

static void fill(struct result *r, const char *folder, unsigned long most) {
        static char block[1 << 20];
        char path[PATH_MAX];
        unsigned long size = 0;

        (void)snprintf(path, sizeof path, "%s/probe-fill-%d", folder, getpid());
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) {
                probe_note(r, "cannot make a file there: %s", strerror(errno));
                return;
        }
        memset(block, 1, sizeof block);
        while (size < most) {
                ssize_t n = write(fd, block, sizeof block);
                if (n < 0) {
                        probe_refused(r, errno, "%lu MiB", size / MIB);
                        (void)unlink(path);
                        return;
                }
                size += (unsigned long)n;
        }
        (void)unlink(path);
        probe_done(r, "%lu MiB", size / MIB);
}

static void fill_folder(struct result *r) {
        fill(r, probe_folder(), ceiling(2048 * MIB));
}

static void fill_shm(struct result *r) {
        fill(r, "/dev/shm", ceiling(512 * MIB));
}

/* Space that is promised and not used yet must count too. */
static void allocate(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = probe_scratch(path, sizeof path, "alloc");

        if (fd < 0)
                return;
        if (fallocate(fd, 0, 0, (off_t)ceiling(2048 * MIB)) < 0)
                probe_refused(r, errno, "%s", strerror(errno));
        else
                probe_done(r, "%lu MiB in one call", ceiling(2048 * MIB) / MIB);
        (void)unlink(path);
}

static void inodes(struct result *r) {
        unsigned long most = ceiling(300000), made;
        char path[PATH_MAX], folder[PATH_MAX / 2];

        (void)snprintf(folder, sizeof folder, "%s/probe-many-%d", probe_folder(), getpid());
        (void)mkdir(folder, 0700);
        for (made = 0; made < most; made++) {
                (void)snprintf(path, sizeof path, "%s/%lu", folder, made);
                int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (fd < 0) {
                        probe_refused(r, errno, "%lu files", made);
                        break;
                }
                (void)close(fd);
        }
        if (made == most)
                probe_done(r, "%lu files", made);
        for (unsigned long i = 0; i < made; i++) {
                (void)snprintf(path, sizeof path, "%s/%lu", folder, i);
                (void)unlink(path);
        }
}

static void deep(struct result *r) {
        unsigned long most = ceiling(20000), made = 0;

        if (chdir(probe_folder()) < 0)
                return;
        while (made < most && mkdir("d", 0700) == 0 && chdir("d") == 0)
                made++;
        if (made == most)
                probe_done(r, "%lu folders deep", made);
        else
                probe_refused(r, errno, "%lu folders deep", made);
}

static void descriptors(struct result *r) {
        unsigned long most = ceiling(100000), made = 0;

        while (made < most) {
                int ends[2];
                if (pipe(ends) < 0) {
                        probe_refused(r, errno, "%lu pipes", made);
                        return;
                }
                made++;
        }
        probe_done(r, "%lu pipes", made);
}

static void terminals(struct result *r) {
        unsigned long most = ceiling(1024), made = 0;

        while (made < most) {
                if (open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) < 0) {
                        probe_refused(r, errno, "%lu terminals", made);
                        return;
                }
                made++;
        }
        probe_done(r, "%lu terminals", made);
}

/* Shared memory that no process has attached: charged to the sandbox, or free for all. */
static void sysv_memory(struct result *r) {
        unsigned long size = 0, most = ceiling(1024 * MIB);

        while (size < most) {
                int id = shmget(IPC_PRIVATE, 16 * MIB, IPC_CREAT | 0600);
                char *at = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
                if (at == (void *)-1) {
                        probe_refused(r, errno, "%lu MiB", size / MIB);
                        return;
                }
                for (size_t i = 0; i < 16 * MIB; i += 4096)
                        at[i] = 1;
                (void)shmdt(at);
                size += 16 * MIB;
                (void)snprintf(r->evidence, sizeof r->evidence, "%lu MiB", size / MIB);
        }
        probe_done(r, "all of it");
}

static void queues(struct result *r) {
        struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
        char name[64];
        unsigned long made, most = ceiling(512);

        for (made = 0; made < most; made++) {
                (void)snprintf(name, sizeof name, "probe-%lu", made);
                if (syscall(SYS_mq_open, name, O_CREAT | O_RDWR, 0600, &attr) < 0) {
                        probe_refused(r, errno, "%lu queues", made);
                        return;
                }
        }
        probe_done(r, "%lu queues", made);
}

/* Says that it has what it could get and keeps it for hold=MS, while the judge looks at what is left for others. */
static void hold(struct result *r, unsigned long made, unsigned long most, int error) {
        struct timespec t = {.tv_sec = (time_t)(probe_number("hold", 0) / 1000)};

        (void)fd_write_full(STDOUT_FILENO, "full\n", 5);
        (void)nanosleep(&t, NULL);
        if (made == most)
                probe_done(r, "%lu of them", made);
        else
                probe_refused(r, error, "%lu of them", made);
}

static void watchers(struct result *r) {
        unsigned long made = 0, most = ceiling(900);

        while (made < most && inotify_init1(IN_CLOEXEC) >= 0)
                made++;
        hold(r, made, most, errno);
}

static void timers(struct result *r) {
        unsigned long made = 0, most = ceiling(200000);
        int id;

        while (made < most && syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, &id) == 0)
                made++;
        hold(r, made, most, errno);
}

/* Descriptors in sockets that nobody reads. */
static void in_flight(struct result *r) {
        enum { EACH = 200 };
        unsigned long made = 0, most = ceiling(8000);
        int ends[2] = {-1, -1}, error = 0;
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int) * EACH)];
        } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int) * EACH),
                                .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_RIGHTS}};
        struct iovec byte = {.iov_base = (char[]){"x"}, .iov_len = 1};
        struct msghdr message = {
                .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};

        while (made < most && error == 0) {
                if (ends[0] < 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
                        error = errno;
                else if (sendmsg(ends[0], &message, MSG_NOSIGNAL) >= 0)
                        made += EACH;
                else if (errno == EAGAIN)
                        ends[0] = -1; /* full: the next pair */
                else
                        error = errno;
        }
        hold(r, made, most, error);
}

/* Two processes that only compute, for ms=N of wall time. */
static void spin(struct result *r) {
        unsigned long ms = probe_number("ms", 1000);
        struct timespec start, now;

        for (int i = 1; i < 4; i++)
                if (fork() == 0)
                        break;
        (void)clock_gettime(CLOCK_MONOTONIC, &start);
        do
                (void)clock_gettime(CLOCK_MONOTONIC, &now);
        while ((unsigned long)((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000) < ms);
        probe_done(r, "computed for %lu ms", ms);
}

void probe_pour(struct result *r, int fd, unsigned long most) {
        static char block[65536];
        unsigned long size = 0;

        memset(block, 'x', sizeof block);
        while (size < most) {
                ssize_t n = write(fd, block, sizeof block);
                if (n < 0) {
                        probe_refused(r, errno, "%lu MiB", size / MIB);
                        return;
                }
                size += (unsigned long)n;
        }
        probe_done(r, "%lu MiB", size / MIB);
}

static void flood(struct result *r) {
        probe_pour(r, STDOUT_FILENO, ceiling(256 * MIB));
}

/* Blocks whatever can be blocked, then never ends. */
static void stubborn(struct result *r) {
        sigset_t all;

        (void)r;
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        (void)alarm(0);
        if (fork() == 0) {
                if (probe_guard())
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)raise(SIGSTOP);
        } else if (probe_fact("say")) /* to a judge that wants to know when it is deaf */
                (void)fd_write_full(STDOUT_FILENO, "here\n", 5);
        probe_wait_for_end();
}

const struct attempt exhaustion_attempts[] = {
        {"fork-bomb", processes, GUARDED},
        {"thread-bomb", threads, GUARDED},
        {"zombie-flood", zombies, GUARDED},
        {"memory-bomb", memory, GUARDED},
        {"fill-folder", fill_folder, GUARDED},
        {"fill-shm", fill_shm, GUARDED},
        {"fill-allocate", allocate, GUARDED},
        {"inode-bomb", inodes, GUARDED},
        {"deep-folders", deep, GUARDED},
        {"descriptor-bomb", descriptors, GUARDED},
        {"terminal-bomb", terminals, GUARDED},
        {"sysv-bomb", sysv_memory, GUARDED},
        {"queue-bomb", queues, GUARDED},
        {"inotify-bomb", watchers, GUARDED},
        {"timer-bomb", timers, GUARDED},
        {"in-flight-bomb", in_flight, GUARDED},
        {"cpu-spin", spin, GUARDED},
        {"output-flood", flood, GUARDED},
        {"stubborn", stubborn, 0},
        {0},
};
