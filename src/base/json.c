/* JSON writer. */
#include "base/json.h"

#include "base/text.h"

/* How many of these bytes stand for themselves. */
static size_t plain_length(const unsigned char *p) {
        size_t n = 0;

        while (p[n] >= 0x20 && p[n] < 0x7f && p[n] != '"' && p[n] != '\\')
                n++;
        return n;
}

static void json_text(struct buf *out, const char *s) {
        buf_add(out, "\"", 1);
        for (const unsigned char *p = (const unsigned char *)s; *p;) {
                size_t plain = plain_length(p), n = plain > 0 ? plain : text_utf8_length(p);

                if (n == 0) {
                        buf_str(out, "\xef\xbf\xbd");
                        p++;
                } else if (*p == '"' || *p == '\\') {
                        buf_add(out, *p++ == '"' ? "\\\"" : "\\\\", 2);
                } else if (*p < 0x20 || *p == 0x7f) {
                        buf_printf(out, "\\u%04x", *p++);
                } else {
                        buf_add(out, p, n);
                        p += n;
                }
        }
        buf_add(out, "\"", 1);
}

static void json_begin(struct json *j, const char *key) {
        if (j->comma)
                buf_add(j->out, ",", 1);
        j->comma = true;
        if (key) {
                json_text(j->out, key);
                buf_add(j->out, ":", 1);
        }
}

void json_open(struct json *j, const char *key, char bracket) {
        json_begin(j, key);
        buf_add(j->out, &bracket, 1);
        j->comma = false;
}

void json_close(struct json *j, char bracket) {
        buf_add(j->out, &bracket, 1);
        j->comma = true;
}

void json_str(struct json *j, const char *key, const char *value) {
        if (!value) {
                json_null(j, key);
                return;
        }
        json_begin(j, key);
        json_text(j->out, value);
}

static void add_number(struct buf *out, uint64_t value, bool negative) {
        char text[21]; /* a sign and twenty digits */
        size_t at = sizeof text;

        do
                text[--at] = (char)('0' + value % 10);
        while ((value /= 10) > 0);
        if (negative)
                text[--at] = '-';
        buf_add(out, text + at, sizeof text - at);
}

void json_u64(struct json *j, const char *key, uint64_t value) {
        json_begin(j, key);
        add_number(j->out, value, false);
}

void json_i64(struct json *j, const char *key, int64_t value) {
        json_begin(j, key);
        add_number(j->out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

void json_bool(struct json *j, const char *key, bool value) {
        json_begin(j, key);
        buf_str(j->out, value ? "true" : "false");
}

void json_null(struct json *j, const char *key) {
        json_begin(j, key);
        buf_str(j->out, "null");
}

void json_u64_or_null(struct json *j, const char *key, uint64_t value) {
        if (value == UINT64_MAX)
                json_null(j, key);
        else
                json_u64(j, key, value);
}
