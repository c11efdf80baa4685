/* Files over HTTP. Reading what is inside, or was when a snapshot was taken: a folder as a list, a file as bytes, or a
 * part of them. Writing, if the file is still what it was. */
#include <stdio.h>

#include "api/routes.h"
#include "base/json-read.h"

enum { FILE_STAT, FILE_LIST, FILE_READ, FILE_STEPS };

struct file {
        unsigned step;
        const char *const *verbs; /* of each step */
        uint64_t size, from, length;
        bool part;
        char etag[68]; /* with its quotes; "": it has none */
};

static void ask(struct exchange *x, unsigned step) {
        struct buf b = {0};
        struct json j = {.out = &b};
        struct file *f = x->data;

        f->step = step;
        route_request(x, &j, f->verbs[step]);
        if (!route_fields(x, &j)) {
                buf_free(&b);
                return;
        }
        if (step == FILE_READ) {
                json_u64(&j, "offset", f->from);
                json_u64(&j, "length", f->length);
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

static void begin(struct exchange *x, const char *const *verbs) {
        struct file *f = x->data = calloc(1, sizeof *f);

        if (!f) {
                reply_error(x, "failed", "try again", "out of memory");
                return;
        }
        f->verbs = verbs;
        ask(x, FILE_STAT);
}

void file_get(struct exchange *x) {
        static const char *const verbs[FILE_STEPS] = {"stat", "ls", "get"};

        begin(x, verbs);
}

void snapshot_file_get(struct exchange *x) {
        static const char *const verbs[FILE_STEPS] = {"snapshot-stat", "snapshot-ls", "snapshot-get"};

        begin(x, verbs);
}

/* 1: a part is asked for, and fits; 0: all of it; below: it lies outside. Other units and more than one part at a time
 * are as if they were not there, which is what RFC 9110 wants. */
static int read_range(const char *text, struct file *f) {
        unsigned long long first = 0, last = 0;
        char end;

        if (!text)
                return 0;
        if (sscanf(text, "bytes=-%18llu%c", &last, &end) == 1) {
                if (last == 0)
                        return -ERANGE;
                f->length = MIN(last, f->size);
                f->from = f->size - f->length;
                return 1;
        }
        int n = sscanf(text, "bytes=%18llu-%18llu%c", &first, &last, &end);
        if ((n != 1 && n != 2) || (n == 1 && text[strlen(text) - 1] != '-') || (n == 2 && last < first))
                return 0;
        if (first >= f->size)
                return -ERANGE;
        f->from = first;
        f->length = (n == 2 ? MIN(last, f->size - 1) : f->size - 1) - first + 1;
        return 1;
}

static void read_file(struct exchange *x, struct file *f) {
        char range[80];

        f->length = f->size > 0 ? f->size : UINT64_MAX; /* some files do not know their size */
        int r = f->size > 0 ? read_range(x->head.range, f) : 0;
        if (r < 0) {
                reply_error(x, "bad_range", NULL, "the file has %llu bytes", (unsigned long long)f->size);
                (void)snprintf(range, sizeof range, "bytes */%llu", (unsigned long long)f->size);
                reply_header(x, "Content-Range", range);
                return;
        }
        f->part = r > 0;
        ask(x, FILE_READ);
}

static void begin_bytes(struct exchange *x, const struct file *f) {
        char range[80];

        reply_begin(x, f->part ? 206 : 200, "application/octet-stream", f->size > 0 ? f->length : UINT64_MAX);
        reply_header(x, "Accept-Ranges", "bytes");
        reply_header(x, "Content-Disposition", "attachment");
        if (f->etag[0])
                reply_header(x, "ETag", f->etag);
        if (f->part) {
                (void)snprintf(range, sizeof range, "bytes %llu-%llu/%llu", (unsigned long long)f->from,
                               (unsigned long long)(f->from + f->length - 1), (unsigned long long)f->size);
                reply_header(x, "Content-Range", range);
        }
}

static void file_frame(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        const struct file *f = x->data;

        if (kind != LOCAL_OUTPUT)
                return;
        if (!x->streaming)
                begin_bytes(x, f);
        reply_write(x, data, size);
}

static void file_answer(struct exchange *x, const char *result) {
        struct file *f = x->data;
        char kind[16] = "", etag[64];
        struct buf b = {.max = LOCAL_ANSWER_MAX};

        if (f->step == FILE_STAT) {
                (void)json_find_u64(result, "size", &f->size);
                (void)json_find_str(result, "kind", kind, sizeof kind);
                if (json_find_str(result, "etag", etag, sizeof etag) && !etag[strspn(etag, "0123456789abcdef-")])
                        (void)snprintf(f->etag, sizeof f->etag, "\"%s\"", etag);
                if (str_eq(kind, "link"))
                        f->size = 0; /* its own: nobody knows that of what it leads to */
                if (str_eq(kind, "folder"))
                        ask(x, FILE_LIST);
                else if (str_eq(kind, "file") || str_eq(kind, "link"))
                        read_file(x, f);
                else
                        reply_error(x, "conflict", "only files and folders can be read", "it is a %s", kind);
        } else if (f->step == FILE_LIST) {
                buf_str(&b, result);
                reply_json(x, 200, &b);
        } else {
                if (!x->streaming)
                        begin_bytes(x, f);
                reply_end(x);
        }
}

static void file_free(struct exchange *x) {
        free(TAKE_PTR(x->data));
}

const struct view view_file = {.frame = file_frame, .answer = file_answer, .free = file_free};

/* What the file has to be: one tag, as an answer gave it. False: refused. */
static bool wanted(struct exchange *x, struct json *j) {
        const char *tag = x->head.if_match;
        size_t n = tag ? strlen(tag) : 0;
        char plain[65];

        if (!tag)
                return true;
        if (n < 3 || n - 2 >= sizeof plain || tag[0] != '"' || tag[n - 1] != '"' || memchr(tag + 1, '"', n - 2)) {
                x->close = x->has_body;
                reply_error(x, "bad_request", "send one ETag as it was given, with its quotes",
                            "If-Match is not understood");
                return false;
        }
        (void)snprintf(plain, sizeof plain, "%.*s", (int)(n - 2), tag + 1);
        json_str(j, "if_match", plain);
        return true;
}

void file_put(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};

        route_request(x, &j, "put");
        if (!route_fields(x, &j) || !wanted(x, &j)) {
                buf_free(&b);
                return;
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}
