/* Signing: what we sign is what the operator's side recovers, and what other programs sign with the same key. */
#include "auth/wallet.h"
#include "base/test.h"

/* From the documentation of web3.js. */
static const char key_text[] = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318\n";
static const char address[] = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23";
static const char signature[] = "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd"
                                "6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c";

static void signs_as_others_do(void) {
        struct ethereum_address a;
        uint8_t key[WALLET_KEY];
        char text[ETHEREUM_TEXT], made[WALLET_SIGNATURE], back[2 * WALLET_KEY + 1];

        CHECK(wallet_parse(key_text, strlen(key_text), key, NULL) == 0);
        CHECK(wallet_address(key, &a, NULL) == 0);
        ethereum_text(&a, text);
        CHECK_STR(text, address);
        CHECK(wallet_sign(key, "Some data", 9, made, NULL) == 0);
        CHECK_STR(made, signature);
        wallet_format(key, back);
        CHECK(strncmp(back, key_text + 2, 64) == 0);
}

static void is_recovered(void) {
        struct ethereum_address a, b;
        uint8_t key[WALLET_KEY], bytes[ETHEREUM_SIGNATURE];
        char made[WALLET_SIGNATURE], message[300];

        memset(message, 'm', sizeof message);
        for (unsigned i = 1; i < 40; i++) {
                memset(key, (int)i, sizeof key);
                CHECK(wallet_address(key, &a, NULL) == 0);
                CHECK(wallet_sign(key, message, i * 7, made, NULL) == 0);
                CHECK(ethereum_parse_signature(made, strlen(made), bytes, NULL) == 0);
                CHECK(ethereum_recover(message, i * 7, bytes, &b, NULL) == 0);
                CHECK(ethereum_same(&a, &b));
        }
}

static void keys_that_are_none(void) {
        static const char *const texts[] = {"",
                                            "0x",
                                            "12",
                                            "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f36231",
                                            "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f36231g",
                                            "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f3623180"};
        struct ethereum_address a;
        uint8_t key[WALLET_KEY] = {0};
        char made[WALLET_SIGNATURE];

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                CHECK(wallet_parse(texts[i], strlen(texts[i]), key, NULL) == ERR_INPUT);
        CHECK(wallet_address(key, &a, NULL) == ERR_INPUT);
        CHECK(wallet_sign(key, "x", 1, made, NULL) == ERR_INPUT);
        memset(key, 0xff, sizeof key);
        CHECK(wallet_address(key, &a, NULL) == ERR_INPUT);
}

TEST_MAIN(TEST(signs_as_others_do), TEST(is_recovered), TEST(keys_that_are_none))
