/* The client and the server of bench/gate: one program, the same for every row, so that a row differs from another only
 * in what lies between the two.
 *
 *   load server DIR   answers on every address of its namespace, writes its certificate to DIR/server.pem, says "ready"
 *   load client       reads one order per line, carries it out, answers with one line: "ok NUMBERS" or "failed WHY"
 *
 * Orders of the client; VIA is where to go:
 *   stream VIA COUNT MS      so many connections at once receive as fast as they can: bytes, nanoseconds
 *   rate VIA COUNT MS        connect, send 1 byte, receive 1 byte, close, so many at a time: connections, nanoseconds
 *   latency VIA COUNT        one after the other, from connect to the first byte: p50, p95 in nanoseconds
 *   hold VIA COUNT           opens so many that stay open and idle: how many
 *   drop                     closes them
 *   names ADDRESS NAME COUNT DNS questions over UDP, one after the other: p50, p95 in nanoseconds
 *   asks ADDRESS NAME MS     DNS questions over UDP, LOAD_ASKS at a time: answers, nanoseconds
 *   VIA: plain:HOST:PORT, proxy:ADDRESS:PORT:HOST:PORT (with CONNECT), tls:HOST:PORT; HOST may be a name. */
#pragma once

#include <netinet/in.h>
#include <openssl/ssl.h>

#include "base/err.h"
#include "bench/measure.h"

#define LOAD_PORT     5000
#define LOAD_TLS_PORT 443
#define LOAD_NAME     "bench.example.test"
#define LOAD_BUFFER   (256 * 1024)
#define LOAD_ASKS     32

/* What a client wants of the server: the one byte of a plain connection, the path of a request within TLS. */
enum load_wish { LOAD_STREAM = 1, LOAD_BYTE, LOAD_HOLD };

enum load_kind { LOAD_PLAIN, LOAD_PROXY, LOAD_TLS };

struct load_via {
        enum load_kind kind;
        struct sockaddr_in to; /* the server, what stands for it, or the proxy */
        char host[160];        /* whom CONNECT or TLS names */
        char port[8];
};

enum load_state { LOAD_ASK_PROXY, LOAD_HEAR_PROXY, LOAD_HANDSHAKE, LOAD_SAY, LOAD_HEAR, LOAD_DONE, LOAD_FAILED };

struct load_conn {
        int fd;
        SSL *ssl;
        enum load_state state;
        enum load_wish wish;
        const struct load_via *via;
        uint64_t began, first; /* times: connect, first byte */
        uint64_t bytes;
        size_t heard; /* of the proxy's head */
        char head[512];
};

/* load-conn.c. load_step goes on as far as it can without waiting; in LOAD_HEAR of a stream it reads a bounded amount.
 */
int load_parse_via(char *text, struct load_via *ret, struct err *err);
int load_open(struct load_conn *c, const struct load_via *via, enum load_wish wish, struct err *err);
void load_step(struct load_conn *c);
void load_close(struct load_conn *c);

int load_client(void);               /* load-client.c */
int load_server(const char *folder); /* load-server.c */
int load_names(const char *address, const char *name, size_t count, struct summary *ret, struct err *err);
int load_asks(const char *address, const char *name, uint64_t ms, uint64_t *ret_count, uint64_t *ret_ns,
              struct err *err); /* load-names.c */
