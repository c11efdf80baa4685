/* Ports of a sandbox: which are listened on, and a reverse proxy to each.
 *
 * What answers inside is hostile. It never sees our token, cookies or addresses of clients; what it says is read by the
 * strict parser of base/http.h, and only that goes on: no hop-by-hop header, no cookie, nothing that would change what
 * a browser thinks of our own pages. Redirects are passed on and never followed. */
#pragma once

#include "api/exchange.h"
#include "base/http.h"

/* port.c: the route …/port/{port}/{rest}. */
void port_begin(struct exchange *x);
extern const struct view view_port;

/* port-list.c: the route …/ports. */
void port_list_begin(struct exchange *x);
extern const struct view view_port_list;

/* port-head.c: heads, in and out. */
void port_request_head(struct exchange *x, bool chunked, bool upgrade, struct buf *ret); /* what the server is sent */
void port_answer_head(struct exchange *x, const struct http_head *h);                    /* into x->response */
void port_upgrade_head(struct exchange *x, const struct http_head *h);                   /* likewise, of a 101 */
