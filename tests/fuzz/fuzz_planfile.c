/* Fuzz target: a kept plan with its sources, as the cache may hold it. What is accepted has at most so many sources,
 * each with a path, and one form only: written again it is the same bytes. Cut short it is refused. */
#include "cli/plan_file.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_buf_ struct buf again = {.max = 64 << 20};
        struct plan_source source;
        struct plan_file f;
        struct err err = {0};
        unsigned walked = 0;

        int r = plan_file_open(&f, data, size, &err);
        if (r < 0) {
                assert(r == ERR_CORRUPT && err.text[0] != '\0');
                return 0;
        }
        assert(f.left <= PLAN_FILE_SOURCES_MAX && f.plan && f.plan_size < size);
        unsigned count = f.left;
        plan_file_begin(&again, count);
        for (; plan_file_next(&f, &source); walked++) {
                assert(source.path[0] != '\0' && source.hash);
                plan_file_add(&again, &source);
        }
        assert(walked == count);
        plan_file_end(&again, f.plan, f.plan_size);
        assert(buf_ok(&again) && again.size == size && memcmp(again.data, data, size) == 0);
        assert(plan_file_open(&f, data, size - 1, &err) == ERR_CORRUPT);
        return 0;
}
