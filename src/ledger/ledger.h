/* The ledger: what happened, as hash-chained lines in segment files, written by one thread and read by anyone.
 *
 * A line is a JSON object in one canonical form, without spaces:
 *   {"seq":7,"time":"2026-01-02T03:04:05.678901Z","sandbox":"0123456789abcdef","actor":"uid:1000","kind":"run.start",
 *    "data":{…},"prev":"<64 hex>","hash":"<64 hex>"}
 * hash is BLAKE2b-256 over the bytes of the line before `,"hash"`; prev is the hash of the line before, across
 * segments. sandbox is "" where none is meant. Nothing secret goes in: callers give names, never values.
 *
 * ledger_append never waits for a disk: the writer thread takes what has gathered, chains and writes it, calls
 * fdatasync once, and then says up to which number everything is durable (a descriptor becomes readable). A segment
 * ends at a size; a checkpoint (Merkle root over everything since the last one, signed by Ed25519 and by secp256k1) is
 * a line of its own kind, at the end of each segment, every few thousand events and a few seconds after the last event.
 * The format, and how somebody else verifies it, is in docs/ledger.md.
 *
 * Disk full or EIO: what was accepted stays in memory and is tried again until it works; ledger_health says why. Until
 * then events that have to be recorded before something is done are refused, so that it is not done; those that tell
 * what has happened already are kept as long as there is room (ledger_kind_kept). */
#pragma once

#include "base/err.h"
#include "base/hash.h"

#define LEDGER_DATA_MAX  65536 /* bytes of an event's data */
#define LEDGER_ACTOR_MAX 95
#define LEDGER_KEY_TEXT  HASH_TEXT_SIZE /* a fingerprint of the signing keys */

/* One row per kind, in ledger/kinds.c: name, whether it has to be durable before the act, whether it is kept when
 * nothing can be written. */
enum ledger_kind {
        LEDGER_SANDBOX_CREATE,
        LEDGER_SANDBOX_START,
        LEDGER_SANDBOX_STOP,
        LEDGER_SANDBOX_PAUSE,
        LEDGER_SANDBOX_UNPAUSE,
        LEDGER_SANDBOX_RESUME,
        LEDGER_SANDBOX_DELETE,
        LEDGER_SANDBOX_FAIL,
        LEDGER_SANDBOX_QUARANTINE,
        LEDGER_SANDBOX_ADOPT,
        LEDGER_SANDBOX_POLICY,
        LEDGER_SANDBOX_ORPHAN,
        LEDGER_DISK_LOST, /* with the power, in its first moments: it is blank again */
        LEDGER_RUN_START,
        LEDGER_RUN_END,
        LEDGER_RUN_SIGNAL,
        LEDGER_RUN_ATTACH,
        LEDGER_EXEC,
        LEDGER_NET_USE,
        LEDGER_NET_DENY,
        LEDGER_DNS_DENY,
        LEDGER_FILE_WRITE,
        LEDGER_FILE_READ,
        LEDGER_FILE_REMOVE,
        LEDGER_FILE_ARCHIVE,
        LEDGER_LIMIT_HIT,
        LEDGER_BUDGET_HIT,
        LEDGER_SECRET_SET,
        LEDGER_SECRET_WIPE,
        LEDGER_GRANT_GIVE,
        LEDGER_GRANT_END,
        LEDGER_AUTH_REFUSED,
        LEDGER_SESSION_BEGIN,
        LEDGER_SESSION_END,
        LEDGER_SESSION_USE, /* what somebody does who came by SSH */
        LEDGER_SNAPSHOT_MAKE,
        LEDGER_SNAPSHOT_FAIL,
        LEDGER_SNAPSHOT_FORK,
        LEDGER_SNAPSHOT_ROLLBACK,
        LEDGER_SNAPSHOT_DELETE,
        LEDGER_SNAPSHOT_EXPORT,
        LEDGER_SNAPSHOT_IMPORT,
        LEDGER_IMAGE_IMPORT,
        LEDGER_IMAGE_REMOVE,
        LEDGER_DAEMON_START,
        LEDGER_DAEMON_END,
        LEDGER_DAEMON_PART_DIED,
        LEDGER_DAEMON_PRESSURE,
        LEDGER_CHECKPOINT, /* written by the ledger alone */
        LEDGER_REPAIR,     /* the same: what was cut off at the end after a crash */
        LEDGER_KIND_COUNT,
};
const char *ledger_kind_name(enum ledger_kind k); /* "sandbox.create" */
bool ledger_kind_durable(enum ledger_kind k);     /* before the act */
bool ledger_kind_kept(enum ledger_kind k);        /* accepted also while nothing can be written */

struct ledger;

struct ledger_options {
        int dir;                    /* the folder of segments; the ledger keeps a copy of the descriptor */
        uint64_t segment_bytes;     /* 0: 64 MiB */
        uint64_t backlog_bytes;     /* accepted and not durable yet, at most; 0: 32 MiB */
        unsigned delay_ms;          /* how long other kinds may gather before a commit; 0: 20 */
        unsigned checkpoint_ms;     /* how long an event may be without a signed checkpoint behind it; 0: 5,000 */
        unsigned checkpoint_events; /* at most so many under one checkpoint; 0: 4,096 */
        unsigned slow_fsync_ms;     /* tests: added to every fdatasync */
};

/* Opens or makes a ledger, finds its end, cuts a torn end off (and records that as ledger.repair), refuses one whose
 * last segment does not verify or that has lost what was durable. Starts the writer thread. Keys are made on first use
 * and kept in the folder, 0600. A second writer is refused with -EBUSY. */
int ledger_open(struct ledger **ret, const struct ledger_options *o, struct err *err);
void ledger_close(struct ledger *l); /* commits what is there first, under a last checkpoint; gives up if it cannot */

/* Appends an event and returns its number, or -errno: -EINVAL (data is not one JSON object without blanks and control
 * characters between its parts, or sandbox or actor have odd characters), -E2BIG, -EAGAIN (the backlog is full: the
 * disk is slow), or what ledger_health says while nothing can be written. Copies everything. Durable kinds are
 * committed at once, others within delay_ms. Any thread may call it. */
int64_t ledger_append(struct ledger *l, enum ledger_kind kind, const char *sandbox, const char *actor,
                      const char *data);

/* Puts a checkpoint behind what there is, unless there is one already; returns the number to wait for, or -errno. */
int64_t ledger_checkpoint(struct ledger *l);

/* The number up to which everything is durable; ledger_fd becomes readable (an eventfd: read it) when it has grown or
 * the health has changed. */
uint64_t ledger_durable(struct ledger *l);
uint64_t ledger_counted(struct ledger *l, enum ledger_kind kind); /* accepted since it was opened */
uint64_t ledger_appended(struct ledger *l); /* the last number that was given out, durable or not */
int ledger_fd(struct ledger *l);
void ledger_hurry(struct ledger *l); /* commit now: somebody waits */

/* 0, or the -errno that the writer met last and has not got over. */
int ledger_health(struct ledger *l);

/* Where the chain stands: number and hash of the last event that is durable. Kept elsewhere, it is what `verify
 * --expect` compares with. */
void ledger_position(struct ledger *l, uint64_t *ret_seq, uint8_t ret_hash[HASH_SIZE]);

/* --- reading: of a ledger that may be being written. No thread is needed from here on. --- */

struct ledger_reader; /* many at once, each with its place */
/* From this number on (0 and 1: from the first), which need not be there yet. */
int ledger_reader_open(struct ledger_reader **ret, int dir, uint64_t from_seq, struct err *err);
void ledger_reader_close(struct ledger_reader *r);
/* The next whole, durable line without its newline: 1, 0 when there is none yet, -errno. Valid until the next call. The
 * form and the numbers are checked, hashes are not: that is ledger_verify's. */
int ledger_reader_next(struct ledger_reader *r, const char **ret_line, size_t *ret_size, struct err *err);
/* The last number that is durable, as the writer said: for a reader in another process. */
int ledger_last(int dir, uint64_t *ret_seq, struct err *err);

/* What a verifier was told by somebody else. */
struct ledger_expect {
        uint64_t seq; /* this event has to be there, 0: none */
        uint8_t hash[HASH_SIZE];
        char key[LEDGER_KEY_TEXT]; /* the fingerprint that all checkpoints have to have, "": any, but one */
};

struct ledger_verdict {
        uint64_t events, checkpoints, first_seq, last_seq;
        uint64_t unsigned_events; /* behind the last checkpoint: chained, not signed yet */
        uint64_t beyond;          /* bytes behind the last durable line; not judged */
        char last_hash[HASH_TEXT_SIZE];
        char key[LEDGER_KEY_TEXT]; /* "": no checkpoint */
        char sandbox[33];          /* of evidence: whose */
        uint64_t run;              /* of evidence: which, 0: all */
        uint64_t broken_seq;       /* the first event that does not fit; 0: none */
        char segment[64];          /* where */
        char what[160]; /* "the hash does not match the bytes", "a line is missing", "a signature is wrong" */
};
/* Every hash, every link, every signature. 0 and broken_seq 0 when all holds; ERR_CORRUPT when not, with the verdict
 * filled. expect may be NULL. */
int ledger_verify(int dir, struct ledger_verdict *ret, struct err *err);
int ledger_verify_expect(int dir, const struct ledger_expect *expect, struct ledger_verdict *ret, struct err *err);
/* One segment file alone: nothing can be said about what was before and behind it. */
int ledger_verify_segment(int file, const char *label, const struct ledger_expect *expect, struct ledger_verdict *ret,
                          struct err *err);

/* Packs what concerns one sandbox, or one run of it (run 0: all), with the hashes that tie it to signed checkpoints and
 * the public keys, as one JSON file that `stockade ledger verify FILE` can check alone. Reads the whole ledger (about a
 * million events a second) and stops with ERR_CORRUPT where it is broken: not for a loop that must not wait. Events
 * behind the last checkpoint are packed as not signed (ret->unsigned_events, ret may be NULL). ERR_INPUT when the
 * ledger has nothing of it; -EFBIG when it would be more than `most` bytes, of which so many may be written then. */
int ledger_evidence(int dir, const char *sandbox, uint64_t run, int out, uint64_t most, struct ledger_verdict *ret,
                    struct err *err);
int ledger_evidence_verify(int in, struct ledger_verdict *ret, struct err *err);
