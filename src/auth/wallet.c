/* Signing. The context is made for one call and blinded, so that what the processor does tells less of the key. */
#include "auth/wallet.h"

#include <secp256k1.h>
#include <secp256k1_recovery.h>
#include <sodium.h>

static void context_free(secp256k1_context **c) {
        if (*c)
                secp256k1_context_destroy(*c);
}
#define _cleanup_context_ _cleanup_(context_free)

static secp256k1_context *context_new(void) {
        secp256k1_context *c = secp256k1_context_create(SECP256K1_CONTEXT_SIGN);
        uint8_t seed[32];

        if (!c || sodium_init() < 0)
                return c;
        randombytes_buf(seed, sizeof seed);
        if (!secp256k1_context_randomize(c, seed)) {
                secp256k1_context_destroy(c);
                c = NULL;
        }
        sodium_memzero(seed, sizeof seed);
        return c;
}

static int no_key(struct err *err) {
        return err_set(err, ERR_INPUT, "this is not a private key of Ethereum's curve");
}

int wallet_address(const uint8_t key[WALLET_KEY], struct ethereum_address *ret, struct err *err) {
        _cleanup_context_ secp256k1_context *c = context_new();
        uint8_t point[65], hash[KECCAK_SIZE];
        secp256k1_pubkey public;
        size_t size = sizeof point;

        if (!c)
                return err_set(err, -ENOMEM, "could not make a context for the curve");
        if (!secp256k1_ec_pubkey_create(c, &public, key) ||
            !secp256k1_ec_pubkey_serialize(c, point, &size, &public, SECP256K1_EC_UNCOMPRESSED))
                return no_key(err);
        keccak_256(point + 1, 64, hash);
        memcpy(ret->bytes, hash + 12, sizeof ret->bytes);
        return 0;
}

int wallet_sign(const uint8_t key[WALLET_KEY], const void *message, size_t size, char ret[WALLET_SIGNATURE],
                struct err *err) {
        _cleanup_context_ secp256k1_context *c = context_new();
        secp256k1_ecdsa_recoverable_signature signature;
        uint8_t digest[KECCAK_SIZE], bytes[ETHEREUM_SIGNATURE];
        int v = 0;

        if (!c)
                return err_set(err, -ENOMEM, "could not make a context for the curve");
        ethereum_digest(message, size, digest);
        if (!secp256k1_ecdsa_sign_recoverable(c, &signature, digest, key, NULL, NULL))
                return no_key(err);
        (void)secp256k1_ecdsa_recoverable_signature_serialize_compact(c, bytes, &v, &signature);
        bytes[64] = (uint8_t)(27 + v);
        ret[0] = '0';
        ret[1] = 'x';
        (void)sodium_bin2hex(ret + 2, WALLET_SIGNATURE - 2, bytes, sizeof bytes);
        return 0;
}

int wallet_parse(const char *text, size_t size, uint8_t ret[WALLET_KEY], struct err *err) {
        uint8_t bytes[WALLET_KEY];
        size_t n = 0;

        while (size > 0 && strchr(" \t\r\n", text[size - 1]))
                size--;
        while (size > 0 && strchr(" \t\r\n", *text)) {
                text++;
                size--;
        }
        if (size >= 2 && text[0] == '0' && text[1] == 'x') {
                text += 2;
                size -= 2;
        }
        bool good = size == 2 * sizeof bytes && sodium_hex2bin(bytes, sizeof bytes, text, size, NULL, &n, NULL) == 0 &&
                    n == sizeof bytes;
        if (good)
                memcpy(ret, bytes, sizeof bytes);
        sodium_memzero(bytes, sizeof bytes);
        return good ? 0 : err_set(err, ERR_INPUT, "a private key is 64 hexadecimal digits");
}

void wallet_format(const uint8_t key[WALLET_KEY], char ret[2 * WALLET_KEY + 1]) {
        (void)sodium_bin2hex(ret, 2 * WALLET_KEY + 1, key, WALLET_KEY);
}
