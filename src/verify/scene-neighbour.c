/* What the kernel counts by user and not by cgroup: while a sandbox has as much as it could get, does its neighbour
 * still get its own? The neighbours are an ordinary process of the caller, and another sandbox of the same caller.
 *
 * The sandbox's ceilings are far below what a host has; a neighbour does the thing once. */
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/scene.h"

static bool take_inotify(void) {
        return inotify_init1(IN_CLOEXEC) >= 0;
}

static bool take_timer(void) {
        int id;

        return syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, &id) == 0;
}

static bool take_signal(void) {
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGRTMIN);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        return sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0;
}

/* With the number of descriptors that a login has: the kernel compares those in flight with that. */
static bool take_flight(void) {
        struct rlimit few = {1024, 1024};
        int ends[2], given = STDIN_FILENO;
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int))];
        } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
        struct iovec byte = {.iov_base = (char[]){"x"}, .iov_len = 1};
        struct msghdr message = {
                .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};

        memcpy(CMSG_DATA(&control.header), &given, sizeof given);
        return setrlimit(RLIMIT_NOFILE, &few) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 &&
               sendmsg(ends[0], &message, MSG_NOSIGNAL) >= 0;
}

static bool take_pipe(void) {
        int ends[2];

        return pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 256 * 1024) >= 256 * 1024;
}

static bool take_file(void) {
        return open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0;
}

static const struct share {
        const char *name, *attempt, *ceiling, *little;
        const char *what;
        bool (*take)(void);
        bool by_id; /* counted for the id alone: shared with the caller where the sandbox has no id of its own */
} shares[] = {
        {"inotify-neighbour", "inotify-bomb", "ceiling=1000", "ceiling=4", "an inotify instance", take_inotify, false},
        {"timer-neighbour", "timer-bomb", "ceiling=100000", "ceiling=50", "a timer", take_timer, false},
        {"signal-neighbour", "signal-bomb", "ceiling=100000", "ceiling=20", "a queued signal", take_signal, false},
        {"in-flight-neighbour", "in-flight-bomb", "ceiling=8000", "ceiling=200", "a descriptor in flight", take_flight,
         true},
        {"pipe-neighbour", "pipe-buffer-bomb", "ceiling=80000000", "ceiling=1000000", "a pipe of 256 KiB", take_pipe,
         true},
        {"descriptor-neighbour", "eventfd-bomb", "ceiling=100000", "ceiling=20", "an open file", take_file, false},
};

/* In a child that ends: whatever it takes goes with it. */
static bool neighbour_can(bool (*take)(void)) {
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
                /* root is exempt from most of these counts: an ordinary user is the neighbour then */
                if (geteuid() == 0 && (syscall(SYS_setgroups, 0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
                                       setresuid(65534, 65534, 65534) < 0))
                        _exit(2);
                _exit(take() ? 0 : 1);
        }
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void scene_neighbour(struct judge *j, const struct check *c, struct finding *f) {
        const struct share *s = NULL;
        struct running r = {0};
        struct said said = {0};
        char mark[SCENE_MARK];
        _cleanup_outcome_ struct outcome first = {0}, sibling = {0};
        struct err err = {0};

        for (size_t i = 0; i < ELEMENTSOF(shares); i++)
                if (str_eq(shares[i].name, c->name))
                        s = &shares[i];
        if (!s)
                return;
        finding_control(f, neighbour_can(s->take), "beforehand the neighbour gets %s", s->what);
        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .argv = WORDS("{probe}", s->attempt, s->ceiling, "hold=15000", mark),
                                 .facts = true,
                                 .timeout_ms = 20000};
        if (!scene_start(j, f, &l, &r))
                return;
        if (!launch_expect(&r, "full", 8000)) {
                (void)launch_wait(j, &r, &first, &err);
                bool spoke = said_find(&first.out, s->attempt, &said);
                finding_untried(f, "%s %.200s", spoke ? said.result : "it did not say that it has what it could get",
                                spoke ? said.evidence : "");
                scene_end(mark);
                return;
        }
        bool outside = neighbour_can(s->take);
        bool ran = scene_inside(j, f, NULL, WORDS("{probe}", s->attempt, s->little), &sibling);
        launch_kill(&r);
        scene_end(mark);
        if (!ran)
                return;
        bool inside = said_find(&sibling.out, s->attempt, &said) && str_eq(said.result, "done");
        if (outside && inside)
                finding_promised(f, "the host and a sibling sandbox still get %s", s->what);
        else if (s->by_id && j->uid != 0)
                finding_untried(f,
                                "not promised without root: the kernel counts this by id, and the sandbox has the "
                                "caller's; %s was left without",
                                outside ? "a sibling" : "the caller");
        else
                finding_open(f, "%s cannot get %s any more", outside ? "a sibling sandbox" : "the host", s->what);
}

/* Message queues live in an ipc namespace: what the host sees of them decides. */
void scene_queues(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        struct said said = {0};
        char own[64];

        if (!scene_inside(j, f, NULL, WORDS("{probe}", c->name, "ceiling=400"), &o))
                return;
        bool spoke = scene_said(&o.out, c->name, &said, f);
        if (syscall(SYS_mq_unlink, "probe-0") == 0) {
                finding_open(f, "a queue that it made is the host's");
                for (unsigned i = 1; i < 400; i++) {
                        char name[32];

                        (void)snprintf(name, sizeof name, "probe-%u", i);
                        if (syscall(SYS_mq_unlink, name) < 0)
                                break;
                }
        } else if (!spoke || str_eq(said.result, "guarded") || str_eq(said.result, "not tried"))
                finding_untried(f, "%s: %.200s", spoke ? said.result : "it said nothing", said.evidence);
        else if (str_eq(said.result, "done"))
                scene_worked(j, c, f, "it made %.100s", said.evidence);
        else if (check_expects(c, said.error))
                finding_promised(f, "refused with %s at %.100s; the host has none of them", said.error, said.evidence);
        else
                finding_otherwise(f, "refused with %s: %.100s", said.error, said.evidence);
        (void)snprintf(own, sizeof own, "scene-%s", j->world.nonce);
        long queue = syscall(SYS_mq_open, own, O_CREAT | O_RDWR, 0600, NULL);
        finding_control(f, queue >= 0, "the host itself can make one");
        if (queue >= 0)
                (void)close((int)queue);
        (void)syscall(SYS_mq_unlink, own);
}
