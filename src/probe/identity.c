/* Attempts to be somebody else, or to have more than one's share: ids, credentials, priorities, alarms, and what of
 * others can be seen or reached without their pid namespace. All of it concerns this process alone and ends with it. */
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

#ifndef CLOCK_BOOTTIME_ALARM
#define CLOCK_BOOTTIME_ALARM 9
#endif
#ifndef SHM_STAT_ANY
#define SHM_STAT_ANY 15
#endif

/* Another user, another group, or no groups at all: a group can also be what keeps somebody out. Raw calls: the C
 * library's would tell other threads. */
static void change_ids(struct result *r) {
        static const unsigned ids[] = {0, 1, 2, 65533};
        int error = EPERM;

        for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
                if (ids[i] == geteuid() || ids[i] == getegid())
                        continue;
                if (syscall(SYS_setgroups, 1, &ids[i]) == 0)
                        probe_done(r, "in group %u", ids[i]);
                else if (syscall(SYS_setresgid, ids[i], ids[i], ids[i]) == 0)
                        probe_done(r, "group %u", ids[i]);
                else if (syscall(SYS_setresuid, ids[i], ids[i], ids[i]) == 0)
                        probe_done(r, "user %u", ids[i]);
                else
                        error = errno;
                if (r->outcome == DONE)
                        return;
        }
        probe_refused(r, error, "%s", strerror(error));
}

/* Capabilities that survive a change of ids. */
static void keep_capabilities(struct result *r) {
        probe_call(r, prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
}

/* Says to be another process and another user, as services believe it of who talks to them. */
static void forge_credentials(struct result *r) {
        int ends[2];
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(struct ucred))];
        } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(struct ucred)),
                                .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_CREDENTIALS}};
        struct ucred who = {.pid = getppid(), .uid = geteuid() + 1, .gid = getegid() + 1};
        struct iovec byte = {.iov_base = (char[]){"x"}, .iov_len = 1};
        struct msghdr message = {
                .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};

        if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0)
                return;
        for (int i = 0; i < 2 && r->outcome != DONE; i++) { /* both; then only the ids */
                memcpy(CMSG_DATA(&control.header), &who, sizeof who);
                if (sendmsg(ends[0], &message, MSG_NOSIGNAL) >= 0)
                        probe_done(r, "said to be user %u in process %d", who.uid, who.pid);
                else
                        probe_refused(r, errno, "%s", strerror(errno));
                who.pid = getpid();
        }
}

/* Before everybody else at the disk. */
static void io_realtime(struct result *r) {
        enum { REALTIME = 1 << 13, WHO_PROCESS = 1 };

        probe_call(r, syscall(SYS_ioprio_set, WHO_PROCESS, 0, REALTIME));
}

static void raise_priority(struct result *r) {
        int now = getpriority(PRIO_PROCESS, 0);

        probe_call(r, setpriority(PRIO_PROCESS, 0, now > -20 ? now - 1 : now));
}

/* An alarm that wakes the machine. It is made and never set. */
static void wake_alarm(struct result *r) {
        probe_call(r, timerfd_create(CLOCK_BOOTTIME_ALARM, TFD_CLOEXEC));
}

/* A tracer that takes its child's system call filter away for a while. */
static void suspend_filter(struct result *r) {
        enum { SUSPEND_SECCOMP = 1 << 21 };
        pid_t child = fork();

        if (child < 0)
                return;
        if (child == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;)
                        (void)pause();
        }
        probe_call(r, ptrace(PTRACE_SEIZE, child, NULL, (void *)(uintptr_t)SUSPEND_SECCOMP));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
}

/* clone takes the low half of its flags: what is above must not hide a namespace. */
static void clone_high_bits(struct result *r) {
        long pid = syscall(SYS_clone, 0xffffffff00000000UL | CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

        if (pid == 0)
                _exit(0);
        probe_call(r, pid);
}

/* Shared memory and queues by counting, not by key: whose is it? */
static void ipc_scan(struct result *r) {
        struct shmid_ds memory;
        struct msqid_ds queue;
        unsigned found = 0;

        for (int i = 0; i < 64; i++) {
                found += shmctl(i, SHM_STAT_ANY, &memory) >= 0;
                found += msgctl(i, 11 /* MSG_STAT */, &queue) >= 0;
        }
        if (found)
                probe_done(r, "%u things of others", found);
        else
                probe_refused(r, EINVAL, "there is nothing");
}

/* A process in another sandbox. Signal 0 is none. */
static void sibling_process(struct result *r) {
        pid_t pid = (pid_t)probe_number("sibling-pid", 0);
        struct rlimit limit;
        int error;

        if (pid <= 1) {
                probe_note(r, "no sibling-pid=N given");
                return;
        }
        if (kill(pid, 0) == 0 || syscall(SYS_prlimit64, pid, RLIMIT_CORE, NULL, &limit) == 0 ||
            syscall(SYS_pidfd_open, pid, 0) >= 0) {
                probe_done(r, "it can be reached");
                return;
        }
        error = errno;
        probe_refused(r, error, "%s", strerror(error));
}

/* The session and with it the terminal of whoever started us. */
static void caller_session(struct result *r) {
        pid_t session = getsid(0);

        if (session == 0 || (!probe_own_init() && session != getpid()))
                probe_done(r, "the session's leader is outside");
        else if (probe_open("/dev/tty", O_RDWR) == 0 && !probe_own_init())
                probe_done(r, "the caller's terminal can be opened");
        else
                probe_refused(r, ESRCH, "the session began in here, at %d", session);
}

/* Where we are among the host's cgroups. */
/* The daemon puts each run of a sandbox into a group of its own: below the sandbox's, if that is the root here, or
 * beside the guest's (cgroup v2 has processes in leaves alone). Its name is no news, and says nothing of the host. */
static bool is_own_run(const char *path) {
        path += str_starts(path, "/../run-") ? strlen("/..") : 0;
        const char *number = path + strlen("/run-");

        if (!str_starts(path, "/run-") || *number < '1' || *number > '9')
                return false;
        number += strspn(number, "0123456789");
        return *number == '\n' || *number == '\0';
}

static void cgroup_path(struct result *r) {
        char text[4096] = "";
        ssize_t n = fd_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);

        for (char *line = n > 0 ? text : NULL; line && *line;
             line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
                char *path = strchr(line, ':') ? strchr(strchr(line, ':') + 1, ':') : NULL;

                if (path && path[1] == '/' && path[2] != '\n' && path[2] != '\0' && !is_own_run(path + 1)) {
                        probe_done(r, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
                        return;
                }
        }
        probe_refused(r, n < 0 ? (int)-n : ENODATA, "every path is /, or our own run's below it");
}

const struct attempt identity_attempts[] = {
        {"change-ids", change_ids, QUICK},
        {"keep-capabilities", keep_capabilities, QUICK},
        {"forge-credentials", forge_credentials, QUICK},
        {"io-realtime", io_realtime, QUICK},
        {"raise-priority", raise_priority, QUICK},
        {"wake-alarm", wake_alarm, QUICK},
        {"suspend-filter", suspend_filter, QUICK},
        {"clone-high-bits", clone_high_bits, QUICK},
        {"ipc-scan", ipc_scan, QUICK},
        {"sibling-process", sibling_process, QUICK},
        {"caller-session", caller_session, QUICK},
        {"cgroup-path", cgroup_path, QUICK},
        {0},
};
