/* Checkpoints: written and read in one form, so that a line that says the same in other bytes is not one. */
#include "ledger/checkpoint.h"

#include "base/json-read.h"

size_t checkpoint_text(const struct checkpoint *c, char ret[CHECKPOINT_TEXT_MAX]) {
        char root[HASH_TEXT_SIZE];

        hash_text(c->root, root);
        int n = snprintf(ret, CHECKPOINT_TEXT_MAX,
                         "stockade ledger checkpoint 1\nseq %llu\ntime %s\nfrom %llu\nto %llu\nroot %s\nhead %.*s\n",
                         (unsigned long long)c->seq, c->time, (unsigned long long)c->from, (unsigned long long)c->to,
                         root, LINE_HEX, c->head);
        assert(n > 0 && n < CHECKPOINT_TEXT_MAX);
        return (size_t)n;
}

/* The data as it has to be; its size. */
static size_t form(const struct checkpoint *c, char ret[CHECKPOINT_DATA_MAX]) {
        char root[HASH_TEXT_SIZE], ed25519[2][2 * 64 + 1] = {0}, secp256k1[2][2 * 65 + 1] = {0};

        hash_text(c->root, root);
        line_hex(c->keys.ed25519, sizeof c->keys.ed25519, ed25519[0]);
        line_hex(c->signature.ed25519, sizeof c->signature.ed25519, ed25519[1]);
        line_hex(c->keys.secp256k1, sizeof c->keys.secp256k1, secp256k1[0]);
        line_hex(c->signature.secp256k1, sizeof c->signature.secp256k1, secp256k1[1]);
        int n = snprintf(ret, CHECKPOINT_DATA_MAX,
                         "{\"from\":%llu,\"to\":%llu,\"root\":\"%s\",\"ed25519\":{\"key\":\"%s\",\"signature\":\"%s\"},"
                         "\"secp256k1\":{\"key\":\"%s\",\"signature\":\"%s\"}}",
                         (unsigned long long)c->from, (unsigned long long)c->to, root, ed25519[0], ed25519[1],
                         secp256k1[0], secp256k1[1]);
        assert(n > 0 && n < CHECKPOINT_DATA_MAX);
        return (size_t)n;
}

int checkpoint_write(struct checkpoint *c, const struct keys *k, char ret[CHECKPOINT_DATA_MAX]) {
        char text[CHECKPOINT_TEXT_MAX];

        c->keys = *keys_public(k);
        int r = keys_sign(k, text, checkpoint_text(c, text), &c->signature);
        return r < 0 ? r : (int)form(c, ret);
}

static bool find_bytes(const char *text, const char *path, uint8_t *ret, size_t size) {
        char hex[2 * 65 + 1];

        assert(2 * size < sizeof hex);
        return json_find_str(text, path, hex, sizeof hex) && strlen(hex) == 2 * size && line_unhex(hex, size, ret);
}

int checkpoint_read(const struct line *l, struct checkpoint *ret) {
        struct checkpoint c = {.seq = l->seq};
        char data[CHECKPOINT_DATA_MAX], again[CHECKPOINT_DATA_MAX];

        if (l->data.size >= sizeof data || json_check(l->data.p, l->data.size, NULL) < 0)
                return ERR_CORRUPT;
        memcpy(data, l->data.p, l->data.size);
        data[l->data.size] = '\0';
        memcpy(c.time, l->time, LINE_TIME);
        memcpy(c.head, l->prev, LINE_HEX);
        if (!json_find_u64(data, "from", &c.from) || !json_find_u64(data, "to", &c.to) ||
            !find_bytes(data, "root", c.root, sizeof c.root) ||
            !find_bytes(data, "ed25519.key", c.keys.ed25519, sizeof c.keys.ed25519) ||
            !find_bytes(data, "ed25519.signature", c.signature.ed25519, sizeof c.signature.ed25519) ||
            !find_bytes(data, "secp256k1.key", c.keys.secp256k1, sizeof c.keys.secp256k1) ||
            !find_bytes(data, "secp256k1.signature", c.signature.secp256k1, sizeof c.signature.secp256k1))
                return ERR_CORRUPT;
        if (form(&c, again) != l->data.size || memcmp(data, again, l->data.size) != 0)
                return ERR_CORRUPT;
        *ret = c;
        return 0;
}

bool checkpoint_holds(const struct checkpoint *c) {
        char text[CHECKPOINT_TEXT_MAX];

        return keys_verify(&c->keys, text, checkpoint_text(c, text), &c->signature);
}
