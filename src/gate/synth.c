/* The table of synthetic addresses. Entry i stands for 198.18.1.0 + i and fd53:746f:636b::1:0 + i.
 *
 * What always holds: names lie one after another in the order in which they came, each with its NUL, and ends[i] says
 * where the i-th is over. An entry is there as soon as count says so, and count is the last thing that is written: a
 * gate can be killed between any two instructions, and what it leaves is a table. The slots are only a faster way in;
 * whoever takes a table over makes them anew.
 *
 * A table that was left behind may have been written by a gate that was captured. So nothing in it is believed: not a
 * bound, not that a name is one. The most that such a table can do is to be refused, or to give out addresses that were
 * given out before; what a name may reach is decided elsewhere. The names come from a sandbox, which must not be able
 * to choose them so that they fall into one slot: the hash has a secret start. */
#include "gate/synth.h"

#include <sys/random.h>

#include "base/hash.h"

#define SLOTS    (2 * SYNTH_NAMES) /* at most half full, so that an empty one is always near */
#define FIRST_V4 0xc6120100u       /* 198.18.1.0 */
#define FIRST_V6 0x00010000u       /* the last four bytes of fd53:746f:636b::1:0 */
#define HEAD     (8 + 4 + 4 + 16)
#define ROOM     (SYNTH_MEMORY - HEAD - SLOTS * sizeof(uint16_t) - SYNTH_NAMES * sizeof(uint32_t))

struct synth {
        uint64_t magic;
        uint32_t count;
        uint32_t unused;
        uint8_t seed[16];
        uint16_t slots[SLOTS];      /* 0: empty; otherwise an index + 1 */
        uint32_t ends[SYNTH_NAMES]; /* where the bytes after a name's NUL begin */
        char names[ROOM];
};
static_assert(sizeof(struct synth) == SYNTH_MEMORY, "the table is the memory");
static_assert(SYNTH_NAMES < UINT16_MAX, "a slot can name every entry");
static_assert((SLOTS & (SLOTS - 1)) == 0, "slots are found with a mask");

static const uint64_t magic = 0x31306e7973304b53; /* changes with the layout */

static const uint8_t block_v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18};
static const uint8_t block_v6[16] = {0xfd, 0x53, 0x74, 0x6f, 0x63, 0x6b};
#define PREFIX_V4 (96 + 15)
#define PREFIX_V6 48

static uint32_t begin_of(const struct synth *s, uint32_t i) {
        return i > 0 ? s->ends[i - 1] : 0;
}

/* The slot that has this name, or the empty one where it belongs. NULL: neither was found, which a table of ours never
 * comes to. */
static uint16_t *find(struct synth *s, const char *name, size_t size) {
        uint8_t digest[HASH_SIZE];
        struct hash h;
        uint32_t at;

        hash_init(&h);
        hash_add(&h, s->seed, sizeof s->seed);
        hash_add(&h, name, size);
        hash_done(&h, digest);
        memcpy(&at, digest, sizeof at);
        for (uint32_t tried = 0; tried < SLOTS; tried++, at++) {
                uint16_t *slot = &s->slots[at & (SLOTS - 1)];

                if (*slot == 0)
                        return slot;
                uint32_t i = *slot - 1u;
                if (i < s->count && s->ends[i] - begin_of(s, i) == size + 1 &&
                    memcmp(s->names + begin_of(s, i), name, size) == 0)
                        return slot;
        }
        return NULL;
}

/* Reads every name and makes the slots. count was bounded by the caller. */
static bool take_over(struct synth *s) {
        uint32_t begin = 0;

        for (uint32_t i = 0; i < s->count; i++) {
                uint32_t end = s->ends[i];
                char name[HOSTNAME_SIZE];

                if (end <= begin || end > ROOM || s->names[end - 1] != '\0')
                        return false;
                size_t size = end - begin - 1;
                if (hostname_canonical(s->names + begin, size, name) != (int)size ||
                    memcmp(name, s->names + begin, size) != 0)
                        return false;
                uint16_t *slot = find(s, name, size);
                if (!slot || *slot != 0)
                        return false; /* a second time the same name */
                *slot = (uint16_t)(i + 1);
                begin = end;
        }
        return true;
}

struct synth *synth_attach(void *memory, size_t size) {
        struct synth *s = memory;

        if (!s || size < sizeof *s || (uintptr_t)memory % _Alignof(struct synth) != 0)
                return NULL;
        if (s->magic == 0 ? s->count != 0 : s->magic != magic || s->count > SYNTH_NAMES)
                return NULL;
        if (getrandom(s->seed, sizeof s->seed, 0) != (ssize_t)sizeof s->seed)
                return NULL;
        memset(s->slots, 0, sizeof s->slots);
        if (!take_over(s))
                return NULL;
        s->magic = magic;
        return s;
}

int synth_index(struct synth *s, const char *name) {
        size_t size = strlen(name);
        uint16_t *slot = find(s, name, size);
        uint32_t i = s->count, begin = begin_of(s, i);

        if (slot && *slot != 0)
                return *slot - 1;
        if (!slot || size == 0 || size >= HOSTNAME_SIZE || i >= SYNTH_NAMES || size + 1 > ROOM - begin)
                return -ENOSPC;
        memcpy(s->names + begin, name, size + 1);
        s->ends[i] = begin + (uint32_t)size + 1;
        __atomic_store_n(&s->count, i + 1, __ATOMIC_RELEASE); /* from here on it is given out */
        *slot = (uint16_t)(i + 1);
        return (int)i;
}

void synth_address(unsigned index, bool v6, struct address *ret) {
        uint32_t low = (v6 ? FIRST_V6 : FIRST_V4) + index;

        assert(index < SYNTH_NAMES);
        memcpy(ret->bytes, v6 ? block_v6 : block_v4, sizeof ret->bytes);
        for (unsigned i = 0; i < 4; i++)
                ret->bytes[12 + i] = (uint8_t)(low >> (24 - 8 * i));
}

bool synth_covers(const struct address *a) {
        return address_within(a, block_v4, PREFIX_V4) || address_within(a, block_v6, PREFIX_V6);
}

const char *synth_name(const struct synth *s, const struct address *a) {
        bool v6 = address_within(a, block_v6, PREFIX_V6);
        struct address same;
        uint32_t low = 0;

        for (unsigned i = 0; i < 4; i++)
                low = low << 8 | a->bytes[12 + i];
        uint32_t i = low - (v6 ? FIRST_V6 : FIRST_V4); /* wraps for what is below the first */
        if (i >= s->count)
                return NULL;
        synth_address(i, v6, &same); /* the other bytes are what they are in ours, or it is another address */
        return memcmp(&same, a, sizeof same) == 0 ? s->names + begin_of(s, i) : NULL;
}
