/* Descriptors: owned by one variable, closed by cleanup, CLOEXEC at birth. An invalid one is -EBADF. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

void fd_close(int *fd); /* closes *fd if it is valid, keeps errno, leaves -EBADF */
#define _cleanup_fd_ _cleanup_(fd_close)

/* Whole reads and writes: retry EINTR and short counts. fd_read_full returns the bytes read before end of file. */
ssize_t fd_read_full(int fd, void *buf, size_t size);
int fd_write_full(int fd, const void *buf, size_t size);

/* Reads a whole file below a cap into memory that the caller frees; a NUL follows the last byte. More than max bytes
 * is ERR_LIMIT. dir may be AT_FDCWD; the last part of the name is not followed if it is a link when nofollow. */
int fd_read_file(int dir, const char *name, size_t max, bool nofollow, char **ret, size_t *ret_size, struct err *err);

/* Writes text to an existing file below dir (a cgroup or proc file) in one write call. Returns 0 or -errno. */
int fd_write_at(int dir, const char *name, const char *text);

/* Reads a small text file below dir into buf, NUL-terminated, trailing newline removed. Returns length or -errno. */
ssize_t fd_read_at(int dir, const char *name, char *buf, size_t size);

/* Creates name below dir with these bytes, atomically: a temporary file, then a rename. */
int fd_replace_file(int dir, const char *name, mode_t mode, const void *data, size_t size);
