/* Checks of the gate that need a run of their own, because the judge does something while it lasts, or gives it other
 * rules: a gate that is killed, rules that become garbage, none at all, caps, visitors, a secret.
 *
 * As in scene-gate.c, what was heard outside is what counts. */
#include "verify/scene-gate.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"

#define CAP_CONNECTIONS 4
#define CAP_EGRESS      16384 /* bytes */

/* The path of a profile that was written for one check. */
struct own_profile {
        char path[400];
};

static void own_profile_remove(const struct own_profile *p) {
        if (p->path[0])
                scene_remove(p->path);
}
#define _cleanup_profile_ _cleanup_(own_profile_remove)

/* A record's denials have this rule. */
static bool denied_by(const struct outcome *o, const char *rule) {
        size_t count = 0;
        char path[48], is[80];

        if (!o->record || !json_find_count(o->record, "denials", &count))
                return false;
        for (size_t i = 0; i < count; i++) {
                (void)snprintf(path, sizeof path, "denials.%zu.rule", i);
                if (json_find_str(o->record, path, is, sizeof is) && str_eq(is, rule))
                        return true;
        }
        return false;
}

/* Runs the probe without a sandbox, and says how often this attempt was heard then. */
static unsigned heard_outside(struct judge *j, struct finding *f, const char *const *words, const char *attempt,
                              char *said, size_t size) {
        _cleanup_outcome_ struct outcome o = {0};
        const struct launch l = {.where = LAUNCH_OUTSIDE, .argv = words, .facts = true};
        size_t count = 0;

        _cleanup_free_ struct world_event *events = gate_listen(j, f, &l, &o, &count);
        return gate_count(events, count, attempt, NULL, said, size);
}

/* A name whose answers become the host's loopback: each connection is to the address that was checked. That the name
 * was asked for again is the control: before, nothing has been tried. */
void scene_gate_rebind(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        const char *name = gate_fact(j, "rebind-name");
        _cleanup_profile_ struct own_profile profile = {0};
        char lines[200];
        unsigned asked = 0, good = 0;
        size_t count = 0;

        (void)snprintf(lines, sizeof lines, GATE_RULES "    - {host: %s}\n", name);
        if (!scene_options(j, f) || !gate_profile(j, f, "verify-rebind", lines, profile.path, sizeof profile.path))
                return;
        const struct launch l = {
                .where = LAUNCH_INSIDE, .argv = WORDS("{probe}", c->name), .profile = profile.path, .facts = true};
        _cleanup_free_ struct world_event *events = gate_listen(j, f, &l, &o, &count);
        for (size_t i = 0; i < count; i++) {
                const struct world_event *e = &events[i];
                bool at_good = str_eq(e->address, gate_fact(j, "good-address")) ||
                               str_eq(e->address, gate_fact(j, "good-address6"));

                asked += e->dns && e->type == 1 && str_eq(e->begin, name) ? e->times : 0;
                good += !e->dns && at_good && str_eq(e->attempt, c->name) ? e->times : 0;
                if (!e->dns && !at_good)
                        finding_open(f, "%s port %u heard: %.100s", e->address, e->port, e->begin);
        }
        finding_control(f, asked > 1 && good > 0, "asked for %u times; its first address was reached %u times", asked,
                        good);
        if (asked < 2 || good == 0)
                finding_untried(f, "its control was not heard");
        if (f->verdict == VERDICT_PENDING)
                finding_promised(f, "nobody but its first, public address was reached");
}

/* Allowing an empty list is allowing nothing. */
void scene_gate_empty(struct judge *j, const struct check *c, struct finding *f) {
        static const char attempts[] = "gate-allowed,gate-literal-v4,gate-other-name,dns-datagram";
        _cleanup_outcome_ struct outcome o = {0};
        struct said said = {0};
        _cleanup_profile_ struct own_profile profile = {0};
        char words[200] = "";
        size_t count = 0;

        (void)c;
        if (!scene_options(j, f) ||
            !gate_profile(j, f, "verify-empty", "network: {allow: []}\n", profile.path, sizeof profile.path))
                return;
        const struct launch l = {
                .where = LAUNCH_INSIDE, .argv = WORDS("{probe}", attempts), .profile = profile.path, .facts = true};
        _cleanup_free_ struct world_event *events = gate_listen(j, f, &l, &o, &count);
        for (size_t i = 0; i < MIN(count, (size_t)3); i++)
                finding_open(f, "%s port %u heard: %.100s", events[i].address, events[i].port, events[i].begin);
        if (!said_find(&o.out, "dns-datagram", &said)) {
                finding_untried(f, "the probe did not come to its end (status %d)", o.status);
                return;
        }
        if (f->verdict == VERDICT_PENDING)
                finding_promised(f, "nobody outside heard anything");
        unsigned heard = heard_outside(j, f, WORDS("{probe}", attempts, "control=yes"), "gate-allowed", words,
                                       sizeof words);
        finding_control(f, heard > 0, "without a sandbox: %s", heard ? words : "not heard");
        if (heard == 0)
                finding_untried(f, "its control was not heard");
}

/* The gate below this launcher, or that of a daemon which the launcher talks to; 0 if there is none. */
static pid_t find_gate(pid_t launcher) {
        DIR *proc = opendir("/proc");
        pid_t found = 0, another = 0;

        for (struct dirent *e; proc && !found && (e = readdir(proc));) {
                char path[300], text[512], name[32] = "";
                int parent = 0;

                (void)snprintf(path, sizeof path, "/proc/%.20s/stat", e->d_name);
                if (e->d_name[0] < '1' || e->d_name[0] > '9' || fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0 ||
                    sscanf(text, "%*d (%31[^)]) %*c %d", name, &parent) != 2 || !str_eq(name, "stockade-gate"))
                        continue;
                pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
                if (parent == launcher)
                        found = pid;
                else if (process_is_ours(pid))
                        another = pid;
        }
        if (proc)
                (void)closedir(proc);
        return found ? found : another;
}

static void judge_steady(const struct world_event *events, size_t count, const struct check *c, struct finding *f) {
        for (size_t i = 0, said = 0; i < count; i++)
                if (str_eq(events[i].attempt, c->name) && said++ < 3)
                        finding_open(f, "%s port %u heard: %.100s", events[i].address, events[i].port, events[i].begin);
}

/* Between two gates there is no network, and the next has the same rules. */
void scene_gate_killed(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        struct running r = {0};
        struct err err = {0};
        _cleanup_profile_ struct own_profile profile = {0};
        size_t count = 0;

        if (!scene_options(j, f) || !gate_profile(j, f, "verify-killed", GATE_RULES, profile.path, sizeof profile.path))
                return;
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .argv = WORDS("{probe}", c->name, "ms=900"),
                                 .profile = profile.path,
                                 .facts = true};
        world_forget(&j->world);
        if (!scene_start(j, f, &l, &r))
                return;
        bool up = launch_expect(&r, "up", 8000);
        pid_t gate = up ? find_gate(r.pid) : 0;
        struct world_event *first = gate_heard(j, f, &count);
        unsigned before = gate_count(first, count, "gate-killed-control", NULL, NULL, 0);
        free(first);
        bool killed = gate > 0 && kill(gate, SIGKILL) == 0;
        if (launch_wait(j, &r, &o, &err) < 0 || !killed)
                finding_untried(f, "%s", !up ? "it did not start" : "its gate was not found, or could not be killed");
        _cleanup_free_ struct world_event *events = gate_heard(j, f, &count);
        judge_steady(events, count, c, f);
        unsigned all = gate_count(events, count, "gate-killed-control", NULL, NULL, 0);
        if (f->verdict == VERDICT_PENDING)
                finding_promised(f, "the other name was never reached; the allowed one %u times before and %u after",
                                 before, all - before);
        finding_control(f, before > 0, "the allowed server heard %u requests before", before);
        if (before == 0)
                finding_untried(f, "its control was not heard");
}

/* Ends a run that would go on, in an orderly way. */
static void end(struct judge *j, struct running *r) {
        _cleanup_outcome_ struct outcome o = {0};

        (void)kill(r->pid, SIGTERM);
        (void)launch_wait(j, r, &o, NULL);
}

/* A profile that cannot be read any more changes nothing; one that can is followed. */
void scene_gate_live(struct judge *j, const struct check *c, struct finding *f) {
        struct running r = {0};
        _cleanup_profile_ struct own_profile profile = {0};
        char more[200], garbage[300], words[200] = "";
        size_t count = 0;
        unsigned heard = 0;

        (void)snprintf(more, sizeof more, GATE_RULES "    - {host: %s}\n", gate_fact(j, "evil-name"));
        if (!scene_options(j, f) || !gate_profile(j, f, "verify-live", GATE_RULES, profile.path, sizeof profile.path))
                return;
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .options = WORDS("--live"),
                                 .argv = WORDS("{probe}", c->name, "ms=6000"),
                                 .profile = profile.path,
                                 .facts = true};
        world_forget(&j->world);
        if (!scene_start(j, f, &l, &r))
                return;
        bool up = launch_expect(&r, "up", 8000);
        (void)snprintf(garbage, sizeof garbage, "network: {alow: [\n%s", more); /* so is every part of it */
        if (!up || !gate_profile(j, f, "verify-live", garbage, profile.path, sizeof profile.path)) {
                finding_untried(f, "it did not start");
                end(j, &r);
                return;
        }
        scene_wait(900);
        struct world_event *events = gate_heard(j, f, &count);
        judge_steady(events, count, c, f);
        free(events);
        /* the control: the same rules in a profile that is whole */
        if (gate_profile(j, f, "verify-live", more, profile.path, sizeof profile.path))
                for (unsigned waited = 0; waited < 4000 && heard == 0; waited += 50) {
                        scene_wait(50);
                        events = gate_heard(j, f, &count);
                        heard = gate_count(events, count, c->name, NULL, words, sizeof words);
                        free(events);
                }
        end(j, &r);
        if (f->verdict == VERDICT_PENDING)
                finding_promised(f, "the other name was not reached while the profile was garbage");
        finding_control(f, heard > 0, "with the profile made whole: %s", heard ? words : "not heard");
        if (heard == 0)
                finding_untried(f, "its control was not heard");
}

/* Runs an attempt that wants more than a cap; bytes or times that were heard come back. */
static bool capped(struct judge *j, const struct check *c, struct finding *f, const char *lines,
                   const char *const *words, struct outcome *ret, unsigned *ret_times, uint64_t *ret_bytes) {
        _cleanup_profile_ struct own_profile profile = {0};
        size_t count = 0;

        if (!scene_options(j, f) || !gate_profile(j, f, "verify-caps", lines, profile.path, sizeof profile.path))
                return false;
        const struct launch l = {
                .where = LAUNCH_INSIDE, .argv = words, .profile = profile.path, .facts = true, .record = true};
        _cleanup_free_ struct world_event *events = gate_listen(j, f, &l, ret, &count);
        *ret_times = gate_count(events, count, c->name, NULL, NULL, 0);
        for (size_t i = 0; i < count; i++)
                *ret_bytes += events[i].dns ? 0 : events[i].bytes;
        if (*ret_times > 0)
                return true;
        finding_untried(f, "nothing was heard at all: %.150s", ret->err.data ? ret->err.data : "");
        return false;
}

void scene_gate_connections(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        unsigned times = 0;
        uint64_t bytes = 0;

        if (!capped(j, c, f, GATE_RULES "limits: {connections: 4}\n", WORDS("{probe}", c->name, "count=12", "ms=300"),
                    &o, &times, &bytes))
                return;
        unsigned most = world_most(&j->world);
        if (times > CAP_CONNECTIONS || most > CAP_CONNECTIONS)
                finding_open(f, "%u connections were open at once, %u requests were heard", most, times);
        else if (!denied_by(&o, "limits.connections"))
                finding_open(f, "the record does not name limits.connections");
        else
                finding_promised(f, "%u connections were open at once, the record names limits.connections", most);
        unsigned heard = heard_outside(j, f, WORDS("{probe}", c->name, "count=12", "ms=300", "control=yes"), c->name,
                                       NULL, 0);
        finding_control(f, heard > CAP_CONNECTIONS, "without a sandbox there were %u", heard);
        if (heard <= CAP_CONNECTIONS)
                finding_untried(f, "its control was not heard");
}

void scene_gate_egress(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        unsigned times = 0;
        uint64_t bytes = 0;

        if (!capped(j, c, f, GATE_RULES "budget: {egress: 16KiB}\n", WORDS("{probe}", c->name, "count=40"), &o, &times,
                    &bytes))
                return;
        if (bytes > CAP_EGRESS)
                finding_open(f, "%llu bytes arrived", (unsigned long long)bytes);
        else if (!denied_by(&o, "budget.egress"))
                finding_open(f, "the record does not name budget.egress");
        else
                finding_promised(f, "%llu bytes of %u arrived, the record names budget.egress",
                                 (unsigned long long)bytes, CAP_EGRESS);
        unsigned heard = heard_outside(j, f, WORDS("{probe}", c->name, "count=40", "control=yes"), c->name, NULL, 0);
        finding_control(f, heard == 40, "without a sandbox %u of 40 KiB arrived", heard);
        if (heard != 40)
                finding_untried(f, "its control was not heard");
}

/* Knocks from a sibling sandbox or from outside, while r listens. True if it was told the word. */
static bool knocked(struct judge *j, struct finding *f, enum launch_where where, const char *profile, const char *port,
                    const char *word) {
        _cleanup_outcome_ struct outcome o = {0};
        const struct launch l = {
                .where = where,
                .argv = WORDS("{probe}", "gate-inbound-knock", port, where == LAUNCH_OUTSIDE ? "control=yes" : NULL),
                .profile = where == LAUNCH_OUTSIDE ? NULL : profile,
                .facts = true,
        };

        return scene_run(j, f, &l, &o) && o.out.size > 0 && memmem(o.out.data, o.out.size, word, strlen(word));
}

/* A port that is open inside a sandbox with a network is there neither for the host nor for a sibling. */
void scene_gate_inbound(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        struct running r = {0};
        struct err err = {0};
        _cleanup_profile_ struct own_profile profile = {0};
        char port[48], fact[80], word[48];

        (void)snprintf(word, sizeof word, "come-in-%.30s", j->world.nonce);
        (void)snprintf(fact, sizeof fact, "inbound-word=%s", word);
        (void)snprintf(port, sizeof port, "inbound-port=%d", 20000 + getpid() % 20000);
        if (!scene_options(j, f) ||
            !gate_profile(j, f, "verify-inbound", GATE_RULES, profile.path, sizeof profile.path))
                return;
        const struct launch inside = {.where = LAUNCH_INSIDE,
                                      .argv = WORDS("{probe}", c->name, port, fact, "ms=900"),
                                      .profile = profile.path,
                                      .facts = true};
        if (!scene_start(j, f, &inside, &r))
                return;
        if (!launch_expect(&r, "up", 8000))
                finding_untried(f, "it does not listen");
        else if (knocked(j, f, LAUNCH_OUTSIDE, NULL, port, word))
                finding_open(f, "the host reached it");
        else if (knocked(j, f, LAUNCH_INSIDE, profile.path, port, word))
                finding_open(f, "another sandbox reached it");
        if (launch_wait(j, &r, &o, &err) < 0 || f->verdict == VERDICT_UNTRIED)
                return;
        finding_promised(f, "neither the host nor another sandbox reached it");
        const struct launch outside = {.where = LAUNCH_OUTSIDE,
                                       .argv = WORDS("{probe}", c->name, port, fact, "ms=500", "control=yes"),
                                       .facts = true};
        if (!scene_start(j, f, &outside, &r))
                return;
        bool reached = launch_expect(&r, "up", 5000) && knocked(j, f, LAUNCH_OUTSIDE, NULL, port, word);
        (void)launch_wait(j, &r, &control, &err);
        finding_control(f, reached, "without a sandbox it is %sreached", reached ? "" : "not ");
        if (!reached)
                finding_untried(f, "its control was not heard");
}

/* A secret that the gate puts in has only a placeholder inside, and goes to the host that its rule names. */
void scene_gate_secret(struct judge *j, const struct check *c, struct finding *f) {
        static const char variable[] = "STOCKADE_VERIFY_GATE_SECRET";
        _cleanup_outcome_ struct outcome o = {0};
        const char *value = j->world.tokens[CANARY_SECRET];
        _cleanup_profile_ struct own_profile profile = {0};
        char pair[120], fact[80], lines[600];
        size_t count = 0;
        bool arrived = false;
        struct said said = {0};

        (void)snprintf(pair, sizeof pair, "%s=%s", variable, value);
        (void)snprintf(fact, sizeof fact, "secret-variable=%s", variable);
        (void)snprintf(lines, sizeof lines,
                       "secrets: [%s]\n" GATE_RULES "    - {host: %s, ports: [80], inspect: true}\n"
                       "    - {host: %s, ports: [80], inspect: true, private: true}\n"
                       "    - {host: %s, ports: [80], private: true, secret: %s}\n",
                       variable, gate_fact(j, "second-name"), gate_fact(j, "loop-name"), gate_fact(j, "inner-name"),
                       variable);
        if (!scene_options(j, f) || !gate_profile(j, f, "verify-secret", lines, profile.path, sizeof profile.path))
                return;
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .options = WORDS("--secret", variable),
                                 .argv = WORDS("{probe}", c->name, fact),
                                 .env = WORDS(pair),
                                 .profile = profile.path,
                                 .facts = true,
                                 .record = true};
        _cleanup_free_ struct world_event *events = gate_listen(j, f, &l, &o, &count);
        for (size_t i = 0; i < count; i++)
                if (strstr(events[i].begin, value)) {
                        if (str_eq(events[i].attempt, "gate-secret-control"))
                                arrived = true;
                        else
                                finding_open(f, "the secret went to %s port %u", events[i].address, events[i].port);
                }
        if ((o.err.size > 0 && world_leaked(&j->world, o.err.data, o.err.size) >= 0) ||
            (o.record && world_leaked(&j->world, o.record, strlen(o.record)) >= 0))
                finding_open(f, "the secret is in what the launcher says, or in the record");
        if (!said_find(&o.out, c->name, &said) || !str_eq(said.result, "refused"))
                finding_untried(f, "the probe did not look for it: %.150s", said.evidence);
        (void)snprintf(f->said, sizeof f->said, "%s", said.evidence);
        finding_control(f, arrived, "its value %s at the server that its rule names",
                        arrived ? "arrived" : "did not arrive");
        if (!arrived)
                finding_untried(f, "its control was not heard");
        if (f->verdict == VERDICT_PENDING)
                finding_promised(f, "its value is nowhere inside, and went to nobody else");
}
