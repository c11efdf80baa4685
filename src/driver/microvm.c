/* stockade-box-microvm: the plan in a virtual machine with a kernel of its own.
 *
 * What is the host's comes from the cell's tree through virtiofsd, the sandbox's disk too: its file system is mounted
 * outside, as for every driver, and never made of bytes that a machine's kernel wrote. To get out, code inside first
 * has to take over the machine's kernel and then QEMU or virtiofsd, and is then a process without rights in a place of
 * its own (vm-place.h). */
#include "driver/microvm.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "driver/keeper.h"
#include "driver/link.h"
#include "driver/vm-machine.h"
#include "driver/vm-plan.h"
#include "driver/vm-qemu.h"

#define BEGIN_MS 55000 /* less than the warden waits, so that there is a sentence */
#define TAP      "box"

int microvm_programs(struct err *err) {
        static const char *const needed[] = {VM_QEMU_PROGRAM, VM_FS_PROGRAM};

        for (size_t i = 0; i < ELEMENTSOF(needed); i++)
                if (access(needed[i], X_OK) < 0) {
                        (void)err_set(err, ERR_UNENFORCED, "'%s' is not installed", needed[i]);
                        return err_hint(err, "as root: apt-get install qemu-system-x86 qemu-system-common");
                }
        return 0;
}

static bool has_image(const char *folder) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/kernel", folder);

        return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

int microvm_image(char ret[PATH_MAX], struct err *err) {
        ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof "microvm");

        if (n > 0) {
                ret[n] = '\0';
                memcpy(strrchr(ret, '/') + 1, "microvm", sizeof "microvm");
                if (has_image(ret))
                        return 0;
        }
        (void)snprintf(ret, PATH_MAX, "/var/lib/stockade/microvm");
        if (has_image(ret))
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "there is no kernel for microVMs in '%s'", ret);
        return err_hint(err, "as root: apt-get install linux-image-cloud-amd64 && stockade image microvm");
}

static bool may_use_kvm(const char *image) {
        char text[8] = "";
        _cleanup_fd_ int folder = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC);

        return folder >= 0 && fd_read_at(folder, MICROVM_ACCEL, text, sizeof text) > 0 && str_eq(text, "kvm");
}

/* The last line of what the programs complained, after the sentence that there is. */
static int quote(int words, struct err *err) {
        char said[512], line[256];
        ssize_t n = read(words, said, sizeof said - 1);

        while (n > 0 && (unsigned char)said[n - 1] <= ' ')
                n--;
        if (n <= 0)
                return err->code;
        said[n] = '\0';
        const char *last = strrchr(said, '\n');
        text_escape(line, sizeof line, last ? last + 1 : said);
        size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof err->text - used, " (%s)", line);
        return err->code;
}

/* The host's shows other processes under our numbers. */
static int own_proc(struct err *err) {
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return err_set(err, -errno, "could not mount a /proc of the box's own");
        return 0;
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
                return quote(words, err);
        }
        *ret_words = TAKE_FD(words);
        return 0;
}

static int start(const struct keeper_task *t, struct keeper_box *ret, struct err *err) {
        char image[PATH_MAX];
        struct machine m = MACHINE_NONE;
        struct machine_facts f = {
                .image = image, .id_base = t->id_base, .tree = t->tree, .disk = -EBADF, .tap = -EBADF};
        int words = -EBADF;

        int r = microvm_programs(err);
        if (r == 0)
                r = microvm_image(image, err);
        if (r == 0)
                r = own_proc(err);
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
