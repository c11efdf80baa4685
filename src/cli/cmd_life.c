/* Verbs that move a sandbox from one state to another, for each sandbox that is named. One that fails does not keep the
 * others from being tried. */
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/tell.h"

struct options {
        struct args_common common;
        const char *reason, *driver;
        bool force;
};
#define AT(field) offsetof(struct options, field)

#define LIFE_VERB(verb, line, text)                                                                                    \
        const struct args_verb verb##_verb = {.name = #verb,                                                           \
                                              .words = "SANDBOX…",                                                     \
                                              .summary = line,                                                         \
                                              .about = text,                                                           \
                                              .flags = ARGS_JSON,                                                      \
                                              .least = 1,                                                              \
                                              .most = SIZE_MAX,                                                        \
                                              .what = {WHAT_SANDBOX, WHAT_SANDBOX}}

LIFE_VERB(pause, "hold all processes of a sandbox",
          "Holds every process of the sandbox where it is. Memory and disk stay as they are; nothing inside notices "
          "but by the clock.");
LIFE_VERB(unpause, "let a paused sandbox go on", NULL);
LIFE_VERB(stop, "end a sandbox and keep its disk",
          "Ends every process of the sandbox at once. Its disk, its snapshots and its record stay; 'stockade resume' "
          "starts it again.");

static const struct args_option resume_options[] = {
        {"driver", 0, "D", "under another driver: native, docker, gvisor, microvm, firecracker", ARGS_TEXT, AT(driver)},
};

const struct args_verb resume_verb = {
        .name = "resume",
        .words = "SANDBOX…",
        .summary = "start a stopped sandbox again",
        .about = "Starts it with what is on its disk. --driver moves it to another way of isolation, if its policy "
                 "holds there.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = SIZE_MAX,
        .what = {WHAT_SANDBOX, WHAT_SANDBOX},
        .options = resume_options,
        .count = ELEMENTSOF(resume_options),
};

static const struct args_option quarantine_options[] = {
        {"reason", 0, "TEXT", "why; it goes into the record", ARGS_TEXT, AT(reason)},
};

const struct args_verb quarantine_verb = {
        .name = "quarantine",
        .words = "SANDBOX…",
        .summary = "freeze a suspicious sandbox, cut it off and keep evidence",
        .about =
                "Freezes the sandbox, cuts its network, takes its secrets back, takes a snapshot and packs the part of "
                "the ledger that concerns it. It cannot go on from there: it can be looked at, and deleted.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = SIZE_MAX,
        .what = {WHAT_SANDBOX, WHAT_SANDBOX},
        .options = quarantine_options,
        .count = ELEMENTSOF(quarantine_options),
};

static const struct args_option delete_options[] = {
        {"force", 'f', NULL, "also one that runs", ARGS_FLAG, AT(force)},
};

const struct args_verb delete_verb = {
        .name = "delete",
        .words = "SANDBOX…",
        .summary = "remove a sandbox and its disk",
        .about = "Removes the sandbox with its disk and its logs. Snapshots of it stay, and so does its record in the "
                 "ledger. There is no way back.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = SIZE_MAX,
        .what = {WHAT_SANDBOX, WHAT_SANDBOX},
        .options = delete_options,
        .count = ELEMENTSOF(delete_options),
};

static int move_one(const char *verb, const struct options *o, const char *sandbox) {
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct err err = {0};
        const char *result;
        char text[64];

        talk_begin(&q, verb);
        talk_str(&q, "sandbox", sandbox);
        talk_str(&q, "reason", o->reason);
        talk_str(&q, "driver", o->driver);
        if (o->force)
                json_bool(&q.json, "force", true);
        int r = talk_ask(&t, &o->common, &q, &result, &err);
        if (r < 0)
                return talk_failed(&t, &o->common, &err);
        if (str_eq(verb, "delete")) {
                if (o->common.json)
                        talk_print(result);
                return 0;
        }
        client_sandbox(&o->common, result);
        if (o->common.json || !str_eq(verb, "quarantine"))
                return 0;
        (void)printf("snapshot %s\n", tell_text(text, sizeof text, result, "snapshot"));
        (void)printf("evidence: the ledger up to event %s\n",
                     tell_text(text, sizeof text, result, "evidence.ledger_seq"));
        return 0;
}

static int move(const struct args_verb *v, int argc, char **argv) {
        struct options o = {0};
        int status, worst = 0;

        if (!client_begin(v, &argc, argv, &o, &status))
                return status;
        for (int i = 1; i <= argc; i++) {
                status = move_one(v->name, &o, argv[i]);
                worst = MAX(worst, status);
        }
        return worst;
}

#define LIFE_COMMAND(verb)                                                                                             \
        int cmd_##verb(int argc, char **argv) {                                                                        \
                return move(&verb##_verb, argc, argv);                                                                 \
        }
LIFE_COMMAND(pause)
LIFE_COMMAND(unpause)
LIFE_COMMAND(stop)
LIFE_COMMAND(resume)
LIFE_COMMAND(quarantine)
LIFE_COMMAND(delete)
