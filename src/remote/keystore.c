/* Keystores. The passphrase gives 32 bytes: the first half opens the key, the second vouches for what was opened. */
#include "remote/keystore.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sodium.h>

#include "base/json-read.h"

#define DERIVED    32
#define MEMORY_MAX (512ULL << 20) /* of scrypt; usual files want 256 MiB */
#define ROUNDS_MAX 10000000ULL    /* of pbkdf2; usual files want 262,144 */
#define SALT_MAX   64
#define LANES_MAX  64

struct keystore {
        uint8_t salt[SALT_MAX], iv[16], sealed[WALLET_KEY], mac[KECCAK_SIZE];
        size_t salt_size;
        bool scrypt;
        uint64_t n, r, p, rounds;
};

static int wrong(struct err *err, const char *what) {
        (void)err_set(err, ERR_INPUT, "the keystore's %s is none that is known here", what);
        return err_hint(err, "version 3, aes-128-ctr, scrypt or pbkdf2 with hmac-sha256");
}

/* Newer files say "crypto", older ones "Crypto". */
static bool find_text(const char *text, const char *path, char *ret, size_t size) {
        const char *inner = json_at(text, "crypto", NULL);

        if (!inner)
                inner = json_at(text, "Crypto", NULL);
        return inner && json_find_str(inner, path, ret, size);
}

static bool find_number(const char *text, const char *path, uint64_t *ret) {
        const char *inner = json_at(text, "crypto", NULL);

        if (!inner)
                inner = json_at(text, "Crypto", NULL);
        return inner && json_find_u64(inner, path, ret);
}

/* Between least and most bytes. */
static bool find_bytes(const char *text, const char *path, uint8_t *ret, size_t least, size_t most, size_t *ret_size) {
        char digits[2 * SALT_MAX + 3];
        size_t n = 0;

        if (!find_text(text, path, digits, sizeof digits))
                return false;
        const char *from = digits + (str_starts(digits, "0x") ? 2 : 0);
        if (!from[0] || OPENSSL_hexstr2buf_ex(ret, most, &n, from, '\0') != 1 || n < least)
                return false;
        if (ret_size)
                *ret_size = n;
        return true;
}

static bool is_text(const char *text, const char *path, const char *right) {
        char found[32];

        return find_text(text, path, found, sizeof found) && str_eq(found, right);
}

static int read_kdf(const char *text, struct keystore *k, struct err *err) {
        uint64_t size = 0;

        if (!find_number(text, "kdfparams.dklen", &size) || size != DERIVED ||
            !find_bytes(text, "kdfparams.salt", k->salt, 1, sizeof k->salt, &k->salt_size))
                return wrong(err, "derivation");
        if (is_text(text, "kdf", "scrypt")) {
                k->scrypt = true;
                bool there = find_number(text, "kdfparams.n", &k->n) && find_number(text, "kdfparams.r", &k->r) &&
                             find_number(text, "kdfparams.p", &k->p);
                bool sane = there && k->n > 1 && k->n <= 1ULL << 24 && (k->n & (k->n - 1)) == 0 && k->r > 0 &&
                            k->r <= 1024 && k->p > 0 && k->p <= LANES_MAX && 128 * k->n * k->r <= MEMORY_MAX;
                return sane ? 0 : wrong(err, "scrypt");
        }
        if (is_text(text, "kdf", "pbkdf2") && is_text(text, "kdfparams.prf", "hmac-sha256") &&
            find_number(text, "kdfparams.c", &k->rounds) && k->rounds > 0 && k->rounds <= ROUNDS_MAX)
                return 0;
        return wrong(err, "derivation");
}

static int parse(const char *text, struct keystore *k, struct err *err) {
        uint64_t version = 0;

        if (!json_find_u64(text, "version", &version) || version != 3)
                return wrong(err, "version");
        if (!is_text(text, "cipher", "aes-128-ctr") ||
            !find_bytes(text, "cipherparams.iv", k->iv, sizeof k->iv, sizeof k->iv, NULL) ||
            !find_bytes(text, "ciphertext", k->sealed, sizeof k->sealed, sizeof k->sealed, NULL) ||
            !find_bytes(text, "mac", k->mac, sizeof k->mac, sizeof k->mac, NULL))
                return wrong(err, "cipher");
        return read_kdf(text, k, err);
}

static bool derive(const struct keystore *k, const char *passphrase, uint8_t ret[DERIVED]) {
        size_t size = strlen(passphrase);

        if (k->scrypt) /* not OpenSSL's, which refuses the parameters of the definition's own example */
                return crypto_pwhash_scryptsalsa208sha256_ll((const uint8_t *)passphrase, size, k->salt, k->salt_size,
                                                             k->n, (uint32_t)k->r, (uint32_t)k->p, ret, DERIVED) == 0;
        return PKCS5_PBKDF2_HMAC(passphrase, (int)size, k->salt, (int)k->salt_size, (int)k->rounds, EVP_sha256(),
                                 DERIVED, ret) == 1;
}

static bool decipher(const struct keystore *k, const uint8_t *key, uint8_t ret[WALLET_KEY]) {
        EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
        int n = 0;
        bool good = c && EVP_DecryptInit_ex(c, EVP_aes_128_ctr(), NULL, key, k->iv) == 1 &&
                    EVP_DecryptUpdate(c, ret, &n, k->sealed, sizeof k->sealed) == 1 && n == WALLET_KEY;

        EVP_CIPHER_CTX_free(c);
        return good;
}

int keystore_open(const char *text, const char *passphrase, uint8_t ret[WALLET_KEY], struct err *err) {
        uint8_t derived[DERIVED], mac[KECCAK_SIZE];
        struct keystore k = {0};
        struct keccak hash;
        int r = parse(text, &k, err);

        if (r < 0)
                return r;
        if (strlen(passphrase) > 1024 || !derive(&k, passphrase, derived))
                return err_set(err, -ENOMEM, "could not derive the key of the keystore");
        keccak_init(&hash);
        keccak_add(&hash, derived + 16, 16);
        keccak_add(&hash, k.sealed, sizeof k.sealed);
        keccak_done(&hash, mac);
        if (CRYPTO_memcmp(mac, k.mac, sizeof mac) != 0)
                r = err_set(err, ERR_REFUSED, "the passphrase is not that of the keystore");
        else if (!decipher(&k, derived, ret))
                r = err_set(err, -ENOMEM, "could not open the keystore");
        explicit_bzero(derived, sizeof derived);
        return r;
}
