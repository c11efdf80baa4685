/* Captures one run that works and one that is stopped, as the records that every run leaves. */
#include "base/json-read.h"
#include "verify/report.h"

static void capture(struct judge *j, struct judge_record *r, const char *name, const struct launch *l) {
        _cleanup_outcome_ struct outcome o = {0};
        struct err err;

        if (launch_run(j, l, &o, &err) == 0 && o.record)
                (void)keep_record(j, r, name, o.record, &err);
}

void records_capture(struct judge *j) {
        static const char *const works[] = {"{probe}", "list", NULL};
        static const char *const stopped[] = {"{probe}", "gate-other-name", NULL};
        static const char *const rules[] = {"--allow", "good.test", NULL};
        const struct launch good = {.where = LAUNCH_INSIDE, .argv = works, .record = true};
        const struct launch bad = {
                .where = LAUNCH_INSIDE, .argv = stopped, .options = rules, .facts = true, .record = true};

        if (!launch_has_options(j))
                return;
        capture(j, &j->allowed, "allowed", &good);
        capture(j, &j->blocked, "blocked", &bad);
}
