/* Searching a stream for values and overwriting them.
 *
 * The window is what was held back and what is new, as it came. Where a value could begin that is not complete yet is
 * decided first: everything from there on is held back, as it came. Then every match that begins before that place is
 * overwritten; the part of it that reaches into what is held is remembered as a number. A match that begins in the
 * held bytes is whole only later, and found then. So each match is seen in bytes that nobody has overwritten yet. */
#include "gate/redact.h"

static bool is_control(uint8_t c) {
        return (c < ' ' && c != '\t') || c == 0x7f;
}

bool redact_add(struct redact *r, const void *value, size_t size) {
        if (size == 0 || size > REDACT_VALUE_MAX)
                return false;
        for (unsigned i = 0; i < r->count; i++)
                if (r->values[i].size == size && memcmp(r->bytes + r->values[i].at, value, size) == 0)
                        return true;
        for (size_t i = 0; i < size; i++)
                if (is_control(((const uint8_t *)value)[i]))
                        return false;
        if (r->count == REDACT_VALUES || size > sizeof r->bytes - r->used)
                return false;
        memcpy(r->bytes + r->used, value, size);
        r->values[r->count].at = r->used;
        r->values[r->count].size = (uint32_t)size;
        r->count++;
        r->used += (uint32_t)size;
        r->longest = MAX(r->longest, (uint32_t)size);
        return true;
}

void redact_wipe(struct redact *r) {
        explicit_bzero(r->bytes, r->used);
        if (r->count > 0)
                explicit_bzero(r->tail, sizeof r->tail);
        r->count = r->used = r->held = r->covered = r->longest = 0;
}

static size_t find(const struct redact *r, unsigned i, const uint8_t *window, size_t size, size_t from) {
        const uint8_t *at = from < size
                                    ? memmem(window + from, size - from, r->bytes + r->values[i].at, r->values[i].size)
                                    : NULL;

        return at ? (size_t)(at - window) : SIZE_MAX;
}

static void stars(uint8_t *window, size_t from, size_t to) {
        if (to > from)
                memset(window + from, '*', to - from);
}

/* Overwrites every match that begins before limit, and the first `covered` bytes, up to limit. Returns by how much the
 * last reaches beyond it. */
static size_t overwrite(const struct redact *r, uint8_t *window, size_t size, size_t limit, size_t covered) {
        size_t next[REDACT_VALUES];
        size_t start = 0, end = covered;

        for (unsigned i = 0; i < r->count; i++)
                next[i] = find(r, i, window, size, 0);
        for (;;) {
                unsigned first = 0;

                for (unsigned i = 1; i < r->count; i++)
                        if (next[i] < next[first])
                                first = i;
                size_t at = r->count ? next[first] : SIZE_MAX;
                if (at >= limit)
                        break;
                if (at > end) { /* nothing that is still to be found touches what ends here */
                        stars(window, start, end);
                        start = at;
                }
                end = MAX(end, at + r->values[first].size);
                next[first] = find(r, first, window, size, at + 1);
        }
        stars(window, start, MIN(end, limit));
        return end > limit ? end - limit : 0;
}

/* How many bytes at the end may belong to a value that goes on: those behind the last control byte, which no value has.
 * What the values are must not matter here: who can make a server send guesses and pause would see what is held. */
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
