/* base64url and v4.local. The tokens were made with paseto-ts (npm); tests/auth compares more. */
#include "auth/base64url.h"
#include "auth/paseto.h"
#include "base/test.h"

/* --- base64url -------------------------------------------------------------------------------------------------- */

static bool reads(const char *text, size_t size) {
        uint8_t bytes[64];
        size_t n;

        return base64url_read(text, size, bytes, sizeof bytes, &n);
}

static void one_spelling(void) {
        static const char *const bad[] = {
                "A",    "AA==", "AAA=", "AB",    "AAB",  "AA A", " AAA",     "AAA\n",
                "AA+A", "AA/A", "AA.A", "AAAAA", "A===", "====", "AAAA====", "\xff\xff\xff\xff"};

        CHECK(reads("", 0) && reads("AA", 2) && reads("AAA", 3) && reads("_-_-", 4));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (reads(bad[i], strlen(bad[i])))
                        CHECK_STR("accepted", bad[i]);
        CHECK(!reads("AA\0A", 4));
        for (unsigned c = 0; c < 256; c++) {
                char text[4] = {'A', 'A', (char)c, 'A'};

                CHECK(reads(text, 4) ==
                      (c < 128 && c &&
                       strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", (int)c) != NULL));
        }
        /* of all texts of two and three characters, one for each value */
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        unsigned two = 0, three = 0;
        for (size_t a = 0; a < 64; a++)
                for (size_t b = 0; b < 64; b++) {
                        char text[3] = {alphabet[a], alphabet[b], 'A'};

                        two += reads(text, 2);
                        for (size_t c = 0; c < 64; c++) {
                                text[2] = alphabet[c];
                                three += reads(text, 3);
                        }
                }
        CHECK(two == 256 && three == 65536);
}

static void base64_there_and_back(void) {
        uint8_t data[2000], again[2000];
        size_t n;

        for (size_t i = 0; i < sizeof data; i++)
                data[i] = (uint8_t)(i * i / 7);
        for (size_t size = 0; size <= sizeof data; size += size < 20 ? 1 : 97) {
                _cleanup_buf_ struct buf b = {0};

                base64url_add(&b, data, size);
                CHECK(b.size + 1 == BASE64URL_TEXT(size) || size == 0);
                CHECK(base64url_read(b.size ? b.data : "", b.size, again, size, &n) && n == size);
                CHECK(memcmp(data, again, size) == 0);
                CHECK(size == 0 || !base64url_read(b.data, b.size, again, size - 1, &n)); /* does not fit */
        }
}

/* --- tokens ----------------------------------------------------------------------------------------------------- */

static const struct {
        const char *payload, *footer, *implicit, *token;
} tokens[] = {
        {"{\"a\":1}", "", "",
         "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_HS0"},
        {"{\"sub\":\"eth:0x1\"}", "{\"kid\":\"0011223344556677\"}", "",
         "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozpUhuyDoQJO_GD3c94dTjHmI3V5ly73vckGiPtCVoVtkJsVOWt7YLH2_"
         "afrcuWL"
         "C.eyJraWQiOiIwMDExMjIzMzQ0NTU2Njc3In0"},
        {"{\"sub\":\"eth:0x1\"}", "{\"kid\":\"0011223344556677\"}", "aud:x",
         "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozpUhuyDoQJO_"
         "GD3c94dTjKWNjAwCEvjkaiBjD0hUIajad2cxxopc98ZgsRYerzf"
         "n.eyJraWQiOiIwMDExMjIzMzQ0NTU2Njc3In0"},
        {"{\"x\":"
         "\"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
         "yyyyyy"
         "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\"}",
         "", "aud:x",
         "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozp524yCrG4-yCX6V9s8IiA5C-IwjgpcLiDS4m9joU3cVEbiqel68-"
         "jnn0vjf32i"
         "mTEjRw203SDRs-K3iJywyVhQohDar-q-F63FM7wZ_"
         "sMsfNg4PoK28dMbhLtOlvsDxMaeiYsmuCwU5ePqHxHURxuVuOjWOBebXrei5qk7nUF0S1ABJdL"
         "7zJhKlA6DwLOgKLpIVI9MAVHZSniMc6g6x-cwa0JQ7kh8sk2S1zOx9C2VDzi13JYZewh2mkgPrsEH43JuJUoPXzRteo_"
         "hAstO88H4KXDnWd2vS5XVAQ"
         "DfonBB0vhlfvrb_C_LKvz5zfn8"},
};

static struct paseto_key key(void) {
        struct paseto_key k;

        for (size_t i = 0; i < sizeof k.bytes; i++)
                k.bytes[i] = (uint8_t)(5 * i + 1);
        return k;
}

static int open_text(const char *token, size_t size, const char *implicit, struct buf *out) {
        struct paseto_key k = key();

        return paseto_open(&k, token, size, implicit, strlen(implicit), out);
}

static void known_tokens(void) {
        struct paseto_key k = key();
        uint8_t nonce[PASETO_NONCE], footer[PASETO_FOOTER_MAX];
        size_t n;

        for (size_t i = 0; i < sizeof nonce; i++)
                nonce[i] = (uint8_t)(3 * i + 2);
        for (size_t i = 0; i < ELEMENTSOF(tokens); i++) {
                _cleanup_buf_ struct buf made = {0}, opened = {0};
                const char *payload = tokens[i].payload, *f = tokens[i].footer, *a = tokens[i].implicit;

                CHECK(paseto_seal_with_nonce(&k, nonce, payload, strlen(payload), f, strlen(f), a, strlen(a), &made) ==
                      0);
                CHECK_STR(made.data, tokens[i].token);
                CHECK(open_text(made.data, made.size, a, &opened) == 0);
                CHECK_STR(opened.data, payload);
                CHECK(paseto_footer(made.data, made.size, footer, &n) == 0);
                CHECK(n == strlen(f) && memcmp(footer, f, n) == 0);
        }
}

static void no_two_tokens_are_equal(void) {
        _cleanup_buf_ struct buf a = {0}, b = {0};
        struct paseto_key k = key();

        CHECK(paseto_seal(&k, "x", 1, NULL, 0, NULL, 0, &a) == 0 && paseto_seal(&k, "x", 1, NULL, 0, NULL, 0, &b) == 0);
        CHECK(!str_eq(a.data, b.data));
}

/* Every single bit of a token, and every shorter one. */
static void every_bit_counts(void) {
        const char *token = tokens[2].token, *implicit = tokens[2].implicit;
        size_t size = strlen(token);
        _cleanup_buf_ struct buf out = {0};
        char text[1024];

        CHECK(size < sizeof text);
        for (size_t i = 0; i < 8 * size; i++) {
                memcpy(text, token, size);
                text[i / 8] = (char)(text[i / 8] ^ 1 << i % 8);
                CHECK(open_text(text, size, implicit, &out) < 0);
        }
        for (size_t n = 0; n < size; n++)
                CHECK(open_text(token, n, implicit, &out) < 0);
        CHECK(out.size == 0 && buf_ok(&out));
}

static void other_keys_and_assertions(void) {
        const char *token = tokens[2].token;
        _cleanup_buf_ struct buf out = {0};
        struct paseto_key k = key();

        CHECK(open_text(token, strlen(token), "", &out) == ERR_REFUSED);
        CHECK(open_text(token, strlen(token), "aud:", &out) == ERR_REFUSED);
        CHECK(open_text(token, strlen(token), "aud:y", &out) == ERR_REFUSED);
        CHECK(open_text(token, strlen(token), "aud:x ", &out) == ERR_REFUSED);
        for (size_t i = 0; i < 8 * sizeof k.bytes; i += 11) {
                k = key();
                k.bytes[i / 8] ^= (uint8_t)(1 << i % 8);
                CHECK(paseto_open(&k, token, strlen(token), "aud:x", 5, &out) == ERR_REFUSED);
        }
        CHECK(out.size == 0);
}

static void pieces_do_not_move(void) {
        _cleanup_buf_ struct buf b = {0}, out = {0};
        struct paseto_key k = key();

        /* what is at the end of the footer cannot be passed off as the beginning of the assertion */
        CHECK(paseto_seal(&k, "x", 1, "ab", 2, "cd", 2, &b) == 0);
        CHECK(paseto_open(&k, b.data, b.size, "cd", 2, &out) == 0);
        *strrchr(b.data, '.') = '\0';
        CHECK(paseto_open(&k, b.data, strlen(b.data), "abcd", 4, &out) == ERR_REFUSED);
        buf_str(&b, "");
        b.size = strlen(b.data);
        buf_str(&b, ".YQ"); /* "a" */
        CHECK(paseto_open(&k, b.data, b.size, "bcd", 3, &out) == ERR_REFUSED);
}

static void other_texts(void) {
        static const char *const bad[] = {
                "",
                "v4.local.",
                "v4.local",
                "v4.local..",
                "v4.public.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS0",
                "v3.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS0",
                "V4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS0",
                "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS0.",
                "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS0=",
                "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS1",
                "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS0\n",
                " v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs-QURHSk1QU1ZZXF-ozod24zOvi92yArsW8zIpLA2MD-XOADF-yMDh65uuhDzoPMP_"
                "HS0",
                "v4.local.AgUICw4RFBcaHSAjJiksLzI1ODs+QURHSk1QU1ZZXF+ozod24zOvi92yArsW8zIpLA2MD+XOADF+yMDh65uuhDzoPMP/"
                "HS0",
                "v4.local.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", /* 60 bytes
                                                                                                              */
        };
        _cleanup_buf_ struct buf out = {0};
        uint8_t footer[PASETO_FOOTER_MAX];
        size_t n;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (open_text(bad[i], strlen(bad[i]), "", &out) != ERR_INPUT)
                        CHECK_STR("accepted", bad[i]);
        CHECK(paseto_footer("v4.local.AAAA.AB", 16, footer, &n) == ERR_INPUT);
        CHECK(paseto_footer("v4.local.AAAA.", 14, footer, &n) == ERR_INPUT);
        CHECK(paseto_footer("v4.local.AAAA.AA.AA", 19, footer, &n) == ERR_INPUT);
        CHECK(out.size == 0);
}

static void caps(void) {
        _cleanup_free_ char *large = calloc(1, 16384);
        _cleanup_buf_ struct buf b = {0}, out = {0};
        struct paseto_key k = key();

        CHECK(large != NULL);
        CHECK(paseto_seal(&k, large, PASETO_PAYLOAD_MAX, large, PASETO_FOOTER_MAX, large, PASETO_IMPLICIT_MAX, &b) ==
              0);
        CHECK(b.size <= PASETO_TOKEN_MAX);
        CHECK(paseto_open(&k, b.data, b.size, large, PASETO_IMPLICIT_MAX, &out) == 0 && out.size == PASETO_PAYLOAD_MAX);
        CHECK(paseto_seal(&k, large, PASETO_PAYLOAD_MAX + 1, NULL, 0, NULL, 0, &b) == ERR_LIMIT);
        CHECK(paseto_seal(&k, "x", 1, large, PASETO_FOOTER_MAX + 1, NULL, 0, &b) == ERR_LIMIT);
        CHECK(paseto_seal(&k, "x", 1, NULL, 0, large, PASETO_IMPLICIT_MAX + 1, &b) == ERR_LIMIT);
        memset(large, 'A', 16384);
        memcpy(large, "v4.local.", 9);
        for (size_t n = 1000; n < 16384; n += 513)
                CHECK(open_text(large, n, "", &out) < 0);
        /* a payload may be empty */
        buf_free(&b);
        buf_free(&out);
        CHECK(paseto_seal(&k, NULL, 0, NULL, 0, NULL, 0, &b) == 0);
        CHECK(paseto_open(&k, b.data, b.size, NULL, 0, &out) == 0 && out.size == 0);
        /* no room for the answer */
        out.max = 1;
        buf_free(&b);
        CHECK(paseto_seal(&k, "xx", 2, NULL, 0, NULL, 0, &b) == 0);
        CHECK(paseto_open(&k, b.data, b.size, NULL, 0, &out) == -ENOMEM);
}

TEST_MAIN(TEST(one_spelling), TEST(base64_there_and_back), TEST(known_tokens), TEST(no_two_tokens_are_equal),
          TEST(every_bit_counts), TEST(other_keys_and_assertions), TEST(pieces_do_not_move), TEST(other_texts),
          TEST(caps))
