/* Derivation, wrapping, sealing. A key is made once, when the ring is opened. */
#include "auth/keyring.h"

#include <sodium.h>

#include "base/text.h"

#define SALT "stockade keyring 1"

enum { HASH = crypto_auth_hmacsha512_BYTES, ID = 8, VERSION_WRAPPED = 1, VERSION_SEALED = 1 };

static_assert(KEYRING_WRAPPED == 1 + ID + crypto_aead_xchacha20poly1305_ietf_NPUBBYTES + KEYRING_KEY +
                                         crypto_aead_xchacha20poly1305_ietf_ABYTES,
              "wrapped");
static_assert(KEYRING_SEALED_MORE ==
                      1 + ID + crypto_aead_xchacha20poly1305_ietf_NPUBBYTES + crypto_aead_xchacha20poly1305_ietf_ABYTES,
              "sealed");
static_assert(KEYRING_KEY == crypto_aead_xchacha20poly1305_ietf_KEYBYTES && (int)KEYRING_KEY == (int)PASETO_KEY,
              "keys");

/* What HKDF is told besides the secret: it is in every key for ever. */
static const char *const purpose_words[] = {
        [KEYRING_SESSION] = "session: paseto v4.local",
        [KEYRING_CAPABILITY] = "capability: blake2b chain",
        [KEYRING_WRAP] = "data key: xchacha20-poly1305",
};
static_assert(ELEMENTSOF(purpose_words) == KEYRING_PURPOSES, "a purpose has no words");

struct generation {
        uint8_t secret_hash[HASH]; /* HKDF's extract: two equal secrets are found by it */
        uint8_t id[ID];
        char id_text[KEYRING_ID];
        uint8_t keys[KEYRING_PURPOSES][KEYRING_KEY];
};

struct data {
        uint8_t id[ID], key[KEYRING_KEY];
        char id_text[KEYRING_ID];
};

struct keyring {
        size_t count, data_count;
        struct generation generations[1 + KEYRING_PREVIOUS];
        struct data data[KEYRING_DATA];
};

/* --- HKDF-SHA-512 (RFC 5869) ------------------------------------------------------------------------------------ */

static void extract(const void *secret, size_t size, uint8_t ret[HASH]) {
        crypto_auth_hmacsha512_state h;

        (void)crypto_auth_hmacsha512_init(&h, (const uint8_t *)SALT, sizeof SALT - 1);
        (void)crypto_auth_hmacsha512_update(&h, secret, size);
        (void)crypto_auth_hmacsha512_final(&h, ret);
        sodium_memzero(&h, sizeof h);
}

/* One block is more than any key needs. */
static void expand(const uint8_t prk[HASH], const char *info, uint8_t *ret, size_t size) {
        static const uint8_t one = 1;
        crypto_auth_hmacsha512_state h;
        uint8_t block[HASH];

        assert(size <= sizeof block);
        (void)crypto_auth_hmacsha512_init(&h, prk, HASH);
        (void)crypto_auth_hmacsha512_update(&h, (const uint8_t *)info, strlen(info));
        (void)crypto_auth_hmacsha512_update(&h, &one, 1);
        (void)crypto_auth_hmacsha512_final(&h, block);
        memcpy(ret, block, size);
        sodium_memzero(block, sizeof block);
        sodium_memzero(&h, sizeof h);
}

/* --- the ring --------------------------------------------------------------------------------------------------- */

void keyring_close(struct keyring *k) {
        if (!k)
                return;
        sodium_memzero(k, sizeof *k);
        free(k);
}

static const char *name_of(size_t i) {
        return i == 0 ? "SESSION_AUTH_SECRET" : "a previous SESSION_AUTH_SECRET";
}

static int check_secret(const struct keyring_secret *s, size_t i, struct err *err) {
        if (s->size < KEYRING_SECRET_MIN || s->size > KEYRING_SECRET_MAX) {
                (void)err_set(err, ERR_INPUT, "%s has %zu bytes, not %d to %d", name_of(i), s->size, KEYRING_SECRET_MIN,
                              KEYRING_SECRET_MAX);
                (void)err_hint(err, "make one with: openssl rand -hex 32");
                return ERR_INPUT;
        }
        if (text_is_guessable(s->data, s->size)) {
                (void)err_set(err, ERR_INPUT, "%s is easy to guess", name_of(i));
                (void)err_hint(err, "make one with: openssl rand -hex 32");
                return ERR_INPUT;
        }
        return 0;
}

static void make_generation(struct generation *g) {
        expand(g->secret_hash, "key id", g->id, sizeof g->id);
        (void)sodium_bin2hex(g->id_text, sizeof g->id_text, g->id, sizeof g->id);
        for (size_t p = 0; p < KEYRING_PURPOSES; p++)
                expand(g->secret_hash, purpose_words[p], g->keys[p], sizeof g->keys[p]);
}

int keyring_open(struct keyring **ret, const struct keyring_secret *secrets, size_t count, struct err *err) {
        _cleanup_keyring_ struct keyring *k = NULL;

        if (count == 0) {
                (void)err_set(err, ERR_INPUT, "there is no SESSION_AUTH_SECRET");
                (void)err_hint(err, "make one with: openssl rand -hex 32");
                return ERR_INPUT;
        }
        if (count > ELEMENTSOF(k->generations))
                return err_set(err, ERR_LIMIT, "there are more than %d previous secrets", KEYRING_PREVIOUS);
        if (sodium_init() < 0)
                return err_set(err, -EIO, "cannot start the cryptographic library");
        k = calloc(1, sizeof *k);
        if (!k)
                return err_set(err, -ENOMEM, "cannot make the keys");
        for (size_t i = 0; i < count; i++) {
                struct generation *g = &k->generations[i];
                int r = check_secret(&secrets[i], i, err);

                if (r < 0)
                        return r;
                extract(secrets[i].data, secrets[i].size, g->secret_hash);
                for (size_t j = 0; j < i; j++)
                        if (sodium_memcmp(g->secret_hash, k->generations[j].secret_hash, HASH) == 0)
                                return err_set(err, ERR_INPUT, "a SESSION_AUTH_SECRET is there twice");
                make_generation(g);
                k->count++;
        }
        for (size_t i = 0; i < count; i++)
                sodium_memzero(k->generations[i].secret_hash, HASH);
        *ret = TAKE_PTR(k);
        return 0;
}

const char *keyring_id(const struct keyring *k, size_t i) {
        return i < k->count ? k->generations[i].id_text : NULL;
}

const char *keyring_current(const struct keyring *k) {
        return k->generations[0].id_text;
}

static const struct generation *find(const struct keyring *k, const uint8_t id[ID]) {
        for (size_t i = 0; i < k->count; i++)
                if (sodium_memcmp(k->generations[i].id, id, ID) == 0)
                        return &k->generations[i];
        return NULL;
}

const uint8_t *keyring_key(const struct keyring *k, enum keyring_purpose purpose, const char *id) {
        if ((unsigned)purpose >= KEYRING_PURPOSES)
                return NULL;
        if (!id)
                return k->generations[0].keys[purpose];
        for (size_t i = 0; i < k->count; i++)
                if (str_eq(k->generations[i].id_text, id))
                        return k->generations[i].keys[purpose];
        return NULL;
}

/* --- the data key ----------------------------------------------------------------------------------------------- */

/* version | id of the secret | nonce | encrypted key and tag; the first two are authenticated with it. */
#define WRAP_WORDS "stockade data key 1"

static size_t wrap_associated(const uint8_t head[1 + ID], uint8_t ret[sizeof WRAP_WORDS + ID]) {
        memcpy(ret, WRAP_WORDS, sizeof WRAP_WORDS - 1);
        memcpy(ret + sizeof WRAP_WORDS - 1, head, 1 + ID);
        return sizeof WRAP_WORDS + ID;
}

const char *keyring_data_id(const struct keyring *k) {
        return k->data_count > 0 ? k->data[k->data_count - 1].id_text : NULL;
}

static const struct data *find_data(const struct keyring *k, const uint8_t id[ID]) {
        for (size_t i = 0; i < k->data_count; i++)
                if (sodium_memcmp(k->data[i].id, id, ID) == 0)
                        return &k->data[i];
        return NULL;
}

static int take_data(struct keyring *k, const uint8_t key[KEYRING_KEY], struct err *err) {
        uint8_t hash[KEYRING_KEY];

        (void)crypto_generichash(hash, sizeof hash, (const uint8_t *)"data key id", 11, key, KEYRING_KEY);
        if (find_data(k, hash))
                return err_set(err, -EEXIST, "a data key is there twice");
        if (k->data_count >= ELEMENTSOF(k->data))
                return err_set(err, ERR_LIMIT, "there are more than %d data keys", KEYRING_DATA);
        struct data *d = &k->data[k->data_count++];
        memcpy(d->key, key, KEYRING_KEY);
        memcpy(d->id, hash, ID);
        (void)sodium_bin2hex(d->id_text, sizeof d->id_text, d->id, sizeof d->id);
        return 0;
}

int keyring_data_wrap(const struct keyring *k, uint8_t ret[KEYRING_WRAPPED], struct err *err) {
        const struct generation *g = &k->generations[0];
        uint8_t associated[sizeof WRAP_WORDS + ID], *nonce = ret + 1 + ID;

        if (k->data_count == 0)
                return err_set(err, -ENOKEY, "there is no data key yet");
        ret[0] = VERSION_WRAPPED;
        memcpy(ret + 1, g->id, ID);
        randombytes_buf(nonce, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
        (void)crypto_aead_xchacha20poly1305_ietf_encrypt(
                nonce + crypto_aead_xchacha20poly1305_ietf_NPUBBYTES, NULL, k->data[k->data_count - 1].key, KEYRING_KEY,
                associated, wrap_associated(ret, associated), NULL, nonce, g->keys[KEYRING_WRAP]);
        return 0;
}

int keyring_data_make(struct keyring *k, uint8_t ret[KEYRING_WRAPPED], struct err *err) {
        uint8_t key[KEYRING_KEY];

        if (k->data_count > 0)
                return err_set(err, -EEXIST, "cannot make a second data key");
        randombytes_buf(key, sizeof key);
        int r = take_data(k, key, err);
        sodium_memzero(key, sizeof key);
        return r < 0 ? r : keyring_data_wrap(k, ret, err);
}

int keyring_data_open(struct keyring *k, const uint8_t *wrapped, size_t size, bool *ret_stale, struct err *err) {
        uint8_t associated[sizeof WRAP_WORDS + ID], key[KEYRING_KEY];
        const struct generation *g;

        if (size != KEYRING_WRAPPED || wrapped[0] != VERSION_WRAPPED)
                return err_set(err, ERR_CORRUPT, "the wrapped data key is not one that this version knows");
        g = find(k, wrapped + 1);
        if (!g) {
                (void)err_set(err, ERR_REFUSED, "the data key was wrapped by a SESSION_AUTH_SECRET that is not here");
                (void)err_hint(err, "name the file with the former one in session_secret_previous"
                                    ": until then stored secrets of sandboxes cannot be read");
                return ERR_REFUSED;
        }
        const uint8_t *nonce = wrapped + 1 + ID, *cipher = nonce + crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
        if (crypto_aead_xchacha20poly1305_ietf_decrypt(key, NULL, NULL, cipher, (size_t)(wrapped + size - cipher),
                                                       associated, wrap_associated(wrapped, associated), nonce,
                                                       g->keys[KEYRING_WRAP]) != 0)
                return err_set(err, ERR_CORRUPT, "the wrapped data key is damaged");
        int r = take_data(k, key, err);
        sodium_memzero(key, sizeof key);
        if (r == 0)
                *ret_stale = g != &k->generations[0];
        return r;
}

/* --- values ----------------------------------------------------------------------------------------------------- */

#define SEAL_WORDS "stockade sealed value 1"

/* Words, head, and both names with their lengths: no two sandboxes and names give the same bytes. */
static int seal_associated(const uint8_t head[1 + ID], const char *sandbox, const char *name, struct buf *ret,
                           struct err *err) {
        size_t a = strlen(sandbox), b = strlen(name);
        uint8_t lengths[2] = {(uint8_t)a, (uint8_t)b};

        if (a == 0 || a > KEYRING_NAME_MAX || b == 0 || b > KEYRING_NAME_MAX)
                return err_set(err, ERR_INPUT, "a sealed value's sandbox and name have 1 to %d bytes",
                               KEYRING_NAME_MAX);
        buf_add(ret, SEAL_WORDS, sizeof SEAL_WORDS - 1);
        buf_add(ret, head, 1 + ID);
        buf_add(ret, lengths, sizeof lengths);
        buf_str(ret, sandbox);
        buf_str(ret, name);
        return buf_ok(ret) ? 0 : err_set(err, -ENOMEM, "could not seal a value");
}

/* Every sandbox has a key of its own, which opens nothing of another. */
static void sandbox_key(const struct data *d, const char *sandbox, uint8_t ret[KEYRING_KEY]) {
        crypto_generichash_state h;

        (void)crypto_generichash_init(&h, d->key, sizeof d->key, KEYRING_KEY);
        (void)crypto_generichash_update(&h, (const uint8_t *)"sandbox key", 11);
        (void)crypto_generichash_update(&h, (const uint8_t *)sandbox, strlen(sandbox));
        (void)crypto_generichash_final(&h, ret, KEYRING_KEY);
        sodium_memzero(&h, sizeof h);
}

void keyring_sealed_by(const void *sealed, size_t size, char ret[KEYRING_ID]) {
        const uint8_t *head = sealed;

        ret[0] = '\0';
        if (size >= KEYRING_SEALED_MORE && head[0] == VERSION_SEALED)
                (void)sodium_bin2hex(ret, KEYRING_ID, head + 1, ID);
}

int keyring_seal(const struct keyring *k, const char *sandbox, const char *name, const void *value, size_t size,
                 struct buf *out, struct err *err) {
        _cleanup_buf_ struct buf associated = {0};
        uint8_t head[1 + ID + crypto_aead_xchacha20poly1305_ietf_NPUBBYTES] = {VERSION_SEALED}, *nonce = head + 1 + ID;
        _cleanup_free_ uint8_t *cipher = NULL;
        unsigned long long cipher_size;
        uint8_t key[KEYRING_KEY];

        if (k->data_count == 0)
                return err_set(err, -ENOKEY, "there is no data key yet");
        const struct data *d = &k->data[k->data_count - 1];
        if (size > KEYRING_VALUE_MAX)
                return err_set(err, ERR_LIMIT, "the value of '%s' is larger than %d bytes", name, KEYRING_VALUE_MAX);
        memcpy(head + 1, d->id, ID);
        randombytes_buf(nonce, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
        int r = seal_associated(head, sandbox, name, &associated, err);
        if (r < 0)
                return r;
        cipher = malloc(size + crypto_aead_xchacha20poly1305_ietf_ABYTES);
        if (!cipher)
                return err_set(err, -ENOMEM, "could not seal a value");
        sandbox_key(d, sandbox, key);
        (void)crypto_aead_xchacha20poly1305_ietf_encrypt(
                cipher, &cipher_size, value, size, (const uint8_t *)associated.data, associated.size, NULL, nonce, key);
        sodium_memzero(key, sizeof key);
        buf_add(out, head, sizeof head);
        buf_add(out, cipher, cipher_size);
        return buf_ok(out) ? 0 : err_set(err, -ENOMEM, "could not seal a value");
}

int keyring_unseal(const struct keyring *k, const char *sandbox, const char *name, const void *sealed, size_t size,
                   struct buf *out, struct err *err) {
        _cleanup_buf_ struct buf associated = {0};
        const uint8_t *head = sealed;
        uint8_t key[KEYRING_KEY];

        if (size < KEYRING_SEALED_MORE || size - KEYRING_SEALED_MORE > KEYRING_VALUE_MAX || head[0] != VERSION_SEALED)
                return err_set(err, ERR_CORRUPT, "the sealed value of '%s' is not one that this version knows", name);
        const struct data *d = find_data(k, head + 1);
        if (!d) {
                (void)err_set(err, ERR_REFUSED, "the value of '%s' was sealed with a data key that cannot be opened",
                              name);
                (void)err_hint(err,
                               "name the former session secret in session_secret_previous, or give the value again");
                return ERR_REFUSED;
        }
        int r = seal_associated(head, sandbox, name, &associated, err);
        if (r < 0)
                return r;
        const uint8_t *nonce = head + 1 + ID, *cipher = nonce + crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
        size_t plain_size = size - KEYRING_SEALED_MORE;
        uint8_t *plain = malloc(plain_size + !plain_size);
        if (!plain)
                return err_set(err, -ENOMEM, "could not open a sealed value");
        sandbox_key(d, sandbox, key);
        if (crypto_aead_xchacha20poly1305_ietf_decrypt(
                    plain, NULL, NULL, cipher, plain_size + crypto_aead_xchacha20poly1305_ietf_ABYTES,
                    (const uint8_t *)associated.data, associated.size, nonce, key) != 0)
                r = err_set(err, ERR_CORRUPT, "the sealed value of '%s' is damaged, or of something else", name);
        else
                buf_add(out, plain, plain_size);
        sodium_memzero(key, sizeof key);
        sodium_memzero(plain, plain_size);
        free(plain);
        return r < 0 || buf_ok(out) ? r : err_set(err, -ENOMEM, "could not open a sealed value");
}

void keyring_wipe(struct buf *b) {
        if (b->data)
                sodium_memzero(b->data, b->room);
        buf_free(b);
}
