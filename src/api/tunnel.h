/* The local protocol over a WebSocket, for a `stockade` that is elsewhere (docs/protocol/local.md, "From afar").
 *
 * Binary messages carry the bytes of the local protocol, cut anywhere; one request per WebSocket, as on the local
 * socket. Whoever comes this way is the owner of his session and nothing more, and only the verbs in the table of
 * tunnel.c are his to ask: what is about the host itself is not. */
#pragma once

#include "api/exchange.h"

void tunnel_begin(struct exchange *x);
extern const struct view view_tunnel;
