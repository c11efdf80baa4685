/* Heads as they go on: written anew from what was understood, so that both ends see the message that we saw. */
#pragma once

#include "gate/fill.h"

/* A request for the server. f is the request's; its secrets are put in. */
void exchange_head_request(struct fill *f, const struct http_head *h, struct fill_out *o);

struct exchange_asked { /* what an answer is to */
        char method[HTTP_METHOD_MAX + 1];
        unsigned minor;
        bool upgrade;
};
/* An answer for the client; bytes are those that h was read from; close: we will close after it. Every line is searched
 * for values. */
void exchange_head_response(const char *bytes, const struct http_head *h, const struct exchange_asked *asked,
                            bool close, const struct redact *r, struct fill_out *o);
