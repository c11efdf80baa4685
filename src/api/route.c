/* From a request line to a row of the table, and from there to a verb's request. Paths are split first and decoded
 * afterwards, part by part, so that nothing that was encoded can become a separator. */
#include "api/route.h"

#include <stdio.h>
#include <strings.h>

#include "api/breaker.h"
#include "api/instance.h"
#include "api/percent.h"
#include "api/who.h"
#include "base/json-read.h"
#include "base/text.h"

/* --- which ----------------------------------------------------------------------------------------------------------
 */

/* One part of a path; false: there is none any more. */
static bool next_part(const char **at, const char **part, size_t *size) {
        if (**at != '/')
                return false;
        *part = *at + 1;
        *size = strcspn(*part, "/");
        *at = *part + *size;
        return true;
}

/* A part that goes into a name or a number. */
static bool take_param(const char *part, size_t size, char ret[EXCHANGE_PARAM]) {
        return percent_decode(part, size, ret, EXCHANGE_PARAM) && ret[0] && !strchr(ret, '/') && !strchr(ret, '\\') &&
               !str_eq(ret, ".") && !str_eq(ret, "..");
}

/* The tail is passed on as it is: no part of it may be "." or "..", however written, and nothing in it unprintable. */
static bool check_rest(const char *rest) {
        char plain[EXCHANGE_PARAM * 8];
        const char *at = rest, *part;
        size_t size;

        while (next_part(&at, &part, &size))
                if (!percent_decode(part, size, plain, sizeof plain) || str_eq(plain, ".") || str_eq(plain, "..") ||
                    strpbrk(plain, "/\\"))
                        return false;
        return true;
}

/* 1: it is this one; 0: it is not; below: it would be, but a part of the path is malformed. */
static int match(struct exchange *x, const struct route *r) {
        const char *want = r->path, *have = x->url, *w, *h;
        size_t want_size, have_size;
        unsigned params = 0;

        if (str_eq(want, "/")) /* its one part is empty */
                return str_eq(have, "/");
        while (next_part(&want, &w, &want_size)) {
                if (want_size == 6 && memcmp(w, "{rest}", 6) == 0) {
                        x->rest = have;
                        return check_rest(have) ? 1 : -EINVAL;
                }
                if (!next_part(&have, &h, &have_size))
                        return 0;
                if (w[0] == '{') {
                        if (have_size == 0)
                                return 0;
                        if (!take_param(h, have_size, x->params[params++]))
                                return -EINVAL;
                } else if (have_size != want_size || memcmp(w, h, want_size) != 0)
                        return 0;
        }
        return *have == '\0';
}

/* Of a port's own host name, everything is the server's. */
static int match_host(struct exchange *x) {
        x->rest = x->url;
        return check_rest(x->rest) ? 1 : -EINVAL;
}

static void wrong_method(struct exchange *x, const char *allow) {
        if (str_eq(x->method, "OPTIONS")) { /* what a browser asks first; it learns only what the headers say */
                reply_empty(x, 204);
                reply_header(x, "Allow", allow);
                return;
        }
        x->close = x->has_body;
        reply_error(x, "bad_method", NULL, "this can be asked with %s", allow);
        reply_header(x, "Allow", allow);
}

/* The head of what GET answers; libmicrohttpd leaves the rest out. Not of what is streamed. */
static bool is_head(const struct exchange *x, const struct route *r) {
        return str_eq(x->method, "HEAD") && str_eq(r->method, "GET") && !(r->flags & (ROUTE_TICKET | ROUTE_UPGRADE));
}

bool route_find(struct exchange *x) {
        char allow[64] = "";
        const struct route *r;
        int found = 0;

        if (x->url[0] != '/' || strpbrk(x->url, "\\")) {
                x->close = x->has_body;
                reply_error(x, "bad_request", "a path begins with '/'", "this is not a path");
                return false;
        }
        instance_path(x);
        for (size_t i = 0; (r = route_at(i)); i++) {
                if (!r->method[0] != x->own_host)
                        continue;
                int m = x->own_host ? match_host(x) : match(x, r);

                found = m < 0 ? m : found;
                if (m <= 0)
                        continue;
                if (x->own_host || str_eq(r->method, "ANY") || str_eq(x->method, r->method) || is_head(x, r)) {
                        x->route = r;
                        return true;
                }
                (void)snprintf(allow + strlen(allow), sizeof allow - strlen(allow), "%s%s", allow[0] ? ", " : "",
                               r->method);
        }
        if (allow[0])
                wrong_method(x, allow);
        else {
                x->close = x->has_body;
                if (found < 0)
                        reply_error(x, "bad_request", "encode it as RFC 3986 says, without '.', '..' and NUL",
                                    "a part of the path is malformed");
                else
                        reply_error(x, "no_route", "GET /api/openapi.json lists what there is",
                                    "there is nothing here");
        }
        return false;
}

const char *route_param(const struct exchange *x, const char *name) {
        const char *at = x->route->path, *part;
        size_t size, length = strlen(name);
        unsigned i = 0;

        while (next_part(&at, &part, &size)) {
                if (part[0] != '{')
                        continue;
                if (size == length + 2 && memcmp(part + 1, name, length) == 0)
                        return x->params[i];
                i++;
        }
        return NULL;
}

/* --- may it ---------------------------------------------------------------------------------------------------------
 */

static bool too_often(struct exchange *x, enum rate rate, const void *who, size_t size) {
        unsigned wait = rates_ask(x->api->rates, rate, who, size, loop_now(x->api->o->loop));
        struct buf b = {0};
        struct json j = {.out = &b};
        char seconds[24];

        if (wait == 0)
                return false;
        x->close = x->has_body;
        json_open(&j, NULL, '{');
        json_str(&j, "error",
                 rate == RATE_OWNER ? "too many requests of this owner" : "too many requests of this address");
        json_str(&j, "code", "RATE_LIMITED");
        json_u64(&j, "retry_after_ms", wait);
        json_close(&j, '}');
        reply_json(x, 429, &b);
        (void)snprintf(seconds, sizeof seconds, "%u", (wait + 999) / 1000);
        reply_header(x, "Retry-After", seconds);
        return true;
}

/* Is it one of these words with blanks between? What stands behind a colon is its kind. */
static bool among(const char *words, const char *word, size_t length) {
        for (const char *p = words + strspn(words, " "); *p; p += strspn(p, " ")) {
                size_t size = strcspn(p, " "), plain = strcspn(p, " :");

                if (plain == length && memcmp(p, word, length) == 0)
                        return true;
                p += size;
        }
        return false;
}

/* A name of the query that the route does not know. */
static enum MHD_Result look_query(void *data, enum MHD_ValueKind kind, const char *name, const char *value) {
        struct exchange *x = data;
        const char *fields = x->route->query_fields ? x->route->query_fields : "";
        size_t length = strlen(name);

        if (((x->route->flags & ROUTE_TICKET) && str_eq(name, "ticket")) || x->rest || (x->route->flags & ROUTE_PAGE))
                return MHD_YES;
        if (value && among(fields, name, length)) {
                if (MHD_lookup_connection_value(x->connection, kind, name) == value)
                        return MHD_YES;
                x->close = x->has_body;
                reply_error(x, "bad_request", "say it once", "the query has '%.40s' twice", name);
                return MHD_NO;
        }
        x->close = x->has_body;
        reply_error(x, "bad_request", fields[0] ? "see GET /api/openapi.json" : "leave the query out",
                    "the query has '%.40s', which nothing is known about", length > 0 ? name : "nothing");
        return MHD_NO;
}

static bool check_body(struct exchange *x) {
        const struct route *r = x->route;
        uint64_t length = 0;

        if (!x->has_body)
                return true;
        if (r->body == 0) {
                x->close = true;
                reply_error(x, "bad_request", "leave the body out", "this takes no body");
                return false;
        }
        for (const char *p = x->head.length; p && *p; p++)
                length = length * 10 + (uint64_t)(*p - '0');
        if (length > r->body) {
                x->close = true;
                reply_error(x, "too_large", "send less at a time", "the body has more than %zu bytes", r->body);
                return false;
        }
        /* a form of a foreign page cannot have this type without asking first */
        if (!(r->flags & (ROUTE_INPUT | ROUTE_ANY_TYPE)) &&
            (!x->head.type || strncasecmp(x->head.type, "application/json", 16) != 0 ||
             !strchr("; \t", x->head.type[16]))) {
                x->close = true;
                reply_error(x, "bad_type", "set Content-Type: application/json", "the body is not JSON by its type");
                return false;
        }
        x->body.max = r->body + 1;
        return true;
}

/* A sandbox that fails again and again is left alone for a while (breaker.h). */
static bool is_broken(struct exchange *x) {
        const char *sandbox = route_param(x, "sandbox"), *why = "";
        uint64_t wait_ms = 0;
        char seconds[24];

        if (!sandbox || !breaker_is_for(x->route->verb) ||
            breaker_lets(x->api->breakers, x->c.owner, sandbox, loop_now(x->api->o->loop), &why, &wait_ms))
                return false;
        wait_ms = (wait_ms + 999) / 1000;
        reply_error(x, "circuit_open", "look at its state and events; stop and resume it, or try again later",
                    "this sandbox failed %d times in a row (%s): it is left alone for %llu s", BREAKER_FAILURES, why,
                    (unsigned long long)wait_ms);
        (void)snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)wait_ms);
        reply_header(x, "Retry-After", seconds);
        return true;
}

/* Half of what one address may have open: behind a proxy, or at one host, there are others. What machines have open
 * with capabilities is counted apart, and half of that; whoever wants to end a session or a token is always heard. */
static bool has_too_many(struct exchange *x) {
        const struct api *a = x->api;
        uint64_t most = MAX(a->o->conf.connections_address / (x->capability ? 4 : 2), (uint64_t)1), count = 0;

        if (!x->c.owner[0] || x->c.admin || a->link_count <= most || (x->route->flags & ROUTE_ENDS))
                return false;
        for (const struct exchange *y = a->exchanges; y; y = y->next)
                count += y->connection && !y->capability == !x->capability && str_eq(y->c.owner, x->c.owner);
        if (count <= most)
                return false;
        x->close = x->has_body;
        reply_error(x, "limit", "end some of them, or raise connections_address in stockade.conf",
                    "this owner has %llu requests open%s, which is the limit", (unsigned long long)most,
                    x->capability ? " with capabilities" : "");
        return true;
}

bool route_admit(struct exchange *x) {
        const struct route *r = x->route;

        if (has_too_many(x))
                return false;
        if (x->c.owner[0] && too_often(x, RATE_OWNER, x->c.owner, strlen(x->c.owner)))
                return false;
        if (is_broken(x) || !check_body(x))
                return false;
        (void)MHD_get_connection_values(x->connection, MHD_GET_ARGUMENT_KIND, look_query, x);
        if (x->response)
                return false;
        if ((r->flags & ROUTE_UPGRADE) && (!x->head.upgrade || strcasecmp(x->head.upgrade, "websocket") != 0)) {
                reply_error(x, "upgrade_needed", "open it as a WebSocket", "this is a WebSocket");
                reply_header(x, "Upgrade", "websocket");
                return false;
        }
        return true;
}

bool route_rate(struct exchange *x) {
        return x->route->rate == RATE_NONE || !too_often(x, x->route->rate, x->address, sizeof x->address);
}

/* --- to the verb ----------------------------------------------------------------------------------------------------
 */

static int find_query(struct exchange *x, const char *name, char *buf, size_t size,
                      bool (*decode)(const char *text, size_t size, char *buf, size_t room)) {
        const char *value = MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);

        if (!value)
                return 0;
        return decode(value, strlen(value), buf, size) ? 1 : -EINVAL;
}

int route_query(struct exchange *x, const char *name, char *buf, size_t size) {
        return find_query(x, name, buf, size, percent_decode);
}

bool route_body(struct exchange *x) {
        struct err err = {0};

        if (x->body.size == 0 && buf_ok(&x->body))
                buf_str(&x->body, "{}");
        if (!buf_ok(&x->body)) {
                reply_error(x, "failed", "try again", "out of memory");
                return false;
        }
        int r = json_check(x->body.data, x->body.size, &err);
        if (r == 0 && x->body.data[strspn(x->body.data, " \t\r\n")] == '{')
                return true;
        reply_error(x, r == ERR_LIMIT ? "too_large" : "bad_request", "send one JSON object", "%s",
                    r < 0 ? err.text : "the body is not a JSON object");
        return false;
}

static void raw(struct json *j, const char *key, size_t key_size, const char *value, size_t size) {
        if (j->comma)
                buf_str(j->out, ",");
        buf_str(j->out, "\"");
        buf_add(j->out, key, key_size);
        buf_str(j->out, "\":");
        buf_add(j->out, value, size);
        j->comma = true;
}

void route_request(struct exchange *x, struct json *j, const char *verb) {
        static const char *const texts[] = {"sandbox", "snapshot"}, *const numbers[] = {"run", "port"};
        const char *value;

        json_open(j, NULL, '{');
        json_str(j, "verb", verb);
        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                if ((value = route_param(x, texts[i])))
                        json_str(j, texts[i], value);
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                if ((value = route_param(x, numbers[i]))) {
                        bool good = strlen(value) <= 10 && !value[strspn(value, "0123456789")] && value[0] != '0';

                        raw(j, numbers[i], strlen(numbers[i]), good ? value : "0", good ? strlen(value) : 1);
                }
}

static bool body_fields(struct exchange *x, struct json *j) {
        struct json_walk w;
        char name[64];
        size_t size;

        if (!x->route->body_fields || !json_walk_begin(&w, x->body.data, ""))
                return true;
        while (json_walk_next(&w)) {
                if (!json_walk_key(&w, name, sizeof name) || !among(x->route->body_fields, name, strlen(name))) {
                        reply_error(x, "bad_request", x->route->body_fields[0] ? x->route->body_fields : "leave it out",
                                    "the body has a member that is not known here");
                        return false;
                }
                const char *value = json_at(w.value, "", &size);
                if (value)
                        raw(j, name, strlen(name), value, size);
        }
        return true;
}

static bool query_field(struct exchange *x, struct json *j, const char *name, size_t length, char kind) {
        char key[64], value[4200];

        (void)snprintf(key, sizeof key, "%.*s", (int)length, name);
        int found = find_query(x, key, value, sizeof value, kind == 'p' ? percent_decode_path : percent_decode);
        bool number = found > 0 && value[0] && strlen(value) <= 20 && !value[strspn(value, "0123456789")] &&
                      (value[0] != '0' || !value[1]);
        bool octal = found > 0 && value[0] && strlen(value) <= 5 && !value[strspn(value, "01234567")];
        bool yes = found > 0 && (str_eq(value, "true") || str_eq(value, "1") || !value[0]);
        bool no = found > 0 && (str_eq(value, "false") || str_eq(value, "0"));
        if (found == 0)
                return true;
        if (found < 0 || (kind == 'n' && !number) || (kind == 'o' && !octal) || (kind == 'b' && !yes && !no)) {
                reply_error(x, "bad_request",
                            kind == 'n'   ? "a whole number is right"
                            : kind == 'o' ? "digits such as 0644 are right"
                            : kind == 'b' ? "true or false is right"
                                          : "encode it as RFC 3986 says",
                            "'%s' of the query is malformed", key);
                return false;
        }
        if (kind == 'n')
                raw(j, key, length, value, strlen(value));
        else if (kind == 'o')
                json_u64(j, key, strtoull(value, NULL, 8));
        else if (kind == 'b')
                json_bool(j, key, yes);
        else
                json_str(j, key, value);
        return true;
}

bool route_fields(struct exchange *x, struct json *j) {
        const char *fields = x->route->query_fields ? x->route->query_fields : "";

        if (!body_fields(x, j))
                return false;
        for (const char *p = fields + strspn(fields, " "); *p; p += strspn(p, " ")) {
                size_t size = strcspn(p, " "), plain = strcspn(p, " :");

                if (!query_field(x, j, p, plain, p[plain] == ':' ? p[plain + 1] : 't'))
                        return false;
                p += size;
        }
        return true;
}

void route_begin(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};

        if (!(x->route->flags & (ROUTE_INPUT | ROUTE_ANY_TYPE)) && x->route->body > 0 && !route_body(x))
                return;
        if (!who_may_also(x))
                return;
        if (x->route->begin) {
                x->route->begin(x);
                return;
        }
        route_request(x, &j, x->route->verb);
        if (!route_fields(x, &j)) {
                buf_free(&b);
                return;
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}
