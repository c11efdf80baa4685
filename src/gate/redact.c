/* Searching a stream for patterns and overwriting them.
 *
 * The window is what was held back and what is new, as it came. Where a pattern could begin that is not complete yet is
 * decided first: everything from there on is held back, as it came. Then every match that begins before that place is
 * overwritten; the part of it that reaches into what is held is remembered as a number. A match that begins in the
 * held bytes is whole only later, and found then. So each match is seen in bytes that nobody has overwritten yet.
 *
 * The search looks at the pair of bytes on which a pattern of the shortest length would end. Where that pair stands in
 * no pattern's beginning it goes on by the whole length, else by how far the pair is from the end of such a beginning;
 * only where it is at its end are patterns compared. So most bytes are never looked at, however many patterns there
 * are. */
#include "gate/redact.h"

#define REDACT_FIRST 0x1000 /* in a bucket; below it is a distance */
#define REACH_MAX    0x0fff
static_assert(REDACT_FIRST > REACH_MAX && REDACT_FIRST + REDACT_PATTERNS <= UINT16_MAX, "both fit into a bucket");
static_assert(REDACT_MAX <= UINT16_MAX && REDACT_MIN >= 2, "sizes");

static bool is_control(uint8_t c) {
        return (c < ' ' && c != '\t') || c == 0x7f;
}

static uint8_t fold(uint8_t c) {
        static const uint8_t others[256] = {
                ['A'] = 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm',         'n',
                'o',         'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', ['-'] = '+', ['_'] = '/',
        };

        return others[c] ? others[c] : c;
}

static size_t bucket(uint8_t a, uint8_t b) {
        return ((size_t)fold(a) << 5 ^ fold(b)) % REDACT_BUCKETS;
}

static bool equal(const uint8_t *folded, const uint8_t *bytes, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (folded[i] != fold(bytes[i]))
                        return false;
        return true;
}

/* How far the search may go at once. */
static size_t reach(const struct redact *r) {
        return MIN((size_t)r->shortest, (size_t)REACH_MAX);
}

/* One pattern's pairs, as far as the search looks. */
static void note(struct redact *r, unsigned i) {
        const uint8_t *p = r->bytes + r->patterns[i].at;
        size_t length = reach(r);

        for (size_t j = 0; j + 1 < length; j++) {
                uint16_t *b = &r->buckets[bucket(p[j], p[j + 1])];

                if (j + 2 == length) {
                        r->patterns[i].next = *b >= REDACT_FIRST ? (uint16_t)(*b - REDACT_FIRST + 1) : 0;
                        *b = (uint16_t)(REDACT_FIRST + i);
                } else if (*b < REDACT_FIRST) {
                        *b = (uint16_t)MIN((size_t)*b, length - 2 - j);
                }
        }
}

static void note_all(struct redact *r) {
        for (size_t i = 0; i < REDACT_BUCKETS; i++)
                r->buckets[i] = (uint16_t)(reach(r) - 1);
        for (unsigned i = 0; i < r->count; i++)
                note(r, i);
}

/* Its number, or count. */
static unsigned number(const struct redact *r, const uint8_t *pattern, size_t size) {
        unsigned i = 0;

        while (i < r->count && (r->patterns[i].size != size || !equal(r->bytes + r->patterns[i].at, pattern, size)))
                i++;
        return i;
}

void redact_know(struct redact *r, const void *pattern, size_t size) {
        unsigned i = number(r, pattern, size);

        if (i < r->count)
                r->patterns[i].known = true;
}

bool redact_knows(const struct redact *r, const void *pattern, size_t size) {
        unsigned i = number(r, pattern, size);

        return i < r->count && r->patterns[i].known;
}

bool redact_add(struct redact *r, const void *pattern, size_t size) {
        const uint8_t *bytes = pattern;

        if (size < REDACT_MIN || size > REDACT_MAX)
                return false;
        if (number(r, bytes, size) < r->count)
                return true;
        for (size_t i = 0; i < size; i++)
                if (is_control(bytes[i]))
                        return false;
        if (r->count == REDACT_PATTERNS || size > sizeof r->bytes - r->used)
                return false;
        for (size_t i = 0; i < size; i++)
                r->bytes[r->used + i] = fold(bytes[i]);
        r->patterns[r->count].at = r->used;
        r->patterns[r->count].size = (uint16_t)size;
        r->patterns[r->count].known = false;
        r->used += (uint32_t)size;
        r->longest = MAX(r->longest, (uint32_t)size);
        if (r->count++ > 0 && size >= r->shortest) {
                note(r, r->count - 1);
                return true;
        }
        r->shortest = (uint32_t)size;
        note_all(r);
        return true;
}

void redact_wipe(struct redact *r) {
        if (r->count > 0) {
                explicit_bzero(r->bytes, r->used);
                explicit_bzero(r->tail, sizeof r->tail);
                explicit_bzero(r->buckets, sizeof r->buckets);
        }
        r->count = r->used = r->held = r->covered = r->longest = r->shortest = 0;
}

/* The longest pattern that is at this place, or 0. */
static size_t match(const struct redact *r, unsigned first, const uint8_t *bytes, size_t size) {
        size_t longest = 0;

        for (unsigned i = first + 1; i > 0; i = r->patterns[i - 1].next) {
                size_t length = r->patterns[i - 1].size;

                if (length > longest && length <= size && equal(r->bytes + r->patterns[i - 1].at, bytes, length))
                        longest = length;
        }
        return longest;
}

/* The next place before limit where a pattern is, or limit; *ret is its length. */
static size_t find(const struct redact *r, const uint8_t *window, size_t size, size_t from, size_t limit, size_t *ret) {
        size_t ahead = reach(r);

        while (from < limit && size - from >= ahead) {
                uint16_t b = r->buckets[bucket(window[from + ahead - 2], window[from + ahead - 1])];

                if (b < REDACT_FIRST) {
                        from += b;
                        continue;
                }
                *ret = match(r, b - REDACT_FIRST, window + from, size - from);
                if (*ret > 0)
                        return from;
                from++;
        }
        return limit;
}

static void stars(uint8_t *window, size_t from, size_t to) {
        if (to > from)
                memset(window + from, '*', to - from);
}

/* Overwrites every match that begins before limit, and the first `covered` bytes, up to limit. Returns by how much the
 * last reaches beyond it. */
static size_t overwrite(const struct redact *r, uint8_t *window, size_t size, size_t limit, size_t covered) {
        size_t start = 0, end = covered, length = 0;

        for (size_t at = 0; r->count > 0; at++) {
                at = find(r, window, size, at, limit, &length);
                if (at >= limit)
                        break;
                if (at > end) { /* nothing that is still to be found touches what ends here */
                        stars(window, start, end);
                        start = at;
                }
                end = MAX(end, at + length);
        }
        stars(window, start, MIN(end, limit));
        return end > limit ? end - limit : 0;
}

/* How many bytes at the end may belong to a pattern that goes on: those behind the last control byte, which none has.
 * What the patterns are must not matter here: who can make a server send guesses and pause would see what is held. */
static size_t undecided(const struct redact *r, const uint8_t *window, size_t size) {
        size_t most = MIN(size, (size_t)r->longest - (r->longest > 0)), n = 0;

        while (n < most && !is_control(window[size - 1 - n]))
                n++;
        return n;
}

size_t redact_feed(struct redact *r, uint8_t *window, size_t fresh, bool end) {
        size_t size = r->held + fresh;

        memcpy(window, r->tail, r->held);
        size_t held = end ? 0 : undecided(r, window, size);
        size_t pass = size - held;
        memcpy(r->tail, window + pass, held);
        r->covered = (uint32_t)overwrite(r, window, size, pass, r->covered);
        r->held = (uint32_t)held;
        return pass;
}

void redact_line(const struct redact *r, char *line, size_t size) {
        (void)overwrite(r, (uint8_t *)line, size, size, 0);
}
