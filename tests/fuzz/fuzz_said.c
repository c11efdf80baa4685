/* Fuzz target: what a hostile sandbox prints, read as lines of the probe. What is believed is a result that a probe can
 * have, with texts that end and are UTF-8; it is in exactly one line; said twice, or without its end of line, it is not
 * believed; and other lines around it change nothing. */
#include "base/text.h"
#include "tests/fuzz/fuzz.h"
#include "verify/launch.h"

static bool find(const char *before, const uint8_t *data, size_t size, const char *after, struct said *ret) {
        _cleanup_buf_ struct buf out = {.max = 64 << 20};

        buf_str(&out, before);
        buf_add(&out, data, size);
        buf_str(&out, after);
        assert(buf_ok(&out));
        return said_find(&out, "try", ret);
}

static bool same(const struct said *a, const struct said *b) {
        return str_eq(a->result, b->result) && str_eq(a->error, b->error) && str_eq(a->evidence, b->evidence);
}

static void check_text(const char *text, size_t room) {
        size_t n = strnlen(text, room);

        assert(n < room);
        for (size_t i = 0, length; i < n; i += length) {
                length = text_utf8_length((const unsigned char *)text + i);
                assert(length > 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const results[] = {"done", "refused", "killed", "guarded", "not tried"};
        static const char own[] = "{\"name\":\"try\",\"result\":\"done\",\"errno\":null,\"evidence\":\"\"}\n";
        static const char other[] = "{\"name\":\"other\",\"result\":\"done\",\"errno\":null,\"evidence\":\"try\"}\n";
        struct said said, again;
        bool known = false;

        memset(&said, 0x55, sizeof said);
        if (!find("", data, size, "", &said)) {
                assert(said.result[0] == 0x55); /* untouched */
                return 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                known = known || str_eq(said.result, results[i]);
        assert(known);
        check_text(said.error, sizeof said.error);
        check_text(said.evidence, sizeof said.evidence);
        assert(memmem(data, size, "\n", 1));
        assert(find(other, data, size, "", &again) && same(&said, &again));
        /* a line without its end may be about the same attempt: what follows must not end it */
        assert(find("{\n\r\r\nnoise\n", data, size, data[size - 1] == '\n' ? "{\"name\":\"try\"" : "", &again) &&
               same(&said, &again));
        assert(!find(own, data, size, "", &again)); /* a forged line takes the belief away from the true one too */
        assert(!find("", data, size, "\n{\"name\":\"try\",\"result\":\"done\",\"errno\":null,\"evidence\":\"\"}\n",
                     &again));
        return 0;
}
