/* What is said between a gate and whoever runs it (the launcher of `stockade run`; later the warden): one message per
 * packet on a SOCK_SEQPACKET pair, descriptors alongside.
 *
 * A ward is one sandbox as the gate sees it: its sockets, its rules, its counters. The gate talks to hostile peers all
 * day, so its keeper reads what it says as hostile input too: gate_read checks every field of every message. */
#pragma once

#include "base/hostname.h"
#include "wire/rules.h"

#define GATE_FD          3           /* the gate's end of the pair */
#define GATE_PACKET_MAX  (96 * 1024) /* larger than a set of rules */
#define GATE_FDS_MAX     8
#define GATE_WARDS_MAX   1024
#define GATE_SECRET_MAX  4096 /* bytes of one secret's value */
#define GATE_SECRETS_MAX 32   /* per ward */
#define GATE_HOLDER_SIZE 64   /* a placeholder with its NUL */
#define GATE_NAME_SIZE   129  /* a secret's name with its NUL: a variable's name, as profiles have it */
#define GATE_TEXT_SIZE   512  /* what FAILED says, with its NUL */

/* A ward's own addresses: the source of its routes, its name server, its proxy. */
#define WARD_OWN_V4 "198.18.0.1"
#define WARD_OWN_V6 "fd53:746f:636b::1"

/* With a box: its one link, from the box's end (far) to the gate's (near). All others are behind the near one. */
#define WARD_FAR_V4    "198.18.0.2"
#define WARD_NEAR_V4   "198.18.0.3"
#define WARD_LINK_V4   31 /* bits of the link's prefix */
#define WARD_FAR_V6    "fd53:746f:636b::2"
#define WARD_NEAR_V6   "fd53:746f:636b::3"
#define WARD_LINK_V6   127
#define WARD_FAR_LINK  "fe80::2"
#define WARD_NEAR_LINK "fe80::3"

#define WARD_TCP_PORT   15001
#define WARD_DNS_PORT   15053
#define WARD_PROXY_PORT 3128
#define WARD_SUMS       4096 /* bytes at its end: what was counted, so that a new gate goes on counting */
#define WARD_MEMORY     (1536 * 1024 + WARD_SUMS) /* bytes of GATE_MEMORY */

enum gate_kind {
        /* to the gate */
        GATE_ADD = 1, /* ward, flags, limits; descriptors as in enum gate_fd, which of them: a bit set */
        GATE_RULES,   /* ward, generation, rules: replaces all; connections that they no longer allow are closed */
        GATE_SECRET,  /* ward, name, placeholder, value; an empty value wipes it */
        GATE_REMOVE,  /* ward: closes everything of it */
        GATE_FLUSH,   /* ward, token: deal with what is waiting, report what was not reported, then say FLUSHED */
        /* from the gate */
        GATE_READY,     /* confined and listening to us */
        GATE_AUTHORITY, /* ward; descriptors as in enum gate_authority: TLS can be opened for this ward */
        GATE_APPLIED,   /* ward, generation, how many connections were closed */
        GATE_EVENT,     /* ward, struct gate_event */
        GATE_FLUSHED,   /* ward, token, struct gate_totals */
        GATE_FAILED,    /* ward, text: a request could not be carried out; nothing is more open than before */
        GATE_KIND_COUNT,
};

/* Descriptors of GATE_ADD, in this order; a bit mask in the message says which are there. */
enum gate_fd {
        GATE_TCP,     /* listens; every TCP connection that does not stay inside is redirected here */
        GATE_DNS,     /* UDP */
        GATE_DNS_TCP, /* listens */
        GATE_PROXY,   /* listens; HTTP proxy and SOCKS5, told apart by the first byte */
        GATE_TAP,     /* packets that are neither TCP nor DNS and that nothing answers: for the record only */
        GATE_DENIALS, /* a file, readable inside: the last refusals as text */
        GATE_MEMORY,  /* synth.h's table: outlives a gate that dies */
        GATE_KEY, /* the authority's private part, from an earlier GATE_AUTHORITY: a restarted gate goes on with it */
        GATE_FD_COUNT,
};
static_assert(GATE_FD_COUNT <= GATE_FDS_MAX, "a packet carries them all");

enum gate_authority {
        GATE_CA_PEM,    /* the authority's certificate */
        GATE_CA_BUNDLE, /* the host's certificates and the authority's, PEM */
        GATE_CA_JAVA,   /* the authority's, as a Java key store */
        GATE_CA_KEY,    /* for GATE_KEY; not for the sandbox */
        GATE_CA_COUNT,
};

enum {
        GATE_WARD_LEARN = 1 << 0, /* names that no rule allows get an address too, so that the port they are wanted
                                     on is seen; connections to them are refused all the same */
};

struct gate_limits {
        uint64_t connections; /* at one time; UINT64_MAX: as many as there is room for */
        uint64_t lookups;     /* DNS questions a second; UINT64_MAX: the gate's own bound */
        uint64_t bandwidth;   /* bytes a second, each way; UINT64_MAX: no bound */
        uint64_t egress;      /* bytes that may be sent in all; UINT64_MAX: no bound */
};

/* Why something was refused, or that it was used. */
enum gate_reason {
        GATE_USED,         /* not a refusal: a summary of what passed, per name and port */
        GATE_NO_RULE,      /* no rule names this host, or this address */
        GATE_NO_PORT,      /* a rule names the host, but not on this port */
        GATE_BAD_NAME,     /* not a name: control bytes, too long, not canonical */
        GATE_QUERY_TYPE,   /* a DNS question other than for addresses */
        GATE_PRIVATE,      /* an address that is not public, given or resolved to */
        GATE_UNRESOLVED,   /* it does not resolve, or nobody answered in time */
        GATE_UNREACHABLE,  /* resolved, but could not be connected */
        GATE_WRONG_SERVER, /* TLS names another server than was connected to, or none */
        GATE_WRONG_HOST,   /* HTTP names another host than was connected to */
        GATE_BAD_PROTOCOL, /* not TLS where TLS belongs, malformed HTTP, SOCKS or DNS */
        GATE_NO_METHOD,    /* no rule allows this HTTP method on this host */
        GATE_NO_PATH,      /* no rule allows this path */
        GATE_CERTIFICATE,  /* the server's certificate is not valid for the name */
        GATE_NO_UDP,       /* something other than TCP or DNS */
        GATE_CONNECTIONS,  /* limits.connections */
        GATE_LOOKUPS,      /* limits.lookups */
        GATE_EGRESS,       /* budget.egress is used up */
        GATE_TIMEOUT,      /* a peer took longer than it may */
        GATE_REVOKED,      /* a connection that new rules no longer allow was closed */
        GATE_REASON_COUNT,
};

struct gate_event {
        enum gate_reason reason;
        uint64_t count;          /* how many times the same since the last report */
        uint64_t sent, received; /* GATE_USED: bytes; count: connections */
        uint16_t port;
        int32_t rule;             /* index in network.allow, or -1 */
        char host[HOSTNAME_SIZE]; /* the name, or an address as text */
        char method[32];
        char path[256];   /* without the query, which may hold secrets */
        char detail[160]; /* one clause for a person: "the TLS hello names evil.test" */
};

struct gate_totals {
        uint64_t connections, refused, lookups, lookups_refused, sent, received;
        uint64_t active; /* connections now */
};

/* One message, read. What its kind does not have is zero. Pointers are into the packet. */
struct gate_message {
        enum gate_kind kind;
        uint32_t ward; /* below GATE_WARDS_MAX; 0 in READY */
        uint32_t flags;
        uint32_t token; /* generation of RULES and APPLIED, token of FLUSH and FLUSHED */
        uint32_t fds;   /* ADD: bit set of enum gate_fd */
        uint32_t closed;
        struct gate_limits limits;
        const void *rules; /* checked with rules_check */
        size_t rules_size;
        const char *name;   /* SECRET */
        const char *holder; /* SECRET: the placeholder */
        const uint8_t *value;
        size_t value_size;
        const char *text; /* FAILED */
        struct gate_event event;
        struct gate_totals totals;
};

/* Sends one message. fds may be NULL; a kind comes with exactly the descriptors that it is said to have above: ADD with
 * one for each bit, AUTHORITY with all of enum gate_authority, the others with none. Whether it waits for room is the
 * socket's own mode. Texts are cut to what fits, and bytes in them that are not printable ASCII become '?'. Values of
 * secrets are not copied on the way. Returns 0, -EAGAIN, -EINVAL for a message that gate_read would refuse, or -errno.
 */
int gate_send(int socket, const struct gate_message *m, const int *fds, size_t fd_count);

/* Receives one message into packet (GATE_PACKET_MAX bytes). Returns 1, 0 at end of file, -EAGAIN, -EBADMSG, or -errno.
 * A refused message is wiped from packet, and descriptors that come with it are closed; -EMFILE for a GATE_AUTHORITY
 * that we had no descriptors left for. A GATE_SECRET that was accepted
 * is the caller's to wipe (explicit_bzero) once the value is where it belongs. Which kinds may come from the other end
 * is the caller's to know, too: both directions are read. */
int gate_receive(int socket, void *packet, struct gate_message *ret, int fds[GATE_FDS_MAX], size_t *ret_fd_count);

/* Reads and checks the bytes of one message: 0 or -EBADMSG, and then *ret is untouched. Needs no descriptor. */
int gate_read(const void *packet, size_t size, struct gate_message *ret);

/* gate-reason.c: what a reason is called in records and JSON ("no-rule", "wrong-server"), and a clause for a person
 * ("no rule in network.allow names this host"). */
const char *gate_reason_name(enum gate_reason r);
const char *gate_reason_text(enum gate_reason r);

/* How to allow it, or what else to do: with the words HOST, PORT, METHOD and PATH where an event's own belong; "" if
 * there is nothing to do. gate_hint puts them in, and speaks of a block of addresses when the event's host is one. It
 * writes "" rather than a hint around a host that is neither a name nor an address: people paste hints. */
const char *gate_reason_remedy(enum gate_reason r);
void gate_hint(const struct gate_event *e, char *ret, size_t size);
