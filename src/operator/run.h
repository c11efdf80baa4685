/* Runs: commands inside sandboxes, from the request to what is left of them.
 *
 *   waiting   for a leaf, or for the disk
 *   asked     the guest was told to begin
 *   ending    its process has ended; what the leaf counted is being asked for
 *   ended     judged, written down, told to whoever watches; forgotten when the row is durable
 *
 * Output goes to the watching clients first and then to a file, by absolute offset; the guest keeps what it has no
 * credit for, so nothing is lost whichever of us dies. Those who come later or are slow are served from the file.
 *
 * How a run ended is judged by what we did and what its cgroup counted, and by the guest's word only after that. */
#pragma once

#include "operator/call.h"
#include "operator/sandbox.h"
#include "operator/warden-link.h"

#define RUN_COMMAND_MAX (32 * 1024)   /* bytes of its command in records */
#define RUN_LOG_KEEP    (16ULL << 20) /* bytes kept of each output */
#define RUN_LAG_MAX     (1ULL << 20)  /* a watcher that is farther behind holds the run up */
#define RUN_LOGS_MAX    100           /* of the last so many runs */
#define RUN_ROWS_MAX    1000          /* likewise */

enum run_phase { RUN_WAITING, RUN_ASKED, RUN_ENDING, RUN_ENDED };
enum run_side { RUN_OUT, RUN_ERR, RUN_SIDES }; /* a terminal has only the first */

struct run_log {
        int fd;        /* -EBADF: not open */
        uint64_t from; /* the oldest byte that is kept */
        uint64_t size; /* one past the newest: the next offset */
        bool broken;   /* could not be written: kept no longer */
        bool held;     /* the guest waits for credit */
        uint8_t *late; /* its first bytes, if they are not in the file yet: they are at the end of this turn */
        size_t late_size;
};

struct viewer;

struct run {
        struct run *next;
        struct sandbox *sandbox;
        struct op op;
        uint32_t number;
        uint64_t generation;
        uint64_t session; /* of SSH, that it was begun in; 0: none, or of an earlier operator */
        enum run_phase phase;
        bool tty, input, detach;
        bool ghost;          /* of the store, for those who watch what is over */
        bool unfinished;     /* a ghost of one that goes on: shown as far as it is */
        bool leaf;           /* it has one at the warden */
        bool killing;        /* and it is being killed */
        bool seen;           /* the guest listed it */
        bool written;        /* its end is durable */
        enum reason verdict; /* what we ended it for */
        enum reason reason;
        int status, error;
        uint64_t started_ms, ended_ms, cpu_us, memory_peak, oom_kills;
        struct run_log logs[RUN_SIDES];
        struct loop_task log_task;
        struct log_note *note; /* of what is kept of them */
        char *command;         /* a JSON array */
        char **strings;        /* argv, NULL, envp, NULL; one block; until it was sent */
        const char **argv, **envp;
        char *cwd;
        uint16_t rows, cols;
        int fds[GUEST_FDS_MAX];
        uint8_t fd_count;
        uint64_t timeout; /* milliseconds; FROZEN_UNSET: none */
        struct loop_timer timer;
        uint64_t left; /* of the timer while time stands still; 0: it was not set */
        struct viewer *viewers;
        struct call *call;          /* exec: until it has begun */
        struct call *cancels;       /* who waits for its end */
        struct durable begun, over; /* its rows */
        unsigned kill_tries;
};

/* --- run.c: beginning --- */
struct run *run_new(struct sandbox *s);
void run_free(struct run *r);
unsigned run_active(const struct sandbox *s); /* how many have not ended */
struct run *run_find(const struct sandbox *s, uint32_t number);
void run_set_deadline(struct run *r);
void run_begin(struct run *r);    /* in its turn; r->call is refused if it cannot be */
void run_feed(struct sandbox *s); /* the guest is there: whoever waits may begin */
void run_prepare_spare(struct sandbox *s);
void run_drop_spare(struct sandbox *s);
void run_clock(struct sandbox *s, bool on); /* time goes on, or stands still, for its runs */

/* --- what the guest says --- */
bool run_output(struct sandbox *s, uint32_t number, enum guest_stream stream, uint64_t offset, const uint8_t *bytes,
                size_t size);
void run_exited(struct sandbox *s, const struct guest_message *m);
void run_listed(struct sandbox *s, const struct guest_message *m); /* it knows this run */
void run_list_done(struct sandbox *s);                             /* and no other */
void run_room(struct sandbox *s, uint32_t number);

/* --- run-end.c: ending --- */
uint64_t run_due(const struct run *r); /* wall clock: its time and that of all it started is over */
void run_tell_limit(struct sandbox *s, uint32_t run, const char *key);               /* in the ledger */
void run_tell_counts(struct sandbox *s, uint32_t run, const struct warden_usage *u); /* of a leaf that is gone */
void run_leave(struct sandbox *s, uint32_t run, uint64_t due,
               bool kill);                                     /* its leaf goes if it is empty, or is noted */
void run_end_leaf(struct sandbox *s, uint32_t run, bool kill); /* of a run that is over; what lives on in it is noted */
/* Ends a leaf (kill), or removes it if nothing lives in it: answered as WARDEN_LEAF_END. 0, or -errno and no answer. */
int run_leaf_end(struct sandbox *s, uint32_t run, bool kill, warden_done *done, void *data);
void run_leaf_forget(const void *data); /* no answer with this data any more */
void run_stale_add(struct sandbox *s, uint32_t run, uint64_t due);
void run_stale_ask(struct sandbox *s);             /* is what earlier runs left still there? */
void run_stale_look(struct sandbox *s);            /* kills what has outlived its time */
uint64_t run_stale_due(const struct sandbox *s);   /* wall clock; UINT64_MAX: never */
void run_kill(struct run *r, enum reason verdict); /* everything in its leaf */
int run_signal(struct run *r, int signal, const char *actor);
void run_judge(struct run *r); /* its process has ended */
/* run-full.c: one that failed is finished when it is known whether its workspace was full. False: that cannot be asked.
 */
bool run_look_full(struct run *r);
void run_finish(struct run *r, enum reason reason);
void run_release(struct run *r);                                        /* frees it if nobody needs it any more */
void run_cut_off(struct sandbox *s, const char *hint, const char *why); /* nobody watches them any more */
void run_end_all(struct sandbox *s, enum reason reason);                /* the sandbox is gone: they are too */
void run_forget_all(struct sandbox *s); /* rows and logs, of a sandbox that is deleted */
void run_row(const struct run *r, struct store_run *row);
uint64_t run_put(struct run *r);
void run_json(const struct store_run *row, struct json *j, const char *key);
int run_adopt(struct sandbox *s, const struct store_run *row); /* one that was not over when our predecessor died */
/* One that is over, from the store; 0, -ENOENT or an error. It lives until the last viewer has left (run_release). */
int run_ghost(struct sandbox *s, uint32_t number, struct run **ret, struct err *err);
struct run *run_ghost_of(struct run *r); /* of one that goes on: what there is of it up to now; NULL: no memory */

/* --- run-log.c --- */
void run_log_write(struct run *r, enum run_side side, uint64_t offset, const uint8_t *bytes, size_t size);
ssize_t run_log_read(struct run *r, enum run_side side, uint64_t offset, void *buf, size_t size);
void run_log_flush(struct run *r); /* before somebody else looks at the files */
void run_log_close(struct run *r);
void run_log_open_old(struct run *r);                                  /* sizes and what is kept, from the files */
void run_log_shrink(struct run *r, enum run_side side, uint64_t keep); /* about so many bytes stay */
void run_log_remove(struct sandbox *s, uint32_t number);
void run_log_remove_all(struct core *o, const char *sandbox);
int run_log_each(struct core *o, void (*fn)(struct core *o, const char *sandbox)); /* every folder of logs */

/* --- log-share.c: what is kept of an owner --- */
void log_share_grow(struct run *r);  /* it has written */
void log_share_leave(struct run *r); /* it will not write any more; what is kept stays */
void log_share_drop(struct sandbox *s, uint32_t number);
void log_share_forget(struct sandbox *s);
int log_share_load(struct core *o); /* once, when sandboxes and their runs are known */

/* --- run-view.c: who watches --- */
/* The call is answered with the run when it has ended and everything was sent, or when the client says that it leaves.
 * It may speak to the run if `speaks`. */
int viewer_add(struct run *r, struct call *c, uint64_t out, uint64_t err, bool speaks);
void viewer_output(struct run *r, enum run_side side, uint64_t offset, const uint8_t *bytes, size_t size);
bool viewer_lags(const struct run *r, enum run_side side);
void viewer_pump_all(struct run *r);
void viewer_input_all(struct run *r); /* the guest has room again */
