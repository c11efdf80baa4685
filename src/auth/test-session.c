/* The key ring, values at rest, sessions, and what a rotation keeps. */
#include <sodium.h>

#include "auth/session-memo.h"
#include "base/test.h"

#define SECRET_A "0123456789abcdefghijklmnopqrstuv"
#define SECRET_B "another secret, which came after a"
#define SECRET_C "the third of them, hopefully enough"
#define AUDIENCE "https://stockade.example:7070"
#define NOW      1800000000000ull

static struct keyring *ring(const char *current, const char *previous) {
        const struct keyring_secret secrets[] = {{current, strlen(current)},
                                                 {previous, previous ? strlen(previous) : 0}};
        struct keyring *k = NULL;

        CHECK(keyring_open(&k, secrets, previous ? 2 : 1, NULL) == 0);
        return k;
}

/* --- keys ------------------------------------------------------------------------------------------------------- */

/* As node's hkdfSync makes them. */
static void derivation(void) {
        static const char *const keys[] = {
                [KEYRING_SESSION] = "36efc3ec99404ac019eacc0b82652e3d814f74f039842f00d2bb44e30a1c9832",
                [KEYRING_CAPABILITY] = "552c8aab129caf800c47488bdf3ec68d844d7157c190364413ebddb19fa24944",
                [KEYRING_WRAP] = "bebbfa99304ca6ee7bd08ebd58416e75b1e398ce10da357ff741d40cba0e08f7"};
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        char text[2 * KEYRING_KEY + 1];

        CHECK_STR(keyring_current(k), "8290d203ecf37ec8");
        CHECK_STR(keyring_id(k, 0), keyring_current(k));
        CHECK(!keyring_id(k, 1));
        for (unsigned p = 0; p < KEYRING_PURPOSES; p++)
                CHECK_STR(sodium_bin2hex(text, sizeof text, keyring_key(k, (enum keyring_purpose)p, NULL), KEYRING_KEY),
                          keys[p]);
        CHECK(!keyring_key(k, KEYRING_PURPOSES, NULL));
        CHECK(!keyring_key(k, (enum keyring_purpose)77, NULL));
        CHECK(!keyring_key(k, KEYRING_SESSION, ""));
        CHECK(!keyring_key(k, KEYRING_SESSION, "8290d203ecf37ec9"));
        CHECK(!keyring_key(k, KEYRING_SESSION, "8290D203ECF37EC8"));
}

static void generations(void) {
        _cleanup_keyring_ struct keyring *a = ring(SECRET_A, NULL), *b = ring(SECRET_B, SECRET_A);

        CHECK_STR(keyring_id(b, 1), keyring_current(a));
        CHECK(!str_eq(keyring_current(a), keyring_current(b)));
        for (unsigned p = 0; p < KEYRING_PURPOSES; p++) {
                enum keyring_purpose purpose = (enum keyring_purpose)p;

                CHECK(memcmp(keyring_key(a, purpose, NULL), keyring_key(b, purpose, keyring_current(a)), KEYRING_KEY) ==
                      0);
                CHECK(memcmp(keyring_key(b, purpose, NULL), keyring_key(b, purpose, keyring_current(a)), KEYRING_KEY) !=
                      0);
                for (unsigned q = 0; q < p; q++)
                        CHECK(memcmp(keyring_key(a, purpose, NULL), keyring_key(a, (enum keyring_purpose)q, NULL),
                                     KEYRING_KEY) != 0);
        }
}

static void secrets_that_are_none(void) {
        static const char large[KEYRING_SECRET_MAX + 1] = "0123456789";
        const struct keyring_secret bad[][2] = {
                {{"", 0}},
                {{SECRET_A, KEYRING_SECRET_MIN - 1}},
                {{SECRET_A, 32}, {SECRET_B, 31}},
                {{SECRET_A, 32}, {SECRET_A, 32}},
                {{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 40}},
                {{"abcdefgabcdefgabcdefgabcdefgabcdefgabcdefg", 42}},
                {{large, sizeof large}},
        };
        struct keyring_secret many[2 + KEYRING_PREVIOUS];
        char texts[ELEMENTSOF(many)][64];
        struct keyring *k = NULL;
        struct err err = {0};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                CHECK(keyring_open(&k, bad[i], bad[i][1].data ? 2 : 1, &err) == ERR_INPUT);
                CHECK(!strstr(err.text, "0123456789abc") &&
                      !strstr(err.hint, "0123456789abc")); /* says nothing of it */
        }
        CHECK(keyring_open(&k, bad[0], 0, &err) == ERR_INPUT && err.hint[0]);
        for (size_t i = 0; i < ELEMENTSOF(many); i++) {
                (void)snprintf(texts[i], sizeof texts[i], "%zu " SECRET_A, i);
                many[i] = (struct keyring_secret){texts[i], strlen(texts[i])};
        }
        CHECK(keyring_open(&k, many, ELEMENTSOF(many), NULL) == ERR_LIMIT);
        CHECK(!k);
        CHECK(keyring_open(&k, many, ELEMENTSOF(many) - 1, NULL) == 0);
        keyring_close(k);
        keyring_close(NULL);
}

/* --- values at rest --------------------------------------------------------------------------------------------- */

static int unseal(const struct keyring *k, const char *sandbox, const char *name, const struct buf *sealed,
                  size_t size) {
        _cleanup_keyring_wipe_ struct buf out = {.max = 2 << 20};
        int r = keyring_unseal(k, sandbox, name, sealed->data, size, &out, NULL);

        CHECK(r == 0 || out.size == 0);
        CHECK(r < 0 || str_eq(out.data, "value"));
        return r;
}

static void sealing(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf s = {0}, t = {0};
        uint8_t wrapped[KEYRING_WRAPPED];

        CHECK(keyring_seal(k, "sandbox", "NAME", "value", 5, &s, NULL) == -ENOKEY && s.size == 0);
        CHECK(!keyring_has_data(k) && keyring_data_wrap(k, wrapped, NULL) == -ENOKEY);
        CHECK(keyring_data_make(k, wrapped, NULL) == 0 && keyring_has_data(k));
        CHECK(keyring_data_make(k, wrapped, NULL) == -EEXIST);
        CHECK(keyring_seal(k, "sandbox", "NAME", "value", 5, &s, NULL) == 0 && s.size == 5 + KEYRING_SEALED_MORE);
        CHECK(!memmem(s.data, s.size, "value", 5));
        CHECK(keyring_seal(k, "sandbox", "NAME", "value", 5, &t, NULL) == 0 && memcmp(s.data, t.data, s.size) != 0);
        CHECK(unseal(k, "sandbox", "NAME", &s, s.size) == 0);
        CHECK(unseal(k, "sandboy", "NAME", &s, s.size) == ERR_CORRUPT);
        CHECK(unseal(k, "sandbox", "NAMF", &s, s.size) == ERR_CORRUPT);
        CHECK(unseal(k, "sandboxN", "AME", &s, s.size) == ERR_CORRUPT);
        CHECK(unseal(k, "sandbo", "xNAME", &s, s.size) == ERR_CORRUPT);
        CHECK(unseal(k, "", "NAME", &s, s.size) == ERR_INPUT);
        for (size_t n = 0; n < s.size; n++)
                CHECK(unseal(k, "sandbox", "NAME", &s, n) == ERR_CORRUPT);
        for (size_t i = 0; i < 8 * s.size; i++) {
                s.data[i / 8] = (char)(s.data[i / 8] ^ 1 << i % 8);
                CHECK(unseal(k, "sandbox", "NAME", &s, s.size) ==
                      (i / 8 >= 1 && i / 8 < 9 ? ERR_REFUSED : ERR_CORRUPT));
                s.data[i / 8] = (char)(s.data[i / 8] ^ 1 << i % 8);
        }
        CHECK(keyring_unseal(k, "sandbox", "NAME", NULL, 0, &t, NULL) == ERR_CORRUPT);
}

static void sealing_caps(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_free_ char *large = calloc(1, KEYRING_VALUE_MAX + 1);
        _cleanup_keyring_wipe_ struct buf s = {.max = 4 << 20}, out = {.max = 4 << 20};
        uint8_t wrapped[KEYRING_WRAPPED];
        char name[KEYRING_NAME_MAX + 2];

        memset(name, 'n', sizeof name);
        name[sizeof name - 1] = '\0';
        CHECK(large && keyring_data_make(k, wrapped, NULL) == 0);
        CHECK(keyring_seal(k, "s", "n", large, KEYRING_VALUE_MAX + 1, &s, NULL) == ERR_LIMIT);
        CHECK(keyring_seal(k, "s", name, "v", 1, &s, NULL) == ERR_INPUT);
        CHECK(keyring_seal(k, name, "n", "v", 1, &s, NULL) == ERR_INPUT);
        CHECK(keyring_seal(k, "s", name + 1, large, KEYRING_VALUE_MAX, &s, NULL) == 0);
        CHECK(keyring_unseal(k, "s", name + 1, s.data, s.size, &out, NULL) == 0 && out.size == KEYRING_VALUE_MAX);
        buf_free(&s);
        buf_free(&out);
        CHECK(keyring_seal(k, "s", "n", NULL, 0, &s, NULL) == 0); /* empty values are values */
        CHECK(keyring_unseal(k, "s", "n", s.data, s.size, &out, NULL) == 0 && out.size == 0);
}

/* A → B with A → B alone → C with B: what was sealed at first opens at the end. */
static void rotation_keeps_values(void) {
        _cleanup_keyring_ struct keyring *a = ring(SECRET_A, NULL), *b = ring(SECRET_B, SECRET_A),
                                         *only_b = ring(SECRET_B, NULL), *c = ring(SECRET_C, SECRET_B),
                                         *only_a = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf s = {0}, later = {0};
        uint8_t wrapped[KEYRING_WRAPPED], before[KEYRING_WRAPPED];
        struct err err = {0};
        bool stale = true;

        CHECK(keyring_data_make(a, wrapped, NULL) == 0);
        CHECK(keyring_seal(a, "sandbox", "NAME", "value", 5, &s, NULL) == 0);
        CHECK(keyring_data_open(only_a, wrapped, sizeof wrapped, &stale, NULL) == 0 && !stale);
        CHECK(keyring_data_open(only_a, wrapped, sizeof wrapped, &stale, NULL) == -EEXIST);
        CHECK(keyring_data_open(b, wrapped, sizeof wrapped, &stale, NULL) == 0 && stale);
        CHECK(unseal(b, "sandbox", "NAME", &s, s.size) == 0);
        memcpy(before, wrapped, sizeof before);
        CHECK(keyring_data_wrap(b, wrapped, NULL) == 0);
        CHECK(keyring_seal(b, "sandbox", "NAME", "value", 5, &later, NULL) == 0);
        /* without the former secret, the old wrapping is no longer of use and the new one is */
        CHECK(keyring_data_open(only_b, before, sizeof before, &stale, &err) == ERR_REFUSED && err.hint[0]);
        CHECK(!keyring_has_data(only_b));
        CHECK(keyring_data_open(only_b, wrapped, sizeof wrapped, &stale, NULL) == 0 && !stale);
        CHECK(unseal(only_b, "sandbox", "NAME", &s, s.size) == 0 &&
              unseal(only_b, "sandbox", "NAME", &later, later.size) == 0);
        CHECK(keyring_data_open(c, wrapped, sizeof wrapped, &stale, NULL) == 0 && stale);
        CHECK(unseal(c, "sandbox", "NAME", &s, s.size) == 0 && unseal(c, "sandbox", "NAME", &later, later.size) == 0);
}

static void damaged_wrappings(void) {
        _cleanup_keyring_ struct keyring *a = ring(SECRET_A, NULL), *other = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf s = {0};
        uint8_t wrapped[KEYRING_WRAPPED], wrapped_other[KEYRING_WRAPPED];
        bool stale;

        CHECK(keyring_data_make(a, wrapped, NULL) == 0);
        for (size_t i = 0; i < 8 * sizeof wrapped; i++) {
                _cleanup_keyring_ struct keyring *k = ring(SECRET_A, SECRET_B);
                int r;

                wrapped[i / 8] ^= (uint8_t)(1 << i % 8);
                r = keyring_data_open(k, wrapped, sizeof wrapped, &stale, NULL);
                CHECK(r == ERR_CORRUPT || (r == ERR_REFUSED && i / 8 >= 1 && i / 8 < 9));
                wrapped[i / 8] ^= (uint8_t)(1 << i % 8);
                CHECK(i > 0 || keyring_data_open(k, wrapped, sizeof wrapped - 1, &stale, NULL) == ERR_CORRUPT);
                CHECK(i > 0 || keyring_data_open(k, wrapped, 0, &stale, NULL) == ERR_CORRUPT);
        }
        /* a value of one store is nothing in another, though the secret is the same */
        CHECK(keyring_data_make(other, wrapped_other, NULL) == 0);
        CHECK(keyring_seal(a, "sandbox", "NAME", "value", 5, &s, NULL) == 0);
        CHECK(unseal(other, "sandbox", "NAME", &s, s.size) == ERR_REFUSED);
}

/* The secret was lost, a new data key was made beside the old one; then the secret was found again. */
static void several_data_keys(void) {
        _cleanup_keyring_ struct keyring *a = ring(SECRET_A, NULL), *b = ring(SECRET_B, NULL),
                                         *both = ring(SECRET_B, SECRET_A);
        _cleanup_buf_ struct buf old = {0}, new = {0}, next = {0};
        uint8_t first[KEYRING_WRAPPED], second[KEYRING_WRAPPED];
        char id[KEYRING_ID];
        bool stale;

        CHECK(!keyring_data_id(a) && keyring_data_make(a, first, NULL) == 0);
        CHECK(keyring_seal(a, "sandbox", "NAME", "value", 5, &old, NULL) == 0);
        CHECK(keyring_data_open(b, first, sizeof first, &stale, NULL) == ERR_REFUSED);
        CHECK(keyring_data_make(b, second, NULL) == 0 && !str_eq(keyring_data_id(a), keyring_data_id(b)));
        CHECK(keyring_seal(b, "sandbox", "NAME", "value", 5, &new, NULL) == 0);
        CHECK(unseal(b, "sandbox", "NAME", &old, old.size) == ERR_REFUSED);

        CHECK(keyring_data_open(both, first, sizeof first, &stale, NULL) == 0 && stale);
        CHECK_STR(keyring_data_id(both), keyring_data_id(a));
        CHECK(keyring_data_open(both, second, sizeof second, &stale, NULL) == 0 && !stale);
        CHECK_STR(keyring_data_id(both), keyring_data_id(b));
        CHECK(unseal(both, "sandbox", "NAME", &old, old.size) == 0 &&
              unseal(both, "sandbox", "NAME", &new, new.size) == 0);
        CHECK(keyring_seal(both, "sandbox", "NAME", "value", 5, &next, NULL) == 0);
        keyring_sealed_by(next.data, next.size, id);
        CHECK_STR(id, keyring_data_id(b)); /* the last one is used */
        keyring_sealed_by(old.data, old.size, id);
        CHECK_STR(id, keyring_data_id(a));
        keyring_sealed_by(old.data, KEYRING_SEALED_MORE - 1, id);
        CHECK_STR(id, "");
        for (unsigned i = 2; i < KEYRING_DATA; i++) {
                _cleanup_keyring_ struct keyring *k = ring(SECRET_B, NULL);

                CHECK(keyring_data_make(k, first, NULL) == 0);
                CHECK(keyring_data_open(both, first, sizeof first, &stale, NULL) == 0);
        }
        _cleanup_keyring_ struct keyring *k = ring(SECRET_B, NULL);
        CHECK(keyring_data_make(k, first, NULL) == 0);
        CHECK(keyring_data_open(both, first, sizeof first, &stale, NULL) == ERR_LIMIT);
}

/* --- sessions --------------------------------------------------------------------------------------------------- */

static struct session sample(void) {
        return (struct session){.kind = SESSION_PERSON,
                                .subject = "eth:0x9643d42cbf0f9d9126ca9ab403c93e470953d0c6",
                                .audience = AUDIENCE,
                                .issued_ms = NOW,
                                .expires_ms = NOW + SESSION_TTL_MS};
}

static int open_at(const struct keyring *k, const struct buf *token, uint64_t now, struct session *ret) {
        return session_open(k, SESSION_PERSON, AUDIENCE, token->data, token->size, now, ret, NULL);
}

static void sessions(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        struct session s = sample(), other = sample(), got;
        _cleanup_buf_ struct buf b = {0}, c = {0};

        (void)snprintf(s.scope, sizeof s.scope, "sandbox/1 \"quoted\" \\ \u00fc");
        CHECK(session_make(k, &s, &b, NULL) == 0 && session_make(k, &other, &c, NULL) == 0);
        CHECK(session_is_jti(s.jti) && session_is_jti(other.jti) && !str_eq(s.jti, other.jti));
        CHECK(open_at(k, &b, NOW, &got) == 0);
        CHECK_STR(got.subject, s.subject);
        CHECK_STR(got.audience, s.audience);
        CHECK_STR(got.scope, s.scope);
        CHECK_STR(got.jti, s.jti);
        CHECK(got.kind == s.kind && got.issued_ms == NOW && got.not_before_ms == NOW && got.expires_ms == s.expires_ms);
}

static void session_moments(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        struct session s = sample(), got;
        _cleanup_buf_ struct buf b = {0}, later = {0};

        CHECK(session_make(k, &s, &b, NULL) == 0);
        CHECK(open_at(k, &b, s.expires_ms - 1, &got) == 0);
        CHECK(open_at(k, &b, s.expires_ms, &got) == ERR_REFUSED);
        CHECK(open_at(k, &b, UINT64_MAX, &got) == ERR_REFUSED);
        CHECK(open_at(k, &b, NOW - SESSION_SKEW_MS, &got) == 0);
        CHECK(open_at(k, &b, NOW - SESSION_SKEW_MS - 1, &got) == ERR_REFUSED);
        CHECK(open_at(k, &b, 0, &got) == ERR_REFUSED);
        s = sample();
        s.not_before_ms = NOW + 60000;
        CHECK(session_make(k, &s, &later, NULL) == 0);
        CHECK(open_at(k, &later, NOW, &got) == ERR_REFUSED && open_at(k, &later, NOW + 60000, &got) == 0);
}

static void sessions_for_something_else(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL), *other = ring(SECRET_B, NULL);
        struct session got;
        struct err err = {0};

        for (unsigned made = 0; made < SESSION_KINDS; made++) {
                _cleanup_buf_ struct buf b = {0};
                struct session s = sample();

                s.kind = (enum session_kind)made;
                CHECK(session_make(k, &s, &b, NULL) == 0);
                for (unsigned as = 0; as < SESSION_KINDS + 2; as++)
                        CHECK(session_open(k, (enum session_kind)as, AUDIENCE, b.data, b.size, NOW, &got, &err) ==
                              (made == as ? 0 : ERR_REFUSED));
                CHECK(session_open(k, s.kind, AUDIENCE "/", b.data, b.size, NOW, &got, NULL) == ERR_REFUSED);
                CHECK(session_open(k, s.kind, "", b.data, b.size, NOW, &got, NULL) == ERR_REFUSED);
                CHECK(session_open(other, s.kind, AUDIENCE, b.data, b.size, NOW, &got, NULL) == ERR_REFUSED);
                CHECK(err.text[0] && err.hint[0] && !strstr(err.text, "v4."));
        }
        for (unsigned i = 0; i < SESSION_KINDS; i++)
                for (unsigned j = 0; j < i; j++)
                        CHECK(!str_eq(session_kind_name((enum session_kind)i),
                                      session_kind_name((enum session_kind)j)));
}

static void sessions_that_cannot_be(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf b = {0};
        struct session bad[12];

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                bad[i] = sample();
        bad[0].subject[0] = '\0';
        bad[1].audience[0] = '\0';
        bad[2].subject[3] = '\n';
        bad[3].audience[3] = '\x7f';
        bad[4].scope[0] = '\xff';
        bad[5].expires_ms = bad[5].issued_ms;
        bad[6].expires_ms = bad[6].issued_ms + SESSION_TTL_MAX_MS + 1;
        bad[7].not_before_ms = bad[7].expires_ms;
        bad[8].kind = SESSION_KINDS;
        bad[9].issued_ms = UINT64_MAX - 1000;
        bad[9].expires_ms = UINT64_MAX;
        memset(bad[10].subject, 'x', sizeof bad[10].subject); /* without an end */
        bad[11].expires_ms = 0;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                CHECK(session_make(k, &bad[i], &b, NULL) == ERR_INPUT);
                CHECK(bad[i].jti[0] == '\0');
        }
        CHECK(b.size == 0);
}

/* Tokens that have our key and the right assertion, and claims that session_make never makes. */
static void claims_that_cannot_be(void) {
        static const char *const bad[] = {
                "",
                "[]",
                "null",
                "{}",
                "{\"sub\":\"a\",\"aud\":\"" AUDIENCE
                "\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":\"2027-01-15T08:00:00.000Z\","
                "\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeeff\",\"kind\":"
                "\"person\"}",
                "{\"sub\":\"a\",\"aud\":\"" AUDIENCE
                "\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":\"2027-01-15T08:00:00.000Z\","
                "\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeeff\",\"kind\":\"person\","
                "\"scope\":"
                "\"\",\"admin\":true}",
                "{\"sub\":\"a\",\"aud\":\"" AUDIENCE
                "\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":\"2027-01-15T08:00:00.000Z\","
                "\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeefF\",\"kind\":\"person\","
                "\"scope\":\"\"}",
                "{\"sub\":\"a\",\"aud\":\"" AUDIENCE
                "\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":\"2027-01-15T08:00:00.000Z\","
                "\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeeff\",\"kind\":\"door\","
                "\"scope\":\"\"}",
                "{\"sub\":\"a\",\"aud\":\"https://"
                "x\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":\"2027-01-15T08:00:00.000Z\","
                "\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeeff\",\"kind\":\"person\","
                "\"scope\":\"\"}",
                "{\"sub\":\"a\",\"aud\":\"" AUDIENCE "\",\"iat\":1800000000,\"nbf\":\"2027-01-15T08:00:00.000Z\","
                "\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeeff\",\"kind\":\"person\","
                "\"scope\":\"\"}",
                "{\"sub\":\"a\",\"aud\":\"" AUDIENCE
                "\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":\"2027-01-15T08:00:00.000Z\","
                "\"exp\":\"2028-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeeff\",\"kind\":\"person\","
                "\"scope\":\"\"}",
                "{\"sub\":\"a\\u0000b\",\"aud\":\"" AUDIENCE
                "\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":\"2027-01-15T08:00:00Z\","
                "\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":\"00112233445566778899aabbccddeeff\",\"kind\":\"person\","
                "\"scope\":\"\"}",
        };
        static const char good[] = "{\"sub\":\"a\",\"aud\":\"" AUDIENCE
                                   "\",\"iat\":\"2027-01-15T08:00:00.000Z\",\"nbf\":"
                                   "\"2027-01-15T08:00:00.000Z\",\"exp\":\"2027-01-15T09:00:00.000Z\",\"jti\":"
                                   "\"00112233445566778899aabbccddeeff\",\"kind\":\"person\",\"scope\":\"\"}",
                          implicit[] = "stockade session 1\nperson\n" AUDIENCE,
                          footer[] = "{\"kid\":\"8290d203ecf37ec8\"}";
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        struct paseto_key key;
        struct session got;

        memcpy(key.bytes, keyring_key(k, KEYRING_SESSION, NULL), sizeof key.bytes);
        for (size_t i = 0; i <= ELEMENTSOF(bad); i++) {
                _cleanup_buf_ struct buf b = {0};
                const char *claims = i < ELEMENTSOF(bad) ? bad[i] : good;

                CHECK(paseto_seal(&key, claims, strlen(claims), footer, strlen(footer), implicit, strlen(implicit),
                                  &b) == 0);
                if (open_at(k, &b, NOW, &got) != (claims == good ? 0 : ERR_REFUSED))
                        CHECK_STR("not as it should be", claims);
        }
        /* the key of another purpose, other footers */
        static const char *const footers[] = {"",
                                              "{\"kid\":\"8290D203ECF37EC8\"}",
                                              "{\"kid\":\"8290d203ecf37ec8\" }",
                                              "{\"kid\":\"8290d203ecf37ec80\"}",
                                              "8290d203ecf37ec8",
                                              "{\"kid\":\"8290d203ecf37ec9\"}"};
        for (size_t i = 0; i < ELEMENTSOF(footers); i++) {
                _cleanup_buf_ struct buf b = {0};

                CHECK(paseto_seal(&key, good, strlen(good), footers[i], strlen(footers[i]), implicit, strlen(implicit),
                                  &b) == 0);
                CHECK(open_at(k, &b, NOW, &got) == (i == ELEMENTSOF(footers) - 1 ? ERR_REFUSED : ERR_INPUT));
        }
        _cleanup_buf_ struct buf b = {0};
        memcpy(key.bytes, keyring_key(k, KEYRING_CAPABILITY, NULL), sizeof key.bytes);
        CHECK(paseto_seal(&key, good, strlen(good), footer, strlen(footer), implicit, strlen(implicit), &b) == 0);
        CHECK(open_at(k, &b, NOW, &got) == ERR_REFUSED);
}

static void session_texts(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf b = {0};
        struct session s = sample(), got = {.kind = SESSION_DOOR};

        CHECK(session_make(k, &s, &b, NULL) == 0);
        for (size_t i = 0; i < 8 * b.size; i++) {
                b.data[i / 8] = (char)(b.data[i / 8] ^ 1 << i % 8);
                CHECK(open_at(k, &b, NOW, &got) < 0);
                b.data[i / 8] = (char)(b.data[i / 8] ^ 1 << i % 8);
        }
        for (size_t n = 0; n < b.size; n++)
                CHECK(session_open(k, SESSION_PERSON, AUDIENCE, b.data, n, NOW, &got, NULL) < 0);
        CHECK(session_open(k, SESSION_PERSON, AUDIENCE, "", 0, NOW, &got, NULL) == ERR_INPUT);
        CHECK(got.kind == SESSION_DOOR); /* untouched */
        CHECK(session_is_jti("00112233445566778899aabbccddeeff") && !session_is_jti("") && !session_is_jti("00"));
        CHECK(!session_is_jti("00112233445566778899aabbccddeeff0") &&
              !session_is_jti("00112233445566778899AABBccddeeff"));
}

static void rotation_keeps_sessions(void) {
        _cleanup_keyring_ struct keyring *a = ring(SECRET_A, NULL), *b = ring(SECRET_B, SECRET_A),
                                         *only_b = ring(SECRET_B, NULL);
        struct session s = sample(), t = sample(), got;
        _cleanup_buf_ struct buf before = {0}, after = {0};

        CHECK(session_make(a, &s, &before, NULL) == 0 && session_make(b, &t, &after, NULL) == 0);
        CHECK(open_at(b, &before, NOW, &got) == 0);
        CHECK_STR(got.jti, s.jti);
        CHECK(open_at(b, &after, NOW, &got) == 0);
        CHECK(open_at(a, &after, NOW, &got) == ERR_REFUSED);
        CHECK(open_at(only_b, &before, NOW, &got) == ERR_REFUSED && open_at(only_b, &after, NOW, &got) == 0);
}

/* Through the memo everything is as without it. */
static void remembered_sessions(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL), *other = ring(SECRET_B, NULL);
        _cleanup_session_memo_ struct session_memo *m = NULL, *none = NULL;
        struct session sessions[40], got;
        struct buf tokens[40] = {{0}};

        CHECK(session_memo_open(&none, 0, NULL) == -EINVAL && session_memo_open(&none, 12, NULL) == -EINVAL);
        CHECK(session_memo_open(&m, 16, NULL) == 0);
        for (size_t i = 0; i < ELEMENTSOF(tokens); i++) {
                sessions[i] = sample();
                sessions[i].expires_ms = NOW + 1 + i;
                CHECK(session_make(k, &sessions[i], &tokens[i], NULL) == 0);
        }
        for (unsigned round = 0; round < 3; round++)
                for (size_t i = 0; i < ELEMENTSOF(tokens); i++)
                        for (unsigned again = 0; again < 2; again++) {
                                char *t = tokens[i].data;
                                size_t n = tokens[i].size;

                                CHECK(session_memo_get(m, k, SESSION_PERSON, AUDIENCE, t, n, NOW + i, &got, NULL) == 0);
                                CHECK_STR(got.jti, sessions[i].jti);
                                CHECK(session_memo_get(m, k, SESSION_PERSON, AUDIENCE, t, n, NOW + 1 + i, &got, NULL) ==
                                      ERR_REFUSED);
                                CHECK(session_memo_get(m, k, SESSION_PERSON, AUDIENCE, t, n, 0, &got, NULL) ==
                                      ERR_REFUSED);
                                CHECK(session_memo_get(m, k, SESSION_DOOR, AUDIENCE, t, n, NOW, &got, NULL) ==
                                      ERR_REFUSED);
                                CHECK(session_memo_get(m, k, SESSION_PERSON, "x", t, n, NOW, &got, NULL) ==
                                      ERR_REFUSED);
                                CHECK(session_memo_get(m, k, SESSION_PERSON, AUDIENCE, t, n - 1, NOW, &got, NULL) < 0);
                                t[n / 2] ^= 1;
                                CHECK(session_memo_get(m, k, SESSION_PERSON, AUDIENCE, t, n, NOW, &got, NULL) < 0);
                                t[n / 2] ^= 1;
                        }
        session_memo_forget(m);
        CHECK(session_memo_get(m, other, SESSION_PERSON, AUDIENCE, tokens[0].data, tokens[0].size, NOW, &got, NULL) ==
              ERR_REFUSED);
        CHECK(session_memo_get(m, k, SESSION_PERSON, AUDIENCE, "", 0, NOW, &got, NULL) == ERR_INPUT);
        for (size_t i = 0; i < ELEMENTSOF(tokens); i++)
                buf_free(&tokens[i]);
}

TEST_MAIN(TEST(derivation), TEST(generations), TEST(secrets_that_are_none), TEST(sealing), TEST(sealing_caps),
          TEST(rotation_keeps_values), TEST(damaged_wrappings), TEST(several_data_keys), TEST(sessions),
          TEST(session_moments), TEST(sessions_for_something_else), TEST(sessions_that_cannot_be),
          TEST(claims_that_cannot_be), TEST(session_texts), TEST(rotation_keeps_sessions), TEST(remembered_sessions))
