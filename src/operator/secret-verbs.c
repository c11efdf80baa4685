/* The verbs of secrets: values in, names out, and away with all of them. An answer is given when it lasts. */
#include "operator/life.h"
#include "operator/secret-vault.h"
#include "operator/verbs.h"

/* --- secret ---------------------------------------------------------------------------------------------------------
 */

static void set_refuse(struct task *t) {
        secret_free(TAKE_PTR(t->data));
        task_refuse(t);
}

/* Event and rows are durable. */
static void set_act(struct task *t) {
        struct buf nothing = {0};

        step(t->o, "secret.set");
        if (t->error < 0) {
                set_refuse(t);
                return;
        }
        secret_set(t->sandbox, TAKE_PTR(t->data));
        call_answer(TAKE_PTR(t->call), &nothing);
        task_end(t);
}

static void set_begin(struct task *t) {
        struct sandbox *s = t->sandbox;

        if (s->state == STATE_DELETED || s->state == STATE_DELETING)
                (void)task_fail(t, -ENOENT, "sandbox %s has been deleted", s->id);
        else if (secret_check(s->frozen, t->data, false, &t->err) == 0)
                (void)secret_vault_ready(t->o, &t->err);
        for (const struct secret *i = t->data; t->err.code == 0 && i; i = i->next) {
                _cleanup_buf_ struct buf b = {0};
                struct json j = {.out = &b};

                json_open(&j, NULL, '{');
                json_str(&j, "name", i->name);
                json_close(&j, '}');
                (void)task_event(t, LEDGER_SECRET_SET, b.data);
        }
        if (t->err.code < 0) {
                set_refuse(t);
                return;
        }
        store_begin(t->o->store);
        task_rows(t, secret_vault_put(s, t->data));
        store_end(t->o->store);
        task_commit(t, set_act);
}

void verb_secret(struct call *c) {
        struct secret *list = NULL;
        struct err err = {0};

        if (secret_parse(c->text, "secrets", &list, &err) < 0) {
                call_refuse(c, &err);
                return;
        }
        struct task *t = task_new(c->sandbox, c, set_begin);
        if (!t) {
                secret_free(list);
                return;
        }
        t->data = list;
        task_go(t);
}

/* --- secrets --------------------------------------------------------------------------------------------------------
 */

/* Names, and whether there is a value; never a value. */
void verb_secrets(struct call *c) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "sandbox_id", c->sandbox->id);
        secret_names_json(c->sandbox, &j, "secrets");
        json_close(&j, '}');
        call_answer(c, &b);
}

/* --- secret-wipe ----------------------------------------------------------------------------------------------------
 */

static void wiped(struct task *t) {
        struct buf nothing = {0};

        step(t->o, "secret.wiped");
        if (t->error < 0) {
                task_refuse(t);
                return;
        }
        call_answer(TAKE_PTR(t->call), &nothing);
        task_end(t);
}

/* The event is durable: from here on nobody has the values, the gate neither; and then the store. */
static void wipe_act(struct task *t) {
        step(t->o, "secret.wipe");
        if (t->error < 0) {
                task_refuse(t);
                return;
        }
        task_rows(t, secret_forget(t->sandbox));
        task_commit(t, wiped);
}

static void wipe_begin(struct task *t) {
        if (t->sandbox->state == STATE_DELETED)
                (void)task_fail(t, -ENOENT, "sandbox %s has been deleted", t->sandbox->id);
        if (t->err.code < 0 || !task_event(t, LEDGER_SECRET_WIPE, "{}"))
                task_refuse(t);
        else
                task_commit(t, wipe_act);
}

void verb_secret_wipe(struct call *c) {
        struct task *t = task_new(c->sandbox, c, wipe_begin);

        if (t)
                task_go(t);
}
