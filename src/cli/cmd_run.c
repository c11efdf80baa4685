/* `stockade run`: one command in a sandbox, and nothing left behind. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/box.h"
#include "cli/cmd.h"

static int print_plan(const struct run *r) {
        _cleanup_buf_ struct buf out = {0};
        struct plan_walk walk = {0};
        struct plan_step s;
        char hash[HASH_TEXT_SIZE];

        hash_text(r->plan.policy_hash, hash);
        if (r->options.json) {
                struct json j = {.out = &out};
                json_open(&j, NULL, '{');
                json_str(&j, "policy_hash", hash);
                json_open(&j, "steps", '[');
                while (plan_next(&r->plan, &walk, &s)) {
                        json_open(&j, NULL, '{');
                        json_str(&j, "op", plan_op_name(s.op));
                        for (size_t i = 0; i < ELEMENTSOF(s.text) && s.text[i]; i++)
                                json_str(&j, i ? "to" : "text", s.text[i]);
                        json_open(&j, "numbers", '[');
                        for (size_t i = 0; i < ELEMENTSOF(s.number); i++)
                                json_u64(&j, NULL, s.number[i]);
                        json_close(&j, ']');
                        json_u64(&j, "flags", s.flags);
                        json_close(&j, '}');
                }
                json_close(&j, ']');
                json_close(&j, '}');
                buf_str(&out, "\n");
        } else {
                buf_printf(&out, "policy %s\n", hash);
                while (plan_next(&r->plan, &walk, &s))
                        plan_print_step(&s, &out);
        }
        if (!buf_ok(&out) || fputs(out.data, stdout) < 0 || fflush(stdout) != 0)
                return EXIT_FAILED;
        return 0;
}

/* A run that came to its end. */
static void settle(struct run *r, struct err *err) {
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        r->outcome.end_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
        if (r->options.record || r->options.json)
                (void)cgroup_usage(&r->cgroup, &r->outcome.usage);
        else
                (void)cgroup_refusals(&r->cgroup, &r->outcome.usage);
        r->outcome.audit = r->audit >= 0 && (r->options.record || r->options.json) && audit_is_on();
        outcome_judge(r);
        if (r->outcome.exec_error && !r->options.json) {
                (void)err_set(err, r->outcome.exec_error, "cannot execute '%s' in the sandbox", r->options.argv[0]);
                err_print(err);
        }
        record_tell(r);
        if (learn_finish(r, err) < 0) {
                err_print(err);
                r->outcome.status = EXIT_FAILED;
        }
        if (r->limits.overlay && changes_settle(r, err) < 0) {
                err_print(err);
                r->outcome.status = EXIT_FAILED;
        }
        if (record_write(r, err) < 0) {
                err_print(err);
                r->outcome.status = EXIT_FAILED;
        }
}

/* A run that did not begin, or not well: it has a record too. */
static void refuse(struct run *r, struct err *err) {
        struct err ignored;

        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        r->outcome.end_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
        if (r->outcome.start_ms == 0)
                r->outcome.start_ms = r->outcome.end_ms;
        if (r->keep >= 0)
                (void)unlink(r->options.keep); /* made for changes that will not come */
        r->outcome.reason = REASON_FAILED;
        r->outcome.status = EXIT_FAILED;
        r->outcome.error = err->text;
        memset(&r->outcome.usage, 0xff, sizeof r->outcome.usage); /* nothing was measured */
        (void)record_write(r, &ignored);
}

int cmd_run(int argc, char **argv) {
        static struct run r = {.cgroup = CGROUP_INIT,
                               .cell = {.user_ns = -EBADF,
                                        .stdio = {-EBADF, -EBADF, -EBADF},
                                        .report = -EBADF,
                                        .authority = {-EBADF, -EBADF, -EBADF}},
                               .network = NETWORK_INIT,
                               .pidfd = -EBADF,
                               .skeleton_lock = -EBADF,
                               .report = -EBADF,
                               .id_lock = -EBADF,
                               .keeper = -EBADF,
                               .audit = -EBADF,
                               .record = -EBADF,
                               .keep = -EBADF,
                               .from = {-EBADF, -EBADF, -EBADF},
                               .to_stdin = -EBADF,
                               .master = -EBADF,
                               .upper = -EBADF,
                               .lower = -EBADF};
        struct err err = {0};

        int result = options_parse(argc, argv, &r.options, &err);
        if (result == 1)
                return 0;
        if (result == 0 && box_wanted(&r.options))
                return box_run(&r.options);
        if (result == 0)
                result = start_name(&r, &err);
        if (result == 0 && !r.options.plan)
                result = record_open(&r, &err);
        if (result == 0)
                result = plan_cache_get(&r, &err);
        if (result == 0 && r.options.plan)
                return print_plan(&r);
        if (result == 0)
                result = plan_cache_guard(&r, &err);
        if (result == 0)
                result = start_run(&r, &err);
        if (result == 0)
                result = loop_run(&r, &err);
        if (result == 0)
                settle(&r, &err);
        else {
                relay_terminal_restore(&r);
                err_print(&err);
                refuse(&r, &err);
        }
        start_cleanup(&r);
        return r.outcome.status;
}
