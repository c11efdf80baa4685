/* `stockade exec`, `shell`, `attach`: commands in a sandbox that runs.
 *
 * Streams are byte-exact and the exit status is the command's. When the connection to the daemon breaks the command
 * goes on; we come back to it from the byte where we were, for as long as a restart of the daemon may take. Only where
 * input from a pipe was under way there is no knowing how much of it arrived: then we say so and end. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json-read.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/exec.h"
#include "cli/session.h"
#include "cli/tell.h"
#include "cli/terminal.h"

/* How long we try to come back, how often, and when it is worth a word. */
enum { RETURN_MS = 15000, RETURN_STEP_MS = 100, RETURN_SAY_MS = 2000 };
enum { EXIT_TIMEOUT = 124, TYPED_MAX = 4096 };

#define AT(field) offsetof(struct exec_options, field)

#define ENV_ROW                                                                                                        \
        { "env", 'e', "K=V", "set a variable; K alone takes the caller's value", ARGS_LIST, AT(env) }
#define CWD_ROW                                                                                                        \
        { "cwd", 'w', "DIR", "working directory inside", ARGS_TEXT, AT(cwd) }

static const struct args_option exec_options[] = {
        {"interactive", 'i', NULL, "pass standard input on", ARGS_FLAG, AT(interactive)},
        {"tty", 't', NULL, "give the command a terminal of its own", ARGS_FLAG, AT(tty)},
        {"detach", 'd', NULL, "do not wait; print the number of the run", ARGS_FLAG, AT(detach)},
        ENV_ROW,
        CWD_ROW,
        {"timeout", 0, "TIME", "end it after this time, such as 30s", ARGS_TIME, AT(timeout)},
        {"key", 0, "TEXT", "idempotency, with --detach: the same key again gives the same run", ARGS_TEXT, AT(key)},
};

const struct args_verb exec_verb = {
        .name = "exec",
        .words = "SANDBOX COMMAND [ARGUMENT…]",
        .summary = "run a command in a sandbox that runs",
        .about = "Runs a command in the sandbox, in a group of its own that can be cancelled whole. The exit status is "
                 "the command's own; 124 timeout; 125 Stockade refused or failed; 126 and 127 as shells have it; 128+N "
                 "for signal N. Signals are passed on.\n\n"
                 "Without -i the command's standard input is empty. With -it it has a terminal: '~.' at the beginning "
                 "of a line leaves it running, and 'stockade attach' comes back.",
        .flags = ARGS_JSON | ARGS_COMMAND,
        .least = 2,
        .most = SIZE_MAX,
        .what = {WHAT_SANDBOX, WHAT_TEXT},
        .options = exec_options,
        .count = ELEMENTSOF(exec_options),
};

static const struct args_option shell_options[] = {ENV_ROW, CWD_ROW};

const struct args_verb shell_verb = {
        .name = "shell",
        .words = "SANDBOX",
        .summary = "a shell in a sandbox",
        .about = "A login shell on a terminal in the sandbox. When the daemon is restarted it comes back by itself, "
                 "with nothing lost; '~.' at the beginning of a line leaves it running, and so does closing the "
                 "window: 'stockade attach' comes back to it. Where we have no terminal it has none either: it reads "
                 "commands from standard input and ends with them.",
        .least = 1,
        .most = 1,
        .what = {WHAT_SANDBOX},
        .options = shell_options,
        .count = ELEMENTSOF(shell_options),
};

static const struct args_option attach_options[] = {
        {"interactive", 'i', NULL, "pass standard input on (always for terminals)", ARGS_FLAG, AT(interactive)},
};

const struct args_verb attach_verb = {
        .name = "attach",
        .words = "SANDBOX RUN",
        .summary = "come back to a command that runs",
        .about = "Takes up the streams of a run that is under way, and ends with its exit status. Of a terminal the "
                 "last "
                 "screens are shown first.",
        .least = 2,
        .most = 2,
        .what = {WHAT_SANDBOX, WHAT_TEXT},
        .options = attach_options,
        .count = ELEMENTSOF(attach_options),
};

/* One command, from the first connection to the last. */
struct job {
        const struct exec_options *o;
        const char *sandbox;
        uint64_t run; /* 0: not known yet */
        struct session session;
        struct talk talk;
        uint64_t until;    /* how long we try to come back, from the last byte that came */
        uint64_t received; /* bytes by then */
        uint64_t broke;    /* when the connection did */
        uint64_t back;     /* when there was one again */
        bool said, left;   /* that it broke; the keys that leave were typed meanwhile */
        char typed[TYPED_MAX];
        size_t typed_size; /* what else was: it goes to the next connection */
};

static void on_event(void *data, const char *json) {
        struct job *j = data;
        uint64_t number;
        char side[8];

        if (json_find_str(json, "lost", side, sizeof side) && json_find_u64(json, "bytes", &number)) {
                *(str_eq(side, "err") ? &j->session.err_bytes : &j->session.out_bytes) += number;
                (void)fprintf(stderr, "stockade: %llu bytes of its output were lost: they could not be kept%s\n",
                              (unsigned long long)number, j->session.tty ? "\r" : "");
                return;
        }
        if (json_find_u64(json, "run", &number))
                j->run = number;
        /* where its output begins on this connection */
        if (json_find_u64(json, "out", &number))
                j->session.out_bytes = number;
        if (json_find_u64(json, "err", &number))
                j->session.err_bytes = number;
}

static void begin_session(struct job *j, bool input, bool tty) {
        j->session = (struct session){.talk = &j->talk,
                                      .input = input,
                                      .tty = tty,
                                      .forward = true,
                                      .stays = j->o->ends,
                                      .out = STDOUT_FILENO,
                                      .err = STDERR_FILENO,
                                      .event = on_event,
                                      .data = j,
                                      .signals = -EBADF};
}

/* --- the end -------------------------------------------------------------------------------------------------- */

/* A run object as an exit status. */
static int status_of(const char *run) {
        uint64_t number;
        char reason[32] = "";

        (void)json_find_str(run, "reason", reason, sizeof reason);
        if (str_eq(reason, "timeout"))
                return EXIT_TIMEOUT;
        if (json_find_u64(run, "exit_code", &number) && number < 256)
                return (int)number;
        if (json_find_u64(run, "signal", &number) && number > 0 && number < 128)
                return 128 + (int)number;
        return EXIT_FAILED;
}

/* What the exit status alone does not say. */
static void explain(const char *run, bool elsewhere) {
        static const struct {
                const char *reason, *words;
        } rows[] = {
                {"timeout", "it ran longer than it may and was ended"},
                {"oom", "it needed more memory than it may have (limits.memory)"},
                {"disk_full", "its disk is full"},
                {"output_limit", "it printed more than it may (limits.output)"},
                {"budget", "its budget is used up"},
                {"cancelled", "it was cancelled"},
                {"stopped", "its sandbox was stopped"},
                {"lost", "its sandbox ended, and nobody knows how"},
                {"denied", "it may not be executed: by its permissions, or by the policy"},
                {"driver_failed", "its sandbox failed"},
        };
        char reason[32];

        /* a shell that finds no program has said so itself */
        if (tell_number(run, "exit_code") == 127 && tell_number(run, "err_bytes") == 0 &&
            tell_number(run, "out_bytes") == 0)
                (void)fprintf(stderr, "stockade: there is no such program in the sandbox%s\n",
                              elsewhere ? ", or no such folder (--cwd)" : "");
        if (!json_find_str(run, "reason", reason, sizeof reason))
                return;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (str_eq(rows[i].reason, reason))
                        (void)fprintf(stderr, "stockade: %s\n", rows[i].words);
}

static int answered(struct job *j) {
        struct err err = {0};
        const char *run;

        if (talk_result(&j->talk, &run, &err) < 0)
                return talk_failed(&j->talk, &j->o->common, &err);
        if (j->o->common.json) /* the streams were the command's */
                talk_print_to(stderr, run);
        else if (!j->o->quiet)
                explain(run, j->o->cwd != NULL);
        return status_of(run);
}

static int left(const struct job *j) {
        unsigned long long run = j->run;

        if (j->o->ends) {
                if (j->session.signal != SIGHUP)
                        (void)fputs("stockade: it does not end by itself: its sandbox is removed\n", stderr);
                return 128 + j->session.signal;
        }
        switch (j->session.signal) {
        case 0:
                (void)fprintf(stderr, "\r\nstockade: it goes on; come back with: stockade attach %s %llu\n", j->sandbox,
                              run);
                return 0;
        case SIGHUP: /* nobody is there to read it */
                break;
        default:
                if (run == 0)
                        (void)fprintf(stderr,
                                      "stockade: left; the command was not yet known to run\n"
                                      "  hint: stockade runs %s\n",
                                      j->sandbox);
                else
                        (void)fprintf(stderr,
                                      "stockade: it does not end; run %llu goes on in %s\n"
                                      "  hint: stockade cancel %s %llu ends it, stockade attach %s %llu comes back\n",
                                      run, j->sandbox, j->sandbox, run, j->sandbox, run);
        }
        return 128 + j->session.signal;
}

/* --- coming back ---------------------------------------------------------------------------------------------- */

static int ask_attach(struct job *j, bool from_offset, struct err *err) {
        _cleanup_request_ struct talk_request q;

        talk_begin(&q, "attach");
        talk_str(&q, "sandbox", j->sandbox);
        json_u64(&q.json, "run", j->run);
        if (from_offset) {
                json_u64(&q.json, "out", j->session.out_bytes);
                if (!j->session.tty)
                        json_u64(&q.json, "err", j->session.err_bytes);
        }
        return talk_go(&j->talk, &j->o->common, &q, err);
}

/* Keys, while nobody is there to send them to: Ctrl-C and the two that leave are for us. */
static void look_at_keys(struct job *j) {
        enum { INTERRUPT = 3 };
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        size_t room = sizeof j->typed - j->typed_size;

        if (!j->session.tty || !j->session.input || !terminal_is(STDIN_FILENO) || poll(&p, 1, 0) <= 0)
                return;
        char bytes[256], before = j->typed_size > 0 ? j->typed[j->typed_size - 1] : '\0';
        ssize_t n = read(STDIN_FILENO, bytes, MIN(sizeof bytes, room > 0 ? room : 1));
        for (ssize_t i = 0; i < n; before = bytes[i++])
                j->left |= bytes[i] == INTERRUPT || (bytes[i] == '.' && before == '~');
        if (n > 0 && room > 0) {
                memcpy(j->typed + j->typed_size, bytes, (size_t)n);
                j->typed_size += (size_t)n;
        }
}

/* Is there still a reason to wait for a connection? */
static bool go_on(void *data) {
        struct job *j = data;
        uint64_t now = tell_clock();

        if (!j->said && now - j->broke >= RETURN_SAY_MS) {
                (void)fprintf(stderr, "%sstockade: the connection broke; trying again, Ctrl-C leaves%s\n",
                              j->session.tty ? "\r\n" : "", j->session.tty ? "\r" : "");
                j->said = true;
        }
        look_at_keys(j);
        return session_pause(&j->session, 0) && !j->left && now < j->until;
}

/* What was typed meanwhile is for what runs there. */
static int send_typed(struct job *j, struct err *err) {
        size_t n = j->typed_size;

        j->typed_size = 0;
        j->session.in_bytes += n;
        int r = n > 0 ? talk_send(&j->talk, LOCAL_INPUT, j->typed, n, err) : 0;
        return r == -EPIPE ? 0 : r; /* gone again: whoever reads next will see */
}

static int ended_meanwhile(const struct job *j, struct err *err) {
        char hint[sizeof err->hint];

        (void)snprintf(hint, sizeof hint, "%.300s", err->hint);
        (void)err_hint(err, "%s; what runs goes on, and then: stockade attach %s %llu", hint, j->sandbox,
                       (unsigned long long)j->run);
        return -EKEYREJECTED;
}

/* After the connection broke: tries until the daemon answers again, or for as long as that may take. 1: the caller left
 * meanwhile. */
static int come_back(struct job *j, struct err *err) {
        uint64_t received = j->session.out_bytes + j->session.err_bytes;
        bool input = j->session.in_bytes > 0 || j->session.input_ended;

        if (j->run == 0)
                return err_set(err, -EPIPE, "the connection to the daemon broke before the command was known to run");
        if (input && !j->session.tty) {
                (void)err_set(err, -EPIPE, "the connection to the daemon broke while input was sent");
                return err_hint(err, "how much of it arrived is not known; run %llu goes on in %s",
                                (unsigned long long)j->run, j->sandbox);
        }
        j->broke = tell_clock();
        /* one that stood for long enough was a good one, whether something came or not */
        if (j->until == 0 || received != j->received || j->broke - j->back >= RETURN_MS)
                j->until = j->broke + RETURN_MS;
        j->received = received;
        j->said = false;
        while (tell_clock() < j->until) {
                talk_close(&j->talk);
                bool wait = session_pause(&j->session, RETURN_STEP_MS) && go_on(j);
                j->talk.go_on = go_on;
                j->talk.go_on_data = j;
                int r = wait ? ask_attach(j, true, err) : -EINTR;
                if (j->left)
                        return 1;
                if (j->session.signal != 0) {
                        (void)err_set(err, -EINTR, "told to end while there was no connection");
                        return err_hint(err, "what runs goes on: stockade attach %s %llu", j->sandbox,
                                        (unsigned long long)j->run);
                }
                if (r == -EKEYREJECTED) /* a session that has ended does not come back by waiting */
                        return ended_meanwhile(j, err);
                j->back = tell_clock();
                if (r == 0)
                        return send_typed(j, err);
        }
        (void)err_set(err, -EPIPE, "the connection to the daemon broke, and it does not come back");
        return err_hint(err, "what runs goes on; later: stockade attach %s %llu", j->sandbox,
                        (unsigned long long)j->run);
}

/* From a request that was sent to the exit status. */
static int serve(struct job *j) {
        struct session *s = &j->session;
        struct err err = {0};
        int r = session_open(s, &err), end = 0;

        while (r == 0) {
                end = session_run(s, &err);
                if (end != SESSION_LOST) {
                        r = end < 0 ? end : 0;
                        break;
                }
                r = come_back(j, &err);
        }
        if (r > 0) {
                r = 0;
                end = SESSION_DETACHED;
        }
        session_close(s);
        int status = r < 0                     ? talk_failed(&j->talk, &j->o->common, &err)
                     : end == SESSION_ANSWERED ? answered(j)
                     : end == SESSION_DETACHED ? left(j)
                                               : 128 + s->signal;
        talk_close(&j->talk);
        return status;
}

/* --- the verbs ------------------------------------------------------------------------------------------------ */

int exec_command(const struct exec_options *o, const char *sandbox, const char *const *argv, size_t argc) {
        struct job j = {.o = o, .sandbox = sandbox, .talk = {.fd = -EBADF}};
        _cleanup_request_ struct talk_request q;
        struct err err = {0};
        uint64_t rows = 24, columns = 80;

        talk_begin(&q, "exec");
        talk_str(&q, "sandbox", sandbox);
        talk_list(&q, "argv", argv, argc);
        talk_str(&q, "cwd", o->cwd);
        talk_str(&q, "key", o->key);
        json_bool(&q.json, "stdin", o->interactive);
        if (o->tty) {
                (void)terminal_size(&rows, &columns);
                json_bool(&q.json, "tty", true);
                json_u64(&q.json, "rows", rows);
                json_u64(&q.json, "cols", columns);
        }
        if (o->detach)
                json_bool(&q.json, "detach", true);
        if (o->timeout > 0)
                json_u64(&q.json, "timeout_ms", o->timeout);
        int r = client_pairs(&q, "env", "env", &o->env, true, &err);
        if (r == 0)
                r = talk_go(&j.talk, &o->common, &q, &err);
        if (r < 0) {
                int status = talk_failed(&j.talk, &o->common, &err);
                talk_close(&j.talk);
                return status;
        }
        begin_session(&j, o->interactive, o->tty);
        if (!o->detach)
                return serve(&j);

        const char *result;
        char number[32];
        int status = 0;
        if (talk_wait(&j.talk, &result, on_event, &j, &err) < 0)
                status = talk_failed(&j.talk, &o->common, &err);
        else if (o->common.json)
                talk_print(result);
        else
                (void)puts(tell_text(number, sizeof number, result, "run"));
        talk_close(&j.talk);
        return status;
}

int cmd_exec(int argc, char **argv) {
        struct exec_options o = {0};
        int status;

        if (!client_begin(&exec_verb, &argc, argv, &o, &status))
                return status;
        return exec_command(&o, argv[1], (const char *const *)argv + 2, (size_t)argc - 1);
}

int cmd_shell(int argc, char **argv) {
        static const char *const shell[] = {"/bin/sh", "-c", "exec \"$(command -v bash || echo /bin/sh)\" -l"};
        /* without a terminal of ours it reads commands from standard input, and ends with them */
        struct exec_options o = {.interactive = true, .tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
        int status;

        if (!client_begin(&shell_verb, &argc, argv, &o, &status))
                return status;
        if (getenv("TERM") && o.env.count < ARGS_LIST_MAX)
                o.env.items[o.env.count++] = "TERM";
        return exec_command(&o, argv[1], shell, ELEMENTSOF(shell));
}

/* Whether the run has a terminal decides about ours. */
static int look(struct job *j, struct err *err) {
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct json_walk w;
        const char *result;
        uint64_t number;

        talk_begin(&q, "runs");
        talk_str(&q, "sandbox", j->sandbox);
        json_u64(&q.json, "before", j->run + 1);
        json_u64(&q.json, "max", 1);
        int r = talk_ask(&t, &j->o->common, &q, &result, err);
        if (r < 0)
                return r;
        if (!json_walk_begin(&w, result, "runs") || !json_walk_next(&w) || !json_find_u64(w.value, "run", &number) ||
            number != j->run) {
                (void)err_set(err, ERR_INPUT, "there is no run %llu in %s", (unsigned long long)j->run, j->sandbox);
                return err_hint(err, "'stockade runs %s' lists them", j->sandbox);
        }
        (void)json_find_bool(w.value, "tty", &j->session.tty);
        return 0;
}

int cmd_attach(int argc, char **argv) {
        struct exec_options o = {0};
        struct job j = {.o = &o, .talk = {.fd = -EBADF}};
        struct err err = {0};
        int status;

        if (!client_begin(&attach_verb, &argc, argv, &o, &status))
                return status;
        j.sandbox = argv[1];
        begin_session(&j, false, false);
        int r = client_number(argv[2], "the number of a run", UINT32_MAX, &j.run, &err);
        if (r == 0)
                r = look(&j, &err);
        j.session.input = o.interactive || j.session.tty;
        if (r == 0)
                r = ask_attach(&j, false, &err);
        if (r < 0) {
                talk_close(&j.talk);
                return talk_failed(NULL, &o.common, &err);
        }
        return serve(&j);
}
