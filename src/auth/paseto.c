/* v4.local, as the specification has it; the primitives are libsodium's. */
#include "auth/paseto.h"

#include <sodium.h>

#include "auth/base64url.h"

enum {
        TAG = 32,
        OVERHEAD = PASETO_NONCE + TAG,
        BODY_MAX = PASETO_PAYLOAD_MAX + OVERHEAD,
        HEADER = sizeof PASETO_HEADER - 1
};

static_assert(HEADER + BASE64URL_TEXT(BODY_MAX) + BASE64URL_TEXT(PASETO_FOOTER_MAX) <= PASETO_TOKEN_MAX, "too small");

/* Two keys and the cipher's nonce, for one token each. */
struct split {
        uint8_t cipher[crypto_stream_xchacha20_KEYBYTES];
        uint8_t cipher_nonce[crypto_stream_xchacha20_NONCEBYTES];
        uint8_t tag[32];
};
static_assert(offsetof(struct split, tag) == 56, "the first hash fills cipher and cipher_nonce");

static void derive(const struct paseto_key *key, const char *words, const uint8_t nonce[PASETO_NONCE], uint8_t *ret,
                   size_t size) {
        crypto_generichash_state h;

        (void)crypto_generichash_init(&h, key->bytes, sizeof key->bytes, size);
        (void)crypto_generichash_update(&h, (const uint8_t *)words, strlen(words));
        (void)crypto_generichash_update(&h, nonce, PASETO_NONCE);
        (void)crypto_generichash_final(&h, ret, size);
        sodium_memzero(&h, sizeof h);
}

static void split_key(const struct paseto_key *key, const uint8_t nonce[PASETO_NONCE], struct split *ret) {
        derive(key, "paseto-encryption-key", nonce, ret->cipher, offsetof(struct split, tag));
        derive(key, "paseto-auth-key-for-aead", nonce, ret->tag, sizeof ret->tag);
}

/* Pre-authentication encoding: how many pieces, then each with its length, so that no two lists are the same bytes. */
static void add_number(crypto_generichash_state *h, uint64_t v) {
        uint8_t bytes[8];

        for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (uint8_t)(v >> 8 * i);
        (void)crypto_generichash_update(h, bytes, sizeof bytes);
}

static void add_piece(crypto_generichash_state *h, const void *data, size_t size) {
        add_number(h, size);
        (void)crypto_generichash_update(h, data, size);
}

struct pieces {
        const uint8_t *nonce, *cipher;
        size_t cipher_size;
        const void *footer, *implicit;
        size_t footer_size, implicit_size;
};

static void make_tag(const struct split *keys, const struct pieces *p, uint8_t ret[TAG]) {
        crypto_generichash_state h;

        (void)crypto_generichash_init(&h, keys->tag, sizeof keys->tag, TAG);
        add_number(&h, 5);
        add_piece(&h, PASETO_HEADER, HEADER);
        add_piece(&h, p->nonce, PASETO_NONCE);
        add_piece(&h, p->cipher, p->cipher_size);
        add_piece(&h, p->footer, p->footer_size);
        add_piece(&h, p->implicit, p->implicit_size);
        (void)crypto_generichash_final(&h, ret, TAG);
        sodium_memzero(&h, sizeof h);
}

/* --- making ----------------------------------------------------------------------------------------------------- */

int paseto_seal_with_nonce(const struct paseto_key *key, const uint8_t nonce[PASETO_NONCE], const void *payload,
                           size_t payload_size, const void *footer, size_t footer_size, const void *implicit,
                           size_t implicit_size, struct buf *out) {
        uint8_t body[BODY_MAX], *cipher = body + PASETO_NONCE;
        struct split keys;

        if (payload_size > PASETO_PAYLOAD_MAX || footer_size > PASETO_FOOTER_MAX || implicit_size > PASETO_IMPLICIT_MAX)
                return ERR_LIMIT;
        memcpy(body, nonce, PASETO_NONCE);
        split_key(key, nonce, &keys);
        if (payload_size > 0)
                (void)crypto_stream_xchacha20_xor(cipher, payload, payload_size, keys.cipher_nonce, keys.cipher);
        make_tag(&keys,
                 &(struct pieces){.nonce = nonce,
                                  .cipher = cipher,
                                  .cipher_size = payload_size,
                                  .footer = footer,
                                  .footer_size = footer_size,
                                  .implicit = implicit,
                                  .implicit_size = implicit_size},
                 cipher + payload_size);
        sodium_memzero(&keys, sizeof keys);

        buf_str(out, PASETO_HEADER);
        base64url_add(out, body, payload_size + OVERHEAD);
        if (footer_size > 0) {
                buf_str(out, ".");
                base64url_add(out, footer, footer_size);
        }
        return buf_ok(out) ? 0 : -ENOMEM;
}

int paseto_seal(const struct paseto_key *key, const void *payload, size_t payload_size, const void *footer,
                size_t footer_size, const void *implicit, size_t implicit_size, struct buf *out) {
        uint8_t nonce[PASETO_NONCE];

        if (sodium_init() < 0)
                return -EIO;
        randombytes_buf(nonce, sizeof nonce);
        return paseto_seal_with_nonce(key, nonce, payload, payload_size, footer, footer_size, implicit, implicit_size,
                                      out);
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* The two texts of a token. The footer's may not be there; it is never there and empty, which would be a second
 * spelling of a token without one. */
static bool split_text(const char *token, size_t size, const char **ret_body, size_t *ret_body_size,
                       const char **ret_footer, size_t *ret_footer_size) {
        const char *dot;

        if (size <= HEADER || size > PASETO_TOKEN_MAX || memcmp(token, PASETO_HEADER, HEADER) != 0)
                return false;
        *ret_body = token + HEADER;
        *ret_body_size = size - HEADER;
        *ret_footer = NULL;
        *ret_footer_size = 0;
        dot = memchr(*ret_body, '.', *ret_body_size);
        if (dot) {
                *ret_footer = dot + 1;
                *ret_footer_size = (size_t)(token + size - *ret_footer);
                *ret_body_size = (size_t)(dot - *ret_body);
        }
        return !dot || *ret_footer_size > 0;
}

int paseto_footer(const char *token, size_t size, uint8_t ret[PASETO_FOOTER_MAX], size_t *ret_size) {
        const char *body, *footer;
        size_t body_size, footer_size, n = 0;
        uint8_t bytes[PASETO_FOOTER_MAX];

        if (!split_text(token, size, &body, &body_size, &footer, &footer_size) ||
            (footer && !base64url_read(footer, footer_size, bytes, sizeof bytes, &n)))
                return ERR_INPUT;
        memcpy(ret, bytes, n);
        *ret_size = n;
        return 0;
}

int paseto_open(const struct paseto_key *key, const char *token, size_t size, const void *implicit,
                size_t implicit_size, struct buf *out) {
        uint8_t body[BODY_MAX], footer[PASETO_FOOTER_MAX], plain[PASETO_PAYLOAD_MAX], tag[TAG];
        const char *body_text, *footer_text;
        size_t body_text_size, footer_text_size, body_size, footer_size = 0;
        struct split keys;

        if (implicit_size > PASETO_IMPLICIT_MAX ||
            !split_text(token, size, &body_text, &body_text_size, &footer_text, &footer_text_size) ||
            !base64url_read(body_text, body_text_size, body, sizeof body, &body_size) || body_size < OVERHEAD ||
            (footer_text && !base64url_read(footer_text, footer_text_size, footer, sizeof footer, &footer_size)))
                return ERR_INPUT;

        size_t plain_size = body_size - OVERHEAD;
        uint8_t *cipher = body + PASETO_NONCE;
        split_key(key, body, &keys);
        make_tag(&keys,
                 &(struct pieces){.nonce = body,
                                  .cipher = cipher,
                                  .cipher_size = plain_size,
                                  .footer = footer,
                                  .footer_size = footer_size,
                                  .implicit = implicit,
                                  .implicit_size = implicit_size},
                 tag);
        bool good = sodium_memcmp(tag, cipher + plain_size, TAG) == 0;
        if (good) {
                (void)crypto_stream_xchacha20_xor(plain, cipher, plain_size, keys.cipher_nonce, keys.cipher);
                buf_add(out, plain, plain_size);
                sodium_memzero(plain, plain_size);
        }
        sodium_memzero(&keys, sizeof keys);
        if (!good)
                return ERR_REFUSED;
        return buf_ok(out) ? 0 : -ENOMEM;
}
