/* What the files of the world share with each other and with nobody else. */
#pragma once

#include <stdatomic.h>

#include "verify/world.h"

/* Addresses. They are set aside for documentation, and the gate takes them as public. */
#define WORLD_NEAR      "198.51.100.1"
#define WORLD_FAR       "198.51.100.2"
#define WORLD_GOOD      "198.51.100.10"
#define WORLD_SECOND    "198.51.100.11"
#define WORLD_REDIRECT  "198.51.100.20"
#define WORLD_DNS       "198.51.100.53"
#define WORLD_EVIL      "198.51.100.66"
#define WORLD_PRIVATE   "10.0.0.1"
#define WORLD_METADATA  "169.254.169.254"
#define WORLD_NEAR6     "2001:db8:51::1"
#define WORLD_FAR6      "2001:db8:51::2"
#define WORLD_GOOD6     "2001:db8:51::10"
#define WORLD_SECOND6   "2001:db8:51::11"
#define WORLD_REDIRECT6 "2001:db8:51::20"
#define WORLD_EVIL6     "2001:db8:51::66"

/* Shared memory. The listener writes events and count, the judge only first and the numbers from before: an event is
 * never changed after it was counted, but for its bytes and times, and its place is not used again before the judge has
 * forgotten it. */
struct world_heard {
        _Atomic uint32_t first, count; /* both only grow: event i is at i % WORLD_HEARD_MAX */
        _Atomic uint32_t lost, lost_before;
        _Atomic uint32_t questions, questions_before;
        _Atomic uint32_t most;
        _Atomic uint32_t rebinds; /* how often rebind.test was asked for */
        _Atomic uint32_t times[WORLD_HEARD_MAX];
        _Atomic uint64_t bytes[WORLD_HEARD_MAX];
        struct world_event events[WORLD_HEARD_MAX];
        uint16_t tcp, udp, far_tcp, far_udp; /* ports that the kernel chose; 0: there is no such listener */
};

enum { WORLD_SIGNALS = 65 };

/* What can be seen of a process from outside, and what it counts itself. */
struct world_victim {
        _Atomic uint32_t signals[WORLD_SIGNALS];
        _Atomic bool up;
};

struct world_before {
        long nice, group, session, tracer, adjustment;
        uint64_t limits[16][2];
        char processors[128];
};

struct world_own {
        int manifest; /* locked as long as the judge lives */
        int far;      /* network namespace at the other end of the cable */
        int control;  /* to the listener */
        int shm;      /* System V shared memory; -1: none */
        bool queue, resolver, v6;
        struct world_victim *victim;
        struct world_before before;
};

static inline struct world_own *world_own(const struct world *w) {
        return w->private;
}

/* world-files.c */
void world_files_sweep(void); /* what judges of this user left that are gone */
int world_files_folder(struct world *w, struct err *err);
int world_files_plant(struct world *w, const char *probe, struct err *err);
void world_files_memory(struct world *w); /* shared memory, a queue, keys */
void world_files_resolver(struct world *w);
void world_files_remove(struct world *w);

/* world-share.c: can the launcher of this caller give it to a sandbox, to write to? */
bool world_share_can(const char *folder);

/* world-net.c: the cable, from inside the near namespace. far gets a descriptor of the other one. */
int world_net_make(int *ret_far, bool *ret_v6, struct err *err);
void world_net_settle(void);

/* world-ports.c: the sockets that are listened at. What a host does not have (IPv6) is left out. */
enum world_service { SERVICE_RAW, SERVICE_HTTP, SERVICE_TLS, SERVICE_NAMES, SERVICE_COUNT };
enum { WORLD_PORTS_MAX = 48 };
struct world_port {
        int fd;
        enum world_service service;
        bool udp, local; /* local: a unix socket */
        char name[46];   /* of a local one */
};
int world_ports_open(const struct world *w, int far, struct world_port ret[WORLD_PORTS_MAX], size_t *ret_count);

/* world-listen.c */
int world_listen_start(struct world *w, struct err *err);
bool world_listen_settle(const struct world *w); /* until what has arrived is noted; false: it does not answer */

/* world-heard.c, the listener's side. Returns the event's number, or WORLD_NO_EVENT if it was joined or is lost. */
#define WORLD_NO_EVENT UINT32_MAX
uint32_t world_heard_note(struct world_heard *h, const struct world_event *e, size_t bytes);
void world_heard_count(struct world_heard *h, uint32_t event, size_t bytes);

/* world.c: for children of the judge. */
void world_child_begin(pid_t judge, int a, int b); /* keeps none of its descriptors and streams, but for a and b */
void world_child_tie(pid_t judge);                 /* dies with it; a change of id undoes that */
void world_child_end(pid_t *pid);
int world_enter_user_namespace(struct err *err); /* with the caller's own ids */
int world_drop_capabilities(void);

/* world-serve.c: what a client said, and what it is answered. No I/O. */
size_t world_serve_head(const char *data, size_t size); /* of an HTTP request, with its empty line; 0: not complete */
size_t world_serve_body(const char *head, size_t size, bool *ret_last); /* bytes that follow; is it the last? */
size_t world_serve_http(char *ret, size_t room, const char *server, const char *attempt, const char *head, size_t size,
                        bool redirect);
/* The name in a TLS hello. -EAGAIN: not complete, -EINVAL: it is none. */
int world_serve_hello(const uint8_t *data, size_t size, char *ret, size_t room);
/* Which attempt is it? "" if it does not say. */
void world_serve_attempt(const char *nonce, const char *data, size_t size, char *ret, size_t room);
void world_serve_attempt_of_name(const char *name, char *ret, size_t room); /* NAME.good.test */
void world_serve_printable(const void *data, size_t size, char *ret, size_t room);

/* world-dns.c: the answer to a question, or 0 if it is none. name gets what was asked for, in lower case. rebinds is
 * how often rebind.test was asked for before, and counts. */
size_t world_dns_answer(const uint8_t *question, size_t size, uint8_t *ret, size_t room, char name[256],
                        unsigned *ret_type, _Atomic uint32_t *rebinds);
/* Does name end in zone, and what is left of it? NULL: no. */
const char *world_dns_zone(const char *name, size_t *ret_left);

/* world-victim.c */
int world_victim_start(struct world *w, struct err *err);
void world_victim_forget(struct world *w);
void world_victim_stop(struct world *w);
