/* Fuzz target: the TLS hello. A result never changes with bytes that come later, and does not depend on how the message
 * is cut into records. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gate/hello.h"
#include "tests/fuzz/fuzz.h"

static bool same(const struct hello *a, const struct hello *b) {
        return a->named == b->named && str_eq(a->name, b->name) && a->encrypted == b->encrypted &&
               a->alpn_http1 == b->alpn_http1 && a->alpn_h2 == b->alpn_h2 && a->alpn_other == b->alpn_other &&
               a->acme == b->acme;
}

/* The message without its records; data is a hello that was read. */
static size_t unwrap(const uint8_t *data, size_t size, uint8_t *message) {
        size_t have = 0, at = 0, need = 4;

        while (have < need) {
                size_t length = (size_t)data[at + 3] << 8 | data[at + 4], n = MIN(length, size - at - 5);

                memcpy(message + have, data + at + 5, n);
                have += n;
                at += 5 + n;
                if (have >= 4)
                        need = 4 + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
        }
        return need;
}

static void cut_otherwise(const uint8_t *data, size_t size, const struct hello *first) {
        uint8_t *message = malloc(size), *cut = malloc(6 * size);
        size_t length, out = 0, piece;
        struct hello again;

        assert(message && cut);
        length = unwrap(data, size, message);
        piece = MAX(length / 64, (size_t)1) + size % 7;
        for (size_t at = 0; at < length; at += piece) {
                size_t n = MIN(piece, length - at);
                const uint8_t header[5] = {22, 3, 1, (uint8_t)(n >> 8), (uint8_t)n};

                memcpy(cut + out, header, sizeof header);
                memcpy(cut + out + sizeof header, message + at, n);
                out += sizeof header + n;
        }
        if (out <= HELLO_MAX) {
                assert(hello_parse(cut, out - 1, &again) == HELLO_MORE);
                assert(hello_parse(cut, out, &again) == HELLO_DONE && same(first, &again));
        }
        free(message);
        free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct hello h = {0}, early;
        enum hello_result r = hello_parse(data, size, &h);
        char name[HOSTNAME_SIZE];

        for (size_t n = 0; n < size; n += 1 + size / 64) {
                enum hello_result before = hello_parse(data, n, &early);

                assert(before == HELLO_MORE || before == r);
                assert(before != HELLO_DONE || same(&early, &h));
        }
        assert(r != HELLO_MORE || size < HELLO_MAX);
        if (r != HELLO_DONE)
                return 0;
        assert(h.named || h.name[0] == '\0');
        assert(h.name[0] == '\0' || (hostname_canonical(h.name, strlen(h.name), name) > 0 && str_eq(name, h.name)));
        cut_otherwise(data, size, &h);
        return 0;
}
