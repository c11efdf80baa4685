/* SHA-256 against the vectors of FIPS 180-4 and NIST's long ones; base64 against those of RFC 4648. */
#include "base/base64.h"
#include "base/sha256.h"
#include "base/test.h"

static bool is(const void *data, size_t size, const char *hex) {
        uint8_t sum[SHA256_SIZE];
        char text[2 * SHA256_SIZE + 1];

        sha256(data, size, sum);
        for (size_t i = 0; i < sizeof sum; i++)
                (void)snprintf(text + 2 * i, 3, "%02x", sum[i]);
        return str_eq(text, hex);
}

static void sums(void) {
        static char million[1000000];

        CHECK(is("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
        CHECK(is("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        CHECK(is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
        memset(million, 'a', sizeof million);
        CHECK(is(million, sizeof million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
        CHECK(is(million, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"));
        CHECK(is(million, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"));
}

static void base64(void) {
        static const struct {
                const char *plain, *text;
        } vectors[] = {{"", ""},
                       {"f", "Zg=="},
                       {"fo", "Zm8="},
                       {"foo", "Zm9v"},
                       {"foob", "Zm9vYg=="},
                       {"fooba", "Zm9vYmE="},
                       {"foobar", "Zm9vYmFy"}};
        static const char *const wrong[] = {
                "Z", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z g=", "Zm9v=", "====", "Zm9v\n", "Zm-_"};
        char text[BASE64_TEXT(16)];
        uint8_t bytes[16];
        size_t size;

        for (size_t i = 0; i < ELEMENTSOF(vectors); i++) {
                size_t n = strlen(vectors[i].plain);

                CHECK(base64_read(vectors[i].text, strlen(vectors[i].text), bytes, sizeof bytes, &size) && size == n &&
                      memcmp(bytes, vectors[i].plain, n) == 0);
                (void)base64_write(vectors[i].plain, n, text);
                CHECK(strncmp(text, vectors[i].text, strlen(text)) == 0);
                CHECK(base64_read(text, strlen(text), bytes, sizeof bytes, &size) && size == n);
        }
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                CHECK(!base64_read(wrong[i], strlen(wrong[i]), bytes, sizeof bytes, &size));
        CHECK(!base64_read("Zm9v", 4, bytes, 2, &size));
}

TEST_MAIN(TEST(sums), TEST(base64))
