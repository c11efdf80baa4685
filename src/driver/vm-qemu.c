/* Command lines. Nothing that a sandbox says gets into them: they are made of numbers and of our own paths.
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

#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define WORDS_MAX 64

/* Words one after another, each with its NUL; split at the end, when they no longer move. */
static void add(struct buf *b, const char *word) {
        buf_add(b, word, strlen(word) + 1);
}

static void end_word(struct buf *b) {
        buf_add(b, "", 1);
}

static int split(struct buf *text, struct vm_words *ret) {
        size_t n = 0;

        if (!buf_ok(text))
                return -ENOMEM;
        char **argv = calloc(WORDS_MAX + 1, sizeof *argv);
        if (!argv)
                return -ENOMEM;
        for (size_t at = 0; at < text->size && n < WORDS_MAX; at += strlen(text->data + at) + 1)
                argv[n++] = text->data + at;
        *ret = (struct vm_words){.argv = argv, .text = *text};
        *text = (struct buf){0};
        return 0;
}

void vm_words_free(struct vm_words *w) {
        free(w->argv);
        buf_free(&w->text);
        w->argv = NULL;
}

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
                add(b, words[i]);
        add(b, "-accel");
        add(b, f->kvm ? "kvm" : "tcg");
        add(b, "-cpu");
        add(b, f->kvm ? "host" : "max");
        add(b, "-smp");
        buf_printf(b, "%u", MIN(MAX(f->cpus, 1U), (unsigned)VM_CPUS_MAX));
        end_word(b);
        add(b, "-m");
        buf_printf(b, "%lluM", mib);
        end_word(b);
        add(b, "-object"); /* shared with virtiofsd, which reads and writes it */
        buf_printf(b, "memory-backend-memfd,id=ram,size=%lluM,share=on", mib);
        end_word(b);
}

static void add_kernel(struct buf *b, const struct vm_facts *f) {
        add(b, "-kernel");
        add(b, VM_IMAGE_INSIDE "/kernel");
        add(b, "-initrd");
        add(b, VM_IMAGE_INSIDE "/initrd");
        add(b, "-append");
        buf_str(b, "quiet loglevel=0 panic=-1 reboot=t audit=0 lsm=landlock cgroup_no_v1=all cryptomgr.notests "
                   "rcupdate.rcu_expedited=1 8250.nr_uarts=0 no_timer_check");
        /* An emulator remembers translated code by page, and forgets it when the machine writes there; of virtiofsd's
         * writes it knows nothing. So the machine writes to every page before it gives it to anybody. What the emulated
         * processor does not have cannot be exploited in it. */
        if (!f->kvm)
                buf_printf(b, " init_on_alloc=1 mitigations=off tsc_early_khz=%u tsc=reliable", f->tsc_khz);
        end_word(b);
}

static void add_files(struct buf *b, const char *tag, int fd) {
        if (fd < 0)
                return;
        add(b, "-chardev");
        buf_printf(b, "socket,id=%s,fd=%d", tag, fd);
        end_word(b);
        add(b, "-device");
        buf_printf(b, "vhost-user-fs-device,chardev=%s,tag=%s", tag, tag);
        end_word(b);
}

static void add_devices(struct buf *b, const struct vm_facts *f) {
        add(b, "-device");
        add(b, "virtio-serial-device");
        add(b, "-chardev");
        buf_printf(b, "socket,id=line,fd=%d", f->line);
        end_word(b);
        add(b, "-device");
        add(b, "virtserialport,chardev=line,name=line");
        add_files(b, "tree", f->tree);
        add_files(b, "live", f->live);
        if (f->disk >= 0) {
                add(b, "-add-fd");
                buf_printf(b, "fd=%d,set=1", f->disk);
                end_word(b);
                add(b, "-drive");
                add(b, "if=none,id=disk,format=raw,file=/dev/fdset/"
                       "1,file.locking=off,auto-read-only=off,cache=writeback,aio=threads,"
                       "discard=unmap");
                add(b, "-device");
                add(b, "virtio-blk-device,drive=disk");
        }
        if (f->tap >= 0) {
                add(b, "-netdev");
                buf_printf(b, "tap,id=link,fd=%d,vhost=off", f->tap);
                end_word(b);
                add(b, "-device");
                add(b, "virtio-net-device,netdev=link");
        }
}

int vm_qemu_words(const struct vm_facts *f, struct vm_words *ret) {
        _cleanup_(buf_free) struct buf b = {0};

        add_machine(&b, f);
        add_kernel(&b, f);
        add_devices(&b, f);
        return split(&b, ret);
}

/* `always`: what was read is believed for good, as it may be of the host's programs and of what this machine alone
 * writes to; with less than that every exec would read its program and libraries again. `auto`: for a second, and a
 * file that is opened is read anew. */
int vm_fs_words(int listener, bool live, struct vm_words *ret) {
        _cleanup_(buf_free) struct buf b = {0};

        add(&b, VM_FS_PROGRAM);
        add(&b, "-f");
        buf_printf(&b, "--fd=%d", listener);
        end_word(&b);
        add(&b, "--rlimit-nofile=0");
        add(&b, "-o");
        buf_printf(&b, "source=" VM_TREE_INSIDE ",sandbox=chroot,cache=%s,log_level=err", live ? "auto" : "always");
        end_word(&b);
        return split(&b, ret);
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
