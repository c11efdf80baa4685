/* Taking a token apart, and the grammar of its parts. Anybody may have written every byte of it. */
#include "auth/capability-text.h"

#include "auth/base64url.h"
#include "auth/rfc3339.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/text.h"

enum { PREFIX = sizeof CAPABILITY_PREFIX - 1, KID = KEYRING_ID - 1 };

/* --- words ------------------------------------------------------------------------------------------------------ */

static bool is_lower_or_digit(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool capability_text_is_verb(const char *s, bool pattern) {
        size_t n = strnlen(s, CAPABILITY_VERB);

        if (pattern && str_eq(s, "*"))
                return true;
        if (n == 0 || n == CAPABILITY_VERB || !is_lower_or_digit(s[0]))
                return false;
        for (; *s; s++)
                if (!is_lower_or_digit(*s) && *s != '-' && *s != '.')
                        return false;
        return true;
}

/* Between two slashes: not empty, not "." or "..". */
static bool is_segment(const char *s, size_t size) {
        if (size == 0 || (s[0] == '.' && (size == 1 || (size == 2 && s[1] == '.'))))
                return false;
        for (size_t i = 0; i < size; i++)
                if (!is_lower_or_digit(s[i]) && !(s[i] >= 'A' && s[i] <= 'Z') && !strchr("-._~:@+=,", s[i]))
                        return false;
        return true;
}

bool capability_text_is_resource(const char *s, bool pattern) {
        size_t n = strnlen(s, CAPABILITY_RESOURCE);

        if (n == 0 || n == CAPABILITY_RESOURCE)
                return false;
        if (pattern && str_eq(s, "*"))
                return true;
        if (pattern && n > 2 && str_eq(s + n - 2, "/*"))
                n -= 2;
        for (size_t i = 0, begin = 0; i <= n; i++)
                if (i == n || s[i] == '/') {
                        if (!is_segment(s + begin, i - begin))
                                return false;
                        begin = i + 1;
                }
        return true;
}

/* Quotes and backslashes are out, so that a part never needs an escape and has one spelling. */
bool capability_text_is_owner(const char *s) {
        size_t n = strnlen(s, CAPABILITY_OWNER);

        if (n == 0 || n == CAPABILITY_OWNER || !text_is_utf8(s))
                return false;
        for (; *s; s++)
                if ((unsigned char)*s <= 0x20 || *s == 0x7f || *s == '"' || *s == '\\')
                        return false;
        return true;
}

/* --- apart ------------------------------------------------------------------------------------------------------ */

bool capability_is(const char *text, size_t size) {
        return size >= PREFIX && memcmp(text, CAPABILITY_PREFIX, PREFIX) == 0;
}

/* Up to the next dot, or to the end. */
static size_t until_dot(const char *p, const char *end) {
        const char *dot = memchr(p, '.', (size_t)(end - p));

        return (size_t)((dot ? dot : end) - p);
}

bool capability_text_split(const char *token, size_t size, struct capability_text *ret) {
        const char *p = token + PREFIX, *end = token + size;
        size_t used = 0, n;

        if (size > CAPABILITY_TOKEN_MAX || !capability_is(token, size) || until_dot(p, end) != KID)
                return false;
        for (size_t i = 0; i < KID; i++)
                if (!is_lower_or_digit(p[i]) || p[i] > 'f')
                        return false;
        memcpy(ret->kid, p, KID);
        ret->kid[KID] = '\0';
        ret->count = 0;
        for (p += KID; p < end && (n = until_dot(p + 1, end), p + 1 + n < end); p += 1 + n) {
                size_t *part = &ret->size[ret->count];

                if (ret->count == CAPABILITY_PARTS || n == 0 ||
                    !base64url_read(p + 1, n, ret->bytes + used,
                                    MIN(sizeof ret->bytes - used - 1, (size_t)CAPABILITY_PART_MAX), part))
                        return false;
                ret->at[ret->count++] = used;
                used += *part;
                ret->bytes[used++] = '\0';
        }
        /* what is left is the last dot and the tag */
        return ret->count > 0 && p < end &&
               base64url_read(p + 1, (size_t)(end - p - 1), ret->tag, CAPABILITY_TAG, &n) && n == CAPABILITY_TAG;
}

/* --- what a part may say ---------------------------------------------------------------------------------------- */

static bool check_words(const char *list, bool (*is_word)(const char *s, bool pattern), bool may_be_empty) {
        char word[MAX(CAPABILITY_VERB, CAPABILITY_RESOURCE)];
        struct json_walk w;
        size_t count = 0;

        if (json_find_kind(list, "") != '[' || !json_walk_begin(&w, list, ""))
                return false;
        for (; json_walk_next(&w); count++)
                if (count == CAPABILITY_WORDS || !json_find_str(w.value, "", word, sizeof word) || !is_word(word, true))
                        return false;
        return count > 0 || may_be_empty;
}

static bool check_value(const char *key, const char *value, bool root) {
        char text[CAPABILITY_OWNER];
        uint64_t ms;

        if (str_eq(key, "verbs"))
                return check_words(value, capability_text_is_verb, !root);
        if (str_eq(key, "resources"))
                return check_words(value, capability_text_is_resource, !root);
        if (!json_find_str(value, "", text, sizeof text))
                return false;
        if (str_eq(key, "exp") || str_eq(key, root ? "iat" : "nbf"))
                return rfc3339_parse(text, strlen(text), &ms);
        if (root && str_eq(key, "jti"))
                return session_is_jti(text);
        return root && str_eq(key, "owner") && capability_text_is_owner(text);
}

enum { ROOT_KEYS = 6 };

bool capability_text_check(const char *part, size_t size, bool root) {
        struct json_walk w;
        size_t count = 0;

        if (strlen(part) != size || strchr(part, '\\') || json_check(part, size, NULL) < 0 ||
            json_find_kind(part, "") != '{' || !json_walk_begin(&w, part, ""))
                return false;
        for (; json_walk_next(&w); count++) {
                char key[16];

                if (!json_walk_key(&w, key, sizeof key) || !check_value(key, w.value, root))
                        return false;
        }
        return root ? count == ROOT_KEYS : count > 0;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static bool write_words(struct json *j, const char *key, struct capability_words w,
                        bool (*is_word)(const char *s, bool pattern)) {
        if (w.count > CAPABILITY_WORDS)
                return false;
        json_open(j, key, '[');
        for (size_t i = 0; i < w.count; i++) {
                if (!is_word(w.list[i], true))
                        return false;
                json_str(j, NULL, w.list[i]);
        }
        json_close(j, ']');
        return true;
}

static bool write_time(struct json *j, const char *key, uint64_t ms) {
        char text[RFC3339_TEXT];

        if (!rfc3339_format(ms, text))
                return false;
        json_str(j, key, text);
        return true;
}

bool capability_text_write_root(const struct capability_grant *g, const char *jti, struct buf *out) {
        struct json j = {.out = out};

        if (!capability_text_is_owner(g->owner) || !g->verbs.list || !g->resources.list || g->verbs.count == 0 ||
            g->resources.count == 0)
                return false;
        json_open(&j, NULL, '{');
        json_str(&j, "jti", jti);
        json_str(&j, "owner", g->owner);
        if (!write_words(&j, "verbs", g->verbs, capability_text_is_verb) ||
            !write_words(&j, "resources", g->resources, capability_text_is_resource) ||
            !write_time(&j, "iat", g->issued_ms) || !write_time(&j, "exp", g->expires_ms))
                return false;
        json_close(&j, '}');
        return buf_ok(out);
}

bool capability_text_write_limit(const struct capability_limit *l, struct buf *out) {
        struct json j = {.out = out};

        if (!l->verbs.list && !l->resources.list && l->expires_ms == 0 && l->not_before_ms == 0)
                return false;
        json_open(&j, NULL, '{');
        if ((l->verbs.list && !write_words(&j, "verbs", l->verbs, capability_text_is_verb)) ||
            (l->resources.list && !write_words(&j, "resources", l->resources, capability_text_is_resource)) ||
            (l->expires_ms && !write_time(&j, "exp", l->expires_ms)) ||
            (l->not_before_ms && !write_time(&j, "nbf", l->not_before_ms)))
                return false;
        json_close(&j, '}');
        return buf_ok(out);
}
