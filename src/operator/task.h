/* One operation on one sandbox as a chain of steps that wait: for the disk, for the warden. Each step is a function
 * that names the next one.
 *
 *   t = task_new(sandbox, call, begin); task_go(t);      waits its turn behind other operations of the sandbox
 *   task_event(t, kind, data); task_rows(t, ticket);     what has to be durable
 *   task_commit(t, next);                                goes on when it is; t->error says how that went
 *   task_ask(t, &message, fds, count, next);             asks the warden; t->answer, t->fds, t->error
 *   task_finish(t) or task_refuse(t)                     answers the call, if there is one; the next operation begins
 *
 * A row is written before what it announces is done, so that whoever comes after a crash knows how to go on. */
#pragma once

#include "operator/call.h"
#include "operator/sandbox.h"

struct task {
        struct op op;
        struct core *o;
        struct sandbox *sandbox;
        struct call *call; /* NULL: nobody asked; we do it ourselves */
        char actor[STORE_OWNER];
        void (*begin)(struct task *t);
        void (*next)(struct task *t);
        void (*then)(struct task *t);  /* where start_sandbox and stop_sandbox go on */
        void (*after)(struct task *t); /* where a start goes on whose sandbox has to be stopped first */
        struct durable durable;
        bool unsure; /* a commit failed: nobody knows which rows will last */
        int error;   /* of the last step: 0, or what err says */
        struct err err;
        struct warden_message answer; /* its texts are in err */
        int fds[WARDEN_FDS_MAX];      /* what is not taken is closed at the end */
        size_t fd_count;

        /* of the single operations */
        enum reason reason;
        uint64_t generation; /* lost: of the life that ended */
        bool force, live;
        bool abandon;  /* stop: its disk goes too, so nothing need be written back */
        bool remade;   /* resume: its disk was lost, and made again */
        bool fleeting; /* snapshot: it is for a fork, and goes with it */
        struct snapshot *snapshot;
        struct disk *disk;
        struct layers layers;
        struct frozen *frozen;
        struct run *run;
        uint64_t began_us, evidence;
        int authority[GATE_CA_COUNT];
        bool authority_given;
        char *text;
        void *data;
};

struct task *task_new(struct sandbox *s, struct call *call, void (*begin)(struct task *t)); /* NULL: call was refused */
void task_go(struct task *t);

/* Records an event. False: it could not be recorded, has to be, and t->error says so. */
bool task_event(struct task *t, enum ledger_kind kind, const char *data);
void task_rows(struct task *t, uint64_t ticket);
void task_commit(struct task *t, void (*next)(struct task *t));
void task_ask(struct task *t, struct warden_message *m, const int *fds, size_t fd_count, void (*next)(struct task *t));
void task_answered(struct task *t, const struct warden_message *answer, int *fds, size_t fd_count);

void task_settle(struct task *t); /* the call's answer is the sandbox as it is now; goes with the rows */
void task_finish(struct task *t); /* says it */
void task_refuse(struct task *t); /* t->err */
void task_answer(struct task *t); /* one of the two, as t->error has it */
/* The sandbox's row as it is now and the answer that says so, in one group; then goes on. */
void task_write(struct task *t, void (*next)(struct task *t));
/* What was done to it failed: it is so now, for the reason driver_failed; its row says so, and the call is refused. */
void task_gave_up(struct task *t, enum state now);
void task_end(struct task *t); /* the call is answered already, or there is none */
int task_fail(struct task *t, int code, const char *format, ...) _printf_(3, 4); /* sets t->err; returns code */

/* Whether the event may happen now; otherwise the task is refused (with `conflict`) and gone. */
bool task_allowed(struct task *t, enum event e, enum state *ret);
void conflict_text(const struct sandbox *s, enum event e, struct err *err);

/* step.h: a test build ends itself here when the environment says so. */
#ifdef STOCKADE_TEST_BUILD
void step(struct core *o, const char *label);
#else
static inline void step(struct core *o, const char *label) {
        (void)o;
        (void)label;
}
#endif
