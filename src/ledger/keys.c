/* Keys: kept in one small text file, made whole or not at all.
 *
 * Secrets are in memory between keys_open and keys_close only, and wiped. They are never printed or logged. */
#include "ledger/keys.h"

#include <fcntl.h>
#include <secp256k1.h>
#include <secp256k1_recovery.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "ledger/line.h"

#define HEAD_ED25519   "stockade-ledger-keys 1\ned25519 "
#define HEAD_SECP256K1 "\nsecp256k1 "

enum { SECRET = 32, FILE_SIZE = sizeof HEAD_ED25519 - 1 + 2 * SECRET + sizeof HEAD_SECP256K1 - 1 + 2 * SECRET + 1 };

struct keys {
        struct keys_public public;
        uint8_t ed25519[crypto_sign_SECRETKEYBYTES];
        uint8_t secp256k1[SECRET];
        secp256k1_context *context;
};

const struct keys_public *keys_public(const struct keys *k) {
        return &k->public;
}

void keys_close(struct keys *k) {
        if (!k)
                return;
        if (k->context)
                secp256k1_context_destroy(k->context);
        sodium_memzero(k, sizeof *k);
        free(k);
}

static void keys_closep(struct keys **k) {
        keys_close(*k);
}

static void hash_of(const char *text, size_t size, uint8_t ret[HASH_SIZE]) {
        struct hash h;

        hash_init(&h);
        hash_add(&h, text, size);
        hash_done(&h, ret);
}

static int derive(struct keys *k, const uint8_t ed25519[SECRET], const uint8_t secp256k1[SECRET]) {
        secp256k1_pubkey point;
        uint8_t seed[32];
        size_t size = sizeof k->public.secp256k1;

        if (sodium_init() < 0)
                return -EIO;
        memcpy(k->secp256k1, secp256k1, SECRET);
        k->context = secp256k1_context_create(SECP256K1_CONTEXT_SIGN);
        if (!k->context)
                return -ENOMEM;
        randombytes_buf(seed, sizeof seed); /* blinds the arithmetic */
        bool good = secp256k1_context_randomize(k->context, seed) &&
                    secp256k1_ec_pubkey_create(k->context, &point, secp256k1) &&
                    secp256k1_ec_pubkey_serialize(k->context, k->public.secp256k1, &size, &point,
                                                  SECP256K1_EC_COMPRESSED) &&
                    crypto_sign_seed_keypair(k->public.ed25519, k->ed25519, ed25519) == 0;
        sodium_memzero(seed, sizeof seed);
        return good ? 0 : ERR_CORRUPT;
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static int make_file(int dir) {
        char text[FILE_SIZE], *p = text;
        uint8_t secret[SECRET];

        if (sodium_init() < 0)
                return -EIO;
        randombytes_buf(secret, sizeof secret);
        memcpy(p, HEAD_ED25519, sizeof HEAD_ED25519 - 1);
        p += sizeof HEAD_ED25519 - 1;
        line_hex(secret, SECRET, p);
        p += 2 * SECRET;
        do
                randombytes_buf(secret, sizeof secret);
        while (!secp256k1_ec_seckey_verify(secp256k1_context_static, secret));
        memcpy(p, HEAD_SECP256K1, sizeof HEAD_SECP256K1 - 1);
        p += sizeof HEAD_SECP256K1 - 1;
        line_hex(secret, SECRET, p);
        text[FILE_SIZE - 1] = '\n';
        sodium_memzero(secret, sizeof secret);

        (void)unlinkat(dir, ".keys.new", 0); /* of one that was killed here */
        _cleanup_fd_ int fd = openat(dir, ".keys.new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        int r = fd < 0 ? -errno : fd_write_full(fd, text, sizeof text);
        sodium_memzero(text, sizeof text);
        if (r == 0 && (fsync(fd) < 0 || renameat(dir, ".keys.new", dir, KEYS_FILE) < 0 || fsync(dir) < 0))
                r = -errno;
        return r;
}

static int read_file(struct keys *k, int fd) {
        char text[FILE_SIZE + 1];
        uint8_t ed25519[SECRET], secp256k1[SECRET];
        const char *first = text + sizeof HEAD_ED25519 - 1, *between = first + 2 * SECRET,
                   *second = between + sizeof HEAD_SECP256K1 - 1;

        ssize_t n = fd_read_full(fd, text, sizeof text);
        int r = n < 0 ? (int)n : ERR_CORRUPT;
        if (n == FILE_SIZE && memcmp(text, HEAD_ED25519, sizeof HEAD_ED25519 - 1) == 0 &&
            memcmp(between, HEAD_SECP256K1, sizeof HEAD_SECP256K1 - 1) == 0 && line_unhex(first, SECRET, ed25519) &&
            line_unhex(second, SECRET, secp256k1))
                r = derive(k, ed25519, secp256k1);
        sodium_memzero(text, sizeof text);
        sodium_memzero(ed25519, sizeof ed25519);
        sodium_memzero(secp256k1, sizeof secp256k1);
        return r;
}

int keys_open(struct keys **ret, int dir, bool make, struct err *err) {
        _cleanup_(keys_closep) struct keys *k = calloc(1, sizeof *k);
        struct stat st;
        int r;

        if (!k)
                return err_set(err, -ENOMEM, "cannot read the ledger's keys");
        _cleanup_fd_ int fd = openat(dir, KEYS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
        if (fd < 0 && errno == ENOENT && make) {
                r = make_file(dir);
                if (r < 0)
                        return err_set(err, r, "could not make the ledger's keys");
                fd = openat(dir, KEYS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
        }
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot open the ledger's keys");
        if (!S_ISREG(st.st_mode) || (st.st_mode & 077)) {
                (void)err_set(err, ERR_REFUSED, "the ledger's keys can be read by others than their owner");
                return err_hint(err, "they sign nothing that counts any more: move the ledger's folder aside, and find "
                                     "out who changed their mode");
        }
        r = read_file(k, fd);
        if (r == ERR_CORRUPT) {
                (void)err_set(err, r, "the ledger's file '" KEYS_FILE "' is damaged");
                return err_hint(err, "restore it from a backup, or move the ledger's folder aside to begin a new one");
        }
        if (r < 0)
                return err_set(err, r, "cannot read the ledger's keys");
        *ret = TAKE_PTR(k);
        return 0;
}

/* --- signatures ------------------------------------------------------------------------------------------------- */

int keys_sign(const struct keys *k, const char *text, size_t size, struct keys_signature *ret) {
        secp256k1_ecdsa_recoverable_signature s;
        struct keys_signature made;
        uint8_t hash[HASH_SIZE];
        int recovery = 0;

        hash_of(text, size, hash);
        if (crypto_sign_detached(made.ed25519, NULL, (const uint8_t *)text, size, k->ed25519) != 0 ||
            !secp256k1_ecdsa_sign_recoverable(k->context, &s, hash, k->secp256k1, NULL, NULL) ||
            !secp256k1_ecdsa_recoverable_signature_serialize_compact(k->context, made.secp256k1, &recovery, &s))
                return -EIO;
        made.secp256k1[64] = (uint8_t)recovery;
        *ret = made;
        return 0;
}

bool keys_verify(const struct keys_public *k, const char *text, size_t size, const struct keys_signature *s) {
        const secp256k1_context *context = secp256k1_context_static;
        secp256k1_ecdsa_recoverable_signature recoverable;
        secp256k1_ecdsa_signature plain;
        secp256k1_pubkey signer;
        uint8_t hash[HASH_SIZE], again[33];
        size_t again_size = sizeof again;

        hash_of(text, size, hash);
        /* The key that is recovered is the one that signed: comparing it is the check, and shows that the number is
         * right. A signature has a second form (a high s) that anybody can make: only the first counts. */
        return sodium_init() >= 0 && s->secp256k1[64] < 4 &&
               crypto_sign_verify_detached(s->ed25519, (const uint8_t *)text, size, k->ed25519) == 0 &&
               secp256k1_ecdsa_recoverable_signature_parse_compact(context, &recoverable, s->secp256k1,
                                                                   s->secp256k1[64]) &&
               secp256k1_ecdsa_recoverable_signature_convert(context, &plain, &recoverable) &&
               !secp256k1_ecdsa_signature_normalize(context, NULL, &plain) &&
               secp256k1_ecdsa_recover(context, &signer, &recoverable, hash) &&
               secp256k1_ec_pubkey_serialize(context, again, &again_size, &signer, SECP256K1_EC_COMPRESSED) &&
               memcmp(again, k->secp256k1, sizeof again) == 0;
}

void keys_fingerprint(const struct keys_public *k, char ret[LEDGER_KEY_TEXT]) {
        static const char words[] = "stockade ledger keys 1\n";
        uint8_t hash[HASH_SIZE];
        struct hash h;

        hash_init(&h);
        hash_add(&h, words, sizeof words - 1);
        hash_add(&h, k->ed25519, sizeof k->ed25519);
        hash_add(&h, k->secp256k1, sizeof k->secp256k1);
        hash_done(&h, hash);
        hash_text(hash, ret);
}
