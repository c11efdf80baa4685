/* Addresses and recovery. The curve's arithmetic is libsecp256k1's; what counts as a signature is decided here. */
#include "auth/ethereum.h"

#include <secp256k1.h>
#include <secp256k1_recovery.h>
#include <sodium.h>

bool ethereum_same(const struct ethereum_address *a, const struct ethereum_address *b) {
        return sodium_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* --- text ------------------------------------------------------------------------------------------------------- */

static void lower(const struct ethereum_address *a, char ret[ETHEREUM_TEXT]) {
        ret[0] = '0';
        ret[1] = 'x';
        (void)sodium_bin2hex(ret + 2, ETHEREUM_TEXT - 2, a->bytes, sizeof a->bytes);
}

void ethereum_text(const struct ethereum_address *a, char ret[ETHEREUM_TEXT]) {
        uint8_t hash[KECCAK_SIZE];

        lower(a, ret);
        keccak_256(ret + 2, 40, hash);
        for (size_t i = 0; i < 40; i++)
                if (ret[2 + i] >= 'a' && (hash[i / 2] >> (i % 2 ? 0 : 4) & 8))
                        ret[2 + i] = (char)(ret[2 + i] - 'a' + 'A');
}

void ethereum_owner(const struct ethereum_address *a, char ret[ETHEREUM_OWNER]) {
        memcpy(ret, "eth:", 4);
        lower(a, ret + 4);
}

int ethereum_parse(const char *text, size_t size, bool any_case, struct ethereum_address *ret, struct err *err) {
        struct ethereum_address a;
        char right[ETHEREUM_TEXT];
        size_t n;

        if (size != ETHEREUM_TEXT - 1 || text[0] != '0' || text[1] != 'x' ||
            sodium_hex2bin(a.bytes, sizeof a.bytes, text + 2, size - 2, NULL, &n, NULL) != 0 || n != sizeof a.bytes) {
                (void)err_set(err, ERR_INPUT, "this is not an Ethereum address");
                (void)err_hint(err, "it is 0x and 40 hexadecimal digits");
                return ERR_INPUT;
        }
        ethereum_text(&a, right);
        bool good = memcmp(text, right, size) == 0;
        if (!good && any_case) {
                lower(&a, right);
                good = memcmp(text, right, size) == 0;
                ethereum_text(&a, right);
        }
        if (!good) {
                (void)err_set(err, ERR_INPUT, "the address has the wrong checksum in its upper and lower case letters");
                (void)err_hint(err, "EIP-55 would write '%s': mistyped?", right);
                return ERR_INPUT;
        }
        *ret = a;
        return 0;
}

/* --- signatures ------------------------------------------------------------------------------------------------- */

void ethereum_digest(const void *message, size_t size, uint8_t ret[KECCAK_SIZE]) {
        struct keccak k;
        char head[64];
        int n = snprintf(head, sizeof head,
                         "\x19"
                         "Ethereum Signed Message:\n%zu",
                         size);

        keccak_init(&k);
        keccak_add(&k, head, (size_t)n);
        keccak_add(&k, message, size);
        keccak_done(&k, ret);
}

int ethereum_parse_signature(const char *text, size_t size, uint8_t ret[ETHEREUM_SIGNATURE], struct err *err) {
        uint8_t bytes[ETHEREUM_SIGNATURE];
        size_t n;

        if (size >= 2 && text[0] == '0' && text[1] == 'x') {
                text += 2;
                size -= 2;
        }
        if (size != 2 * sizeof bytes || sodium_hex2bin(bytes, sizeof bytes, text, size, NULL, &n, NULL) != 0 ||
            n != sizeof bytes) {
                (void)err_set(err, ERR_INPUT, "this is not a signature");
                (void)err_hint(err, "it is 0x and 130 hexadecimal digits, as personal_sign returns them");
                return ERR_INPUT;
        }
        memcpy(ret, bytes, sizeof bytes);
        return 0;
}

/* Zero, and all from the order of the curve on, is refused by the library: the first when recovering, the second when
 * parsing. Each signature has a twin with the other s that anybody can make; only the lower one counts, so that a
 * signature is one thing. */
static bool recover(const uint8_t digest[KECCAK_SIZE], const uint8_t signature[ETHEREUM_SIGNATURE], int recovery,
                    uint8_t ret[65]) {
        const secp256k1_context *context = secp256k1_context_static;
        secp256k1_ecdsa_recoverable_signature recoverable;
        secp256k1_ecdsa_signature plain;
        secp256k1_pubkey signer;
        size_t size = 65;

        return secp256k1_ecdsa_recoverable_signature_parse_compact(context, &recoverable, signature, recovery) &&
               secp256k1_ecdsa_recoverable_signature_convert(context, &plain, &recoverable) &&
               !secp256k1_ecdsa_signature_normalize(context, NULL, &plain) &&
               secp256k1_ecdsa_recover(context, &signer, &recoverable, digest) &&
               secp256k1_ec_pubkey_serialize(context, ret, &size, &signer, SECP256K1_EC_UNCOMPRESSED);
}

int ethereum_recover(const void *message, size_t size, const uint8_t signature[ETHEREUM_SIGNATURE],
                     struct ethereum_address *ret, struct err *err) {
        uint8_t digest[KECCAK_SIZE], point[65], hash[KECCAK_SIZE], v = signature[64];

        if (size > ETHEREUM_MESSAGE_MAX)
                return err_set(err, ERR_LIMIT, "the signed message is larger than %u bytes", ETHEREUM_MESSAGE_MAX);
        if (v != 0 && v != 1 && v != 27 && v != 28)
                return err_set(err, ERR_INPUT, "the signature's last byte is %u, not 0, 1, 27 or 28", v);
        ethereum_digest(message, size, digest);
        if (!recover(digest, signature, v >= 27 ? v - 27 : v, point)) {
                (void)err_set(err, ERR_INPUT, "the signature is out of range, or not in its lower form");
                (void)err_hint(err, "sign again with personal_sign; a changed signature does not count");
                return ERR_INPUT;
        }
        keccak_256(point + 1, 64, hash);
        memcpy(ret->bytes, hash + 12, sizeof ret->bytes);
        return 0;
}
