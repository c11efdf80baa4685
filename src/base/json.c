/* JSON writer. */
#include "base/json.h"

#include "base/text.h"

static void json_text(struct buf *out, const char *s) {
        buf_str(out, "\"");
        for (const unsigned char *p = (const unsigned char *)s; *p;) {
                size_t n = text_utf8_length(p);

                if (n == 0) {
                        buf_str(out, "\xef\xbf\xbd");
                        p++;
                } else if (*p == '"' || *p == '\\') {
                        buf_printf(out, "\\%c", *p++);
                } else if (*p < 0x20 || *p == 0x7f) {
                        buf_printf(out, "\\u%04x", *p++);
                } else {
                        buf_add(out, p, n);
                        p += n;
                }
        }
        buf_str(out, "\"");
}

static void json_begin(struct json *j, const char *key) {
        if (j->comma)
                buf_str(j->out, ",");
        j->comma = true;
        if (key) {
                json_text(j->out, key);
                buf_str(j->out, ":");
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

void json_u64(struct json *j, const char *key, uint64_t value) {
        json_begin(j, key);
        buf_printf(j->out, "%llu", (unsigned long long)value);
}

void json_i64(struct json *j, const char *key, int64_t value) {
        json_begin(j, key);
        buf_printf(j->out, "%lld", (long long)value);
}

void json_bool(struct json *j, const char *key, bool value) {
        json_begin(j, key);
        buf_str(j->out, value ? "true" : "false");
}

void json_null(struct json *j, const char *key) {
        json_begin(j, key);
        buf_str(j->out, "null");
}
