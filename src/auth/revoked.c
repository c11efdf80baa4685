/* An open-addressed table, at most half full, hashed with a key of its own. */
#include "auth/revoked.h"

#include <sodium.h>

enum { JTI = 16, SLOTS_MIN = 64, MAX_MAX = 1 << 24 };

struct slot {
        uint64_t expires_ms; /* 0: free */
        uint8_t jti[JTI];
};

struct revoked {
        struct slot *slots;
        size_t slot_count; /* a power of two */
        size_t count, max;
        uint8_t key[crypto_shorthash_KEYBYTES];
};

int revoked_open(struct revoked **ret, size_t max, struct err *err) {
        struct revoked *r;

        if (max == 0 || max > MAX_MAX)
                return err_set(err, -EINVAL, "cannot keep %zu revocations", max);
        if (sodium_init() < 0)
                return err_set(err, -EIO, "cannot start the cryptographic library");
        r = calloc(1, sizeof *r);
        if (r)
                r->slots = calloc(SLOTS_MIN, sizeof *r->slots);
        if (!r || !r->slots) {
                free(r);
                return err_set(err, -ENOMEM, "cannot keep revocations");
        }
        r->slot_count = SLOTS_MIN;
        r->max = max;
        randombytes_buf(r->key, sizeof r->key);
        *ret = r;
        return 0;
}

void revoked_close(struct revoked *r) {
        if (!r)
                return;
        free(r->slots);
        free(r);
}

static bool parse(const char *text, uint8_t ret[JTI]) {
        return session_is_jti(text) && sodium_hex2bin(ret, JTI, text, SESSION_JTI - 1, NULL, NULL, NULL) == 0;
}

/* The place of this jti, or the free one where it belongs. */
static struct slot *find(const struct revoked *r, struct slot *slots, size_t slot_count, const uint8_t jti[JTI]) {
        uint8_t hash[crypto_shorthash_BYTES];
        uint64_t at;

        (void)crypto_shorthash(hash, jti, JTI, r->key);
        memcpy(&at, hash, sizeof at);
        for (;; at++) {
                struct slot *s = &slots[at & (slot_count - 1)];

                if (s->expires_ms == 0 || memcmp(s->jti, jti, JTI) == 0)
                        return s;
        }
}

/* Into a table of another size, without those that expired. */
static int rebuild(struct revoked *r, size_t slot_count, uint64_t now_ms) {
        struct slot *slots = calloc(slot_count, sizeof *slots);

        if (!slots)
                return -ENOMEM;
        r->count = 0;
        for (size_t i = 0; i < r->slot_count; i++) {
                if (r->slots[i].expires_ms <= now_ms)
                        continue;
                *find(r, slots, slot_count, r->slots[i].jti) = r->slots[i];
                r->count++;
        }
        free(r->slots);
        r->slots = slots;
        r->slot_count = slot_count;
        return 0;
}

int revoked_add(struct revoked *r, const char *jti, uint64_t expires_ms) {
        uint8_t bytes[JTI];
        struct slot *s;

        if (!parse(jti, bytes) || expires_ms == 0)
                return ERR_INPUT;
        s = find(r, r->slots, r->slot_count, bytes);
        if (s->expires_ms > 0) {
                s->expires_ms = MAX(s->expires_ms, expires_ms);
                return 0;
        }
        if (r->count == r->max)
                return -ENOSPC;
        if (2 * (r->count + 1) > r->slot_count) {
                int n = rebuild(r, 2 * r->slot_count, 0);

                if (n < 0)
                        return n;
                s = find(r, r->slots, r->slot_count, bytes);
        }
        s->expires_ms = expires_ms;
        memcpy(s->jti, bytes, JTI);
        r->count++;
        return 0;
}

bool revoked_has(const struct revoked *r, const char *jti) {
        uint8_t bytes[JTI];

        return !parse(jti, bytes) || find(r, r->slots, r->slot_count, bytes)->expires_ms > 0;
}

size_t revoked_sweep(struct revoked *r, uint64_t now_ms) {
        size_t before = r->count, live = 0, slot_count = SLOTS_MIN;

        for (size_t i = 0; i < r->slot_count; i++)
                live += r->slots[i].expires_ms > now_ms;
        if (live == r->count)
                return 0;
        while (slot_count < 2 * (live + 1))
                slot_count *= 2;
        /* without memory for a new table the old one stays: it holds more than it must */
        return rebuild(r, slot_count, now_ms) < 0 ? 0 : before - r->count;
}

size_t revoked_count(const struct revoked *r) {
        return r->count;
}
