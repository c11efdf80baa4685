/* Connections: accepted by us, counted, given to libmicrohttpd when a head is there, looked after twice a second.
 *
 * What always holds: a connection is in the hall or in the list from accept to close, and counted for its address.
 * libmicrohttpd looks at a connection only while it waits for the other end; while we wait for a verb it is suspended,
 * and then it is us who look whether somebody is still there. A connection ends from our side by shutting its socket
 * down: libmicrohttpd notices, and nobody closes a descriptor that is not his.
 *
 * Must never: block; run libmicrohttpd from inside one of its own callbacks. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "api/exchange.h"
#include "api/http-hall.h"
#include "api/rates.h"
#include "api/tls-link.h"
#include "api/who.h"
#include "base/fd.h"
#include "base/log.h"

#define POOL_SIZE      (24U * 1024) /* of a connection: its head must fit */
#define IDLE_MS        30000        /* from one request's end to the next one's whole head; the first: http-hall.c */
#define STUCK_S        60           /* nothing moves */
#define SWEEP_MS       500          /* from the begin of one sweep to that of the next */
#define SWEEP_PIECES   40
#define SWEEP_STEP_MS  10    /* between two of these */
#define SWEEP_LEAST    128   /* connections of a piece */
#define SWEEP_CUTS     16    /* and of these, idle ones that are cut */
#define PACE_MS        30000 /* within which a body or an answer moves by PACE bytes at least */
#define PACE           (30U * 1024)
#define PAUSE_MS       100  /* after accept had no descriptor left */
#define ACCEPT_AT_ONCE 4    /* those who have a connection wait for it: 0.1 ms; over TLS, a handshake costs 1 or 2 */
#define STRANGERS      256  /* connections over TLS that may be in their handshake at the same time */
#define STRANGERS_EACH 32   /* and those of one address */
#define SILENT_MS      3000 /* for the first byte of it */
#define HANDSHAKE_MS   10000
#if MHD_VERSION < 0x00097700
#define STRICTNESS MHD_OPTION_STRICT_FOR_CLIENT, 0 /* head.c is stricter, and says why */
#else
#define STRICTNESS MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1
#endif
#define FDS_KEPT 256 /* descriptors that connections leave to sandboxes and files */

/* --- turns -------------------------------------------------------------------------------------------------------- */

static void turn(struct api *a) {
        MHD_UNSIGNED_LONG_LONG ms = 0;

        a->inside = true;
        (void)MHD_run(a->daemon);
        a->inside = false;
        if (MHD_get_timeout(a->daemon, &ms) != MHD_YES)
                loop_timer_clear(a->o->loop, &a->timer);
        else if (ms == 0)
                loop_later(a->o->loop, &a->task);
        else
                loop_timer_set(a->o->loop, &a->timer, loop_now(a->o->loop) + ms);
}

static void on_ready(struct loop_watch *w, uint32_t events) {
        (void)events;
        turn(LOOP_OWNER(w, struct api, watch));
}

static void on_timer(struct loop_timer *t) {
        turn(LOOP_OWNER(t, struct api, timer));
}

static void on_task(struct loop_task *t) {
        turn(LOOP_OWNER(t, struct api, task));
}

void http_wake(struct api *a) {
        loop_later(a->o->loop, &a->task);
}

/* --- connections ---------------------------------------------------------------------------------------------------
 */

static void list(struct link *l) {
        struct api *a = l->api;

        if (!a->links)
                loop_timer_set(a->o->loop, &a->sweep, loop_now(a->o->loop) + SWEEP_MS);
        else
                a->links->previous = l;
        l->next = a->links;
        a->links = l;
}

static void unlist(struct link *l) {
        struct api *a = l->api;

        if (l->next)
                l->next->previous = l->previous;
        if (l->previous)
                l->previous->next = l->next;
        else
                a->links = l->next;
        if (a->unswept == l)
                a->unswept = l->next;
        l->next = l->previous = NULL;
}

static struct link *link_new(struct api *a, const uint8_t address[16]) {
        struct link *l = calloc(1, sizeof *l);

        if (!l)
                return NULL;
        l->api = a;
        l->fd = -EBADF;
        memcpy(l->address, address, sizeof l->address);
        a->link_count++;
        return l;
}

/* Its place is somebody else's from now on. Over TLS it counts for its address until its socket is closed: on_over. */
void http_uncount(struct link *l) {
        struct api *a = l->api;

        if (l->uncounted)
                return;
        l->uncounted = true;
        a->link_count--;
        if (!a->tls)
                rates_leave(a->rates, l->address);
}

/* Of one that is in no list. */
static void link_free(struct link *l) {
        http_uncount(l);
        l->api->stranger_count -= l->stranger;
        if (l->tls)
                tls_link_leave(l->tls);
        free(l);
}

static void forget(struct link *l) {
        unlist(l);
        link_free(l);
}

void http_cut(struct link *l) {
        if (l->tls)
                tls_link_cut(l->tls);
        if (l->fd >= 0)
                (void)shutdown(l->fd, SHUT_RDWR);
        if (l->exchange)
                exchange_wake(l->exchange);
}

static void notify(void *data, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode code) {
        struct api *a = data;

        (void)c;
        if (code == MHD_CONNECTION_NOTIFY_STARTED)
                *context = TAKE_PTR(a->incoming);
        else if (*context)
                forget(TAKE_PTR(*context));
}

static void refuse_connection(const struct api *a, int fd) {
        static const char body[] = "{\"error\":\"too many connections\",\"code\":\"TOO_MANY_CONNECTIONS\","
                                   "\"hint\":\"close some, or try again\",\"retry_after_ms\":1000}";
        char text[512];
        int n = snprintf(text, sizeof text,
                         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                         "Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
                         sizeof body - 1, body);

        if (!a->tls) /* words in the clear are no TLS */
                (void)send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)close(fd);
}

void http_admit(struct link *l) {
        struct api *a = l->api;

        list(l);
        a->incoming = l;
        (void)MHD_add_connection(a->daemon, l->fd, &l->from.any, l->from_size);
        if (TAKE_PTR(a->incoming)) /* it was not taken, and is closed */
                forget(l);
        http_wake(a);
}

void http_leave(struct link *l) {
        char rest[4096];

        if (l->tls)
                tls_link_cut(l->tls);
        else /* closed with something unread, it would be a reset to the other end */
                (void)recv(l->fd, rest, sizeof rest, MSG_DONTWAIT);
        fd_close(&l->fd);
        link_free(l);
}

/* --- over TLS -------------------------------------------------------------------------------------------------------
 */

static void forget_stranger(struct link *l) {
        l->api->stranger_count -= l->stranger;
        l->stranger = false;
}

/* Handshakes are work before anybody is known, so few can be under way, and those of one address are counted. Whoever
 * comes when all places are taken gets that of the one who has been at it longest: people are through by then. */
static bool may_shake_hands(struct api *a, const uint8_t address[16]) {
        struct link *oldest = NULL;
        unsigned same = 0;

        if (a->secure_count >= a->o->conf.connections ||
            rates_ask(a->rates, RATE_HANDSHAKE, address, 16, loop_now(a->o->loop)) > 0)
                return false;
        for (struct link *l = a->links; l && a->stranger_count >= STRANGERS_EACH; l = l->next)
                if (l->stranger) { /* the last ones came first */
                        oldest = l;
                        same += rates_same(l->address, address);
                }
        if (same >= STRANGERS_EACH)
                return false;
        if (oldest && a->stranger_count >= STRANGERS) {
                forget_stranger(oldest);
                http_cut(oldest);
        }
        return true;
}

static void on_shaken(void *data, int fd) {
        struct link *l = data;

        forget_stranger(l);
        unlist(l);
        if (fd >= l->api->fd_most) { /* the last ones are not for connections */
                (void)close(fd);
                link_free(l);
                return;
        }
        l->fd = fd;
        l->from.any.sa_family = AF_UNIX;
        l->from_size = sizeof l->from.any;
        hall_enter(l);
}

static void on_failed(void *data) {
        struct link *l = data;

        l->tls = NULL; /* which goes by itself, and counts until then */
        forget(l);
}

static void on_over(void *owner, const uint8_t address[16]) {
        struct api *a = owner;

        a->secure_count--;
        rates_leave(a->rates, address);
}

static void greet_secure(struct api *a, int fd, const uint8_t address[16]) {
        static const struct tls_link_events events = {on_shaken, on_failed, on_over};
        struct link *l = link_new(a, address);

        if (!l) {
                rates_leave(a->rates, address);
                (void)close(fd);
                return;
        }
        l->expires = loop_now(a->o->loop) + SILENT_MS;
        l->tls = tls_link_new(a->tls, a->o->loop, fd, address, &events, a, l);
        if (!l->tls) {
                rates_leave(a->rates, address);
                link_free(l);
                return;
        }
        list(l);
        l->stranger = true;
        a->stranger_count++;
        a->secure_count++;
}

/* --- everybody ------------------------------------------------------------------------------------------------------
 */

/* What comes through one that we believe is many people's: only all connections together are capped there. */
static unsigned most_of(const struct api *a, const uint8_t address[16]) {
        const struct conf_list *proxies = &a->o->conf.proxies;
        uint8_t proxy[16];

        for (size_t i = 0; i < proxies->count; i++)
                if (endpoint_parse_bytes(proxies->items[i], proxy) && memcmp(proxy, address, sizeof proxy) == 0)
                        return UINT_MAX;
        return (unsigned)a->o->conf.connections_address;
}

static void greet(struct api *a, int fd, const union endpoint *from, socklen_t size) {
        uint8_t address[16];
        struct link *l;

        if (!endpoint_bytes(&from->any, address)) {
                (void)close(fd);
                return;
        }
        if (fd >= a->fd_most || a->link_count >= a->o->conf.connections ||
            !rates_enter(a->rates, address, most_of(a, address))) {
                refuse_connection(a, fd);
                return;
        }
        if (a->tls && !may_shake_hands(a, address)) {
                rates_leave(a->rates, address);
                refuse_connection(a, fd);
                return;
        }
        if (a->tls) {
                greet_secure(a, fd, address);
                return;
        }
        l = link_new(a, address);
        if (!l) {
                rates_leave(a->rates, address);
                (void)close(fd);
                return;
        }
        l->fd = fd;
        l->from = *from;
        l->from_size = size;
        hall_enter(l);
}

static void accept_some(struct loop_watch *w, uint32_t events) {
        struct door *d = LOOP_OWNER(w, struct door, watch);
        struct api *a = d->api;

        (void)events;
        for (unsigned i = 0; i < ACCEPT_AT_ONCE; i++) {
                union endpoint from = {0};
                socklen_t size = sizeof from;
                int fd = accept4(d->fd, &from.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        greet(a, fd, &from, size);
                        continue;
                }
                if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
                        break;
                log_line(LOG_LEVEL_ERROR, NULL, "the API could not accept a connection: %s", err_name(-errno));
                loop_unwatch(a->o->loop, &d->watch);
                loop_timer_set(a->o->loop, &d->pause, loop_now(a->o->loop) + PAUSE_MS);
                break;
        }
}

static void resume_accept(struct loop_timer *t) {
        struct door *d = LOOP_OWNER(t, struct door, pause);

        if (loop_watch(d->api->o->loop, &d->watch, d->fd, EPOLLIN) < 0)
                loop_timer_set(d->api->o->loop, t, loop_now(d->api->o->loop) + PAUSE_MS);
}

/* Nobody watches a suspended connection for us. */
bool http_hung_up(const struct link *l) {
        struct pollfd p[] = {{.fd = l->fd, .events = POLLRDHUP},
                             {.fd = l->tls ? tls_link_fd(l->tls) : -EBADF, .events = POLLRDHUP}};

        return poll(p, ELEMENTSOF(p), 0) > 0;
}

/* A body that comes, or an answer that is read, a byte now and then: that holds a place for nothing. What waits for us
 * has all the time it needs. */
static bool is_too_slow(struct exchange *x, uint64_t now) {
        if (exchange_is_suspended(x) || x->paced_at == 0 || x->moved - x->paced >= PACE) {
                x->paced_at = now;
                x->paced = x->moved;
        }
        return now - x->paced_at >= PACE_MS;
}

static void look_after(struct link *l, uint64_t now, unsigned *cuts) {
        struct exchange *x = l->exchange;

        if (l->kept) {
                if (x && x->view && x->view->tick) /* which also looks whether its session has ended */
                        x->view->tick(x, now);
        } else if (l->stranger && !l->spoke && tls_link_spoke(l->tls)) {
                l->spoke = true;
                l->expires += HANDSHAKE_MS - SILENT_MS;
        } else if (l->expires > 0 && now >= l->expires) {
                if (*cuts > 0) { /* the others in the next sweep: closing takes its time */
                        (*cuts)--;
                        http_cut(l);
                }
        } else if (x && (who_is_over(x) || is_too_slow(x, now))) /* also one that is busy sending */
                exchange_lose(x);
        else if (x && exchange_is_suspended(x)) {
                if (http_hung_up(l))
                        exchange_lose(x);
                else
                        exchange_tick(x, now);
        }
}

/* In pieces, so that thousands who say nothing, or are cut at the same time, hold nobody up: all of them within
 * SWEEP_PIECES steps. */
static void sweep(struct loop_timer *t) {
        struct api *a = LOOP_OWNER(t, struct api, sweep);
        uint64_t now = loop_now(a->o->loop);
        unsigned left = MAX(a->link_count / SWEEP_PIECES + 1, (unsigned)SWEEP_LEAST), cuts = SWEEP_CUTS;

        if (!a->unswept) {
                a->unswept = a->links;
                a->swept_at = now;
        }
        for (struct link *l; (l = a->unswept) && left > 0; left--) {
                a->unswept = l->next; /* link_free moves it on */
                look_after(l, now, &cuts);
        }
        if (!a->unswept)
                rates_sweep(a->rates, now);
        if (a->links)
                loop_timer_set(a->o->loop, t, a->unswept ? now + SWEEP_STEP_MS : MAX(a->swept_at + SWEEP_MS, now + 1));
}

/* --- requests ------------------------------------------------------------------------------------------------------
 */

static char blank; /* what a request has instead of an exchange, before there is one */

/* A target with a blank is two to some and one to others. libmicrohttpd either closes without a word, or takes it. */
static void *look_at_target(void *data, const char *target, struct MHD_Connection *c) {
        (void)data;
        (void)c;
        return strchr(target, ' ') ? &blank : NULL;
}

static enum MHD_Result handle(void *data, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **context) {
        bool spaced = *context == &blank;

        (void)data;
        if (!*context || spaced) {
                const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
                struct link *l = info ? info->socket_context : NULL;

                if (!l)
                        return MHD_NO;
                l->expires = 0;
                struct exchange *x = exchange_new(l, c, url, method, version);
                *context = x;
                if (!x)
                        return MHD_NO;
                x->spaced = spaced;
                return exchange_begin(x);
        }
        return exchange_go_on(*context, upload, upload_size);
}

static void completed(void *data, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode why) {
        struct api *a = data;
        struct exchange *x = *context == &blank ? NULL : *context;

        *context = NULL;
        (void)c;
        if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK)
                http_wake(a); /* it closes such a connection in its next turn, and does not ask for one */
        if (!x)
                return;
        if (exchange_link(x))
                exchange_link(x)->expires = loop_now(a->o->loop) + IDLE_MS;
        exchange_over(x);
}

/* Paths and queries are decoded by route.c, strictly. */
static size_t keep_escapes(void *data, struct MHD_Connection *c, char *text) {
        (void)data;
        (void)c;
        return strlen(text);
}

static void _printf_(2, 0) quiet(void *data, const char *format, va_list args) {
        char line[256];

        (void)data;
        (void)vsnprintf(line, sizeof line, format, args);
        line[strcspn(line, "\r\n")] = '\0';
        log_line(LOG_LEVEL_DEBUG, NULL, "%s", line);
}

int http_open(struct api *a, struct err *err) {
        struct core *o = a->o;
        struct rlimit files;

        a->fd_most = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < INT32_MAX
                             ? (int)files.rlim_cur - FDS_KEPT
                             : INT32_MAX;

        a->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                                             MHD_ALLOW_UPGRADE | MHD_USE_TURBO | MHD_USE_ERROR_LOG,
                                     0, NULL, NULL, handle, a, MHD_OPTION_EXTERNAL_LOGGER, quiet, NULL,
                                     MHD_OPTION_NOTIFY_COMPLETED, completed, a, MHD_OPTION_NOTIFY_CONNECTION, notify, a,
                                     MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_SIZE,
                                     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)STUCK_S, MHD_OPTION_CONNECTION_LIMIT,
                                     (unsigned)o->conf.connections + 16, STRICTNESS, MHD_OPTION_URI_LOG_CALLBACK,
                                     look_at_target, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
        if (!a->daemon)
                return err_set(err, -ENOMEM, "libmicrohttpd does not start");
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(a->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        a->watch.ready = on_ready;
        a->timer.fire = on_timer;
        a->task.run = on_task;
        a->sweep.fire = sweep;
        hall_open(a);
        int r = info ? loop_watch(o->loop, &a->watch, info->epoll_fd, EPOLLIN) : -EINVAL;
        for (size_t i = 0; r == 0 && i < a->door_count; i++) {
                a->doors[i].watch.ready = accept_some;
                a->doors[i].pause.fire = resume_accept;
                r = loop_watch(o->loop, &a->doors[i].watch, a->doors[i].fd, EPOLLIN);
        }
        return r < 0 ? err_set(err, r, "could not watch the sockets of the API") : 0;
}

void http_drain(struct api *a) {
        for (size_t i = 0; i < a->door_count; i++) { /* who connects now waits for the next operator */
                loop_unwatch(a->o->loop, &a->doors[i].watch);
                loop_timer_clear(a->o->loop, &a->doors[i].pause);
        }
}

/* The process ends: connections go with it. Only the verbs must hear of it. */
void http_close(struct api *a) {
        loop_unwatch(a->o->loop, &a->watch);
        loop_timer_clear(a->o->loop, &a->timer);
        loop_timer_clear(a->o->loop, &a->sweep);
        hall_close(a);
        loop_cancel(a->o->loop, &a->task);
}
