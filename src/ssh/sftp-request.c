/* Decoding and encoding of SFTP packets: big-endian numbers, strings with their length. */
#include "ssh/sftp-request.h"

#include <errno.h>

struct reader {
        const uint8_t *at;
        size_t left;
        bool failed;
};

static uint64_t number(struct reader *r, size_t bytes) {
        uint64_t v = 0;

        if (r->failed || r->left < bytes) {
                r->failed = true;
                return 0;
        }
        for (size_t i = 0; i < bytes; i++)
                v = v << 8 | r->at[i];
        r->at += bytes;
        r->left -= bytes;
        return v;
}

static uint32_t u32(struct reader *r) {
        return (uint32_t)number(r, 4);
}

static const uint8_t *string(struct reader *r, size_t *ret_size) {
        size_t n = u32(r);
        const uint8_t *p = r->at;

        if (r->failed || n > r->left) {
                r->failed = true;
                *ret_size = 0;
                return NULL;
        }
        r->at += n;
        r->left -= n;
        *ret_size = n;
        return p;
}

/* One without a NUL inside, that fits. */
static void text(struct reader *r, char *ret, size_t room) {
        size_t n;
        const uint8_t *p = string(r, &n);

        if (!p || n >= room || memchr(p, '\0', n)) {
                r->failed = true;
                return;
        }
        memcpy(ret, p, n);
        ret[n] = '\0';
}

static uint64_t handle(struct reader *r) {
        size_t n;
        const uint8_t *p = string(r, &n);
        uint64_t v = 0;

        if (!p || n != sizeof v)
                return UINT64_MAX;
        for (size_t i = 0; i < n; i++)
                v = v << 8 | p[i];
        return v;
}

static void attributes(struct reader *r, struct sftp_attributes *a) {
        size_t n;

        a->has = u32(r);
        if (a->has & SFTP_HAS_SIZE)
                a->size = number(r, 8);
        if (a->has & SFTP_HAS_IDS) {
                a->uid = u32(r);
                a->gid = u32(r);
        }
        if (a->has & SFTP_HAS_MODE)
                a->mode = u32(r);
        if (a->has & SFTP_HAS_TIMES) {
                a->read_at = u32(r);
                a->changed_at = u32(r);
        }
        if (a->has & SFTP_HAS_MORE)
                for (uint32_t count = u32(r); count > 0 && !r->failed; count--) {
                        (void)string(r, &n);
                        (void)string(r, &n);
                }
}

static int extended(struct reader *r, struct sftp_request *q) {
        text(r, q->name, sizeof q->name);
        if (r->failed)
                return -EBADMSG;
        if (strcmp(q->name, "posix-rename@openssh.com") != 0)
                return -EOPNOTSUPP;
        text(r, q->path, sizeof q->path);
        text(r, q->to, sizeof q->to);
        return 0;
}

int sftp_request_read(const uint8_t *body, size_t size, struct sftp_request *ret) {
        struct reader r = {body, size, false};
        int known = 0;

        *ret = (struct sftp_request){.handle = UINT64_MAX};
        ret->kind = (uint8_t)number(&r, 1);
        ret->id = u32(&r);
        if (r.failed)
                return -EBADMSG;
        switch (ret->kind) {
        case SFTP_INIT: /* what follows are extensions of the client's, which are none of ours */
                return 0;
        case SFTP_OPEN:
                text(&r, ret->path, sizeof ret->path);
                ret->flags = u32(&r);
                attributes(&r, &ret->attributes);
                break;
        case SFTP_CLOSE:
        case SFTP_FSTAT:
        case SFTP_READDIR:
                ret->handle = handle(&r);
                break;
        case SFTP_READ:
                ret->handle = handle(&r);
                ret->offset = number(&r, 8);
                ret->length = u32(&r);
                break;
        case SFTP_WRITE:
                ret->handle = handle(&r);
                ret->offset = number(&r, 8);
                ret->data = string(&r, &ret->data_size);
                break;
        case SFTP_LSTAT:
        case SFTP_STAT:
        case SFTP_OPENDIR:
        case SFTP_REMOVE:
        case SFTP_RMDIR:
        case SFTP_REALPATH:
        case SFTP_READLINK:
                text(&r, ret->path, sizeof ret->path);
                break;
        case SFTP_SETSTAT:
        case SFTP_MKDIR:
                text(&r, ret->path, sizeof ret->path);
                attributes(&r, &ret->attributes);
                break;
        case SFTP_FSETSTAT:
                ret->handle = handle(&r);
                attributes(&r, &ret->attributes);
                break;
        case SFTP_RENAME:
                text(&r, ret->path, sizeof ret->path);
                text(&r, ret->to, sizeof ret->to);
                break;
        case SFTP_EXTENDED:
                known = extended(&r, ret);
                break;
        default:
                known = -EOPNOTSUPP;
        }
        if (r.failed)
                return -EBADMSG;
        return known < 0 ? known : r.left > 0 ? -EBADMSG : 0;
}

/* --- answers --- */

void sftp_put_u32(struct buf *b, uint32_t v) {
        const uint8_t bytes[] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};

        buf_add(b, bytes, sizeof bytes);
}

void sftp_put_u64(struct buf *b, uint64_t v) {
        sftp_put_u32(b, (uint32_t)(v >> 32));
        sftp_put_u32(b, (uint32_t)v);
}

void sftp_put_string(struct buf *b, const void *data, size_t size) {
        sftp_put_u32(b, (uint32_t)size);
        if (size > 0)
                buf_add(b, data, size);
}

void sftp_put_handle(struct buf *b, uint64_t h) {
        sftp_put_u32(b, sizeof h);
        sftp_put_u64(b, h);
}

void sftp_put_attributes(struct buf *b, const struct sftp_attributes *a) {
        sftp_put_u32(b, a->has & ~SFTP_HAS_MORE);
        if (a->has & SFTP_HAS_SIZE)
                sftp_put_u64(b, a->size);
        if (a->has & SFTP_HAS_IDS) {
                sftp_put_u32(b, a->uid);
                sftp_put_u32(b, a->gid);
        }
        if (a->has & SFTP_HAS_MODE)
                sftp_put_u32(b, a->mode);
        if (a->has & SFTP_HAS_TIMES) {
                sftp_put_u32(b, a->read_at);
                sftp_put_u32(b, a->changed_at);
        }
}

void sftp_begin(struct buf *b, enum sftp_kind kind, uint32_t id) {
        const uint8_t byte = (uint8_t)kind;

        b->size = 0;
        sftp_put_u32(b, 0);
        buf_add(b, &byte, 1);
        sftp_put_u32(b, id);
}

void sftp_end(struct buf *b) {
        uint32_t n = (uint32_t)(b->size - 4);

        if (!buf_ok(b))
                return;
        for (size_t i = 0; i < 4; i++)
                b->data[i] = (char)(uint8_t)(n >> (24 - 8 * i));
}

bool sftp_plain_path(const char *cwd, const char *path, char ret[SFTP_PATH_MAX]) {
        const char *parts[] = {path[0] == '/' ? "" : cwd, path};
        size_t size = 0;

        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                for (const char *p = parts[i]; *p;) {
                        size_t n = strcspn(p, "/");

                        if (n == 2 && memcmp(p, "..", 2) == 0)
                                while (size > 0 && ret[--size] != '/')
                                        ;
                        else if (n > 0 && !(n == 1 && *p == '.')) {
                                if (size + n + 2 > SFTP_PATH_MAX)
                                        return false;
                                ret[size++] = '/';
                                memcpy(ret + size, p, n);
                                size += n;
                        }
                        p += n;
                        p += *p == '/';
                }
        if (size == 0)
                ret[size++] = '/';
        ret[size] = '\0';
        return true;
}
