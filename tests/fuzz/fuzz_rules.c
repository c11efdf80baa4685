/* Fuzz target: the reader of network rules. What rules_check accepts, rules_next must walk to its end, and writing it
 * again must give the same bytes: there is one form only. What it refuses, rules_next must still walk within bounds. */
#include "tests/fuzz/fuzz.h"
#include "wire/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_buf_ struct buf again = {0};
        struct rules_walk walk = {0};
        struct err err = {0};
        struct rule r;
        int walked = 0;

        int count = rules_check(data, size, &err);
        rules_begin(&again);
        for (; walked <= RULES_MAX && rules_next(data, size, &walk, &r); walked++)
                rules_add(&again, &r);
        if (count < 0) {
                assert(err.text[0] != '\0');
                return 0;
        }
        assert(walked == count && !walk.wire.failed);
        assert(buf_ok(&again) && again.size == size && memcmp(again.data, data, size) == 0);
        return 0;
}
