/* Requests of the SFTP protocol, version 3 (draft-ietf-secsh-filexfer-02), as a client sends them, and the parts that
 * answers are made of. Pure: bytes in, a struct out. What does not fit is refused whole; nothing is believed but the
 * bytes that are there. */
#pragma once

#include "base/buf.h"

#define SFTP_PACKET_MAX (256U * 1024) /* of a packet's body */
#define SFTP_PATH_MAX   4096          /* with its NUL */
#define SFTP_HANDLE_MAX 16

enum sftp_kind {
        SFTP_INIT = 1,
        SFTP_VERSION,
        SFTP_OPEN,
        SFTP_CLOSE,
        SFTP_READ,
        SFTP_WRITE,
        SFTP_LSTAT,
        SFTP_FSTAT,
        SFTP_SETSTAT,
        SFTP_FSETSTAT,
        SFTP_OPENDIR,
        SFTP_READDIR,
        SFTP_REMOVE,
        SFTP_MKDIR,
        SFTP_RMDIR,
        SFTP_REALPATH,
        SFTP_STAT,
        SFTP_RENAME,
        SFTP_READLINK,
        SFTP_SYMLINK,
        SFTP_STATUS = 101,
        SFTP_HANDLE,
        SFTP_DATA,
        SFTP_NAME,
        SFTP_ATTRS,
        SFTP_EXTENDED = 200,
};

enum sftp_status { SFTP_OK, SFTP_EOF, SFTP_NO_FILE, SFTP_DENIED, SFTP_FAILURE, SFTP_BAD, SFTP_UNSUPPORTED = 8 };

enum {
        SFTP_OPEN_READ = 1,
        SFTP_OPEN_WRITE = 2,
        SFTP_OPEN_APPEND = 4,
        SFTP_OPEN_CREATE = 8,
        SFTP_OPEN_EMPTY = 16,
        SFTP_OPEN_NEW = 32
};

enum { SFTP_HAS_SIZE = 1, SFTP_HAS_IDS = 2, SFTP_HAS_MODE = 4, SFTP_HAS_TIMES = 8, SFTP_HAS_MORE = 1U << 31 };

struct sftp_attributes {
        uint32_t has;
        uint64_t size;
        uint32_t uid, gid;
        uint32_t mode; /* with the type of file */
        uint32_t read_at, changed_at;
};

struct sftp_request {
        uint8_t kind;
        uint32_t id;              /* of INIT: its version */
        char path[SFTP_PATH_MAX]; /* of EXTENDED: of the file, where we know the name */
        char to[SFTP_PATH_MAX];   /* RENAME and its extension */
        char name[64];            /* EXTENDED */
        uint64_t handle;          /* as sftp_put_handle wrote it; UINT64_MAX: nothing of ours */
        uint32_t flags;           /* OPEN */
        uint64_t offset;          /* READ, WRITE */
        uint32_t length;          /* READ */
        const uint8_t *data;      /* WRITE: inside the packet */
        size_t data_size;
        struct sftp_attributes attributes;
};

/* A packet's body: 0; -EBADMSG if it is none, and then kind and id are as far as they could be read; -EOPNOTSUPP for a
 * request that there is not, with its id. */
int sftp_request_read(const uint8_t *body, size_t size, struct sftp_request *ret);

/* Answers: begin, parts, end. The length in front is filled in by the end. */
void sftp_begin(struct buf *b, enum sftp_kind kind, uint32_t id);
void sftp_put_u32(struct buf *b, uint32_t v);
void sftp_put_u64(struct buf *b, uint64_t v);
void sftp_put_string(struct buf *b, const void *data, size_t size);
void sftp_put_handle(struct buf *b, uint64_t handle);
void sftp_put_attributes(struct buf *b, const struct sftp_attributes *a);
void sftp_end(struct buf *b);

/* A path as the client means it, below cwd, without "." and ".." parts: what a client sees of it. False: too long. */
bool sftp_plain_path(const char *cwd, const char *path, char ret[SFTP_PATH_MAX]);
