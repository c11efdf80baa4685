/* A disk that fails, and one that forgets: preloaded into the driver by test_*.py here, and into the operator by those
 * of tests/operator.
 *
 * FAULTS names a file whose first byte says what is wrong now:
 *   0  nothing
 *   n  no space: half of what is written fits, then ENOSPC
 *   s  a sync fails with EIO, and what was written since the last one is gone from the file, as the kernel may do it
 *   w  a write fails with EIO
 *   d  a sync takes 20 ms longer
 *   c  no file can be made: EMFILE
 * FAULTS_NAME, if there is one, says for which files: those that were opened by a name with this in it.
 * FAULTS_LOG names a file in which every write since the last sync is kept with what was there before, so that a test
 * can undo some of it after a kill: that is what a loss of power does. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WRITTEN = 1, SYNCED = 2, MADE = 3, CUT = 4 };
enum { RANGES = 4096 };

struct entry { /* of the log; the path and the old bytes follow */
        uint32_t type, path_size;
        uint64_t offset, size, old_size, old_bytes;
};

static struct range {
        dev_t device;
        ino_t inode;
        off_t offset;
        size_t size;
} dirty[RANGES];
static unsigned dirty_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned char chosen[1 << 16]; /* by descriptor: opened by such a name */

static char fault(void) {
        static const char *byte;

        if (!byte) {
                const char *name = getenv("FAULTS");
                int fd = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0) : -1;
                byte = fd < 0 ? "0" : mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
                if (byte == MAP_FAILED)
                        abort();
        }
        return *(const volatile char *)byte;
}

/* Before the program confines itself. */
__attribute__((constructor)) static void begin(void) {
        (void)fault();
}

static int log_fd(void) {
        static int fd = -2;

        if (fd == -2) {
                const char *name = getenv("FAULTS_LOG");
                fd = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
                          : -1;
        }
        return fd;
}

/* Files of a folder of the test, not pipes and eventfds. */
static int interesting(int fd, struct stat *st) {
        if (getenv("FAULTS_NAME") && (fd < 0 || fd >= (int)sizeof chosen || !chosen[fd]))
                return 0;
        return fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));
}

static void keep(uint32_t type, int fd, uint64_t offset, uint64_t size) {
        char link[40], path[4096];
        struct stat st;

        if (log_fd() < 0 || !interesting(fd, &st))
                return;
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path);
        if (n < 0)
                return;
        struct entry e = {.type = type,
                          .path_size = (uint32_t)n,
                          .offset = offset,
                          .size = size,
                          .old_size = (uint64_t)st.st_size};
        if (type == WRITTEN || type == CUT) {
                uint64_t end = offset + size < e.old_size ? offset + size : e.old_size;
                e.old_bytes = end > offset ? end - offset : 0;
        }
        char *whole = malloc(sizeof e + (size_t)n + e.old_bytes);
        if (!whole)
                abort();
        memcpy(whole + sizeof e, path, (size_t)n);
        if (e.old_bytes > 0) {
                /* the descriptor may be for writing only */
                int again = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
                if (pread(again, whole + sizeof e + n, e.old_bytes, (off_t)offset) != (ssize_t)e.old_bytes)
                        abort();
                (void)close(again);
        }
        memcpy(whole, &e, sizeof e);
        if (syscall(SYS_write, log_fd(), whole, sizeof e + (size_t)n + e.old_bytes) < 0)
                abort();
        free(whole);
}

static void note_dirty(int fd, off_t offset, size_t size) {
        struct stat st;

        if (interesting(fd, &st) && dirty_count < RANGES)
                dirty[dirty_count++] = (struct range){st.st_dev, st.st_ino, offset, size};
}

/* forget: what was written since the last sync becomes zeros. */
static void settle(int fd, int forget) {
        static const char zeros[1 << 16];
        struct stat st;
        unsigned left = 0;

        if (!interesting(fd, &st))
                return;
        for (unsigned i = 0; i < dirty_count; i++) {
                struct range r = dirty[i];

                if (r.device != st.st_dev || r.inode != st.st_ino) {
                        dirty[left++] = r;
                        continue;
                }
                for (size_t done = 0; forget && done < r.size;) {
                        size_t n = r.size - done < sizeof zeros ? r.size - done : sizeof zeros;
                        (void)!syscall(SYS_pwrite64, fd, zeros, n, r.offset + (off_t)done);
                        done += n;
                }
        }
        dirty_count = left;
}

ssize_t pwrite64(int fd, const void *buf, size_t size, off64_t offset) {
        struct stat st;
        ssize_t n;

        (void)pthread_mutex_lock(&lock);
        if (fault() == 'w' && interesting(fd, &st)) {
                (void)pthread_mutex_unlock(&lock);
                errno = EIO;
                return -1;
        }
        if (fault() == 'n' && interesting(fd, &st)) {
                if (size < 64) {
                        (void)pthread_mutex_unlock(&lock);
                        errno = ENOSPC;
                        return -1;
                }
                size /= 2;
        }
        keep(WRITTEN, fd, (uint64_t)offset, size);
        n = syscall(SYS_pwrite64, fd, buf, size, offset);
        if (n > 0)
                note_dirty(fd, offset, (size_t)n);
        (void)pthread_mutex_unlock(&lock);
        return n;
}

ssize_t pwrite(int fd, const void *buf, size_t size, off_t offset) {
        return pwrite64(fd, buf, size, offset);
}

int ftruncate64(int fd, off64_t size) {
        struct stat st;

        (void)pthread_mutex_lock(&lock);
        if (interesting(fd, &st) && (off_t)st.st_size > size)
                keep(CUT, fd, (uint64_t)size, (uint64_t)(st.st_size - size));
        int r = (int)syscall(SYS_ftruncate, fd, size);
        (void)pthread_mutex_unlock(&lock);
        return r;
}

int ftruncate(int fd, off_t size) {
        return ftruncate64(fd, size);
}

static int sync_with(long number, int fd) {
        struct stat st;
        int r = -1;

        if (fault() == 'd')
                (void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 20000000}, NULL);
        (void)pthread_mutex_lock(&lock);
        if (fault() == 's' && interesting(fd, &st)) {
                settle(fd, 1);
                errno = EIO;
        } else {
                r = (int)syscall(number, fd);
                if (r == 0) {
                        settle(fd, 0);
                        keep(SYNCED, fd, 0, 0);
                }
        }
        (void)pthread_mutex_unlock(&lock);
        return r;
}

int fdatasync(int fd) {
        return sync_with(SYS_fdatasync, fd);
}

int fsync(int fd) {
        return sync_with(SYS_fsync, fd);
}

static int open_any(int dir, const char *name, int flags, unsigned mode) {
        const char *wanted = getenv("FAULTS_NAME");
        int is_chosen = wanted && strstr(name, wanted);

        if ((flags & O_CREAT) && fault() == 'c' && (!wanted || is_chosen)) {
                errno = EMFILE;
                return -1;
        }
        int made = log_fd() >= 0 && (flags & O_CREAT) && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
        int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
        if (fd >= 0 && fd < (int)sizeof chosen)
                chosen[fd] = (unsigned char)is_chosen;
        if (made && fd >= 0) {
                (void)pthread_mutex_lock(&lock);
                keep(MADE, fd, 0, 0);
                (void)pthread_mutex_unlock(&lock);
        }
        return fd;
}

#define OPEN_BODY(dir)                                                                                                 \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        unsigned mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(args, unsigned) : 0;                                  \
        va_end(args);                                                                                                  \
        return open_any(dir, name, flags, mode)

int open(const char *name, int flags, ...) {
        OPEN_BODY(AT_FDCWD);
}

int open64(const char *name, int flags, ...) {
        OPEN_BODY(AT_FDCWD);
}

int openat(int dir, const char *name, int flags, ...) {
        OPEN_BODY(dir);
}

int openat64(int dir, const char *name, int flags, ...) {
        OPEN_BODY(dir);
}

/* What the compiler makes of calls without a mode where it checks sizes. */
int __open_2(const char *name, int flags);
int __open64_2(const char *name, int flags);
int __openat_2(int dir, const char *name, int flags);
int __openat64_2(int dir, const char *name, int flags);

int __open_2(const char *name, int flags) {
        return open_any(AT_FDCWD, name, flags, 0);
}

int __open64_2(const char *name, int flags) {
        return open_any(AT_FDCWD, name, flags, 0);
}

int __openat_2(int dir, const char *name, int flags) {
        return open_any(dir, name, flags, 0);
}

int __openat64_2(int dir, const char *name, int flags) {
        return open_any(dir, name, flags, 0);
}
