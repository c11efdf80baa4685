/* Merkle trees: roots as they grow, and proofs for several leaves at once.
 *
 * The recursion is as deep as the tree is high, at most 64. A proof's order follows from the shape of the tree alone,
 * so that it carries hashes and nothing else, and both sides walk alike. */
#include "ledger/merkle.h"

static void node(const uint8_t left[HASH_SIZE], const uint8_t right[HASH_SIZE], uint8_t ret[HASH_SIZE]) {
        uint8_t bytes[1 + 2 * HASH_SIZE] = {1};
        struct hash h;

        memcpy(bytes + 1, left, HASH_SIZE);
        memcpy(bytes + 1 + HASH_SIZE, right, HASH_SIZE);
        hash_init(&h);
        hash_add(&h, bytes, sizeof bytes);
        hash_done(&h, ret);
}

void merkle_add(struct merkle *m, const uint8_t leaf[HASH_SIZE]) {
        uint8_t sum[HASH_SIZE];
        unsigned level = 0;

        memcpy(sum, leaf, sizeof sum);
        for (; m->count >> level & 1; level++)
                node(m->part[level], sum, sum);
        memcpy(m->part[level], sum, sizeof sum);
        m->count++;
}

void merkle_root(const struct merkle *m, uint8_t ret[HASH_SIZE]) {
        bool any = false;

        assert(m->count > 0);
        for (unsigned level = 0; level < MERKLE_LEVELS; level++) {
                if (!(m->count >> level & 1))
                        continue;
                if (any)
                        node(m->part[level], ret, ret);
                else
                        memcpy(ret, m->part[level], HASH_SIZE);
                any = true;
        }
}

/* The largest power of two below n, which is 2 or more. */
static uint64_t split(uint64_t n) {
        return 1ULL << (63 - __builtin_clzll(n - 1));
}

static void root_of(const uint8_t (*leaves)[HASH_SIZE], size_t count, uint8_t ret[HASH_SIZE]) {
        struct merkle m = {0};

        for (size_t i = 0; i < count; i++)
                merkle_add(&m, leaves[i]);
        merkle_root(&m, ret);
}

void merkle_prove(const uint8_t (*leaves)[HASH_SIZE], const bool *wanted, size_t count, struct buf *out) {
        if (!memchr(wanted, true, count)) {
                uint8_t root[HASH_SIZE];

                root_of(leaves, count, root);
                buf_add(out, root, sizeof root);
        } else if (count > 1) {
                size_t left = (size_t)split(count);

                merkle_prove(leaves, wanted, left, out);
                merkle_prove(leaves + left, wanted + left, count - left, out);
        }
}

struct check {
        const uint64_t *places;
        const uint8_t (*leaves)[HASH_SIZE];
        size_t known, next; /* leaves, and how many are used */
        const uint8_t (*proof)[HASH_SIZE];
        size_t proof_count, proof_next;
};

/* The root of the part [from, from + count). */
static int check_part(struct check *c, uint64_t from, uint64_t count, uint8_t ret[HASH_SIZE]) {
        uint8_t left[HASH_SIZE], right[HASH_SIZE];
        int r;

        if (c->next == c->known || c->places[c->next] - from >= count) {
                if (c->proof_next == c->proof_count)
                        return ERR_CORRUPT;
                memcpy(ret, c->proof[c->proof_next++], HASH_SIZE);
                return 0;
        }
        if (count == 1) {
                memcpy(ret, c->leaves[c->next++], HASH_SIZE);
                return 0;
        }
        r = check_part(c, from, split(count), left);
        if (r == 0)
                r = check_part(c, from + split(count), count - split(count), right);
        if (r == 0)
                node(left, right, ret);
        return r;
}

int merkle_check(uint64_t count, const uint64_t *places, const uint8_t (*leaves)[HASH_SIZE], size_t known,
                 const uint8_t (*proof)[HASH_SIZE], size_t proof_count, uint8_t ret_root[HASH_SIZE]) {
        struct check c = {
                .places = places, .leaves = leaves, .known = known, .proof = proof, .proof_count = proof_count};
        uint8_t root[HASH_SIZE];

        if (known == 0 || places[known - 1] >= count)
                return ERR_CORRUPT;
        for (size_t i = 1; i < known; i++)
                if (places[i] <= places[i - 1])
                        return ERR_CORRUPT;
        int r = check_part(&c, 0, count, root);
        if (r < 0 || c.proof_next != c.proof_count)
                return ERR_CORRUPT;
        memcpy(ret_root, root, sizeof root);
        return 0;
}
