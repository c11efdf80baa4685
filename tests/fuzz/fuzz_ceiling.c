/* Fuzz target: a plan from a captured operator, held against the ceiling. What fits is no user 0, has limits that are
 * within it, and names no host path but those that it allows. */
#include "cell/cell.h"
#include "tests/fuzz/fuzz.h"
#include "warden/ceiling-path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct conf conf;
        static struct ceiling ceiling = {.guest = "/usr/libexec/stockade/stockade-guest"};
        struct ceiling_plan found;
        struct plan_walk walk = {0};
        struct plan_step s;
        struct plan p;
        struct err err = {0};

        if (!ceiling.conf) {
                conf_defaults(&conf);
                ceiling.conf = &conf;
        }
        if (size > PLAN_MAX_SIZE || plan_check(data, size, &p, NULL) < 0)
                return 0;
        if (ceiling_check(&ceiling, &p, &found, &err) < 0) {
                assert(err.text[0]);
                return 0;
        }
        assert(found.uid > 0 && found.gid > 0 && found.uid < CELL_ID_RANGE && found.gid < CELL_ID_RANGE);
        assert(found.memory <= conf.ceiling_memory && found.cpus <= conf.ceiling_cpus);
        assert(found.processes <= conf.ceiling_processes && found.filter_size > 0 && found.cwd);
        while (plan_next(&p, &walk, &s)) {
                assert(s.op != OP_ROOT_BIND && s.op != OP_ROOT_OVERLAY && s.op != OP_OVERLAY);
                if (s.op == OP_BIND && !(s.flags & STEP_DEVICE) && !str_eq(s.text[1], CELL_GUEST_PATH))
                        assert(ceiling_path_readable(&ceiling, s.text[0]) && !(s.flags & (STEP_WRITE | STEP_OWNED)));
        }
        return 0;
}
