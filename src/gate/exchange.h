/* HTTP conversations under rules, without I/O: bytes of the client go in, bytes for the server come out, and the other
 * way round. Whoever moves the bytes (flow.c) owns sockets, TLS and time; this owns what may pass.
 *
 * Nothing of a request goes out before its whole head was read and allowed. Host and absolute form are compared with
 * the connection's name on every request. Heads are written anew in both directions. Placeholders of secrets are
 * replaced in header values (also inside Basic credentials) for the hosts whose rules name the secret; a placeholder
 * anywhere else stays what it is, a word without value. On every connection to a host that some rule names a secret for
 * the client's Accept-Encoding becomes identity, Sec-WebSocket-Extensions and Range go, and every byte that comes back
 * is searched for the values of those secrets, for all that were put into this connection, and for the Basic
 * credentials made of them, in the forms that forms.h names: what is found is overwritten with '*', so lengths stay. An
 * answer that is encoded all the same is refused.
 * Requests on one connection are answered in order; while an answer is outstanding the next request waits. */
#pragma once

#include "base/http.h"
#include "gate/decide.h"
#include "gate/secret.h"

enum exchange_result {
        EXCHANGE_MORE,   /* consumed what it could; give more when there is */
        EXCHANGE_WAIT,   /* requests: nothing more until the answer to the last one is complete */
        EXCHANGE_DENIED, /* send the view's reply to the client (after what was made), then close both; its denial says
                            why. reply_size 0: an answer has begun, so nothing can be said: only close */
        EXCHANGE_RETARGET, /* explicit proxy: the next request goes to x->target; connect there, then call again */
        EXCHANGE_RAW,      /* upgraded: from now on exchange_raw */
        EXCHANGE_END,      /* the conversation is complete: flush and close */
};

struct exchange_setup {
        const struct rules *rules;
        const struct secrets *secrets; /* NULL: none */
        const char *name;              /* the host that the connection is to; NULL: a literal address */
        struct address address;
        uint16_t port;
        bool tls;     /* it came through TLS that we opened: secrets may be put in */
        bool near;    /* the address that was dialled is not public. Without TLS secrets are put in only if it is near
                         and a rule says private: true */
        bool proxy;   /* explicit proxy: requests are in absolute form and go out in origin form */
        bool inspect; /* methods and paths are judged; otherwise only the host */
};

struct exchange; /* from a pool; see exchange_take */

struct exchange_view { /* what flow.c reads of one */
        struct gate_event denial;
        const char *reply;
        size_t reply_size;
        struct http_target target; /* RETARGET */
};

/* At most EXCHANGE_MAX at a time, memory mapped at first use and reused; NULL: none is free. */
#define EXCHANGE_MAX 4096
struct exchange *exchange_take(const struct exchange_setup *s);
void exchange_give(struct exchange *x); /* wipes it */
const struct exchange_view *exchange_view(const struct exchange *x);
void exchange_retarget(struct exchange *x, const struct exchange_setup *s); /* after RETARGET, connected elsewhere */
/* After new rules or secrets were set (exchange_retarget): false if what is in progress, a request being sent, an
 * answer being received or an upgraded connection, would not be allowed by them, or not with the secrets that went into
 * it. True if nothing is in progress: the next request is judged anyway. */
bool exchange_review(struct exchange *x);

/* Feeds bytes from one side; output goes to out (room bytes; at least EXCHANGE_ROOM), which is not in. *used is how
 * many input bytes were consumed, *made how many were written. Bytes that were not consumed must be offered again,
 * together with more: a head is read when it is there as a whole, so the caller keeps up to HTTP_HEAD_MAX bytes. An
 * answer that is complete returns MORE (or END); requests that waited may then be offered. */
#define EXCHANGE_ROOM (HTTP_HEAD_MAX + 64 * 1024)
enum exchange_result exchange_request(struct exchange *x, const uint8_t *in, size_t size, size_t *used, uint8_t *out,
                                      size_t room, size_t *made);
enum exchange_result exchange_response(struct exchange *x, const uint8_t *in, size_t size, size_t *used, uint8_t *out,
                                       size_t room, size_t *made);
/* The server closed: END if that is where the answer ends, DENIED (502) if it was cut. Held-back bytes come out. */
enum exchange_result exchange_response_eof(struct exchange *x, uint8_t *out, size_t room, size_t *made);
/* After RAW: both ways, at most EXCHANGE_PIECE bytes at a time; out has room for size + EXCHANGE_HELD. from_server
 * bytes are still searched for values, and the last few are held back until a WebSocket message is complete. False:
 * what the server sends cannot be searched; made is what may still pass, then close both: the view's denial says why.
 */
#define EXCHANGE_PIECE (64 * 1024)
#define EXCHANGE_HELD  (16 * 1024)
bool exchange_raw(struct exchange *x, bool from_server, const uint8_t *in, size_t size, uint8_t *out, size_t *made);
/* Bytes that may be told to a client in plain HTTP when a connection is refused before any exchange: a 403 (or what
 * fits the reason better) with JSON (layer, rule, reason, host, port, method, path, hint), Connection: close. Returns
 * its size, 0 if it does not fit; EXCHANGE_REFUSAL bytes are enough. */
#define EXCHANGE_REFUSAL 6144
size_t exchange_refusal(const struct gate_event *e, char *ret, size_t room);
