/* Fuzz target: what Docker and Firecracker answer. However it is cut, it means the same; a body never exceeds its cap.
 */
#include <assert.h>
#include <string.h>

#include "driver/engine.h"
#include "tests/fuzz/fuzz.h"

static int read_in(const uint8_t *data, size_t size, size_t piece, struct ask_answer *ret) {
        _cleanup_reader_ struct ask_reader reader = {.who = "x", .answer = ret};

        for (size_t at = 0; at < size; at += piece) {
                int r = ask_feed(&reader, data + at, MIN(piece, size - at), NULL);
                if (r != 0)
                        return r;
        }
        return ask_end(&reader, NULL) < 0 ? -1 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_answer_ struct ask_answer whole = {0}, pieces = {0};
        struct err err = {0};

        if (size > 1 << 16)
                return 0;
        int a = read_in(data, size, MAX(size, (size_t)1), &whole), b = read_in(data, size, 3, &pieces);
        assert((a == 1) == (b == 1));
        if (a != 1)
                return 0;
        assert(whole.status == pieces.status && whole.body.size == pieces.body.size);
        assert(memcmp(whole.body.data, pieces.body.data, whole.body.size) == 0 && whole.body.size <= ASK_ANSWER_MAX);
        (void)engine_refused(&whole, "x", &err);
        for (const char *s = err.text; *s; s++)
                assert((unsigned char)*s >= ' ');
        return 0;
}
