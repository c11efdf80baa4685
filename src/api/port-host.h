/* Ports by host names of their own, for browser tabs: https://{port}-{id}.<ports_domain>/. Each is an origin of its
 * own, so what a hostile page there may do, it may do to itself.
 *
 * A tab is let in by a ticket: POST /api/auth/ticket with {"path": "//{port}-{id}"}, then open
 * https://{port}-{id}.<ports_domain>/.stockade/open?ticket=…, which sets a cookie for this name alone. The cookie ends
 * with the session that asked for the ticket. */
#pragma once

#include "api/exchange.h"

#define PORT_HOST_OPEN "/.stockade/open"

/* Is the Host such a name? Then x->own_host and the params (sandbox, port) are set. */
bool port_host_is(struct exchange *x);

/* Who asks; false: it was refused, or answered with a cookie. */
bool port_host_who(struct exchange *x);

/* Is this one of our cookies, which nobody else is to see? */
bool port_host_is_cookie(const char *text, size_t size);
