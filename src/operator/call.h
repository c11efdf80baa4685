/* One request of a client, from the moment it was understood to its answer. It outlives the client: what was begun is
 * finished, and its answer kept if the request had a key.
 *
 * Whoever handles a call ends it exactly once: call_done after call_settle, call_answer (both in one), or call_refuse.
 */
#pragma once

#include "base/json-read.h"
#include "operator/server.h"

struct verb;
struct sandbox;
struct snapshot;
struct keyed;

struct call {
        struct core *o;
        struct client *client; /* NULL: it has gone */
        const struct verb *verb;
        const char *text; /* the request; only while the handler runs (the client owns it) */
        bool admin;
        char actor[STORE_OWNER];      /* who asks */
        char owner[STORE_OWNER];      /* for whom: the same, or whom an administrator names */
        struct sandbox *sandbox;      /* resolved by the table of verbs; NULL where the verb has none */
        struct snapshot *snapshot;    /* likewise */
        struct keyed *keyed;          /* the request has a key */
        struct call *next;            /* waits with others: for the adoption, for the answer to the same key */
        char *answer;                 /* settled */
        uint32_t begun;               /* a run that was begun for the same key before a restart; 0: none */
        void *data;                   /* the handler's */
        void (*gone)(struct call *c); /* the handler's: the client has left; may end the call (call_drop) */
};

struct call *call_new(struct client *client);
void call_drop(struct call *c); /* without an answer: the client is gone */

/* The result, a JSON value: kept in the call, and in the store if there is a key. Part of the caller's group of rows;
 * the ticket, or 0. */
uint64_t call_settle(struct call *c, struct buf *result);
void call_done(struct call *c); /* sends what was settled */
void call_answer(struct call *c, struct buf *result);

void call_refuse(struct call *c, const struct err *err); /* the code is made from err's */
void call_refuse_as(struct call *c, const char *code, const struct err *err);
void call_refuse_text(struct call *c, const char *code, const char *hint, const char *format, ...) _printf_(4, 5);
/* As err_set, but the sentence is whole: nothing is appended for an errno. Returns code. */
int call_err(struct err *err, int code, const char *format, ...) _printf_(3, 4);
const char *call_code(int error); /* "not_found" for -ENOENT, and so on */

/* Frames to the client while it is there. */
void call_event(struct call *c, struct buf *json);

/* Fields of the request: they were checked against the verb's row, so what is there has the right kind and size. */
bool call_has(const struct call *c, const char *field);
const char *call_text(const struct call *c, const char *field, char *buf, size_t size); /* "" if it is not there */
char *call_strdup(const struct call *c, const char *field);                             /* NULL: not there */
uint64_t call_number(const struct call *c, const char *field, uint64_t otherwise);
bool call_bool(const struct call *c, const char *field);

/* keyed.c: requests with a key are done once. */
enum keyed_verdict { KEYED_NEW, KEYED_WAITS, KEYED_ANSWERED, KEYED_REFUSED };
enum keyed_verdict keyed_begin(struct call *c, const char *key);           /* all but NEW: the call is taken care of */
uint64_t keyed_settle(struct keyed *k, const char *answer);                /* the ticket of its row */
void keyed_answered(struct keyed *k);                                      /* it is durable: whoever waits gets it */
void keyed_drop(struct keyed *k, const char *code, const struct err *err); /* refused: the key is free again */
/* A run that was begun for this key, for whoever asks again after a restart. */
uint64_t keyed_note_run(struct keyed *k, const char *sandbox, uint32_t run);
int keyed_load(struct core *o, const struct store_request *row);
void keyed_sweep(struct core *o);
void keyed_free(struct core *o);
