/* Attempts on other processes: PID 1, the host's, the terminal; and on the walls around processes: namespaces, other
 * entries into the kernel, priorities. host-pid=N is a process of the judge's that counts the signals it gets; as a
 * control nobody else is touched. */
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "probe/probe.h"

/* The victim; 0 if there is none, or if its number is nobody's in a pid namespace of our own. */
static pid_t host_pid(struct result *r) {
        pid_t pid = probe_victim(), given = (pid_t)probe_number("host-pid", 0);

        /* in a pid namespace of our own a number that is somebody's is one of ours: the host's has none here */
        if (given > 0 && probe_own_init() && kill(given, 0) == 0) {
                probe_refused(r, ESRCH, "%d is another process here", (int)given);
                return 0;
        }
        if (pid == 0 && given > 0 && probe_own_init() && kill(given, 0) < 0 && errno == ESRCH)
                probe_refused(r, ESRCH, "%d is nobody's number here", (int)given);
        else if (pid == 0)
                probe_note(r, "no host-pid=N given, or it is gone");
        return pid;
}

/* Every way to signal one process. The judge's process would count it. */
static void kill_host(struct result *r) {
        pid_t pid = host_pid(r);
        siginfo_t info = {.si_code = SI_QUEUE};

        if (pid == 0)
                return;
        if (kill(pid, SIGUSR1) == 0 || syscall(SYS_tkill, pid, SIGUSR1) == 0 ||
            syscall(SYS_tgkill, pid, pid, SIGUSR1) == 0 || syscall(SYS_rt_sigqueueinfo, pid, SIGUSR1, &info) == 0)
                probe_done(r, "sent");
        else
                probe_refused(r, errno, "%s", strerror(errno));
}

static void pidfd_host(struct result *r) {
        pid_t pid = host_pid(r);
        long fd = pid == 0 ? -1 : syscall(SYS_pidfd_open, pid, 0);

        if (pid == 0)
                return;
        if (fd < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        probe_done(r, "opened, signal %ld", syscall(SYS_pidfd_send_signal, (int)fd, SIGUSR1, NULL, 0));
}

/* A descriptor that tells its owner by a signal: make the host's process the owner. */
static void owner_signal(struct result *r) {
        int ends[2];
        pid_t pid = host_pid(r);

        if (pid != 0 && pipe(ends) == 0)
                probe_call(r, fcntl(ends[0], F_SETOWN, pid));
}

/* A timer whose signal goes to a thread that is not ours. */
static void timer_host(struct result *r) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
        int id;

        event.sigev_notify_thread_id = 1;
        probe_call(r, syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id));
}

/* Everybody with our id, where that is nobody but the sandbox; outside a sandbox the victim stands for all. */
static void priority_user(struct result *r) {
        int before = getpriority(PRIO_PROCESS, 0);

        if (probe_guard()) {
                pid_t pid = host_pid(r);

                if (pid != 0)
                        probe_call(r, setpriority(PRIO_PROCESS, (id_t)pid, getpriority(PRIO_PROCESS, (id_t)pid) + 1));
                return;
        }
        /* as many as have our id outside; the judge looks at its own */
        if (setpriority(PRIO_USER, 0, before + 1) < 0)
                probe_refused(r, errno, "%s", strerror(errno));
        else
                probe_refused(r, 0, "worked for the processes that can be seen here");
}

/* Calls that take a pid and change somebody. */
static void adjust_host(struct result *r) {
        pid_t pid = host_pid(r);
        unsigned long mask = 1;
        struct rlimit limit;
        int error = ESRCH;

        if (pid == 0)
                return;
        if (syscall(SYS_prlimit64, pid, RLIMIT_CORE, NULL, &limit) == 0)
                probe_done(r, "prlimit");
        else
                error = errno;
        if (syscall(SYS_sched_getaffinity, pid, sizeof mask, &mask) > 0)
                probe_done(r, "affinity");
        if (getpgid(pid) > 0)
                probe_done(r, "process group");
        if (syscall(SYS_ioprio_get, 1, pid) >= 0)
                probe_done(r, "i/o priority");
        if (r->outcome != DONE)
                probe_refused(r, error, "%s", strerror(error));
}

static void ptrace_init(struct result *r) {
        if (!probe_own_init()) {
                probe_note(r, "PID 1 is the host's");
                return;
        }
        long value = ptrace(PTRACE_SEIZE, 1, NULL, NULL);
        int error = errno;

        if (value == 0)
                (void)ptrace(PTRACE_DETACH, 1, NULL, NULL);
        errno = error;
        probe_call(r, value);
}

static void vm_read_init(struct result *r) {
        char byte;
        struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};

        probe_call(r, process_vm_readv(1, &here, 1, &there, 1, 0));
        if (r->outcome == REFUSED && r->error == EFAULT)
                probe_done(r, "allowed, but nothing is mapped there");
}

static void kcmp_init(struct result *r) {
        probe_call(r, syscall(SYS_kcmp, getpid(), 1, KCMP_FILE, 0, 0));
}

static void steal_descriptor(struct result *r) {
        if (!probe_own_init()) {
                probe_note(r, "PID 1 is the host's");
                return;
        }
        long pidfd = syscall(SYS_pidfd_open, 1, 0);
        int error = errno;

        if (pidfd < 0)
                probe_refused(r, error, "pidfd_open: %s", strerror(error));
        else
                probe_call(r, syscall(SYS_pidfd_getfd, (int)pidfd, 3, 0));
}

/* All of these are real: they run only where PID 1 and everybody else is the sandbox's. */
static void kill_init(struct result *r) {
        static const int signals[] = {SIGKILL, SIGSTOP, SIGTERM, SIGSEGV, SIGHUP, SIGUSR1};

        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void)kill(1, signals[i]);
        long pidfd = syscall(SYS_pidfd_open, 1, 0);
        if (pidfd >= 0)
                (void)syscall(SYS_pidfd_send_signal, (int)pidfd, SIGKILL, NULL, 0);
        struct timespec t = {.tv_nsec = 50000000};
        (void)nanosleep(&t, NULL);
        probe_refused(r, 0, "PID 1 is still there, or nobody would read this");
}

static void kill_all(struct result *r) {
        (void)signal(SIGUSR1, SIG_IGN);
        if (kill(-1, SIGUSR1) < 0)
                probe_refused(r, errno, "%s", strerror(errno));
        else
                probe_refused(r, 0, "sent to everybody that can be seen here");
}

static void unshare_one(struct result *r, unsigned long flag) {
        probe_call(r, syscall(SYS_unshare, flag));
}

static void unshare_user(struct result *r) {
        unshare_one(r, CLONE_NEWUSER);
}

static void unshare_network(struct result *r) {
        unshare_one(r, CLONE_NEWNET);
}

static void unshare_mount(struct result *r) {
        unshare_one(r, CLONE_NEWNS);
}

static void unshare_pid(struct result *r) {
        unshare_one(r, CLONE_NEWPID);
}

static void unshare_time(struct result *r) {
        unshare_one(r, 0x80 /* CLONE_NEWTIME */);
}

static void clone_user(struct result *r) {
        long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

        if (pid == 0)
                _exit(0);
        probe_call(r, pid);
}

static void clone3_user(struct result *r) {
        struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
        pid_t pid = kernel_clone3(&args);

        if (pid == 0)
                _exit(0);
        errno = -pid;
        probe_call(r, pid < 0 ? -1 : pid);
}

#ifdef __x86_64__
static void x32(struct result *r) {
        probe_call(r, syscall(0x40000000 | SYS_getpid));
}

static void i386(struct result *r) {
        long value = 20; /* getpid there */

        __asm__ volatile("int $0x80" : "+a"(value) : : "r8", "r9", "r10", "r11", "memory");
        if (value < 0)
                errno = (int)-value;
        probe_call(r, value < 0 ? -1 : value);
}

/* The numbers of the other table mean other calls: 165 there is mount's neighbour. */
static void i386_clone(struct result *r) {
        long value = 310; /* unshare there */

        __asm__ volatile("int $0x80" : "+a"(value) : "b"(CLONE_NEWUSER) : "r8", "r9", "r10", "r11", "memory");
        if (value < 0)
                errno = (int)-value;
        probe_call(r, value < 0 ? -1 : value);
}
#endif

int probe_other_end(int master) {
        int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        unsigned number;
        char path[32];

        if (fd >= 0 || errno != ENOTTY)
                return fd < 0 ? -errno : fd;
        if (syscall(SYS_ioctl, master, TIOCGPTN, &number) < 0)
                return -errno;
        (void)snprintf(path, sizeof path, "/dev/pts/%u", number);
        fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* A terminal of our own: what may be done to it may be done to one that is inherited. Its other end stays open. */
static int terminal(int *ret_master) {
        int unlock = 0;

        *ret_master = -EBADF;
        (void)signal(SIGHUP, SIG_IGN); /* when its other end closes */
        if (probe_fact("use-stdin"))
                return fcntl(0, F_DUPFD_CLOEXEC, 3);
        *ret_master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (*ret_master < 0 || ioctl(*ret_master, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        int fd = probe_other_end(*ret_master);
        if (fd < 0)
                return fd;
        /* our own session, so that it can be our controlling terminal and nothing else stands in the way */
        (void)setsid();
        (void)ioctl(fd, TIOCSCTTY, 0);
        return fd;
}

static void tty_call(struct result *r, unsigned long request, void *argument) {
        _cleanup_fd_ int master = -EBADF;
        _cleanup_fd_ int fd = terminal(&master);

        if (fd < 0)
                probe_note(r, "no terminal: %s", strerror(-fd));
        else {
                long value = syscall(SYS_ioctl, fd, request, argument);
                /* EIO: injecting is switched off for the whole host; the call itself came through */
                probe_gate(r, value);
        }
}

static void tty_inject(struct result *r) {
        char byte = 'x';

        tty_call(r, TIOCSTI, &byte);
}

static void tty_inject_high(struct result *r) {
        char byte = 'x';

        tty_call(r, 0xdead00000000UL | TIOCSTI, &byte);
}

static void tty_linux(struct result *r) {
        char code[2] = {2, 0}; /* selection: nothing to select */

        tty_call(r, TIOCLINUX, code);
}

static void tty_discipline(struct result *r) {
        int same = 0;

        tty_call(r, TIOCSETD, &same);
}

static void tty_console(struct result *r) {
        if (probe_guard())
                probe_note(r, "would redirect the console: not outside a sandbox");
        else
                tty_call(r, TIOCCONS, NULL);
}

static void realtime(struct result *r) {
        struct sched_param p = {.sched_priority = 1};

        /* raw: musl's own does nothing */
        probe_call(r, syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p));
}

static void raise_limits(struct result *r) {
        struct rlimit now;

        if (getrlimit(RLIMIT_NOFILE, &now) < 0)
                return;
        now.rlim_cur = ++now.rlim_max;
        probe_call(r, setrlimit(RLIMIT_NOFILE, &now));
}

static void oom_shield(struct result *r) {
        probe_answer(r, probe_open("/proc/self/oom_score_adj", O_WRONLY));
}

/* A core dump that is piped to a program of the host runs whatever the limit is, unless the limit is 1. */
static void core_dump(struct result *r) {
        struct rlimit limit;
        char pattern[256] = "";

        (void)getrlimit(RLIMIT_CORE, &limit);
        (void)fd_read_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern);
        probe_note(r, "limit %llu, pattern '%.40s'", (unsigned long long)limit.rlim_max, pattern);
        if (limit.rlim_max > 1)
                probe_done(r, "a core file can be written");
        else if (limit.rlim_cur != 1)
                probe_done(r, "a core_pattern that pipes to a program would start it on the host");
        else
                probe_refused(r, EPERM, "neither a file nor a program");
}

/* A listener could answer for others and hold them for ever. */
static void filter_listener(struct result *r) {
        struct {
                unsigned short code;
                unsigned char jt, jf;
                unsigned k;
        } allow = {0x06, 0, 0, SECCOMP_RET_ALLOW};
        struct {
                unsigned short len;
                void *filter;
        } program = {1, &allow};

        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        probe_call(r, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

static void prctl_options(struct result *r) {
        static const struct {
                int option;
                unsigned long a, b;
                const char *name;
        } list[] = {{PR_SET_MM, 8 /* brk */, 0, "PR_SET_MM"},
                    {57, 1, 0, "PR_SET_IO_FLUSHER"},
                    {59, 0, 0, "PR_SET_SYSCALL_USER_DISPATCH"},
                    {62, 1, 0, "PR_SCHED_CORE"},
                    {67, 1, 0, "PR_SET_MEMORY_MERGE"}};
        unsigned worked = 0;
        int error = EPERM;

        for (size_t i = 0; i < ELEMENTSOF(list); i++) {
                if (prctl(list[i].option, list[i].a, list[i].b, 0, 0) == 0) {
                        worked++;
                        probe_note(r, "%s", list[i].name);
                } else
                        error = errno;
        }
        if (worked)
                probe_done(r, "%u worked", worked);
        else
                probe_refused(r, error, "none worked");
}

/* Shared memory, queues and keys that the judge made on the host: shm-key=N, mq=/NAME. */
static void sysv_shared(struct result *r) {
        int id = probe_fact("shm-key") ? shmget((key_t)probe_number("shm-key", 0), 0, 0) : -1;

        if (!probe_fact("shm-key")) {
                probe_note(r, "no shm-key=N given");
                return;
        }
        if (id < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        const char *at = shmat(id, NULL, SHM_RDONLY);
        probe_done(r, "attached: %.100s", at == (void *)-1 ? strerror(errno) : at);
}

static void posix_queue(struct result *r) {
        const char *name = probe_fact("mq");

        if (!name)
                probe_note(r, "no mq=NAME given");
        else /* raw: the kernel's name has no slash */
                probe_call(r, syscall(SYS_mq_open, name, O_RDONLY | O_CLOEXEC, 0, NULL));
}

const struct attempt processes_attempts[] = {
        {"kill-host", kill_host, QUICK},
        {"pidfd-host", pidfd_host, QUICK},
        {"owner-signal", owner_signal, QUICK},
        {"timer-init", timer_host, QUICK},
        {"priority-user", priority_user, QUICK},
        {"adjust-host", adjust_host, QUICK},
        {"ptrace-init", ptrace_init, QUICK},
        {"vm-read-init", vm_read_init, QUICK},
        {"kcmp-init", kcmp_init, QUICK},
        {"steal-descriptor", steal_descriptor, QUICK},
        {"kill-init", kill_init, GUARDED},
        {"kill-all", kill_all, GUARDED},
        {"unshare-user", unshare_user, QUICK},
        {"unshare-network", unshare_network, QUICK},
        {"unshare-mount", unshare_mount, QUICK},
        {"unshare-pid", unshare_pid, QUICK},
        {"unshare-time", unshare_time, QUICK},
        {"clone-user", clone_user, QUICK},
        {"clone3-user", clone3_user, QUICK},
#ifdef __x86_64__
        {"x32", x32, QUICK},
        {"i386", i386, QUICK},
        {"i386-unshare", i386_clone, QUICK},
#endif
        {"tty-inject", tty_inject, QUICK},
        {"tty-inject-high", tty_inject_high, QUICK},
        {"tty-linux", tty_linux, QUICK},
        {"tty-discipline", tty_discipline, QUICK},
        {"tty-console", tty_console, QUICK},
        {"realtime", realtime, QUICK},
        {"raise-limits", raise_limits, QUICK},
        {"oom-shield", oom_shield, QUICK},
        {"core-dump", core_dump, QUICK},
        {"filter-listener", filter_listener, QUICK},
        {"prctl-options", prctl_options, QUICK},
        {"sysv-shared", sysv_shared, QUICK},
        {"posix-queue", posix_queue, QUICK},
        {0},
};
