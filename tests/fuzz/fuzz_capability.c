/* Fuzz target: capabilities. The first byte chooses: 't' a token as text, otherwise limits, which are appended with the
 * right tags as a holder can (a NUL stands between two). Whatever is appended, the token permits nothing that it did
 * not permit before. */
#include <sodium.h>

#include "auth/base64url.h"
#include "auth/capability-text.h"
#include "tests/fuzz/fuzz.h"

#define SECRET "0123456789abcdefghijklmnopqrstuv"
#define NOW    1800000000000ull

static const char *const verbs[] = {"exec", "files.read", "delete"};
static const char *const resources[] = {"sandbox", "sandbox/1", "sandbox/1/port/80", "sandbox/12", "snapshot/1"};

typedef bool answers[ELEMENTSOF(verbs)][ELEMENTSOF(resources)];

static const struct keyring *ring(void) {
        static struct keyring *k;

        if (!k && keyring_open(&k, &(struct keyring_secret){SECRET, strlen(SECRET)}, 1, NULL) < 0)
                abort();
        return k;
}

/* False if the token is void. */
static bool ask(const char *token, size_t size, answers ret) {
        _cleanup_capability_ struct capability *c = NULL;
        struct err err = {0};
        int r = capability_open(ring(), token, size, &c, &err);

        assert(r == 0 || ((r == ERR_INPUT || r == ERR_REFUSED) && err.text[0]));
        if (r < 0)
                return false;
        assert(session_is_jti(capability_jti(c)) && capability_owner(c)[0]);
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                for (size_t j = 0; j < ELEMENTSOF(resources); j++) {
                        ret[i][j] = capability_may(c, verbs[i], resources[j], NOW, NULL);
                        assert(!ret[i][j] || capability_expires_ms(c) > NOW);
                        assert(!capability_may(c, verbs[i], resources[j], capability_expires_ms(c), NULL));
                }
        return true;
}

static void append(struct buf *token, const void *limit, size_t size) {
        static const char words[] = "stockade capability limit 1\n";
        const char *dot = strrchr(token->data, '.');
        crypto_generichash_state h;
        uint8_t tag[CAPABILITY_TAG];
        size_t n;

        assert(base64url_read(dot + 1, strlen(dot + 1), tag, sizeof tag, &n) && n == sizeof tag);
        (void)crypto_generichash_init(&h, tag, sizeof tag, sizeof tag);
        (void)crypto_generichash_update(&h, (const uint8_t *)words, strlen(words));
        (void)crypto_generichash_update(&h, limit, size);
        (void)crypto_generichash_final(&h, tag, sizeof tag);
        token->size = (size_t)(dot + 1 - token->data);
        base64url_add(token, limit, size);
        buf_str(token, ".");
        base64url_add(token, tag, sizeof tag);
}

static void try_limits(const uint8_t *data, size_t size) {
        _cleanup_buf_ struct buf token = {0};
        const char *v[] = {"exec", "files.read"}, *r[] = {"sandbox/1/*", "snapshot/*"};
        const struct capability_grant g = {
                .owner = "eth:0x00", .verbs = {v, 2}, .resources = {r, 2}, .issued_ms = NOW, .expires_ms = NOW + 1000};
        char jti[SESSION_JTI];
        answers before, after;
        bool good = capability_make(ring(), &g, jti, &token, NULL) == 0 && ask(token.data, token.size, before);

        assert(good && before[0][1] && !before[2][1] && !before[0][0] && !before[0][3]);
        for (size_t at = 0, limits = 0; at < size && limits < CAPABILITY_LIMITS + 2; limits++) {
                const uint8_t *end = memchr(data + at, '\0', size - at);
                size_t n = end ? (size_t)(end - data) - at : size - at;

                append(&token, data + at, n);
                bool opens = buf_ok(&token) && ask(token.data, token.size, after);
                assert(good || !opens); /* void stays void */
                good = opens;
                for (size_t i = 0; good && i < ELEMENTSOF(verbs); i++)
                        for (size_t j = 0; j < ELEMENTSOF(resources); j++)
                                assert(before[i][j] || !after[i][j]);
                if (good)
                        memcpy(before, after, sizeof before);
                if (!buf_ok(&token))
                        return;
                at += n + 1;
        }
}

static void try_token(const char *token, size_t size) {
        static struct capability_text t;
        _cleanup_buf_ struct buf narrowed = {0}, again = {0};
        const char *verb = "exec";
        answers a, b;
        bool opens = ask(token, size, a);

        if (!capability_text_split(token, size, &t)) {
                assert(!opens);
                return;
        }
        /* one spelling: put together again, it is the same text */
        buf_printf(&again, CAPABILITY_PREFIX "%s", t.kid);
        for (size_t i = 0; i < t.count; i++) {
                buf_str(&again, ".");
                base64url_add(&again, capability_text_part(&t, i), t.size[i]);
        }
        buf_str(&again, ".");
        base64url_add(&again, t.tag, sizeof t.tag);
        assert(again.size == size && memcmp(again.data, token, size) == 0);

        int r = capability_narrow(token, size, &(struct capability_limit){.verbs = {&verb, 1}}, &narrowed, NULL);
        assert(r == 0 || r == ERR_LIMIT);
        if (r == 0)
                assert(ask(narrowed.data, narrowed.size, b) == opens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *exact = NULL;

        if (size == 0 || size > 1 << 16)
                return 0;
        if (data[0] != 't') {
                try_limits(data, size);
                return 0;
        }
        exact = malloc(size - 1 + (size == 1));
        if (!exact)
                return 0;
        memcpy(exact, data + 1, size - 1); /* no byte behind it may be read */
        try_token(exact, size - 1);
        return 0;
}
