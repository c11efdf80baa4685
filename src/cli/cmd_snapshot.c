/* Snapshots: `stockade snapshot`, `snapshots`, `rollback`, `diff`, `export`, `import`. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/pour.h"
#include "cli/table.h"
#include "cli/tell.h"

struct options {
        struct args_common common;
        const char *name, *output, *profile, *remove;
        uint64_t size;
        bool force, all;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option snapshot_options[] = {
        {"name", 'n', "NAME", "a name for it", ARGS_TEXT, AT(name)},
        {"delete", 0, "SNAPSHOT", "remove this snapshot instead of taking one", ARGS_TEXT, AT(remove), NULL,
         WHAT_SNAPSHOT},
};

const struct args_verb snapshot_verb = {
        .name = "snapshot",
        .words = "SANDBOX",
        .summary = "keep a sandbox's disk as it is now",
        .about = "Keeps the disk as it is; prints the snapshot's id. A stopped sandbox costs nothing; one that runs is "
                 "paused while its disk is copied, and how long that took is said. A snapshot carries its policy.",
        .flags = ARGS_JSON,
        .most = 1,
        .what = {WHAT_SANDBOX},
        .options = snapshot_options,
        .count = ELEMENTSOF(snapshot_options),
};

static const struct args_option snapshots_options[] = {
        {"all", 'a', NULL, "those of every owner (root)", ARGS_FLAG, AT(all)},
};

const struct args_verb snapshots_verb = {
        .name = "snapshots",
        .words = "[SANDBOX]",
        .summary = "list snapshots",
        .flags = ARGS_JSON,
        .most = 1,
        .what = {WHAT_SANDBOX},
        .options = snapshots_options,
        .count = ELEMENTSOF(snapshots_options),
};

const struct args_verb rollback_verb = {
        .name = "rollback",
        .words = "SANDBOX SNAPSHOT",
        .summary = "put a sandbox's disk back to a snapshot",
        .about =
                "Ends what runs in the sandbox, puts its disk back to what the snapshot has, and starts it again. What "
                "was written since is gone, unless another snapshot has it.",
        .flags = ARGS_JSON,
        .least = 2,
        .most = 2,
        .what = {WHAT_SANDBOX, WHAT_SNAPSHOT},
};

const struct args_verb diff_verb = {
        .name = "diff",
        .words = "SNAPSHOT SNAPSHOT|SANDBOX",
        .summary = "list what changed between two snapshots",
        .about = "Lists the files that were added (+), changed (~) and removed (-) from the first to the second, which "
                 "may be a stopped sandbox. Ends with 1 if there are any, with 0 if there are none.",
        .flags = ARGS_JSON,
        .least = 2,
        .most = 2,
        .what = {WHAT_SNAPSHOT, WHAT_SNAPSHOT},
};

static const struct args_option export_options[] = {
        {"output", 'o', "FILE", "where to write it (default: standard output)", ARGS_TEXT, AT(output), NULL, WHAT_FILE},
        {"force", 'f', NULL, "replace FILE if it is there", ARGS_FLAG, AT(force)},
};

const struct args_verb export_verb = {
        .name = "export",
        .words = "SNAPSHOT",
        .summary = "write a snapshot to a file (tar.zst)",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_SNAPSHOT},
        .options = export_options,
        .count = ELEMENTSOF(export_options),
};

static const struct args_option import_options[] = {
        {"name", 'n', "NAME", "a name for it", ARGS_TEXT, AT(name)},
        {"profile", 'p', "P", "the profile that sandboxes forked from it have", ARGS_TEXT, AT(profile), NULL,
         WHAT_PROFILE},
        {"size", 0, "SIZE", "size of the disk that it becomes", ARGS_BYTES, AT(size)},
};

const struct args_verb import_verb = {
        .name = "import",
        .words = "FILE",
        .summary = "make a snapshot of an exported file",
        .about =
                "Reads a tar.zst that 'stockade export' wrote (- is standard input) and makes a snapshot of it; prints "
                "its id. 'stockade fork' makes a sandbox from it.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_FILE},
        .options = import_options,
        .count = ELEMENTSOF(import_options),
};

/* --- taking and listing --------------------------------------------------------------------------------------- */

int cmd_snapshot(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&snapshot_verb, &argc, argv, &o, &status))
                return status;
        if ((argc == 1) == (o.remove != NULL)) {
                (void)err_set(&err, ERR_INPUT, "'stockade snapshot' needs a sandbox, or --delete SNAPSHOT");
                return talk_failed(NULL, &o.common, &err);
        }
        talk_begin(&q, o.remove ? "snapshot-delete" : "snapshot");
        if (o.remove)
                talk_str(&q, "snapshot", o.remove);
        else {
                talk_str(&q, "sandbox", argv[1]);
                talk_str(&q, "name", o.name);
        }
        if (talk_ask(&t, &o.common, &q, &result, &err) < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.remove) {
                if (o.common.json)
                        talk_print(result);
                return 0;
        }
        uint64_t pause = tell_number(result, "pause_us");
        if (!o.common.json && pause > 0 && pause != UINT64_MAX && isatty(STDERR_FILENO))
                (void)fprintf(stderr, "it was paused for %llu.%llu ms\n", (unsigned long long)pause / 1000,
                              (unsigned long long)pause / 100 % 10);
        return client_id(&o.common, result);
}

int cmd_snapshots(int argc, char **argv) {
        static const struct table_column columns[] = {{"ID", 0},    {"NAME", TABLE_SHRINK}, {"SANDBOX", 0},
                                                      {"STATE", 0}, {"SIZE", TABLE_RIGHT},  {"AGE", TABLE_RIGHT}};
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct json_walk w;
        struct table table;
        const char *result;
        char text[32];
        int status;

        if (!client_begin(&snapshots_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "snapshots");
        talk_str(&q, "sandbox", argc > 0 ? argv[1] : NULL);
        if (o.all)
                json_bool(&q.json, "all", true);
        if (!client_ask(&t, &o.common, &q, &result, &status))
                return status;
        table_begin(&table, columns, ELEMENTSOF(columns));
        if (json_walk_begin(&w, result, "snapshots"))
                while (json_walk_next(&w)) {
                        table_json(&table, w.value, "id");
                        table_json(&table, w.value, "name");
                        table_json(&table, w.value, "sandbox");
                        table_json(&table, w.value, "state");
                        table_cell(&table, tell_size(text, sizeof text, tell_number(w.value, "bytes")));
                        table_cell(&table, tell_ago(text, sizeof text, tell_number(w.value, "created_ms")));
                }
        table_print(&table);
        return 0;
}

int cmd_rollback(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&rollback_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "rollback");
        talk_str(&q, "sandbox", argv[1]);
        talk_str(&q, "snapshot", argv[2]);
        if (talk_ask(&t, &o.common, &q, &result, &err) < 0)
                return talk_failed(&t, &o.common, &err);
        client_sandbox(&o.common, result);
        return 0;
}

/* --- differences ---------------------------------------------------------------------------------------------- */

static void print_change(void *data, const char *json) {
        const struct options *o = data;
        char change[16], path[4200], size[16];

        if (o->common.json) {
                talk_print(json);
                return;
        }
        (void)tell_text(change, sizeof change, json, "change");
        (void)printf("%c %s",
                     str_eq(change, "added")     ? '+'
                     : str_eq(change, "removed") ? '-'
                                                 : '~',
                     tell_text(path, sizeof path, json, "path"));
        if (!str_eq(change, "removed") && json_at(json, "size", NULL))
                (void)printf("  %s", tell_size(size, sizeof size, tell_number(json, "size")));
        (void)puts("");
}

int cmd_diff(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&diff_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "diff");
        talk_str(&q, "from", argv[1]);
        talk_str(&q, "to", argv[2]);
        if (talk_go(&t, &o.common, &q, &err) < 0 || talk_wait(&t, &result, print_change, &o, &err) < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.common.json)
                talk_print(result);
        uint64_t added = tell_number(result, "added"), changed = tell_number(result, "changed"),
                 removed = tell_number(result, "removed");
        return added != 0 || changed != 0 || removed != 0 ? EXIT_FOUND : 0;
}

/* --- out and in ----------------------------------------------------------------------------------------------- */

int cmd_export(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&export_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "export");
        talk_str(&q, "snapshot", argv[1]);
        return pour_save(&t, &o.common, &q, o.output, o.force, &result, &err) < 0 ? talk_failed(&t, &o.common, &err)
                                                                                  : 0;
}

int cmd_import(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        _cleanup_fd_ int in = -EBADF;
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&import_verb, &argc, argv, &o, &status))
                return status;
        int r = pour_open(argv[1], &in, &err);
        talk_begin(&q, "import");
        talk_str(&q, "name", o.name);
        talk_str(&q, "profile", o.profile);
        if (o.size > 0)
                json_u64(&q.json, "size", o.size);
        if (r == 0)
                r = talk_go(&t, &o.common, &q, &err);
        if (r == 0)
                r = pour_in(&t, in, o.common.json, &result, &err);
        return r < 0 ? talk_failed(&t, &o.common, &err) : client_id(&o.common, result);
}
