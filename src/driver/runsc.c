/* Starting runsc: see the header. */
#include "driver/runsc.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/text.h"
#include "driver/runsc-parts.h"
#include "driver/stage.h"

#define WORDS_MAX  4096
#define VERSION_MS 2000

static char *const environment[] = {(char[]){"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                                    NULL};

int runsc_find(char ret[PATH_MAX], struct err *err) {
        static const char *const places[] = {"/usr/local/bin/runsc", "/usr/bin/runsc", "/usr/local/sbin/runsc",
                                             "/usr/sbin/runsc"};

        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                if (access(places[i], X_OK) == 0) {
                        (void)snprintf(ret, PATH_MAX, "%s", places[i]);
                        return 0;
                }
        (void)err_set(err, ERR_UNENFORCED, "runsc is not installed");
        return err_hint(err, "as root: apt-get install runsc");
}

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int runsc_wait(pid_t pid, unsigned ms) {
        const uint64_t end = now_ms() + ms;
        _cleanup_fd_ int fd = (int)kernel_result(syscall(SYS_pidfd_open, pid, 0));
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n, status;

        if (fd < 0)
                return fd;
        do {
                uint64_t now = now_ms();
                n = poll(&p, 1, now < end ? (int)(end - now) : 0);
        } while (n < 0 && errno == EINTR);
        if (n <= 0)
                (void)kill(pid, SIGKILL);
        if (waitpid(pid, &status, 0) < 0)
                return -errno;
        return n > 0 ? status : -ETIMEDOUT;
}

bool runsc_by_parts(const char *program, unsigned mounts) {
        return mounts <= PARTS_MOUNTS_MAX && parts_known(program);
}

/* The first line of `runsc --version` ends with it. */
int runsc_version(const char *program, char *ret, size_t size) {
        char said[256] = "";
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_fd_ int from = ends[0], to = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                char *const words[] = {(char *)(uintptr_t)program, (char[]){"--version"}, NULL};

                if (dup2(to, STDOUT_FILENO) >= 0)
                        (void)execve(program, words, environment);
                _exit(126);
        }
        fd_close(&to);
        if (runsc_wait(pid, VERSION_MS) != 0)
                return -EIO;
        ssize_t n = fd_read_full(from, said, sizeof said - 1);
        said[MAX(n, 0)] = '\0';
        *strchrnul(said, '\n') = '\0';
        const char *word = strrchr(said, ' ');
        text_escape(ret, size, word ? word + 1 : said);
        return 0;
}

/* --- the child --- */

/* The options of runsc itself. */
static const char **add_options(const struct runsc_start *s, const char **words) {
        *words++ = "--root=" STAGE_STATE;
        *words++ = "--platform=ptrace";
        *words++ = "--ignore-cgroups"; /* we are in ours */
        *words++ = s->networked ? "--network=sandbox" : "--network=none";
        *words++ = "--host-uds=open";
        *words++ = "--overlay2=none";
        *words++ = "--file-access-mounts=shared";
        *words++ = s->writable_root ? "--file-access=shared" : "--file-access=exclusive";
        return words;
}

_noreturn_ static void execute(const struct runsc_start *s) {
        const char *list[20], **words = list;

        *words++ = s->program;
        words = add_options(s, words);
        *words++ = "run";
        if (!s->attached) {
                *words++ = "--detach";
                *words++ = "--pid-file=" STAGE_PID;
        }
        *words++ = "--bundle=" STAGE_BUNDLE;
        *words++ = "box";
        *words = NULL;
        (void)execve(s->program, (char *const *)(uintptr_t)list, environment);
        (void)dprintf(STDERR_FILENO, "cannot execute %s: %s\n", s->program, strerror(errno));
        _exit(126);
}

_noreturn_ static void start_box(const struct runsc_start *s) {
        const char *options[12] = {0};

        if (!s->parts)
                execute(s);
        (void)add_options(s, options);
        parts_run(&(struct parts_start){.program = s->program,
                                        .options = options,
                                        .link = s->networked ? RUNSC_DEVICE : NULL,
                                        .mounts = s->mounts});
}

/* raw calls: libc's would signal threads that do not exist */
static int become_root(void) {
        if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
            syscall(SYS_setresuid, 0, 0, 0) < 0)
                return -errno;
        return 0;
}

/* Every runsc registers for membarrier(2) when it begins, and waits there until each processor of the host has switched
 * tasks: 8 ms and more, once in each program that a start executes. Without the call it begins at once. */
static int hide_membarrier(void) {
        struct sock_filter instructions[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(instructions), .filter = instructions};

        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

_noreturn_ static void child(const struct runsc_start *s, int go) {
        char byte;

        if (fd_read_full(go, &byte, 1) != 1) /* whoever would have mapped our ids is gone */
                _exit(125);
        int r = become_root();
        if (r == 0)
                r = hide_membarrier();
        if (r < 0 || dup2(s->input, STDIN_FILENO) < 0 || dup2(s->output, STDOUT_FILENO) < 0 ||
            dup2(s->output, STDERR_FILENO) < 0 || kernel_close_range(3, ~0U, 0) < 0)
                _exit(125);
        start_box(s);
}

/* --- the parent --- */

static int write_map(pid_t pid, const char *file, const struct runsc_start *s) {
        char path[64], text[64];

        (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
        (void)snprintf(text, sizeof text, "0 %u %u", s->id_base, s->ids);
        return fd_write_at(AT_FDCWD, path, text);
}

static int let_go(const struct runsc_start *s, pid_t pid, int go, struct err *err) {
        int r = write_map(pid, "uid_map", s);

        if (r == 0)
                r = write_map(pid, "gid_map", s);
        if (r < 0)
                return err_set(err, r, "could not map the box's ids");
        if (s->link) {
                r = s->link(pid, err);
                if (r < 0)
                        return r;
        }
        r = fd_write_full(go, "g", 1);
        return r < 0 ? err_set(err, r, "could not start runsc") : 0;
}

int runsc_start(const struct runsc_start *s, pid_t *ret_pid, struct err *err) {
        struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
                                  .exit_signal = SIGCHLD};
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        _cleanup_fd_ int wait = ends[0], go = ends[1];
        pid_t pid = kernel_clone3(&args);
        if (pid == 0) {
                (void)close(go);
                child(s, wait);
        }
        if (pid < 0)
                return err_set(err, pid, "could not make the namespaces of runsc");
        int r = let_go(s, pid, go, err);
        if (r < 0) {
                (void)kill(pid, SIGKILL);
                (void)waitpid(pid, NULL, 0);
                return r;
        }
        *ret_pid = pid;
        return 0;
}

void runsc_last_words(int fd, char *ret, size_t size) {
        char words[WORDS_MAX + 1];
        size_t n = 0;
        struct pollfd p = {.fd = fd, .events = POLLIN};

        while (n < WORDS_MAX && poll(&p, 1, 0) > 0) {
                ssize_t more = read(fd, words + n, WORDS_MAX - n);
                if (more <= 0)
                        break;
                n += (size_t)more;
        }
        while (n > 0 && (unsigned char)words[n - 1] <= ' ')
                n--;
        words[n] = '\0';
        const char *line = memrchr(words, '\n', n);
        text_escape(ret, size, line ? line + 1 : words);
}
