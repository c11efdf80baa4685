/* Files and folders themselves: what they are, and what is in them. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "driver/fuse-server.h"

/* --- attributes --- */

static int tell(struct fuse_server *s, int fd) {
        struct fuse_attr_out *out = fuse_server_answer(s);
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        *out = (struct fuse_attr_out){.attr_valid = fuse_server_trust(s)};
        fuse_server_attr(&st, &out->attr);
        return sizeof *out;
}

int fuse_file_getattr(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, m->head.nodeid);

        return node ? tell(s, node->fd) : -ESTALE;
}

static int set_mode(const struct fuse_server *s, const char *name, const struct fuse_node *node, uint32_t mode) {
        if (S_ISLNK(node->type))
                return -EOPNOTSUPP;
        return fchmodat(s->proc, name, mode & 07777, 0) < 0 ? -errno : 0;
}

static int set_owner(const struct fuse_node *node, const struct fuse_setattr_in *in) {
        uid_t uid = in->valid & FATTR_UID ? in->uid : (uid_t)-1;
        gid_t gid = in->valid & FATTR_GID ? in->gid : (gid_t)-1;

        return fchownat(node->fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int set_size(const struct fuse_server *s, const struct fuse_node *node, const struct fuse_setattr_in *in) {
        _cleanup_fd_ int own = -EBADF;
        int fd = in->valid & FATTR_FH ? fuse_handles_find(&s->handles, in->fh) : -EBADF;

        if (!S_ISREG(node->type))
                return -EINVAL;
        if (fd < 0) {
                own = fuse_server_open(s, node, O_WRONLY);
                if (own < 0)
                        return own;
        }
        return ftruncate(fd < 0 ? own : fd, (off_t)in->size) < 0 ? -errno : 0;
}

static struct timespec time_of(uint32_t valid, uint32_t set, uint32_t now, uint64_t s, uint32_t ns) {
        if (!(valid & (set | now)))
                return (struct timespec){.tv_nsec = UTIME_OMIT};
        if (valid & now)
                return (struct timespec){.tv_nsec = UTIME_NOW};
        return (struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)(ns % 1000000000)};
}

static int set_times(const struct fuse_server *s, const char *name, const struct fuse_setattr_in *in) {
        const struct timespec times[] = {time_of(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
                                         time_of(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec)};

        return utimensat(s->proc, name, times, 0) < 0 ? -errno : 0;
}

int fuse_file_setattr(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, m->head.nodeid);
        const struct fuse_setattr_in *in = &m->in.setattr;
        char name[16];
        int r = 0;

        if (!node)
                return -ESTALE;
        (void)snprintf(name, sizeof name, "%d", node->fd);
        if (in->valid & FATTR_MODE)
                r = set_mode(s, name, node, in->mode);
        if (r == 0 && in->valid & (FATTR_UID | FATTR_GID))
                r = set_owner(node, in);
        if (r == 0 && in->valid & FATTR_SIZE)
                r = set_size(s, node, in);
        if (r == 0 && in->valid & (FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW))
                r = set_times(s, name, in);
        return r < 0 ? r : tell(s, node->fd);
}

int fuse_file_statfs(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, m->head.nodeid);
        struct fuse_statfs_out *out = fuse_server_answer(s);
        struct statfs fs;

        if (!node)
                return -ESTALE;
        if (fstatfs(node->fd, &fs) < 0)
                return -errno;
        *out = (struct fuse_statfs_out){.st = {.blocks = fs.f_blocks,
                                               .bfree = fs.f_bfree,
                                               .bavail = fs.f_bavail,
                                               .files = fs.f_files,
                                               .ffree = fs.f_ffree,
                                               .bsize = (uint32_t)fs.f_bsize,
                                               .namelen = (uint32_t)fs.f_namelen,
                                               .frsize = (uint32_t)fs.f_frsize}};
        return sizeof *out;
}

/* --- contents --- */

static int open_as(struct fuse_server *s, const struct fuse_message *m, mode_t type, int flags) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, m->head.nodeid);

        if (!node)
                return -ESTALE;
        if (node->type != type)
                return type == S_IFDIR ? -ENOTDIR : -EINVAL;
        return fuse_server_handle(s, m->head.nodeid, flags, fuse_server_answer(s));
}

int fuse_file_open(struct fuse_server *s, const struct fuse_message *m) {
        return open_as(s, m, S_IFREG, fuse_server_flags(m->in.open.flags));
}

int fuse_file_opendir(struct fuse_server *s, const struct fuse_message *m) {
        return open_as(s, m, S_IFDIR, O_RDONLY);
}

int fuse_file_release(struct fuse_server *s, const struct fuse_message *m) {
        return fuse_handles_drop(&s->handles, m->in.release.fh);
}

int fuse_file_read(struct fuse_server *s, const struct fuse_message *m) {
        int fd = fuse_handles_find(&s->handles, m->in.read.fh);

        if (fd < 0)
                return fd;
        ssize_t n = pread(fd, fuse_server_answer(s), MIN(m->in.read.size, FUSE_IO_MAX), (off_t)m->in.read.offset);
        return n < 0 ? -errno : (int)n;
}

/* Where others write, too, the machine's kernel does not know where the end is. Pages of a mapping come with a handle
 * that the kernel chooses, and have their own place whatever it was opened for. */
static bool appends(const struct fuse_server *s, const struct fuse_write_in *in) {
        return s->live && in->flags & O_APPEND && !(in->write_flags & FUSE_WRITE_CACHE);
}

int fuse_file_write(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_write_in *in = &m->in.write;
        struct fuse_write_out *out = fuse_server_answer(s);
        struct iovec data = {(void *)(uintptr_t)m->data, m->size};
        int fd = fuse_handles_find(&s->handles, in->fh);

        if (fd < 0)
                return fd;
        long n = kernel_result(appends(s, in) ? syscall(SYS_pwritev2, fd, &data, 1, 0, 0, RWF_APPEND)
                                              : pwrite(fd, m->data, m->size, (off_t)in->offset));
        if (n < 0)
                return (int)n;
        *out = (struct fuse_write_out){.size = (uint32_t)n};
        return sizeof *out;
}

int fuse_file_fsync(struct fuse_server *s, const struct fuse_message *m) {
        int fd = fuse_handles_find(&s->handles, m->in.fsync.fh);

        if (fd < 0)
                return fd;
        int r = m->in.fsync.fsync_flags & FUSE_FSYNC_FDATASYNC ? fdatasync(fd) : fsync(fd);
        return r < 0 ? -errno : 0;
}

/* Nothing is held back here: what was written is in the host's cache, as if the sandbox had written it there. */
int fuse_file_flush(struct fuse_server *s, const struct fuse_message *m) {
        return MIN(fuse_handles_find(&s->handles, m->in.flush.fh), 0);
}

int fuse_file_lseek(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_lseek_in *in = &m->in.lseek;
        struct fuse_lseek_out *out = fuse_server_answer(s);
        int fd = fuse_handles_find(&s->handles, in->fh);

        if (fd < 0)
                return fd;
        if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
                return -EINVAL;
        off_t at = lseek(fd, (off_t)in->offset, (int)in->whence);
        if (at < 0)
                return -errno;
        out->offset = (uint64_t)at;
        return sizeof *out;
}

int fuse_file_fallocate(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_fallocate_in *in = &m->in.fallocate;
        int fd = fuse_handles_find(&s->handles, in->fh);

        if (fd < 0)
                return fd;
        if (in->mode & ~(uint32_t)(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
                return -EOPNOTSUPP;
        return fallocate(fd, (int)in->mode, (off_t)in->offset, (off_t)in->length) < 0 ? -errno : 0;
}
