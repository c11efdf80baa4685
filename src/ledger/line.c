/* Lines: one form in, the same form out.
 *
 * Always: what line_write makes, line_parse takes, and nothing else that differs in a byte. The parser reads forward
 * up to the data and knows where the data ends by counting from the line's end: prev and hash have a fixed size. */
#include "ledger/line.h"

#include <time.h>

#include "base/json-read.h"

#define TAIL_PREV ",\"prev\":\""
#define TAIL_HASH "\",\"hash\":\""
#define TAIL_END  "\"}"
#define SIZE(s)   (sizeof(s) - 1)

enum {
        TAIL_SIZE = SIZE(TAIL_PREV) + LINE_HEX + SIZE(TAIL_HASH) + LINE_HEX + SIZE(TAIL_END),
        UNHASHED = SIZE(TAIL_HASH) - 1 + LINE_HEX + SIZE(TAIL_END), /* from the comma before "hash" on */
};

bool line_is(const struct line_part *part, const char *text) {
        return strlen(text) == part->size && memcmp(part->p, text, part->size) == 0;
}

/* --- hexadecimal ------------------------------------------------------------------------------------------------ */

void line_hex(const uint8_t *bytes, size_t size, char *ret) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < size; i++) {
                *ret++ = digits[bytes[i] >> 4];
                *ret++ = digits[bytes[i] & 15];
        }
}

static int digit(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool line_unhex(const char *hex, size_t size, uint8_t *ret) {
        for (size_t i = 0; i < size; i++) {
                int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                ret[i] = (uint8_t)(high << 4 | low);
        }
        return true;
}

/* --- what the parts may contain --------------------------------------------------------------------------------- */

/* Which bytes may stand where, one bit each. */
enum { HEX = 1, SANDBOX = 2, ACTOR = 4, KIND = 8 };
#define LETTER (SANDBOX | ACTOR | KIND)
static const uint8_t bytes[256] = {
        ['!'] = ACTOR,
        ['#' ... ','] = ACTOR,
        ['-'] = SANDBOX | ACTOR | KIND,
        ['.'] = ACTOR | KIND,
        ['/'] = ACTOR,
        ['0' ... '9'] = HEX | SANDBOX | ACTOR,
        [':' ... '@'] = ACTOR,
        ['A' ... 'Z'] = SANDBOX | ACTOR,
        ['['] = ACTOR,
        [']' ... '^'] = ACTOR,
        ['_'] = SANDBOX | ACTOR | KIND,
        ['`'] = ACTOR,
        ['a' ... 'f'] = LETTER | HEX,
        ['g' ... 'z'] = LETTER,
        ['{' ... '~'] = ACTOR,
};

/* Every line goes through here: no branch per byte. */
static bool all_bytes(const char *p, size_t size, unsigned kind) {
        for (size_t i = 0; i < size; i++)
                kind &= bytes[(unsigned char)p[i]];
        return kind != 0;
}

int line_check_sandbox(const char *sandbox) {
        size_t n = strnlen(sandbox, LINE_SANDBOX_MAX + 1);

        return n > LINE_SANDBOX_MAX || !all_bytes(sandbox, n, SANDBOX) ? -EINVAL : 0;
}

int line_check_actor(const char *actor) {
        size_t n = strnlen(actor, LEDGER_ACTOR_MAX + 1);

        return n == 0 || n > LEDGER_ACTOR_MAX || !all_bytes(actor, n, ACTOR) ? -EINVAL : 0;
}

/* JSON may have blanks and line ends between its parts; a line may not. */
static bool has_blank(const char *p, size_t size) {
        bool quoted = false;

        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char)p[i];

                if (c < 0x20 || (c == ' ' && !quoted))
                        return true;
                if (c == '"')
                        quoted = !quoted;
                else if (c == '\\') /* only inside a string: the text is JSON */
                        i++;
        }
        return false;
}

int line_check_data(const char *data, size_t size) {
        if (size > LEDGER_DATA_MAX)
                return -E2BIG;
        if (size < 2 || data[0] != '{' || json_check(data, size, NULL) < 0 || has_blank(data, size))
                return -EINVAL;
        return 0;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static bool eat(const char **p, const char *end, const char *word, size_t n) {
        if ((size_t)(end - *p) < n || memcmp(*p, word, n) != 0)
                return false;
        *p += n;
        return true;
}
#define EAT(p, end, word) eat(p, end, word, SIZE(word))

static bool eat_number(const char **p, const char *end, uint64_t *ret) {
        const char *start = *p;
        uint64_t value = 0;

        for (; *p < end && **p >= '0' && **p <= '9'; (*p)++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value))
                        return false;
        *ret = value;
        return *p > start && *start != '0'; /* numbers begin at 1 */
}

/* Up to the closing quote, which stays. */
static bool eat_text(const char **p, const char *end, size_t max, unsigned kind, struct line_part *ret) {
        const char *quote = memchr(*p, '"', MIN((size_t)(end - *p), max + 1));

        if (!quote || !all_bytes(*p, (size_t)(quote - *p), kind))
                return false;
        *ret = (struct line_part){.p = *p, .size = (size_t)(quote - *p)};
        *p = quote;
        return true;
}

static bool eat_time(const char **p, const char *end, const char **ret) {
        static const char form[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
        static_assert(sizeof form - 1 == LINE_TIME, "the form of a time");

        if (end - *p < LINE_TIME)
                return false;
        for (size_t i = 0; i < LINE_TIME; i++)
                if (form[i] == 'd' ? (*p)[i] < '0' || (*p)[i] > '9' : (*p)[i] != form[i])
                        return false;
        *ret = *p;
        *p += LINE_TIME;
        return true;
}

int line_parse(const char *text, size_t size, struct line *ret) {
        struct line l = {.text = text, .size = size};
        const char *p = text, *end;

        if (size < TAIL_SIZE || size >= LINE_BYTES_MAX)
                return ERR_CORRUPT;
        end = text + size - TAIL_SIZE;
        if (!EAT(&p, end, "{\"seq\":") || !eat_number(&p, end, &l.seq) || !EAT(&p, end, ",\"time\":\"") ||
            !eat_time(&p, end, &l.time) || !EAT(&p, end, "\",\"sandbox\":\"") ||
            !eat_text(&p, end, LINE_SANDBOX_MAX, SANDBOX, &l.sandbox) || !EAT(&p, end, "\",\"actor\":\"") ||
            !eat_text(&p, end, LEDGER_ACTOR_MAX, ACTOR, &l.actor) || !EAT(&p, end, "\",\"kind\":\"") ||
            !eat_text(&p, end, LINE_KIND_MAX, KIND, &l.kind) || !EAT(&p, end, "\",\"data\":"))
                return ERR_CORRUPT;
        l.data = (struct line_part){.p = p, .size = (size_t)(end - p)};
        if (l.data.size < 2 || l.data.size > LEDGER_DATA_MAX || p[0] != '{' || end[-1] != '}')
                return ERR_CORRUPT;

        p = end;
        end = text + size;
        if (!EAT(&p, end, TAIL_PREV) || !all_bytes(p, LINE_HEX, HEX))
                return ERR_CORRUPT;
        l.prev = p;
        p += LINE_HEX;
        if (!EAT(&p, end, TAIL_HASH) || !all_bytes(p, LINE_HEX, HEX))
                return ERR_CORRUPT;
        l.hash = p;
        p += LINE_HEX;
        if (!EAT(&p, end, TAIL_END))
                return ERR_CORRUPT;
        *ret = l;
        return 0;
}

void line_hash(const struct line *l, uint8_t ret[HASH_SIZE]) {
        struct hash h;

        hash_init(&h);
        hash_add(&h, l->text, l->size - UNHASHED);
        hash_done(&h, ret);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static size_t digits_of(uint64_t n) {
        size_t count = 1;

        for (; n >= 10; n /= 10)
                count++;
        return count;
}

static char *put_digits(char *out, uint64_t n, size_t count) {
        for (size_t i = count; i-- > 0; n /= 10)
                out[i] = (char)('0' + n % 10);
        return out + count;
}

static char *put(char *out, const char *p, size_t n) {
        memcpy(out, p, n);
        return out + n;
}
#define PUT(out, word) put(out, word, SIZE(word))

size_t line_size(const struct line_new *n) {
        static const size_t fixed = SIZE(
                "{\"seq\":,\"time\":\"\",\"sandbox\":\"\",\"actor\":\"\",\"kind\":\"\",\"data\":\n");

        return fixed + digits_of(n->seq) + LINE_TIME + n->sandbox.size + n->actor.size + n->kind.size + n->data.size +
               TAIL_SIZE;
}

void line_time(struct line_clock *c, uint64_t time_us, char ret[LINE_TIME + 1]) {
        time_us = MIN(time_us, 253402300799999999u); /* four digits for a year */
        uint64_t second = time_us / 1000000;

        if (c->second != second || c->text[0] == '\0') {
                time_t t = (time_t)second;
                struct tm tm = {0};

                (void)gmtime_r(&t, &tm);
                (void)strftime(c->text, sizeof c->text, "%Y-%m-%dT%H:%M:%S.000000Z", &tm);
                c->second = second;
        }
        memcpy(ret, c->text, LINE_TIME + 1);
        (void)put_digits(ret + LINE_TIME - 7, time_us % 1000000, 6);
}

size_t line_write(const struct line_new *n, struct line_clock *c, const char prev[LINE_HEX], char *out,
                  uint8_t ret_hash[HASH_SIZE]) {
        char *p = out;
        struct hash h;

        p = PUT(p, "{\"seq\":");
        p = put_digits(p, n->seq, digits_of(n->seq));
        p = PUT(p, ",\"time\":\"");
        line_time(c, n->time_us, p); /* with a NUL that the next part takes away */
        p += LINE_TIME;
        p = PUT(p, "\",\"sandbox\":\"");
        p = put(p, n->sandbox.p, n->sandbox.size);
        p = PUT(p, "\",\"actor\":\"");
        p = put(p, n->actor.p, n->actor.size);
        p = PUT(p, "\",\"kind\":\"");
        p = put(p, n->kind.p, n->kind.size);
        p = PUT(p, "\",\"data\":");
        p = put(p, n->data.p, n->data.size);
        p = PUT(p, TAIL_PREV);
        p = put(p, prev, LINE_HEX);
        *p++ = '"'; /* the last byte that is hashed */
        hash_init(&h);
        hash_add(&h, out, (size_t)(p - out));
        hash_done(&h, ret_hash);
        p = put(p, &TAIL_HASH[1], SIZE(TAIL_HASH) - 1); /* its quote is there */
        line_hex(ret_hash, HASH_SIZE, p);
        p += LINE_HEX;
        p = PUT(p, TAIL_END "\n");
        return (size_t)(p - out);
}
