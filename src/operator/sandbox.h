/* What the operator knows of everything it keeps: sandboxes, disks, snapshots, images, owners. It is all in memory,
 * read from the store once; each thing writes its own row.
 *
 * Always holds: a sandbox in the registry has a row in the store or one on the way there; one that is in no registry (a
 * pooled one) has none. Layers are sealed disks. A disk lives while something refers to it. */
#pragma once

#include "operator/driver.h"
#include "operator/frozen.h"
#include "operator/gate-link.h"
#include "operator/guest-link.h"
#include "operator/op.h"
#include "operator/state.h"
#include "operator/table.h"
#include "wire/warden.h"

#define SANDBOX_LAYERS_MAX 48    /* below what the warden takes, so that a diff of two chains can be asked for */
#define SANDBOX_RUNS_MAX   200   /* at one time in one sandbox */
#define SANDBOXES_MAX      16384 /* rows, stopped ones included */

/* What a sandbox, an owner or the host takes. */
struct share {
        uint64_t sandboxes, memory, cpus, disk;
};

/* What an owner may have so many of, as stockade.conf says (admission.c). */
enum tally { TALLY_SNAPSHOTS, TALLY_IMAGES, TALLY_KEYS, TALLY_WATCHERS, TALLIES };

struct log_note; /* log-share.c */

struct owner {
        struct table_node node;
        char name[STORE_OWNER];
        struct share used;
        uint64_t tally[TALLIES]; /* counted by whoever keeps them */
        uint64_t number;         /* for the warden */
        uint64_t log_bytes;      /* output of runs that is kept; part of used.disk */
        uint64_t list_bytes;     /* of lists of files and processes that are being made */
        uint64_t check_debt_us;  /* verbs-web.c: what looking at wishes took and is not paid back yet, as of */
        uint64_t check_ms;
        uint64_t rests_until; /* transfer.c: before it no other file of a snapshot is looked at for it */
        struct log_note *oldest_log, *newest_log;
};

struct disk {
        struct table_node node;
        struct core *o;
        char id[STORE_ID];
        struct owner *owner;
        uint64_t size, inodes, created_ms;
        uint64_t used;    /* as its file system said last */
        uint64_t counted; /* of its owner's space: all of a writable one, what a sealed one takes */
        unsigned refs;
        bool sealed, stored;
        bool refs_unknown; /* nothing that was read at the start names it */
        unsigned tries;    /* to drop it */
        struct loop_timer timer;
};

struct image {
        struct table_node node;
        struct table_node by_name;
        char id[STORE_ID];
        struct owner *owner;
        char name[STORE_NAME];
        char about[200];
        uint64_t created_ms, bytes, entries;
        unsigned refs; /* sandboxes and snapshots over it */
        bool counted;  /* as its owner's */
        char *name_key;
};

struct layers {
        struct disk **items; /* newest first */
        size_t count;
};

struct snapshot {
        struct table_node node;
        struct table_node by_name;
        struct core *o;
        char id[STORE_ID];
        char sandbox[STORE_ID];
        struct owner *owner;
        char name[STORE_NAME];
        char profile[STORE_NAME];
        char *name_key;
        unsigned refs; /* the registry's, and of operations that use it */
        bool ready;
        bool fleeting; /* made for a fork: goes when that is there, or with us */
        struct image *image;
        struct layers layers;
        uint64_t created_ms, ledger_seq, bytes, pause_us;
        struct frozen *frozen;
};

/* The leaf that the next run will enter. */
struct spare {
        uint32_t run; /* its number; 0: none asked for */
        int fds[GUEST_FDS_MAX];
        uint8_t count;
        bool ready;
};

/* Which sandbox an answer is about that comes when the sandbox may be gone. */
struct whose {
        struct core *o;
        char sandbox[STORE_ID];
        uint32_t run;
        uint64_t due;
        bool first; /* time that it is asked */
};

/* What a run started in the background and left there. */
struct stale {
        uint32_t run;
        uint64_t due; /* wall clock: its time.run is over; UINT64_MAX: never */
};

struct secret; /* secret.c */
struct run;

struct sandbox {
        struct core *o;
        struct table_node node, by_name;
        struct sandbox *next, *previous; /* all, oldest first */
        char id[STORE_ID];
        char name[STORE_NAME];
        char profile[STORE_NAME];
        char origin[STORE_ID];
        char *name_key;
        struct owner *owner; /* NULL: in the pool */
        enum state state;
        enum reason reason;
        bool admitted; /* its share is counted */
        bool from_pool;
        bool pausing;    /* time stands still for its runs */
        bool unrecorded; /* and pressed because of the ledger, not of its disk */
        bool pressed;    /* frozen because the host's disk or the ledger is full */
        bool up;         /* the warden has it */
        bool stopping;   /* and was asked to end it */
        bool adopted;    /* from another operator, and its guest has not said which runs it knows */
        bool networked;  /* the gate has its sockets, or will */
        enum driver driver;
        char driver_why[DRIVER_WHY]; /* how it came to be this one; "": not known */
        struct image *image;
        struct disk *disk; /* NULL: memory */
        struct layers layers;
        uint64_t created_ms, started_ms, ended_ms, used_ms; /* wall clock */
        uint64_t generation, cpu_us;
        uint32_t next_run;
        struct frozen *frozen;

        struct guest_link *guest; /* NULL: no connection */
        unsigned reconnects;
        uint64_t connected; /* loop time */
        struct loop_timer reconnect;
        bool listing;                      /* the guest is being asked which runs it knows: nothing begins meanwhile */
        bool connecting;                   /* the warden was asked for a connection */
        void (*listed)(struct sandbox *s); /* the guest has said which runs it knows; for the adoption */
        struct gate_ward *ward;
        struct loop_timer network_timer; /* its sockets are asked for again */
        unsigned network_tries;
        struct secret *secrets;
        struct spare spare;
        struct loop_timer spare_timer; /* it is given back when nobody took it */
        struct ops ops;
        struct run *runs; /* that have not ended, or not for good */
        unsigned run_count;
        struct log_note *log_notes; /* whose output is kept */
        struct run *ghosts;         /* from the store, while somebody looks at them */
        struct stale *stale;        /* leaves that were not empty when their runs ended */
        unsigned stale_count;
        struct loop_timer timer; /* idle, lifetime, budget: whichever comes first */
        uint64_t budget_check;   /* loop time */
        uint64_t budget_used;    /* as of the last look */
        bool counting;           /* the warden was asked for it */
        struct flatten *flattening;
        struct loop_task bury; /* it is deleted: freed when nobody is in the middle of it */
};

struct registry {
        struct core *o;
        struct table sandboxes, names;
        struct sandbox *first, *last;
        struct table disks, snapshots, snapshot_names, images, image_names, owners, graves, keys;
        struct share used, most, most_each; /* of the host, and of each owner */
        struct frozens *frozens;
        struct pool *pool;
        struct adoption *adoption; /* NULL: done */
        struct events *events;
        bool pressure, unrecorded; /* the host's disk is nearly full; the ledger cannot be written */
        bool closing;              /* memory is freed; nothing that lasts is touched */
        bool loading;              /* the store is being read: references come and go */
        bool incomplete;           /* some row could not be understood: what seems to be nobody\'s may be its */
        uint64_t started_ms;
        uint64_t newest_ms; /* when the last one was made: no two are made at the same time */
        uint64_t next_owner;
        struct loop_timer health;
        struct trial *trial;         /* trial.h; NULL: nobody has asked */
        struct evidence *evidence;   /* verbs-ledger.c: being packed, and waiting */
        struct histories *histories; /* usage-history.h; NULL: nobody has looked yet */
        struct transfer *transfers;  /* archives and comparisons that wait or are under way */
        struct loop_task transfer_task;
        struct loop_timer transfer_timer;
        uint64_t list_bytes; /* likewise, of all owners */
};

int registry_open(struct core *o, struct err *err);
void registry_close(struct core *o);

static inline void copy_text(char *to, size_t size, const char *from) { /* cut to what fits */
        size_t n = strlen(from);

        n = MIN(n, size - 1);
        memcpy(to, from, n);
        to[n] = '\0';
}

uint64_t wall_ms(void);
void draw_id(char ret[STORE_ID]); /* 16 random hexadecimal digits */

struct owner *owner_get(struct core *o, const char *name); /* made if needed; NULL: no memory */

/* A sandbox that nobody owns and nothing knows. */
struct sandbox *sandbox_new(struct core *o, struct frozen *frozen);
/* Frees what is in memory. It must have no operations, runs or link any more. */
void sandbox_free(struct sandbox *s);
/* Gives it an owner and a place in the registry. 0, -EEXIST when the name is taken, -ENOMEM. */
int sandbox_register(struct sandbox *s, struct owner *owner, const char *name);
void sandbox_unregister(struct sandbox *s);
struct whose *whose_new(const struct sandbox *s, uint32_t run); /* freed by whoever gets the answer */
struct sandbox *sandbox_find(struct core *o, const char *id);
struct sandbox *sandbox_named(struct core *o, const char *owner, const char *name);

/* Its row, with policy and plan or without (then they stay as they are in the store). Returns the ticket. */
uint64_t sandbox_put(struct sandbox *s, bool whole);
int sandbox_load(struct core *o, const struct store_sandbox *row, struct sandbox **ret, struct err *err);

void sandbox_json(const struct sandbox *s, struct json *j, const char *key);
void sandbox_json_open(const struct sandbox *s, struct json *j, const char *key); /* the caller adds more and closes */
void sandbox_touch(struct sandbox *s);                                            /* something was done in it */

int layers_copy(struct layers *to, struct disk *top, const struct layers *from); /* top may be NULL; takes references */
void layers_clear(struct layers *l);
void layers_message(const struct layers *l, struct warden_message *m);
int layers_parse(struct core *o, const char *text, struct layers *ret); /* 0, -ENOENT, -ENOMEM */
void layers_print(const struct layers *l, char *buf, size_t size);

/* An event of the ledger. data is a JSON object, or NULL. Its number; or -errno, and then it is not recorded. */
int64_t record(struct core *o, enum ledger_kind kind, const char *sandbox, const char *actor, const char *data);
int64_t record_text(struct core *o, enum ledger_kind kind, const char *sandbox, const char *actor, const char *key,
                    const char *value); /* {"key": "value"} */

/* The same, for what must not happen unrecorded: an error, with its sentence, unless the host's owner has said that
 * recording is not required (require_recording); then *ret_seq is 0. */
int record_needed(struct core *o, enum ledger_kind kind, const char *sandbox, const char *actor, const char *data,
                  uint64_t *ret_seq, struct err *err);

/* Ids of sandboxes and snapshots that were deleted, for a day: asking again is no mistake. */
void grave_add(struct core *o, const char *id, const char *owner, uint64_t when_ms);
bool grave_has(struct core *o, const char *id, const char *owner); /* owner NULL: anybody's */
const char *grave_owner(struct core *o, const char *id);           /* NULL: not there */
void grave_sweep(struct core *o);
void grave_free(struct core *o);
