/* Hole-aware comparing and copying with plain reads and writes. Both files are addressed by offset. */
#include "disk/copy.h"

#include <unistd.h>

enum { BLOCK = 128 * 1024 };

int copy_next_data(int fd, uint64_t offset, uint64_t size, uint64_t *ret_start, uint64_t *ret_end) {
        off_t start = lseek(fd, (off_t)offset, SEEK_DATA);
        if (start < 0 && errno == ENXIO) {
                *ret_start = *ret_end = size;
                return 0;
        }
        if (start < 0 && errno != EINVAL && errno != EOPNOTSUPP)
                return -errno;
        off_t end = start < 0 ? -1 : lseek(fd, start, SEEK_HOLE);
        *ret_start = start < 0 ? offset : MIN((uint64_t)start, size);
        *ret_end = end < 0 ? size : MIN((uint64_t)end, size);
        return 0;
}

static int read_at(int fd, char *buf, size_t want, uint64_t offset) {
        for (size_t done = 0; done < want;) {
                ssize_t n = pread(fd, buf + done, want - done, (off_t)(offset + done));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EIO;
                done += (size_t)n;
        }
        return 0;
}

static int write_at(int fd, const char *buf, size_t size, uint64_t offset) {
        for (size_t done = 0; done < size;) {
                ssize_t n = pwrite(fd, buf + done, size - done, (off_t)(offset + done));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                done += (size_t)n;
        }
        return 0;
}

int copy_equal(int a, int b, uint64_t size) {
        size_t room = (size_t)MIN((uint64_t)BLOCK, MAX(size, (uint64_t)1));
        _cleanup_free_ char *block = malloc(2 * room);
        uint64_t from_a, from_b, end;

        if (!block)
                return -ENOMEM;
        for (uint64_t offset = 0; offset < size;) {
                int r = copy_next_data(a, offset, size, &from_a, &end);
                if (r == 0)
                        r = copy_next_data(b, offset, size, &from_b, &end);
                if (r < 0)
                        return r;
                offset = MIN(from_a, from_b);
                if (offset >= size)
                        break;
                size_t want = (size_t)MIN((uint64_t)room, size - offset);
                r = read_at(a, block, want, offset);
                if (r == 0)
                        r = read_at(b, block + room, want, offset);
                if (r < 0)
                        return r;
                if (memcmp(block, block + room, want) != 0)
                        return 0;
                offset += want;
        }
        return 1;
}

int copy_sparse(int in, int out, uint64_t size) {
        size_t room = (size_t)MIN((uint64_t)BLOCK, MAX(size, (uint64_t)1));
        _cleanup_free_ char *block = malloc(room);
        uint64_t start, end;

        if (!block)
                return -ENOMEM;
        if (size > INT64_MAX || ftruncate(out, (off_t)size) < 0)
                return size > INT64_MAX ? -EFBIG : -errno;
        for (uint64_t offset = 0; offset < size; offset = end) {
                int r = copy_next_data(in, offset, size, &start, &end);
                for (uint64_t at = start; r == 0 && at < end;) {
                        size_t want = (size_t)MIN((uint64_t)room, end - at);
                        r = read_at(in, block, want, at);
                        if (r == 0)
                                r = write_at(out, block, want, at);
                        at += want;
                }
                if (r < 0)
                        return r;
                if (end <= offset)
                        return -EIO;
        }
        return 0;
}
