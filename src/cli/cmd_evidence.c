/* `stockade evidence`: what the ledger has about a sandbox, or about one run of it, as a file that anybody can check
 * alone. The daemon packs it, from its own ledger, for whoever the sandbox belongs to; nothing is verified here, since
 * `stockade ledger verify FILE` does that without a daemon. */
#include <stdio.h>

#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/pour.h"

struct options {
        struct args_common common;
        const char *output, *run;
        bool force;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option evidence_options[] = {
        {"run", 0, "N", "only this run: what names it, and what befell its sandbox meanwhile", ARGS_TEXT, AT(run)},
        {"output", 'o', "FILE", "where to write it (default: standard output)", ARGS_TEXT, AT(output), NULL, WHAT_FILE},
        {"force", 'f', NULL, "replace FILE if it is there", ARGS_FLAG, AT(force)},
};

const struct args_verb evidence_verb = {
        .name = "evidence",
        .words = "SANDBOX",
        .summary = "write what the ledger has about a sandbox, with its proof",
        .about = "Writes one JSON file with every event of the sandbox, also of one that was deleted within a day, and "
                 "the signed checkpoints that they are under. 'stockade ledger verify FILE' checks it, anywhere and "
                 "without a daemon. Ends with 1 if some events are under no signature yet: ask again in a few seconds.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_SANDBOX},
        .options = evidence_options,
        .count = ELEMENTSOF(evidence_options),
};

int cmd_evidence(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        uint64_t run;
        int r = 0, status;

        if (!client_begin(&evidence_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "evidence");
        talk_str(&q, "sandbox", argv[1]);
        if (o.run && (r = client_number(o.run, "the number of a run", UINT32_MAX, &run, &err)) == 0)
                json_u64(&q.json, "run", run);
        if (r == 0)
                r = pour_save(&t, &o.common, &q, o.output, o.force, &result, &err);
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        uint64_t bare = tell_number(result, "unsigned_events");
        if (bare == 0 || bare == UINT64_MAX)
                return 0;
        (void)fprintf(stderr, "stockade: %llu of its events are under no signature yet\n", (unsigned long long)bare);
        return EXIT_FOUND;
}
