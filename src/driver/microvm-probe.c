/* The probe: boots the machine's kernel, with KVM where that is to be had and emulated otherwise. What was booted is
 * written down beside the image: a start believes in KVM only then. (A host can have /dev/kvm and run no ordinary
 * kernel with it.) */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "cell/cell.h"
#include "cell/ids.h"
#include "driver/microvm.h"
#include "driver/vm-host.h"
#include "driver/vm-machine.h"
#include "wire/driver.h"

#define KVM_MS  5000
#define BOOT_MS 22000 /* both: less than whoever asks waits, so that there is a sentence */

static_assert(KVM_MS + BOOT_MS < DRIVER_PROBE_MS, "a probe says why itself, before it is ended");

static int boot(const char *image, uint32_t id_base, bool kvm, struct err *err) {
        struct machine m = MACHINE_NONE;
        int ends[2];

        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "could not make a pipe");
        _cleanup_fd_ int words = ends[0], errors = ends[1];
        const struct machine_facts f = {.image = image,
                                        .id_base = id_base,
                                        .tree = -EBADF,
                                        .disk = -EBADF,
                                        .tap = -EBADF,
                                        .kvm = kvm,
                                        .memory = 64U << 20,
                                        .cpus = 1,
                                        .errors = errors};
        int r = machine_start(&f, &m, err);

        if (r == 0)
                r = machine_wait_up(&m, kvm ? KVM_MS : BOOT_MS, err);
        machine_end(&m);
        return r < 0 ? vm_host_quote(words, err) : 0;
}

/* In a mount namespace of its own: places are made in one that is the caller's alone. */
static int try_machine(const char *image, uint32_t id_base, bool *ret_kvm, struct err *err) {
        struct err without = {0};

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return err_set(err, -errno, "could not make namespaces to try a machine in");
        *ret_kvm = access("/dev/kvm", R_OK | W_OK) == 0 && boot(image, id_base, true, &without) == 0;
        return *ret_kvm ? 0 : boot(image, id_base, false, err);
}

static int note(const char *image, bool kvm) {
        _cleanup_fd_ int folder = open(image, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return folder < 0 ? -errno : fd_replace_file(folder, MICROVM_ACCEL, 0644, kvm ? "kvm\n" : "tcg\n", 4);
}

static int look(bool *ret_kvm, struct err *err) {
        char image[PATH_MAX], fs[PATH_MAX];
        uint32_t slot;

        if (geteuid() != 0)
                return err_set(err, ERR_UNENFORCED, "microVMs need root to be started");
        int r = microvm_programs(fs, err);
        if (r == 0)
                r = vm_host_image(image, err);
        if (r < 0)
                return r;
        _cleanup_fd_ int ids = ids_open(err);
        if (ids < 0)
                return ids;
        r = ids_take(ids, false, &slot, err);
        if (r < 0)
                return r;
        r = try_machine(image, CELL_ID_FIRST + slot * CELL_ID_RANGE, ret_kvm, err);
        ids_release(ids, slot);
        if (r < 0)
                return microvm_hint(err);
        (void)note(image, *ret_kvm); /* without the note a start emulates, which is slower and no weaker */
        return 0;
}

int microvm_probe(void) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        struct err err = {0};
        bool kvm = false;
        int r = look(&kvm, &err);

        json_open(&j, NULL, '{');
        json_str(&j, "driver", driver_name(DRIVER_MICROVM));
        json_bool(&j, "offered", r == 0);
        json_str(&j, "version", r < 0 ? "" : kvm ? "QEMU with KVM" : "QEMU, emulated");
        json_str(&j, "why", err.text);
        json_str(&j, "fix", err.hint);
        json_str(&j, "note", r == 0 && !kvm ? "no kernel boots with KVM here: machines are emulated, and slow" : "");
        json_open(&j, "guarantees", '{');
        for (unsigned i = 0; i < GUARANTEE_COUNT; i++)
                json_str(&j, guarantee_name(i), r < 0 ? "the driver is not to be had here" : "kept");
        json_close(&j, '}');
        json_close(&j, '}');
        if (!buf_ok(&out))
                return 1;
        return puts(out.data) < 0 ? 1 : 0;
}
