/* Secrets in requests: which may go to a host, and putting them where their placeholders stand.
 *
 * A value goes out only if a rule that permits this very request names the secret, and only inside TLS that we opened
 * or to an address that is not public by a rule that says private. Everything that goes out is first told to the
 * searcher of answers; what cannot be searched for is not sent. */
#pragma once

#include "gate/exchange.h"
#include "gate/redact.h"

/* Bytes being written; full: they did not fit, and nothing of them counts. */
struct fill_out {
        uint8_t *bytes;
        size_t room, size;
        bool full;
};
void fill_add(struct fill_out *o, const void *bytes, size_t size);
void fill_text(struct fill_out *o, const char *text);

/* One request under a setup. */
struct fill {
        const struct exchange_setup *setup;
        const char *method;
        struct http_span path; /* without query */
        struct redact *redact;
        bool refused;  /* there is more than can be searched for */
        uint32_t used; /* secrets that were put in: a bit for each position */
};
static_assert(GATE_SECRETS_MAX <= 32, "a bit for each");

/* Makes answers be searched for the values of all secrets that some rule would send to this host, whether or not this
 * request carries one: a server may show on one page what it was told on another. False: no room. */
bool fill_watch(const struct exchange_setup *s, struct redact *r);
/* May the request of f carry this secret? */
bool fill_permitted(const struct fill *f, size_t which);
/* A header's value with its placeholders replaced. In headers of WebSocket's own they stay: a server answers its key
 * with a sum of it, which tells whether a guess was right. */
void fill_value(struct fill *f, const struct http_header *header, struct fill_out *o);
