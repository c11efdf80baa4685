/* What runs and ran in a sandbox: `stockade runs`, `logs`, `cancel`, `ps`. */
#include <unistd.h>

#include "base/json-read.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/tell.h"

struct options {
        struct args_common common;
        bool follow;
        uint64_t max, before;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option runs_options[] = {
        {"max", 'n', "N", "so many, the newest first (default: 50)", ARGS_COUNT, AT(max)},
        {"before", 0, "RUN", "those before this one", ARGS_COUNT, AT(before)},
};

const struct args_verb runs_verb = {
        .name = "runs",
        .words = "SANDBOX",
        .summary = "list the commands that run and ran in a sandbox",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_SANDBOX},
        .options = runs_options,
        .count = ELEMENTSOF(runs_options),
};

static const struct args_option logs_options[] = {
        {"follow", 'f', NULL, "go on until the run ends", ARGS_FLAG, AT(follow)},
};

const struct args_verb logs_verb = {
        .name = "logs",
        .words = "SANDBOX RUN",
        .summary = "print what a command printed",
        .about = "Prints the kept output of a run, its standard error to standard error. What is kept is capped: of a "
                 "run "
                 "that prints without end the newest part is there.",
        .least = 2,
        .most = 2,
        .what = {WHAT_SANDBOX, WHAT_TEXT},
        .options = logs_options,
        .count = ELEMENTSOF(logs_options),
};

const struct args_verb cancel_verb = {
        .name = "cancel",
        .words = "SANDBOX RUN",
        .summary = "end a command with everything that it started",
        .about = "Ends every process that the run started, wherever it went in the sandbox, at once. The others go on.",
        .flags = ARGS_JSON,
        .least = 2,
        .most = 2,
        .what = {WHAT_SANDBOX, WHAT_TEXT},
};

const struct args_verb ps_verb = {
        .name = "ps",
        .words = "SANDBOX",
        .summary = "list the processes in a sandbox",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_SANDBOX},
};

/* A command as a person would type it: an array of words, or a text. */
static void add_command(struct table *t, const char *run) {
        _cleanup_buf_ struct buf b = {.max = 4096};
        char word[1024];
        struct json_walk w;

        if (!json_walk_begin(&w, run, "command")) {
                table_json(t, run, "command");
                return;
        }
        while (json_walk_next(&w)) {
                if (b.size > 0)
                        buf_str(&b, " ");
                buf_str(&b, tell_text(word, sizeof word, w.value, ""));
        }
        table_cell(t, b.data ? b.data : "");
}

static void runs_table(const char *result) {
        static const struct table_column columns[] = {
                {"RUN", TABLE_RIGHT},  {"STATE", 0},         {"REASON", 0},        {"EXIT", TABLE_RIGHT},
                {"TIME", TABLE_RIGHT}, {"CPU", TABLE_RIGHT}, {"AGE", TABLE_RIGHT}, {"COMMAND", TABLE_SHRINK}};
        struct json_walk w;
        struct table t;
        char text[32];

        table_begin(&t, columns, ELEMENTSOF(columns));
        if (json_walk_begin(&w, result, "runs"))
                while (json_walk_next(&w)) {
                        uint64_t start = tell_number(w.value, "started_ms"), end = tell_number(w.value, "ended_ms");
                        uint64_t cpu = tell_number(w.value, "cpu_us"), number;

                        table_json(&t, w.value, "run");
                        table_json(&t, w.value, "state");
                        table_json(&t, w.value, "reason");
                        if (json_find_u64(w.value, "signal", &number) && number > 0) {
                                (void)snprintf(text, sizeof text, "%llu", 128 + (unsigned long long)number);
                                table_cell(&t, text);
                        } else
                                table_json(&t, w.value, "exit_code");
                        bool ended = end != UINT64_MAX && end > 0;
                        table_cell(&t, ended && end >= start ? tell_span(text, sizeof text, end - start)
                                                             : tell_ago(text, sizeof text, start));
                        table_cell(&t, cpu == UINT64_MAX ? "-" : tell_span(text, sizeof text, cpu / 1000));
                        table_cell(&t, tell_ago(text, sizeof text, start));
                        add_command(&t, w.value);
                }
        table_print(&t);
}

int cmd_runs(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {.max = 50};
        const char *result;
        int status;

        if (!client_begin(&runs_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "runs");
        talk_str(&q, "sandbox", argv[1]);
        json_u64(&q.json, "max", o.max);
        if (o.before > 0)
                json_u64(&q.json, "before", o.before);
        if (!client_ask(&t, &o.common, &q, &result, &status))
                return status;
        runs_table(result);
        return 0;
}

int cmd_logs(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct session s = {.talk = &t, .out = STDOUT_FILENO, .err = STDERR_FILENO, .signals = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        uint64_t run;
        int status;

        if (!client_begin(&logs_verb, &argc, argv, &o, &status))
                return status;
        int r = client_number(argv[2], "the number of a run", UINT32_MAX, &run, &err);
        talk_begin(&q, "logs");
        talk_str(&q, "sandbox", argv[1]);
        if (r == 0)
                json_u64(&q.json, "run", run);
        if (o.follow)
                json_bool(&q.json, "follow", true);
        if (r == 0)
                r = talk_go(&t, &o.common, &q, &err);
        if (r == 0)
                r = session_open(&s, &err);
        if (r == 0)
                r = session_run(&s, &err);
        session_close(&s);
        if (r == SESSION_ABANDONED)
                return 128 + s.signal;
        if (r == SESSION_LOST)
                r = err_set(&err, -EPIPE, "the daemon ended the connection without an answer");
        if (r == 0)
                r = talk_result(&t, &result, &err);
        return r < 0 ? talk_failed(&t, &o.common, &err) : 0;
}

int cmd_cancel(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        char state[32], reason[32];
        uint64_t run;
        int status;

        if (!client_begin(&cancel_verb, &argc, argv, &o, &status))
                return status;
        int r = client_number(argv[2], "the number of a run", UINT32_MAX, &run, &err);
        talk_begin(&q, "cancel");
        talk_str(&q, "sandbox", argv[1]);
        if (r == 0) {
                json_u64(&q.json, "run", run);
                r = talk_ask(&t, &o.common, &q, &result, &err);
        }
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.common.json)
                talk_print(result);
        else
                (void)printf("%llu  %s  %s\n", (unsigned long long)run, tell_text(state, sizeof state, result, "state"),
                             tell_text(reason, sizeof reason, result, "reason"));
        return 0;
}

int cmd_ps(int argc, char **argv) {
        static const struct table_column columns[] = {{"PID", TABLE_RIGHT}, {"PARENT", TABLE_RIGHT},
                                                      {"STATE", 0},         {"MEMORY", TABLE_RIGHT},
                                                      {"AGE", TABLE_RIGHT}, {"COMMAND", TABLE_SHRINK}};
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct json_walk w;
        struct table table;
        const char *result;
        char text[32];
        int status;

        if (!client_begin(&ps_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "processes");
        talk_str(&q, "sandbox", argv[1]);
        if (!client_ask(&t, &o.common, &q, &result, &status))
                return status;
        table_begin(&table, columns, ELEMENTSOF(columns));
        if (json_walk_begin(&w, result, "processes"))
                while (json_walk_next(&w)) {
                        table_json(&table, w.value, "pid");
                        table_json(&table, w.value, "parent");
                        table_json(&table, w.value, "state");
                        table_cell(&table, tell_size(text, sizeof text, tell_number(w.value, "memory")));
                        table_cell(&table, tell_ago(text, sizeof text, tell_number(w.value, "started_ms")));
                        add_command(&table, w.value);
                }
        table_print(&table);
        return 0;
}
