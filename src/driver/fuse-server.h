/* A file server for a machine: answers what its kernel asks over FUSE (fuse-message.h) about one tree.
 *
 * The machine's kernel judges who may do what (it is mounted with default_permissions); here is judged what the machine
 * as a whole may: whatever the process can that serves, which is root of the sandbox's own ids and of nothing else, in
 * a mount namespace where nothing but the tree is. Files are made by the ids that ask for it. Nothing but regular files
 * and folders is ever opened, no link is followed, no device is made.
 *
 * One question after the other, in one thread: a slow one holds up those behind it. */
#pragma once

#include "driver/fuse-handles.h"
#include "driver/fuse-message.h"
#include "driver/fuse-nodes.h"

struct fuse_server {
        int stream;    /* to the machine */
        int tree;      /* taken over */
        int proc;      /* /proc/self/fd: the way from a node to a file that can be read */
        bool live;     /* others change the tree, too: what was read is believed for a second, and not for good */
        uint32_t most; /* files that the machine may remember: as many descriptors */
        uint32_t many; /* from which on it is asked to forget some; 0: three quarters of these */

        /* the server's own */
        struct fuse_nodes nodes;
        struct fuse_handles handles;
        bool met; /* FUSE_INIT came */
        bool over;
        uint32_t notice; /* nodes at which it is asked next */
        _Alignas(8) unsigned char in[FUSE_MESSAGE_MAX];
        _Alignas(8) unsigned char out[FUSE_MESSAGE_MAX];
};

/* Gives up what serving does not need; for a process that is root of its namespace. Before fuse_server_run, when all of
 * the above is open. */
int fuse_server_confine(void);

/* Serves until the stream ends: 0, -EPROTO when the machine breaks the protocol, or another -errno. */
int fuse_server_run(struct fuse_server *s);

/* --- for fuse-file.c and fuse-name.c --- */

/* What answers a message: bytes of the answer from fuse_server_answer on, or -errno. */
typedef int fuse_operation(struct fuse_server *s, const struct fuse_message *m);
fuse_operation fuse_name_lookup, fuse_name_symlink, fuse_name_mknod, fuse_name_mkdir, fuse_name_unlink, fuse_name_rmdir,
        fuse_name_rename, fuse_name_link, fuse_name_create, fuse_name_readlink, fuse_name_readdir;
fuse_operation fuse_file_getattr, fuse_file_setattr, fuse_file_open, fuse_file_opendir, fuse_file_read, fuse_file_write,
        fuse_file_release, fuse_file_fsync, fuse_file_flush, fuse_file_statfs, fuse_file_lseek, fuse_file_fallocate;

void *fuse_server_answer(struct fuse_server *s);
uint64_t fuse_server_trust(const struct fuse_server *s); /* for how many seconds what was told holds */
bool fuse_server_is_full(const struct fuse_server *s);   /* the machine was asked to forget files */
void fuse_server_attr(const struct stat *st, struct fuse_attr *ret);

/* A regular file or folder behind a node, opened: -EINVAL for anything else. */
int fuse_server_open(const struct fuse_server *s, const struct fuse_node *node, int flags);

/* Flags of an open that a machine can ask for. Whether a write appends is said with the write. */
int fuse_server_flags(uint32_t asked);

/* The answer to an open: a handle of a node. */
int fuse_server_handle(struct fuse_server *s, uint64_t number, int flags, struct fuse_open_out *ret);
