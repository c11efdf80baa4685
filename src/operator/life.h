/* The life of sandboxes: parts of operations that several of them share. */
#pragma once

#include "operator/task.h"

/* start.c. The disk is there (start_disk makes it). Goes on with then: t->error says how it went, and a failure leaves
 * nothing running. The sandbox may be in nobody's registry yet. */
void start_disk(struct task *t, void (*then)(struct task *t)); /* of s->disk; at once if there is none */
void start_sandbox(struct task *t, void (*then)(struct task *t));
/* Kills everything in it; runs end with t->reason. Goes on with then. */
void stop_sandbox(struct task *t, void (*then)(struct task *t));
int start_ward(struct sandbox *s, struct task *t, struct err *err); /* the gate is told; with trust, t waits for it */
void start_ward_close(struct sandbox *s);

/* life.c: operations that a verb, the reaper or the adoption begins. */
struct task *life_stop(struct sandbox *s, struct call *call, enum reason reason);
struct task *life_resume(struct sandbox *s, struct call *call);
struct task *life_pause(struct sandbox *s, struct call *call);
struct task *life_unpause(struct sandbox *s, struct call *call);
struct task *life_delete(struct sandbox *s, struct call *call, bool force);
void life_died(struct sandbox *s, const struct warden_message *m); /* WARDEN_GONE */
void life_lost(struct sandbox *s, enum reason reason);             /* it is not there any more; nobody stopped it */
void life_bury(struct sandbox *s);                                 /* deleted: out of memory as soon as it is idle */
/* hold.c */
void life_hold(struct core *o); /* freezes or thaws what pressure or the ledger ask for */
void life_pressure(struct core *o, bool low);
void life_watch_health(struct core *o);
bool life_refuses(struct core *o, bool writes, struct err *err); /* nothing new may begin now */
bool life_few_descriptors(const struct core *o);                 /* none are left for one more sandbox */
bool life_disk_was_new(const struct sandbox *s); /* when anything was last heard of it: power may have taken it */
bool life_held(const struct sandbox *s, struct err *err); /* it stands still, by life_hold, and why */

/* create.c */
struct create_request {
        struct frozen *frozen;
        char name[STORE_NAME];
        char owner[STORE_OWNER];
        struct snapshot *snapshot; /* a fork */
        struct image *image;
        enum driver driver;
        char driver_why[DRIVER_WHY];
        struct secret *secrets; /* taken */
};
void create_sandbox(struct core *o, struct call *call, struct create_request *q); /* q's parts stay the caller's */
void create_undo(struct task *t); /* what was begun and not acknowledged goes; the call gets t->err */
int create_network(struct sandbox *s,
                   struct err *err); /* of one that runs: its sockets are asked for and go to the gate */

/* guest.c: the connection to the guest. */
void guest_connect(struct sandbox *s, int fd); /* takes fd */
void guest_reconnect(struct sandbox *s);       /* asks the warden for a connection, now */
void guest_close(struct sandbox *s);

/* snapshot.c, quarantine.c, flatten.c */
struct task *snapshot_make(struct sandbox *s, struct call *call, const char *name);
struct task *snapshot_rollback(struct sandbox *s, struct call *call, struct snapshot *to);
void rollback_again(struct sandbox *s); /* after a restart: one that was stopped for it */
struct task *quarantine_begin(struct sandbox *s, struct call *call, const char *why);
void quarantine_again(struct sandbox *s, struct snapshot *unfinished); /* after a restart */
void flatten_look(struct sandbox *s);                                  /* begins if its chain is long */
void flatten_drop(struct sandbox *s);
void flatten_apply(struct task *t); /* before a start: takes a chain that is ready; the caller puts the row */
