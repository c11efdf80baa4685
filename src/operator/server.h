/* Clients: who they are, one request each, frames both ways with back-pressure. They come by the local socket
 * (server.c) or by another door (src/api); a verb cannot tell and does not care.
 *
 * A request is looked up in the table of verbs (verbs.c), checked against its row (size, fields, who may ask), and its
 * handler called once. The handler answers at once or keeps the client and answers later. A client that goes away is
 * told to its owner by `gone`; what was acknowledged stays done. */
#pragma once

#include "operator/operator.h"
#include "wire/local.h"

struct client;

/* What a door does for its clients; the functions below say what each means. */
struct client_door {
        void (*send)(struct client *c, enum local_kind kind, const void *data, size_t size);
        bool (*has_room)(const struct client *c);
        void (*hold_input)(struct client *c, bool hold);
        void (*answer)(struct client *c, const char *result);
        void (*refuse)(struct client *c, const char *code, const char *message, const char *hint);
};

struct client {
        const struct client_door *door;
        struct core *o;
        uid_t uid;               /* of the local socket */
        bool admin;              /* root, or the operator's own user: acts for all */
        char owner[STORE_OWNER]; /* "uid:1000" */
        const char *capability;  /* the jti of the token of a machine that asks; NULL: it is no machine */
        uint64_t expires_ms;     /* of that token, since 1970 */
        bool front;              /* it came by the SSH door: owns nothing, see operator/ssh-door.h */
        uint64_t session;        /* of SSH, that it was found to belong to; 0: none */
        const char *request;     /* JSON, checked, NUL-terminated; lives as long as the client */
        size_t request_size;
        void *data; /* the handler's */
        /* Set by a handler that keeps the client; may be NULL. What comes after the request is read once `input` is
         * set: from the return of the handler on, or, if it sets it later, from client_hold_input(c, false). CONTROL is
         * JSON that was checked, with a NUL behind it. Without `gone` the client struct stays until it is answered. */
        void (*input)(struct client *c, enum local_kind kind, const uint8_t *data,
                      size_t size);              /* INPUT, FINISH, CONTROL */
        void (*writable)(struct client *c);      /* there is room again */
        void (*gone)(struct client *c);          /* it hung up before the answer; the struct is freed afterwards */
        bool (*is_over)(const struct client *c); /* the door's: what it came with is not good any more; may be NULL */
};

int server_open(struct core *o, int listener, struct err *err);
void server_drain(struct core *o);                 /* nobody new; requests that come are refused with `busy` */
void server_close(struct core *o);                 /* every client is cut, `gone` is called */
void server_take(struct core *o, int fd);          /* a connection that came by the SSH door; takes fd */
void server_cut(struct core *o, uint64_t session); /* of an SSH session that is over; `gone` is called */

/* True while more can be sent without queueing too much. Sending never fails: a client that cannot take it is gone. */
bool client_send(struct client *c, enum local_kind kind, const void *data, size_t size);
bool client_has_room(const struct client *c);
void client_hold_input(struct client *c, bool hold); /* do not read from it until released */

/* The last word; the client is not to be touched afterwards. result is a JSON value in text. */
void client_answer(struct client *c, const char *result);
void client_refuse(struct client *c, const char *code, const struct err *err);
void client_refuse_text(struct client *c, const char *code, const char *hint, const char *format, ...) _printf_(4, 5);

/* verbs.c: finds the row and calls the handler, or refuses. */
void verbs_dispatch(struct client *c);
