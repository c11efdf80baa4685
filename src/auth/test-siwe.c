/* Times, URIs, sign-in texts. The signed messages were made with siwe and ethers (npm); tests/auth compares more. */
#include "auth/siwe.h"

#include "auth/uri.h"
#include "base/test.h"

/* --- times ------------------------------------------------------------------------------------------------------ */

static uint64_t when(const char *text) {
        uint64_t ms = 0;

        CHECK(rfc3339_parse(text, strlen(text), &ms));
        return ms;
}

static void times(void) {
        CHECK(when("1970-01-01T00:00:00Z") == 0);
        CHECK(when("1970-01-01T00:00:00.001Z") == 1);
        CHECK(when("2000-02-29T12:00:00Z") == 951825600000);
        CHECK(when("2021-09-30T16:25:24-02:00") == when("2021-09-30T18:25:24Z"));
        CHECK(when("2021-09-30T18:25:24+02:00") == when("2021-09-30T16:25:24Z"));
        CHECK(when("2021-09-30T16:25:24-00:00") == when("2021-09-30T16:25:24Z"));
        CHECK(when("2021-09-30T16:25:24.5Z") == when("2021-09-30T16:25:24.500000000Z"));
        CHECK(when("2021-09-30T16:25:24.123999999Z") == when("2021-09-30T16:25:24.123Z"));
        CHECK(when("2016-12-31T23:59:60Z") == when("2017-01-01T00:00:00Z"));
        CHECK(when("2015-06-30T23:59:60Z") == when("2015-07-01T00:00:00Z"));
        CHECK(when("2017-01-01T08:59:60+09:00") == when("2017-01-01T00:00:00Z"));
        CHECK(when("9999-12-31T23:59:59.999Z") == 253402300799999);
}

static void times_that_are_none(void) {
        static const char *const bad[] = {
                "",
                "2021-09-30",
                "2021-09-30T16:25:24",
                "2021-09-30t16:25:24Z",
                "2021-09-30T16:25:24z",
                "2021-09-30 16:25:24Z",
                "2021-9-30T16:25:24Z",
                "2021-02-29T16:25:24Z",
                "2100-02-29T16:25:24Z",
                "2022-02-31T17:09:38.578Z",
                "2021-13-01T16:25:24Z",
                "2021-00-01T16:25:24Z",
                "2021-01-00T16:25:24Z",
                "2021-01-01T24:00:00Z",
                "2021-01-01T00:60:00Z",
                "2021-01-01T00:00:61Z",
                "2021-01-01T00:00:60Z",
                "2016-12-31T22:59:60Z",
                "2021-01-01T00:00:00.Z",
                "2021-01-01T00:00:00.1234567890Z",
                "2021-01-01T00:00:00+24:00",
                "2021-01-01T00:00:00+00:60",
                "2021-01-01T00:00:00+0000",
                "2021-01-01T00:00:00+00",
                "2021-01-01T00:00:00ZZ",
                "2021-01-01T00:00:00Z ",
                " 2021-01-01T00:00:00Z",
                "+021-01-01T00:00:00Z",
                "-021-01-01T00:00:00Z",
                "1969-12-31T23:59:59Z",
                "1970-01-01T00:59:59+01:00",
                "9999-12-31T23:59:59-00:01",
                "10000-01-01T00:00:00Z",
                "Wed Oct 05 2011 16:48:00 GMT+0200 (CEST)",
        };
        uint64_t ms = 7;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(!rfc3339_parse(bad[i], strlen(bad[i]), &ms));
        CHECK(!rfc3339_parse("2021-01-01T00:00:00\0", 20, &ms));
        CHECK(ms == 7);
}

static void times_there_and_back(void) {
        char text[RFC3339_TEXT];

        CHECK(rfc3339_format(0, text));
        CHECK_STR(text, "1970-01-01T00:00:00.000Z");
        CHECK(rfc3339_format(951868799999, text));
        CHECK_STR(text, "2000-02-29T23:59:59.999Z");
        /* every ten days and something, over 8000 years */
        for (uint64_t ms = 1; ms < 253402300800000; ms += 11ull * 23 * 3600 * 1000 + 61017 * 97)
                CHECK(rfc3339_format(ms, text) && when(text) == ms);
        CHECK(rfc3339_format(253402300799999, text));
        CHECK_STR(text, "9999-12-31T23:59:59.999Z");
        CHECK(!rfc3339_format(253402300800000, text));
        CHECK(!rfc3339_format(UINT64_MAX, text));
}

/* --- URIs ------------------------------------------------------------------------------------------------------- */

static void uris(void) {
        static const char *const good[] = {"https://service.org/login",
                                           "http://localhost:4361",
                                           "ipfs://Qme7ss3ARVgxv6rXq",
                                           "https://[::cafe]",
                                           "https://[v1.a:b]/",
                                           "https://127.0.0.1/?query=one#begin",
                                           "urn:isbn:0451450523",
                                           "mailto:a@b.c",
                                           "did:pkh:eip155:1:0xabc",
                                           "file:///etc",
                                           "x:",
                                           "a+b-c.1:/x",
                                           "http://h/%41%7e",
                                           "http://u:p@h:80/a;b=c,d/@:?a/b?c#d/?",
                                           "http://h:/"},
                                 *const bad[] = {"",
                                                 ":",
                                                 ":not_a_rfc3986_valid_uri_",
                                                 "service.org",
                                                 "1http://x",
                                                 "http://h/ x",
                                                 "http://h/%4",
                                                 "http://h/%4g",
                                                 "http://h/\"",
                                                 "http://h/<",
                                                 "http://h/{",
                                                 "http://h/\\",
                                                 "http://h/#a#b",
                                                 "http://h/[x]",
                                                 "http://[::1",
                                                 "http://[::1]x",
                                                 "http://[]/",
                                                 "http://[::g]/",
                                                 "http://[fe80::1%25eth0]/",
                                                 "http://[v.x]/",
                                                 "http://[v1.]/",
                                                 "http://[v1.%41]/",
                                                 "http://h:8a/",
                                                 "http://:80/",
                                                 "http://u@/",
                                                 "http://a@b@c/",
                                                 "http://h\n/",
                                                 "https://service.org/login - https://service.org/login/2",
                                                 "http://b\u00fccher.example/",
                                                 "h\u00e9://x"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                if (!uri_check(good[i], strlen(good[i])))
                        CHECK_STR("refused", good[i]);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (uri_check(bad[i], strlen(bad[i])))
                        CHECK_STR("accepted", bad[i]);
        CHECK(!uri_check("http://h\0.evil/", 15));
        CHECK(!uri_check("http://h/\0", 10));
        CHECK(!uri_check("http://h/\x7f", 10));
}

static void authorities(void) {
        static const char *const good[] = {"service.org",
                                           "127.0.0.1",
                                           "test@127.0.0.1:8080",
                                           "localhost:8080",
                                           "[::cafe]",
                                           "[::1]:7070",
                                           "a:b@h",
                                           "xn--bcher-kva.example",
                                           "h:"},
                                 *const bad[] = {"",
                                                 "#notrfc4501",
                                                 ":80",
                                                 "@",
                                                 "a@",
                                                 "a/b",
                                                 "a b",
                                                 "a?b",
                                                 "https://a",
                                                 "a:b",
                                                 "a:80:80",
                                                 "[::1",
                                                 "[::1]]",
                                                 "::1",
                                                 "a\nb",
                                                 "a%",
                                                 "a@b@c",
                                                 "b\u00fccher.example",
                                                 "\u0430pple.example",
                                                 "a\xff"};

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                if (!uri_check_authority(good[i], strlen(good[i])))
                        CHECK_STR("refused", good[i]);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (uri_check_authority(bad[i], strlen(bad[i])))
                        CHECK_STR("accepted", bad[i]);
        CHECK(!uri_check_authority("a\0b", 3));
}

/* --- messages --------------------------------------------------------------------------------------------------- */

#define ACCOUNT "0x9643D42CBf0F9d9126CA9ab403c93E470953d0c6"
#define HEAD    "stockade.example:7070 wants you to sign in with your Ethereum account:\n" ACCOUNT "\n\n"
#define NEEDED                                                                                                         \
        "URI: https://stockade.example:7070\nVersion: 1\nChain ID: 3799\nNonce: 0123456789abcdef\n"                    \
        "Issued At: 2027-01-15T08:00:00.000Z"
#define FULL                                                                                                           \
        HEAD "Sign in to Stockade.\n\n" NEEDED "\nExpiration Time: 2027-01-15T08:05:00.000Z\n"                         \
             "Not Before: 2027-01-15T08:00:00.000Z\nRequest ID: r-1\nResources:\n"                                     \
             "- https://stockade.example/tos\n- urn:x:y"
#define FULL_SIGNATURE                                                                                                 \
        "0x161f2bfd9f600e532513836e7e0cb4d672ca035032b1969009296de7c5a770d2"                                           \
        "16fdf6bd77134b4a26d53798d81a50ee705ebc69a99953712c9bcda3fa7bbaf41b"

static int parse(const char *text, struct siwe *ret) {
        return siwe_parse(text, strlen(text), ret, NULL);
}

static void full_message(void) {
        _cleanup_buf_ struct buf b = {0};
        struct siwe m;
        char address[ETHEREUM_TEXT];

        CHECK(parse(FULL, &m) == 0);
        CHECK(!m.scheme.at && siwe_is(m.domain, "stockade.example:7070") &&
              siwe_is(m.statement, "Sign in to Stockade."));
        ethereum_text(&m.address, address);
        CHECK_STR(address, ACCOUNT);
        CHECK(siwe_is(m.uri, "https://stockade.example:7070") && m.chain_id == 3799);
        CHECK(siwe_is(m.nonce, "0123456789abcdef") && m.issued_at.ms == when("2027-01-15T08:00:00Z"));
        CHECK(m.has_expiration && m.expiration.ms == when("2027-01-15T08:05:00Z") && m.has_not_before);
        CHECK(siwe_is(m.request_id, "r-1") && m.has_resources && m.resource_count == 2);
        CHECK(siwe_is(m.resources[1], "urn:x:y"));
        CHECK(siwe_build(&m, &b, NULL) == 0);
        CHECK_STR(b.data, FULL);
}

static void optional_fields(void) {
        static const char *const good[] = {
                HEAD "\n" NEEDED,
                HEAD "Sign in.\n\n" NEEDED,
                "https://" HEAD "\n" NEEDED,
                HEAD "\n" NEEDED "\nExpiration Time: 2027-01-15T08:05:00Z",
                HEAD "\n" NEEDED "\nNot Before: 2027-01-15T08:05:00+01:00",
                HEAD "\n" NEEDED "\nRequest ID: ",
                HEAD "\n" NEEDED "\nRequest ID: a%20b@:!",
                HEAD "\n" NEEDED "\nResources:",
                HEAD "\n" NEEDED "\nExpiration Time: 2027-01-15T08:05:00Z\nResources:\n- x:y",
                HEAD "URI: https://looks.like/a/field\n\n" NEEDED, /* a statement */
        };

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                _cleanup_buf_ struct buf b = {0};
                struct siwe m;

                CHECK(parse(good[i], &m) == 0 && siwe_build(&m, &b, NULL) == 0);
                CHECK_STR(b.data, good[i]);
        }
}

static void messages_that_are_none(void) {
        static const char *const bad[] = {
                "",
                "\n",
                HEAD,
                " wants you to sign in with your Ethereum account:\n" ACCOUNT "\n\n\n" NEEDED,
                "://a wants you to sign in with your Ethereum account:\n" ACCOUNT "\n\n\n" NEEDED,
                "1x://a wants you to sign in with your Ethereum account:\n" ACCOUNT "\n\n\n" NEEDED,
                "a b wants you to sign in with your Ethereum account:\n" ACCOUNT "\n\n\n" NEEDED,
                "a wants you to sign in with your ethereum account:\n" ACCOUNT "\n\n\n" NEEDED,
                "\u0430pple.example wants you to sign in with your Ethereum account:\n" ACCOUNT "\n\n\n" NEEDED,
                "a wants you to sign in with your Ethereum account:\n"
                "0x9643d42cbf0f9d9126ca9ab403c93e470953d0c6\n\n\n" NEEDED,
                HEAD NEEDED,
                HEAD "\n\n" NEEDED,
                HEAD "two\nlines\n\n" NEEDED,
                HEAD "gr\u00fcn\n\n" NEEDED,
                HEAD "a \"quote\"\n\n" NEEDED,
                HEAD "tab\t\n\n" NEEDED,
                HEAD "100%\n\n" NEEDED,
                HEAD "\r\n" NEEDED,
                HEAD "\n" NEEDED "\n",
                HEAD "\n" NEEDED " ",
                HEAD "\n" NEEDED "\r",
                HEAD "\n" NEEDED "\nExpiration Time: ",
                HEAD "\n" NEEDED "\nExpiration time: 2027-01-15T08:05:00Z",
                HEAD "\n" NEEDED "\nNot Before: 2027-01-15T08:00:00Z\nExpiration Time: 2027-01-15T08:05:00Z",
                HEAD "\n" NEEDED "\nNot Before: 2027-01-15T08:00:00Z\nNot Before: 2027-01-15T08:00:00Z",
                HEAD "\n" NEEDED "\nRequest ID: a b",
                HEAD "\n" NEEDED "\nRequest ID: a/b",
                HEAD "\n" NEEDED "\nResources: ",
                HEAD "\n" NEEDED "\nResources:\n",
                HEAD "\n" NEEDED "\nResources:\n- ",
                HEAD "\n" NEEDED "\nResources:\n- x:y\n",
                HEAD "\n" NEEDED "\nResources:\nx:y",
                HEAD "\n" NEEDED "\nResources:\n- x:y\nRequest ID: a",
                HEAD "\n" NEEDED "\nSomething: else",
                HEAD "\n URI: https://x\nVersion: 1\nChain ID: 1\nNonce: 01234567\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 2\nChain ID: 1\nNonce: 01234567\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: 01\nNonce: 01234567\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: -1\nNonce: 01234567\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: 0x1\nNonce: 01234567\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: \nNonce: 01234567\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: 18446744073709551616\nNonce: 01234567\n"
                     "Issued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: 1\nNonce: 0123456\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: 1\nNonce: 0123-4567\nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: 1\nNonce: 01234567 \nIssued At: 2027-01-15T08:00:00Z",
                HEAD "\nURI: https://x\nVersion: 1\nChain ID: 1\nNonce: 01234567\nIssued At: 2022-02-31T08:00:00Z",
        };
        struct siwe m = {.chain_id = 77};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct err err = {0};

                if (siwe_parse(bad[i], strlen(bad[i]), &m, &err) != ERR_INPUT || !err.text[0])
                        CHECK_STR("accepted", bad[i]);
        }
        CHECK(m.chain_id == 77);
        CHECK(siwe_parse(NULL, 0, &m, NULL) == ERR_INPUT);
        /* cut off anywhere, and with a NUL anywhere */
        for (size_t n = 0; n < strlen(FULL); n++) {
                char text[sizeof FULL];

                memcpy(text, FULL, sizeof text);
                text[n] = '\0';
                CHECK(siwe_parse(text, strlen(FULL), &m, NULL) == ERR_INPUT);
        }
}

static void caps(void) {
        _cleanup_buf_ struct buf b = {0}, out = {0};
        struct siwe m;

        buf_str(&b, HEAD "\n" NEEDED "\nResources:");
        for (int i = 0; i < SIWE_RESOURCES; i++)
                buf_str(&b, "\n- x:y");
        CHECK(siwe_parse(b.data, b.size, &m, NULL) == 0);
        m.resource_count++;
        CHECK(siwe_build(&m, &out, NULL) == ERR_LIMIT && out.size == 0);
        buf_str(&b, "\n- x:y");
        CHECK(siwe_parse(b.data, b.size, &m, NULL) == ERR_LIMIT);
        buf_free(&b);
        buf_str(&b, HEAD);
        while (b.size <= SIWE_MAX)
                buf_str(&b, "x");
        CHECK(siwe_parse(b.data, b.size, &m, NULL) == ERR_LIMIT);
        CHECK(parse(HEAD "\n" NEEDED, &m) == 0);
        m.statement = (struct siwe_part){b.data + strlen(HEAD), SIWE_MAX - strlen(HEAD)};
        CHECK(siwe_build(&m, &out, NULL) == ERR_LIMIT && out.size == 0);
}

static void building(void) {
        _cleanup_buf_ struct buf b = {0};
        struct siwe m = {.domain = siwe_part("a.example"),
                         .uri = siwe_part("https://a.example"),
                         .chain_id = 1,
                         .nonce = siwe_part("01234567"),
                         .issued_at = {.ms = when("2027-01-15T08:00:00Z")}},
                    again;

        CHECK(siwe_build(&m, &b, NULL) == 0 && siwe_parse(b.data, b.size, &again, NULL) == 0);
        CHECK(siwe_is(again.issued_at.text, "2027-01-15T08:00:00.000Z") && !again.statement.at && !again.has_resources);
        buf_free(&b);
        m.domain = siwe_part("a.example\nevil");
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT);
        m.domain = siwe_part("a.example wants you");
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT);
        m.domain = siwe_part(NULL);
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT);
        m.domain = siwe_part("a.example");
        m.statement = siwe_part("x\n\nURI: https://evil");
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT);
        m.statement = siwe_part(NULL);
        m.nonce = siwe_part("0123456");
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT);
        m.nonce = siwe_part("01234567");
        m.issued_at.text = siwe_part("2027-01-15T08:00:01Z"); /* says another time than ms */
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT);
        m.issued_at.text = siwe_part(NULL);
        m.issued_at.ms = 0;
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT);
        m.issued_at.ms = UINT64_MAX;
        CHECK(siwe_build(&m, &b, NULL) == ERR_INPUT && b.size == 0);
}

/* --- checking --------------------------------------------------------------------------------------------------- */

static struct siwe_expect expect(void) {
        return (struct siwe_expect){.domain = "stockade.example:7070",
                                    .uri = "https://stockade.example:7070",
                                    .chain_id = 3799,
                                    .nonce = "0123456789abcdef",
                                    .now_ms = when("2027-01-15T08:00:01Z"),
                                    .max_age_ms = SIWE_TTL_MS};
}

static int check(const struct siwe_expect *e) {
        struct siwe m;
        struct err err = {0};
        int r = parse(FULL, &m);

        CHECK(r == 0);
        r = siwe_check(&m, e, &err);
        CHECK(r == 0 || (err.text[0] && err.hint[0]));
        return r;
}

static void checks(void) {
        struct ethereum_address other = {{1}};
        struct siwe_expect e = expect();

        CHECK(check(&e) == 0);
        e.scheme = "https"; /* the message has none: fine */
        CHECK(check(&e) == 0);
        e.domain = "stockade.example";
        CHECK(check(&e) == ERR_REFUSED);
        e.domain = "STOCKADE.example:7070";
        CHECK(check(&e) == ERR_REFUSED);
        e.domain = NULL;
        CHECK(check(&e) == ERR_REFUSED);
        e = expect();
        e.uri = "https://stockade.example:7070/";
        CHECK(check(&e) == ERR_REFUSED);
        e = expect();
        e.chain_id = 1;
        CHECK(check(&e) == ERR_REFUSED);
        e = expect();
        e.nonce = "0123456789abcdeF";
        CHECK(check(&e) == ERR_REFUSED);
        e.nonce = "";
        CHECK(check(&e) == ERR_REFUSED);
        e.nonce = NULL;
        CHECK(check(&e) == ERR_REFUSED);
        e = expect();
        e.address = &other;
        CHECK(check(&e) == ERR_REFUSED);
}

static void moments(void) {
        struct siwe_expect e = expect();
        uint64_t issued = when("2027-01-15T08:00:00Z"), ends = when("2027-01-15T08:05:00Z");

        e.now_ms = issued;
        CHECK(check(&e) == 0);
        e.now_ms = issued - 1; /* Not Before */
        CHECK(check(&e) == ERR_REFUSED);
        e.now_ms = ends - 1;
        CHECK(check(&e) == 0);
        e.now_ms = ends;
        CHECK(check(&e) == ERR_REFUSED);
        e.max_age_ms = 1000;
        e.now_ms = issued + 1000;
        CHECK(check(&e) == 0);
        e.now_ms++;
        CHECK(check(&e) == ERR_REFUSED);
        e.now_ms = 0;
        CHECK(check(&e) == ERR_REFUSED);
        e.now_ms = UINT64_MAX;
        CHECK(check(&e) == ERR_REFUSED);

        struct siwe m;
        CHECK(parse(HEAD "\n" NEEDED, &m) == 0); /* without limits of its own */
        e = expect();
        e.now_ms = issued - SIWE_SKEW_MS;
        CHECK(siwe_check(&m, &e, NULL) == 0);
        e.now_ms--;
        CHECK(siwe_check(&m, &e, NULL) == ERR_REFUSED);
        e.max_age_ms = 0;
        CHECK(siwe_check(&m, &e, NULL) == 0);
        e.max_age_ms = UINT64_MAX;
        e.now_ms = UINT64_MAX;
        CHECK(siwe_check(&m, &e, NULL) == 0);
}

static void signing_in(void) {
        struct siwe_expect e = expect();
        struct ethereum_address who;
        char text[sizeof FULL], address[ETHEREUM_TEXT];

        CHECK(siwe_verify(FULL, strlen(FULL), FULL_SIGNATURE, 132, &e, &who, NULL) == 0);
        ethereum_text(&who, address);
        CHECK_STR(address, ACCOUNT);
        /* one letter of the statement differs: still a message, but not the one that was signed */
        memcpy(text, FULL, sizeof text);
        *strstr(text, "Sign in") = 's';
        CHECK(siwe_verify(text, strlen(FULL), FULL_SIGNATURE, 132, &e, &who, NULL) == ERR_REFUSED);
        CHECK(siwe_verify(FULL, strlen(FULL), FULL_SIGNATURE, 131, &e, &who, NULL) == ERR_INPUT);
        CHECK(siwe_verify(FULL, strlen(FULL), "", 0, &e, &who, NULL) == ERR_INPUT);
        e.chain_id = 1;
        CHECK(siwe_verify(FULL, strlen(FULL), FULL_SIGNATURE, 132, &e, &who, NULL) == ERR_REFUSED);
}

static void plain_text(void) {
        static const char nonce[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                          signature[] = "0x5f37511b334c043248e3d35e655ddae9a46e7bc063936f07457cb929339fe136"
                                        "5dbdea325ba53f25e4062ad42c85224df27cab28c105b496ae0d7db46e4b6e1f1c";
        _cleanup_buf_ struct buf b = {0};
        struct ethereum_address who;
        char address[ETHEREUM_TEXT];
        const uint64_t end = 1800000000000;

        CHECK(siwe_build_plain(nonce, end, &b, NULL) == 0);
        CHECK_STR(b.data,
                  "Sign this message to authenticate with Tangle Sandbox.\n\n"
                  "Nonce: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nExpires: 1800000000");
        CHECK(siwe_verify_plain(nonce, end, signature, strlen(signature), end - 1, &who, NULL) == 0);
        ethereum_text(&who, address);
        CHECK_STR(address, ACCOUNT);
        CHECK(siwe_verify_plain(nonce, end, signature, strlen(signature), end, &who, NULL) == ERR_REFUSED);
        CHECK(siwe_build_plain("0123", end, &b, NULL) == ERR_INPUT);
        CHECK(siwe_build_plain("0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", end, &b, NULL) ==
              ERR_INPUT);
        /* what one text is signed for, the other never is */
        struct siwe m;
        CHECK(siwe_parse(b.data, b.size, &m, NULL) == ERR_INPUT);
}

TEST_MAIN(TEST(times), TEST(times_that_are_none), TEST(times_there_and_back), TEST(uris), TEST(authorities),
          TEST(full_message), TEST(optional_fields), TEST(messages_that_are_none), TEST(caps), TEST(building),
          TEST(checks), TEST(moments), TEST(signing_in), TEST(plain_text))
