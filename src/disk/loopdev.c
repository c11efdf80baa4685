/* Finding, filling and recognizing loop devices by ioctl. */
#include "disk/loopdev.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { TRIES = 64 };

const char *loopdev_path(unsigned number, char buf[LOOPDEV_PATH_SIZE]) {
        (void)snprintf(buf, LOOPDEV_PATH_SIZE, "/dev/loop%u", number);
        return buf;
}

static int open_device(unsigned number) {
        char path[LOOPDEV_PATH_SIZE];
        int fd = open(loopdev_path(number, path), O_RDWR | O_CLOEXEC | O_NOFOLLOW);

        return fd < 0 ? -errno : fd;
}

int loopdev_attach(int control, int file, bool readonly, int (*note)(void *data, unsigned number), void *data,
                   unsigned *ret_number) {
        /* others take devices too: between asking for a free one and filling it somebody may have been faster */
        for (unsigned i = 0; i < TRIES; i++) {
                struct loop_config config = {.fd = (unsigned)file};
                int number = ioctl(control, LOOP_CTL_GET_FREE);

                if (number < 0)
                        return -errno;
                _cleanup_fd_ int device = open_device((unsigned)number);
                if (device < 0)
                        return device;
                config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (readonly ? LO_FLAGS_READ_ONLY : 0);
                if (ioctl(device, LOOP_CONFIGURE, &config) < 0) {
                        if (errno == EBUSY)
                                continue;
                        return -errno;
                }
                int r = note(data, (unsigned)number);
                if (r < 0)
                        return r;
                *ret_number = (unsigned)number;
                return TAKE_FD(device);
        }
        return -EBUSY;
}

int loopdev_open(unsigned number, const struct stat *file, bool *ret_readonly) {
        struct loop_info64 info;
        _cleanup_fd_ int device = open_device(number);

        if (device < 0)
                return device == -ENOENT ? -ENXIO : device;
        if (ioctl(device, LOOP_GET_STATUS64, &info) < 0)
                return -errno; /* ENXIO: nothing is behind it */
        /* in the kernel's own encoding of device numbers: 12 bits of minor, 12 of major, 12 more of minor */
        uint64_t number_of = (minor(file->st_dev) & 0xffU) | ((uint64_t)major(file->st_dev) << 8) |
                             ((uint64_t)(minor(file->st_dev) & ~0xffU) << 12);
        *ret_readonly = info.lo_flags & LO_FLAGS_READ_ONLY;
        return info.lo_device == number_of && info.lo_inode == file->st_ino ? TAKE_FD(device) : -ENXIO;
}
