/* Verbs about the daemon itself, and about the life of sandboxes. */
#include <stdio.h>

#include "base/log.h"
#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/image.h"
#include "operator/life.h"
#include "operator/pool.h"
#include "operator/secret-vault.h"
#include "operator/snapshot.h"
#include "operator/ssh-door.h"
#include "operator/trial.h"
#include "operator/verbs.h"
#include "operator/warden-link.h"
#include "operator/wishes.h"
#include "wire/rules.h"

static void go(struct task *t) {
        if (t)
                task_go(t);
}

/* --- the daemon -----------------------------------------------------------------------------------------------------
 */

void verb_ping(struct call *c) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        const struct registry *r = c->o->registry;

        json_open(&j, NULL, '{');
        json_str(&j, "version", STOCKADE_VERSION);
        json_str(&j, "mode", c->o->rootless ? "rootless" : "root");
        json_str(&j, "health", r->unrecorded || r->pressure ? "held" : "ok");
        json_u64(&j, "sandboxes", r->sandboxes.count);
        json_u64(&j, "started_ms", r->started_ms);
        json_str(&j, "owner", c->actor);
        json_bool(&j, "admin", c->admin);
        json_close(&j, '}');
        call_answer(c, &b);
}

void verb_health(struct call *c) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct core *o = c->o;
        const struct registry *r = o->registry;
        int ledger = ledger_health(o->ledger), store = store_health(o->store);

        json_open(&j, NULL, '{');
        json_bool(&j, "ok", ledger == 0 && store == 0 && !r->pressure && !r->incomplete);
        json_bool(&j, "incomplete", r->incomplete);
        json_str(&j, "ledger", ledger == 0 ? "ok" : err_name(ledger));
        json_str(&j, "store", store == 0 ? "ok" : err_name(store));
        json_str(&j, "disk", r->pressure ? "nearly full" : "ok");
        json_u64(&j, "ledger_seq", ledger_durable(o->ledger));
        json_open(&j, "parts", '[');
        json_str(&j, NULL, "warden");
        json_str(&j, NULL, "operator");
        json_close(&j, ']');
        json_open(&j, "used", '{');
        json_u64(&j, "sandboxes", r->used.sandboxes);
        json_u64(&j, "memory", r->used.memory);
        json_u64(&j, "cpus", r->used.cpus);
        json_u64(&j, "disk", r->used.disk);
        json_close(&j, '}');
        json_u64(&j, "pool", pool_ready(o));
        if (o->front)
                o->front->describe(o, &j, "api");
        secret_vault_json(o, &j, "keys");
        json_open(&j, "ssh", '{');
        json_bool(&j, "open", o->ssh_link >= 0);
        ssh_door_listen(o, &j, "listen");
        json_close(&j, '}');
        json_close(&j, '}');
        call_answer(c, &b);
}

static void down_answered(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct call *c = data;
        struct buf nothing = {0};

        (void)fds;
        (void)fd_count;
        if (answer->error < 0)
                call_refuse_text(c, call_code(answer->error), answer->hint, "%s", answer->text);
        else
                call_answer(c, &nothing);
}

#define TRIES 600 /* half a minute */
#define AGAIN 20

struct down {
        struct core *o;
        struct call *call;
        struct loop_timer timer;
        bool stop;
        unsigned tries;
};

static bool all_stopped(const struct core *o) {
        for (const struct sandbox *s = o->registry->first; s; s = s->next)
                if (s->up && s->state != STATE_QUARANTINED && s->state != STATE_FAILED)
                        return false;
        return true;
}

/* Also what could not be stopped before, because it could not be written down. */
static void stop_all(struct core *o) {
        for (struct sandbox *s = o->registry->first; s; s = s->next)
                if (s->up && ops_idle(&s->ops))
                        go(life_stop(s, NULL, REASON_STOPPED));
}

static void down_look(struct loop_timer *timer) {
        struct down *d = LOOP_OWNER(timer, struct down, timer);
        struct warden_message m = {.kind = WARDEN_DOWN, .flags = d->stop ? WARDEN_KILL : 0};

        bool busy = !pool_drained(d->o) || (d->stop && !all_stopped(d->o)) || disk_dropping(d->o) || trial_busy(d->o);

        if (busy && ++d->tries < TRIES) {
                if (d->stop && d->tries % AGAIN == 0)
                        stop_all(d->o);
                loop_timer_set(d->o->loop, &d->timer, loop_now(d->o->loop) + 50);
                return;
        }
        if (warden_call(d->o, &m, NULL, 0, down_answered, d->call) < 0)
                call_refuse_text(d->call, "failed", "end stockaded by a signal", "the warden cannot be asked");
        free(d);
}

/* Sandboxes are stopped like any other, so that their rows say so, and then the warden is asked to end us all. What the
 * pool has goes in any case. */
void verb_down(struct call *c) {
        struct down *d = calloc(1, sizeof *d);

        if (!d) {
                call_refuse_text(c, "failed", "try again", "out of memory");
                return;
        }
        d->stop = call_bool(c, "stop");
        d->o = c->o;
        d->call = c;
        d->timer.fire = down_look;
        pool_drain(c->o);
        for (struct sandbox *s = c->o->registry->first; d->stop && s; s = s->next)
                if (s->up)
                        go(life_stop(s, NULL, REASON_STOPPED));
        c->o->draining = true;
        down_look(&d->timer);
}

/* --- create ---------------------------------------------------------------------------------------------------------
 */

static int find_image(const struct call *c, const struct frozen *f, struct image **ret, struct err *err) {
        if (!f->image_root)
                return 0;
        *ret = image_named(c->o, c->owner, f->image);
        if (*ret)
                return 0;
        (void)call_err(err, -ENOENT, "there is no image '%s'", f->image);
        return err_hint(err, "'stockade image list' shows what there is, 'stockade image import' makes one");
}

static int read_fork(const struct call *c, struct create_request *q, struct err *err) {
        static const char *const others[] = {"profile", "profile_text", "set", "allow", "image", "memory_only"};

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (call_has(c, others[i])) {
                        (void)call_err(err, ERR_INPUT, "'%s' does not go with 'snapshot'", others[i]);
                        return err_hint(err, "a fork has the policy of its snapshot");
                }
        if (!c->snapshot->ready)
                return call_err(err, -EBUSY, "snapshot %s is not ready", c->snapshot->id);
        q->snapshot = c->snapshot;
        q->image = c->snapshot->image;
        q->frozen = frozen_ref(c->snapshot->frozen);
        return 0;
}

bool verbs_is_instance(struct call *c) {
        if (!str_eq(c->o->conf.mode, "instance") || (c->admin && c->client->uid != (uid_t)-1))
                return false;
        call_refuse_text(c, "instance_mode", "use that one: /api/sandbox",
                         "this operator has one sandbox, and makes no other");
        return true;
}

void verb_create(struct call *c) {
        _cleanup_wishes_ struct wishes w = {0};
        struct create_request q = {0};
        struct err err = {0};
        char asked[33];
        int r;

        if (verbs_is_instance(c))
                return;
        (void)call_text(c, "name", q.name, sizeof q.name);
        copy_text(q.owner, sizeof q.owner, c->owner);
        if (c->snapshot)
                r = read_fork(c, &q, &err);
        else {
                r = wishes_read(c->text, &w, &err);
                if (r == 0)
                        r = frozen_compile(c->o, &w.q, &q.frozen, &err);
                if (r == 0)
                        r = find_image(c, q.frozen, &q.image, &err);
        }
        if (r == 0)
                r = driver_choose(c->o, q.frozen, call_text(c, "driver", asked, sizeof asked), &q.driver, q.driver_why,
                                  &err);
        bool again = r == -EAGAIN;
        if (r == 0)
                r = secret_parse(c->text, "secrets", &q.secrets, &err);
        if (r == 0)
                r = secret_check(q.frozen, q.secrets, true, &err);
        if (again)
                driver_wait(c, verb_create);
        else if (r < 0)
                call_refuse(c, &err);
        else
                create_sandbox(c->o, c, &q);
        if (q.frozen)
                frozen_unref(q.frozen);
        secret_free(q.secrets);
}

/* --- list -----------------------------------------------------------------------------------------------------------
 */

/* Where a page begins: "created_ms.id" of the last one of the page before. They are kept in the order of creation. */
static bool read_cursor(const char *text, uint64_t *ret_ms, char ret_id[STORE_ID]) {
        unsigned long long ms = 0;
        char end;

        if (sscanf(text, "%19llu.%16[0-9a-f]%c", &ms, ret_id, &end) != 2)
                return false;
        *ret_ms = ms;
        return true;
}

static bool is_listed(const struct call *c, const struct sandbox *s, bool all, const char *name, enum state state) {
        return (all || str_eq(s->owner->name, c->owner)) && (!name[0] || s->state == state);
}

void verb_list(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 128};
        struct json j = {.out = &b};
        bool all = call_bool(c, "all"), found = false;
        uint64_t left = call_number(c, "max", UINT64_MAX), after_ms = 0;
        char name[17], after[41], id[STORE_ID] = "", next[64] = "";
        enum state state = STATE_COUNT;

        if (all && !c->admin) {
                call_refuse_text(c, "refused", "leave 'all' out", "only root and the operator's own user see others'");
                return;
        }
        if (call_text(c, "state", name, sizeof name)[0] && !state_parse(name, &state)) {
                call_refuse_text(c, "bad_request", "running, paused, stopped, quarantined, failed, …",
                                 "there is no state '%s'", name);
                return;
        }
        if (call_text(c, "after", after, sizeof after)[0] && !read_cursor(after, &after_ms, id)) {
                call_refuse_text(c, "bad_request", "take 'next_cursor' of the page before",
                                 "'%s' is no place in the list", after);
                return;
        }
        json_open(&j, NULL, '{');
        json_open(&j, "sandboxes", '[');
        for (const struct sandbox *s = c->o->registry->first; s; s = s->next) {
                bool passed = !id[0] || s->created_ms > after_ms || (s->created_ms == after_ms && found);

                found |= str_eq(s->id, id);
                if (!passed || !is_listed(c, s, all, name, state))
                        continue;
                if (left-- == 0)
                        break;
                sandbox_json(s, &j, NULL);
                (void)snprintf(next, sizeof next, "%llu.%s", (unsigned long long)s->created_ms, s->id);
        }
        json_close(&j, ']');
        if (call_has(c, "max"))
                json_str(&j, "next_cursor", left == UINT64_MAX ? next : NULL);
        json_close(&j, '}');
        call_answer(c, &b);
}

/* --- life -----------------------------------------------------------------------------------------------------------
 */

void verb_pause(struct call *c) {
        go(life_pause(c->sandbox, c));
}

void verb_unpause(struct call *c) {
        go(life_unpause(c->sandbox, c));
}

void verb_stop(struct call *c) {
        go(life_stop(c->sandbox, c, REASON_STOPPED));
}

void verb_resume(struct call *c) {
        char asked[33], why[DRIVER_WHY];
        enum driver d;
        struct err err = {0};
        int r = call_has(c, "driver") ? driver_choose(c->o, c->sandbox->frozen,
                                                      call_text(c, "driver", asked, sizeof asked), &d, why, &err)
                                      : 0;

        if (r == -EAGAIN)
                driver_wait(c, verb_resume);
        else if (r < 0)
                call_refuse(c, &err);
        else
                go(life_resume(c->sandbox, c));
}

void verb_delete(struct call *c) {
        go(life_delete(c->sandbox, c, call_bool(c, "force")));
}

void verb_quarantine(struct call *c) {
        char why[513];

        go(quarantine_begin(c->sandbox, c, call_text(c, "reason", why, sizeof why)));
}

/* --- policy ---------------------------------------------------------------------------------------------------------
 */

static void policy_answer(struct task *t) {
        if (t->error < 0)
                task_refuse(t);
        else
                task_finish(t);
}

/* The event is durable. Nobody else changes the sandbox meanwhile: this is its turn. */
static void policy_act(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct frozen *old = s->frozen;

        if (t->error < 0) {
                task_refuse(t);
                return;
        }
        if (s->ward) {
                _cleanup_buf_ struct buf none = {0};
                rules_begin(&none); /* a policy that allows nothing has no rules in its plan */
                int r = t->frozen->rules ? gate_ward_rules(s->ward, t->frozen->rules, t->frozen->rules_size)
                                         : gate_ward_rules(s->ward, none.data, none.size);
                if (r < 0) {
                        (void)task_fail(t, r, "the gate cannot be told now: %s", err_name(r));
                        task_refuse(t);
                        return;
                }
        }
        s->frozen = TAKE_PTR(t->frozen);
        t->frozen = old;
        store_begin(t->o->store);
        task_rows(t, sandbox_put(s, true));
        task_settle(t);
        store_end(t->o->store);
        task_commit(t, policy_answer);
}

/* Why these rules cannot be had while it runs; NULL: they can. */
static const char *policy_obstacle(const struct sandbox *s, const struct frozen *f) {
        if (!s->up || !f->rules || (s->ward && (!f->trust || s->frozen->trust)))
                return NULL;
        return s->ward ? "the gate would have to open TLS, which this sandbox does not expect"
                       : "it was started without a network";
}

#define POLICY_REMEDY "stop it first: the rules then hold from its next start on"

/* What more may be reached is more than what may be now, in its turn: others may have changed it since it was asked. */
static void policy_begin(struct task *t) {
        _cleanup_wishes_ struct wishes w = {0};
        const char *obstacle;
        size_t size;
        enum state to;

        if (!task_allowed(t, EVENT_POLICY, &to))
                return;
        if (wishes_read(t->text, &w, &t->err) < 0 ||
            frozen_allow(t->o, t->sandbox->frozen, w.q.allow, w.q.allow_count, !json_at(t->text, "add", &size),
                         &t->frozen, &t->err) < 0) {
                task_refuse(t);
                return;
        }
        if ((obstacle = policy_obstacle(t->sandbox, t->frozen))) {
                (void)task_fail(t, -EEXIST, "%s", obstacle);
                (void)err_hint(&t->err, POLICY_REMEDY);
                task_refuse(t);
                return;
        }
        if (task_event(t, LEDGER_SANDBOX_POLICY, t->text))
                task_commit(t, policy_act);
        else
                task_refuse(t);
}

static char *policy_data(const struct frozen_request *q, const char *key) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_open(&j, key, '[');
        for (size_t i = 0; i < q->allow_count; i++)
                json_str(&j, NULL, q->allow[i]);
        json_close(&j, ']');
        json_close(&j, '}');
        return buf_ok(&b) ? TAKE_PTR(b.data) : NULL;
}

void verb_policy(struct call *c) {
        _cleanup_wishes_ struct wishes w = {0};
        bool add = call_has(c, "add");
        struct frozen *changed;
        struct err err = {0};
        const char *obstacle;
        enum state to;

        if (add == call_has(c, "allow")) {
                call_refuse_text(c, "bad_request", "'allow' is all that can be reached from now on, 'add' is what more",
                                 "'policy' needs 'allow' or 'add'");
                return;
        }
        int r = wishes_read(c->text, &w, &err);
        if (r == 0)
                r = frozen_allow(c->o, c->sandbox->frozen, w.q.allow, w.q.allow_count, !add, &changed, &err);
        if (r < 0) {
                call_refuse(c, &err);
                return;
        }
        if (call_bool(c, "check")) { /* nothing is changed */
                if (!state_move(c->sandbox->state, EVENT_POLICY, &to)) {
                        conflict_text(c->sandbox, EVENT_POLICY, &err);
                        call_refuse(c, &err);
                } else if ((obstacle = policy_obstacle(c->sandbox, changed)))
                        call_refuse_text(c, "conflict", POLICY_REMEDY, "%s", obstacle);
                else
                        verbs_policy_answer(c, changed);
                frozen_unref(changed);
                return;
        }
        frozen_unref(changed); /* it could be done; what comes of it is known in its turn */
        _cleanup_free_ char *data = policy_data(&w.q, add ? "add" : "allow");
        if (!data) {
                call_refuse_text(c, "failed", "try again", "out of memory");
                return;
        }
        struct task *t = task_new(c->sandbox, c, policy_begin);
        if (!t)
                return;
        t->text = TAKE_PTR(data);
        task_go(t);
}
