/* Fuzz target: what the store keeps of secrets. A wrapped data key that opens can be wrapped and opened again; a value
 * that opens has the size that sealing gives, and opens for its own sandbox and name alone; what does not open gives
 * nothing. The first byte chooses: 'w' a wrapped key, otherwise a sealed value. */
#include "auth/keyring.h"
#include "tests/fuzz/fuzz.h"

#define SECRET "0123456789abcdefghijklmnopqrstuv"

/* A data key for ever, so that a corpus can have values that open. */
static const uint8_t known[KEYRING_WRAPPED] = {
        0x01, 0x82, 0x90, 0xd2, 0x03, 0xec, 0xf3, 0x7e, 0xc8, 0x92, 0x65, 0x46, 0x62, 0x36, 0x36, 0x27, 0x61,
        0xbc, 0x34, 0x87, 0xaf, 0x8f, 0x52, 0xe4, 0x78, 0x9f, 0xe3, 0x64, 0x1e, 0x7f, 0xa9, 0xd0, 0xa8, 0x8a,
        0x49, 0xf3, 0x66, 0xf6, 0x8d, 0x19, 0x1a, 0x12, 0x51, 0xd4, 0x16, 0x2e, 0xef, 0xef, 0x1e, 0x80, 0xdf,
        0x1e, 0xbf, 0xe1, 0xee, 0x75, 0x66, 0x7b, 0xe4, 0x7b, 0x04, 0xd8, 0xd7, 0x32, 0x01, 0xa5, 0x16, 0x60,
        0xd4, 0xff, 0x7d, 0x40, 0x20, 0xbd, 0x59, 0x60, 0x50, 0x08, 0xed, 0x4b, 0xd5};

static struct keyring *empty_ring(void) {
        struct keyring *k = NULL;

        if (keyring_open(&k, &(struct keyring_secret){SECRET, strlen(SECRET)}, 1, NULL) < 0)
                abort();
        return k;
}

static const struct keyring *ring(void) {
        static struct keyring *k;
        bool stale;

        if (!k) {
                k = empty_ring();
                if (keyring_data_open(k, known, sizeof known, &stale, NULL) < 0 || stale)
                        abort();
        }
        return k;
}

static void try_wrapped(const uint8_t *data, size_t size) {
        _cleanup_keyring_ struct keyring *k = empty_ring(), *second = empty_ring();
        uint8_t again[KEYRING_WRAPPED];
        struct err err = {0};
        bool stale = true;
        int r = keyring_data_open(k, data, size, &stale, &err);

        assert(r == 0 || ((r == ERR_CORRUPT || r == ERR_REFUSED) && err.text[0] && !keyring_has_data(k)));
        if (r < 0)
                return;
        assert(!stale && size == KEYRING_WRAPPED && keyring_data_wrap(k, again, NULL) == 0);
        assert(keyring_data_open(second, again, sizeof again, &stale, NULL) == 0);
        assert(str_eq(keyring_data_id(k), keyring_data_id(second)));
        assert(keyring_data_open(k, data, size, &stale, NULL) == -EEXIST);
}

static void try_sealed(const uint8_t *data, size_t size) {
        _cleanup_keyring_wipe_ struct buf out = {.max = 2 << 20}, other = {.max = 2 << 20};
        char by[KEYRING_ID];
        int r = keyring_unseal(ring(), "sandbox", "NAME", data, size, &out, NULL);

        keyring_sealed_by(data, size, by);
        assert(r == 0 || ((r == ERR_CORRUPT || r == ERR_REFUSED) && out.size == 0));
        assert(by[0] == '\0' || strlen(by) == KEYRING_ID - 1);
        if (r < 0)
                return;
        assert(out.size == size - KEYRING_SEALED_MORE && str_eq(by, keyring_data_id(ring())));
        assert(keyring_unseal(ring(), "sandboy", "NAME", data, size, &other, NULL) == ERR_CORRUPT);
        assert(keyring_unseal(ring(), "sandbox", "NAMES", data, size, &other, NULL) == ERR_CORRUPT && other.size == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ uint8_t *exact = NULL;

        if (size == 0 || size > 1 << 16)
                return 0;
        exact = malloc(size - 1 + (size == 1));
        if (!exact)
                return 0;
        memcpy(exact, data + 1, size - 1); /* no byte behind it may be read */
        if (data[0] == 'w')
                try_wrapped(exact, size - 1);
        else
                try_sealed(exact, size - 1);
        return 0;
}
