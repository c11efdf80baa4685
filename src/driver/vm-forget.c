/* See vm-forget.h. An inode with cached pages is not given up for its own sake (since Linux 5.17), so that a machine
 * which has read its files has to lose the pages first. */
#include "driver/vm-forget.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

#define CACHES "/proc/sys/vm/drop_caches"
#define INODES "/proc/sys/fs/inode-nr"
#define OPEN   "/proc/sys/fs/file-nr"

#define PACE     50   /* files that a machine comes to know in a millisecond, at most */
#define PAUSE_MS 1000 /* at most */
#define MORE     1000 /* files until it is tried again, where it did not help */

static int caches = -EBADF, inodes = -EBADF, open_files = -EBADF;

int vm_forget_open(struct err *err) {
        if (caches >= 0)
                return 0;
        inodes = open(INODES, O_RDONLY | O_CLOEXEC);
        open_files = open(OPEN, O_RDONLY | O_CLOEXEC);
        caches = open(CACHES, O_WRONLY | O_CLOEXEC);
        return caches < 0 || inodes < 0 || open_files < 0 ? err_set(err, -errno, "cannot open " CACHES) : 0;
}

/* The first number in a file. */
static unsigned long count(int fd) {
        char text[64];
        ssize_t n = pread(fd, text, sizeof text - 1, 0);

        text[MAX(n, 0)] = '\0';
        return strtoul(text, NULL, 10);
}

void vm_forget(void) {
        unsigned long before = count(inodes);

        (void)!pwrite(caches, "2\n", 2, 0);
        if (count(inodes) > before / 2)
                (void)!pwrite(caches, "3\n", 2, 0);
}

static unsigned long known(void) {
        return count(inodes) + count(open_files);
}

_noreturn_ static void watch(unsigned long many) {
        /* without it every file would be gone one day, so that memory is never taken from it */
        (void)fd_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
        for (unsigned long next = many;;) {
                unsigned long now = known();
                if (now >= next) {
                        vm_forget();
                        now = known();
                        next = MAX(many, now + MORE);
                } else if (now < many)
                        next = many;
                unsigned long ms = MIN(MAX((next - MIN(now, next)) / PACE, 1UL), (unsigned long)PAUSE_MS);
                const struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
                (void)nanosleep(&t, NULL);
        }
}

int vm_forget_watch(struct err *err) {
        char words[4096];

        if (fd_read_at(AT_FDCWD, "/proc/cmdline", words, sizeof words) < 0)
                return err_set(err, -EIO, "cannot read the kernel's command line");
        const char *said = strstr(words, VM_FILES_WORD);
        unsigned long most = said ? strtoul(said + strlen(VM_FILES_WORD), NULL, 10) : 0;
        int r = most > 0 ? vm_forget_open(err) : 0;
        if (r < 0 || most == 0)
                return r;
        pid_t pid = fork();
        if (pid == 0)
                watch(most / 4 * 3);
        return pid < 0 ? err_set(err, -errno, "cannot watch how many files are known") : 0;
}
