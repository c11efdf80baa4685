/* `stockade doctor`: what this host can enforce, what it cannot, what that costs, and what fixes it. Changes nothing.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "cell/host.h"
#include "cli/cmd.h"
#include "cli/doctor_driver.h"
#include "cli/selftest.h"

static const char *const state_names[] = {[FACT_OK] = "ok", [FACT_LIMITED] = "limited", [FACT_MISSING] = "missing"};
static const char *const marks[] = {[FACT_OK] = "✓", [FACT_LIMITED] = "~", [FACT_MISSING] = "✗"};
static const char *const colors[] = {[FACT_OK] = "\033[32m", [FACT_LIMITED] = "\033[33m", [FACT_MISSING] = "\033[31m"};

static void usage(FILE *out) {
        (void)fputs("usage: stockade doctor [--json]\n"
                    "\n"
                    "Tries every mechanism that sandboxes are made of and says what works here, for this user,\n"
                    "what does not, what that costs and how to change it.\n"
                    "\n"
                    "  --json   the same as one JSON object\n"
                    "\n"
                    "Exit status: 0 if the tier `low` can run here, 1 if it cannot, 125 for wrong use.\n",
                    out);
}

static void print_line(const char *label, const char *text) {
        char line[512];

        text_escape(line, sizeof line, text);
        (void)printf("      %s%s\n", label, line);
}

static void print_table(const struct host_fact *facts, size_t count, bool low) {
        bool color = isatty(STDOUT_FILENO);
        int width = 0;
        const char *group = "";

        for (size_t i = 0; i < count; i++)
                width = MAX(width, (int)strlen(facts[i].name));
        for (size_t i = 0; i < count; i++) {
                const struct host_fact *f = &facts[i];
                char line[512];
                if (!str_eq(group, f->group))
                        (void)printf("%s%s\n", i ? "\n" : "", f->group);
                group = f->group;
                text_escape(line, sizeof line, f->detail);
                (void)printf("  %s%s%s %-*s  %s\n", color ? colors[f->state] : "", marks[f->state],
                             color ? "\033[0m" : "", width, f->name, line);
                if (f->state != FACT_OK && f->cost[0])
                        print_line("costs: ", f->cost);
                if (f->state != FACT_OK && f->fix[0])
                        print_line("fix:   ", f->fix);
        }
        (void)printf("\nThe tier low %s here", low ? "can run" : "cannot run");
        for (size_t i = 0, named = 0; i < count; i++)
                if (facts[i].needed_for_low && facts[i].state == FACT_MISSING)
                        (void)printf("%s%s", named++ ? ", " : "; it needs: ", facts[i].name);
        (void)printf(".\n");
}

static void print_json(const struct host_fact *facts, size_t count, bool low) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};

        json_open(&j, NULL, '{');
        json_bool(&j, "low", low);
        json_u64(&j, "uid", geteuid());
        json_open(&j, "facts", '[');
        for (size_t i = 0; i < count; i++) {
                json_open(&j, NULL, '{');
                json_str(&j, "name", facts[i].name);
                json_str(&j, "group", facts[i].group);
                json_str(&j, "state", state_names[facts[i].state]);
                json_bool(&j, "needed_for_low", facts[i].needed_for_low);
                json_str(&j, "detail", facts[i].detail);
                json_str(&j, "cost", facts[i].cost);
                json_str(&j, "fix", facts[i].fix);
                json_close(&j, '}');
        }
        json_close(&j, ']');
        json_close(&j, '}');
        buf_str(&out, "\n");
        if (buf_ok(&out))
                (void)fputs(out.data, stdout);
}

/* A driver is offered if a sandbox of it holds against the self-test. */
static void add_native(struct host_fact *f) {
        struct selftest test;

        selftest_run("native", &test);
        *f = (struct host_fact){
                .name = "native",
                .group = "drivers",
                .state = test.passed ? FACT_OK : FACT_MISSING,
                .needed_for_low = true,
        };
        if (test.passed) {
                (void)snprintf(f->detail, sizeof f->detail, "offered: its self-test held, %u attacks in %u ms",
                               test.checks, test.ms);
                return;
        }
        (void)snprintf(f->detail, sizeof f->detail, "not offered: %.140s", test.words);
        (void)snprintf(f->cost, sizeof f->cost, "that sandboxes of driver native hold on this host has not been shown");
        (void)snprintf(
                f->fix, sizeof f->fix,
                "`stockade verify --self-test --verbose` says which attack got through, or why it cannot be made");
}

int cmd_doctor(int argc, char **argv) {
        static struct host_fact facts[HOST_FACTS_MAX];
        bool json = false;

        for (int i = 1; i < argc; i++) {
                if (str_eq(argv[i], "--json"))
                        json = true;
                else if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
                        usage(stdout);
                        return 0;
                } else {
                        struct err err;
                        (void)err_set(&err, ERR_INPUT, "doctor does not know '%s'", argv[i]);
                        (void)err_hint(&err, "stockade doctor --help");
                        err_print(&err);
                        return EXIT_FAILED;
                }
        }

        size_t count = host_probe(facts, ELEMENTSOF(facts) - 1);
        count = doctor_drivers(facts, count, ELEMENTSOF(facts) - 1);
        add_native(&facts[count++]);
        bool low = host_runs_low(facts, count);
        if (json)
                print_json(facts, count, low);
        else
                print_table(facts, count, low);
        return low ? 0 : EXIT_FOUND;
}
