/* How a run ended, judged from outside: by what the launcher did, what the cgroup counted and, last, what the guest
 * said. A limit that was reached is told even when the command coped with it. */
#include <stdio.h>
#include <sys/wait.h>

#include "base/text.h"
#include "cli/run.h"

static const char *const reason_names[] = {
        [REASON_EXITED] = "exited", [REASON_SIGNAL] = "signal",       [REASON_TIMEOUT] = "timeout",
        [REASON_OOM] = "oom",       [REASON_DISK_FULL] = "disk_full", [REASON_OUTPUT] = "output_limit",
        [REASON_BUDGET] = "budget", [REASON_DENIED] = "denied",       [REASON_FAILED] = "failed",
};
static_assert(ELEMENTSOF(reason_names) == REASON_FAILED + 1, "every reason has a name");

const char *outcome_reason_name(enum run_reason reason) {
        return reason_names[reason];
}

bool outcome_same_kind(const struct run_denial *a, const struct run_denial *b) {
        size_t word = strcspn(a->what, " "); /* "connect", "look" */

        return str_eq(a->rule, b->rule) && str_eq(a->reason, b->reason) && word == strcspn(b->what, " ") &&
               strncmp(a->what, b->what, word) == 0;
}

/* The last denial of the kind that has most: a flood of one kind must not hide another. */
static size_t most_common(const struct run_outcome *o) {
        size_t best = 0, most = 0;

        for (size_t i = 0; i < o->denial_count; i++) {
                size_t count = 0;

                for (size_t k = 0; k < o->denial_count; k++)
                        count += outcome_same_kind(&o->denials[i], &o->denials[k]);
                if (count >= most) {
                        most = count;
                        best = i;
                }
        }
        return best;
}

void outcome_deny(struct run_outcome *o, const struct run_denial *d) {
        for (size_t i = 0; i < o->denial_count; i++)
                if (str_eq(o->denials[i].what, d->what) && outcome_same_kind(&o->denials[i], d)) {
                        o->denials[i].count += d->count;
                        return;
                }
        if (o->denial_count < RUN_DENIALS_MAX) {
                o->denials[o->denial_count++] = *d;
                return;
        }
        size_t loser = most_common(o);
        if (outcome_same_kind(&o->denials[loser], d)) {
                o->denials_left_out += d->count;
                return;
        }
        o->denials_left_out += o->denials[loser].count;
        o->denials[loser] = *d;
}

static void deny_limit(struct run_outcome *o, const char *key, const char *source, uint64_t count, const char *text,
                       const char *remedy) {
        struct run_denial d = {.count = count};

        (void)snprintf(d.what, sizeof d.what, "%s", key);
        (void)snprintf(d.rule, sizeof d.rule, "%s", key);
        (void)snprintf(d.source, sizeof d.source, "%s", source);
        (void)snprintf(d.text, sizeof d.text, "%s", text);
        (void)snprintf(d.remedy, sizeof d.remedy, "%s", remedy);
        outcome_deny(o, &d);
}

static void tell_cgroup(struct run *r) {
        struct run_outcome *o = &r->outcome;
        char text[256], value[32];

        if (o->usage.oom_kills != CGROUP_UNSET && o->usage.oom_kills > 0) {
                (void)snprintf(text, sizeof text, "it needed more than %s of memory, and the kernel ended %s",
                               text_format(value, sizeof value, TEXT_BYTES, r->limits.memory),
                               o->reason == REASON_OOM ? "the command" : "a process of it");
                deny_limit(o, "limits.memory", "cgroup", o->usage.oom_kills, text,
                           "--memory SIZE, or limits.memory in the profile");
        }
        if (o->usage.fork_refusals != CGROUP_UNSET && o->usage.fork_refusals > 0) {
                (void)snprintf(text, sizeof text,
                               "it tried to have more than %llu processes and threads, and was refused more",
                               (unsigned long long)r->limits.processes);
                deny_limit(o, "limits.processes", "cgroup", o->usage.fork_refusals, text,
                           "--processes N, or limits.processes in the profile");
        }
}

static void tell_places(struct run *r) {
        char text[256];

        for (size_t i = 0; i < r->watched_count; i++) {
                const char *path = i < r->limits.watched_count ? r->limits.watched[i] : "?";
                struct run_denial d = {.count = 1};

                if (!r->outcome.place_full[i])
                        continue;
                (void)snprintf(text, sizeof text, "'%s' was full", path);
                (void)snprintf(d.what, sizeof d.what, "write %s", path);
                (void)snprintf(d.rule, sizeof d.rule, "%s", str_eq(path, "/dev/shm") ? "shm" : "files.write");
                (void)snprintf(d.source, sizeof d.source, "file system");
                (void)snprintf(d.text, sizeof d.text, "%s", text);
                (void)snprintf(d.remedy, sizeof d.remedy, "%s",
                               str_eq(path, "/dev/shm") ? "--set shm=SIZE"
                                                        : "--size SIZE, or size and inodes in the profile");
                outcome_deny(&r->outcome, &d);
        }
}

static void tell_ended(struct run *r) {
        struct run_outcome *o = &r->outcome;
        char text[256], value[32];

        switch (o->reason) {
        case REASON_TIMEOUT:
                (void)snprintf(text, sizeof text, "it ran longer than %s and was ended%s",
                               text_format(value, sizeof value, TEXT_TIME, r->limits.wall),
                               o->output_lost ? "; its reader did not take all of its output" : "");
                deny_limit(o, "time.run", "clock", 1, text, "--timeout TIME, or time.run in the profile");
                break;
        case REASON_BUDGET:
                (void)snprintf(text, sizeof text, "it used up %s of processor time and was ended",
                               text_format(value, sizeof value, TEXT_TIME, r->limits.cpu_time));
                deny_limit(o, "budget.cpu", "cgroup", 1, text, "--cpu-time TIME, or budget.cpu in the profile");
                break;
        case REASON_OUTPUT:
                (void)snprintf(text, sizeof text, "it wrote more than %s and was ended; %s",
                               text_format(value, sizeof value, TEXT_BYTES, r->limits.output),
                               o->output_lost ? "its reader did not take all that came before"
                                              : "what came before is whole");
                deny_limit(o, "limits.output", "relay", 1, text, "--output SIZE, or limits.output in the profile");
                break;
        case REASON_EXITED:
        case REASON_SIGNAL:
        case REASON_OOM:
        case REASON_DISK_FULL:
        case REASON_DENIED:
        case REASON_FAILED:
        default:
                break;
        }
}

static void judge_exec(struct run *r) {
        struct run_outcome *o = &r->outcome;
        struct run_denial d = {.count = 1};

        o->status = o->exec_error == -ENOENT ? 127 : 126;
        o->reason = REASON_EXITED;
        if (o->exec_error != -EACCES && o->exec_error != -EPERM)
                return;
        o->reason = REASON_DENIED;
        (void)snprintf(d.what, sizeof d.what, "exec %.150s", r->options.argv[0]);
        (void)snprintf(d.rule, sizeof d.rule, "tools.exec");
        (void)snprintf(d.source, sizeof d.source, "guest");
        (void)snprintf(d.text, sizeof d.text,
                       "'%.200s' may not be executed: not a program, or not among those the profile allows",
                       r->options.argv[0]);
        (void)snprintf(d.remedy, sizeof d.remedy, "add it to tools.exec in the profile");
        outcome_deny(o, &d);
}

void outcome_judge(struct run *r) {
        struct run_outcome *o = &r->outcome;
        bool oom = o->usage.oom_kills != CGROUP_UNSET && o->usage.oom_kills > 0, full = false;

        for (size_t i = 0; i < r->watched_count; i++)
                full = full || o->place_full[i];
        if (o->reason == REASON_TIMEOUT)
                o->status = 124;
        else if (o->reason == REASON_OUTPUT || o->reason == REASON_BUDGET)
                o->status = 137;
        else if (o->exec_error)
                judge_exec(r);
        else if (!o->have_wait_status) {
                /* PID 1 went without a word: killed from outside, with everything in its cgroup */
                o->reason = oom ? REASON_OOM : REASON_SIGNAL;
                o->status = 137;
        } else if (WIFSIGNALED(o->wait_status)) {
                o->reason = oom && WTERMSIG(o->wait_status) == SIGKILL ? REASON_OOM : REASON_SIGNAL;
                o->status = 128 + WTERMSIG(o->wait_status);
        } else {
                o->status = WEXITSTATUS(o->wait_status);
                o->reason = full && o->status != 0 ? REASON_DISK_FULL : REASON_EXITED;
        }
        tell_ended(r);
        tell_cgroup(r);
        tell_places(r);
}
