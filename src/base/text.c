/* Numbers with units, and printing text that may be hostile. No locale is consulted: "1.5" is one and a half. */
#include "base/text.h"

#include <ctype.h>
#include <limits.h>

#include "base/knockout.h"

struct unit {
        const char *name;
        uint64_t factor;
};

/* Largest first, so that text_format finds the shortest exact form. */
static const struct unit count_units[] = {{"M", 1000000}, {"k", 1000}, {"", 1}, {NULL, 0}};
static const struct unit byte_units[] = {{"TiB", 1ULL << 40},
                                         {"GiB", 1ULL << 30},
                                         {"MiB", 1ULL << 20},
                                         {"KiB", 1ULL << 10},
                                         {"TB", 1000000000000},
                                         {"GB", 1000000000},
                                         {"MB", 1000000},
                                         {"kB", 1000},
                                         {"B", 1},
                                         {"", 1},
                                         {NULL, 0}};
static const struct unit time_units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000},
                                         {"s", 1000},     {"ms", 1},      {NULL, 0}};
static const struct unit milli_units[] = {{"", 1000}, {NULL, 0}};
static const struct unit cent_units[] = {{"", 100}, {NULL, 0}};

static const struct {
        const struct unit *units;
        const char *forms;
        const char *suffix;
} kinds[] = {
        [TEXT_COUNT] = {count_units, "a whole number such as 128 or 200k", ""},
        [TEXT_BYTES] = {byte_units, "a size such as 64KiB, 500MB or 1GiB", ""},
        [TEXT_RATE] = {byte_units, "a rate such as 50MiB/s", "/s"},
        [TEXT_TIME] = {time_units, "a time such as 500ms, 30s, 10m, 24h or 7d", ""},
        [TEXT_CPUS] = {milli_units, "a number of processors such as 0.5 or 2", ""},
        [TEXT_MONEY] = {cent_units, "an amount such as 5 or 2.50", ""},
};
static_assert(ELEMENTSOF(kinds) == TEXT_MONEY + 1, "every unit kind has a row");

static int bad_number(struct err *err, const char *s, enum text_unit unit) {
        return err_set(err, ERR_INPUT, "'%.40s' is not %s", s, kinds[unit].forms);
}

int text_parse(const char *s, enum text_unit unit, uint64_t *ret, struct err *err) {
        const char *p = s;
        uint64_t whole = 0, fraction = 0, scale = 1;

        if (!isdigit((unsigned char)*p))
                return bad_number(err, s, unit);
        for (; isdigit((unsigned char)*p); p++)
                if (__builtin_mul_overflow(whole, 10, &whole) ||
                    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
                        return err_set(err, ERR_INPUT, "'%.40s' is too large", s);
        if (*p == '.') {
                p++;
                if (!isdigit((unsigned char)*p))
                        return bad_number(err, s, unit);
                for (; isdigit((unsigned char)*p); p++) {
                        if (scale > 100000000)
                                return bad_number(err, s, unit);
                        fraction = fraction * 10 + (uint64_t)(*p - '0');
                        scale *= 10;
                }
        }

        char name[8];
        size_t length = strlen(p), tail = strlen(kinds[unit].suffix);
        if (length < tail || length - tail >= sizeof name || !str_eq(p + length - tail, kinds[unit].suffix))
                return bad_number(err, s, unit);
        memcpy(name, p, length - tail);
        name[length - tail] = '\0';

        for (const struct unit *u = kinds[unit].units; u->name; u++) {
                uint64_t value, part;

                if (!str_eq(u->name, name))
                        continue;
                if (__builtin_mul_overflow(fraction, u->factor, &part) || part % scale != 0)
                        return bad_number(err, s, unit);
                if (__builtin_mul_overflow(whole, u->factor, &value) ||
                    __builtin_add_overflow(value, part / scale, &value) || value > INT64_MAX)
                        return err_set(err, ERR_INPUT, "'%.40s' is too large", s);
                *ret = value;
                return 0;
        }
        return bad_number(err, s, unit);
}

const char *text_format(char *buf, size_t size, enum text_unit unit, uint64_t value) {
        const struct unit *u = kinds[unit].units;

        if (unit == TEXT_CPUS || unit == TEXT_MONEY) {
                unsigned digits = unit == TEXT_CPUS ? 3 : 2;
                int n = snprintf(buf, size, "%llu.%0*llu", (unsigned long long)(value / u->factor), (int)digits,
                                 (unsigned long long)(value % u->factor));
                /* "1.500" reads as "1.5", "2.000" as "2" */
                while (n > 0 && (size_t)n < size && (buf[n - 1] == '0' || buf[n - 1] == '.')) {
                        bool dot = buf[n - 1] == '.';
                        buf[--n] = '\0';
                        if (dot)
                                break;
                }
                return buf;
        }
        if (value == 0 && unit != TEXT_TIME)
                (void)snprintf(buf, size, "0%s", kinds[unit].suffix);
        else {
                while (u[1].name && (value % u->factor != 0 || value < u->factor))
                        u++;
                (void)snprintf(buf, size, "%llu%s%s", (unsigned long long)(value / u->factor), u->name,
                               kinds[unit].suffix);
        }
        return buf;
}

size_t text_utf8_length(const unsigned char *s) {
        if (s[0] < 0x80)
                return 1;
        if (s[0] >= 0xc2 && s[0] <= 0xdf && (s[1] & 0xc0) == 0x80)
                return 2;
        if ((s[0] & 0xf0) == 0xe0 && (s[1] & 0xc0) == 0x80 && (s[2] & 0xc0) == 0x80) {
                unsigned c = (unsigned)(s[0] & 0x0f) << 12 | (unsigned)(s[1] & 0x3f) << 6;
                return c >= 0x800 && (c & 0xf800) != 0xd800 ? 3 : 0;
        }
        if (s[0] >= 0xf0 && s[0] <= 0xf4 && (s[1] & 0xc0) == 0x80 && (s[2] & 0xc0) == 0x80 && (s[3] & 0xc0) == 0x80) {
                unsigned c = (unsigned)(s[0] & 0x07) << 18 | (unsigned)(s[1] & 0x3f) << 12;
                return c >= 0x10000 && c <= 0x10ffff ? 4 : 0;
        }
        return 0;
}

bool text_is_utf8(const char *s) {
        for (const unsigned char *p = (const unsigned char *)s; *p;) {
                size_t n = text_utf8_length(p);
                if (n == 0)
                        return false;
                p += n;
        }
        return true;
}

/* Characters that are not seen but change what is seen: they join, hide or turn round the text about them. */
static bool invisible(const unsigned char *s, size_t length) {
        if (length == 2)
                return (s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xc2 && s[1] == 0xad) ||
                       (s[0] == 0xd8 && s[1] == 0x9c);
        if (length != 3)
                return length == 4 && s[0] == 0xf3 && s[1] == 0xa0; /* tags and other selectors */
        unsigned c = (unsigned)(s[0] & 0x0f) << 12 | (unsigned)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
        return (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
               c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb);
}

void text_escape(char *buf, size_t size, const char *s) {
        size_t used = 0;

        assert(size > 0);
        if (knockout_off(KNOCKOUT_LAUNCHER)) {
                (void)snprintf(buf, size, "%s", s);
                return;
        }
        for (const unsigned char *p = (const unsigned char *)s; *p;) {
                size_t n = text_utf8_length(p);
                bool control = *p < 0x20 || *p == 0x7f || invisible(p, n);

                if (n > 0 && !control) {
                        if (used + n >= size)
                                break;
                        memcpy(buf + used, p, n);
                        used += n;
                        p += n;
                        continue;
                }
                if (used + 4 >= size)
                        break;
                (void)snprintf(buf + used, size - used, "\\x%02x", *p);
                used += 4;
                p++;
        }
        buf[used] = '\0';
}

int text_check_path(const char *s, struct err *err) {
        if (s[0] != '/')
                return err_set(err, ERR_INPUT, "'%.200s' is not an absolute path", s);
        if (strlen(s) >= PATH_MAX)
                return err_set(err, ERR_INPUT, "path is longer than %d bytes", PATH_MAX - 1);
        for (const char *p = s; *p; p++)
                if ((unsigned char)*p < 0x20 || *p == 0x7f)
                        return err_set(err, ERR_INPUT, "path has a control byte at position %zu", (size_t)(p - s));
        if (str_eq(s, "/"))
                return 0;
        for (const char *p = s; *p;) {
                const char *part = p + 1;
                const char *end = strchrnul(part, '/');
                size_t n = (size_t)(end - part);

                if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
                        return err_set(err, ERR_INPUT,
                                       "'%.200s' is not a plain path: no '//', '.', '..' or '/' at the end", s);
                p = end;
        }
        return 0;
}

unsigned text_distance(const char *a, const char *b) {
        size_t n = strlen(a), m = strlen(b);
        unsigned rows[3][65] = {0}; /* the two rows before, and this one */

        if (n > 63 || m > 63)
                return 64;
        for (size_t j = 0; j <= m; j++)
                rows[0][j] = (unsigned)j;
        for (size_t i = 1; i <= n; i++) {
                unsigned *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];

                now[0] = (unsigned)i;
                for (size_t j = 1; j <= m; j++) {
                        unsigned best = before[j - 1] + (a[i - 1] != b[j - 1]);

                        best = MIN(best, before[j] + 1);
                        best = MIN(best, now[j - 1] + 1);
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                best = MIN(best, earlier[j - 2] + 1);
                        now[j] = best;
                }
        }
        return rows[n % 3][m];
}

bool text_is_guessable(const void *secret, size_t size) {
        const uint8_t *p = secret;
        bool seen[256] = {0};
        unsigned different = 0;

        for (size_t n = 0; n < size; n++) {
                different += !seen[p[n]];
                seen[p[n]] = true;
        }
        return different < 8;
}
