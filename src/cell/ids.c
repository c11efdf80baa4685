/* Slots of host ids: see the header. */
#include "cell/ids.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "cell/cell.h"

#define FOLDER    "/run/stockade"
#define IDS       FOLDER "/ids"
#define PENDING   UINT32_MAX /* taken for a sandbox that is being started; start is the second of the boot */
#define PENDING_S 60
#define KEPT_S    (100ULL * 365 * 86400) /* longer than a boot lasts */

struct note {
        uint32_t pid; /* 0: none */
        uint32_t unused;
        uint64_t start;
};

int ids_open(struct err *err) {
        int fd = open(IDS, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

        if (fd < 0 && errno == ENOENT) {
                if (mkdir(FOLDER, 0711) < 0 && errno != EEXIST)
                        return err_set(err, -errno, "cannot make " FOLDER);
                fd = open(IDS, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        }
        return fd < 0 ? err_set(err, -errno, "cannot open " IDS) : fd;
}

int ids_start_time(pid_t pid, uint64_t *ret) {
        char path[48], text[1024];

        (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
                return -ESRCH;
        const char *s = strrchr(text, ')'); /* after the name, which may hold anything: the third field */
        for (int field = 2; s && field < 22; field++)
                s = strchr(s + 1, ' ');
        if (!s || (*ret = strtoull(s + 1, NULL, 10)) == 0)
                return -ESRCH;
        return 0;
}

int ids_open_process(pid_t pid, uint64_t start_time) {
        uint64_t start;
        _cleanup_fd_ int fd = (int)kernel_result(syscall(SYS_pidfd_open, pid, 0));

        if (fd < 0)
                return fd;
        /* asked after it was opened: what the number stands for now is what the descriptor is */
        struct pollfd ended = {.fd = fd, .events = POLLIN};
        if (ids_start_time(pid, &start) < 0 || start != start_time || poll(&ended, 1, 0) != 0)
                return -ESRCH;
        return TAKE_FD(fd);
}

static uint64_t boot_second(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_BOOTTIME, &t);
        return (uint64_t)t.tv_sec;
}

static off_t place(uint32_t slot) {
        return (off_t)slot * (off_t)sizeof(struct note);
}

static int write_note(int fd, uint32_t slot, uint32_t pid, uint64_t start) {
        struct note n = {.pid = pid, .start = start};
        ssize_t size = pwrite(fd, &n, sizeof n, place(slot));

        return size == (ssize_t)sizeof n ? 0 : size < 0 ? -errno : -EIO;
}

/* Is there somebody to whom a note gives the slot? */
static bool is_noted(int fd, uint32_t slot) {
        struct note n = {0};

        if (pread(fd, &n, sizeof n, place(slot)) != (ssize_t)sizeof n || n.pid == 0)
                return false;
        if (n.pid == PENDING)
                return boot_second() < n.start + PENDING_S;
        _cleanup_fd_ int owner = ids_open_process((pid_t)n.pid, n.start);
        return owner >= 0;
}

static int lock(int fd, uint32_t slot, short type) {
        struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

        return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

int ids_take(int fd, bool noted, uint32_t *ret_slot, struct err *err) {
        uint32_t slot;

        if (getrandom(&slot, sizeof slot, 0) != (ssize_t)sizeof slot)
                return err_set(err, -errno, "could not get random bytes");
        for (unsigned tries = 0; tries < CELL_ID_SLOTS; tries++) {
                slot = (slot + (tries > 0)) % CELL_ID_SLOTS;
                if (is_noted(fd, slot))
                        continue; /* before the lock: if it is ours, it is to stay */
                int r = lock(fd, slot, F_WRLCK);
                if (r == -EAGAIN || r == -EACCES)
                        continue;
                if (r < 0)
                        return err_set(err, r, "cannot lock " IDS);
                if (is_noted(fd, slot)) { /* by somebody who had the lock until now, and is gone */
                        (void)lock(fd, slot, F_UNLCK);
                        continue;
                }
                r = noted ? write_note(fd, slot, PENDING, boot_second()) : 0;
                if (r < 0)
                        return err_set(err, r, "cannot write " IDS);
                *ret_slot = slot;
                return 0;
        }
        return err_set(err, -EAGAIN, "all %u id ranges are in use", CELL_ID_SLOTS);
}

int ids_note(int fd, uint32_t slot, pid_t pid, uint64_t start_time) {
        return write_note(fd, slot, (uint32_t)pid, start_time);
}

int ids_again(int fd, uint32_t slot) {
        return lock(fd, slot, F_WRLCK);
}

void ids_keep(int fd, uint32_t slot) {
        (void)write_note(fd, slot, PENDING, boot_second() + KEPT_S);
}

void ids_release(int fd, uint32_t slot) {
        (void)write_note(fd, slot, 0, 0);
        (void)lock(fd, slot, F_UNLCK);
}
