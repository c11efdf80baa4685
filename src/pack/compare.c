/* What changed between two trees: a line of JSON for each name, {"change":"added","path":"a/b","kind":"file","size":3}.
 *
 * A name that is not UTF-8 has its bytes in "bytes", in hexadecimal; "path" then shows what can be shown. Times alone
 * are no change, nor are set-id bits, which no sandbox has. */
#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "pack/same.h"

enum { FLUSH_AT = 1 << 18 };

struct comparing {
        struct buf out;
        int fd;
        struct tally *t;
        struct err *err;
};

static int flush(struct comparing *c) {
        int r = buf_ok(&c->out) ? fd_write_full(c->fd, c->out.data, c->out.size) : -ENOMEM;

        c->t->bytes += c->out.size;
        c->out.size = 0;
        return r < 0 ? err_set(c->err, r, "cannot write what changed") : 0;
}

static const char *kind_of(mode_t mode) {
        return S_ISREG(mode)    ? "file"
               : S_ISDIR(mode)  ? "folder"
               : S_ISLNK(mode)  ? "link"
               : S_ISFIFO(mode) ? "fifo"
               : S_ISSOCK(mode) ? "socket"
                                : "device";
}

static bool is_text(const char *s) {
        for (size_t n; *s; s += n)
                if ((n = text_utf8_length((const unsigned char *)s)) == 0)
                        return false;
        return true;
}

static void put_bytes(struct json *j, const char *path) {
        _cleanup_buf_ struct buf hex = {0};

        for (const char *p = path; *p; p++)
                buf_printf(&hex, "%02x", (unsigned char)*p);
        json_str(j, "bytes", buf_ok(&hex) ? hex.data : NULL);
}

static int tell(struct comparing *c, const char *change, const char *path, const struct stat *st) {
        struct json j = {.out = &c->out};

        json_open(&j, NULL, '{');
        json_str(&j, "change", change);
        json_str(&j, "path", path);
        if (!is_text(path))
                put_bytes(&j, path);
        json_str(&j, "kind", kind_of(st->st_mode));
        json_u64(&j, "size", S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0);
        json_close(&j, '}');
        buf_str(&c->out, "\n");
        c->t->entries++;
        return c->out.size >= FLUSH_AT ? flush(c) : 0;
}

static int one(void *data, const struct pair *p) {
        struct comparing *c = data;
        const struct stat *old = &p->st[0], *new = &p->st[1];
        bool folder = S_ISDIR(old->st_mode) || S_ISDIR(new->st_mode);
        int r = 0;

        if (old->st_mode == 0)
                r = tell(c, "added", p->path, new);
        else if (new->st_mode == 0)
                r = tell(c, "removed", p->path, old);
        else {
                int same = same_content(p);
                if (same < 0)
                        return same;
                if (!same || !same_dress(p))
                        r = tell(c, "changed", p->path, new);
        }
        return r < 0 ? r : folder ? SAME_INTO : SAME_PASS;
}

int compare_trees(int old, int new, int out, struct tally *t, struct err *err) {
        struct comparing c = {.out = {.max = FLUSH_AT + (1 << 20)}, .fd = out, .t = t, .err = err};

        int r = same_walk(old, new, one, &c, err);
        if (r == 0 && c.out.size > 0)
                r = flush(&c);
        buf_free(&c.out);
        return r;
}
