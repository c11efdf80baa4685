/* Fuzz target: tokens of a known key, and the claims in them. A token that opens has no other spelling: sealed again
 * with its nonce it is the same text. Claims that are taken are those that session_make writes. The first byte chooses:
 * 't' a token, otherwise claims. */
#include <sodium.h>

#include "auth/base64url.h"
#include "auth/session.h"
#include "tests/fuzz/fuzz.h"

#define SECRET   "0123456789abcdefghijklmnopqrstuv"
#define AUDIENCE "https://stockade.example:7070"
#define NOW      1800000000000ull

static const struct keyring *ring(void) {
        static struct keyring *k;

        if (!k && keyring_open(&k, &(struct keyring_secret){SECRET, strlen(SECRET)}, 1, NULL) < 0)
                abort();
        return k;
}

static struct paseto_key session_key(void) {
        struct paseto_key key;

        memcpy(key.bytes, keyring_key(ring(), KEYRING_SESSION, NULL), sizeof key.bytes);
        return key;
}

static void assert_session(const char *token, size_t size) {
        struct session s = {0};
        struct err err = {0};
        int r = session_open(ring(), SESSION_PERSON, AUDIENCE, token, size, NOW, &s, &err);

        assert(r == 0 || ((r == ERR_INPUT || r == ERR_REFUSED) && err.text[0]));
        if (r < 0)
                return;
        assert(s.kind == SESSION_PERSON && str_eq(s.audience, AUDIENCE) && s.subject[0] && session_is_jti(s.jti));
        assert(s.expires_ms > NOW && s.issued_ms < s.expires_ms && s.expires_ms - s.issued_ms <= SESSION_TTL_MAX_MS);
        _cleanup_buf_ struct buf again = {0};
        assert(session_make(ring(), &s, &again, NULL) == 0);
        assert(session_open(ring(), SESSION_DOOR, AUDIENCE, token, size, NOW, &s, NULL) == ERR_REFUSED);
}

static void try_token(const char *token, size_t size) {
        _cleanup_buf_ struct buf payload = {0}, again = {0};
        struct paseto_key key = session_key();
        uint8_t footer[PASETO_FOOTER_MAX], body[PASETO_TOKEN_MAX];
        size_t footer_size, body_size;
        const char implicit[] = "stockade session 1\nperson\n" AUDIENCE;
        int r = paseto_open(&key, token, size, implicit, strlen(implicit), &payload);

        assert(r == 0 || ((r == ERR_INPUT || r == ERR_REFUSED) && payload.size == 0));
        assert_session(token, size);
        if (r < 0)
                return;
        assert(paseto_footer(token, size, footer, &footer_size) == 0);
        const char *text = token + strlen(PASETO_HEADER), *dot = memchr(text, '.', (size_t)(token + size - text));
        assert(base64url_read(text, (size_t)((dot ? dot : token + size) - text), body, sizeof body, &body_size));
        assert(paseto_seal_with_nonce(&key, body, payload.data, payload.size, footer, footer_size, implicit,
                                      strlen(implicit), &again) == 0);
        assert(again.size == size && memcmp(again.data, token, size) == 0);
}

static void try_claims(const uint8_t *data, size_t size) {
        _cleanup_buf_ struct buf token = {0};
        struct paseto_key key = session_key();
        const char implicit[] = "stockade session 1\nperson\n" AUDIENCE;
        char footer[64];

        (void)snprintf(footer, sizeof footer, "{\"kid\":\"%s\"}", keyring_current(ring()));
        int r = paseto_seal(&key, data, size, footer, strlen(footer), implicit, strlen(implicit), &token);
        assert(r == (size > PASETO_PAYLOAD_MAX ? ERR_LIMIT : 0));
        if (r == 0)
                assert_session(token.data, token.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *exact = NULL;

        if (size == 0 || size > 1 << 16)
                return 0;
        if (data[0] != 't') {
                try_claims(data, size);
                return 0;
        }
        exact = malloc(size - 1 + (size == 1));
        if (!exact)
                return 0;
        memcpy(exact, data + 1, size - 1); /* no byte behind it may be read */
        try_token(exact, size - 1);
        return 0;
}
