/* Answers: their heads are the same for all, errors have one shape, and one table says which code is which status. */
#include <stdarg.h>
#include <stdio.h>

#include "api/exchange.h"
#include "api/head.h"
#include "api/route.h"

#define PIECE     (128U * 1024) /* that libmicrohttpd takes at a time, and the kernel if it can */
#define WHOLE_MAX (64U * 1024)  /* above this an answer is read in pieces; below, the kernel takes it */

static const struct {
        const char *code, *name;
        unsigned status, retry_ms;
} codes[] = {
        /* of verbs */
        {"bad_request", "BAD_REQUEST", 400, 0},
        {"not_found", "NOT_FOUND", 404, 0},
        {"conflict", "CONFLICT", 409, 0},
        {"limit", "LIMIT", 429, 10000},
        {"unenforced", "UNENFORCED", 422, 0},
        {"refused", "REFUSED", 403, 0},
        {"full", "FULL", 507, 0},
        {"busy", "BUSY", 503, 1000},
        {"too_large", "TOO_LARGE", 413, 0},
        {"failed", "FAILED", 500, 0},
        {"changed", "CHANGED", 412, 0},
        /* of HTTP */
        {"no_token", "NO_TOKEN", 401, 0},
        {"bad_token", "BAD_TOKEN", 401, 0},
        {"not_permitted", "NOT_PERMITTED", 403, 0},
        {"bad_host", "BAD_HOST", 403, 0},
        {"bad_origin", "BAD_ORIGIN", 403, 0},
        {"no_route", "NO_ROUTE", 404, 0},
        {"not_instance", "NOT_INSTANCE", 404, 0},
        {"not_provisioned", "NOT_PROVISIONED", 404, 0},
        {"instance_mode", "INSTANCE_MODE", 409, 0},
        {"bad_method", "BAD_METHOD", 405, 0},
        {"timeout", "TIMEOUT", 504, 0},
        {"no_length", "NO_LENGTH", 411, 0},
        {"bad_type", "BAD_TYPE", 415, 0},
        {"bad_range", "BAD_RANGE", 416, 0},
        {"upgrade_needed", "UPGRADE_NEEDED", 426, 0},
        {"rate_limited", "RATE_LIMITED", 429, 0},
        {"bad_gateway", "BAD_GATEWAY", 502, 0},
        {"unavailable", "UNAVAILABLE", 503, 1000},
        {"circuit_open", "CIRCUIT_OPEN", 503, 0}, /* says itself for how long */
};

static size_t find(const char *code) {
        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                if (str_eq(codes[i].code, code))
                        return i;
        return 9; /* failed: what nobody has a name for is our fault */
}

unsigned reply_status(const char *code) {
        return codes[find(code)].status;
}

void reply_error_json(struct json *j, const char *code, const char *message, const char *hint) {
        size_t i = find(code);

        json_open(j, NULL, '{');
        json_str(j, "error", message);
        json_str(j, "code", codes[i].name);
        if (hint && hint[0])
                json_str(j, "hint", hint);
        if (codes[i].retry_ms > 0)
                json_u64(j, "retry_after_ms", codes[i].retry_ms);
        json_close(j, '}');
}

/* --- heads ----------------------------------------------------------------------------------------------------------
 */

void reply_header(struct exchange *x, const char *name, const char *value) {
        if (x->response)
                (void)MHD_add_response_header(x->response, name, value);
}

static void add_cors(struct exchange *x) {
        reply_header(x, "Access-Control-Allow-Origin", x->origin);
        reply_header(x, "Access-Control-Expose-Headers", "x-request-id, retry-after, content-range, etag");
        reply_header(x, "Vary", "Origin");
        if (str_eq(x->method, "OPTIONS")) {
                reply_header(x, "Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE, OPTIONS");
                reply_header(x, "Access-Control-Allow-Headers",
                             "authorization, content-type, if-match, last-event-id, range, x-request-id");
                reply_header(x, "Access-Control-Max-Age", "600");
        }
}

static void add_frames(struct exchange *x, const struct conf_list *frames) {
        char policy[2048] = "default-src 'none'; frame-ancestors";
        size_t used = strlen(policy);

        for (size_t i = 0; i < frames->count && used < sizeof policy; i++)
                used += (size_t)snprintf(policy + used, sizeof policy - used, " %s", frames->items[i]);
        reply_header(x, "Content-Security-Policy", policy);
}

static void add_policy(struct exchange *x) {
        const struct conf_list *frames = &x->api->o->conf.frames;

        if (frames->count > 0) {
                add_frames(x, frames);
                return;
        }
        reply_header(x, "X-Frame-Options", "DENY");
        reply_header(x, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
}

static void set(struct exchange *x, unsigned status, struct MHD_Response *r, const char *type) {
        if (x->response)
                MHD_destroy_response(x->response);
        x->response = r;
        x->status = status;
        if (!r) { /* no memory for an answer: the connection ends without one */
                x->failed = x->close = true;
                return;
        }
        if (type)
                reply_header(x, "Content-Type", type);
        reply_header(x, "X-Request-Id", x->id);
        reply_header(x, "X-Content-Type-Options", "nosniff");
        reply_header(x, "Cache-Control", "no-store");
        reply_header(x, "Referrer-Policy", "no-referrer");
        if (x->strict)
                reply_header(x, "Strict-Transport-Security", "max-age=31536000");
        add_policy(x);
        if (x->origin)
                add_cors(x);
        if (x->close)
                reply_header(x, "Connection", "close");
        if (status == 401)
                reply_header(x, "WWW-Authenticate", "Bearer");
        if (!x->inside)
                exchange_wake(x);
}

/* --- whole answers ---------------------------------------------------------------------------------------------------
 */

static ssize_t read_out(void *data, uint64_t at, char *buf, size_t max) {
        struct exchange *x = data;
        size_t n = MIN(max, x->out.size - x->out_at);

        (void)at;
        if (n > 0) {
                memcpy(buf, x->out.data + x->out_at, n);
                x->out_at += n;
                x->moved += n;
                if (x->out_at == x->out.size)
                        x->out_at = x->out.size = 0;
                if (x->crowded && x->out.size - x->out_at < EXCHANGE_MARK / 2) {
                        x->crowded = false;
                        loop_later(x->api->o->loop, &x->room);
                }
                return (ssize_t)n;
        }
        if (x->failed)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        if (x->ended)
                return MHD_CONTENT_READER_END_OF_STREAM;
        if (!x->suspended) {
                x->suspended = true;
                MHD_suspend_connection(x->connection);
        }
        return 0;
}

void reply_text(struct exchange *x, unsigned status, const char *type, struct buf *text) {
        struct MHD_Response *r = NULL;

        /* a list of much, of which nothing was counted while it was made: those that are not read may not add up */
        if (buf_ok(text) && text->size > WHOLE_MAX && x->kept == 0 && !exchange_gather(x, text->size)) {
                buf_free(text);
                reply_error(x, "busy", "read them, or try again", "too many large answers wait to be read");
                return;
        }
        if (buf_ok(text) && text->size > WHOLE_MAX) { /* piece by piece, so that it is seen how fast it is read */
                buf_free(&x->out);
                x->out = *text;
                *text = (struct buf){0};
                x->out_at = 0;
                x->ended = true;
                r = MHD_create_response_from_callback(x->out.size, PIECE, read_out, x, NULL);
        } else if (buf_ok(text)) {
                size_t size = text->size;
                char *data = TAKE_PTR(text->data);

                r = MHD_create_response_from_buffer(size, data, data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
        }
        buf_free(text);
        set(x, status, r, type);
}

static ssize_t read_fixed(void *data, uint64_t at, char *buf, size_t max) {
        struct exchange *x = data;

        memcpy(buf, x->fixed + at, max); /* libmicrohttpd asks for no more than there is */
        x->moved += max;
        return (ssize_t)max;
}

void reply_static(struct exchange *x, unsigned status, const char *type, const void *data, size_t size) {
        x->fixed = data;
        set(x, status,
            size > WHOLE_MAX ? MHD_create_response_from_callback(size, PIECE, read_fixed, x, NULL)
                             : MHD_create_response_from_buffer(size, (void *)(uintptr_t)data, MHD_RESPMEM_PERSISTENT),
            type);
}

void reply_json(struct exchange *x, unsigned status, struct buf *json) {
        reply_text(x, status, "application/json", json);
}

void reply_empty(struct exchange *x, unsigned status) {
        set(x, status, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), NULL);
}

void reply_refused(struct exchange *x, const char *code, const char *message, const char *hint) {
        struct buf b = {0};
        struct json j = {.out = &b};
        char seconds[24];
        size_t i = find(code);

        x->code = codes[i].code;
        reply_error_json(&j, code, message, hint);
        reply_json(x, codes[i].status, &b);
        if (codes[i].retry_ms > 0) {
                (void)snprintf(seconds, sizeof seconds, "%u", (codes[i].retry_ms + 999) / 1000);
                reply_header(x, "Retry-After", seconds);
        }
}

void reply_error(struct exchange *x, const char *code, const char *hint, const char *format, ...) {
        char message[512];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(message, sizeof message, format, args);
        va_end(args);
        reply_refused(x, code, message, hint);
}

/* --- streams ---------------------------------------------------------------------------------------------------------
 */

void reply_begin(struct exchange *x, unsigned status, const char *type, uint64_t size) {
        x->streaming = true;
        x->out.max = EXCHANGE_MOST;
        set(x, status, MHD_create_response_from_callback(size, PIECE, read_out, x, NULL), type);
}

void reply_begin_bare(struct exchange *x, unsigned status, uint64_t size) {
        x->streaming = true;
        x->out.max = EXCHANGE_MOST;
        if (x->response)
                MHD_destroy_response(x->response);
        x->response = MHD_create_response_from_callback(size, PIECE, read_out, x, NULL);
        x->status = status;
        if (!x->response)
                x->failed = x->close = true;
        if (x->origin)
                add_cors(x);
        if (!x->inside)
                exchange_wake(x);
}

void reply_write(struct exchange *x, const void *data, size_t size) {
        if (x->failed || x->ended)
                return;
        if (x->out_at > 0 && x->out.size + size > x->out.room) { /* what was sent makes room */
                memmove(x->out.data, x->out.data + x->out_at, x->out.size - x->out_at);
                x->out.size -= x->out_at;
                x->out_at = 0;
        }
        buf_add(&x->out, data, size);
        if (!buf_ok(&x->out))
                x->failed = true;
        if (x->out.size - x->out_at >= EXCHANGE_MARK)
                x->crowded = true;
        exchange_wake(x);
}

void reply_end(struct exchange *x) {
        x->ended = true;
        exchange_wake(x);
}

void reply_fail(struct exchange *x) {
        x->failed = true;
        exchange_wake(x);
}
