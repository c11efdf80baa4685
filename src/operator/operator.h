/* The operator: the unprivileged process that users talk to. One loop; a ledger and a store, each with a writer thread
 * of its own; links to the warden, to each running sandbox's guest, to each owner's gate, and to clients.
 *
 * What it knows is in memory and in the store; what it may do to the host is what the warden lets it. Everything that
 * arrives over a link is hostile input: guests are inside, gates talk to the world, clients are clients.
 *
 * Started by the warden with these descriptors: */
#pragma once

#include <limits.h>

#include "base/conf.h"
#include "base/json.h"
#include "base/loop.h"
#include "ledger/ledger.h"
#include "store/store.h"
#include "wire/warden.h"

#define OPERATOR_WARDEN_FD  3 /* SOCK_SEQPACKET, wire/warden.h */
#define OPERATOR_LOCAL_FD   4 /* listening stream socket, wire/local.h */
#define OPERATOR_STATE_FD   5 /* its own folder: store.db, ledger/, logs/ */
#define OPERATOR_CONF_FD    6 /* stockade.conf open for reading, or /dev/null */
#define OPERATOR_SECRET_FD  7 /* session secrets, as warden/secret.c writes them, or /dev/null */
#define OPERATOR_LISTEN_FD  8 /* and the next: listening TCP sockets of the API */
#define OPERATOR_LISTEN_MAX 4
#define OPERATOR_SSH_FD     12 /* SOCK_SEQPACKET: connections from stockade-ssh (operator/ssh-door.h); or not there */
#define OPERATOR_TLS_FD     13 /* SOCK_SEQPACKET: certificates (wire/certificate.h); or not there */

struct warden_link;
struct server;
struct durables;
struct gates;
struct core;
struct registry; /* operator/sandbox.h: all sandboxes */

struct api;
struct ssh_door;
struct secret_vault;

/* A door besides the local socket, which is opened, shut and closed together with it. */
struct front {
        void (*open)(struct core *o);  /* what is there has been taken over: clients may come */
        void (*drain)(struct core *o); /* nobody new; requests that come are refused */
        void (*close)(struct core *o); /* every client is cut, `gone` is called */
        /* A URL that signs this owner in, once; -EOPNOTSUPP when it is not open. */
        int (*sign_in)(struct core *o, const char *owner, struct buf *ret_url, struct err *err);
        void (*print)(void); /* what can be asked, to standard output, for tests and documentation */
        void (*describe)(struct core *o, struct json *j, const char *key); /* for `health`: where it listens */
};
extern const struct front api_front; /* src/api */

struct core {
        struct loop *loop;
        struct conf conf;
        struct ledger *ledger;
        struct store *store;
        struct warden_link *warden;
        struct server *server;
        struct durables *durables;
        struct gates *gates;
        struct registry *registry;
        struct secret_vault *vault;     /* operator/secret-vault.h */
        const struct front *front;      /* NULL: none */
        const struct front *ssh_front;  /* likewise; of its functions only the first three */
        struct ssh_door *ssh;           /* its own */
        int ssh_link;                   /* OPERATOR_SSH_FD; -EBADF: none */
        struct api *api;                /* the front's */
        int tls_link;                   /* OPERATOR_TLS_FD; -EBADF: none */
        int secret;                     /* OPERATOR_SECRET_FD; -EBADF: none */
        int doors[OPERATOR_LISTEN_MAX]; /* OPERATOR_LISTEN_FD… */
        size_t door_count;
        int local;                         /* OPERATOR_LOCAL_FD, for server_open */
        int state;                         /* OPERATOR_STATE_FD */
        bool rootless;                     /* no disks, images and other ids */
        bool no_freeze;                    /* nothing can be paused here */
        uint64_t facts[WARDEN_FACT_COUNT]; /* of the host, as the warden said at the start */
        char guest[PATH_MAX];              /* stockade-guest, as the warden names it: plans with another are refused */
        bool draining;                     /* `stockade down`: nothing new begins */
        bool ended;                        /* operator_end was called */
        bool failed;                       /* the process ends because something broke */
        uid_t own_uid;
};

/* main.c: ends the process in good order: nobody new is let in, who waits is told so, what is accepted becomes durable.
 * Sandboxes go on. */
void operator_end(struct core *o);

/* life.c: asks the warden what there is, adopts it, and opens the server when that is done; all of it after it
 * returned. life_end lets go of everything in memory; it changes nothing that lasts. */
int life_start(struct core *o, struct err *err);
void life_end(struct core *o);

/* durable.c: calls back when both an event and rows are durable; who asked first is called first. An error
 * (-ENOSPC, -EIO) means that they are not and that nobody knows when they will be: the act is refused, or not
 * confirmed. (They are still tried: what was appended stays appended.) */
struct durable {
        uint64_t seq, ticket; /* wait for these; 0: not for that one; STORE_REFUSED: lost already, which is an error */
        uint64_t patience;    /* until this time of the loop errors are waited out; 0: they are told at once */
        bool lazy;            /* nobody waits for it: it may gather with others before it is committed */
        void (*done)(struct durable *d, int error);
        struct durable *next, *previous; /* NULL: not waiting */
};
int durable_open(struct core *o, struct err *err);
void durable_close(struct core *o);
void durable_wait(struct core *o, struct durable *d); /* never calls back before it returned */
void durable_cancel(struct core *o, struct durable *d);
