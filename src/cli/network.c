/* Running a gate. It is a process of its own with an id of its own; all that is between us is one socket, and what it
 * says is read as from a stranger, because strangers speak to it.
 *
 * Always holds: what is inside reaches the gate's sockets or nothing. A gate that dies is started again with the same
 * sockets and the same rules; while there is none, connections wait, and when there can be none any more the sockets
 * are closed and every connection is refused. */
#include "cli/network.h"
#include "base/paths.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/spawn.h"
#include "cli/run.h"

#define WARD         0
#define RESTARTS_MAX 3
#define WAIT_MS      10000 /* for a gate that has to make an authority on a busy host */
#define FLUSH_MS     2000
#define READ_MAX     64
#define APPLY_LOOKS  3 /* at one a second */

static uint8_t packet[GATE_PACKET_MAX];

static int say(struct network *n, const struct gate_message *m, const int *fds, size_t count) {
        return n->control >= 0 ? gate_send(n->control, m, fds, count) : -EPIPE;
}

/* The same to a gate that is still starting: waits while its socket is full, because it will read. */
static int say_patiently(struct network *n, const struct gate_message *m, const int *fds, size_t count) {
        int result = say(n, m, fds, count);

        for (int left = WAIT_MS; result == -EAGAIN && left > 0; left -= 10) {
                struct pollfd p = {.fd = n->control, .events = POLLOUT};

                (void)poll(&p, 1, 10);
                result = say(n, m, fds, count);
        }
        return result;
}

static int spawn(struct run *r, struct err *err) {
        struct network *n = &r->network;
        uid_t id = r->cell.rootless ? 0 : SPAWN_GATE_FIRST + (r->cell.id_base - CELL_ID_FIRST) / CELL_ID_RANGE;

        int result = spawn_gate(id, n->trust, &n->pid, NULL, &n->control, err);
        if (result < 0)
                return result;
        n->ready = false;
        n->sent = 0;
        return 0;
}

#define MEMORIES (1U << GATE_MEMORY | 1U << GATE_KEY)
#define SOCKETS  (~MEMORIES)

/* Of these, what we have and it does not, in one message. */
static int give_descriptors(struct network *n, unsigned which) {
        struct gate_message m = {.kind = GATE_ADD, .ward = WARD, .limits = n->limits};
        int fds[GATE_FDS_MAX];
        size_t count = 0;

        for (unsigned i = 0; i < GATE_FD_COUNT; i++)
                if (n->fds[i] >= 0 && (which & 1U << i) && !(n->sent & 1U << i)) {
                        m.fds |= 1U << i;
                        fds[count++] = n->fds[i];
                }
        m.flags = n->learn ? GATE_WARD_LEARN : 0U;
        n->sent |= m.fds;
        return say_patiently(n, &m, fds, count);
}

/* Sockets last: what waits in them is judged by all of the rules, with all of the secrets. */
static int tell(struct network *n, struct err *err) {
        struct gate_message rules = {.kind = GATE_RULES,
                                     .ward = WARD,
                                     .token = n->generation,
                                     .rules = n->rules,
                                     .rules_size = n->rules_size};

        int result = give_descriptors(n, MEMORIES);
        if (result == 0)
                result = say_patiently(n, &rules, NULL, 0);
        for (size_t i = 0; i < n->secret_count && result == 0; i++) {
                struct gate_message secret = {.kind = GATE_SECRET,
                                              .ward = WARD,
                                              .name = n->secrets[i].name,
                                              .holder = n->secrets[i].holder,
                                              .value = n->secrets[i].value,
                                              .value_size = n->secrets[i].size};
                result = say_patiently(n, &secret, NULL, 0);
        }
        if (result == 0 && n->given)
                result = give_descriptors(n, SOCKETS);
        return result < 0 ? err_set(err, result, "could not tell the gate what may be reached") : 0;
}

static void read_plan(struct run *r) {
        struct network *n = &r->network;
        struct plan_walk walk = {0};
        struct plan_step s;
        const struct {
                const char *key;
                uint64_t *value;
        } limits[] = {{"limits.connections", &n->limits.connections},
                      {"limits.lookups", &n->limits.lookups},
                      {"limits.bandwidth", &n->limits.bandwidth},
                      {"budget.egress", &n->limits.egress}};

        n->limits = (struct gate_limits){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
        while (plan_next(&r->plan, &walk, &s)) {
                if (s.op == OP_REACH) {
                        n->rules = s.blob;
                        n->rules_size = s.blob_size;
                }
                if (s.op == OP_NETWORK)
                        n->trust = s.flags & STEP_TRUST;
                for (size_t i = 0; i < ELEMENTSOF(limits) && s.op == OP_LIMIT; i++)
                        if (str_eq(s.text[0], limits[i].key))
                                *limits[i].value = s.number[0];
        }
}

int network_prepare(struct run *r, struct err *err) {
        char program[PATH_MAX];

        read_plan(r);
        int result = network_secrets(r, err);
        /* that it is there at all is known before anything starts */
        return result < 0 || !r->network.rules ? result : paths_helper("stockade-gate", program, sizeof program, err);
}

int network_start(struct run *r, struct err *err) {
        struct network *n = &r->network;

        if (!n->rules)
                return 0;
        n->generation = 1;
        n->learn = r->options.learn;
        /* which name has which address outlives a gate */
        n->fds[GATE_MEMORY] = memfd_create("names", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (n->fds[GATE_MEMORY] < 0 || ftruncate(n->fds[GATE_MEMORY], WARD_MEMORY) < 0 ||
            fcntl(n->fds[GATE_MEMORY], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return err_set(err, -errno, "could not make a memory file for names");
        int result = spawn(r, err);
        return result < 0 ? result : tell(n, err);
}

static void take_authority(struct run *r, int *fds) {
        for (unsigned i = 0; i < ELEMENTSOF(r->cell.authority); i++) {
                if (r->cell.authority[i] < 0)
                        r->cell.authority[i] = TAKE_FD(fds[i]);
                fd_close(&fds[i]);
        }
        if (r->network.fds[GATE_KEY] < 0)
                r->network.fds[GATE_KEY] = TAKE_FD(fds[GATE_CA_KEY]);
        fd_close(&fds[GATE_CA_KEY]);
}

/* A summary per name and port; the gate says each again when it has grown, with what is new. */
static void take_used(struct network *n, const struct gate_event *e) {
        for (size_t i = 0; i < n->used_count; i++)
                if (n->used[i].port == e->port && str_eq(n->used[i].host, e->host)) {
                        n->used[i].count += e->count;
                        n->used[i].sent += e->sent;
                        n->used[i].received += e->received;
                        return;
                }
        if (n->used_count < NETWORK_USED_MAX - 1) {
                n->used[n->used_count++] = *e;
                return;
        }
        /* the last place is for all others together */
        struct gate_event *rest = &n->used[NETWORK_USED_MAX - 1];
        if (n->used_count < NETWORK_USED_MAX)
                *rest = (struct gate_event){.reason = GATE_USED, .rule = -1, .host = "*"};
        n->used_count = NETWORK_USED_MAX;
        rest->count += e->count;
        rest->sent += e->sent;
        rest->received += e->received;
}

/* A refusal in the words of a record. */
static void take_denial(struct run *r, const struct gate_event *e) {
        struct run_denial d = {.count = e->count};
        const char *rule = e->reason == GATE_CONNECTIONS ? "limits.connections"
                           : e->reason == GATE_LOOKUPS   ? "limits.lookups"
                           : e->reason == GATE_EGRESS    ? "budget.egress"
                                                         : "network.allow";

        if (str_eq(e->host, "*")) { /* too many of this kind for the gate to name each */
                r->outcome.denials_left_out += e->count;
                return;
        }
        if (e->method[0])
                (void)snprintf(d.what, sizeof d.what, "%.31s %s:%u%.60s", e->method, e->host, e->port, e->path);
        else if (!e->host[0]) /* refused before it had said where to */
                (void)snprintf(d.what, sizeof d.what, "connect");
        else if (e->port)
                (void)snprintf(d.what, sizeof d.what, "connect %s:%u", e->host, e->port);
        else
                (void)snprintf(d.what, sizeof d.what, "look up %s", e->host);
        (void)snprintf(d.reason, sizeof d.reason, "%s", gate_reason_name(e->reason));
        (void)snprintf(d.rule, sizeof d.rule, "%s", rule);
        (void)snprintf(d.source, sizeof d.source, "gate");
        (void)snprintf(d.text, sizeof d.text, "%s: %s%s%.150s", d.what, gate_reason_text(e->reason),
                       e->detail[0] ? "; " : "", e->detail);
        gate_hint(e, d.remedy, sizeof d.remedy);
        outcome_deny(&r->outcome, &d);
}

/* One message. Returns its kind, 0 at the end, -EAGAIN, or another error. */
static int take(struct run *r) {
        struct network *n = &r->network;
        struct gate_message m;
        int fds[GATE_FDS_MAX];
        size_t count = 0;

        int result = gate_receive(n->control, packet, &m, fds, &count);
        if (result <= 0)
                return result;
        switch ((int)m.kind) {
        case GATE_READY:
                n->ready = true;
                break;
        case GATE_AUTHORITY:
                take_authority(r, fds);
                count = 0;
                break;
        case GATE_EVENT:
                if (m.event.reason == GATE_USED)
                        take_used(n, &m.event);
                else {
                        take_denial(r, &m.event);
                        learn_gate_event(r, &m.event);
                }
                break;
        case GATE_FLUSHED:
                n->totals = m.totals;
                n->counted = true;
                break;
        case GATE_FAILED:
                (void)snprintf(n->failure, sizeof n->failure, "%.200s", m.text);
                break;
        case GATE_APPLIED:
                n->applied = m.token;
                n->unapplied = 0;
                break;
        default:
                result = -EBADMSG; /* not for a gate to say: it is not ours any more */
        }
        while (count > 0)
                (void)close(fds[--count]);
        return result < 0 ? result : (int)m.kind;
}

static void bury(struct network *n) {
        fd_close(&n->control);
        if (n->pid > 0) {
                (void)kill(n->pid, SIGKILL); /* not reaped yet */
                while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        n->pid = 0;
        n->ready = false;
}

static void close_sockets(struct network *n) {
        for (unsigned i = 0; i < GATE_FD_COUNT; i++)
                fd_close(&n->fds[i]);
}

/* The gate is gone. One that never came up is our failure; one that did is started again. */
static int take_over(struct run *r, struct err *err) {
        struct network *n = &r->network;
        struct run_denial d = {.count = 1, .rule = "network.allow", .source = "launcher", .what = "gate"};
        bool was_ready = n->ready;

        bury(n);
        if (!was_ready && n->restarts == 0) {
                (void)err_set(err, ERR_UNENFORCED, "the gate could not be started%s%s", n->failure[0] ? ": " : "",
                              n->failure);
                return err_hint(err, "'stockade doctor' shows what this host lacks");
        }
        (void)snprintf(d.text, sizeof d.text, "the gate ended in the middle of its work; connections were cut");
        (void)snprintf(d.remedy, sizeof d.remedy, "%s", "nothing to allow: if it happens again, tell us");
        outcome_deny(&r->outcome, &d);
        if (++n->restarts > RESTARTS_MAX) {
                close_sockets(n); /* nobody will answer: refuse at once instead of letting them wait */
                return 0;
        }
        int result = spawn(r, err);
        if (result == 0)
                result = tell(n, err);
        if (result < 0)
                close_sockets(n);
        return result;
}

int network_read(struct run *r, struct err *err) {
        /* a few at a time: a gate that never stops talking must not keep us from time, signals and output */
        for (unsigned i = 0; i < READ_MAX; i++) {
                int result = r->network.control >= 0 ? take(r) : -EAGAIN;

                if (result == -EAGAIN)
                        return 0;
                if (result <= 0)
                        return take_over(r, err);
                if (result == GATE_FAILED && r->network.generation > 1)
                        (void)fprintf(stderr, "stockade: --live: the gate says: %s\r\n", r->network.failure);
                else if (result == GATE_FAILED)
                        return err_set(err, ERR_UNENFORCED, "the gate cannot do its work: %s", r->network.failure);
        }
        return 0;
}

/* Reads messages until one of this kind has come. */
static int wait_for(struct run *r, int kind, int ms) {
        struct network *n = &r->network;
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        int64_t end = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + ms;
        for (;;) {
                int result = take(r);
                if (result == kind)
                        return 0;
                if (result <= 0 && result != -EAGAIN)
                        return result == 0 ? -EPIPE : result;
                (void)clock_gettime(CLOCK_MONOTONIC, &t);
                int64_t left = end - ((int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000);
                struct pollfd p = {.fd = n->control, .events = POLLIN};
                if (left <= 0)
                        return -ETIMEDOUT;
                if (result < 0)
                        (void)poll(&p, 1, (int)left);
        }
}

int network_settle(struct run *r, struct err *err) {
        struct network *n = &r->network;

        if (n->control < 0 || !n->trust)
                return 0;
        int result = wait_for(r, GATE_AUTHORITY, WAIT_MS);
        if (result == 0)
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "the gate could not make an authority for TLS%s%s",
                      n->failure[0] ? ": " : "", n->failure);
        return err_hint(err, "rules with methods, paths, a secret or inspect need it");
}

void network_give(struct run *r, int *fds, size_t count) {
        struct network *n = &r->network;

        for (size_t i = 0; i < count; i++)
                if (!n->given && n->control >= 0 && count == GATE_DENIALS + 1)
                        n->fds[i] = fds[i];
                else
                        (void)close(fds[i]);
        n->given = true;
        (void)give_descriptors(n, SOCKETS); /* a gate that is gone is noticed by its socket */
}

/* Rules that were sent have to be in force by the next look, a second later. A gate that does not say so is replaced:
 * its successor begins with them. */
static bool still_applied(struct run *r) {
        struct network *n = &r->network;
        struct err err = {0};

        if (n->control < 0 || !n->ready || n->applied == n->generation)
                return true;
        if (n->unapplied++ < APPLY_LOOKS)
                return false;
        n->unapplied = 0;
        if (take_over(r, &err) < 0)
                err_print(&err);
        return false;
}

void network_reload(struct run *r) {
        struct network *n = &r->network;
        struct run next = {.options = r->options};
        struct gate_message m = {.kind = GATE_RULES, .ward = WARD};
        struct plan_walk walk = {0};
        struct plan_step s;
        struct err err = {0};

        if (!n->rules || !still_applied(r) || !plan_cache_changed(r))
                return;
        int result = plan_cache_get(&next, &err);
        if (result == 0)
                result = plan_cache_guard(&next, &err);
        if (result < 0) {
                static char said[sizeof err.text]; /* once per mistake, not once a second */

                if (!str_eq(said, err.text))
                        (void)fprintf(stderr, "stockade: --live: the rules stay as they are: %s\r\n", err.text);
                memcpy(said, err.text, sizeof said);
                plan_cache_free(&next);
                return;
        }
        _cleanup_buf_ struct buf none = {0};
        rules_begin(&none); /* a profile that allows nothing any more has no rules in its plan */
        m.rules = none.data;
        m.rules_size = none.size;
        while (plan_next(&next.plan, &walk, &s))
                if (s.op == OP_REACH) {
                        m.rules = s.blob;
                        m.rules_size = s.blob_size;
                }
        void *copy = malloc(m.rules_size);
        m.token = n->generation + 1;
        if (!copy || say(n, &m, NULL, 0) < 0) { /* the next look tries again */
                free(copy);
                plan_cache_free(&next);
                return;
        }
        memcpy(copy, m.rules, m.rules_size);
        n->generation++;
        free(n->newer);
        n->rules = n->newer = copy;
        n->rules_size = m.rules_size;
        plan_cache_follow(r, &next);
}

/* Nothing waits in the sockets and the gate has not even begun: there is nothing to hear. */
static bool untouched(const struct network *n) {
        struct pollfd p[GATE_TAP + 1];

        if (n->ready || n->restarts > 0)
                return false;
        for (unsigned i = 0; i < ELEMENTSOF(p); i++)
                p[i] = (struct pollfd){.fd = n->fds[i], .events = POLLIN};
        return poll(p, ELEMENTSOF(p), 0) == 0;
}

void network_finish(struct run *r) {
        struct network *n = &r->network;
        struct gate_message m = {.kind = GATE_FLUSH, .ward = WARD, .token = 1};

        if (n->control < 0 || !n->given || untouched(n))
                return;
        if (say(n, &m, NULL, 0) == 0)
                (void)wait_for(r, GATE_FLUSHED, FLUSH_MS);
}

void network_end(struct run *r) {
        struct network *n = &r->network;

        if (n->pid > 0)
                (void)kill(n->pid, SIGKILL); /* whoever inherits it reaps it: nobody waits for its end */
        n->pid = 0;
        fd_close(&n->control);
        network_secrets_wipe(n);
        close_sockets(n);
}
