/* /health and /readyz: what works, and what does not and why.
 *
 * Health is what everybody here knows already. Ready is whoever could take a sandbox now: that is tried
 * (operator/trial.h), and whoever asks when nobody has lately waits for the outcome. Anybody is told which part does
 * not work, by a code; what went wrong there, in words that name files and limits, is for whoever is on this host or
 * has an operator's session. */
#include "api/instance.h"
#include "api/routes.h"
#include "api/views.h"
#include "api/who.h"
#include "operator/sandbox.h"
#include "operator/trial.h"

struct ready {
        struct trial_wait wait;
        struct exchange *x;
        bool trusted; /* with words, not only a code */
};

static void check_json(struct json *j, const char *key, bool good) {
        json_open(j, key, '{');
        json_str(j, "status", good ? "ok" : "error");
        json_close(j, '}');
}

void health_answer(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        struct core *o = x->api->o;
        const struct registry *r = o->registry;
        bool store = store_health(o->store) == 0, ledger = ledger_health(o->ledger) == 0,
             runtime = !r->incomplete && !r->pressure;

        json_open(&j, NULL, '{');
        json_str(&j, "status", store && ledger && runtime ? "ok" : "degraded");
        json_open(&j, "checks", '{');
        check_json(&j, "runtime", runtime);
        check_json(&j, "store", store);
        check_json(&j, "ledger", ledger);
        json_close(&j, '}');
        json_str(&j, "mode", o->conf.mode);
        json_str(&j, "runtime_backend", o->conf.drivers.items[0]);
        json_str(&j, "runtime_error", r->pressure ? "the disk is nearly full" : NULL);
        views_ssh(o, &j, "ssh");
        json_close(&j, '}');
        reply_json(x, store && ledger && runtime ? 200 : 503, &b);
}

/* What everybody here knows at once; NULL: nothing is wrong. */
static const char *known_problem(const struct core *o, const char **ret_code) {
        static const struct {
                const char *code, *why;
        } problems[] = {{"LEDGER", "the ledger cannot be written"},
                        {"STORE", "the store cannot be written"},
                        {"DISK_FULL", "the disk of the state folder is nearly full"}};
        bool found[] = {ledger_health(o->ledger) < 0, store_health(o->store) < 0, o->registry->pressure};

        static_assert(ELEMENTSOF(found) == ELEMENTSOF(problems), "a problem without a look");
        for (size_t i = 0; i < ELEMENTSOF(found); i++)
                if (found[i]) {
                        *ret_code = problems[i].code;
                        return problems[i].why;
                }
        return NULL;
}

/* why: besides what was tried; NULL: nothing, and code is not looked at. */
static void answer(struct exchange *x, const struct trial_result *t, const char *code, const char *why, bool trusted) {
        struct buf b = {0};
        struct json j = {.out = &b};
        const char *instance = instance_problem(x->api);
        bool ready = t && t->good && !why && !instance;

        if (!why && t && !t->good) {
                code = !t->store ? "STORE" : !t->ledger ? "LEDGER" : !t->runtime ? "RUNTIME" : "GATE";
                why = t->why;
        } else if (!why) {
                code = "INSTANCE";
                why = instance;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "status", ready ? "ready" : "not_ready");
        json_str(&j, "code", ready ? NULL : code);
        json_str(&j, "why", ready ? NULL : trusted ? why : code);
        json_str(&j, "runtime_backend", x->api->o->conf.drivers.items[0]);
        json_bool(&j, "runtime", t && t->runtime);
        json_str(&j, "runtime_error", !t || t->runtime ? NULL : trusted ? t->why : "RUNTIME");
        json_bool(&j, "store", t && t->store);
        json_bool(&j, "ledger", t && t->ledger);
        json_bool(&j, "gate", t && t->gate);
        json_u64(&j, "age_ms", t ? loop_now(x->api->o->loop) - t->at : 0);
        json_close(&j, '}');
        reply_json(x, ready ? 200 : 503, &b);
}

static void tried(struct trial_wait *w, const struct trial_result *t) {
        struct ready *r = LOOP_OWNER(w, struct ready, wait);
        struct exchange *x = r->x;
        bool trusted = r->trusted;

        free(r);
        x->data = NULL;
        x->c.gone = NULL;
        answer(x, t, NULL, NULL, trusted);
        exchange_release(x);
}

static void left(struct client *c) {
        struct exchange *x = LOOP_OWNER(c, struct exchange, c);
        struct ready *r = TAKE_PTR(x->data);

        if (r)
                trial_forget(c->o, &r->wait);
        free(r);
}

void ready_answer(struct exchange *x) {
        struct core *o = x->api->o;
        const struct trial_result *t = trial_fresh(o);
        const char *code = NULL;
        bool trusted = who_is_trusted(x);

        if (x->api->draining || o->draining) {
                answer(x, NULL, "ENDING", "the operator is ending", trusted);
                return;
        }
        if (t) { /* what is known at once is not waited for */
                const char *why = known_problem(o, &code);

                answer(x, t, code, why, trusted);
                return;
        }
        struct ready *r = calloc(1, sizeof *r);
        if (r) {
                r->wait.done = tried;
                r->x = x;
                r->trusted = trusted;
        }
        if (!r || trial_ask(o, &r->wait) < 0) {
                free(r);
                answer(x, NULL, "BUSY", "nothing can be tried now", trusted);
                return;
        }
        x->data = r;
        exchange_hold(x);
        x->c.gone = left;
}
