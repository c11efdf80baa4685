/* See fuse-message.h. One table says what each kind of message is made of. */
#include "driver/fuse-message.h"

#include <limits.h>

#include "base/err.h"

enum tail {
        TAIL_NONE,
        TAIL_NAME,
        TAIL_NAMES,   /* two of them */
        TAIL_SYMLINK, /* a name, and where it leads */
        TAIL_DATA,    /* what is to be written */
        TAIL_FORGETS,
};

struct kind {
        unsigned opcode;
        unsigned fixed; /* bytes of what union fuse_fixed has for it */
        enum tail tail;
        bool mute;
};

#define INIT_LEAST 16 /* flags2 and what follows are newer */

static const struct kind kinds[] = {
        {FUSE_INIT, sizeof(struct fuse_init_in), TAIL_NONE, false},
        {FUSE_DESTROY, 0, TAIL_NONE, false},
        {FUSE_LOOKUP, 0, TAIL_NAME, false},
        {FUSE_FORGET, sizeof(struct fuse_forget_in), TAIL_NONE, true},
        {FUSE_BATCH_FORGET, sizeof(struct fuse_batch_forget_in), TAIL_FORGETS, true},
        {FUSE_GETATTR, sizeof(struct fuse_getattr_in), TAIL_NONE, false},
        {FUSE_SETATTR, sizeof(struct fuse_setattr_in), TAIL_NONE, false},
        {FUSE_READLINK, 0, TAIL_NONE, false},
        {FUSE_SYMLINK, 0, TAIL_SYMLINK, false},
        {FUSE_MKNOD, sizeof(struct fuse_mknod_in), TAIL_NAME, false},
        {FUSE_MKDIR, sizeof(struct fuse_mkdir_in), TAIL_NAME, false},
        {FUSE_UNLINK, 0, TAIL_NAME, false},
        {FUSE_RMDIR, 0, TAIL_NAME, false},
        {FUSE_RENAME, sizeof(struct fuse_rename_in), TAIL_NAMES, false},
        {FUSE_RENAME2, sizeof(struct fuse_rename2_in), TAIL_NAMES, false},
        {FUSE_LINK, sizeof(struct fuse_link_in), TAIL_NAME, false},
        {FUSE_OPEN, sizeof(struct fuse_open_in), TAIL_NONE, false},
        {FUSE_OPENDIR, sizeof(struct fuse_open_in), TAIL_NONE, false},
        {FUSE_CREATE, sizeof(struct fuse_create_in), TAIL_NAME, false},
        {FUSE_READ, sizeof(struct fuse_read_in), TAIL_NONE, false},
        {FUSE_READDIR, sizeof(struct fuse_read_in), TAIL_NONE, false},
        {FUSE_READDIRPLUS, sizeof(struct fuse_read_in), TAIL_NONE, false},
        {FUSE_WRITE, sizeof(struct fuse_write_in), TAIL_DATA, false},
        {FUSE_RELEASE, sizeof(struct fuse_release_in), TAIL_NONE, false},
        {FUSE_RELEASEDIR, sizeof(struct fuse_release_in), TAIL_NONE, false},
        {FUSE_FSYNC, sizeof(struct fuse_fsync_in), TAIL_NONE, false},
        {FUSE_FSYNCDIR, sizeof(struct fuse_fsync_in), TAIL_NONE, false},
        {FUSE_FLUSH, sizeof(struct fuse_flush_in), TAIL_NONE, false},
        {FUSE_STATFS, 0, TAIL_NONE, false},
        {FUSE_LSEEK, sizeof(struct fuse_lseek_in), TAIL_NONE, false},
        {FUSE_FALLOCATE, sizeof(struct fuse_fallocate_in), TAIL_NONE, false},
        {FUSE_INTERRUPT, sizeof(struct fuse_interrupt_in), TAIL_NONE, true},
};

static const struct kind *find(unsigned opcode) {
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (kinds[i].opcode == opcode)
                        return &kinds[i];
        return NULL;
}

/* What is not read yet. */
struct rest {
        const unsigned char *at;
        size_t size;
};

static int take_text(struct rest *r, size_t max, const char **ret) {
        const unsigned char *end = memchr(r->at, '\0', r->size);

        if (!end || end == r->at)
                return -EPROTO;
        if ((size_t)(end - r->at) > max)
                return -ENAMETOOLONG;
        *ret = (const char *)r->at;
        r->size -= (size_t)(end + 1 - r->at);
        r->at = end + 1;
        return 0;
}

static int take_name(struct rest *r, const char **ret) {
        const char *name;
        int e = take_text(r, NAME_MAX, &name);

        if (e < 0)
                return e;
        if (strchr(name, '/') || str_eq(name, ".") || str_eq(name, ".."))
                return -EPROTO;
        *ret = name;
        return 0;
}

static int take_data(struct rest *r, size_t size, struct fuse_message *m) {
        if (r->size != size || size > FUSE_IO_MAX)
                return -EPROTO;
        m->data = r->at;
        m->size = size;
        r->size = 0;
        return 0;
}

static int take_tail(struct rest *r, enum tail tail, struct fuse_message *m) {
        int e = 0;

        switch (tail) {
        case TAIL_NONE:
                break;
        case TAIL_NAME:
                e = take_name(r, &m->name);
                break;
        case TAIL_NAMES:
        case TAIL_SYMLINK:
                e = take_name(r, &m->name);
                if (e == 0)
                        e = tail == TAIL_NAMES ? take_name(r, &m->second) : take_text(r, FUSE_LINK_MAX, &m->second);
                break;
        case TAIL_DATA:
                e = take_data(r, m->in.write.size, m);
                break;
        case TAIL_FORGETS:
                e = take_data(r, (size_t)m->in.forgets.count * sizeof(struct fuse_forget_one), m);
                break;
        default:
                return -EPROTO;
        }
        if (e < 0)
                return e;
        return r->size > 0 ? -EPROTO : 0;
}

int fuse_message_size(const struct fuse_in_header *h) {
        return h->len >= sizeof *h && h->len <= FUSE_MESSAGE_MAX ? (int)h->len : -EPROTO;
}

int fuse_message_read(const unsigned char *bytes, size_t size, struct fuse_message *ret) {
        *ret = (struct fuse_message){0};
        if (size < sizeof ret->head)
                return -EPROTO;
        struct rest r = {.at = bytes + sizeof ret->head, .size = size - sizeof ret->head};
        memcpy(&ret->head, bytes, sizeof ret->head);
        if (fuse_message_size(&ret->head) != (int)size)
                return -EPROTO;
        const struct kind *k = find(ret->head.opcode);
        if (!k)
                return -ENOSYS;
        size_t fixed = k->opcode == FUSE_INIT ? MIN(r.size, (size_t)k->fixed) : k->fixed;
        if (r.size < fixed || (k->opcode == FUSE_INIT && fixed < INIT_LEAST))
                return -EPROTO;
        memcpy(&ret->in, r.at, fixed);
        r.at += fixed;
        r.size -= fixed;
        return take_tail(&r, k->tail, ret);
}

bool fuse_message_is_mute(const struct fuse_message *m) {
        const struct kind *k = find(m->head.opcode);

        return k && k->mute;
}

struct fuse_forget_one fuse_message_forget(const struct fuse_message *m, size_t i) {
        struct fuse_forget_one one;

        memcpy(&one, m->data + i * sizeof one, sizeof one);
        return one;
}
