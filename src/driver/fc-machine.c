/* See fc-machine.h. The machine connects its streams by itself: each of our sockets takes the first who comes, which
 * is the machine's first process, and is closed then. */
#include "driver/fc-machine.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "driver/fc-api.h"
#include "driver/fc-jail.h"
#include "driver/link.h"
#include "driver/vm-place.h"
#include "driver/vm-qemu.h"
#include "driver/vm-stream.h"

#define TAP    "box"
#define API_MS 5000

/* Like QEMU's (vm-qemu.c), with the machine's end by the keyboard controller, which Firecracker waits for. */
#define BOOT_WORDS                                                                                                     \
        "quiet loglevel=0 panic=-1 reboot=k audit=0 lsm=landlock cgroup_no_v1=all cryptomgr.notests "                  \
        "rcupdate.rcu_expedited=1 8250.nr_uarts=0 no_timer_check i8042.noaux i8042.nomux "                             \
        "i8042.dumbkbd " VM_STREAMS_WORD "vsock"

struct start {
        const struct machine_facts *facts;
        const struct fc_facts *fc;
        struct jail jail;
        int network; /* Firecracker's */
        char network_path[40];
        int line; /* listens */
        struct machine machine;
};

/* --- what serves the tree --- */

static int start_files(struct start *s, enum vm_stream number, pid_t *ret_pid, int *ret_pidfd, struct err *err) {
        _cleanup_words_ struct words words = {0};
        _cleanup_buf_ struct buf b = {0};
        _cleanup_fd_ int listener = jail_listen(&s->jail, number, err);

        if (listener < 0)
                return listener;
        words_add(&b, s->fc->files);
        words_add(&b, VM_TREE_INSIDE);
        if (number == VM_STREAM_LIVE)
                words_add(&b, "live");
        int r = words_take(&b, &words);
        if (r < 0)
                return err_set(err, r, "could not start the machine's files");
        const struct machine_server server = {
                .shows = &s->fc->files, .show_count = 1, .argv = words.argv, .listener = listener};
        return machine_serve(s->facts, &server, ret_pid, ret_pidfd, err);
}

static int start_tree(struct start *s, struct err *err) {
        struct machine *m = &s->machine;
        int r = 0;

        if (s->facts->tree >= 0)
                r = start_files(s, VM_STREAM_TREE, &m->fs, &m->fs_pidfd, err);
        if (r == 0 && s->facts->tree >= 0 && s->facts->live)
                r = start_files(s, VM_STREAM_LIVE, &m->live, &m->live_pidfd, err);
        return r;
}

/* --- Firecracker --- */

_noreturn_ static void become_jailer(char *const argv[], int errors, int pipe) {
        static char *const environment[] = {NULL};

        (void)setsid();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* until it becomes somebody else */
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (errors >= 0) {
                (void)dup2(errors, STDOUT_FILENO); /* where Firecracker's log goes */
                (void)dup2(errors, STDERR_FILENO);
        }
        (void)execve(argv[0], argv, environment);
        int error = errno;
        (void)!write(pipe, &error, sizeof error);
        _exit(125);
}

static int start_jailer(struct start *s, struct err *err) {
        _cleanup_words_ struct words words = {0};
        _cleanup_fd_ int pidfd = -EBADF, from = -EBADF, to = -EBADF;
        struct clone_args args = {
                .flags = CLONE_PIDFD, .pidfd = (unsigned long long)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};
        int ends[2], error = 0, r = jail_words(&s->jail, &words);

        if (r < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, r < 0 ? r : -errno, "could not start Firecracker");
        from = ends[0];
        to = ends[1];
        pid_t pid = kernel_clone3(&args);
        if (pid == 0)
                become_jailer(words.argv, s->facts->errors, to);
        if (pid < 0)
                return err_set(err, pid, "could not start Firecracker");
        fd_close(&to);
        if (fd_read_full(from, &error, sizeof error) == sizeof error) {
                (void)waitpid(pid, NULL, 0);
                return err_set(err, -error, "could not start '%s'", s->jail.jailer);
        }
        s->machine.qemu = pid;
        s->machine.qemu_pidfd = TAKE_FD(pidfd);
        return 0;
}

static bool is_over(const struct start *s, int wait_ms) {
        struct pollfd p = {.fd = s->machine.qemu_pidfd, .events = POLLIN};

        return poll(&p, 1, wait_ms) > 0;
}

/* Its API is there when its socket is. */
static int meet(const struct start *s, const char *socket, struct fc *ret, struct err *err) {
        struct err last = {0};
        int r = -ENOENT;

        for (int waited = 0; waited < API_MS && (r == -ENOENT || r == -ECONNREFUSED); waited += 5) {
                if (is_over(s, 5))
                        return err_set(err, ERR_UNENFORCED, "Firecracker ended before it could be asked anything");
                r = fc_open(ret, socket, &last);
        }
        if (r < 0 && err)
                *err = last;
        return r;
}

static int describe(const struct start *s, struct fc *f, struct err *err) {
        const struct fc_boot boot = {.kernel = JAIL_KERNEL, .initrd = JAIL_INITRD, .words = BOOT_WORDS};
        uint64_t mib = (s->facts->memory + VM_MEMORY_OVERHEAD + (1U << 20) - 1) >> 20;
        int r = fc_set_machine(f, mib, MIN(MAX(s->facts->cpus, 1U), (unsigned)FC_CPUS_MAX), err);

        if (r == 0)
                r = fc_set_boot(f, &boot, err);
        if (r == 0)
                r = fc_set_vsock(f, JAIL_VSOCK, err);
        if (r == 0)
                r = fc_set_entropy(f, err);
        if (r == 0 && s->fc->linked)
                r = fc_set_link(f, "link", TAP, err); /* which opens it, so that it can be taken away from there */
        if (r == 0 && s->fc->linked)
                r = link_tap_take(TAP, s->network, err);
        return r < 0 ? r : fc_start(f, err);
}

static int start_machine(struct start *s, char ret_release[32], struct err *err) {
        char socket[108];
        struct fc f;

        int r = jail_path(&s->jail, JAIL_SOCKET, socket, err);
        if (r == 0)
                r = start_jailer(s, err);
        if (r == 0)
                r = meet(s, socket, &f, err);
        if (r < 0)
                return r;
        if (ret_release)
                (void)snprintf(ret_release, 32, "%s", f.release);
        return describe(s, &f, err);
}

static int take_line(struct start *s, int timeout_ms, struct err *err) {
        struct pollfd p[] = {{.fd = s->line, .events = POLLIN}, {.fd = s->machine.qemu_pidfd, .events = POLLIN}};
        int n = poll(p, ELEMENTSOF(p), timeout_ms);

        if (n < 0)
                return err_set(err, -errno, "could not wait for the machine");
        if (n == 0)
                return err_set(err, -ETIMEDOUT, "the machine's kernel did not boot");
        s->machine.line = p[0].revents & POLLIN ? accept4(s->line, NULL, NULL, SOCK_CLOEXEC) : -EPIPE;
        if (s->machine.line < 0)
                return err_set(err, ERR_UNENFORCED, "the machine ended before its kernel had booted");
        return 0;
}

/* --- all of it --- */

static int start_all(struct start *s, char ret_release[32], int timeout_ms, struct err *err) {
        s->network = link_namespace(err);
        if (s->network < 0)
                return s->network;
        (void)snprintf(s->network_path, sizeof s->network_path, "/proc/%d/fd/%d", (int)getpid(), s->network);
        s->jail.network = s->network_path;
        int r = s->fc->linked ? link_tap_lend(TAP, s->facts->id_base + 1, s->network, err) : 0;
        if (r == 0)
                r = jail_build(&s->jail, s->facts->image, err);
        if (r < 0)
                return r;
        s->line = jail_listen(&s->jail, VM_STREAM_LINE, err);
        r = s->line < 0 ? s->line : start_tree(s, err);
        if (r == 0)
                r = start_machine(s, ret_release, err);
        return r < 0 ? r : take_line(s, timeout_ms, err);
}

int fc_machine_start(const struct machine_facts *f, const struct fc_facts *fc, struct machine *ret,
                     char ret_release[32], int timeout_ms, struct err *err) {
        struct start s = {.facts = f,
                          .fc = fc,
                          .jail = {.jailer = fc->jailer,
                                   .program = fc->program,
                                   .base = fc->base,
                                   .id = fc->id,
                                   .id_base = f->id_base},
                          .network = -EBADF,
                          .line = -EBADF,
                          .machine = MACHINE_NONE};
        int r = start_all(&s, ret_release, timeout_ms, err);

        fd_close(&s.network);
        fd_close(&s.line);
        if (r < 0)
                machine_end(&s.machine);
        else
                *ret = s.machine;
        return r;
}
