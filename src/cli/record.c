/* What is left of a run: one JSON object for programs, a few lines for people. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/run.h"

void record_time(struct json *j, const char *key, uint64_t ms) {
        time_t seconds = (time_t)(ms / 1000);
        struct tm t;
        char text[64], day[32];

        (void)gmtime_r(&seconds, &t);
        (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &t);
        (void)snprintf(text, sizeof text, "%s.%03uZ", day, (unsigned)(ms % 1000));
        json_str(j, key, text);
}

static void put_number(struct json *j, const char *key, uint64_t value) {
        if (value == CGROUP_UNSET)
                json_null(j, key);
        else
                json_u64(j, key, value);
}

static void put_usage(struct json *j, const struct run_outcome *o) {
        json_open(j, "usage", '{');
        json_u64(j, "wall_us", o->wall_us);
        put_number(j, "cpu_us", o->usage.cpu_us);
        put_number(j, "memory_peak", o->usage.memory_peak);
        put_number(j, "processes_peak", o->usage.processes_peak);
        put_number(j, "read_bytes", o->usage.read_bytes);
        put_number(j, "write_bytes", o->usage.write_bytes);
        put_number(j, "throttled_us", o->usage.throttled_us);
        put_number(j, "oom_kills", o->usage.oom_kills);
        put_number(j, "fork_refusals", o->usage.fork_refusals);
        json_u64(j, "output_bytes", o->output_bytes);
        json_close(j, '}');
}

static void put_denials(struct json *j, const struct run_outcome *o, bool networked) {
        json_open(j, "limits_hit", '[');
        for (size_t i = 0; i < o->denial_count; i++)
                if (str_starts(o->denials[i].rule, "limits.") || str_starts(o->denials[i].rule, "time.") ||
                    str_starts(o->denials[i].rule, "budget.") || str_starts(o->denials[i].what, "write "))
                        json_str(j, NULL, o->denials[i].rule);
        json_close(j, ']');
        json_open(j, "denials", '[');
        for (size_t i = 0; i < o->denial_count; i++) {
                const struct run_denial *d = &o->denials[i];

                json_open(j, NULL, '{');
                json_str(j, "what", d->what);
                json_str(j, "rule", d->rule);
                if (d->reason[0])
                        json_str(j, "reason", d->reason);
                json_str(j, "source", d->source);
                json_str(j, "text", d->text);
                json_str(j, "how_to_allow", d->remedy);
                json_u64(j, "count", d->count);
                json_close(j, '}');
        }
        json_close(j, ']');
        json_u64(j, "denials_left_out", o->denials_left_out);
        /* what this run could not have seen, so that silence is not taken for peace */
        json_open(j, "denial_sources", '{');
        json_str(j, "limits", "cgroup");
        json_str(j, "exec",
                 o->audit ? "guest (the command itself); landlock audit for its children, but none where the mount is "
                            "noexec"
                          : "guest (the command itself); none for its children");
        json_str(j, "files", o->audit ? "landlock audit" : "none");
        json_str(j, "network", networked ? "gate" : "none: there is no network to be refused by");
        json_close(j, '}');
}

static void put_outcome(struct json *j, const struct run_outcome *o) {
        json_str(j, "reason", outcome_reason_name(o->reason));
        json_i64(j, "status", o->status);
        if (o->have_wait_status && WIFEXITED(o->wait_status))
                json_i64(j, "exit_code", WEXITSTATUS(o->wait_status));
        else
                json_null(j, "exit_code");
        if (o->have_wait_status && WIFSIGNALED(o->wait_status))
                json_i64(j, "signal", WTERMSIG(o->wait_status));
        else
                json_null(j, "signal");
        json_bool(j, "output_cut", o->output_cut);
        if (o->error)
                json_str(j, "error", o->error);
}

/* null: there was no network. Zeros: nothing passed, and the gate had not even begun. */
static void put_network(struct json *j, const struct network *n) {
        const struct {
                const char *key;
                uint64_t value;
        } totals[] = {{"connections", n->totals.connections},
                      {"refused", n->totals.refused},
                      {"lookups", n->totals.lookups},
                      {"lookups_refused", n->totals.lookups_refused},
                      {"sent", n->totals.sent},
                      {"received", n->totals.received}};

        if (!n->rules) {
                json_null(j, "network");
                return;
        }
        json_open(j, "network", '{');
        for (size_t i = 0; i < ELEMENTSOF(totals); i++)
                json_u64(j, totals[i].key, totals[i].value);
        json_u64(j, "gate_restarts", n->restarts);
        json_open(j, "hosts", '[');
        for (size_t i = 0; i < n->used_count; i++) {
                json_open(j, NULL, '{');
                json_str(j, "host", n->used[i].host);
                json_u64(j, "port", n->used[i].port);
                json_u64(j, "connections", n->used[i].count);
                json_u64(j, "sent", n->used[i].sent);
                json_u64(j, "received", n->used[i].received);
                json_close(j, '}');
        }
        json_close(j, ']');
        json_close(j, '}');
}

static void put_missing(struct json *j, const struct run *r) {
        struct plan_walk walk = {0};
        struct plan_step s;

        json_open(j, "not_enforced", '[');
        while (r->plan.bytes && plan_next(&r->plan, &walk, &s))
                if (s.op == OP_ACCEPT) {
                        /* a limit that was accepted as missing but could be enforced after all is enforced */
                        bool limit = str_starts(s.text[0], "limits.") || str_starts(s.text[0], "budget.cpu");
                        bool missing = !limit;
                        for (size_t i = 0; i < r->cgroup.missing_count; i++)
                                missing = missing || str_eq(r->cgroup.missing[i], s.text[0]);
                        if (missing)
                                json_str(j, NULL, s.text[0]);
                }
        json_close(j, ']');
}

static void make(const struct run *r, struct buf *out) {
        struct json j = {.out = out};
        char hash[HASH_TEXT_SIZE];

        json_open(&j, NULL, '{');
        json_u64(&j, "record", 1);
        json_str(&j, "id", r->id);
        json_open(&j, "argv", '[');
        for (char **a = r->options.argv; a && *a; a++)
                json_str(&j, NULL, *a);
        json_close(&j, ']');
        json_str(&j, "profile", r->limits.profile);
        if (r->plan.policy_hash) {
                hash_text(r->plan.policy_hash, hash);
                json_str(&j, "policy_hash", hash);
        }
        json_str(&j, "driver", "native");
        json_bool(&j, "rootless", geteuid() != 0);
        record_time(&j, "start", r->outcome.start_ms);
        record_time(&j, "end", r->outcome.end_ms);
        put_outcome(&j, &r->outcome);
        put_usage(&j, &r->outcome);
        put_network(&j, &r->network);
        put_denials(&j, &r->outcome, r->network.rules != NULL);
        put_missing(&j, r);
        learn_record(r, &j);
        json_close(&j, '}');
        buf_str(out, "\n");
}

/* Opened before the command runs: it may be able to put something else in the place of the name. */
int record_open(struct run *r, struct err *err) {
        struct stat st;

        if (!r->options.record)
                return 0;
        r->record = open(r->options.record, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
        if (r->record < 0)
                return err_set(err, -errno, "cannot write the record '%s'", r->options.record);
        if (fstat(r->record, &st) < 0 || (S_ISREG(st.st_mode) && ftruncate(r->record, 0) < 0))
                return err_set(err, -errno, "cannot write the record '%s'", r->options.record);
        return 0;
}

int record_write(struct run *r, struct err *err) {
        _cleanup_buf_ struct buf out = {0};

        if (!r->options.record && !r->options.json)
                return 0;
        make(r, &out);
        if (!buf_ok(&out))
                return err_set(err, ERR_LIMIT, "the record is too large");
        if (r->options.json)
                (void)fd_write_full(STDERR_FILENO, out.data, out.size);
        if (r->record < 0)
                return 0;
        int result = fd_write_full(r->record, out.data, out.size);
        return result < 0 ? err_set(err, result, "cannot write the record '%s'", r->options.record) : 0;
}

#define TELL_MAX 12 /* denials that are told; the record has more */

static void tell_one(const struct run_denial *d) {
        char text[2 * sizeof d->text];

        text_escape(text, sizeof text, d->text);
        (void)fprintf(stderr, "stockade: %s: %s", d->rule, text);
        if (d->count > 1)
                (void)fprintf(stderr, " (%llu times)", (unsigned long long)d->count);
        (void)fprintf(stderr, "\n");
        if (d->remedy[0])
                (void)fprintf(stderr, "  to allow it: %s\n", d->remedy);
}

/* Is it the first of its kind in the list? */
static bool is_first(const struct run_outcome *o, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (outcome_same_kind(&o->denials[k], &o->denials[i]))
                        return false;
        return true;
}

/* One of every kind, and then others while there is room: many of one kind do not push the rest out of sight. */
void record_tell(const struct run *r) {
        const struct run_outcome *o = &r->outcome;
        uint64_t more = o->denials_left_out;
        size_t told = 0, kinds = 0;

        if (r->options.quiet || r->options.json)
                return;
        for (size_t i = 0; i < o->denial_count; i++)
                kinds += is_first(o, i);
        for (size_t i = 0; i < o->denial_count; i++) {
                bool first = is_first(o, i);

                if (first || told + kinds < TELL_MAX) {
                        tell_one(&o->denials[i]);
                        told += !first;
                } else
                        more += o->denials[i].count;
        }
        if (more > 0)
                (void)fprintf(stderr, "stockade: and %llu refusals more; --record FILE has them by kind\n",
                              (unsigned long long)more);
}
