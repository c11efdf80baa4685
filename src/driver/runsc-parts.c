/* The parts of runsc: see the header. */
#include "driver/runsc-parts.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/kernel.h"
#include "base/lockdown.h"
#include "driver/runsc-link.h"
#include "driver/stage.h"

#define BUILD        "x6AP4bl5nnHaB-slmJ3D/wTnnMjDTEcswC6IHFDL1/uekKG3wty1dytkNf6t3T/Pi2eqt3n8QO8crIrqT2D" /* Debian 12's */
#define BUILD_WITHIN 8192
#define NOBODY       65534
#define CONTROL      STAGE_STATE "/control"
#define PLAIN        (MS_NOSUID | MS_NODEV | MS_NOEXEC)
#define WORDS_MAX    (PARTS_MOUNTS_MAX + 40)
#define WORD_MAX     48
#define ANSWER_MAX   1024
#define CAP(name)    (1ULL << (name))
#define GOFER_CAPS                                                                                                     \
        (CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_DAC_READ_SEARCH) | CAP(CAP_FOWNER) | CAP(CAP_FSETID) |       \
         CAP(CAP_SYS_CHROOT))

/* What connects the parts, and us. All of it closes when something is executed. */
struct plumbing {
        const struct parts_start *start;
        int program;
        int spec[2];                       /* for each part, since they have an offset */
        int mounts[2];                     /* the gofer says which mounts there are */
        int started[2];                    /* one byte of the sentry's */
        int control;                       /* it listens there */
        int ends[PARTS_MOUNTS_MAX + 1][2]; /* sentry's, gofer's */
};

bool parts_known(const char *program) {
        char head[BUILD_WITHIN];
        _cleanup_fd_ int fd = open(program, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : fd_read_full(fd, head, sizeof head);

        return n > 0 && memmem(head, (size_t)n, BUILD, strlen(BUILD));
}

_noreturn_ static void fail(const char *what, int error) {
        (void)dprintf(STDERR_FILENO, "cannot %s: %s\n", what, strerror(-error));
        _exit(125);
}

static void must(const char *what, long r) {
        if (r < 0)
                fail(what, errno ? -errno : -EIO);
}

/* --- words --- */

struct words {
        const char *list[WORDS_MAX + 1];
        char numbers[PARTS_MOUNTS_MAX + 16][WORD_MAX];
        size_t count, numbered;
};

static void add(struct words *w, const char *word) {
        if (w->count == WORDS_MAX)
                fail("write the words of runsc", -E2BIG);
        w->list[w->count++] = word;
}

static void add_number(struct words *w, const char *name, unsigned long long number) {
        if (w->numbered == ELEMENTSOF(w->numbers))
                fail("write the words of runsc", -E2BIG);
        char *word = w->numbers[w->numbered++];
        (void)snprintf(word, WORD_MAX, "%s=%llu", name, number);
        add(w, word);
}

/* A descriptor that the part gets, with the number that it has. */
static void give(struct words *w, const char *name, int fd) {
        must("pass a descriptor", fcntl(fd, F_SETFD, 0));
        add_number(w, name, (unsigned long long)fd);
}

static void begin_words(const struct plumbing *p, struct words *w, const char *name, const char *command) {
        add(w, name);
        for (const char *const *o = p->start->options; *o; o++)
                add(w, *o);
        add(w, command);
        add(w, "--bundle=" STAGE_BUNDLE);
}

_noreturn_ static void become(const struct plumbing *p, struct words *w) {
        char *const nothing[] = {NULL};

        w->list[w->count] = NULL;
        (void)syscall(SYS_execveat, p->program, "", w->list, nothing, AT_EMPTY_PATH);
        fail("execute a part of runsc", -errno);
}

/* --- roots --- */

static void begin_root(void) {
        must("leave the mounts around", mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL));
        must("make a root", mount("none", STAGE_ROOT, "tmpfs", PLAIN, "size=64k,nr_inodes=16,mode=755"));
        must("make a folder", mkdir(STAGE_ROOT "/proc", 0555));
}

static void enter_root(void) {
        must("seal a root", mount(NULL, STAGE_ROOT, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN, NULL));
        must("enter a root", chdir(STAGE_ROOT));
        must("enter a root", syscall(SYS_pivot_root, ".", "."));
        must("leave the root before", umount2(".", MNT_DETACH));
        must("enter a root", chdir("/"));
}

/* --- the gofer --- */

static int keep_bounding(uint64_t mask) {
        for (unsigned i = 0; i < 64; i++)
                if (!(mask & 1ULL << i) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0 && errno != EINVAL)
                        return -errno;
        return 0;
}

/* It has the guest's secret, which is not the gofer's to know. */
static void leave_input(void) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        must("open the null device", null);
        must("leave the box's input", dup2(null, STDIN_FILENO));
}

/* The tree is at /root, where the gofer goes when it has opened what it needs of /proc. */
_noreturn_ static void be_gofer(const struct plumbing *p) {
        static struct words w;

        leave_input();
        begin_root();
        must("make a folder", mkdir(STAGE_ROOT "/root", 0555));
        must("mount a proc", mount("proc", STAGE_ROOT "/proc", "proc", PLAIN | MS_RDONLY, NULL));
        must("show the tree", mount(STAGE_TREE, STAGE_ROOT "/root", NULL, MS_BIND | MS_REC, NULL));
        enter_root();
        int r = keep_bounding(GOFER_CAPS);
        if (r == 0)
                r = lockdown_no_new_privileges();
        if (r < 0)
                fail("give up rights", r);
        begin_words(p, &w, "runsc-gofer", "gofer");
        add(&w, "--setup-root=false");
        add(&w, "--apply-caps=false");
        give(&w, "--spec-fd", p->spec[0]);
        give(&w, "--mounts-fd", p->mounts[1]);
        for (unsigned i = 0; i <= p->start->mounts; i++)
                give(&w, "--io-fds", p->ends[i][1]);
        become(p, &w);
}

/* --- the sentry --- */

/* A child of its own that takes its /proc away when it asks for that, before it runs anything. */
static int fork_umounter(void) {
        int ends[2];
        char byte;

        must("make a pipe", pipe2(ends, O_CLOEXEC));
        pid_t pid = fork();
        must("start a process", pid);
        if (pid == 0) {
                must("keep its pipe alone", dup2(ends[0], STDIN_FILENO));
                (void)kernel_close_range(STDIN_FILENO + 1, ~0U, 0);
                _exit(fd_read_full(STDIN_FILENO, &byte, 1) != 1 || umount2("/proc", MNT_DETACH) < 0);
        }
        (void)close(ends[0]);
        return ends[1];
}

static void be_nobody(void) {
        must("become nobody", syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY));
        must("become nobody", syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY));
        must("make a session", setsid());
}

static void drop_rights(void) {
        int r = lockdown_bounding();

        if (r == 0)
                r = lockdown_capabilities();
        if (r == 0)
                r = lockdown_no_new_privileges();
        if (r < 0)
                fail("give up rights", r);
}

_noreturn_ static void be_sentry(const struct plumbing *p, int go) {
        static struct words w;
        struct sysinfo host;
        char byte;

        if (fd_read_full(go, &byte, 1) != 1)
                _exit(125);
        be_nobody();
        begin_root();
        must("show /proc", mount("/proc", STAGE_ROOT "/proc", NULL, MS_BIND | MS_REC, NULL));
        must("seal /proc", mount(NULL, STAGE_ROOT "/proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN, NULL));
        enter_root();
        int umounter = fork_umounter();
        drop_rights();
        must("ask for the host's memory", sysinfo(&host));
        begin_words(p, &w, "runsc-sandbox", "boot");
        add_number(&w, "--total-memory", (unsigned long long)host.totalram * host.mem_unit);
        give(&w, "--proc-mount-sync-fd", umounter);
        give(&w, "--spec-fd", p->spec[1]);
        give(&w, "--mounts-fd", p->mounts[0]);
        give(&w, "--start-sync-fd", p->started[1]);
        give(&w, "--controller-fd", p->control);
        for (unsigned i = 0; i <= p->start->mounts; i++)
                give(&w, "--io-fds", p->ends[i][0]);
        for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
                int copy = fcntl(i, F_DUPFD, STDERR_FILENO + 1);
                must("pass a stream", copy);
                give(&w, "--stdio-fds", copy);
        }
        add(&w, "box");
        become(p, &w);
}

/* --- between them --- */

static void open_plumbing(struct plumbing *p) {
        const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = CONTROL};

        assert(p->start->mounts <= PARTS_MOUNTS_MAX);
        p->program = open(p->start->program, O_PATH | O_CLOEXEC);
        must("open runsc", p->program);
        for (size_t i = 0; i < 2; i++) {
                p->spec[i] = open(STAGE_BUNDLE "/config.json", O_RDONLY | O_CLOEXEC);
                must("open the box's bundle", p->spec[i]);
        }
        must("make a pipe", pipe2(p->mounts, O_CLOEXEC));
        must("make a pipe", pipe2(p->started, O_CLOEXEC));
        p->control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        must("make a socket", p->control);
        must("make a socket", bind(p->control, (const struct sockaddr *)&at, sizeof at));
        for (unsigned i = 0; i <= p->start->mounts; i++)
                must("make a connection", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->ends[i]));
}

/* What is not ours: the end of a part is seen only if nobody else holds its descriptors. */
static void close_parts(struct plumbing *p) {
        const int ours[] = {p->spec[0], p->spec[1], p->mounts[0], p->mounts[1], p->control, p->started[1], p->program};

        for (size_t i = 0; i < ELEMENTSOF(ours); i++)
                (void)close(ours[i]);
        for (unsigned i = 0; i <= p->start->mounts; i++) {
                (void)close(p->ends[i][0]);
                (void)close(p->ends[i][1]);
        }
}

static void write_map(pid_t pid, const char *file) {
        char path[64], text[32];

        (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
        (void)snprintf(text, sizeof text, "%d %d 1", NOBODY, NOBODY);
        int r = fd_write_at(AT_FDCWD, path, text);
        if (r < 0)
                fail("map the sentry's id", r);
}

static void start_gofer(const struct plumbing *p) {
        struct clone_args args = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
                                  .exit_signal = SIGCHLD};
        pid_t pid = kernel_clone3(&args);

        if (pid < 0)
                fail("make the gofer's namespaces", pid);
        if (pid == 0)
                be_gofer(p);
}

static pid_t start_sentry(const struct plumbing *p) {
        struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS,
                                  .exit_signal = SIGCHLD};
        int ends[2];

        must("make a pipe", pipe2(ends, O_CLOEXEC));
        pid_t pid = kernel_clone3(&args);
        if (pid < 0)
                fail("make the sentry's namespaces", pid);
        if (pid == 0) {
                (void)close(ends[1]);
                be_sentry(p, ends[0]);
        }
        write_map(pid, "uid_map");
        write_map(pid, "gid_map");
        int r = fd_write_full(ends[1], "g", 1);
        if (r < 0)
                fail("start the sentry", r);
        (void)close(ends[0]);
        (void)close(ends[1]);
        return pid;
}

/* --- asking the sentry --- */

static void say(int fd, const char *question, size_t size, int passed) {
        struct iovec part = {(void *)(uintptr_t)question, size};
        union {
                char room[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {0};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

        if (passed >= 0) {
                m.msg_control = control.room;
                m.msg_controllen = sizeof control.room;
                *CMSG_FIRSTHDR(&m) = (struct cmsghdr){
                        .cmsg_len = CMSG_LEN(sizeof passed), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
                memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &passed, sizeof passed);
        }
        ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (n != (ssize_t)size)
                fail("ask the sentry", n < 0 ? -errno : -EMSGSIZE);
}

/* An answer is one object, which has no other before its end. */
static void hear(int fd) {
        static const char yes[] = "{\"success\":true";
        char answer[ANSWER_MAX + 1];
        size_t n = 0;

        while (n < ANSWER_MAX && (n == 0 || answer[n - 1] != '}')) {
                ssize_t more = read(fd, answer + n, ANSWER_MAX - n);
                if (more <= 0)
                        fail("hear the sentry's answer", more < 0 ? -errno : -EPIPE);
                n += (size_t)more;
        }
        answer[n] = '\0';
        if (strncmp(answer, yes, strlen(yes)) == 0)
                return;
        (void)dprintf(STDERR_FILENO, "the sentry says: %s\n", answer);
        _exit(125);
}

static void run_bundle(const char *link) {
        static const char start[] = "{\"method\":\"containerManager.StartRoot\",\"arg\":\"box\"}";
        const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = CONTROL};
        _cleanup_buf_ struct buf devices = {0};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), packets = -EBADF;

        must("make a socket", fd);
        must("reach the sentry", connect(fd, (const struct sockaddr *)&at, sizeof at));
        int r = runsc_link_question(link, &devices, &packets);
        if (r < 0)
                fail("give the sentry its link", r);
        say(fd, devices.data, devices.size, packets);
        hear(fd);
        say(fd, start, sizeof start - 1, -EBADF);
        hear(fd);
}

_noreturn_ void parts_run(const struct parts_start *s) {
        static struct plumbing p;
        char byte, text[24];

        p.start = s;
        must("own our /proc files", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); /* the sentry's maps are written there */
        open_plumbing(&p);
        start_gofer(&p);
        pid_t sentry = start_sentry(&p);
        close_parts(&p);
        if (fd_read_full(p.started[0], &byte, 1) != 1)
                _exit(125); /* the parts have said why */
        run_bundle(s->link);
        (void)snprintf(text, sizeof text, "%d", sentry);
        _cleanup_fd_ int folder = open(STAGE_STATE, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r = folder < 0 ? -errno : fd_replace_file(folder, STAGE_PID_NAME, 0644, text, strlen(text));
        if (r < 0)
                fail("write down the sentry", r);
        _exit(0);
}
