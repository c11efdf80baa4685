/* The judge's own host: namespaces of its own, and in them everything that must not be reached from inside: canaries,
 * listeners, a name server that counts, a sibling's things, a victim process, keys and shared memory.
 *
 * As root: mount, network, ipc and uts namespaces. Without: the same below a user namespace that maps the caller's own
 * ids to themselves, left without capabilities before anything is started in it, so that the launcher is an ordinary
 * user there. For sandboxes that the judge starts, these are the host. Nothing that is planted outlives the judge, even
 * if it is killed: files are in or listed in one folder that the next judge of this user clears away, processes die
 * with their parent.
 *
 * No packet ever leaves: the only interfaces are lo and a cable between two namespaces made here. */
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include "base/err.h"

enum {
        WORLD_FACTS_MAX = 96,
        WORLD_HEARD_MAX = 2048,
        WORLD_TOKEN = 48,
};

#define WORLD_UNSHAREABLE "no folder here can be shared as writable: the file systems cannot show files under other ids"

/* Places that a sandbox may open for writing. */
#define WORLD_WRITABLE                                                                                                 \
        "/tmp,/dev/shm,/home/agent,/dev/pts,/dev/null,/dev/zero,/dev/full,/dev/random,/dev/urandom,/dev/tty,/mnt/"     \
        "share"

/* Secrets that must never appear in anything that comes out of a sandbox. */
enum canary {
        CANARY_ROOT,    /* a file in root's home (or in the caller's, 0600, where the judge is not root) */
        CANARY_HOME,    /* a readable file in /home (or the caller's home) */
        CANARY_TMP,     /* a readable file in /tmp */
        CANARY_ENV,     /* a variable of the launcher's environment */
        CANARY_SIBLING, /* a file of another sandbox */
        CANARY_KEY,     /* in the caller's keyring */
        CANARY_SHM,     /* in System V and POSIX shared memory */
        CANARY_SECRET,  /* a secret that the policy gives to the gate only */
        CANARY_COUNT,
};

/* Something that arrived: a connection, a request on one, a datagram, a question. */
struct world_event {
        bool udp, dns;
        char kind[8];     /* tcp, udp, unix, http, tls, dns; lost: the listener does not answer */
        char address[46]; /* that was reached; of a unix socket the name of its file, or @name */
        uint16_t port;
        char from[64];    /* who came, without a port */
        char attempt[48]; /* that the client named; "" if none */
        char begin[512];  /* the beginning of what it said, printable; of a question or a TLS hello its name */
        unsigned type;    /* of a question: 1 is A, 28 AAAA */
        uint64_t bytes;   /* received, on this connection from this request on */
        unsigned times;   /* equal ones are joined when the table fills up */
};

struct world {
        char nonce[32];   /* in the name of everything that is planted */
        char folder[256]; /* of the judge, 0700, where what is in it can be shared if there is such a place */
        char share[256];  /* writable, to be shared with --rw */
        bool shareable;   /* can it be? Else attempts that need it were not tried: WORLD_UNSHAREABLE */
        char setid[256];  /* a set-user-ID copy of the probe, in a folder that nobody else can enter */
        char tokens[CANARY_COUNT][WORLD_TOKEN];
        char paths[CANARY_COUNT][256];    /* of canaries that are files */
        unsigned long host_pidns;         /* inode of the judge's pid namespace */
        pid_t victim;                     /* a process that must not notice anything */
        pid_t sibling;                    /* a process in a sibling sandbox, as the host numbers it; 0: none */
        pid_t listener;                   /* answers sockets and counts, in a process of its own */
        struct world_heard *heard;        /* shared memory that the listener writes */
        char facts[WORLD_FACTS_MAX][320]; /* key=value for the probe */
        size_t fact_count;
        struct { /* ports that answer */
                uint16_t tcp, udp, far_tcp, far_udp, http, tls;
        } ports;
        void *private; /* world.c's own */
};

/* Makes all of it. What cannot be made here is left out with a fact less; probes then say "not tried". */
int world_make(struct world *w, const char *probe, struct err *err);
/* To a file that is not there yet. owner and group -1: the caller's. 0 or -errno. */
int world_copy_file(const char *source, const char *target, uid_t owner, mode_t mode);
void world_remove(struct world *w);
/* A folder of the caller's with everything in it, by descriptor: no link in it is followed. */
void world_remove_tree(const char *path);
/* What judges of this user planted that are no more. */
void world_files_sweep(void);
/* The manifest of a judge's folder, which a sweep never sees without its lock: a descriptor that holds it. */
int world_files_manifest(const char *folder, struct err *err);

/* Facts for the probe are words "key=value". share: the path inside of the shared folder, NULL if it is not shared. */
size_t world_words(const struct world *w, const char *words[], size_t max);
void world_fact(struct world *w, const char *key, const char *format, ...) _printf_(3, 4); /* sets or replaces */

/* What arrived at a listener or at the name server since the last world_forget, from this attempt; "" if nothing. Every
 * client says its attempt's name; what says none is reported for every network attempt. */
void world_forget(struct world *w);
bool world_heard(const struct world *w, const char *attempt, char *ret, size_t size);
unsigned world_questions(const struct world *w, const char *name_contains); /* at the name server; "": all */
/* All of it, of whatever attempt, in the order of arrival. What did not fit into the table is counted as lost. */
size_t world_events(const struct world *w, struct world_event *ret, size_t max);
unsigned world_lost(const struct world *w);
unsigned world_most(const struct world *w); /* connections that were open at once at the good server's port 80 */

/* Has the victim noticed anything since world_forget (signals, priority, limits, tracer)? What, in words. */
bool world_victim_changed(const struct world *w, char *ret, size_t size);

/* The first canary whose secret is in these bytes, or -1. Looks for it plain, reversed, base64 and hex. */
int world_leaked(const struct world *w, const void *data, size_t size);
