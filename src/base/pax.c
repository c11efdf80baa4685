/* The pax codec. Reading is a state machine over blocks of 512 bytes; what a state needs is kept in the reader, so that
 * bytes may come in any pieces. */
#include "base/pax.h"

#include "base/text.h"

/* The classic header, as POSIX lays it out. */
struct ustar {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
        char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
static_assert(sizeof(struct ustar) == PAX_BLOCK, "a header is one block");

#define OCTAL_11 077777777777ULL /* the largest that a field of twelve bytes holds */
#define OCTAL_7  07777777U

/* --- writing -------------------------------------------------------------------------------------------------- */

static void octal(char *field, size_t size, uint64_t value) {
        uint64_t max = ((uint64_t)1 << (3 * (size - 1))) - 1;

        (void)snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)MIN(value, max));
}

static void fill(char *field, size_t size, const char *text) {
        memcpy(field, text, MIN(size, strlen(text)));
}

static unsigned checksum(const uint8_t *block) {
        unsigned sum = 0;

        for (size_t i = 0; i < PAX_BLOCK; i++) {
                bool in_sum = i >= offsetof(struct ustar, sum) && i < offsetof(struct ustar, type);

                sum += in_sum ? ' ' : block[i];
        }
        return sum;
}

static void put_header(struct buf *b, const struct pax_member *m) {
        struct ustar h = {.type = m->type};

        fill(h.name, sizeof h.name, m->name);
        octal(h.mode, sizeof h.mode, m->mode & 07777);
        octal(h.uid, sizeof h.uid, m->uid);
        octal(h.gid, sizeof h.gid, m->gid);
        octal(h.size, sizeof h.size, m->size);
        octal(h.mtime, sizeof h.mtime, m->mtime < 0 ? 0 : (uint64_t)m->mtime);
        if (m->link)
                fill(h.link, sizeof h.link, m->link);
        memcpy(h.magic, "ustar", 6);
        memcpy(h.version, "00", 2);
        octal(h.sum, 7, checksum((const uint8_t *)&h));
        h.sum[7] = ' ';
        buf_add(b, &h, sizeof h);
}

static void put_zeros(struct buf *b, size_t size) {
        static const char zeros[PAX_BLOCK];

        assert(size < sizeof zeros);
        if (size > 0)
                buf_add(b, zeros, size);
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
void pax_record(struct buf *b, const char *key, const char *value) {
        size_t body = strlen(key) + strlen(value) + 3, length = body, before;

        do {
                char digits[24];
                before = length;
                length = body + (size_t)snprintf(digits, sizeof digits, "%zu", before);
        } while (length != before);
        buf_printf(b, "%zu %s=", length, key);
        buf_str(b, value);
        buf_str(b, "\n");
}

static void put_number(struct buf *b, const char *key, uint64_t value) {
        char text[24];

        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        pax_record(b, key, text);
}

static void put_time(struct buf *b, int64_t seconds, uint32_t ns) {
        char text[48];
        bool before = seconds < 0 && ns > 0; /* -1.5 s is kept as -2 s and half a second on */

        seconds += before;
        (void)snprintf(text, sizeof text, "%s%lld.%09u", before && seconds == 0 ? "-" : "", (long long)seconds,
                       before ? 1000000000 - ns : ns);
        pax_record(b, "mtime", text);
}

void pax_put(struct buf *b, const struct pax_member *m) {
        _cleanup_buf_ struct buf records = {0};
        bool long_name = strlen(m->name) > sizeof((struct ustar *)0)->name;
        bool long_link = m->link && strlen(m->link) > sizeof((struct ustar *)0)->link;

        if ((long_name && !text_is_utf8(m->name)) || (long_link && !text_is_utf8(m->link)))
                pax_record(&records, "hdrcharset", "BINARY");
        if (long_name)
                pax_record(&records, "path", m->name);
        if (long_link)
                pax_record(&records, "linkpath", m->link);
        if (m->size > OCTAL_11)
                put_number(&records, "size", m->size);
        if (m->uid > OCTAL_7)
                put_number(&records, "uid", m->uid);
        if (m->gid > OCTAL_7)
                put_number(&records, "gid", m->gid);
        if (m->mtime_ns != 0 || m->mtime < 0 || (uint64_t)m->mtime > OCTAL_11)
                put_time(&records, m->mtime, m->mtime_ns);
        if (m->records && m->records->size > 0)
                buf_add(&records, m->records->data, m->records->size);
        if (!buf_ok(&records) || (m->records && !buf_ok(m->records))) {
                b->failed = true;
                return;
        }
        if (records.size > 0) {
                put_header(b, &(struct pax_member){
                                      .name = "./PaxHeaders/member", .type = 'x', .mode = 0644, .size = records.size});
                buf_add(b, records.data, records.size);
                put_zeros(b, pax_padding(records.size));
        }
        put_header(b, m);
}

size_t pax_padding(uint64_t size) {
        return (PAX_BLOCK - (size_t)(size % PAX_BLOCK)) % PAX_BLOCK;
}

/* --- reading: fields ------------------------------------------------------------------------------------------ */

/* An octal number, blanks about it, ended by a blank or NUL or the field's end; or GNU's base 256, not negative. */
static int get_number(const char *field, size_t size, uint64_t *ret) {
        const uint8_t *p = (const uint8_t *)field, *end = p + size;
        uint64_t value = 0;

        if (*p & 0x80) {
                if (*p != 0x80)
                        return -EFBIG; /* negative, or beyond all measure */
                for (p++; p < end; p++) {
                        if (value >> 55)
                                return -EFBIG;
                        value = value << 8 | *p;
                }
                *ret = value;
                return 0;
        }
        while (p < end && *p == ' ')
                p++;
        for (; p < end && *p >= '0' && *p <= '7'; p++)
                value = value << 3 | (uint64_t)(*p - '0');
        for (; p < end; p++)
                if (*p != ' ' && *p != '\0')
                        return -EBADMSG;
        *ret = value;
        return 0;
}

/* A decimal number of an extended header. */
static int get_decimal(const char **p, uint64_t *ret) {
        uint64_t value = 0;

        if (**p < '0' || **p > '9')
                return -EBADMSG;
        for (; **p >= '0' && **p <= '9'; (*p)++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value) || value > INT64_MAX)
                        return -EFBIG;
        *ret = value;
        return 0;
}

static int get_time(const char *p, int64_t *ret, uint32_t *ret_ns) {
        bool negative = *p == '-';
        uint64_t seconds;
        uint32_t ns = 0, scale = 100000000;

        p += negative;
        int r = get_decimal(&p, &seconds);
        if (r < 0)
                return r;
        if (*p == '.')
                for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
                        ns += (uint32_t)(*p - '0') * scale;
        if (*p)
                return -EBADMSG;
        *ret = negative ? -(int64_t)seconds - (ns > 0) : (int64_t)seconds;
        *ret_ns = negative && ns > 0 ? 1000000000 - ns : ns;
        return 0;
}

static int set_text(char *buf, bool *has, const char *text, size_t size) {
        if (size >= PAX_NAME_SIZE)
                return -ENAMETOOLONG;
        if (memchr(text, '\0', size))
                return -EBADMSG;
        memcpy(buf, text, size);
        buf[size] = '\0';
        *has = true;
        return 0;
}

/* --- reading: extended headers -------------------------------------------------------------------------------- */

static int take_record(struct pax_reader *r, const char *key, const char *value, size_t size) {
        const char *p = value;

        if (str_eq(key, "path"))
                return set_text(r->name, &r->has_name, value, size);
        if (str_eq(key, "linkpath"))
                return set_text(r->target, &r->has_target, value, size);
        if (str_eq(key, "size")) {
                int e = get_decimal(&p, &r->next_size);
                r->has_size = true;
                return e < 0 ? e : *p ? -EBADMSG : 0;
        }
        if (str_eq(key, "mtime")) {
                r->has_mtime = true;
                return get_time(value, &r->next_mtime, &r->next_mtime_ns);
        }
        return str_starts(key, "GNU.sparse.") ? -EOPNOTSUPP : 0;
}

/* "LENGTH key=value\n" records, one after another. */
static int take_extended(struct pax_reader *r, size_t size) {
        char *at = r->header, *end = r->header + size;

        while (at < end) {
                const char *digits = at;
                uint64_t length;
                int e = get_decimal(&digits, &length);

                if (e < 0)
                        return e;
                if (*digits != ' ' || length > (uint64_t)(end - at) || length < (uint64_t)(digits - at) + 3)
                        return -EBADMSG;
                char *key = at + (digits - at) + 1, *last = at + length - 1;
                char *equals = memchr(key, '=', (size_t)(last - key));
                if (*last != '\n' || !equals || memchr(key, '\0', (size_t)(equals - key)))
                        return -EBADMSG;
                *equals = *last = '\0';
                e = take_record(r, key, equals + 1, (size_t)(last - equals - 1));
                if (e < 0)
                        return e;
                at = last + 1;
        }
        return 0;
}

static int take_long(struct pax_reader *r, char type, size_t size) {
        while (size > 0 && r->header[size - 1] == '\0')
                size--;
        return type == 'L' ? set_text(r->name, &r->has_name, r->header, size)
                           : set_text(r->target, &r->has_target, r->header, size);
}

/* --- reading: blocks ------------------------------------------------------------------------------------------ */

enum { HEAD, EXTENDED, EXTENDED_PADDING, CONTENTS, CONTENTS_PADDING, ENDED, BROKEN };

static bool is_zero(const uint8_t *block) {
        for (size_t i = 0; i < PAX_BLOCK; i++)
                if (block[i] != 0)
                        return false;
        return true;
}

static int name_of(struct pax_reader *r, const struct ustar *h) {
        size_t n = strnlen(h->name, sizeof h->name), prefix = 0;

        if (r->has_name)
                return r->name[0] ? 0 : -EBADMSG;
        if (memcmp(h->magic, "ustar", 6) == 0) /* GNU has something else where the prefix is */
                prefix = strnlen(h->prefix, sizeof h->prefix);
        memcpy(r->name, h->prefix, prefix);
        if (prefix > 0)
                r->name[prefix++] = '/';
        memcpy(r->name + prefix, h->name, n);
        r->name[prefix + n] = '\0';
        return n == 0 ? -EBADMSG : 0;
}

static int member_of(struct pax_reader *r, const struct ustar *h, uint64_t size) {
        struct pax_member *m = &r->member;
        uint64_t mode, uid, gid, mtime;
        int e = name_of(r, h);

        if (e == 0 && !r->has_target)
                e = set_text(r->target, &r->has_target, h->link, strnlen(h->link, sizeof h->link));
        if (e == 0)
                e = get_number(h->mode, sizeof h->mode, &mode);
        if (e == 0)
                e = get_number(h->uid, sizeof h->uid, &uid);
        if (e == 0)
                e = get_number(h->gid, sizeof h->gid, &gid);
        if (e == 0)
                e = get_number(h->mtime, sizeof h->mtime, &mtime);
        if (e < 0)
                return e;
        *m = (struct pax_member){.name = r->name,
                                 .type = h->type,
                                 .mode = (uint32_t)mode & 07777,
                                 .size = r->has_size ? r->next_size : size,
                                 .mtime = r->has_mtime ? r->next_mtime : (int64_t)MIN(mtime, (uint64_t)INT64_MAX),
                                 .mtime_ns = r->has_mtime ? r->next_mtime_ns : 0,
                                 .uid = (uint32_t)MIN(uid, (uint64_t)UINT32_MAX),
                                 .gid = (uint32_t)MIN(gid, (uint64_t)UINT32_MAX)};
        if (m->type == '\0' || m->type == '7')
                m->type = '0';
        if (m->type < '0' || m->type > '6')
                return -EOPNOTSUPP;
        if (m->type == '1' || m->type == '2')
                m->link = r->target;
        if (m->type != '0') /* these have no contents, whatever their size says */
                m->size = 0;
        else if (m->name[strlen(m->name) - 1] == '/') { /* how a folder was written before there were types */
                if (m->size > 0)
                        return -EBADMSG;
                m->type = '5';
        }
        if (m->size > INT64_MAX - r->bytes)
                return -EFBIG;
        return 0;
}

static int take_head(struct pax_reader *r) {
        const struct ustar *h = (const struct ustar *)(const void *)r->block;
        uint64_t sum, size;

        if (is_zero(r->block)) {
                r->state = ENDED;
                return PAX_END;
        }
        int e = get_number(h->sum, sizeof h->sum, &sum);
        if (e < 0 || sum != checksum(r->block) || memcmp(h->magic, "ustar", 5) != 0)
                return -EBADMSG;
        e = get_number(h->size, sizeof h->size, &size);
        if (e < 0)
                return e;
        switch (h->type) {
        case 'x':
        case 'g':
        case 'L':
        case 'K':
                if (size > PAX_HEADER_MAX)
                        return -EFBIG;
                r->state = EXTENDED;
                r->left = size;
                r->padding = pax_padding(size);
                r->filled = 0;
                return PAX_MORE;
        default:
                break;
        }
        e = member_of(r, h, size);
        r->has_name = r->has_target = r->has_size = r->has_mtime = false;
        if (e < 0)
                return e;
        r->entries++;
        r->bytes += r->member.size;
        r->left = r->member.size;
        r->padding = pax_padding(r->left);
        r->state = CONTENTS;
        return PAX_MEMBER;
}

/* Moves up to *size bytes, as many as are wanted, into buf or nowhere. */
static void move(uint8_t *buf, uint64_t *wanted, const uint8_t **bytes, size_t *size) {
        size_t n = (size_t)MIN((uint64_t)*size, *wanted);

        if (buf && n > 0)
                memcpy(buf, *bytes, n);
        *wanted -= n;
        *bytes += n;
        *size -= n;
}

static int step(struct pax_reader *r, const uint8_t **bytes, size_t *size) {
        char type = ((const struct ustar *)(const void *)r->block)->type;
        uint64_t wanted;
        size_t before = *size;
        int e;

        switch (r->state) {
        case HEAD:
                wanted = PAX_BLOCK - r->filled;
                move(r->block + r->filled, &wanted, bytes, size);
                r->filled = PAX_BLOCK - (size_t)wanted;
                if (wanted > 0)
                        return PAX_MORE;
                r->filled = 0;
                return take_head(r);
        case EXTENDED:
                move((uint8_t *)r->header + r->filled, &r->left, bytes, size);
                r->filled += before - *size;
                if (r->left > 0)
                        return PAX_MORE;
                r->header[r->filled] = '\0';
                e = type == 'x' ? take_extended(r, r->filled) : type == 'g' ? 0 : take_long(r, type, r->filled);
                r->filled = 0;
                r->state = EXTENDED_PADDING;
                return e;
        case EXTENDED_PADDING:
                move(NULL, &r->padding, bytes, size);
                if (r->padding == 0)
                        r->state = HEAD;
                return PAX_MORE;
        case CONTENTS:
                if (r->left == 0) {
                        r->state = CONTENTS_PADDING;
                        return PAX_DONE;
                }
                r->data = *bytes;
                move(NULL, &r->left, bytes, size);
                r->size = before - *size;
                return r->size > 0 ? PAX_DATA : PAX_MORE;
        case CONTENTS_PADDING:
                move(NULL, &r->padding, bytes, size);
                if (r->padding == 0)
                        r->state = HEAD;
                return PAX_MORE;
        case ENDED:
                return PAX_END;
        default:
                return -EBADMSG;
        }
}

int pax_next(struct pax_reader *r, const uint8_t **bytes, size_t *size) {
        for (;;) {
                int before = r->state, e = step(r, bytes, size);

                if (e < 0)
                        r->state = BROKEN;
                if (e != PAX_MORE || (*size == 0 && r->state == before))
                        return e;
        }
}

int pax_plain(const char *name, char *buf) {
        size_t used = 0;

        if (*name == '/' || *name == '\0')
                return -EBADMSG;
        while (*name) {
                size_t n = strcspn(name, "/");

                if (n == 2 && name[0] == '.' && name[1] == '.')
                        return -EBADMSG;
                if (n > 0 && !(n == 1 && name[0] == '.')) {
                        if (used + n + 2 > PAX_NAME_SIZE)
                                return -EBADMSG;
                        if (used > 0)
                                buf[used++] = '/';
                        memcpy(buf + used, name, n);
                        used += n;
                }
                name += n + (name[n] == '/');
        }
        buf[used] = '\0';
        return 0;
}
