/* Fuzz target: escapes of paths and queries. What is accepted is UTF-8 without control characters, no longer than what
 * it was made from, and the same when it is encoded and decoded again; a shorter room is never overrun. Paths of files
 * are the same, but for control characters that were escaped. */
#include "api/encode.h"
#include "api/percent.h"
#include "base/text.h"
#include "tests/fuzz/fuzz.h"

static void path(const uint8_t *data, size_t size) {
        char text[512], again[512], escaped[3 * sizeof text];
        bool plain = percent_decode((const char *)data, size, again, sizeof again);

        assert(percent_decode_path((const char *)data, size, text, sizeof text) || !plain);
        if (!percent_decode_path((const char *)data, size, text, sizeof text))
                return;
        size_t n = strlen(text);
        assert(n <= size && text_is_utf8(text) && (!plain || str_eq(text, again)));
        for (size_t i = 0; i < n; i++)
                (void)snprintf(escaped + 3 * i, 4, "%%%02X", (unsigned char)text[i]);
        assert(percent_decode_path(escaped, 3 * n, again, sizeof again) && str_eq(text, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char text[512], again[512], escaped[3 * sizeof text];

        path(data, size);
        assert(encode_whole(data, size) <= size && size - encode_whole(data, size) <= 3);
        for (size_t room = 1; room <= sizeof text; room *= 8) {
                memset(text, 'x', sizeof text);
                bool good = percent_decode((const char *)data, size, text, room);

                for (size_t i = room; i < sizeof text; i++)
                        assert(text[i] == 'x');
                if (!good)
                        continue;
                size_t n = strlen(text);
                assert(n < room && n <= size && text_is_utf8(text));
                for (size_t i = 0; i < n; i++) {
                        assert((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
                        (void)snprintf(escaped + 3 * i, 4, "%%%02X", (unsigned char)text[i]);
                }
                assert(percent_decode(escaped, 3 * n, again, sizeof again) && str_eq(text, again));
        }
        return 0;
}
