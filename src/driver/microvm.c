/* stockade-box-microvm: the plan in a virtual machine with a kernel of its own.
 *
 * What is the host's comes from the cell's tree through virtiofsd, the sandbox's disk too: its file system is mounted
 * outside, as for every driver, and never made of bytes that a machine's kernel wrote. To get out, code inside first
 * has to take over the machine's kernel and then QEMU or virtiofsd, and is then a process without rights in a place of
 * its own (vm-place.h). */
#include "driver/microvm.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "driver/keeper.h"
#include "driver/link.h"
#include "driver/vm-fs.h"
#include "driver/vm-host.h"
#include "driver/vm-machine.h"
#include "driver/vm-plan.h"
#include "driver/vm-qemu.h"
#include "wire/driver.h"

#define BEGIN_MS (DRIVER_MACHINE_MS - 5000) /* less than the warden waits, so that there is a sentence */
#define TAP      "box"

int microvm_programs(char ret_fs[PATH_MAX], struct err *err) {
        if (access(VM_QEMU_PROGRAM, X_OK) == 0)
                return vm_fs_find(ret_fs, err);
        (void)err_set(err, ERR_UNENFORCED, "'%s' is not installed", VM_QEMU_PROGRAM);
        return err_hint(err, "as root: apt-get install qemu-system-x86 qemu-system-common");
}

int microvm_hint(struct err *err) {
        return err->hint[0] ? err->code
                            : err_hint(err, "if its kernel may be damaged, as root: stockade image microvm; "
                                            "'stockade doctor' tries it");
}

static bool may_use_kvm(const char *image) {
        char text[8] = "";
        _cleanup_fd_ int folder = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC);

        return folder >= 0 && fd_read_at(folder, MICROVM_ACCEL, text, sizeof text) > 0 && str_eq(text, "kvm");
}

/* A machine whose guest serves; what its programs complain until then is quoted, and later is the keeper's to hear. */
static int run_machine(const struct plan *p, struct machine_facts *f, struct machine *ret, int *ret_words,
                       struct err *err) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "could not make a pipe");
        _cleanup_fd_ int words = ends[0], errors = ends[1];
        f->errors = errors;
        int r = machine_start(f, ret, err);
        if (r == 0)
                r = machine_begin(ret, p, BEGIN_MS, err);
        if (r < 0) {
                machine_end(ret);
                if (!ret->up)
                        (void)microvm_hint(err);
                return vm_host_quote(words, err);
        }
        *ret_words = TAKE_FD(words);
        return 0;
}

static int start(const struct keeper_task *t, struct keeper_box *ret, struct err *err) {
        char image[PATH_MAX], fs[PATH_MAX];
        struct machine m = MACHINE_NONE;
        struct machine_facts f = {
                .image = image, .id_base = t->id_base, .fs = fs, .tree = t->tree, .disk = -EBADF, .tap = -EBADF};
        int words = -EBADF;

        int r = microvm_programs(fs, err);
        if (r == 0)
                r = vm_host_image(image, err);
        if (r == 0)
                r = vm_host_proc(err);
        if (r < 0)
                return r;
        f.kvm = may_use_kvm(image);
        f.live = vm_plan_is_live(&t->plan);
        machine_limits(&t->plan, &f);
        if (t->networked)
                f.tap = link_tap(TAP, LINK_HEADERS, (uid_t)-1, err);
        if (t->networked && f.tap < 0)
                return f.tap;
        r = run_machine(&t->plan, &f, &m, &words, err);
        fd_close(&f.tap); /* QEMU has its own */
        if (r < 0)
                return r;
        fd_close(&m.qemu_pidfd);
        fd_close(&m.fs_pidfd);
        fd_close(&m.live_pidfd);
        *ret = (struct keeper_box){
                .pid = m.qemu, .aids = {m.fs, m.live}, .line = m.line, .end = -EBADF, .door = -EBADF, .words = words};
        return 0;
}

int main(int argc, char **argv) {
        static const struct keeper_driver driver = {.probe = microvm_probe, .start = start};

        return keeper_main(&driver, argc, argv);
}
