/* `stockade list`, `show`, `policy`, `owners`: looking at sandboxes and at whose they are, and changing what one may
 * reach. */
#include "base/json-read.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/table.h"
#include "cli/tell.h"

struct options {
        struct args_common common;
        const char *state;
        bool all, quiet, none;
        struct args_list allow;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option list_options[] = {
        {"all", 'a', NULL, "those of every owner (root)", ARGS_FLAG, AT(all)},
        {"state", 0, "STATE", "only those in this state", ARGS_TEXT, AT(state)},
        {"quiet", 'q', NULL, "ids alone", ARGS_FLAG, AT(quiet)},
};

const struct args_verb list_verb = {
        .name = "list",
        .words = "",
        .summary = "list sandboxes",
        .flags = ARGS_JSON,
        .options = list_options,
        .count = ELEMENTSOF(list_options),
};

const struct args_verb show_verb = {
        .name = "show",
        .words = "SANDBOX",
        .summary = "say all about one sandbox",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_SANDBOX},
};

static const struct args_option policy_options[] = {
        {"allow", 'a', "HOST[:PORT]", "what it may reach from now on; say it once for each", ARGS_LIST, AT(allow)},
        {"none", 0, NULL, "it may reach nothing from now on", ARGS_FLAG, AT(none)},
};

const struct args_verb policy_verb = {
        .name = "policy",
        .words = "SANDBOX",
        .summary = "show a sandbox's policy, or change what it may reach",
        .about = "Without options: prints the policy that is in force. With --allow or --none: what the sandbox may "
                 "reach becomes "
                 "exactly that, for the next connection; connections that are not allowed any more are closed. Nothing "
                 "else of a policy can be changed while the sandbox exists.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_SANDBOX},
        .options = policy_options,
        .count = ELEMENTSOF(policy_options),
};

static const struct args_option owners_options[] = {
        {"quiet", 'q', NULL, "names alone", ARGS_FLAG, AT(quiet)},
};

const struct args_verb owners_verb = {
        .name = "owners",
        .words = "",
        .summary = "list who has something here, and how much",
        .about =
                "One line for each owner with sandboxes, snapshots or images, and what they use: memory and processors "
                "as promised to those that run, disk as it is set aside. For operators: root, the daemon's own user, "
                "and from afar the wallets of 'operators' in stockade.conf.",
        .flags = ARGS_JSON,
        .options = owners_options,
        .count = ELEMENTSOF(owners_options),
};

static void list_table(const char *result, bool all) {
        static const struct table_column columns[] = {{"ID", 0},
                                                      {"NAME", TABLE_SHRINK},
                                                      {"STATE", 0},
                                                      {"PROFILE", TABLE_SHRINK},
                                                      {"IMAGE", TABLE_SHRINK},
                                                      {"RUNS", TABLE_RIGHT},
                                                      {"DISK", TABLE_RIGHT},
                                                      {"AGE", TABLE_RIGHT},
                                                      {"OWNER", 0}};
        size_t count = ELEMENTSOF(columns) - (all ? 0 : 1);
        struct json_walk w;
        struct table t;
        char text[64];

        table_begin(&t, columns, count);
        if (json_walk_begin(&w, result, "sandboxes"))
                while (json_walk_next(&w)) {
                        table_json(&t, w.value, "id");
                        table_json(&t, w.value, "name");
                        table_json(&t, w.value, "state");
                        table_json(&t, w.value, "profile");
                        table_json(&t, w.value, "image");
                        table_json(&t, w.value, "runs_active");
                        table_cell(&t, tell_size(text, sizeof text, tell_number(w.value, "disk.used")));
                        table_cell(&t, tell_ago(text, sizeof text, tell_number(w.value, "created_ms")));
                        if (all)
                                table_json(&t, w.value, "owner");
                }
        table_print(&t);
}

int cmd_list(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        struct json_walk w;
        const char *result;
        char id[64];
        int status;

        if (!client_begin(&list_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "list");
        if (o.all)
                json_bool(&q.json, "all", true);
        talk_str(&q, "state", o.state);
        int r = talk_ask(&t, &o.common, &q, &result, &err);
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.common.json)
                talk_print(result);
        else if (o.quiet) {
                if (json_walk_begin(&w, result, "sandboxes"))
                        while (json_walk_next(&w))
                                (void)puts(tell_text(id, sizeof id, w.value, "id"));
        } else
                list_table(result, o.all);
        return 0;
}

/* --- one sandbox ---------------------------------------------------------------------------------------------- */

static void line(const char *name, const char *text) {
        (void)printf("%-10s %s\n", name, text);
}

static void show_text(const char *json, const char *name, const char *path) {
        char text[1024];

        if (!str_eq(tell_text(text, sizeof text, json, path), "-"))
                line(name, text);
}

static void show_time(const char *json, const char *name, const char *path) {
        char when[32], ago[16], text[64];
        uint64_t ms = tell_number(json, path);

        if (ms == 0 || ms == UINT64_MAX)
                return;
        (void)snprintf(text, sizeof text, "%s (%s ago)", tell_time(when, sizeof when, ms),
                       tell_ago(ago, sizeof ago, ms));
        line(name, text);
}

static void show_usage(const char *json) {
        char memory[16], peak[16], text[160], cpu[16];
        uint64_t cpu_us = tell_number(json, "usage.cpu_us");

        if (!json_at(json, "usage.memory", NULL))
                return;
        (void)snprintf(text, sizeof text, "%s memory (peak %s), %llu processes, %s cpu",
                       tell_size(memory, sizeof memory, tell_number(json, "usage.memory")),
                       tell_size(peak, sizeof peak, tell_number(json, "usage.memory_peak")),
                       (unsigned long long)tell_number(json, "usage.processes"),
                       cpu_us == UINT64_MAX ? "-" : tell_span(cpu, sizeof cpu, cpu_us / 1000));
        line("usage", text);
}

static void show_disk(const char *json) {
        char used[16], size[16], text[64];

        if (!json_at(json, "disk.size", NULL))
                return;
        (void)snprintf(text, sizeof text, "%s of %s", tell_size(used, sizeof used, tell_number(json, "disk.used")),
                       tell_size(size, sizeof size, tell_number(json, "disk.size")));
        line("disk", text);
}

static void show_words(const char *json, const char *name, const char *path) {
        char list[512] = "", word[64];
        struct json_walk w;

        if (!json_walk_begin(&w, json, path))
                return;
        while (json_walk_next(&w)) {
                size_t used = strlen(list);
                (void)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? " " : "",
                               tell_text(word, sizeof word, w.value, ""));
        }
        if (list[0])
                line(name, list);
}

/* A text of several lines, each made inert. */
static void show_lines(const char *json, const char *path) {
        size_t size;
        const char *value = json_at(json, path, &size);
        _cleanup_free_ char *text = value && *value == '"' ? malloc(size + 1) : NULL;
        char inert[2048];

        if (!text || !json_find_str(value, "", text, size + 1))
                return;
        for (char *p = text; *p;) {
                size_t n = strcspn(p, "\n");
                bool more = p[n] == '\n';

                p[n] = '\0';
                text_escape(inert, sizeof inert, p);
                (void)puts(inert);
                p += n + more;
        }
}

static void show_all(const char *json) {
        static const struct {
                const char *name, *path;
        } texts[] = {{"id", "id"},       {"name", "name"},     {"owner", "owner"},
                     {"state", "state"}, {"reason", "reason"}, {"profile", "profile"},
                     {"image", "image"}, {"origin", "origin"}, {"driver", "driver"}};

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                show_text(json, texts[i].name, texts[i].path);
        show_time(json, "created", "created_ms");
        show_time(json, "started", "started_ms");
        show_time(json, "ended", "ended_ms");
        show_disk(json);
        show_usage(json);
        show_words(json, "allowed", "allowed");
        (void)puts("\npolicy");
        show_lines(json, "policy");
}

static int ask_show(const struct args_common *o, const char *sandbox, struct talk *t, const char **ret,
                    struct err *err) {
        _cleanup_request_ struct talk_request q;

        talk_begin(&q, "show");
        talk_str(&q, "sandbox", sandbox);
        return talk_ask(t, o, &q, ret, err);
}

int cmd_show(int argc, char **argv) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&show_verb, &argc, argv, &o, &status))
                return status;
        int r = ask_show(&o.common, argv[1], &t, &result, &err);
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.common.json)
                talk_print(result);
        else
                show_all(result);
        return 0;
}

int cmd_policy(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status, r;

        if (!client_begin(&policy_verb, &argc, argv, &o, &status))
                return status;
        bool change = o.allow.count > 0 || o.none;
        if (!change)
                r = ask_show(&o.common, argv[1], &t, &result, &err);
        else {
                talk_begin(&q, "policy");
                talk_str(&q, "sandbox", argv[1]);
                json_open(&q.json, "allow", '[');
                for (size_t i = 0; i < o.allow.count; i++)
                        talk_str(&q, NULL, o.allow.items[i]);
                json_close(&q.json, ']');
                r = talk_ask(&t, &o.common, &q, &result, &err);
        }
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        if (change)
                client_sandbox(&o.common, result);
        else if (o.common.json && json_at(result, "policy", NULL))
                talk_print(json_at(result, "policy", NULL));
        else
                show_lines(result, "policy");
        return 0;
}

int cmd_owners(int argc, char **argv) {
        static const struct table_column columns[] = {{"OWNER", 0},
                                                      {"SANDBOXES", TABLE_RIGHT},
                                                      {"RUNNING", TABLE_RIGHT},
                                                      {"MEMORY", TABLE_RIGHT},
                                                      {"CPUS", TABLE_RIGHT},
                                                      {"DISK", TABLE_RIGHT},
                                                      {"LOGS", TABLE_RIGHT},
                                                      {"SNAPSHOTS", TABLE_RIGHT},
                                                      {"IMAGES", TABLE_RIGHT}};
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct json_walk w;
        struct table table;
        const char *result;
        char text[128];
        int status;

        if (!client_begin(&owners_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "owners");
        if (!client_ask(&t, &o.common, &q, &result, &status))
                return status;
        bool any = json_walk_begin(&w, result, "owners");
        if (o.quiet) {
                while (any && json_walk_next(&w))
                        (void)puts(tell_text(text, sizeof text, w.value, "owner"));
                return 0;
        }
        table_begin(&table, columns, ELEMENTSOF(columns));
        while (any && json_walk_next(&w)) {
                table_json(&table, w.value, "owner");
                table_json(&table, w.value, "sandboxes");
                table_json(&table, w.value, "running");
                table_cell(&table, tell_size(text, sizeof text, tell_number(w.value, "memory")));
                table_cell(&table, text_format(text, sizeof text, TEXT_CPUS, tell_number(w.value, "cpus")));
                table_cell(&table, tell_size(text, sizeof text, tell_number(w.value, "disk")));
                table_cell(&table, tell_size(text, sizeof text, tell_number(w.value, "log_bytes")));
                table_json(&table, w.value, "snapshots");
                table_json(&table, w.value, "images");
        }
        table_print(&table);
        return 0;
}
