/* What needs no server: URLs, and keystores of others. */
#include "base/json-read.h"
#include "base/test.h"
#include "remote/keystore.h"
#include "remote/peer.h"
#include "remote/url.h"

static void servers(void) {
        static const struct {
                const char *text, *canonical, *host, *port, *file;
                bool tls, address;
        } rows[] = {
                {"http://127.0.0.1:7070", "http://127.0.0.1:7070", "127.0.0.1", "7070", "http-127.0.0.1-7070.json",
                 false, true},
                {"HTTPS://Example.ORG/", "https://example.org", "example.org", "443", "https-example.org-443.json",
                 true, false},
                {"https://example.org:443", "https://example.org", "example.org", "443", "https-example.org-443.json",
                 true, false},
                {"https://example.org:80", "https://example.org:80", "example.org", "80", "https-example.org-80.json",
                 true, false},
                {"http://[::1]:80", "http://[::1]", "::1", "80", "http-[__1]-80.json", false, true},
                {"http://localhost", "http://localhost", "localhost", "80", "http-localhost-80.json", false, false},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct url u;
                char file[URL_TEXT];

                CHECK(url_parse(rows[i].text, &u, NULL) == 0);
                CHECK_STR(u.text, rows[i].canonical);
                CHECK_STR(u.host, rows[i].host);
                CHECK_STR(u.port, rows[i].port);
                CHECK(u.tls == rows[i].tls && u.is_address == rows[i].address);
                CHECK_STR(u.domain, strstr(u.text, "://") + 3);
                url_file(&u, file, sizeof file);
                CHECK_STR(file, rows[i].file);
        }
}

static void no_servers(void) {
        static const char *const texts[] = {"",
                                            "example.org",
                                            "http://",
                                            "https:///",
                                            "ftp://example.org",
                                            "https://user@example.org",
                                            "https://user:word@example.org",
                                            "https://example.org/path",
                                            "https://example.org//",
                                            "https://example.org?x",
                                            "https://example.org#x",
                                            "https://example.org:0",
                                            "https://example.org:65536",
                                            "https://exa mple.org",
                                            "https://example.org\r\nX: y",
                                            "http://[::1",
                                            "http://::1:80"};
        struct err err;
        struct url u;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                bool refused = url_parse(texts[i], &u, &err) == ERR_INPUT;
                if (!refused)
                        (void)printf("# '%s'\n", texts[i]);
                CHECK(refused);
        }
}

static void links(void) {
        struct err err = {0};
        const char *link = NULL;
        struct url u;

        CHECK(url_parse_link("http://127.0.0.1:7070/#link=abc", &u, &link, &err) == 0);
        CHECK_STR(u.text, "http://127.0.0.1:7070");
        CHECK_STR(link, "abc");
        CHECK(url_parse_link("http://127.0.0.1:7070/#link=", &u, &link, &err) == ERR_INPUT);
        CHECK(url_parse_link("http://127.0.0.1:7070/", &u, &link, &err) == ERR_INPUT);
        CHECK(url_parse_link("nowhere/#link=topsecret", &u, &link, &err) == ERR_INPUT);
        CHECK(!strstr(err.text, "topsecret") && !strstr(err.hint, "topsecret"));
}

/* The examples of the definition of Web3 Secret Storage. */
#define SEALED                                                                                                         \
        "{\"crypto\":{\"cipher\":\"aes-128-ctr\",\"cipherparams\":{\"iv\":\"83dbcc02d8ccb40e466191a123791e0e\"},"      \
        "\"ciphertext\":\"d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c\",\"kdf\":\"scrypt\","      \
        "\"kdfparams\":{\"dklen\":32,\"n\":262144,\"p\":8,\"r\":1,"                                                    \
        "\"salt\":\"ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19\"},"                              \
        "\"mac\":\"2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097\"},"                               \
        "\"id\":\"3198bc9c-6672-5ab3-d995-4942343ae5b6\",\"version\":3}"
#define SEALED_PBKDF2                                                                                                  \
        "{\"Crypto\":{\"cipher\":\"aes-128-ctr\",\"cipherparams\":{\"iv\":\"6087dab2f9fdbbfaddc31a909735c1e6\"},"      \
        "\"ciphertext\":\"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46\",\"kdf\":\"pbkdf2\","      \
        "\"kdfparams\":{\"c\":262144,\"dklen\":32,\"prf\":\"hmac-sha256\","                                            \
        "\"salt\":\"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd\"},"                              \
        "\"mac\":\"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2\"},\"version\":3}"
#define OPENED "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d"

static void keystores(void) {
        static const char *const texts[] = {SEALED, SEALED_PBKDF2};
        char digits[2 * WALLET_KEY + 1];
        uint8_t key[WALLET_KEY] = {0};

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                CHECK(json_check(texts[i], strlen(texts[i]), NULL) == 0);
                CHECK(keystore_open(texts[i], "testpassword", key, NULL) == 0);
                wallet_format(key, digits);
                CHECK_STR(digits, OPENED);
                CHECK(keystore_open(texts[i], "testpassworD", key, NULL) == ERR_REFUSED);
        }
}

/* The text with one part of it replaced. */
static void without(const char *part, const char *other) {
        const char *text = SEALED, *at = strstr(text, part);
        uint8_t key[WALLET_KEY];
        char changed[2048];
        struct err err;

        CHECK(at != NULL);
        if (!at)
                return;
        (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, other, at + strlen(part));
        CHECK(json_check(changed, strlen(changed), NULL) == 0);
        bool refused = keystore_open(changed, "testpassword", key, &err) == ERR_INPUT;
        if (!refused)
                (void)printf("# %s\n", other);
        CHECK(refused);
}

static void keystores_that_are_none(void) {
        without("\"version\":3", "\"version\":4");
        without("aes-128-ctr", "aes-128-cbc");
        without("\"scrypt\"", "\"argon2id\"");
        without("\"n\":262144", "\"n\":262145");
        without("\"n\":262144", "\"n\":1");
        without("\"n\":262144", "\"n\":16777216");
        without("\"r\":1", "\"r\":4096");
        without("\"r\":1", "\"r\":0");
        without("\"p\":8", "\"p\":1000000");
        without("\"dklen\":32", "\"dklen\":16");
        without("83dbcc02d8ccb40e466191a123791e0e", "83dbcc02d8ccb40e466191a123791e");
        without("83dbcc02d8ccb40e466191a123791e0e", "zzdbcc02d8ccb40e466191a123791e0e");
        without("479c\"", "479c00\"");
}

/* Lines as the kernel of a little-endian host has them; the words are the same bytes elsewhere. */
#define ROW(address, state, uid)                                                                                       \
        "   0: " address " 00000000:0000 " state " 00000000:00000000 00:00000000 00000000 " uid "        0 12345 1"
#define FOUR    "0100007F:1F90"
#define ALL     "00000000:1F90"
#define SIX     "00000000000000000000000001000000:1F90"
#define ALL_SIX "00000000000000000000000000000000:1F90"
#define MAPPED  "0000000000000000FFFF00000100007F:1F90"

static void listeners(void) {
        static const struct {
                const char *at, *lines[3];
                unsigned count, uid;
                bool mixed;
        } rows[] = {
                {"127.0.0.1:8080", {ROW(FOUR, "0A", "1000")}, 1, 1000, false},
                {"127.0.0.1:8080", {ROW(FOUR, "01", "1000"), ROW("0100007F:1F91", "0A", "7")}, 0, 0, false},
                {"127.0.0.1:8080", {ROW("0200007F:1F90", "0A", "7"), "  sl  local_address", "x"}, 0, 0, false},
                {"127.0.0.1:8080", {ROW(ALL, "0A", "7"), ROW(FOUR, "0A", "8"), ROW(ALL_SIX, "0A", "9")}, 1, 8, false},
                {"127.0.0.1:8080", {ROW(ALL, "0A", "7")}, 1, 7, false},
                {"127.0.0.1:8080", {ROW(ALL_SIX, "0A", "7")}, 1, 7, false},
                {"127.0.0.1:8080", {ROW(MAPPED, "0A", "7")}, 1, 7, false},
                {"127.0.0.1:8080", {ROW(SIX, "0A", "7")}, 0, 0, false},
                {"127.0.0.1:8080", {ROW(FOUR, "0A", "7"), ROW(FOUR, "0A", "8")}, 2, 8, true},
                {"127.0.0.1:8080", {ROW(FOUR, "0A", "8"), ROW(FOUR, "0A", "8")}, 2, 8, false},
                {"[::1]:8080", {ROW(SIX, "0A", "7"), ROW(FOUR, "0A", "8")}, 1, 7, false},
                {"[::1]:8080", {ROW(ALL_SIX, "0A", "7"), ROW(ALL, "0A", "8")}, 1, 7, false},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                union endpoint at;
                struct peer p;

                CHECK(endpoint_parse(rows[i].at, &at, NULL) == 0);
                peer_want(&p, &at);
                for (size_t k = 0; k < ELEMENTSOF(rows[i].lines) && rows[i].lines[k]; k++)
                        peer_look(&p, rows[i].lines[k]);
                if (p.count != rows[i].count || p.uid != rows[i].uid || p.mixed != rows[i].mixed)
                        (void)printf("# row %zu: %u of %u\n", i, p.count, (unsigned)p.uid);
                CHECK(p.count == rows[i].count && p.uid == rows[i].uid && p.mixed == rows[i].mixed);
        }
}

TEST_MAIN(TEST(listeners), TEST(servers), TEST(no_servers), TEST(links), TEST(keystores), TEST(keystores_that_are_none))
