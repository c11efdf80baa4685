/* See fuse-server.h: the stream, the beginning, and what all operations share. */
#include "driver/fuse-server.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define MINOR    31    /* of FUSE 7: newer kernels speak it, and all that is answered here is in it */
#define FOR_GOOD 86400 /* seconds */
#define MORE     1000  /* until it is asked again */

static_assert(FUSE_MESSAGE_MAX >= sizeof(struct fuse_out_header) + FUSE_IO_MAX, "an answer has room for a read");

void *fuse_server_answer(struct fuse_server *s) {
        return s->out + sizeof(struct fuse_out_header);
}

uint64_t fuse_server_trust(const struct fuse_server *s) {
        return s->live ? 1 : FOR_GOOD;
}

bool fuse_server_is_full(const struct fuse_server *s) {
        return s->nodes.total >= s->many;
}

void fuse_server_attr(const struct stat *st, struct fuse_attr *ret) {
        *ret = (struct fuse_attr){.ino = st->st_ino,
                                  .size = (uint64_t)st->st_size,
                                  .blocks = (uint64_t)st->st_blocks,
                                  .atime = (uint64_t)st->st_atim.tv_sec,
                                  .mtime = (uint64_t)st->st_mtim.tv_sec,
                                  .ctime = (uint64_t)st->st_ctim.tv_sec,
                                  .atimensec = (uint32_t)st->st_atim.tv_nsec,
                                  .mtimensec = (uint32_t)st->st_mtim.tv_nsec,
                                  .ctimensec = (uint32_t)st->st_ctim.tv_nsec,
                                  .mode = st->st_mode,
                                  .nlink = (uint32_t)st->st_nlink,
                                  .uid = st->st_uid,
                                  .gid = st->st_gid,
                                  .rdev = (uint32_t)st->st_rdev,
                                  .blksize = (uint32_t)st->st_blksize};
}

int fuse_server_flags(uint32_t asked) {
        return (int)(asked & (O_ACCMODE | O_SYNC | O_DSYNC)) | O_CLOEXEC;
}

int fuse_server_open(const struct fuse_server *s, const struct fuse_node *node, int flags) {
        char name[16];
        int fd;

        if (S_ISDIR(node->type))
                fd = openat(node->fd, ".", flags | O_DIRECTORY | O_CLOEXEC);
        else if (S_ISREG(node->type)) {
                (void)snprintf(name, sizeof name, "%d", node->fd);
                fd = openat(s->proc, name, flags | O_CLOEXEC);
        } else
                return -EINVAL;
        return fd < 0 ? -errno : fd;
}

static int open_new(struct fuse_server *s, const struct fuse_node *node, uint64_t file, int flags) {
        _cleanup_fd_ int fd = fuse_server_open(s, node, flags);
        int number = fd < 0 ? fd : fuse_handles_add(&s->handles, file, flags, fd);

        if (number > 0)
                (void)TAKE_FD(fd);
        return number;
}

int fuse_server_handle(struct fuse_server *s, uint64_t number, int flags, struct fuse_open_out *ret) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, number);

        if (!node)
                return -ESTALE;
        uint64_t file = (uint64_t)node->generation << 32 | number; /* a number can be another file's later */
        int handle = fuse_handles_again(&s->handles, file, flags);
        if (handle == -ENOENT)
                handle = open_new(s, node, file, flags);
        if (handle < 0)
                return handle;
        *ret = (struct fuse_open_out){.fh = (uint64_t)handle,
                                      .open_flags = s->live ? 0 : FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR};
        return sizeof *ret;
}

static int begin(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_init_in *in = &m->in.init;
        struct fuse_init_out *out = fuse_server_answer(s);

        if (s->met || in->major != FUSE_KERNEL_VERSION || in->minor < MINOR)
                return -EPROTO;
        s->met = true;
        *out = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION,
                                      .minor = MINOR,
                                      .max_readahead = MIN(in->max_readahead, FUSE_IO_MAX),
                                      .flags = in->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES |
                                                            FUSE_PARALLEL_DIROPS | FUSE_CACHE_SYMLINKS |
                                                            FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO),
                                      .max_background = 16,
                                      .congestion_threshold = 12,
                                      .max_write = FUSE_IO_MAX,
                                      .time_gran = 1,
                                      .max_pages = FUSE_IO_MAX / 4096};
        if (s->live)
                out->flags &= ~(unsigned)FUSE_CACHE_SYMLINKS;
        return sizeof *out;
}

static int end(struct fuse_server *s, const struct fuse_message *m) {
        (void)m;
        s->over = true;
        return 0;
}

static int forget(struct fuse_server *s, const struct fuse_message *m) {
        if (m->head.opcode == FUSE_FORGET)
                fuse_nodes_forget(&s->nodes, m->head.nodeid, m->in.forget.nlookup);
        for (size_t i = 0; m->head.opcode == FUSE_BATCH_FORGET && i < m->in.forgets.count; i++) {
                struct fuse_forget_one one = fuse_message_forget(m, i);
                fuse_nodes_forget(&s->nodes, one.nodeid, one.nlookup);
        }
        return 0;
}

/* What it would interrupt was answered before it was read. */
static int interrupt(struct fuse_server *s, const struct fuse_message *m) {
        (void)s;
        (void)m;
        return 0;
}

static fuse_operation *const operations[] = {[FUSE_INIT] = begin,
                                             [FUSE_DESTROY] = end,
                                             [FUSE_FORGET] = forget,
                                             [FUSE_BATCH_FORGET] = forget,
                                             [FUSE_INTERRUPT] = interrupt,
                                             [FUSE_LOOKUP] = fuse_name_lookup,
                                             [FUSE_SYMLINK] = fuse_name_symlink,
                                             [FUSE_MKNOD] = fuse_name_mknod,
                                             [FUSE_MKDIR] = fuse_name_mkdir,
                                             [FUSE_UNLINK] = fuse_name_unlink,
                                             [FUSE_RMDIR] = fuse_name_rmdir,
                                             [FUSE_RENAME] = fuse_name_rename,
                                             [FUSE_RENAME2] = fuse_name_rename,
                                             [FUSE_LINK] = fuse_name_link,
                                             [FUSE_CREATE] = fuse_name_create,
                                             [FUSE_READLINK] = fuse_name_readlink,
                                             [FUSE_READDIR] = fuse_name_readdir,
                                             [FUSE_READDIRPLUS] = fuse_name_readdir,
                                             [FUSE_GETATTR] = fuse_file_getattr,
                                             [FUSE_SETATTR] = fuse_file_setattr,
                                             [FUSE_OPEN] = fuse_file_open,
                                             [FUSE_OPENDIR] = fuse_file_opendir,
                                             [FUSE_READ] = fuse_file_read,
                                             [FUSE_WRITE] = fuse_file_write,
                                             [FUSE_RELEASE] = fuse_file_release,
                                             [FUSE_RELEASEDIR] = fuse_file_release,
                                             [FUSE_FSYNC] = fuse_file_fsync,
                                             [FUSE_FSYNCDIR] = fuse_file_fsync,
                                             [FUSE_FLUSH] = fuse_file_flush,
                                             [FUSE_STATFS] = fuse_file_statfs,
                                             [FUSE_LSEEK] = fuse_file_lseek,
                                             [FUSE_FALLOCATE] = fuse_file_fallocate};

/* Only errors that a kernel takes: others would end its connection. */
static int operate(struct fuse_server *s, const struct fuse_message *m) {
        unsigned code = m->head.opcode;

        if (code >= ELEMENTSOF(operations) || !operations[code])
                return -ENOSYS;
        int r = operations[code](s, m);
        return r >= 0 || r > -512 ? r : -EIO;
}

static int answer(struct fuse_server *s, const struct fuse_message *m, int said) {
        struct fuse_out_header *h = (struct fuse_out_header *)(void *)s->out;

        *h = (struct fuse_out_header){
                .len = (uint32_t)(sizeof *h + (size_t)MAX(said, 0)), .error = MIN(said, 0), .unique = m->head.unique};
        return fd_write_full(s->stream, s->out, h->len);
}

/* A kernel keeps what it has seen as long as there is memory, and each file is a descriptor here. */
static int mind(struct fuse_server *s) {
        const struct fuse_out_header notice = {.len = sizeof notice, .error = FUSE_NOTICE_MANY};

        if (!fuse_server_is_full(s))
                s->notice = s->many;
        if (s->nodes.total < s->notice)
                return 0;
        s->notice = s->nodes.total + MORE;
        return fd_write_full(s->stream, &notice, sizeof notice);
}

/* 1: a message is there; 0: the stream ended between two. */
static int receive(struct fuse_server *s, size_t *ret_size) {
        struct fuse_in_header h;
        ssize_t n = fd_read_full(s->stream, s->in, sizeof h);

        if (n <= 0)
                return (int)n;
        if (n < (ssize_t)sizeof h)
                return -EPROTO;
        memcpy(&h, s->in, sizeof h);
        int size = fuse_message_size(&h);
        if (size < 0)
                return size;
        size_t rest = (size_t)size - sizeof h;
        n = fd_read_full(s->stream, s->in + sizeof h, rest);
        if (n < 0 || (size_t)n < rest)
                return n < 0 ? (int)n : -EPROTO;
        *ret_size = (size_t)size;
        return 1;
}

static int serve(struct fuse_server *s) {
        struct fuse_message m;
        size_t size = 0;

        while (!s->over) {
                int r = receive(s, &size);
                if (r <= 0)
                        return r;
                r = fuse_message_read(s->in, size, &m);
                if (r == -EPROTO || (!s->met && m.head.opcode != FUSE_INIT))
                        return -EPROTO;
                if (r == 0)
                        r = operate(s, &m);
                if (!s->met)
                        return -EPROTO;
                r = fuse_message_is_mute(&m) ? 0 : answer(s, &m, r);
                if (r == 0)
                        r = mind(s);
                if (r < 0)
                        return r;
        }
        return 0;
}

int fuse_server_run(struct fuse_server *s) {
        int r = fuse_nodes_begin(&s->nodes, s->tree, s->most);

        if (r < 0)
                return r;
        (void)umask(0);
        s->met = s->over = false;
        s->many = s->notice = s->many ? s->many : s->nodes.most / 4 * 3;
        fuse_handles_begin(&s->handles);
        r = serve(s);
        fuse_handles_end(&s->handles);
        fuse_nodes_end(&s->nodes);
        return r;
}
