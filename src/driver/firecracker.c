/* stockade-box-firecracker: the plan in a virtual machine of Firecracker's.
 *
 * The machine is microvm's: its kernel, its first process, its plan and its line. What differs is who runs it, where
 * (fc-jail.h), and that its files come over a stream (fuse-server.h). To get out, code inside first has to take over
 * the machine's kernel and then Firecracker, and is then a process without rights in an almost empty root; or the file
 * server, and is then root of the sandbox's own ids, under a filter. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/kernel.h"
#include "cell/cell.h"
#include "cell/ids.h"
#include "driver/fc-jail.h"
#include "driver/fc-machine.h"
#include "driver/keeper.h"
#include "driver/vm-host.h"
#include "driver/vm-plan.h"
#include "wire/driver.h"

#define BOOT_MS  20000 /* and the next: together less than the warden waits, so that there is a sentence */
#define BEGIN_MS 35000
#define PROBE_MS 20000 /* less than whoever asks for a probe waits */
#define KVM      "/dev/kvm"
#define BASE     "/sys" /* of the host's tree: the keeper needs nothing of it */

struct programs {
        char jailer[PATH_MAX], firecracker[PATH_MAX], files[PATH_MAX], image[PATH_MAX];
};

static int find_files(char ret[PATH_MAX], struct err *err) {
        static const char name[] = "stockade-vm-files";
        ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof name);

        if (n <= 0)
                return err_set(err, -errno, "cannot tell where our own programs are");
        ret[n] = '\0';
        memcpy(strrchr(ret, '/') + 1, name, sizeof name);
        if (access(ret, X_OK) == 0)
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "'%s' is missing", ret);
        return err_hint(err, "install Stockade again: it is one of its programs");
}

static int find_programs(struct programs *p, struct err *err) {
        int r = jail_find("firecracker", p->firecracker, err);

        if (r == 0)
                r = jail_find("jailer", p->jailer, err);
        if (r == 0)
                r = find_files(p->files, err);
        return r < 0 ? r : vm_host_image(p->image, err);
}

static int start_machine(const struct keeper_task *t, const struct programs *p, int errors, struct machine *ret,
                         struct err *err) {
        struct machine_facts f = {.image = p->image,
                                  .id_base = t->id_base,
                                  .tree = t->tree,
                                  .disk = -EBADF,
                                  .tap = -EBADF,
                                  .live = vm_plan_is_live(&t->plan),
                                  .kvm = true,
                                  .errors = errors};
        const struct fc_facts fc = {.jailer = p->jailer,
                                    .program = p->firecracker,
                                    .files = p->files,
                                    .id = t->id,
                                    .base = BASE,
                                    .linked = t->networked};

        machine_limits(&t->plan, &f);
        int r = fc_machine_start(&f, &fc, ret, NULL, BOOT_MS, err);
        if (r < 0)
                return r;
        r = machine_begin(ret, &t->plan, BEGIN_MS, err);
        if (r < 0)
                machine_end(ret);
        return r;
}

static int start(const struct keeper_task *t, struct keeper_box *ret, struct err *err) {
        static struct programs p;
        struct machine m = MACHINE_NONE;
        int ends[2];

        int r = find_programs(&p, err);
        if (r == 0)
                r = vm_host_proc(err);
        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "could not make a pipe");
        _cleanup_fd_ int words = ends[0], errors = ends[1];
        r = start_machine(t, &p, errors, &m, err);
        if (r < 0)
                return vm_host_quote(words, err);
        fd_close(&m.qemu_pidfd);
        fd_close(&m.fs_pidfd);
        fd_close(&m.live_pidfd);
        *ret = (struct keeper_box){.pid = m.qemu,
                                   .aids = {m.fs, m.live},
                                   .line = m.line,
                                   .end = -EBADF,
                                   .door = -EBADF,
                                   .words = TAKE_FD(words)};
        return 0;
}

/* --- probe --- */

static int has_kvm(struct err *err) {
        if (access(KVM, R_OK | W_OK) == 0)
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "Firecracker needs " KVM ", and it cannot be used here");
        (void)err_hint(err, "switch virtualization on in the firmware, or for this virtual machine on its host, and as "
                            "root: modprobe kvm_intel, or kvm_amd; the driver microvm does without");
        return ERR_UNENFORCED;
}

/* A machine with nothing: its kernel boots and its first process connects. */
static int boot(const struct programs *p, uint32_t id_base, int errors, char release[32], struct err *err) {
        struct machine m = MACHINE_NONE;
        const struct machine_facts f = {.image = p->image,
                                        .id_base = id_base,
                                        .tree = -EBADF,
                                        .disk = -EBADF,
                                        .tap = -EBADF,
                                        .kvm = true,
                                        .memory = 64U << 20,
                                        .cpus = 1,
                                        .errors = errors};
        const struct fc_facts fc = {.jailer = p->jailer, .program = p->firecracker, .id = "probe", .base = BASE};

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return err_set(err, -errno, "could not make namespaces to try a machine in");
        int r = vm_host_proc(err);
        if (r == 0)
                r = fc_machine_start(&f, &fc, &m, release, PROBE_MS, err);
        if (r == 0)
                r = machine_wait_up(&m, PROBE_MS, err);
        machine_end(&m);
        return r;
}

/* What Firecracker itself says of it is what an operator has to know. */
static int boot_and_quote(const struct programs *p, uint32_t id_base, char release[32], struct err *err) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "could not make a pipe");
        _cleanup_fd_ int words = ends[0], errors = ends[1];
        int r = boot(p, id_base, errors, release, err);
        if (r < 0)
                (void)vm_host_quote(words, err);
        if (r < 0 && !err->hint[0])
                (void)err_hint(err, "where no kernel boots with KVM, the driver microvm emulates machines");
        return r;
}

struct outcome {
        int code;
        char release[32];
        struct err err;
};

/* In namespaces of its own whose first process ends with us: so does Firecracker, whatever happens. */
static int try_machine(const struct programs *p, uint32_t id_base, char release[32], struct err *err) {
        struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWPID, .exit_signal = SIGCHLD};
        struct outcome o = {0};
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        _cleanup_fd_ int from = ends[0], to = ends[1];
        pid_t pid = kernel_clone3(&args);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                o.code = boot_and_quote(p, id_base, o.release, &o.err);
                _exit(fd_write_full(to, &o, sizeof o) < 0);
        }
        if (pid < 0)
                return err_set(err, pid, "could not make namespaces to try a machine in");
        fd_close(&to);
        bool told = fd_read_full(from, &o, sizeof o) == sizeof o;
        (void)waitpid(pid, NULL, 0);
        if (!told)
                return err_set(err, -EIO, "could not try a machine");
        memcpy(release, o.release, sizeof o.release);
        *err = o.err;
        return o.code;
}

static int look(char release[32], struct err *err) {
        static struct programs p;
        uint32_t slot;

        if (geteuid() != 0)
                return err_set(err, ERR_UNENFORCED, "microVMs need root to be started");
        int r = find_programs(&p, err);
        if (r == 0)
                r = has_kvm(err);
        if (r < 0)
                return r;
        _cleanup_fd_ int ids = ids_open(err);
        if (ids < 0)
                return ids;
        r = ids_take(ids, false, &slot, err);
        if (r < 0)
                return r;
        r = try_machine(&p, CELL_ID_FIRST + slot * CELL_ID_RANGE, release, err);
        ids_release(ids, slot);
        return r;
}

static int probe(void) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        struct err err = {0};
        char release[32] = "";
        int r = look(release, &err);

        json_open(&j, NULL, '{');
        json_str(&j, "driver", driver_name(DRIVER_FIRECRACKER));
        json_bool(&j, "offered", r == 0);
        json_str(&j, "version", release);
        json_str(&j, "why", err.text);
        json_str(&j, "fix", err.hint);
        json_str(&j, "note",
                 r < 0 ? ""
                       : "Stockade was tested with a stand-in for Firecracker, not with Firecracker itself: "
                         "'stockade verify --driver firecracker' judges what holds here");
        json_open(&j, "guarantees", '{');
        for (unsigned i = 0; i < GUARANTEE_COUNT; i++)
                json_str(&j, guarantee_name(i), r < 0 ? "the driver is not to be had here" : "kept");
        json_close(&j, '}');
        json_close(&j, '}');
        if (!buf_ok(&out))
                return 1;
        return puts(out.data) < 0 ? 1 : 0;
}

int main(int argc, char **argv) {
        static const struct keeper_driver driver = {.probe = probe, .start = start};

        return keeper_main(&driver, argc, argv);
}
