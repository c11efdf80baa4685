/* Reading, writing and closing descriptors. */
#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

void fd_close(int *fd) {
        if (*fd >= 0) {
                int saved = errno;
                (void)close(*fd);
                errno = saved;
        }
        *fd = -EBADF;
}

ssize_t fd_read_full(int fd, void *buf, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = read(fd, (char *)buf + done, size - done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                done += (size_t)n;
        }
        return (ssize_t)done;
}

int fd_write_full(int fd, const void *buf, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = write(fd, (const char *)buf + done, size - done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                done += (size_t)n;
        }
        return 0;
}

int fd_read_file(int dir, const char *name, size_t max, bool nofollow, char **ret, size_t *ret_size, struct err *err) {
        _cleanup_fd_ int fd = openat(dir, name,
                                     O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (nofollow ? O_NOFOLLOW : 0));
        if (fd < 0)
                return err_set(err, -errno, "cannot open '%s'", name);

        struct stat st;
        if (fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot stat '%s'", name);
        if (!S_ISREG(st.st_mode))
                return err_set(err, ERR_INPUT, "'%s' is not a regular file", name);
        if (st.st_size > 0 && (uint64_t)st.st_size > max)
                return err_set(err, ERR_LIMIT, "'%s' is larger than %zu bytes", name, max);

        /* proc files say 0 and have content; a file may grow while it is read: trust only what arrives */
        size_t room = st.st_size > 0 ? (size_t)st.st_size + 1 : 4096, size = 0;
        _cleanup_free_ char *data = malloc(room + 1);
        if (!data)
                return err_set(err, -ENOMEM, "cannot read '%s'", name);
        for (;;) {
                ssize_t n = fd_read_full(fd, data + size, room - size);
                if (n < 0)
                        return err_set(err, (int)n, "cannot read '%s'", name);
                size += (size_t)n;
                if (size > max)
                        return err_set(err, ERR_LIMIT, "'%s' is larger than %zu bytes", name, max);
                if (size < room)
                        break;
                char *more = realloc(data, 2 * room + 1);
                if (!more)
                        return err_set(err, -ENOMEM, "cannot read '%s'", name);
                data = more;
                room *= 2;
        }
        data[size] = '\0';
        *ret = TAKE_PTR(data);
        if (ret_size)
                *ret_size = size;
        return 0;
}

int fd_write_at(int dir, const char *name, const char *text) {
        _cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
        if (fd < 0)
                return -errno;
        ssize_t n = write(fd, text, strlen(text));
        if (n < 0)
                return -errno;
        return (size_t)n == strlen(text) ? 0 : -EIO;
}

ssize_t fd_read_at(int dir, const char *name, char *buf, size_t size) {
        _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
        if (fd < 0)
                return -errno;
        assert(size > 0);
        ssize_t n = fd_read_full(fd, buf, size - 1);
        if (n < 0)
                return n;
        if (n > 0 && buf[n - 1] == '\n')
                n--;
        buf[n] = '\0';
        return n;
}

int fd_replace_file(int dir, const char *name, mode_t mode, const void *data, size_t size) {
        char temporary[300];
        int n = snprintf(temporary, sizeof temporary, ".%s.%ld", name, (long)getpid());
        if (n < 0 || (size_t)n >= sizeof temporary)
                return -ENAMETOOLONG;

        _cleanup_fd_ int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0)
                return -errno;
        int r = fd_write_full(fd, data, size);
        if (r == 0 && renameat(dir, temporary, dir, name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(dir, temporary, 0);
        return r;
}
