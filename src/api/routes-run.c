/* Routes about runs and terminals. */
#include <signal.h>
#include <stdio.h>

#include "api/routes.h"
#include "api/views.h"
#include "base/json-read.h"

/* Copies a member of the body, if it is there. */
static void copy(struct exchange *x, struct json *j, const char *name) {
        size_t size = 0;
        const char *value = json_at(x->body.data, name, &size);

        if (value)
                views_member(j, name, value, size);
}

/* A text of the body; NULL if it is none. */
static char *text_of(struct exchange *x, const char *name) {
        size_t size = 0;

        if (json_find_kind(x->body.data, name) != '"' || !json_at(x->body.data, name, &size))
                return NULL;
        char *text = malloc(size + 1);
        if (text && !json_find_str(x->body.data, name, text, size + 1)) {
                free(text);
                return NULL;
        }
        return text;
}

static bool known_fields(struct exchange *x) {
        struct buf b = {.max = 2U << 20};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        bool good = route_fields(x, &j);
        buf_free(&b);
        return good;
}

static void shell(struct json *j, const char *command) {
        json_open(j, "argv", '[');
        json_str(j, NULL, "/bin/sh");
        json_str(j, NULL, "-lc");
        json_str(j, NULL, command);
        json_close(j, ']');
}

/* "env_json" is an object, or the text of one: that is how clients of Tangle send it. */
static bool add_environment(struct exchange *x, struct json *j) {
        _cleanup_free_ char *text = text_of(x, "env_json");
        size_t size = 0;
        const char *value = json_at(x->body.data, "env_json", &size);

        if (json_find_kind(x->body.data, "env")) {
                copy(x, j, "env");
                return true;
        }
        if (!value || (text && !text[0]))
                return true;
        if (text && (json_check(text, strlen(text), NULL) < 0 || json_find_kind(text, "") != '{')) {
                reply_error(x, "bad_request", "an object of texts is right", "'env_json' is not a JSON object");
                return false;
        }
        views_member(j, "env", text ? text : value, text ? strlen(text) : size);
        return true;
}

static bool has(struct exchange *x, const char *name) {
        bool yes = false;

        return json_find_bool(x->body.data, name, &yes) && yes;
}

void exec_begin(struct exchange *x) {
        static const char *const plain[] = {"cwd", "timeout_ms", "tty", "rows", "cols", "key"};
        _cleanup_free_ char *command = text_of(x, "command"), *input = text_of(x, "stdin");
        struct buf b = {.max = 2U << 20};
        struct json j = {.out = &b};
        bool stream = has(x, "stream"), background = has(x, "background");

        if (!known_fields(x))
                return;
        if (!command == !json_find_kind(x->body.data, "argv") || (command && strlen(command) > 100U * 1024)) {
                reply_error(x, "bad_request", "send {\"command\": \"ls -l\"} or {\"argv\": [\"ls\", \"-l\"]}",
                            "one of 'command' (at most 100 KiB) and 'argv' is needed");
                return;
        }
        route_request(x, &j, "exec");
        if (command)
                shell(&j, command);
        else
                copy(x, &j, "argv");
        for (size_t i = 0; i < ELEMENTSOF(plain); i++)
                copy(x, &j, plain[i]);
        if (!add_environment(x, &j)) {
                buf_free(&b);
                return;
        }
        json_bool(&j, "stdin", input != NULL);
        json_bool(&j, "detach", background);
        json_close(&j, '}');
        x->view = background ? &view_background : stream ? &view_run_events : &view_run;
        exchange_dispatch(x, &b);
        if (input && x->busy) {
                size_t size = strlen(input);

                exchange_feed(x, TAKE_PTR(input), size);
        }
}

static void background_answer(struct exchange *x, const char *result) {
        uint64_t run = 0;
        char members[64];

        (void)json_find_u64(result, "run", &run);
        (void)snprintf(members, sizeof members, "\"accepted\":true,\"run_id\":%llu", (unsigned long long)run);
        views_merge(x, 202, members, result);
}

const struct view view_background = {.answer = background_answer};

/* --- one run
 * ------------------------------------------------------------------------------------------------------------ */

static uint64_t run_number(const struct exchange *x) {
        const char *text = route_param(x, "run");

        return text && strlen(text) <= 10 && !text[strspn(text, "0123456789")] ? strtoull(text, NULL, 10) : 0;
}

void run_show(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        uint64_t run = run_number(x);

        if (run == 0 || run > UINT32_MAX) {
                reply_error(x, "bad_request", "runs have numbers from 1 on", "'%.40s' is no run",
                            route_param(x, "run"));
                return;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "verb", "runs");
        json_str(&j, "sandbox", route_param(x, "sandbox"));
        json_u64(&j, "before", run + 1);
        json_u64(&j, "max", 1);
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

static void one_answer(struct exchange *x, const char *result) {
        uint64_t run = 0;

        if (json_find_u64(result, "runs.0.run", &run) && run == run_number(x))
                view_first.answer(x, result);
        else
                reply_error(x, "not_found", "GET …/runs lists them", "there is no run %llu",
                            (unsigned long long)run_number(x));
}

const struct view view_run_one = {.answer = one_answer};

void run_logs(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        char follow[8] = "";

        if (route_query(x, "follow", follow, sizeof follow) > 0 && !str_eq(follow, "false") && !str_eq(follow, "0"))
                x->view = &view_run_events;
        route_request(x, &j, "logs");
        if (!route_fields(x, &j)) {
                buf_free(&b);
                return;
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

/* A number, or a name with or without "SIG". */
static uint64_t signal_of(struct exchange *x) {
        _cleanup_free_ char *name = text_of(x, "signal");
        uint64_t number = 0;

        if (json_find_u64(x->body.data, "signal", &number) || !name)
                return number;
        for (int i = 1; i < 32; i++) {
                const char *known = sigabbrev_np(i);

                if (known && (str_eq(known, name) || (str_starts(name, "SIG") && str_eq(known, name + 3))))
                        return (uint64_t)i;
        }
        return 0;
}

void run_signal_begin(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        uint64_t number = signal_of(x);

        if (!known_fields(x))
                return;
        if (number == 0 || number > 64) {
                reply_error(x, "bad_request", "send {\"signal\": \"TERM\"} or {\"signal\": 15}", "this is no signal");
                return;
        }
        route_request(x, &j, "signal");
        json_u64(&j, "signal", number);
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

static void done_answer(struct exchange *x, const char *result) {
        views_merge(x, 200, "\"success\":true", result);
}

const struct view view_done = {.answer = done_answer};

/* --- terminals
 * ------------------------------------------------------------------------------------------------------------ */

void terminal_make(struct exchange *x) {
        static const char *const plain[] = {"cwd", "rows", "cols"};
        _cleanup_free_ char *command = text_of(x, "command");
        struct buf b = {.max = 2U << 20};
        struct json j = {.out = &b};

        if (!known_fields(x))
                return;
        route_request(x, &j, "exec");
        shell(&j, command ? command : "if command -v bash >/dev/null; then exec bash -l; else exec sh -i; fi");
        for (size_t i = 0; i < ELEMENTSOF(plain); i++)
                copy(x, &j, plain[i]);
        if (json_find_kind(x->body.data, "env"))
                copy(x, &j, "env");
        else {
                json_open(&j, "env", '{');
                json_str(&j, "TERM", "xterm-256color");
                json_close(&j, '}');
        }
        json_bool(&j, "tty", true);
        json_bool(&j, "detach", true);
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

static void session_json(struct json *j, uint64_t run) {
        char text[32];

        json_open(j, NULL, '{');
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)run);
        json_str(j, "session_id", text);
        (void)snprintf(text, sizeof text, "Terminal %llu", (unsigned long long)run);
        json_str(j, "title", text);
        json_close(j, '}');
}

static void terminal_made(struct exchange *x, const char *result) {
        struct buf b = {0};
        struct json j = {.out = &b};
        uint64_t run = 0;

        (void)json_find_u64(result, "run", &run);
        session_json(&j, run);
        reply_json(x, 200, &b);
}

const struct view view_terminal_made = {.answer = terminal_made};

static void terminals(struct exchange *x, const char *result) {
        struct buf b = {.max = LOCAL_ANSWER_MAX};
        struct json j = {.out = &b};
        struct json_walk w;

        json_open(&j, NULL, '{');
        json_open(&j, "sessions", '[');
        if (json_walk_begin(&w, result, "runs"))
                while (json_walk_next(&w)) {
                        char state[16] = "";
                        uint64_t run = 0;
                        bool tty = false;

                        (void)json_find_bool(w.value, "tty", &tty);
                        (void)json_find_u64(w.value, "run", &run);
                        if (tty && json_find_str(w.value, "state", state, sizeof state) && str_eq(state, "running"))
                                session_json(&j, run);
                }
        json_close(&j, ']');
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

const struct view view_terminals = {.answer = terminals};

static void deleted(struct exchange *x, const char *result) {
        char members[64];

        (void)result;
        (void)snprintf(members, sizeof members, "\"deleted\":true,\"session_id\":\"%llu\"",
                       (unsigned long long)run_number(x));
        views_merge(x, 200, members, "{}");
}

const struct view view_deleted = {.answer = deleted};
