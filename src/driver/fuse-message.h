/* What the kernel of a machine asks of its file server, read from bytes: FUSE, as the kernel speaks it over /dev/fuse,
 * carried by a stream as it is (each message begins with its own size).
 *
 * The machine is hostile. A message that is read here has the size that it says, fixed fields and names where its kind
 * has them and nothing behind, names of 1 to 255 bytes without "/" that are neither "." nor "..", and no more data
 * than a message may have. Whether a node or a handle exists is not known here. */
#pragma once

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>

#define FUSE_IO_MAX      (256U * 1024) /* bytes of one read or write */
#define FUSE_MESSAGE_MAX (FUSE_IO_MAX + 4096)
#define FUSE_LINK_MAX    4095 /* bytes of a symbolic link */

/* From the server, as the error of an answer to nothing (unique is 0): the machine's kernel remembers too many files.
 * It is for who carries messages and not for the kernel, which has no such word. */
#define FUSE_NOTICE_MANY 1000

union fuse_fixed {
        struct fuse_init_in init;
        struct fuse_forget_in forget;
        struct fuse_batch_forget_in forgets;
        struct fuse_getattr_in getattr;
        struct fuse_setattr_in setattr;
        struct fuse_mknod_in mknod;
        struct fuse_mkdir_in mkdir;
        struct fuse_rename_in rename;
        struct fuse_rename2_in rename2;
        struct fuse_link_in link;
        struct fuse_open_in open;
        struct fuse_create_in create;
        struct fuse_read_in read;
        struct fuse_write_in write;
        struct fuse_release_in release;
        struct fuse_fsync_in fsync;
        struct fuse_flush_in flush;
        struct fuse_lseek_in lseek;
        struct fuse_fallocate_in fallocate;
        struct fuse_interrupt_in interrupt;
};

struct fuse_message {
        struct fuse_in_header head;
        union fuse_fixed in;
        const char *name, *second; /* second: a new name, or where a link leads */
        const unsigned char *data; /* to write, or the nodes to forget */
        size_t size;
};

/* How long a message with this head is: its size, or -EPROTO where none can be so long. */
int fuse_message_size(const struct fuse_in_header *h);

/* A whole message. 0; -ENOSYS: of a kind that is not served, -ENAMETOOLONG: with a longer name (a kernel passes up to
 * 1,024 bytes on), only its head can be used; -EPROTO. What ret points to is in bytes. */
int fuse_message_read(const unsigned char *bytes, size_t size, struct fuse_message *ret);

/* Nobody waits for an answer to it. */
bool fuse_message_is_mute(const struct fuse_message *m);

/* The i-th of the nodes to forget: i is below in.forgets.count. */
struct fuse_forget_one fuse_message_forget(const struct fuse_message *m, size_t i);
