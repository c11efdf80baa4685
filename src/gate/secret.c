/* Secrets of a ward, in a mapping of their own.
 *
 * The whole table is one anonymous mapping, so that everything about it (locked, not in core dumps, zero in a child)
 * holds for every value, and a value is never copied to the heap. Pages are touched when used. */
#include "gate/secret.h"

#include <sys/mman.h>

struct secret {
        char name[GATE_NAME_SIZE]; /* "": free */
        char holder[GATE_HOLDER_SIZE];
        size_t holder_size;
        size_t size;
        uint8_t value[GATE_SECRET_MAX];
};

struct secrets {
        size_t count; /* positions that were ever used */
        uint64_t epoch;
        struct secret items[GATE_SECRETS_MAX];
};

struct secrets *secrets_create(void) {
        struct secrets *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (s == MAP_FAILED)
                return NULL;
        /* each of these is one more fence; the values are wiped whether or not they could be had */
        (void)madvise(s, sizeof *s, MADV_DONTDUMP);
        (void)madvise(s, sizeof *s, MADV_WIPEONFORK);
        (void)mlock2(s, sizeof *s, MLOCK_ONFAULT);
        return s;
}

static void wipe(struct secret *i) {
        if (i->name[0])
                explicit_bzero(i, sizeof *i);
}

void secrets_destroy(struct secrets *s) {
        if (!s)
                return;
        for (size_t i = 0; i < s->count; i++)
                wipe(&s->items[i]);
        (void)munmap(s, sizeof *s);
}

static struct secret *find_name(struct secrets *s, const char *name) {
        for (size_t i = 0; i < s->count; i++)
                if (str_eq(s->items[i].name, name))
                        return &s->items[i];
        return NULL;
}

/* What may stand in a header, be found again in an answer, and not be guessed by what is found. */
const char *secrets_problem(const void *value, size_t size) {
        const uint8_t *bytes = value;
        size_t digits = 0;

        if (size < SECRET_MIN)
                return "it is shorter than 8 bytes, so that it could be guessed";
        if (size > GATE_SECRET_MAX)
                return "it is longer than 4096 bytes";
        for (size_t i = 0; i < size; i++) {
                if ((bytes[i] < ' ' && bytes[i] != '\t') || bytes[i] == 0x7f)
                        return "it has control bytes";
                digits += bytes[i] >= '0' && bytes[i] <= '9';
        }
        if (bytes[0] == ' ' || bytes[0] == '\t' || bytes[size - 1] == ' ' || bytes[size - 1] == '\t')
                return "it begins or ends with a blank";
        if (digits == size && size < SECRET_MIN_DIGITS)
                return "it is fewer than 16 digits and nothing else, so that it could be guessed";
        return NULL;
}
static_assert(SECRET_MIN == 8 && SECRET_MIN_DIGITS == 16 && GATE_SECRET_MAX == 4096, "the words above say so");

int secrets_put(struct secrets *s, const char *name, const char *holder, const void *value, size_t size) {
        size_t holder_size = strlen(holder);
        struct secret *place;

        if (size == 0)
                return secrets_wipe(s, name);
        if (name[0] == '\0' || strlen(name) >= sizeof place->name || holder_size == 0 ||
            holder_size >= sizeof place->holder || secrets_problem(value, size))
                return -EINVAL;
        for (size_t i = 0; i < s->count; i++)
                if (s->items[i].name[0] && str_eq(s->items[i].holder, holder) && !str_eq(s->items[i].name, name))
                        return -EEXIST;
        place = find_name(s, name);
        for (size_t i = 0; i < s->count && !place; i++)
                if (s->items[i].name[0] == '\0')
                        place = &s->items[i];
        if (!place) {
                if (s->count == GATE_SECRETS_MAX)
                        return -ENOSPC;
                place = &s->items[s->count++];
        }
        wipe(place);
        memcpy(place->name, name, strlen(name) + 1);
        memcpy(place->holder, holder, holder_size + 1);
        place->holder_size = holder_size;
        memcpy(place->value, value, size);
        place->size = size;
        return 0;
}

int secrets_wipe(struct secrets *s, const char *name) {
        struct secret *found = name[0] ? find_name(s, name) : NULL;

        if (!found)
                return -ENOENT;
        wipe(found);
        s->epoch++;
        return 0;
}

uint64_t secrets_epoch(const struct secrets *s) {
        return s->epoch;
}

size_t secrets_count(const struct secrets *s) {
        return s->count;
}

ssize_t secrets_find(const struct secrets *s, const char *text, size_t size, size_t from, size_t *ret,
                     size_t *ret_len) {
        const char *best = NULL;

        for (size_t i = 0; i < s->count && from < size; i++) {
                const struct secret *item = &s->items[i];
                /* no further than where the best one begins */
                size_t reach = best ? MIN(size - from, (size_t)(best - text) - from + item->holder_size) : size - from;
                const char *at = item->name[0] ? memmem(text + from, reach, item->holder, item->holder_size) : NULL;

                if (at && (!best || at < best || (at == best && item->holder_size > *ret_len))) {
                        best = at;
                        *ret = i;
                        *ret_len = item->holder_size;
                }
        }
        return best ? best - text : -1;
}

const char *secrets_name(const struct secrets *s, size_t i) {
        return s->items[i].name;
}

const void *secrets_value(const struct secrets *s, size_t i, size_t *ret_size) {
        *ret_size = s->items[i].size;
        return s->items[i].value;
}
