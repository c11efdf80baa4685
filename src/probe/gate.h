/* What the attempts against the gate share: many small conversations at once, names, questions, TLS hellos.
 *
 * Everything that must not arrive carries the attempt's name as "attempt=NAME", and is told apart by it at the judge's
 * servers. The same thing done to a server that is allowed says "attempt=NAME-control": it shows that the attempt is
 * made in a way that works. Nothing is sent to an address or a name that the judge did not give, but for the sandbox's
 * own loopback and its proxy. */
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "probe/probe.h"

enum { SHOTS_MAX = 320, SHOT_REPLY = 1024, GATE_NAME_MAX = 256 };

/* One connection: what is said on it, and what comes back. */
struct shot {
        struct sockaddr_storage to;
        socklen_t to_size;
        const uint8_t *data;
        size_t size, sent;
        size_t piece; /* bytes at a time, each in a packet of its own; 0: all at once */
        char reply[SHOT_REPLY + 1];
        size_t got;
        int fd, error;
        bool control; /* answers to it say nothing about the attempt */
        bool over;
};

/* "attempt=NAME" and "attempt=NAME-control". */
const char *gate_mark(void);
const char *gate_control(void);

/* Facts with a default that is never reached, so that a missing one is refused like a wrong one. */
const char *gate_good(void);
const char *gate_evil(void);
const char *gate_good_address(void); /* that the allowed name has here; "" if none */
uint64_t gate_now(void);             /* a clock in milliseconds */
bool gate_outside(void);             /* the judge made this a control: there is no gate and no proxy here */

/* Adds a conversation. The text or bytes are copied. Returns it, or NULL if the address is none or there is no room. */
struct shot *shot_text(const char *address, unsigned port, const char *format, ...) _printf_(3, 4);
struct shot *shot_bytes(const char *address, unsigned port, const void *bytes, size_t size);
/* The same to the sandbox's explicit proxy; NULL if there is none. */
struct shot *shot_proxy(const void *bytes, size_t size);
struct shot *shot_proxy_text(const char *format, ...) _printf_(1, 2);
/* A plain request for this host, with the attempt's mark or the control's. */
#define GATE_GET "GET /?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" /* mark, host */
struct shot *shot_get(const char *address, unsigned port, const char *host, bool control);
/* The control that most attempts have: a plain request to the allowed name. */
void shot_good(void);

/* All of them at once, until each has an answer and is silent, or ms are over. Sets the result: done if any that is not
 * a control was answered by one of the judge's servers, else refused with the last error. Forgets them. */
void shots_fire(struct result *r, unsigned ms);
/* The same, and prints every answer as it is instead. */
void shots_print(unsigned ms);

/* A question as bytes; returns its size. name may hold anything; labels are what stands between dots. */
size_t gate_question(uint8_t *buf, size_t size, const char *name, unsigned type);
/* The address that the name server of this place gives a name, as text; "" if none. */
void gate_lookup(const char *name, int family, char *ret, size_t size);
/* Sends a datagram and waits ms for an answer. Returns its size or -errno. */
ssize_t gate_datagram(const char *address, unsigned port, const void *bytes, size_t size, void *answer, size_t room,
                      unsigned ms);
/* A TLS hello with these server names (NULL at the end; may be empty), and the mark where nobody looks. */
size_t gate_hello(uint8_t *buf, size_t size, const char *const *names, const char *mark);
/* The same bytes cut into TLS records of at most this many bytes of handshake. */
size_t gate_records(uint8_t *buf, size_t size, const uint8_t *handshake, size_t length, size_t record);
/* SOCKS5, greeting and request in one; type 1, 3 or 4. */
size_t gate_socks(uint8_t *buf, size_t size, unsigned type, const void *host, size_t length, unsigned port);
