/* What tests of exchanges share: rules, a secret, and feeding bytes in pieces. */
#pragma once

#include "base/buf.h"
#include "base/test.h"
#include "gate/exchange.h"

#define VALUE  "s3cr3t-value-0123456789"
#define HOLDER "stk_placeholder_1"

static struct rules rules;
static struct secrets *secrets;

static inline void set_up(void) {
        static const struct rule list[] = {
                {.index = 0,
                 .host = "api.test",
                 .ports = {80, 443},
                 .port_count = 2,
                 .methods = {"GET", "POST", "HEAD"},
                 .method_count = 3,
                 .paths = {"/v1/*"},
                 .path_count = 1,
                 .secret = "TOKEN"},
                {.index = 1,
                 .host = "api.test",
                 .ports = {80, 443},
                 .port_count = 2,
                 .paths = {"/open"},
                 .path_count = 1,
                 .secret = ""},
                {.index = 2, .host = "plain.test", .ports = {80, 443, 8080}, .port_count = 3, .secret = ""},
                {.index = 3,
                 .host = "inner.test",
                 .ports = {80},
                 .port_count = 1,
                 .flags = RULE_PRIVATE,
                 .paths = {"/in"},
                 .path_count = 1,
                 .secret = "TOKEN"},
                {.index = 4,
                 .host = "inner.test",
                 .ports = {80},
                 .port_count = 1,
                 .paths = {"/out"},
                 .path_count = 1,
                 .secret = "TOKEN"},
                {.index = 5,
                 .host = "",
                 .address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 0},
                 .prefix = 120,
                 .ports = {80},
                 .port_count = 1,
                 .secret = ""},
        };
        _cleanup_buf_ struct buf b = {0};

        if (secrets)
                return;
        rules_begin(&b);
        for (size_t i = 0; i < ELEMENTSOF(list); i++)
                rules_add(&b, &list[i]);
        assert(buf_ok(&b) && rules_load(&rules, b.data, b.size) == 0);
        secrets = secrets_create();
        assert(secrets_put(secrets, "TOKEN", HOLDER, VALUE, strlen(VALUE)) == 0);
        assert(secrets_put(secrets, "OTHER", "stk_placeholder_2", "another-value-987", 17) == 0);
}

static inline struct exchange_setup setup(const char *name, uint16_t port, bool tls) {
        set_up();
        return (struct exchange_setup){
                .rules = &rules, .secrets = secrets, .name = name, .port = port, .tls = tls, .inspect = true};
}

static inline struct exchange *take(const char *name, uint16_t port, bool tls) {
        struct exchange_setup s = setup(name, port, tls);
        struct exchange *x = exchange_take(&s);

        assert(x);
        return x;
}

/* ---- feeding ---- */

static char out_bytes[512 * 1024];
static uint8_t room[EXCHANGE_ROOM];
static size_t used_bytes;

typedef enum exchange_result feed_function(struct exchange *, const uint8_t *, size_t, size_t *, uint8_t *, size_t,
                                           size_t *);

/* Offers text in pieces of at most `step` bytes, unconsumed ones again, until it stops being MORE. */
static inline enum exchange_result feed(feed_function *f, struct exchange *x, const char *text, size_t step) {
        size_t size = strlen(text), begin = 0, end = 0, made_all = 0;
        enum exchange_result r = EXCHANGE_MORE;

        while (end < size && r == EXCHANGE_MORE) {
                size_t used, made;

                end = MIN(size, end + step);
                do {
                        r = f(x, (const uint8_t *)text + begin, end - begin, &used, room, sizeof room, &made);
                        memcpy(out_bytes + made_all, room, made);
                        made_all += made;
                        begin += used;
                } while (r == EXCHANGE_MORE && used > 0 && begin < end);
        }
        out_bytes[made_all] = '\0';
        used_bytes = begin;
        return r;
}

#define REQUEST(x, text)  feed(exchange_request, x, text, SIZE_MAX / 2)
#define RESPONSE(x, text) feed(exchange_response, x, text, SIZE_MAX / 2)

/* What is left of an answer when its head and its chunks are taken apart again. */
static inline const char *body_of(const char *answer) {
        static char body[256 * 1024];
        const char *p = strstr(answer, "\r\n\r\n");
        size_t made = 0;

        if (!p)
                return "(no head)";
        p += 4;
        if (!strstr(answer, "Transfer-Encoding: chunked")) {
                (void)snprintf(body, sizeof body, "%.200000s", p);
                return body;
        }
        for (;;) {
                char *end;
                size_t n = strtoul(p, &end, 16);

                if (end == p || memcmp(end, "\r\n", 2) != 0)
                        return "(bad chunk)";
                p = end + 2;
                memcpy(body + made, p, n);
                made += n;
                body[made] = '\0';
                if (memcmp(p + n, "\r\n", 2) != 0)
                        return "(bad chunk end)";
                if (n == 0)
                        return p[2] ? "(bytes behind)" : body;
                p += n + 2;
        }
}
