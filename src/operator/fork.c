/* A fork of a sandbox: a sandbox made over a snapshot of it that goes again.
 *
 *   snapshot   row `fork`: whoever comes after a crash finds that nobody else wants it, and removes it (adopt.c)
 *   create     by the call that asked, so that its key and its answer become durable together with the new sandbox
 *   delete     of the snapshot, whether there is a new sandbox or not; what lies on its layers stays while they are
 * used
 *
 * The first and the last step have a client of their own: whoever asked may leave at any moment, and they go on. */
#include <stdio.h>

#include "base/log.h"
#include "operator/life.h"
#include "operator/secret.h"
#include "operator/snapshot.h"
#include "operator/verbs.h"

struct fork {
        struct client c;   /* of the snapshot, and of its end */
        struct call *call; /* who asked; NULL: it was answered, or will be by the new sandbox */
        char snapshot[STORE_ID];
        char name[STORE_NAME]; /* of the new sandbox; "": none */
        char owner[STORE_OWNER];
        enum driver driver;
        char driver_why[DRIVER_WHY];
};

static struct fork *of(struct client *c) {
        return LOOP_OWNER(c, struct fork, c);
}

static void create(struct fork *f, struct snapshot *p) {
        struct create_request q = {
                .snapshot = p, .image = p->image, .frozen = frozen_ref(p->frozen), .driver = f->driver};
        struct call *call = TAKE_PTR(f->call);
        struct core *o = f->c.o;
        struct err err = {0};

        copy_text(q.name, sizeof q.name, f->name);
        copy_text(q.driver_why, sizeof q.driver_why, f->driver_why);
        copy_text(q.owner, sizeof q.owner, f->owner);
        if (secret_check(q.frozen, NULL, true, &err) < 0)
                call_refuse(call, &err);
        else
                create_sandbox(o, call, &q); /* its layers have one user more from now on */
        frozen_unref(q.frozen);
}

static void door_send(struct client *c, enum local_kind kind, const void *data, size_t size) {
        (void)c;
        (void)kind;
        (void)data;
        (void)size;
}

static bool door_has_room(const struct client *c) {
        (void)c;
        return true;
}

static void door_hold_input(struct client *c, bool hold) {
        (void)c;
        (void)hold;
}

/* The snapshot is there and durable; or it is gone again. */
static void door_answer(struct client *c, const char *result) {
        struct fork *f = of(c);
        struct snapshot *p = f->call && json_find_str(result, "id", f->snapshot, sizeof f->snapshot)
                                     ? snapshot_find(c->o, f->snapshot)
                                     : NULL;

        if (!f->call) {
                free(f);
                return;
        }
        if (!p) { /* its owner was quicker */
                call_refuse_text(f->call, "not_found", "try again", "the snapshot for the fork was deleted");
                free(f);
                return;
        }
        step(c->o, "fork.snapshot");
        (void)snapshot_ref(p);
        create(f, p);
        step(c->o, "fork.create");
        struct call *end = call_new(&f->c);
        if (end && p->node.key)
                snapshot_delete(c->o, end, p);
        else {
                if (end)
                        call_drop(end);
                free(f);
        }
        snapshot_unref(p);
}

static void door_refuse(struct client *c, const char *code, const char *message, const char *hint) {
        struct fork *f = of(c);

        if (f->call)
                call_refuse_text(f->call, code, hint ? hint : "", "%s", message);
        else /* which is no matter of whoever asked for a fork: the next operator removes it */
                log_line(LOG_LEVEL_WARNING, NULL, "the snapshot %s of a fork could not be deleted: %s", f->snapshot,
                         message);
        free(f);
}

static const struct client_door door = {door_send, door_has_room, door_hold_input, door_answer, door_refuse};

void verb_fork(struct call *c) {
        struct fork *f = NULL;
        struct call *inner = NULL;

        char asked[33], why[DRIVER_WHY];
        enum driver d = c->sandbox->driver;
        struct err err = {0};

        if (verbs_is_instance(c))
                return;
        (void)call_text(c, "driver", asked, sizeof asked);
        int r = driver_choose(c->o, c->sandbox->frozen, asked[0] ? asked : driver_name(d), &d, why, &err);
        if (r == -EAGAIN) {
                driver_wait(c, verb_fork);
                return;
        }
        if (r < 0) {
                call_refuse(c, &err);
                return;
        }
        f = calloc(1, sizeof *f);
        if (f) {
                f->c = (struct client){.door = &door, .o = c->o, .uid = (uid_t)-1, .admin = c->admin, .request = "{}"};
                copy_text(f->c.owner, sizeof f->c.owner, c->actor);
                copy_text(f->owner, sizeof f->owner, c->owner);
                (void)call_text(c, "name", f->name, sizeof f->name);
                f->driver = d;
                copy_text(f->driver_why, sizeof f->driver_why, asked[0] ? why : "as the sandbox that it was made of");
                inner = call_new(&f->c);
        }
        if (!inner) {
                free(f);
                call_refuse_text(c, "failed", "try again", "out of memory");
                return;
        }
        f->call = c;
        inner->sandbox = c->sandbox;
        struct task *t = snapshot_make(c->sandbox, inner, "");
        if (!t)
                return; /* it was refused, and so was the call */
        t->fleeting = true;
        task_go(t);
}
