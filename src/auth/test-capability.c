/* Capabilities: made, narrowed, opened, asked. */
#include <sodium.h>

#include "auth/base64url.h"
#include "auth/capability-text.h"
#include "auth/rfc3339.h"
#include "base/test.h"

#define SECRET_A "0123456789abcdefghijklmnopqrstuv"
#define SECRET_B "another secret, which came after a"
#define SANDBOX  "sandbox/0123456789abcdef"
#define OWNER    "eth:0x9643d42cbf0f9d9126ca9ab403c93e470953d0c6"
#define NOW      1800000000000ull
#define HOUR     3600000ull

#define WORDS(...)                                                                                                     \
        { (const char *const[]){__VA_ARGS__}, ELEMENTSOF(((const char *const[]){__VA_ARGS__})) }

static struct keyring *ring(const char *current, const char *previous) {
        const struct keyring_secret secrets[] = {{current, strlen(current)},
                                                 {previous, previous ? strlen(previous) : 0}};
        struct keyring *k = NULL;

        CHECK(keyring_open(&k, secrets, previous ? 2 : 1, NULL) == 0);
        return k;
}

static void make(const struct keyring *k, struct buf *out) {
        const struct capability_grant g = {.owner = OWNER,
                                           .verbs = WORDS("exec", "files.read"),
                                           .resources = WORDS(SANDBOX "/*"),
                                           .issued_ms = NOW,
                                           .expires_ms = NOW + HOUR};
        char jti[SESSION_JTI];

        CHECK(capability_make(k, &g, jti, out, NULL) == 0 && session_is_jti(jti));
}

static bool may(const struct keyring *k, const struct buf *token, const char *verb, const char *resource,
                uint64_t now) {
        _cleanup_capability_ struct capability *c = NULL;
        struct err err = {0};
        int r = capability_open(k, token->data, token->size, &c, NULL);

        CHECK(r == 0);
        if (r < 0)
                return false;
        bool yes = capability_may(c, verb, resource, now, &err);
        CHECK(yes == capability_may(c, verb, resource, now, NULL) && yes != (err.text[0] != '\0'));
        return yes;
}

static void narrow(struct buf *token, const struct capability_limit *l) {
        struct buf out = {0};

        CHECK(capability_narrow(token->data, token->size, l, &out, NULL) == 0);
        buf_free(token);
        *token = out;
}

/* --- what a token permits --------------------------------------------------------------------------------------- */

static void grants(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf b = {0};
        _cleanup_capability_ struct capability *c = NULL;

        make(k, &b);
        CHECK(capability_is(b.data, b.size) && !capability_is("v4.local.AA", 11) && !capability_is("stockade-cap", 12));
        CHECK(capability_open(k, b.data, b.size, &c, NULL) == 0);
        CHECK_STR(capability_owner(c), OWNER);
        CHECK(session_is_jti(capability_jti(c)) && capability_expires_ms(c) == NOW + HOUR);
        CHECK(may(k, &b, "exec", SANDBOX, NOW) && may(k, &b, "files.read", SANDBOX "/files", NOW));
        CHECK(!may(k, &b, "files", SANDBOX, NOW) && !may(k, &b, "files.read.x", SANDBOX, NOW));
        CHECK(!may(k, &b, "delete", SANDBOX, NOW) && !may(k, &b, "exec", "sandbox", NOW));
        CHECK(!may(k, &b, "exec", "sandbox/0123456789abcdee", NOW) && !may(k, &b, "exec", SANDBOX "0", NOW));
        CHECK(!may(k, &b, "exec", "snapshot/0123456789abcdef", NOW));
        /* malformed questions */
        CHECK(!may(k, &b, "*", SANDBOX, NOW) && !may(k, &b, "", SANDBOX, NOW) && !may(k, &b, "EXEC", SANDBOX, NOW));
        CHECK(!may(k, &b, "exec", SANDBOX "/*", NOW) && !may(k, &b, "exec", "*", NOW) && !may(k, &b, "exec", "", NOW));
        CHECK(!may(k, &b, "exec", SANDBOX "/../x", NOW) && !may(k, &b, "exec", SANDBOX "//x", NOW));
        CHECK(!may(k, &b, "exec", SANDBOX "/", NOW) && !may(k, &b, "exec", "/" SANDBOX, NOW));
        /* moments */
        CHECK(may(k, &b, "exec", SANDBOX, NOW + HOUR - 1) && !may(k, &b, "exec", SANDBOX, NOW + HOUR));
        CHECK(!may(k, &b, "exec", SANDBOX, UINT64_MAX) && !may(k, &b, "exec", SANDBOX, 0));
        CHECK(may(k, &b, "exec", SANDBOX, NOW - SESSION_SKEW_MS) &&
              !may(k, &b, "exec", SANDBOX, NOW - SESSION_SKEW_MS - 1));
}

static void everything_and_exactly(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf all = {0}, one = {0};
        char jti[SESSION_JTI];

        CHECK(capability_make(k,
                              &(struct capability_grant){.owner = OWNER,
                                                         .verbs = WORDS("*"),
                                                         .resources = WORDS("*"),
                                                         .issued_ms = NOW,
                                                         .expires_ms = NOW + 1},
                              jti, &all, NULL) == 0);
        CHECK(may(k, &all, "anything", "any/thing", NOW) && !may(k, &all, "anything", "any/thing", NOW + 1));
        CHECK(capability_make(k,
                              &(struct capability_grant){.owner = OWNER,
                                                         .verbs = WORDS("get"),
                                                         .resources = WORDS("a/b"),
                                                         .issued_ms = NOW,
                                                         .expires_ms = NOW + 1},
                              jti, &one, NULL) == 0);
        CHECK(may(k, &one, "get", "a/b", NOW) && !may(k, &one, "get", "a/b/c", NOW) && !may(k, &one, "get", "a", NOW));
}

/* --- narrowing -------------------------------------------------------------------------------------------------- */

static void narrowing(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf b = {0};
        _cleanup_capability_ struct capability *whole = NULL, *part = NULL;

        make(k, &b);
        CHECK(capability_open(k, b.data, b.size, &whole, NULL) == 0);
        narrow(&b, &(struct capability_limit){.verbs = WORDS("files.read", "delete")});
        CHECK(may(k, &b, "files.read", SANDBOX, NOW) && !may(k, &b, "exec", SANDBOX, NOW));
        CHECK(!may(k, &b, "delete", SANDBOX, NOW)); /* the root never had it */
        narrow(&b, &(struct capability_limit){.resources = WORDS(SANDBOX "/files/*", "snapshot/*")});
        CHECK(may(k, &b, "files.read", SANDBOX "/files/a", NOW) && !may(k, &b, "files.read", SANDBOX, NOW));
        CHECK(!may(k, &b, "files.read", "snapshot/1", NOW));
        narrow(&b, &(struct capability_limit){.expires_ms = NOW + 2000, .not_before_ms = NOW + 1000});
        CHECK(!may(k, &b, "files.read", SANDBOX "/files/a", NOW + 999) &&
              may(k, &b, "files.read", SANDBOX "/files/a", NOW + 1000));
        CHECK(!may(k, &b, "files.read", SANDBOX "/files/a", NOW + 2000));
        /* later words, and more of them, do not help */
        narrow(&b,
               &(struct capability_limit){.verbs = WORDS("*"), .resources = WORDS("*"), .expires_ms = NOW + 24 * HOUR});
        CHECK(!may(k, &b, "exec", SANDBOX "/files/a", NOW + 1500) && !may(k, &b, "files.read", SANDBOX, NOW + 1500));
        CHECK(!may(k, &b, "files.read", SANDBOX "/files/a", NOW + 2000) &&
              may(k, &b, "files.read", SANDBOX "/files/a", NOW + 1500));
        CHECK(capability_open(k, b.data, b.size, &part, NULL) == 0 && capability_expires_ms(part) == NOW + 2000);
        CHECK_STR(capability_jti(part), capability_jti(whole)); /* revoked together */
        CHECK_STR(capability_owner(part), OWNER);
        /* an empty list permits nothing */
        static const char *const none[1] = {"x"};
        narrow(&b, &(struct capability_limit){.verbs = {none, 0}});
        CHECK(!may(k, &b, "files.read", SANDBOX "/files/a", NOW + 1500));
}

static void limits_of_limits(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf b = {0}, out = {0};
        const struct capability_limit small = {.verbs = WORDS("exec")};
        const char *many[CAPABILITY_WORDS + 1];
        char jti[SESSION_JTI];

        for (size_t i = 0; i < ELEMENTSOF(many); i++)
                many[i] = "exec";
        make(k, &b);
        CHECK(capability_narrow(b.data, b.size, &(struct capability_limit){0}, &out, NULL) == ERR_INPUT);
        CHECK(capability_narrow(b.data, b.size, &(struct capability_limit){.verbs = {many, ELEMENTSOF(many)}}, &out,
                                NULL) == ERR_INPUT);
        CHECK(capability_narrow(b.data, b.size, &(struct capability_limit){.verbs = WORDS("a b")}, &out, NULL) ==
              ERR_INPUT);
        CHECK(capability_narrow(b.data, b.size, &(struct capability_limit){.resources = WORDS("a/*/b")}, &out, NULL) ==
              ERR_INPUT);
        CHECK(capability_narrow(b.data, b.size, &(struct capability_limit){.expires_ms = UINT64_MAX}, &out, NULL) ==
              ERR_INPUT);
        CHECK(capability_narrow(b.data, b.size - 1, &small, &out, NULL) == ERR_INPUT);
        for (size_t i = 0; i < CAPABILITY_LIMITS; i++)
                narrow(&b, &small);
        CHECK(may(k, &b, "exec", SANDBOX, NOW));
        CHECK(capability_narrow(b.data, b.size, &small, &out, NULL) == ERR_LIMIT);
        CHECK(out.size == 0);
        /* grants */
        const char *long_word = SANDBOX
                "/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
                "12345678901234567890123456789";
        const char *words[CAPABILITY_WORDS];
        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                words[i] = long_word;
        struct capability_grant g = {.owner = OWNER,
                                     .verbs = WORDS("*"),
                                     .resources = {words, ELEMENTSOF(words)},
                                     .issued_ms = NOW,
                                     .expires_ms = NOW + 1};
        CHECK(capability_make(k, &g, jti, &out, NULL) == ERR_LIMIT);
        g.resources.count = 16;
        CHECK(capability_make(k, &g, jti, &out, NULL) == 0 && out.size <= CAPABILITY_TOKEN_MAX);
        buf_free(&out);
        g.resources.count = 0;
        CHECK(capability_make(k, &g, jti, &out, NULL) == ERR_INPUT);
        g.resources = (struct capability_words)WORDS("a");
        g.expires_ms = NOW;
        CHECK(capability_make(k, &g, jti, &out, NULL) == ERR_INPUT);
        g.expires_ms = UINT64_MAX;
        CHECK(capability_make(k, &g, jti, &out, NULL) == ERR_INPUT);
        g.expires_ms = NOW + 1;
        g.owner = "a\"b";
        CHECK(capability_make(k, &g, jti, &out, NULL) == ERR_INPUT);
        g.owner = "";
        CHECK(capability_make(k, &g, jti, &out, NULL) == ERR_INPUT);
        CHECK(out.size == 0);
}

/* --- tokens that are not ours ----------------------------------------------------------------------------------- */

static int open_text(const struct keyring *k, const char *text, size_t size) {
        _cleanup_capability_ struct capability *c = NULL;

        return capability_open(k, text, size, &c, NULL);
}

static void every_bit_counts(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf b = {0};

        make(k, &b);
        narrow(&b, &(struct capability_limit){.verbs = WORDS("exec")});
        for (size_t i = 0; i < 8 * b.size; i++) {
                b.data[i / 8] = (char)(b.data[i / 8] ^ 1 << i % 8);
                CHECK(open_text(k, b.data, b.size) < 0);
                b.data[i / 8] = (char)(b.data[i / 8] ^ 1 << i % 8);
        }
        for (size_t n = 0; n < b.size; n++)
                CHECK(open_text(k, b.data, n) < 0);
        CHECK(open_text(k, b.data, b.size) == 0);
        buf_str(&b, "A");
        CHECK(open_text(k, b.data, b.size) < 0);
        CHECK(open_text(k, "", 0) == ERR_INPUT);
        CHECK(open_text(k, "stockade-cap1.", 14) == ERR_INPUT);
        CHECK(open_text(k, "stockade-cap1.8290d203ecf37ec8", 30) == ERR_INPUT);
        CHECK(open_text(k, "stockade-cap1.8290d203ecf37ec8.", 31) == ERR_INPUT);
        CHECK(open_text(k, "stockade-cap1.8290d203ecf37ec8..", 32) == ERR_INPUT);
        CHECK(open_text(k, "stockade-cap1.8290d203ecf37ec8.e30.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 78) ==
              ERR_REFUSED);
}

/* A limit that was appended cannot be taken away, exchanged, or put before another. */
static void order_counts(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL), *other = ring(SECRET_B, NULL),
                                         *both = ring(SECRET_B, SECRET_A);
        _cleanup_buf_ struct buf root = {0}, one = {0}, two = {0}, cut = {0}, swapped = {0};
        char *parts[6];
        size_t count = 0;

        make(k, &root);
        buf_add(&one, root.data, root.size);
        narrow(&one, &(struct capability_limit){.verbs = WORDS("exec")});
        buf_add(&two, one.data, one.size);
        narrow(&two, &(struct capability_limit){.resources = WORDS(SANDBOX)});
        CHECK(open_text(k, two.data, two.size) == 0);
        CHECK(open_text(other, two.data, two.size) == ERR_REFUSED);
        CHECK(open_text(both, two.data, two.size) == 0); /* rotation with overlap */
        for (char *p = two.data; p; p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL)
                parts[count++] = p;
        CHECK(count == 6); /* prefix, kid, root, two limits, tag */
        for (size_t i = 1; i < count; i++)
                parts[i][-1] = '\0';
        /* without the last, with the tag of the whole; without the first; the other way round */
        buf_printf(&cut, "%s.%s.%s.%s.%s", parts[0], parts[1], parts[2], parts[3], parts[5]);
        CHECK(open_text(k, cut.data, cut.size) == ERR_REFUSED);
        buf_free(&cut);
        buf_printf(&cut, "%s.%s.%s.%s.%s", parts[0], parts[1], parts[2], parts[4], parts[5]);
        CHECK(open_text(k, cut.data, cut.size) == ERR_REFUSED);
        buf_printf(&swapped, "%s.%s.%s.%s.%s.%s", parts[0], parts[1], parts[2], parts[4], parts[3], parts[5]);
        CHECK(open_text(k, swapped.data, swapped.size) == ERR_REFUSED);
        /* a limit as the root */
        buf_free(&cut);
        buf_printf(&cut, "%s.%s.%s.%s", parts[0], parts[1], parts[3], parts[5]);
        CHECK(open_text(k, cut.data, cut.size) == ERR_REFUSED);
}

/* Appends any bytes as a limit, with the right tag: as a holder can. */
static void append(struct buf *token, const void *bytes, size_t size) {
        static const char words[] = "stockade capability limit 1\n";
        _cleanup_buf_ struct buf b = {0};
        char *dot = strrchr(token->data, '.');
        uint8_t tag[32], next[32];
        crypto_generichash_state h;
        size_t n;

        CHECK(base64url_read(dot + 1, strlen(dot + 1), tag, sizeof tag, &n) && n == sizeof tag);
        (void)crypto_generichash_init(&h, tag, sizeof tag, sizeof next);
        (void)crypto_generichash_update(&h, (const uint8_t *)words, strlen(words));
        (void)crypto_generichash_update(&h, bytes, size);
        (void)crypto_generichash_final(&h, next, sizeof next);
        buf_add(&b, token->data, (size_t)(dot - token->data));
        buf_str(&b, ".");
        base64url_add(&b, bytes, size);
        buf_str(&b, ".");
        base64url_add(&b, next, sizeof next);
        buf_free(token);
        buf_add(token, b.data, b.size);
}

static void limits_that_are_void(void) {
        static const char *const bad[] = {
                "{}",
                "[]",
                "null",
                "true",
                "{\"verbs\":[]} ,",
                "{\"verbs\":\"exec\"}",
                "{\"verbs\":[1]}",
                "{\"verbs\":[\"exec\",null]}",
                "{\"verbs\":[\"Exec\"]}",
                "{\"verbs\":[\"ex\\u0065c\"]}",
                "{\"\\u0076erbs\":[\"exec\"]}",
                "{\"verbs\":[[\"exec\"]]}",
                "{\"verbs\":{\"0\":\"exec\"}}",
                "{\"verbs\":[\"exec\"],\"verbs\":[\"*\"]}",
                "{\"Verbs\":[\"exec\"]}",
                "{\"verbs\":[\"exec\"],\"owner\":\"eth:0x00\"}",
                "{\"jti\":\"00112233445566778899aabbccddeeff\"}",
                "{\"iat\":\"2027-01-15T08:00:00Z\"}",
                "{\"exp\":1800000000}",
                "{\"exp\":\"tomorrow\"}",
                "{\"exp\":null}",
                "{\"nbf\":\"2027-02-31T08:00:00Z\"}",
                "{\"resources\":[\"a//b\"]}",
                "{\"resources\":[\"a/../b\"]}",
                "{\"resources\":[\"../b\"]}",
                "{\"resources\":[\"a/**\"]}",
                "{\"resources\":[\"/*\"]}",
                "{\"resources\":[\"a*\"]}",
                "{\"resources\":[\"b\u00fccher\"]}",
                "{\"widen\":true}",
                "{\"verbs\":[\"exec\"]}x",
                "not json",
        };
        static const char loose[] = " { \"exp\" : \"2027-01-15T08:30:00+00:00\" } ";
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_buf_ struct buf b = {0};

                make(k, &b);
                append(&b, bad[i], strlen(bad[i]));
                if (open_text(k, b.data, b.size) != ERR_REFUSED)
                        CHECK_STR("accepted", bad[i]);
                /* and stays so, whatever comes behind it */
                narrow(&b, &(struct capability_limit){.verbs = WORDS("exec")});
                CHECK(open_text(k, b.data, b.size) == ERR_REFUSED);
        }
        _cleanup_buf_ struct buf b = {0};
        make(k, &b);
        append(&b, loose, strlen(loose)); /* other people's JSON is fine */
        CHECK(may(k, &b, "exec", SANDBOX, NOW));
        append(&b, "{\"verbs\":[\"exec\"]}\0", 19);
        CHECK(open_text(k, b.data, b.size) == ERR_REFUSED);
}

/* Whatever a holder appends: never more than before. */
static void never_wider(void) {
        static const char *const verbs[] = {"exec", "files.read", "delete", "get"},
                                 *const resources[] = {"sandbox",          SANDBOX,      SANDBOX "/files",
                                                       SANDBOX "/files/a", "snapshot/1", "a"},
                                 *const verb_words[] = {"exec", "files.read", "delete", "*"},
                                 *const resource_words[] = {"*", SANDBOX,    SANDBOX "/*", SANDBOX "/files/*",
                                                            "a", "sandbox/*"};
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        unsigned seed = 7, yes = 0;

        for (unsigned round = 0; round < 200; round++) {
                _cleanup_buf_ struct buf b = {0};
                bool before[4][6], after;

                make(k, &b);
                memset(before, true, sizeof before);
                for (unsigned step = 0; step < 5; step++) {
                        const char *v[2], *r[2];
                        for (size_t i = 0; i < 2; i++) {
                                seed = seed * 1103515245 + 12345;
                                v[i] = verb_words[seed >> 16 & 3];
                                r[i] = resource_words[(seed >> 20 & 0xff) % 6];
                        }
                        struct capability_limit l = {.verbs = {seed & 1 << 28 ? v : NULL, 2},
                                                     .resources = {r, seed >> 29 & 1 ? 2 : 1},
                                                     .expires_ms = NOW + 1 + (seed >> 16 & 0xff)};
                        for (size_t i = 0; i < 4; i++)
                                for (size_t j = 0; j < 6; j++) {
                                        after = may(k, &b, verbs[i], resources[j], NOW);
                                        CHECK(before[i][j] || !after);
                                        before[i][j] = after;
                                        yes += after;
                                }
                        narrow(&b, &l);
                }
        }
        CHECK(yes > 1000); /* the test is not about nothing */
}

/* The three kinds of secrets that a client can hold are never taken for each other. */
static void other_tokens(void) {
        _cleanup_keyring_ struct keyring *k = ring(SECRET_A, NULL);
        _cleanup_buf_ struct buf c = {0}, t = {0};
        struct session s = {.kind = SESSION_PERSON,
                            .subject = OWNER,
                            .audience = "x",
                            .issued_ms = NOW,
                            .expires_ms = NOW + 1},
                       got;

        make(k, &c);
        CHECK(session_make(k, &s, &t, NULL) == 0);
        CHECK(open_text(k, t.data, t.size) == ERR_INPUT && !capability_is(t.data, t.size));
        CHECK(session_open(k, SESSION_PERSON, "x", c.data, c.size, NOW, &got, NULL) == ERR_INPUT);
        CHECK(capability_narrow(t.data, t.size, &(struct capability_limit){.expires_ms = NOW}, &c, NULL) == ERR_INPUT);
}

TEST_MAIN(TEST(grants), TEST(everything_and_exactly), TEST(narrowing), TEST(limits_of_limits), TEST(every_bit_counts),
          TEST(order_counts), TEST(limits_that_are_void), TEST(never_wider), TEST(other_tokens))
