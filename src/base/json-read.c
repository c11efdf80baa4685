/* JSON reader: a checker for bytes from anybody, and look-ups in what it accepted.
 *
 * The checker is a descent whose depth is capped and whose time is linear in the text: keys of an object are compared
 * by a hash with a multiplier that nobody outside knows, and byte by byte only when those are equal. The look-ups rely
 * on the check and repeat none of it; they never recurse. */
#include "base/json-read.h"

#include <sys/auxv.h>

#include "base/text.h"

/* --- strings, in text that is known to be well-formed ---------------------------------------------------------- */

static unsigned hex(const char *p, unsigned digits) {
        unsigned value = 0;

        for (unsigned i = 0; i < digits; i++) {
                unsigned c = (unsigned char)p[i];

                value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        return value;
}

static size_t encode(unsigned c, char ret[4]) {
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const unsigned char lead[] = {0, 0x00, 0xc0, 0xe0, 0xf0};

        for (size_t i = n; i-- > 1; c >>= 6)
                ret[i] = (char)(0x80 | (c & 0x3f));
        ret[0] = (char)(lead[n] | c);
        return n;
}

/* The next byte or escaped character of a string as bytes, *p moved behind it; 0 at the closing quote. */
static size_t next_bytes(const char **p, char ret[4]) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *s = *p;

        if (*s == '"')
                return 0;
        if (*s != '\\') {
                ret[0] = *s;
                *p = s + 1;
                return 1;
        }
        if (s[1] != 'u') {
                ret[0] = to[strchr(from, s[1]) - from];
                *p = s + 2;
                return 1;
        }
        unsigned c = hex(s + 2, 4);
        *p = s + 6;
        if (c >= 0xd800 && c <= 0xdbff) {
                c = 0x10000 + ((c - 0xd800) << 10) + (hex(s + 8, 4) - 0xdc00);
                *p = s + 12;
        }
        return encode(c, ret);
}

/* Both behind their opening quotes. */
static bool same_string(const char *a, const char *b) {
        char x[4], y[4];
        size_t n, m, i = 0, k = 0;

        /* one side may be escaped where the other is not, so their pieces may differ in size */
        n = next_bytes(&a, x);
        m = next_bytes(&b, y);
        while (n > 0 && m > 0) {
                if (x[i++] != y[k++])
                        return false;
                if (i == n) {
                        n = next_bytes(&a, x);
                        i = 0;
                }
                if (k == m) {
                        m = next_bytes(&b, y);
                        k = 0;
                }
        }
        return n == 0 && m == 0;
}

/* --- the check -------------------------------------------------------------------------------------------------- */

struct reader {
        const char *text, *p, *end;
        uint64_t multiplier;
        struct err *err;
};

static int wrong(const struct reader *r, const char *what) {
        return err_set(r->err, ERR_INPUT, "not JSON at byte %zu: %s", (size_t)(r->p - r->text), what);
}

static int too_much(const struct reader *r, const char *what) {
        return err_set(r->err, ERR_LIMIT, "not accepted at byte %zu: %s", (size_t)(r->p - r->text), what);
}

/* The byte here; 0, which is never right, at the end. */
static char peek(const struct reader *r) {
        return r->p < r->end ? *r->p : '\0';
}

static bool eat(struct reader *r, char c) {
        if (peek(r) != c || c == '\0')
                return false;
        r->p++;
        return true;
}

static void skip_blank(struct reader *r) {
        while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
                r->p++;
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
        return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* "\uXXXX" here, whole? */
static bool unicode_escape(const struct reader *r) {
        return r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u' && is_hex(r->p[2]) && is_hex(r->p[3]) &&
               is_hex(r->p[4]) && is_hex(r->p[5]);
}

static int check_escape(struct reader *r) {
        if (r->end - r->p < 2)
                return wrong(r, "an escape without an end");
        if (r->p[1] != 'u') {
                if (r->p[1] == '\0' || !strchr("\"\\/bfnrt", r->p[1]))
                        return wrong(r, "an unknown escape");
                r->p += 2;
                return 0;
        }
        if (!unicode_escape(r))
                return wrong(r, "\\u without four hexadecimal digits");
        unsigned c = hex(r->p + 2, 4);
        if (c >= 0xdc00 && c <= 0xdfff)
                return wrong(r, "the second half of a surrogate pair without the first");
        r->p += 6;
        if (c < 0xd800 || c > 0xdbff)
                return 0;
        unsigned low = unicode_escape(r) ? hex(r->p + 2, 4) : 0;
        if (low < 0xdc00 || low > 0xdfff)
                return wrong(r, "the first half of a surrogate pair without the second");
        r->p += 6;
        return 0;
}

/* Multiplication modulo the prime 2^61 - 1. Two different keys of n bytes agree for at most n of all multipliers. */
static uint64_t hash_step(uint64_t hash, uint64_t multiplier, unsigned char byte) {
        const uint64_t prime = (1ULL << 61) - 1;
        unsigned __int128 product = (unsigned __int128)hash * multiplier + byte + 1;
        uint64_t sum = (uint64_t)(product & prime) + (uint64_t)(product >> 61);

        return sum >= prime ? sum - prime : sum;
}

/* *ret_hash, if wanted, is of the decoded bytes. */
static int check_string(struct reader *r, uint64_t *ret_hash) {
        const char *start;
        uint64_t hash = 0;

        if (!eat(r, '"'))
                return wrong(r, "a string was expected");
        start = r->p;
        while (!eat(r, '"')) {
                unsigned char c[5] = {0};
                size_t left = (size_t)(r->end - r->p);

                if (left == 0)
                        return wrong(r, "a string without an end");
                memcpy(c, r->p, MIN(left, 4));
                if (c[0] < 0x20)
                        return wrong(r, "a control character in a string");
                if (c[0] == '\\') {
                        int e = check_escape(r);
                        if (e < 0)
                                return e;
                        continue;
                }
                size_t n = c[0] < 0x80 ? 1 : text_utf8_length(c);
                if (n == 0)
                        return wrong(r, "bytes that are not UTF-8");
                r->p += n;
        }
        if (ret_hash) {
                char bytes[4];
                size_t n;

                while ((n = next_bytes(&start, bytes)) > 0)
                        for (size_t i = 0; i < n; i++)
                                hash = hash_step(hash, r->multiplier, (unsigned char)bytes[i]);
                *ret_hash = hash;
        }
        return 0;
}

static bool eat_digits(struct reader *r) {
        if (!is_digit(peek(r)))
                return false;
        while (is_digit(peek(r)))
                r->p++;
        return true;
}

static int check_number(struct reader *r) {
        const char *start = r->p;

        (void)eat(r, '-');
        if (!eat(r, '0') && !eat_digits(r))
                return wrong(r, "a digit was expected");
        if (eat(r, '.') && !eat_digits(r))
                return wrong(r, "a digit was expected");
        if (eat(r, 'e') || eat(r, 'E')) {
                (void)(eat(r, '+') || eat(r, '-'));
                if (!eat_digits(r))
                        return wrong(r, "a digit was expected");
        }
        if (r->p - start > JSON_NUMBER_MAX)
                return too_much(r, "a number that is too long");
        return 0;
}

static int check_word(struct reader *r, const char *word) {
        size_t n = strlen(word);

        if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
                return wrong(r, "a value was expected");
        r->p += n;
        return 0;
}

static int check_value(struct reader *r, unsigned depth);

/* Behind '['. */
static int check_elements(struct reader *r, unsigned depth) {
        skip_blank(r);
        if (eat(r, ']'))
                return 0;
        for (;;) {
                int e = check_value(r, depth);
                if (e < 0)
                        return e;
                if (eat(r, ']'))
                        return 0;
                if (!eat(r, ','))
                        return wrong(r, "',' or ']' was expected");
        }
}

static int check_key(struct reader *r, uint64_t *hashes, uint32_t *places, unsigned *count) {
        size_t place = (size_t)(r->p - r->text) + 1;
        int e = check_string(r, &hashes[*count]);

        if (e < 0)
                return e;
        for (unsigned i = 0; i < *count; i++)
                if (hashes[i] == hashes[*count] && same_string(r->text + places[i], r->text + place))
                        return wrong(r, "the same key twice in one object");
        places[(*count)++] = (uint32_t)place;
        return 0;
}

/* Behind '{'. */
static int check_members(struct reader *r, unsigned depth) {
        uint64_t hashes[JSON_KEYS_MAX];
        uint32_t places[JSON_KEYS_MAX];
        unsigned count = 0;
        static_assert(JSON_SIZE_MAX <= UINT32_MAX, "places are of 32 bits");

        for (;;) {
                if (count == JSON_KEYS_MAX)
                        return too_much(r, "an object with too many keys");
                skip_blank(r);
                int e = check_key(r, hashes, places, &count);
                if (e < 0)
                        return e;
                skip_blank(r);
                if (!eat(r, ':'))
                        return wrong(r, "':' was expected");
                e = check_value(r, depth);
                if (e < 0)
                        return e;
                if (eat(r, '}'))
                        return 0;
                if (!eat(r, ','))
                        return wrong(r, "',' or '}' was expected");
        }
}

/* A value with the blanks around it; depth is how many are open around it. */
static int check_value(struct reader *r, unsigned depth) {
        int e;

        skip_blank(r);
        char c = peek(r);
        if ((c == '{' || c == '[') && depth == JSON_DEPTH_MAX)
                return too_much(r, "nested too deeply");
        if (eat(r, '{')) {
                skip_blank(r);
                e = eat(r, '}') ? 0 : check_members(r, depth + 1);
        } else if (eat(r, '['))
                e = check_elements(r, depth + 1);
        else if (c == '"')
                e = check_string(r, NULL);
        else if (c == '-' || is_digit(c))
                e = check_number(r);
        else
                e = check_word(r, c == 't' ? "true" : c == 'f' ? "false" : "null");
        if (e == 0)
                skip_blank(r);
        return e;
}

int json_check(const char *text, size_t size, struct err *err) {
        struct reader r = {.text = text, .p = text, .end = text + size, .err = err};
        const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes that the kernel drew for this process */

        if (size > JSON_SIZE_MAX)
                return err_set(err, ERR_LIMIT, "JSON of %zu bytes, more than %d", size, JSON_SIZE_MAX);
        if (random)
                memcpy(&r.multiplier, random, sizeof r.multiplier);
        r.multiplier = (r.multiplier >> 4) | 1 << 8; /* below the prime, and not tiny */
        int e = check_value(&r, 0);
        if (e < 0)
                return e;
        return r.p == r.end ? 0 : wrong(&r, "something follows the value");
}

/* --- look-ups --------------------------------------------------------------------------------------------------- */

static const char *after_blank(const char *p) {
        return p + strspn(p, " \t\n\r");
}

/* From behind the opening quote to behind the closing one. */
static const char *after_string(const char *p) {
        for (; *p != '"'; p++)
                if (*p == '\\')
                        p++;
        return p + 1;
}

static const char *after_value(const char *p) {
        size_t depth = 0;

        do {
                if (*p == '"') {
                        p = after_string(p + 1);
                        continue;
                }
                if (*p == '{' || *p == '[')
                        depth++;
                else if (*p == '}' || *p == ']')
                        depth--;
                else if (depth == 0) /* a number or a word */
                        return p + strcspn(p, ",]} \t\n\r");
                p++;
        } while (depth > 0);
        return p;
}

/* Is the string at p, behind its opening quote, these bytes? */
static bool string_is(const char *p, const char *bytes, size_t size) {
        char piece[4];
        size_t n, at = 0;

        while ((n = next_bytes(&p, piece)) > 0) {
                if (n > size - at || memcmp(bytes + at, piece, n) != 0)
                        return false;
                at += n;
        }
        return at == size;
}

/* The first or next element of an array or member of an object, at its key if it has one; NULL behind the last. */
static const char *first(const char *p) {
        p = after_blank(p + 1);
        return *p == ']' || *p == '}' ? NULL : p;
}

static const char *value_of(const char *member, bool object) {
        return object ? after_blank(after_blank(after_string(member + 1)) + 1) : member;
}

static const char *following(const char *member, bool object) {
        const char *p = after_blank(after_value(value_of(member, object)));

        return *p == ',' ? after_blank(p + 1) : NULL;
}

/* An index as we would write it: no sign, no leading zero. */
static bool is_index(const char *part, size_t size, size_t index) {
        char text[24];
        int n = snprintf(text, sizeof text, "%zu", index);

        return n > 0 && (size_t)n == size && memcmp(text, part, size) == 0;
}

static const char *find(const char *text, const char *path) {
        const char *p = after_blank(text);

        for (bool more = *path != '\0'; more;) {
                size_t size = strcspn(path, "."), index = 0;
                bool object = *p == '{';

                if (!object && *p != '[')
                        return NULL;
                const char *member = first(p);
                while (member && !(object ? string_is(member + 1, path, size) : is_index(path, size, index))) {
                        member = following(member, object);
                        index++;
                }
                if (!member)
                        return NULL;
                p = value_of(member, object);
                more = path[size] == '.';
                path += size + 1;
        }
        return p;
}

bool json_find_str(const char *text, const char *path, char *buf, size_t size) {
        const char *p = find(text, path), *q;
        char piece[4];
        size_t n, used = 0;

        if (!p || *p != '"')
                return false;
        for (q = ++p; (n = next_bytes(&q, piece)) > 0; used += n)
                if (memchr(piece, '\0', n))
                        return false;
        if (used >= size)
                return false;
        while ((n = next_bytes(&p, piece)) > 0) {
                memcpy(buf, piece, n);
                buf += n;
        }
        *buf = '\0';
        return true;
}

bool json_find_u64(const char *text, const char *path, uint64_t *ret) {
        const char *p = find(text, path);
        uint64_t value = 0;

        if (!p || !is_digit(*p))
                return false;
        for (; is_digit(*p); p++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                        return false;
        if (*p == '.' || *p == 'e' || *p == 'E')
                return false;
        *ret = value;
        return true;
}

bool json_find_bool(const char *text, const char *path, bool *ret) {
        const char *p = find(text, path);

        if (!p || (*p != 't' && *p != 'f'))
                return false;
        *ret = *p == 't';
        return true;
}

bool json_find_null(const char *text, const char *path) {
        const char *p = find(text, path);

        return p && *p == 'n';
}

bool json_find_count(const char *text, const char *path, size_t *ret) {
        const char *p = find(text, path);
        size_t count = 0;

        if (!p || (*p != '{' && *p != '['))
                return false;
        bool object = *p == '{';
        for (const char *member = first(p); member; member = following(member, object))
                count++;
        *ret = count;
        return true;
}

char json_find_kind(const char *text, const char *path) {
        const char *p = find(text, path);

        return !p ? '\0' : *p == '-' || is_digit(*p) ? '0' : *p;
}

bool json_walk_begin(struct json_walk *w, const char *text, const char *path) {
        const char *p = find(text, path);

        if (!p || (*p != '{' && *p != '['))
                return false;
        *w = (struct json_walk){.member = first(p), .object = *p == '{'};
        return true;
}

bool json_walk_next(struct json_walk *w) {
        if (!w->member)
                return false;
        w->key = w->object ? w->member : NULL;
        w->value = value_of(w->member, w->object);
        w->member = following(w->member, w->object);
        return true;
}

bool json_walk_key(const struct json_walk *w, char *buf, size_t size) {
        return w->key && json_find_str(w->key, "", buf, size);
}

const char *json_at(const char *text, const char *path, size_t *ret_size) {
        const char *p = find(text, path);

        if (p && ret_size)
                *ret_size = (size_t)(after_value(p) - p);
        return p;
}
