/* Keccak-256, addresses and signatures. The expected values were made with ethers (npm); tests/auth compares more. */
#include <sodium.h>

#include "auth/ethereum.h"
#include "base/test.h"

/* --- keccak ----------------------------------------------------------------------------------------------------- */

/* Bytes 3, 10, 17, …: around the block of 136 bytes, and several blocks. */
static const struct {
        size_t size;
        const char *hash;
} hashes[] = {
        {0, "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"},
        {1, "69c322e3248a5dfc29d73c5b0553b0185a35cd5bb6386747517ef7e53b15e287"},
        {31, "8522dc30be01c01348c0591309ac2948c9ae4ce02facbb745f85a5297286d3dd"},
        {32, "04d1b47ed3b04c5ff6a0280293cb2ab55bd297c9c2e0c3449831b419285d7df2"},
        {55, "152cc5298108a3ec3a26e0c5aead9c2770c184a6bdf87eb087716b185c8e2238"},
        {135, "00ef96af9cf4b24c7f269d922294444a197d0a33638c2e56634c57e892103a8f"},
        {136, "742061bcad767ed4c4f5883b1dcb1aad11afdcc140dc469d953759b127b9f9ed"},
        {137, "e3371f61e770abf254c34239c3b0099ad90594507415bc81dd0a10b9692bbf2a"},
        {271, "4401c4afbe16ff911bdbf2d38e556e5b861f3fdf0f9d4306b1c46f6ae4f73584"},
        {272, "ac141fd7b0a0ffcd2e967254d508da3ec616596493c36fa304425647d90e6de5"},
        {273, "16192ea86793083e47731cb3c970600f04768414d92bc0540e54ce8607a0fce0"},
        {1000, "80cdc8dd52cbb3dbaea8f383209893fa2bb52efbd5aedbb4b26dcfe307fcdc9b"},
};

static void keccak_hashes(void) {
        uint8_t data[1000], hash[KECCAK_SIZE];
        char text[2 * KECCAK_SIZE + 1];

        for (size_t i = 0; i < sizeof data; i++)
                data[i] = (uint8_t)(7 * i + 3);
        for (size_t i = 0; i < ELEMENTSOF(hashes); i++) {
                keccak_256(data, hashes[i].size, hash);
                CHECK_STR(sodium_bin2hex(text, sizeof text, hash, sizeof hash), hashes[i].hash);
        }
}

static void keccak_in_pieces(void) {
        uint8_t data[600], whole[KECCAK_SIZE], pieces[KECCAK_SIZE];
        struct keccak k;

        memset(data, 0xa5, sizeof data);
        keccak_256(data, sizeof data, whole);
        for (size_t step = 1; step < 300; step += 7) {
                keccak_init(&k);
                for (size_t at = 0; at < sizeof data; at += step)
                        keccak_add(&k, data + at, MIN(step, sizeof data - at));
                keccak_done(&k, pieces);
                CHECK(memcmp(whole, pieces, sizeof whole) == 0);
        }
}

/* --- addresses -------------------------------------------------------------------------------------------------- */

#define ACCOUNT "0x9643D42CBf0F9d9126CA9ab403c93E470953d0c6"

static int parse(const char *text, bool any_case) {
        struct ethereum_address a;

        return ethereum_parse(text, strlen(text), any_case, &a, NULL);
}

static void addresses(void) {
        static const char *const good[] = {
                ACCOUNT, "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf", "0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF",
                "0x6813Eb9362372EEF6200f3b1dbC3f819671cBA69", "0x0000000000000000000000000000000000000000"};
        struct ethereum_address a;
        char text[ETHEREUM_TEXT], owner[ETHEREUM_OWNER];

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                CHECK(ethereum_parse(good[i], strlen(good[i]), false, &a, NULL) == 0);
                ethereum_text(&a, text);
                CHECK_STR(text, good[i]);
        }
        CHECK(ethereum_parse(ACCOUNT, 42, false, &a, NULL) == 0);
        ethereum_owner(&a, owner);
        CHECK_STR(owner, "eth:0x9643d42cbf0f9d9126ca9ab403c93e470953d0c6");
        CHECK(parse(owner + 4, false) == ERR_INPUT);
        CHECK(parse(owner + 4, true) == 0);
}

static void addresses_that_are_none(void) {
        struct err err = {0};
        struct ethereum_address a = {{1}};

        CHECK(parse("", true) == ERR_INPUT);
        CHECK(parse("0x", true) == ERR_INPUT);
        CHECK(parse(ACCOUNT "0", true) == ERR_INPUT);
        CHECK(parse("0X9643D42CBf0F9d9126CA9ab403c93E470953d0c6", true) == ERR_INPUT);
        CHECK(parse("9643D42CBf0F9d9126CA9ab403c93E470953d0c600", true) == ERR_INPUT);
        CHECK(parse("0x9643D42CBf0F9d9126CA9ab403c93E470953d0c", true) == ERR_INPUT);
        CHECK(parse("0x9643D42CBf0F9d9126CA9ab403c93E470953d0g6", true) == ERR_INPUT);
        CHECK(parse("0x9643D42CBf0F9d9126CA9ab403c93E470953d0 6", true) == ERR_INPUT);
        CHECK(parse("0x9643d42CBf0F9d9126CA9ab403c93E470953d0c6", true) == ERR_INPUT); /* one letter in another case */
        CHECK(parse("0x9643D42CBF0F9D9126CA9AB403C93E470953D0C6", true) == ERR_INPUT);
        CHECK(ethereum_parse("0x9643D42CBf0F9d9126CA9ab403c93E470953d0\0006", 42, true, &a, NULL) == ERR_INPUT);
        CHECK(a.bytes[0] == 1); /* untouched */
        CHECK(ethereum_parse("0x9643d42CBf0F9d9126CA9ab403c93E470953d0c6", 42, false, &a, &err) == ERR_INPUT);
        CHECK(strstr(err.hint, ACCOUNT));
}

/* --- signatures ------------------------------------------------------------------------------------------------- */

#define SIGNED_HELLO                                                                                                   \
        "0x77fe00df49fafaf791caed7a019eda2a9fb5f67dec453f614e370de499f1be89"                                           \
        "2be33807b322c5075632159a0bcefbd10733ff0240a92e72b760880bda2f35fa1c"

static const struct {
        const char *message, *signature;
} signatures[] = {
        {"",
         "0x0238c03a0a3d2cbf366297cde82774753b8d7bcf7742198d4bdae4efcae588514c37d2677b1ff1ededef7117b3ec86a90bdce59b63"
         "3abb458d06a7afe21dbdb11c"},
        {"hello", SIGNED_HELLO},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "0x215f2032f4074040b4fb1d9c78b8062e2b713d799e9468721bd66199e32605d52c152538b0b7af274d742f24eb99c3848fd6187600f"
         "7c0b6"
         "cecc979f0bc257a31b"},
        {"Gr\u00fc\u00dfe \U0001f600", "0x2d2b7a45dec1886f0056096a6497eaa2a9d3b097d8728bca81aed546a84a3a4a57ee5315d42ca"
                                       "902dcc00ed218ecec45a17a235ba6b09158"
                                       "92a03cabf1ab5c9c1b"},
};

static int recover(const char *message, const uint8_t signature[ETHEREUM_SIGNATURE], char ret[ETHEREUM_TEXT]) {
        struct ethereum_address a;
        int r = ethereum_recover(message, strlen(message), signature, &a, NULL);

        if (r == 0)
                ethereum_text(&a, ret);
        return r;
}

static void signers(void) {
        uint8_t s[ETHEREUM_SIGNATURE];
        char text[ETHEREUM_TEXT];

        for (size_t i = 0; i < ELEMENTSOF(signatures); i++) {
                const char *hex = signatures[i].signature;

                CHECK(ethereum_parse_signature(hex, strlen(hex), s, NULL) == 0);
                CHECK(recover(signatures[i].message, s, text) == 0);
                CHECK_STR(text, ACCOUNT);
                s[64] = (uint8_t)(s[64] - 27); /* 0 and 1 mean the same */
                CHECK(recover(signatures[i].message, s, text) == 0);
                CHECK_STR(text, ACCOUNT);
                CHECK(recover("another message", s, text) != 0 || !str_eq(text, ACCOUNT));
                CHECK(ethereum_parse_signature(hex + 2, strlen(hex) - 2, s, NULL) == 0); /* T's clients */
        }
}

static void signature_texts(void) {
        static const char *const hex = SIGNED_HELLO;
        uint8_t s[ETHEREUM_SIGNATURE];
        char text[140];

        for (size_t n = 0; n < strlen(hex); n++)
                CHECK(ethereum_parse_signature(hex, n, s, NULL) == ERR_INPUT);
        (void)snprintf(text, sizeof text, "%s0", hex);
        CHECK(ethereum_parse_signature(text, strlen(text), s, NULL) == ERR_INPUT);
        (void)snprintf(text, sizeof text, "%s00", hex);
        CHECK(ethereum_parse_signature(text, strlen(text), s, NULL) == ERR_INPUT);
        (void)snprintf(text, sizeof text, "%s", hex);
        for (size_t i = 2; i < strlen(hex); i += 13) {
                text[i] = i % 2 ? ' ' : '\0';
                CHECK(ethereum_parse_signature(text, strlen(hex), s, NULL) == ERR_INPUT);
                text[i] = hex[i];
        }
}

/* The order of the curve. */
static const uint8_t order[32] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                  0xff, 0xff, 0xff, 0xff, 0xfe, 0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48,
                                  0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41};

static void signatures_that_do_not_count(void) {
        uint8_t good[ETHEREUM_SIGNATURE], s[ETHEREUM_SIGNATURE];
        char text[ETHEREUM_TEXT];
        int borrow = 0;

        CHECK(ethereum_parse_signature(SIGNED_HELLO, 132, good, NULL) == 0);
        for (unsigned v = 0; v < 256; v++) {
                memcpy(s, good, sizeof s);
                s[64] = (uint8_t)v;
                bool may = v == 0 || v == 1 || v == 27 || v == 28;
                CHECK(may || recover("hello", s, text) == ERR_INPUT);
        }
        /* the twin: s and v the other way. It is a valid signature of the same account, and is refused */
        memcpy(s, good, sizeof s);
        for (size_t i = 32; i-- > 0;) {
                int d = order[i] - good[32 + i] - borrow;

                borrow = d < 0;
                s[32 + i] = (uint8_t)(d + 256 * borrow);
        }
        s[64] = good[64] == 27 ? 28 : 27;
        CHECK(recover("hello", s, text) == ERR_INPUT);
        /* r and s of 0, of the order, and above */
        for (size_t at = 0; at <= 32; at += 32) {
                memcpy(s, good, sizeof s);
                memset(s + at, 0, 32);
                CHECK(recover("hello", s, text) == ERR_INPUT);
                memcpy(s + at, order, 32);
                CHECK(recover("hello", s, text) == ERR_INPUT);
                memset(s + at, 0xff, 32);
                CHECK(recover("hello", s, text) == ERR_INPUT);
        }
        memset(s, 0, sizeof s);
        CHECK(recover("hello", s, text) == ERR_INPUT);
}

static void large_messages(void) {
        _cleanup_free_ char *message = calloc(1, ETHEREUM_MESSAGE_MAX + 1);
        struct ethereum_address a;
        uint8_t s[ETHEREUM_SIGNATURE];

        CHECK(message && ethereum_parse_signature(SIGNED_HELLO, 132, s, NULL) == 0);
        CHECK(ethereum_recover(message, ETHEREUM_MESSAGE_MAX, s, &a, NULL) == 0);
        CHECK(ethereum_recover(message, ETHEREUM_MESSAGE_MAX + 1, s, &a, NULL) == ERR_LIMIT);
}

TEST_MAIN(TEST(keccak_hashes), TEST(keccak_in_pieces), TEST(addresses), TEST(addresses_that_are_none), TEST(signers),
          TEST(signature_texts), TEST(signatures_that_do_not_count), TEST(large_messages))
