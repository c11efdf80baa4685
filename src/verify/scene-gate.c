/* Attempts against the gate, all in one sandbox that may reach a few names, and judged one by one by what the judge's
 * servers and its name server heard.
 *
 * Everything that must not arrive carries the name of its attempt (probe/gate.h), wherever it would arrive. So whatever
 * is heard under that name is a way out. What came without a name, from whichever attempt, counts against the one that
 * says nothing, unless a server heard it that may be reached anyway. The controls are of two kinds: the same thing done
 * to an allowed server from inside, under the name with "-control" behind it, or the same attempt without a sandbox. An
 * attempt whose control was not heard was not tried. */
#include "verify/scene-gate.h"

#include <unistd.h>

#include "verify/table.h"

#define SILENT "gate-silent" /* the attempt that names itself nowhere */

/* The attempts that need no gate: they work without a sandbox, and that is their control. All others are shown from
 * inside. */
static const char *const shown_outside[] = {
        SILENT,           "gate-literal-v4",   "gate-literal-v6",   "gate-metadata",
        "gate-private",   "gate-host-address", "gate-odd-streams",  "gate-datagrams",
        "dns-library",    "dns-datagram",      "dns-stream",        "dns-types",
        "dns-long-names", "dns-junk",          "dns-below-allowed", "dns-over-tls",
};

/* The names that the sandbox may reach: those with odd answers too, so that it is the answer that is judged. */
static const char *const allowed_names[] = {"good-name",     "redirect-name", "private-name", "loop-name",
                                            "metadata-name", "mapped-name",   "rebind-name",  "near-name"};

/* One run inside and one outside, made once for all rows. */
static struct {
        const struct judge *judge;
        char why[256];  /* it could not be made; "" if it could */
        char open[128]; /* something came out in its output that must not; "" if not */
        struct outcome inside, outside;
        struct world_event *in, *out;
        size_t in_count, out_count;
} run;

static bool is_shown_outside(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(shown_outside); i++)
                if (str_eq(shown_outside[i], name))
                        return true;
        return false;
}

const char *gate_fact(const struct judge *j, const char *key) {
        size_t n = strlen(key);

        for (size_t i = 0; i < j->world.fact_count; i++)
                if (strncmp(j->world.facts[i], key, n) == 0 && j->world.facts[i][n] == '=')
                        return j->world.facts[i] + n + 1;
        return "";
}

bool gate_profile(struct judge *j, struct finding *f, const char *name, const char *lines, char *path, size_t size) {
        _cleanup_buf_ struct buf text = {0};
        const char *parent = j->options.profile, *dot = strrchr(parent, '.');
        bool is_path = strchr(parent, '/') || (dot && str_eq(dot, ".yaml"));
        _cleanup_free_ char *real = is_path ? realpath(parent, NULL) : NULL;

        buf_printf(&text, "profile: 1\nname: %s\nextends: \"%s\"\n%s", name, real ? real : parent, lines);
        (void)snprintf(path, size, "%s/%s.yaml", j->world.folder, name);
        if (buf_ok(&text) && scene_write(path, text.data, 0644))
                return true;
        finding_untried(f, "cannot write a profile for it: %s", strerror(errno));
        return false;
}

struct world_event *gate_heard(const struct judge *j, struct finding *f, size_t *ret_count) {
        struct world_event *events = calloc(WORLD_HEARD_MAX, sizeof *events);

        *ret_count = events ? world_events(&j->world, events, WORLD_HEARD_MAX) : 0;
        if (!events || world_lost(&j->world) > 0)
                finding_untried(f, "more was heard than could be kept");
        if (*ret_count > 0 && str_eq(events[*ret_count - 1].kind, "lost")) {
                finding_untried(f, "the listener does not answer");
                (*ret_count)--;
        }
        return events;
}

struct world_event *gate_listen(struct judge *j, struct finding *f, const struct launch *l, struct outcome *ret,
                                size_t *ret_count) {
        world_forget(&j->world);
        (void)scene_run(j, f, l, ret); /* however it ends, what was heard was heard */
        return gate_heard(j, f, ret_count);
}

unsigned gate_count(const struct world_event *events, size_t count, const char *attempt, const char *address,
                    char *words, size_t size) {
        unsigned sum = 0;

        for (size_t i = 0; i < count; i++) {
                if (!str_eq(events[i].attempt, attempt) || events[i].dns ||
                    (address && !str_eq(events[i].address, address)))
                        continue;
                if (sum == 0 && words)
                        (void)snprintf(words, size, "%s port %u heard: %.120s", events[i].address, events[i].port,
                                       events[i].begin);
                sum += events[i].times;
        }
        return sum;
}

static void write_rules(const struct judge *j, struct buf *ret) {
        buf_str(ret, "network:\n  allow:\n");
        for (size_t i = 0; i < ELEMENTSOF(allowed_names); i++)
                if (gate_fact(j, allowed_names[i])[0])
                        buf_printf(ret, "    - {host: %s}\n", gate_fact(j, allowed_names[i]));
        if (gate_fact(j, "mixed-name")[0]) /* and a port on which only the host answers, not the public server */
                buf_printf(ret, "    - {host: %s, ports: [80, %u]}\n", gate_fact(j, "mixed-name"), j->world.ports.tcp);
        if (gate_fact(j, "second-name")[0])
                buf_printf(ret, "    - {host: %s, ports: [80], methods: [GET], paths: [\"/open/*\"]}\n",
                           gate_fact(j, "second-name"));
}

/* Outside, only those whose control is there. */
static void list_attempts(bool outside, struct buf *ret) {
        buf_str(ret, "gate-allowed");
        for (size_t i = 0; i < table_gate_count; i++)
                if (table_gate[i].scene == scene_gate && (!outside || is_shown_outside(table_gate[i].name)))
                        buf_printf(ret, ",%s", table_gate[i].name);
}

/* Runs all of them in the sandbox or outside, and keeps what was heard. */
static bool run_at(struct judge *j, enum launch_where where, const char *names, const char *profile,
                   struct outcome *ret, struct world_event **ret_events, size_t *ret_count) {
        const struct launch l = {
                .where = where,
                .argv = WORDS("{probe}", names, where == LAUNCH_INSIDE ? NULL : "control=yes"),
                .profile = profile,
                .facts = true,
                .record = where == LAUNCH_INSIDE && launch_has_options(j),
                .timeout_ms = 60000,
        };
        struct finding f = {0};

        *ret_events = gate_listen(j, &f, &l, ret, ret_count);
        if (ret->status != 0 && !f.why[0])
                finding_untried(&f, "it ended with status %d: %.150s", ret->status, ret->err.data ? ret->err.data : "");
        (void)snprintf(run.why, sizeof run.why, "%s", f.why);
        if (f.verdict == VERDICT_OPEN)
                (void)snprintf(run.open, sizeof run.open, "%.100s", f.seen);
        return !run.why[0];
}

static void make_run(struct judge *j) {
        _cleanup_buf_ struct buf names = {0}, outside = {0}, rules = {0};
        struct finding f = {0};
        char profile[400] = "";

        list_attempts(false, &names);
        list_attempts(true, &outside);
        write_rules(j, &rules);
        if (!buf_ok(&names) || !buf_ok(&outside) || !buf_ok(&rules))
                (void)snprintf(run.why, sizeof run.why, "there is no memory for it");
        else if (launch_has_options(j) && !gate_profile(j, &f, "verify-gate", rules.data, profile, sizeof profile))
                (void)snprintf(run.why, sizeof run.why, "%s", f.why);
        else if (run_at(j, LAUNCH_INSIDE, names.data, profile[0] ? profile : NULL, &run.inside, &run.in, &run.in_count))
                (void)run_at(j, LAUNCH_OUTSIDE, outside.data, NULL, &run.outside, &run.out, &run.out_count);
        if (profile[0])
                scene_remove(profile);
}

/* Was anything of ours done to this server, so that a connection to it without a word means nothing? */
static bool is_allowed_server(const struct world_event *e) {
        for (size_t i = 0; i < run.in_count; i++) {
                size_t n = strlen(run.in[i].attempt);

                if (n > 8 && str_eq(run.in[i].attempt + n - 8, "-control") && str_eq(run.in[i].address, e->address))
                        return true;
        }
        return false;
}

static bool is_allowed_name(const struct judge *j, const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(allowed_names); i++)
                if (str_eq(name, gate_fact(j, allowed_names[i])))
                        return true;
        return str_eq(name, gate_fact(j, "second-name")) || str_eq(name, gate_fact(j, "mixed-name"));
}

/* Is what was heard this attempt's? */
static bool belongs(const struct check *c, const struct world_event *e) {
        return str_eq(e->attempt, str_eq(c->name, SILENT) ? "" : c->name);
}

/* And a sign that it got out? */
static bool is_way_out(const struct judge *j, const struct check *c, const struct world_event *e) {
        if (!belongs(c, e))
                return false;
        if (!str_eq(c->name, SILENT))
                return true;
        return e->dns ? !is_allowed_name(j, e->begin) : !is_allowed_server(e);
}

static void judge_control(const struct judge *j, const struct check *c, struct finding *f) {
        char name[64], words[200] = "";
        unsigned heard = 0;

        (void)snprintf(name, sizeof name, "%.40s-control", c->name);
        if (!is_shown_outside(c->name)) {
                heard = gate_count(run.in, run.in_count, name, NULL, words, sizeof words);
                finding_control(f, heard > 0, "the same to an allowed server: %s", heard ? words : "not heard");
        } else {
                for (size_t i = 0; i < run.out_count && heard == 0; i++)
                        if (is_way_out(j, c, &run.out[i]) && ++heard)
                                (void)snprintf(words, sizeof words, "%s port %u heard: %.120s", run.out[i].address,
                                               run.out[i].port, run.out[i].begin);
                finding_control(f, heard > 0, "without a sandbox: %s", heard ? words : "not heard");
        }
        if (heard == 0)
                finding_untried(f, "its control was not heard");
}

void scene_gate(struct judge *j, const struct check *c, struct finding *f) {
        struct said said = {0};
        unsigned heard = 0;

        if (!launch_has_options(j) && !is_shown_outside(c->name)) {
                finding_untried(f, "the command's own network rules are its maker's");
                return;
        }
        if (run.judge != j) {
                run.judge = j;
                make_run(j);
        }
        for (size_t i = 0; i < run.in_count; i++)
                if (is_way_out(j, c, &run.in[i]) && heard++ < 3)
                        finding_open(f, "%s port %u heard: %.100s", run.in[i].address, run.in[i].port, run.in[i].begin);
        if (run.open[0])
                finding_open(f, "%s", run.open);
        if (run.why[0] || !said_find(&run.inside.out, c->name, &said)) {
                finding_untried(f, "%s", run.why[0] ? run.why : "the probe said nothing of it");
                return;
        }
        (void)snprintf(f->said, sizeof f->said, "%s", said.evidence);
        (void)snprintf(f->error, sizeof f->error, "%s", said.error);
        if (str_eq(said.result, "done"))
                finding_open(f, "it was answered: %.150s", said.evidence);
        if (str_eq(said.result, "not tried") || str_eq(said.result, "guarded"))
                finding_untried(f, "%.200s", said.evidence);
        if (str_eq(said.result, "killed"))
                finding_untried(f, "the probe did not come to the end of it: %.150s", said.evidence);
        if (launch_has_options(j) && gate_count(run.in, run.in_count, "gate-allowed", NULL, NULL, 0) == 0)
                finding_untried(f, "not even the allowed name was reached: there is no network to speak of");
        judge_control(j, c, f);
        if (f->verdict == VERDICT_PENDING)
                finding_promised(f, "nobody outside heard it, and no name server was asked");
}
