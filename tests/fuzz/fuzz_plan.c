/* Fuzz target: the plan reader. What plan_check accepts, plan_next must walk and plan_print_step must print. */
#include "tests/fuzz/fuzz.h"
#include "wire/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct plan p;
        struct err err;
        struct plan_walk walk = {0};
        struct plan_step s;
        unsigned steps = 0;

        if (plan_check(data, size, &p, &err) < 0)
                return 0;
        _cleanup_buf_ struct buf out = {.max = 16 << 20};
        while (plan_next(&p, &walk, &s)) {
                plan_print_step(&s, &out);
                steps++;
        }
        assert(steps > 0 && s.op == OP_EXEC);
        assert(!walk.wire.failed);
        return 0;
}
