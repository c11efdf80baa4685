/* The API's beginning and end, as the operator knows it (struct front). What cannot be opened is said in the log, and
 * in `health`: sandboxes do not depend on it. While it is shut for the sake of its certificate, whoever connects is
 * sent away; it opens when there is a good one. */
#include "api/api.h"

#include <stdio.h>
#include <unistd.h>

#include "api/breaker.h"
#include "api/exchange.h"
#include "api/instance.h"
#include "api/metrics.h"
#include "api/rates.h"
#include "api/route.h"
#include "api/signin.h"
#include "api/tls.h"
#include "auth/rfc3339.h"
#include "base/log.h"

#define TURN_AWAY  32   /* connections of one turn */
#define HANDSHAKES 3000 /* of TLS in a minute, beside those for requests that are counted */
#define PAUSE_MS   100  /* after there was no descriptor for one */

static struct tls *tls;    /* NULL: no certificate is configured */
static struct err problem; /* why it is not open */
static struct shut {
        struct core *o;
        struct loop_watch watch;
        struct loop_timer pause;
        int fd;
} shut[OPERATOR_LISTEN_MAX];

/* One way to write it: in lower case, without the port that its scheme has anyway. Whoever signs compares bytes. */
static void spell(char *url) {
        char *host = strstr(url, "://");

        if (!host)
                return;
        char *end = host + 3 + strcspn(host + 3, "/");
        for (char *p = url; p < end; p++)
                *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + ('a' - 'A') : *p);
        const char *usual = str_starts(url, "https:") ? ":443" : str_starts(url, "http:") ? ":80" : "";
        size_t n = strlen(usual);
        if ((size_t)(end - host - 3) > n && memcmp(end - n, usual, n) == 0)
                memmove(end - n, end, strlen(end) + 1);
}

/* Who we are, in texts that are signed: what was configured, or the first address. */
static void name_us(struct api *a) {
        const struct conf *c = &a->o->conf;
        static const uint8_t any[16], any_four[16] = {[10] = 0xff, 0xff};
        uint8_t bytes[16] = {0};
        char text[ENDPOINT_TEXT];
        size_t n;

        if (c->url[0])
                (void)snprintf(a->url, sizeof a->url, "%s", c->url);
        else
                (void)snprintf(a->url, sizeof a->url, "http%s://%s", a->tls ? "s" : "",
                               endpoint_format(&a->doors[0].at, text));
        for (n = strlen(a->url); n > 0 && a->url[n - 1] == '/'; n--)
                a->url[n - 1] = '\0';
        spell(a->url);
        const char *host = strstr(a->url, "://");
        host = host ? host + 3 : a->url;
        (void)snprintf(a->domain, sizeof a->domain, "%.*s", (int)strcspn(host, "/"), host);
        if (!c->url[0] && endpoint_bytes(&a->doors[0].at.any, bytes) &&
            (memcmp(bytes, any, sizeof any) == 0 || memcmp(bytes, any_four, sizeof any_four) == 0))
                log_line(LOG_LEVEL_WARNING, NULL,
                         "the API has no name that others could sign in to: '%s' is every address; set url = "
                         "http%s://HOST[:PORT] in stockade.conf",
                         a->domain, a->tls ? "s" : "");
}

/* In a minute, of one address: nobody who keeps to the other rates ever notices, were every request a connection. */
static uint64_t handshakes(const struct conf *c) {
        const uint64_t rates[] = {c->rate_auth, c->rate_write, c->rate_sandbox, c->rate_read};
        uint64_t sum = HANDSHAKES;

        for (size_t i = 0; i < ELEMENTSOF(rates); i++)
                sum = rates[i] > UINT32_MAX || sum > UINT32_MAX ? UINT64_MAX : sum + rates[i];
        return sum;
}

static int open_all(struct api *a, struct err *err) {
        const struct conf *c = &a->o->conf;

        for (size_t i = 0; i < a->o->door_count; i++) {
                struct door *d = &a->doors[a->door_count++];
                socklen_t size = sizeof d->at;

                d->api = a;
                d->fd = a->o->doors[i];
                if (getsockname(d->fd, &d->at.any, &size) < 0)
                        return err_set(err, -errno, "descriptor %d is not a listening socket", d->fd);
        }
        name_us(a);
        a->rates = rates_new();
        a->breakers = breakers_new();
        a->metrics = metrics_new();
        if (!a->rates || !a->breakers || !a->metrics)
                return err_set(err, -ENOMEM, "could not open the API");
        rates_set(a->rates, RATE_AUTH, c->rate_auth);
        rates_set(a->rates, RATE_WRITE, c->rate_write);
        rates_set(a->rates, RATE_SANDBOX, c->rate_sandbox);
        rates_set(a->rates, RATE_READ, c->rate_read);
        rates_set(a->rates, RATE_OWNER, c->rate_owner);
        rates_set(a->rates, RATE_HANDSHAKE, handshakes(c));
        int r = signin_open(a, err);
        if (r == 0)
                r = instance_open(a, err);
        return r < 0 ? r : http_open(a, err);
}

static void api_close(struct core *o) {
        struct api *a = o->api;

        if (!a)
                return;
        http_drain(a);
        for (struct exchange *x = a->exchanges, *next; x; x = next) {
                next = x->next;
                if (x->busy && x->c.gone) {
                        x->busy = false;
                        x->c.gone(&x->c);
                }
        }
        if (a->daemon)
                http_close(a);
        instance_close(a);
        signin_close(a);
        o->api = NULL; /* libmicrohttpd may still point to it; the process ends */
}

/* --- shut -----------------------------------------------------------------------------------------------------------
 */

static void pause_a_while(struct shut *s) {
        loop_unwatch(s->o->loop, &s->watch);
        loop_timer_set(s->o->loop, &s->pause, loop_now(s->o->loop) + PAUSE_MS);
}

static void turn_away(struct loop_watch *w, uint32_t events) {
        struct shut *s = LOOP_OWNER(w, struct shut, watch);

        (void)events;
        for (unsigned i = 0; i < TURN_AWAY; i++) {
                int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                        pause_a_while(s); /* it would be told of again at once */
                if (fd < 0)
                        return;
                (void)close(fd);
        }
}

static void turn_away_again(struct loop_timer *t) {
        struct shut *s = LOOP_OWNER(t, struct shut, pause);

        if (loop_watch(s->o->loop, &s->watch, s->fd, EPOLLIN) < 0)
                pause_a_while(s);
}

static void stay_shut(struct core *o, bool yes) {
        for (size_t i = 0; i < o->door_count; i++) {
                struct shut *s = &shut[i];

                s->o = o;
                s->fd = o->doors[i];
                s->watch.ready = turn_away;
                s->pause.fire = turn_away_again;
                loop_timer_clear(o->loop, &s->pause);
                if (yes)
                        turn_away_again(&s->pause);
                else
                        loop_unwatch(o->loop, &s->watch);
        }
}

/* --- the front ------------------------------------------------------------------------------------------------------
 */

static void try_open(struct core *o) {
        char text[ENDPOINT_TEXT];

        problem = (struct err){0};
        if (tls && !tls_has(tls)) {
                problem = *tls_problem(tls); /* the log has it already */
                stay_shut(o, true);
                return;
        }
        stay_shut(o, false);
        o->api = calloc(1, sizeof *o->api);
        if (!o->api)
                return;
        o->api->o = o;
        o->api->tls = tls;
        if (open_all(o->api, &problem) < 0) {
                log_err(LOG_LEVEL_ERROR, NULL, &problem);
                api_close(o);
                return;
        }
        for (size_t i = 0; i < o->api->door_count; i++)
                log_line(LOG_LEVEL_INFO, NULL, "the API listens at http%s://%s", tls ? "s" : "",
                         endpoint_format(&o->api->doors[i].at, text));
}

static void warn_of_end(void) {
        char time[RFC3339_TEXT] = "";

        (void)rfc3339_format(tls_expires_ms(tls), time);
        if (tls_has(tls))
                log_line(tls_expires_ms(tls) <= signin_now_ms() ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, NULL,
                         "the certificate of the API is good until %s", time);
}

/* A pair came, or word that there is none. */
static void on_certificate(struct core *o) {
        if (!tls_problem(tls))
                warn_of_end();
        if (!o->api && !o->draining && tls_has(tls))
                try_open(o);
        else if (!o->api && tls_problem(tls))
                problem = *tls_problem(tls);
}

static void api_open(struct core *o) {
        if (o->door_count == 0)
                return;
        if (o->conf.certificate[0]) {
                tls = tls_open(o, on_certificate);
                if (!tls)
                        return;
                warn_of_end();
        }
        try_open(o);
}

static void api_drain(struct core *o) {
        stay_shut(o, false);
        if (!o->api)
                return;
        o->api->draining = true;
        http_drain(o->api);
}

static int api_sign_in(struct core *o, const char *owner, struct buf *url, struct err *err) {
        if (!o->api)
                return err_set(err, -EOPNOTSUPP, "the API is not open%s%s", problem.code < 0 ? ": " : "", problem.text);
        return signin_link(o->api, owner, url, err);
}

/* "error" and "hint": NULL when nothing is wrong. */
static void describe_problem(struct json *j, const struct err *e) {
        bool bad = e && e->code < 0;

        json_str(j, "error", bad ? e->text : NULL);
        json_str(j, "hint", bad && e->hint[0] ? e->hint : NULL);
}

static void describe_certificate(struct json *j) {
        char time[RFC3339_TEXT] = "";

        json_open(j, "certificate", '{');
        json_str(j, "expires", tls_has(tls) && rfc3339_format(tls_expires_ms(tls), time) ? time : NULL);
        describe_problem(j, tls_problem(tls));
        json_close(j, '}');
}

static void api_describe(struct core *o, struct json *j, const char *key) {
        char text[ENDPOINT_TEXT];

        json_open(j, key, '{');
        json_bool(j, "open", o->api != NULL);
        json_str(j, "url", o->api ? o->api->url : NULL);
        json_open(j, "listen", '[');
        for (size_t i = 0; o->api && i < o->api->door_count; i++)
                json_str(j, NULL, endpoint_format(&o->api->doors[i].at, text));
        json_close(j, ']');
        describe_problem(j, o->api ? NULL : &problem);
        if (tls)
                describe_certificate(j);
        json_close(j, '}');
}

/* The table of routes, a JSON object on each line. */
static void api_print(void) {
        static const char *const auth[] = {"none", "owner", "session", "local"};
        const struct route *r;

        for (size_t i = 0; (r = route_at(i)); i++) {
                _cleanup_buf_ struct buf b = {0};
                struct json j = {.out = &b};

                json_open(&j, NULL, '{');
                json_str(&j, "method", r->method);
                json_str(&j, "path", r->path);
                json_str(&j, "auth", auth[r->auth]);
                json_str(&j, "verb", r->verb);
                json_str(&j, "body", r->body_fields);
                json_str(&j, "query", r->query_fields);
                json_u64(&j, "limit", r->flags & ROUTE_INPUT ? 0 : r->body);
                json_bool(&j, "streamed", r->flags & ROUTE_INPUT);
                json_bool(&j, "ticket", r->flags & ROUTE_TICKET);
                json_u64(&j, "status", route_status(r));
                json_close(&j, '}');
                (void)puts(buf_ok(&b) ? b.data : "");
        }
}

static void front_close(struct core *o) {
        stay_shut(o, false);
        api_close(o);
        tls_close(TAKE_PTR(tls));
}

const struct front api_front = {api_open, api_drain, front_close, api_sign_in, api_print, api_describe};
