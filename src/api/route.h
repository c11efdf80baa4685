/* The one table of routes: what may be asked, by whom, how much, how often, and which verb answers. */
#pragma once

#include "api/exchange.h"
#include "api/rates.h"

enum route_auth {
        AUTH_NONE,    /* anybody */
        AUTH_OWNER,   /* a session, or a capability for the verb */
        AUTH_SESSION, /* a session: not for machines */
        AUTH_LOCAL,   /* whoever is on this host, or an operator's session */
};

enum {
        ROUTE_INPUT = 1 << 0,    /* the body goes to the verb as it comes */
        ROUTE_TICKET = 1 << 1,   /* a stream that a browser opens: ?ticket= instead of a header */
        ROUTE_UPGRADE = 1 << 2,  /* a WebSocket */
        ROUTE_ANY_TYPE = 1 << 3, /* of a body that is no JSON */
        ROUTE_PAGE = 1 << 4,     /* for people: what its query says is the page's business */
        ROUTE_ENDS = 1 << 5,     /* takes somebody's rights away: heard however many requests are open */
};

struct route {
        const char *method;
        const char *path; /* "/api/sandboxes/{sandbox}/exec"; "{rest}" at the end takes all that is left */
        enum route_auth auth;
        enum rate rate;
        const char *verb;         /* of the local protocol, and what a capability must name; "": it has none */
        const char *body_fields;  /* members of the body that the verb gets, with blanks between; NULL: no body */
        const char *query_fields; /* likewise of the query: name, name:n for numbers, name:o for octal ones, name:b,
                                   * name:p for paths of files */
        size_t body;              /* most bytes; 0: none */
        unsigned deadline_ms;
        const struct view *view;
        void (*begin)(struct exchange *x); /* NULL: the verb gets the fields as they are */
        unsigned flags;
        unsigned status; /* of the answer; 0: 200 */
};

const struct route *route_at(size_t i); /* NULL past the last */
size_t route_index(const struct route *r);
unsigned route_status(const struct route *r);

/* The steps of a request; false: it was refused. */
bool route_find(struct exchange *x);  /* by method and path; reads the path's parts */
bool route_rate(struct exchange *x);  /* of the address */
bool route_admit(struct exchange *x); /* rate of the owner, body, query */
void route_begin(struct exchange *x); /* the body is there, or comes: asks the verb */

/* For handlers. */
const char *route_param(const struct exchange *x, const char *name); /* of the path; NULL: it has none */
/* 1: it is there and was decoded into buf; 0: it is not; below: it cannot be decoded, or does not fit. */
int route_query(struct exchange *x, const char *name, char *buf, size_t size);
/* {"verb": …, the path's parts: the rest and the bracket are the caller's. */
void route_request(struct exchange *x, struct json *j, const char *verb);
/* Appends the members of the body, and those of the query, that the route lets through; false: it was refused. */
bool route_fields(struct exchange *x, struct json *j);
bool route_body(struct exchange *x); /* the body is a JSON object; an empty one becomes {}; false: refused */
