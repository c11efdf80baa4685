/* The keeper: see the header. What it is before and after `confine` are two different things: before, root that trusts
 * its plan and its driver; after, nobody, with a filter that lets it accept, read, write and wait. */
#include "driver/keeper.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/lockdown.h"
#include "driver/relay.h"
#include "driver/vm-carry.h"
#include "wire/box.h"

#define ENV_MAX    512
#define DOOR_QUEUE 4
#define TAIL_ROOM  400 /* of the last that a box said */

/* A box that runs, and what we know about it. */
struct keeper {
        struct keeper_box box;
        struct relay relay;
        struct carry carry; /* in its place, where the box has a line */
        uint8_t secret[BOX_SECRET_SIZE];
        int signals;
        bool serving;
        char tail[TAIL_ROOM];
        size_t tail_size;
};

/* --- telling the warden --- */

static void say_failed(const struct err *err) {
        struct report r = {.kind = REPORT_BOX_FAILED, .error = err->code};
        struct report_words words;
        struct iovec parts[] = {{&r, sizeof r}, {&words, sizeof words}};
        struct msghdr m = {.msg_iov = parts, .msg_iovlen = ELEMENTSOF(parts)};

        report_words_set(&words, err->text, err->hint);
        (void)sendmsg(BOX_REPORT_FD, &m, MSG_NOSIGNAL);
}

static void say_serving(struct keeper *k) {
        struct report r = {.kind = REPORT_SERVING};
        int fd = BOX_REPORT_FD;

        k->serving = true;
        (void)send(fd, &r, sizeof r, MSG_NOSIGNAL);
        fd_close(&fd);
}

/* Whoever started us writes us down first, and then says so. */
static bool is_wanted(void) {
        char byte;
        ssize_t n;

        do
                n = recv(BOX_REPORT_FD, &byte, 1, 0);
        while (n < 0 && errno == EINTR);
        return n == 1;
}

/* --- the task --- */

static int map_plan(struct keeper_task *t, struct err *err) {
        struct stat st;

        if (fstat(BOX_PLAN_FD, &st) < 0 || st.st_size <= 0 || st.st_size > PLAN_MAX_SIZE)
                return err_set(err, ERR_CORRUPT, "the box was given no plan");
        const void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, BOX_PLAN_FD, 0);
        if (bytes == MAP_FAILED)
                return err_set(err, -errno, "cannot read the plan");
        return plan_check(bytes, (size_t)st.st_size, &t->plan, err);
}

static void read_plan(struct keeper_task *t, char *env[ENV_MAX + 1]) {
        struct plan_walk walk = {0};
        struct plan_step s;
        size_t n = 0;

        t->cwd = "/";
        while (plan_next(&t->plan, &walk, &s)) {
                if (s.op == OP_USER) {
                        t->uid = (uid_t)s.number[0];
                        t->gid = (gid_t)s.number[1];
                }
                if (s.op == OP_CWD)
                        t->cwd = s.text[0];
                if (s.op == OP_NETWORK)
                        t->networked = true;
                if (s.op == OP_ENV && n < ENV_MAX)
                        env[n++] = (char *)(uintptr_t)s.text[0];
        }
        t->env = env;
}

static int parse_base(const char *text, uint32_t *ret) {
        char *end;

        errno = 0;
        unsigned long n = strtoul(text, &end, 10);
        if (errno || *end || end == text || n == 0 || n > UINT32_MAX)
                return -EINVAL;
        *ret = (uint32_t)n;
        return 0;
}

int keeper_listen(int folder, const char *name, struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        int n = snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/%s", folder, name);
        if (n < 0 || (size_t)n >= sizeof at.sun_path)
                return err_set(err, -ENAMETOOLONG, "cannot make the socket '%s' of the box", name);
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || chmod(at.sun_path, 0666) < 0 ||
            listen(fd, DOOR_QUEUE) < 0)
                return err_set(err, -errno, "cannot make the socket '%s' of the box", name);
        return TAKE_FD(fd);
}

/* --- giving up --- */

static const int calls[] = {
        SYS_accept4, SYS_recvfrom,   SYS_recvmsg,         SYS_sendto,
        SYS_sendmsg, SYS_read,       SYS_write,           SYS_close,
#ifdef SYS_poll
        SYS_poll,
#endif
        SYS_ppoll,   SYS_wait4,      SYS_munmap,          SYS_brk,
        SYS_exit,    SYS_exit_group, SYS_restart_syscall, SYS_rt_sigreturn,
};

/* raw calls: libc's would signal threads that do not exist */
static int drop_ids(uint32_t id) {
        if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
            syscall(SYS_setresuid, id, id, id) < 0)
                return -errno;
        return 0;
}

static int confine(uint32_t id, struct err *err) {
        int r = lockdown_bounding();

        if (r == 0)
                r = drop_ids(id);
        if (r == 0)
                r = lockdown_capabilities();
        if (r == 0)
                r = lockdown_no_new_privileges();
        if (r == 0)
                r = lockdown_private();
        if (r == 0)
                r = MIN(lockdown_files(NULL, 0), 0);
        if (r == 0)
                r = lockdown_calls(calls, ELEMENTSOF(calls), NULL, 0);
        return r < 0 ? err_set(err, r, "the box's keeper could not confine itself") : 0;
}

/* --- while it runs --- */

static int open_signals(void) {
        sigset_t child;

        (void)sigemptyset(&child);
        (void)sigaddset(&child, SIGCHLD);
        (void)sigprocmask(SIG_BLOCK, &child, NULL);
        int fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

/* Keeps the last of what the box says. */
static bool hear(struct keeper *k) {
        char more[TAIL_ROOM];
        ssize_t n = read(k->box.words, more, sizeof more);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                fd_close(&k->box.words);
        if (n <= 0)
                return false;
        size_t keep = MIN(k->tail_size, TAIL_ROOM - (size_t)n);
        memmove(k->tail, k->tail + k->tail_size - keep, keep);
        memcpy(k->tail + keep, more, (size_t)n);
        k->tail_size = keep + (size_t)n;
        return true;
}

/* The last line that has something on it. */
static void last_words(struct keeper *k, char ret[TAIL_ROOM]) {
        for (unsigned i = 0; i < 64 && k->box.words >= 0 && hear(k); i++)
                ; /* somebody may go on for ever */
        size_t end = k->tail_size;
        while (end > 0 && (unsigned char)k->tail[end - 1] <= ' ')
                end--;
        size_t start = end;
        while (start > 0 && k->tail[start - 1] != '\n')
                start--;
        size_t n = MIN(end - start, (size_t)TAIL_ROOM - 1);
        memcpy(ret, k->tail + start, n);
        ret[n] = '\0';
}

static int code_of(int status) {
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int box_ended(struct keeper *k, int status) {
        struct err err = {0};
        char last[TAIL_ROOM];

        if (!k->serving) {
                last_words(k, last);
                (void)err_set(&err, ERR_UNENFORCED, "the box ended with %d before its guest connected%s%s",
                              code_of(status), last[0] ? ": " : "", last);
                say_failed(&err);
        }
        return code_of(status);
}

/* The box's end as an exit code; -1: it lives. Whoever else ended was orphaned inside. */
static int reap(struct keeper *k) {
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (pid == k->box.pid || pid == k->box.aids[0] || pid == k->box.aids[1])
                        return box_ended(k, status);
        return -1;
}

static_assert((int)CARRY_POLLS <= (int)RELAY_POLLS, "either fits");

static void ask(const struct keeper *k, struct pollfd polls[RELAY_POLLS]) {
        for (size_t i = 0; i < RELAY_POLLS; i++)
                polls[i] = (struct pollfd){.fd = -1};
        if (k->box.line > 0)
                carry_ask(&k->carry, polls);
        else
                relay_ask(&k->relay, polls);
}

static int answer(struct keeper *k, const struct pollfd polls[RELAY_POLLS]) {
        if (k->box.line > 0)
                return carry_answer(&k->carry, polls);
        relay_answer(&k->relay, polls);
        if (k->relay.met && !k->serving)
                say_serving(k);
        return 0;
}

static int run(struct keeper *k) {
        struct pollfd polls[RELAY_POLLS + 3];
        struct signalfd_siginfo info;

        for (;;) {
                int ended = reap(k);

                if (ended >= 0)
                        return ended;
                ask(k, polls);
                polls[RELAY_POLLS] = (struct pollfd){.fd = k->signals, .events = POLLIN};
                polls[RELAY_POLLS + 1] = (struct pollfd){.fd = k->box.words, .events = POLLIN};
                polls[RELAY_POLLS + 2] = (struct pollfd){.fd = k->box.pid > 0 ? -1 : k->box.end, .events = POLLIN};
                if (poll(polls, ELEMENTSOF(polls), -1) < 0)
                        continue;
                if (polls[RELAY_POLLS + 2].revents)
                        return box_ended(k, 0); /* how is known to its parent alone */
                if (polls[RELAY_POLLS].revents)
                        (void)!read(k->signals, &info, sizeof info); /* one stands for all */
                if (polls[RELAY_POLLS + 1].revents)
                        (void)hear(k);
                if (answer(k, polls) != 0)
                        return 1; /* a machine without its line is gone */
        }
}

/* --- verbs --- */

static char *const *options;

char *const *keeper_options(void) {
        return options;
}

static int start_box(const struct keeper_driver *d, char **words, struct keeper *k, uint32_t *ret_id, struct err *err) {
        static char *env[ENV_MAX + 1];
        struct keeper_task t = {
                .id = words[0], .guest = words[2], .tree = BOX_TREE_FD, .folder = BOX_FOLDER_FD, .secret = k->secret};

        if (getrandom(k->secret, sizeof k->secret, 0) != sizeof k->secret)
                return err_set(err, -errno, "no random bytes for the box's secret");
        if (parse_base(words[1], &t.id_base) < 0)
                return err_set(err, ERR_INPUT, "'%.40s' is no host id for a box", words[1]);
        int r = map_plan(&t, err);
        if (r < 0)
                return r;
        read_plan(&t, env);
        k->box = (struct keeper_box){.door = -EBADF, .words = -EBADF, .end = -EBADF};
        r = d->start(&t, &k->box, err);
        if (k->box.words >= 0)
                (void)fcntl(k->box.words, F_SETFL, O_NONBLOCK);
        (void)munmap((void *)(uintptr_t)t.plan.bytes, t.plan.size);
        *ret_id = t.id_base;
        return r;
}

static void close_inherited(void) {
        for (int fd = BOX_TREE_FD; fd < BOX_FD_END; fd++)
                (void)close(fd);
}

static int start(const struct keeper_driver *d, char **words) {
        static struct keeper k;
        struct err err = {0};
        uint32_t id = 0;

        for (int fd = BOX_REPORT_FD; fd < BOX_FD_END; fd++)
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                        return 125;
        if (!is_wanted())
                return 0;
        int r = start_box(d, words, &k, &id, &err);
        close_inherited();
        if (r == 0) {
                k.signals = open_signals();
                r = k.signals < 0 ? err_set(&err, k.signals, "could not make a descriptor for signals") : 0;
        }
        k.carry = (struct carry){.line = k.box.line, .listener = BOX_LISTEN_FD};
        if (r == 0 && k.box.line > 0)
                r = carry_begin(&k.carry);
        if (r == 0)
                r = confine(id, &err);
        if (r < 0) {
                say_failed(&err);
                return 125;
        }
        if (k.box.line > 0)
                say_serving(&k);
        else
                relay_init(&k.relay, BOX_LISTEN_FD, k.box.door, k.box.secret ? k.secret : NULL);
        return run(&k);
}

static int destroy(const struct keeper_driver *d, const char *id) {
        struct err err = {0};

        if (!d->destroy || d->destroy(id, &err) == 0)
                return 0;
        err_print(&err);
        return 1;
}

/* What follows the words of a verb. */
static bool is_verb(int argc, char **argv, const char *verb, int words) {
        if (argc < 2 + words || !str_eq(argv[1], verb))
                return false;
        options = argv + 2 + words;
        return true;
}

int keeper_main(const struct keeper_driver *d, int argc, char **argv) {
        if (is_verb(argc, argv, "probe", 0))
                return d->probe();
        if (is_verb(argc, argv, "destroy", 1))
                return destroy(d, argv[2]);
        if (is_verb(argc, argv, "start", 3))
                return start(d, argv + 2);
        (void)fprintf(stderr,
                      "Usage: %s probe | start ID ID-BASE GUEST | destroy ID, then OPTION=VALUE…\n"
                      "The warden starts it.\n",
                      argv[0]);
        return 2;
}
