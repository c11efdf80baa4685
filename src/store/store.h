/* The store: what the operator knows and must not lose, in SQLite (WAL, STRICT tables, foreign keys).
 *
 * The operator keeps everything that it works with in memory. It reads the store whole at the start and then only adds
 * to it: each change is a row of a table family (one file of queries each), put into a queue; one writer thread takes
 * what has gathered, commits it in one transaction, and says so. What was acknowledged to a client was committed
 * before.
 *
 * Rows are plain structs with fixed-size texts; a row is written whole (insert or replace by its key) or removed. The
 * large parts that never change (policy, plan, command) may be left out later: NULL leaves what is stored as it is. A
 * run goes with its sandbox, and one that comes after its sandbox was removed is not kept.
 *
 * Disk full or EIO: what was put stays in memory and is tried again until it works; store_health says why. */
#pragma once

#include "base/err.h"

#define STORE_ID    17
#define STORE_OWNER 96
#define STORE_NAME  65

enum store_family {
        STORE_SANDBOX,
        STORE_RUN,
        STORE_DISK,
        STORE_SNAPSHOT,
        STORE_IMAGE,
        STORE_REQUEST, /* idempotency keys and their answers */
        /* from here on they are the API's */
        STORE_REVOKED,    /* sessions that are not good any more */
        STORE_CAPABILITY, /* tokens for machines, revoked ones too until they expire */
        STORE_SSH_KEY,    /* who may come in by SSH; the door's */
        STORE_DATA_KEY,   /* what secrets are sealed with, wrapped */
        STORE_SECRET,     /* of sandboxes, sealed */
        STORE_FAMILIES,
};

struct store_sandbox {
        char id[STORE_ID];
        char owner[STORE_OWNER];
        char name[STORE_NAME];
        char state[16];  /* as operator/state.h names it */
        char reason[24]; /* why it ended, as in section 4 */
        char profile[STORE_NAME];
        char driver[16];
        char driver_why[160]; /* in words; "": nobody knows */
        char image[STORE_ID];
        char disk[STORE_ID];                                /* the top disk; "": memory */
        char layers[64 * STORE_ID];                         /* newest first, with spaces between */
        char origin[STORE_ID];                              /* the snapshot it was forked from, or "" */
        uint64_t created_ms, started_ms, ended_ms, used_ms; /* since 1970; used: last activity */
        uint64_t generation;                                /* starts so far */
        uint64_t next_run;
        uint64_t cpu_us;    /* of earlier starts */
        const void *policy; /* the frozen policy as YAML text, and its size */
        size_t policy_size;
        const void *plan; /* compiled */
        size_t plan_size;
};

struct store_run {
        char sandbox[STORE_ID];
        uint64_t number;
        uint64_t generation;
        char state[16]; /* running, ended, lost */
        char reason[24];
        int64_t status; /* wait status */
        bool terminal;
        uint64_t timeout_ms; /* UINT64_MAX: none */
        uint64_t started_ms, ended_ms;
        uint64_t cpu_us, memory_peak, out_bytes, err_bytes;
        const void *command; /* JSON array */
        size_t command_size;
};

struct store_disk {
        char id[STORE_ID];
        char owner[STORE_OWNER];
        uint64_t size, inodes;
        bool sealed; /* a layer; never written again */
        uint64_t created_ms;
};

struct store_snapshot {
        char id[STORE_ID];
        char sandbox[STORE_ID]; /* where it was taken; it may be gone */
        char owner[STORE_OWNER];
        char name[STORE_NAME];
        char state[16]; /* making, ready */
        char image[STORE_ID];
        char layers[64 * STORE_ID];
        char profile[STORE_NAME];
        uint64_t created_ms, ledger_seq, bytes, pause_us;
        const void *policy;
        size_t policy_size;
        const void *plan;
        size_t plan_size;
};

struct store_image {
        char id[STORE_ID];
        char owner[STORE_OWNER];
        char name[STORE_NAME];
        char about[200];
        uint64_t created_ms, bytes, entries;
};

struct store_request {
        char owner[STORE_OWNER];
        char key[129];
        uint8_t body_hash[32];
        uint64_t created_ms;
        const void *answer; /* JSON; NULL while it is being worked on */
        size_t answer_size;
};

#define STORE_JTI 33

struct store_revoked {
        char jti[STORE_JTI];
        char owner[STORE_OWNER];
        uint64_t revoked_ms, expires_ms; /* after it expired the row is of no use */
};

struct store_capability {
        char jti[STORE_JTI];
        char owner[STORE_OWNER];
        char about[STORE_NAME]; /* its owner's words */
        uint64_t created_ms, expires_ms, used_ms;
        bool revoked;
        const void *grant; /* JSON: {"verbs": […], "resources": […]} */
        size_t grant_size;
};

/* A public key is kept by its fingerprint: nobody can make another key with the same one. What its owner let in stays
 * the owner's, whoever lets it in again. Removing one with a capability removes it only if it is that capability's. */
struct store_ssh_key {
        char sandbox[STORE_ID];
        char fingerprint[STORE_NAME]; /* SHA256:… as ssh-keygen prints it */
        char username[33];            /* its owner's word for whoever has it */
        char type[40];                /* ssh-ed25519 */
        char comment[STORE_NAME];
        uint64_t created_ms;
        char capability[STORE_JTI]; /* that let it in, and with which it goes; "": its owner did */
        uint64_t expires_ms;        /* of that; 0: never */
};

/* A key that values at rest are sealed with, itself wrapped by one that is not in the store. */
struct store_data_key {
        char id[STORE_ID];
        uint64_t created_ms;
        const void *wrapped;
        size_t wrapped_size;
};

/* It goes with its sandbox, and one that comes after it is not kept. Removing the name "" removes all of a sandbox.
 * What was removed is overwritten in the file, and the log is emptied, before that counts as committed. */
struct store_secret {
        char sandbox[STORE_ID];
        char name[129];
        uint64_t set_ms;
        const void *sealed;
        size_t sealed_size;
};

struct store;

#define STORE_REFUSED UINT64_MAX /* instead of a ticket: it was not taken, and will never be committed */

/* Opens or makes the database file (path: .../store.db), 0600; checks it (PRAGMA quick_check); migrates it step by
 * step, with a copy kept as PATH.before-N; keeps a copy PATH.bak that is at most a day older than the last start.
 * (Copies have no secrets: what is wiped here is nowhere.) A database of a newer build is refused; a damaged one is
 * ERR_CORRUPT with the next step in the hint. Starts the writer thread. All files are open afterwards: the caller may
 * confine itself. */
int store_open(struct store **ret, const char *path, struct err *err);
void store_close(struct store *s); /* commits what is there first; gives up if it cannot */

/* Everything of a family, oldest first: fn gets a pointer to the family's struct, valid during the call; what it
 * returns below 0 ends the loading. Sees what is committed. This and store_runs are for one thread. */
int store_load(struct store *s, enum store_family f, int (*fn)(void *data, const void *row), void *data,
               struct err *err);

/* Puts a row, or removes the one with its key. Copies everything; returns a ticket (from 1, growing), or
 * STORE_REFUSED when it was not taken: more than 64 MiB are waiting for a disk that does not work, or there is no
 * memory. (That is above all tickets: the MAX of several says that one is missing.) Any thread may call it.
 * Rows are committed within 20 ms, or at once after store_hurry. */
uint64_t store_put(struct store *s, enum store_family f, const void *row);
uint64_t store_remove(struct store *s, enum store_family f, const void *row); /* only the key is looked at */

/* What is put or removed between the two is committed in one transaction: all of it or, if we are killed first, none. A
 * few rows each, never one group inside another; such rows are taken even when much is waiting already. */
void store_begin(struct store *s);
void store_end(struct store *s);

/* The ticket up to which everything is committed; store_fd (an eventfd: read it) becomes readable when it has grown or
 * the health has changed. */
uint64_t store_committed(struct store *s);
int store_fd(struct store *s);
void store_hurry(struct store *s); /* commit now: somebody waits */

/* 0, or -errno or ERR_CORRUPT: nothing can be written now; it is tried again. */
int store_health(struct store *s);

/* Runs of one sandbox from the store, newest first, at most max; before: only those with a lower number, 0: all. */
int store_runs(struct store *s, const char *sandbox, uint64_t before, unsigned max,
               int (*fn)(void *data, const void *row), void *data, struct err *err);
