/* System calls that hardly anybody makes: old ones that libraries gave up, and new ones that only supervisors need.
 * They are where holes stay longest. As in syscalls.c, each is made so that it does nothing: only EPERM and ENOSYS say
 * that it is closed. */
#include <fcntl.h>
#include <linux/kd.h>
#include <linux/vt.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_lsm_list_modules
#define SYS_lsm_list_modules 461
#endif

/* Has another process's memory paged out, or thrown away. Our own stands for it. */
static void process_advice(struct result *r) {
        static char page[4096] __attribute__((aligned(4096)));
        struct iovec piece = {page, sizeof page};
        long pidfd = syscall(SYS_pidfd_open, getpid(), 0);

        probe_gate(r, syscall(SYS_process_madvise, (int)pidfd, &piece, 1UL, 20 /* MADV_COLD */, 0));
        if (pidfd >= 0)
                (void)close((int)pidfd);
}

/* Takes the memory of a process that is being ended. We are not: refused after that was looked at. */
static void process_release(struct result *r) {
        long pidfd = syscall(SYS_pidfd_open, getpid(), 0);

        probe_gate(r, syscall(SYS_process_mrelease, (int)pidfd, 0));
        if (pidfd >= 0)
                (void)close((int)pidfd);
}

/* Where memory comes from, for ourselves: the default. */
static void memory_policy(struct result *r) {
        probe_gate(r, syscall(SYS_set_mempolicy, 0, NULL, 0UL));
}

static void security_modules(struct result *r) {
        unsigned long long ids[32];
        uint32_t size = sizeof ids;

        probe_gate(r, syscall(SYS_lsm_list_modules, ids, &size, 0));
}

/* File systems and devices by number, from before there was /proc. */
static void obsolete(struct result *r) {
#ifdef __x86_64__
        struct stat st;
        char out[64];

        if (syscall(SYS_sysfs, 3) < 0 && (errno == ENOSYS || errno == EPERM))
                probe_gate(r, stat("/", &st) < 0 ? -1 : syscall(SYS_ustat, st.st_dev, out));
        else
                probe_done(r, "the kernel counts its file systems");
#else
        probe_refused(r, ENOSYS, "no such thing here");
#endif
}

static void remap_pages(struct result *r) {
        char *at = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (at != MAP_FAILED)
                probe_gate(r, syscall(SYS_remap_file_pages, at, 4096UL, 0UL, 1UL, 0));
}

/* Pages from a pool of the whole host. Without any the kernel says ENOMEM, which is not a refusal. Raw: musl makes
 * ENOMEM of EPERM here. */
static void huge_pages(struct result *r) {
        unsigned long size = 2UL << 20;
        long at = syscall(SYS_mmap, NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0UL);

        probe_gate(r, at == -1 ? -1 : 0);
        if (at != -1)
                (void)syscall(SYS_munmap, at, size);
}

/* Hangs up our terminal. We leave it first. */
static void hang_up(struct result *r) {
        if (setsid() < 0)
                probe_note(r, "no session of our own: %s", strerror(errno));
        else
                probe_gate(r, syscall(SYS_vhangup));
}

/* A terminal of our own, whose other end is *ret_master. */
static int terminal(int *ret_master) {
        int unlock = 0;

        (void)signal(SIGHUP, SIG_IGN);
        *ret_master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (*ret_master < 0 || ioctl(*ret_master, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        return probe_other_end(*ret_master);
}

static void terminal_call(struct result *r, unsigned long request, unsigned long argument) {
        _cleanup_fd_ int master = -EBADF;
        _cleanup_fd_ int fd = terminal(&master);

        if (fd < 0)
                probe_note(r, "no terminal: %s", strerror(-fd));
        else
                probe_gate(r, syscall(SYS_ioctl, fd, request, argument));
}

/* Nobody else can open it any more. */
static void terminal_exclusive(struct result *r) {
        terminal_call(r, TIOCEXCL, 0);
}

/* Calls of virtual consoles: they give the keys other meanings, or switch the screen. Asks for what is so. */
static void terminal_keyboard(struct result *r) {
        char mode;

        terminal_call(r, KDGKBMODE, (unsigned long)(uintptr_t)&mode);
        if (r->outcome == REFUSED) {
                struct vt_stat state;

                *r = (struct result){0};
                terminal_call(r, VT_GETSTATE, (unsigned long)(uintptr_t)&state);
        }
}

const struct attempt rare_attempts[] = {
        {"call-process-madvise", process_advice, QUICK},
        {"call-process-mrelease", process_release, QUICK},
        {"call-mempolicy", memory_policy, QUICK},
        {"call-lsm-list", security_modules, QUICK},
        {"call-obsolete", obsolete, QUICK},
        {"call-remap-pages", remap_pages, QUICK},
        {"huge-pages", huge_pages, QUICK},
        {"call-vhangup", hang_up, QUICK},
        {"tty-exclusive", terminal_exclusive, QUICK},
        {"tty-keyboard", terminal_keyboard, QUICK},
        {0},
};
