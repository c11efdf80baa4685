/* Command lines.
 *
 * The machine is `microvm`: a handful of virtio devices, no PCI, no firmware settings, no monitor. ACPI tells the
 * kernel of the devices, because Debian's takes none from its command line. Under emulation the kernel cannot find out
 * the clock's speed and is told.
 *
 * The disk goes through the host's page cache (`writeback`): what the sandbox flushes is on the host's disk, as ext4
 * inside relies on, and what it does not flush may be lost with the host, as on any disk. O_DIRECT would spare the
 * second copy of cached blocks, but not every file system of a host has it. The image is opened by the keeper alone: no
 * locks. Blocks that are freed inside are given back. */
#include "driver/vm-qemu.h"

#include "driver/vm-forget.h"

#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static void add_machine(struct buf *b, const struct vm_facts *f) {
        static const char *const words[] = {VM_QEMU_PROGRAM,
                                            "-nodefaults",
                                            "-no-user-config",
                                            "-no-reboot",
                                            "-display",
                                            "none",
                                            "-sandbox",
                                            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
                                            "-M",
                                            "microvm,acpi=on,pit=off,pic=off,rtc=on,isa-serial=off,memory-backend=ram",
                                            "-global",
                                            "virtio-mmio.force-legacy=false"};
        unsigned long long mib = (f->memory + VM_MEMORY_OVERHEAD + (1U << 20) - 1) >> 20;

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                words_add(b, words[i]);
        words_add(b, "-accel");
        words_add(b, f->kvm ? "kvm" : "tcg");
        words_add(b, "-cpu");
        words_add(b, f->kvm ? "host" : "max");
        words_add(b, "-smp");
        buf_printf(b, "%u", MIN(MAX(f->cpus, 1U), (unsigned)VM_CPUS_MAX));
        words_end(b);
        words_add(b, "-m");
        buf_printf(b, "%lluM", mib);
        words_end(b);
        words_add(b, "-object"); /* shared with virtiofsd, which reads and writes it */
        buf_printf(b, "memory-backend-memfd,id=ram,size=%lluM,share=on", mib);
        words_end(b);
}

static void add_kernel(struct buf *b, const struct vm_facts *f) {
        words_add(b, "-kernel");
        words_add(b, VM_IMAGE_INSIDE "/kernel");
        words_add(b, "-initrd");
        words_add(b, VM_IMAGE_INSIDE "/initrd");
        words_add(b, "-append");
        buf_str(b, "quiet loglevel=0 panic=-1 reboot=t audit=0 lsm=landlock cgroup_no_v1=all cryptomgr.notests "
                   "rcupdate.rcu_expedited=1 8250.nr_uarts=0 no_timer_check");
        if (f->files > 0)
                buf_printf(b, " " VM_FILES_WORD "%u", f->files);
        /* An emulator remembers translated code by page, and forgets it when the machine writes there; of virtiofsd's
         * writes it knows nothing. So the machine writes to every page before it gives it to anybody. What the emulated
         * processor does not have cannot be exploited in it. */
        if (!f->kvm)
                buf_printf(b, " init_on_alloc=1 mitigations=off tsc_early_khz=%u tsc=reliable", f->tsc_khz);
        words_end(b);
}

static void add_files(struct buf *b, const char *tag, int fd) {
        if (fd < 0)
                return;
        words_add(b, "-chardev");
        buf_printf(b, "socket,id=%s,fd=%d", tag, fd);
        words_end(b);
        words_add(b, "-device");
        buf_printf(b, "vhost-user-fs-device,chardev=%s,tag=%s", tag, tag);
        words_end(b);
}

static void add_devices(struct buf *b, const struct vm_facts *f) {
        words_add(b, "-device");
        words_add(b, "virtio-serial-device");
        words_add(b, "-chardev");
        buf_printf(b, "socket,id=line,fd=%d", f->line);
        words_end(b);
        words_add(b, "-device");
        words_add(b, "virtserialport,chardev=line,name=line");
        add_files(b, "tree", f->tree);
        add_files(b, "live", f->live);
        if (f->disk >= 0) {
                words_add(b, "-add-fd");
                buf_printf(b, "fd=%d,set=1", f->disk);
                words_end(b);
                words_add(b, "-drive");
                words_add(b, "if=none,id=disk,format=raw,file=/dev/fdset/"
                             "1,file.locking=off,auto-read-only=off,cache=writeback,aio=threads,"
                             "discard=unmap");
                words_add(b, "-device");
                words_add(b, "virtio-blk-device,drive=disk");
        }
        if (f->tap >= 0) {
                words_add(b, "-netdev");
                buf_printf(b, "tap,id=link,fd=%d,vhost=off", f->tap);
                words_end(b);
                words_add(b, "-device");
                words_add(b, "virtio-net-device,netdev=link");
        }
}

int vm_qemu_words(const struct vm_facts *f, struct words *ret) {
        _cleanup_(buf_free) struct buf b = {0};

        add_machine(&b, f);
        add_kernel(&b, f);
        add_devices(&b, f);
        return words_take(&b, ret);
}

/* `always`: what was read is believed for good, as it may be of the host's programs and of what this machine alone
 * writes to; with less than that every exec would read its program and libraries again. `auto`: for a second, and a
 * file that is opened is read anew. */
int vm_fs_words(int listener, bool live, struct words *ret) {
        _cleanup_(buf_free) struct buf b = {0};

        words_add(&b, VM_FS_PROGRAM);
        words_add(&b, "-f");
        buf_printf(&b, "--fd=%d", listener);
        words_end(&b);
        words_add(&b, "--rlimit-nofile=0");
        words_add(&b, "-o");
        buf_printf(&b, "source=" VM_TREE_INSIDE ",sandbox=chroot,cache=%s,log_level=err", live ? "auto" : "always");
        words_end(&b);
        return words_take(&b, ret);
}

unsigned vm_tsc_khz(void) {
#if defined(__x86_64__)
        struct timespec from, now, pause = {.tv_nsec = 20 * 1000 * 1000};

        (void)clock_gettime(CLOCK_MONOTONIC, &from);
        unsigned long long begin = __rdtsc();
        (void)nanosleep(&pause, NULL);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        unsigned long long ticks = __rdtsc() - begin;
        unsigned long long ns = (unsigned long long)(now.tv_sec - from.tv_sec) * 1000000000ULL +
                                (unsigned long long)now.tv_nsec - (unsigned long long)from.tv_nsec;
        return ns > 0 ? (unsigned)(ticks * 1000000 / ns) : 0;
#else
        return 0;
#endif
}
