/* Clients. A connection has ten seconds to say one whole request; then its verb's handler has it until it is answered.
 *
 * What always holds: a client is counted, with its user, from accept to close; what it sends is read only when somebody
 * wants it; what it does not read waits in a bounded queue, and its verb hears that there is no room. A client struct
 * lives until its handler has answered it or was told that it is gone, never shorter. */
#include "operator/server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/log.h"
#include "operator/stream.h"

#define CLIENTS_MAX    1024
#define FRONT_USER     ((uid_t)-1) /* no user of the kernel's */
#define FRONT_MAX      512         /* of all, those who come by the SSH door */
#define RESERVED       64          /* of all, for those who act for all */
#define SPARE_FDS      64
#define REQUEST_MS     10000
#define LINGER_MS      30000 /* for an answer that is not being read */
#define PAUSE_MS       100   /* after accept had no descriptor left */
#define ACCEPT_AT_ONCE 16
#define OUT_MARK       (128U * 1024)
#define OUT_MOST       (LOCAL_ANSWER_MAX + (2U << 20))
#define LARGE          (64U * 1024) /* answers above this share what there is for all */
#define LARGE_ALL      (64U << 20)
#define CONTROL_MAX    4096

enum phase {
        PHASE_REQUEST,  /* the request is not complete */
        PHASE_HANDLER,  /* its handler has it */
        PHASE_ANSWERED, /* the answer is under way */
        PHASE_LOST,     /* it hung up, and its handler has no `gone`: waits for the answer */
};

struct peer {
        struct client c; /* first: a client is its peer */
        struct server *server;
        struct peer *next, *previous;
        struct stream stream;
        struct loop_timer deadline;
        enum phase phase;
        char *request;
};

struct server {
        struct core *o;
        int fd_most; /* a client with a higher descriptor is refused */
        int listener;
        bool draining;
        struct loop_watch watch;
        struct loop_timer pause;
        struct peer *first;
        unsigned count;
};

static ssize_t measure(struct stream *s, const uint8_t *bytes, size_t size);
static void frame(struct stream *s, const uint8_t *bytes, size_t size);
static void room(struct stream *s);
static void broken(struct stream *s, int error);

static const struct stream_events on_stream = {measure, frame, room, broken};

static struct peer *peer_of(struct client *c) {
        return LOOP_OWNER(c, struct peer, c);
}

static void peer_free(struct peer *p) {
        struct server *v = p->server;

        stream_close(&p->stream);
        loop_timer_clear(v->o->loop, &p->deadline);
        if (p->next)
                p->next->previous = p->previous;
        if (p->previous)
                p->previous->next = p->next;
        else
                v->first = p->next;
        v->count--;
        free(p->request);
        free(p);
}

/* The connection is over, from whichever side. */
static void hang_up(struct peer *p) {
        if (p->phase == PHASE_HANDLER && !p->c.gone) {
                p->phase = PHASE_LOST;
                stream_close(&p->stream);
                loop_timer_clear(p->server->o->loop, &p->deadline);
                return;
        }
        if (p->phase == PHASE_LOST)
                return;
        if (p->phase == PHASE_HANDLER) {
                p->phase = PHASE_ANSWERED; /* whatever `gone` still says to it is dropped */
                stream_close(&p->stream);
                p->c.gone(&p->c);
        }
        peer_free(p);
}

static void expire(struct loop_timer *t) {
        struct peer *p = LOOP_OWNER(t, struct peer, deadline);

        if (p->phase == PHASE_REQUEST)
                client_refuse_text(&p->c, "bad_request", "send the whole request at once",
                                   "no complete request came within %d seconds", REQUEST_MS / 1000);
        else
                hang_up(p);
}

static void broken(struct stream *s, int error) {
        struct peer *p = LOOP_OWNER(s, struct peer, stream);

        if (p->phase == PHASE_REQUEST && (error == -EBADMSG || error == -EMSGSIZE)) {
                /* the stream counts as over, so what follows goes past its queue */
                _cleanup_buf_ struct buf b = {0};
                static const char text[] =
                        "{\"ok\":false,\"error\":{\"code\":\"bad_request\",\"message\":\"the first bytes are no "
                        "request, or one that is too large\",\"hint\":\"see docs/protocol/local.md\"}}";

                local_put(&b, LOCAL_ANSWER, text, sizeof text - 1);
                if (buf_ok(&b))
                        (void)send(s->fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        hang_up(p);
}

/* --- in --- */

static ssize_t measure(struct stream *s, const uint8_t *bytes, size_t size) {
        struct peer *p = LOOP_OWNER(s, struct peer, stream);
        size_t max = p->phase == PHASE_REQUEST ? LOCAL_JSON_MAX : LOCAL_FRAME_MAX;
        enum local_kind kind;
        const uint8_t *data;
        size_t payload;

        return local_next(bytes, size, max, &kind, &data, &payload);
}

static void take_request(struct peer *p, enum local_kind kind, const uint8_t *data, size_t size) {
        struct err err = {0};

        loop_timer_clear(p->server->o->loop, &p->deadline);
        stream_hold(&p->stream, true); /* what comes behind the request waits until somebody wants it */
        p->stream.half = true;
        p->phase = PHASE_HANDLER;
        if (kind != LOCAL_REQUEST) {
                client_refuse_text(&p->c, "bad_request", "see docs/protocol/local.md", "the first frame is no request");
                return;
        }
        p->request = malloc(size + 1);
        if (!p->request) {
                client_refuse_text(&p->c, "busy", "try again", "out of memory");
                return;
        }
        memcpy(p->request, data, size);
        p->request[size] = '\0';
        if (json_check(p->request, size, &err) < 0 || p->request[strspn(p->request, " \t\r\n")] != '{') {
                if (!err.text[0])
                        (void)err_set(&err, ERR_INPUT, "a request is a JSON object");
                (void)err_hint(&err, "see docs/protocol/local.md");
                client_refuse(&p->c, "bad_request", &err);
                return;
        }
        p->c.request = p->request;
        p->c.request_size = size;
        if (p->server->draining) {
                client_refuse_text(&p->c, "busy", "start it again with 'stockade up'", "the operator is ending");
                return;
        }
        /* from here on the handler has it, and may have answered and freed it when it returns: the loop tells */
        verbs_dispatch(&p->c);
}

static void take_frame(struct peer *p, enum local_kind kind, const uint8_t *data, size_t size) {
        char control[CONTROL_MAX + 1];

        if (kind == LOCAL_CONTROL) {
                if (size > CONTROL_MAX || json_check((const char *)data, size, NULL) < 0) {
                        stream_break(&p->stream, -EBADMSG);
                        return;
                }
                memcpy(control, data, size);
                control[size] = '\0';
                data = (const uint8_t *)control;
        } else if (kind != LOCAL_INPUT && (kind != LOCAL_FINISH || size > 0)) {
                stream_break(&p->stream, -EBADMSG);
                return;
        }
        p->c.input(&p->c, kind, data, size);
}

static void frame(struct stream *s, const uint8_t *bytes, size_t size) {
        struct peer *p = LOOP_OWNER(s, struct peer, stream);
        enum local_kind kind;
        const uint8_t *data;
        size_t payload;

        if (local_next(bytes, size, LOCAL_ANSWER_MAX, &kind, &data, &payload) <= 0)
                stream_break(s, -EBADMSG);
        else if (p->phase == PHASE_REQUEST) {
                bool gone = false, *outer = s->gone;

                /* both the reader of this frame and we want to know whether it is still there afterwards */
                s->gone = &gone;
                take_request(p, kind, data, payload);
                if (gone)
                        *outer = true;
                else {
                        s->gone = outer;
                        if (p->phase == PHASE_HANDLER && p->c.input)
                                stream_hold(s, false);
                }
        } else if (p->phase == PHASE_HANDLER && p->c.input)
                take_frame(p, kind, data, payload);
}

static void local_hold_input(struct client *c, bool hold) {
        struct peer *p = peer_of(c);

        if (p->phase == PHASE_HANDLER)
                stream_hold(&p->stream, hold || !c->input);
}

/* --- out --- */

static bool local_has_room(const struct client *c) {
        const struct peer *p = (const struct peer *)(const void *)c;

        return p->phase == PHASE_HANDLER && stream_has_room(&p->stream);
}

static void send_frame(struct peer *p, enum local_kind kind, const void *data, size_t size) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX + LOCAL_HEAD};

        local_put(&b, kind, data, size);
        if (p->stream.over)
                return;
        int r = buf_ok(&b) ? stream_send(&p->stream, b.data, b.size, NULL, 0) : -EMSGSIZE;
        if (r < 0)
                stream_break(&p->stream, r); /* it cannot take it: it is gone */
}

static void local_send(struct client *c, enum local_kind kind, const void *data, size_t size) {
        struct peer *p = peer_of(c);
        const char *bytes = data;

        if (p->phase != PHASE_HANDLER)
                return;
        do { /* streams of bytes may be cut anywhere; others fit */
                size_t n = kind == LOCAL_OUTPUT || kind == LOCAL_ERRORS ? MIN(size, (size_t)LOCAL_FRAME_MAX) : size;

                send_frame(p, kind, bytes, n);
                bytes += n;
                size -= n;
        } while (size > 0);
}

static void room(struct stream *s) {
        struct peer *p = LOOP_OWNER(s, struct peer, stream);

        if (p->phase == PHASE_HANDLER && p->c.writable)
                p->c.writable(&p->c);
}

/* The answer is queued; the rest is ours. */
static void answered(struct peer *p) {
        p->phase = PHASE_ANSWERED;
        stream_finish(&p->stream);
        loop_timer_set(p->server->o->loop, &p->deadline, loop_now(p->server->o->loop) + LINGER_MS);
}

/* Large answers that their clients do not read may not add up to more than this. */
static bool crowded(const struct server *v, size_t size) {
        size_t all = size;

        for (const struct peer *p = v->first; p && size > LARGE; p = p->next)
                all += p->stream.queued;
        return size > LARGE && all > LARGE_ALL;
}

static void answer(struct client *c, const char *before, const char *body, const char *after) {
        struct peer *p = peer_of(c);
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX};

        if (p->phase == PHASE_LOST) {
                peer_free(p);
                return;
        }
        if (p->phase == PHASE_ANSWERED) /* said to one that is being told `gone` */
                return;
        buf_str(&b, before);
        buf_str(&b, body);
        buf_str(&b, after);
        bool fits = buf_ok(&b);
        if (!fits || crowded(p->server, b.size)) {
                buf_free(&b);
                buf_printf(&b, "{\"ok\":false,\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"hint\":\"%s\"}}",
                           fits ? "busy" : "too_large",
                           fits ? "too many large answers wait to be read" : "the answer is too large",
                           fits ? "read them, or try again" : "ask for less at a time");
        }
        send_frame(p, LOCAL_ANSWER, b.data, b.size);
        answered(p);
}

static void local_answer(struct client *c, const char *result) {
        answer(c, "{\"ok\":true,\"result\":", result, "}");
}

static void local_refuse(struct client *c, const char *code, const char *message, const char *hint) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "code", code);
        json_str(&j, "message", message);
        /* a request that is wrong in a way that nobody had a better word for */
        bool wrong = !hint[0] && str_eq(code, "bad_request");
        json_str(&j, "hint", wrong ? "docs/protocol/local.md says what each verb takes" : hint);
        json_close(&j, '}');
        answer(c, "{\"ok\":false,\"error\":", buf_ok(&b) ? b.data : "{}", "}");
}

static const struct client_door local_door = {local_send, local_has_room, local_hold_input, local_answer, local_refuse};

/* --- who may come in --- */

static unsigned count_of(const struct server *v, uid_t uid) {
        unsigned n = 0;

        for (const struct peer *p = v->first; p; p = p->next)
                n += p->c.uid == uid;
        return n;
}

/* Whoever is at fd, from now on. NULL: there is nobody any more. */
static struct peer *peer_add(struct server *v, int fd) {
        struct peer *p = calloc(1, sizeof *p);

        if (!p) {
                fd_close(&fd);
                return NULL;
        }
        p->server = v;
        p->c.door = &local_door;
        p->c.o = v->o;
        p->deadline.fire = expire;
        if (stream_open(&p->stream, v->o->loop, fd, &on_stream, OUT_MARK, OUT_MOST) < 0) {
                free(p);
                return NULL;
        }
        p->next = v->first;
        if (v->first)
                v->first->previous = p;
        v->first = p;
        v->count++;
        loop_timer_set(v->o->loop, &p->deadline, loop_now(v->o->loop) + REQUEST_MS);
        return p;
}

static void greet(struct server *v, int fd) {
        struct core *o = v->o;
        struct ucred who;
        socklen_t size = sizeof who;

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 || who.uid == (uid_t)-1) {
                fd_close(&fd);
                return;
        }
        bool admin = who.uid == 0 || who.uid == o->own_uid;
        bool full = v->count >= (admin ? CLIENTS_MAX : CLIENTS_MAX - RESERVED) || fd >= v->fd_most;
        bool his_full = !admin && count_of(v, who.uid) >= o->conf.owner_clients;
        struct peer *p = peer_add(v, fd);
        if (!p)
                return;
        p->c.uid = who.uid;
        p->c.admin = admin;
        (void)snprintf(p->c.owner, sizeof p->c.owner, "uid:%u", who.uid);
        if (!full && !his_full)
                return;
        /* told and gone at once: it may hold nothing here */
        if (his_full)
                client_refuse_text(&p->c, "limit", "end some of them, or raise owner_clients in stockade.conf",
                                   "user %u has %llu connections open, which is the limit", who.uid,
                                   (unsigned long long)o->conf.owner_clients);
        else
                client_refuse_text(&p->c, "busy", "end some of them, or try again",
                                   "too many connections are open at the same time");
        peer_free(p);
}

void server_take(struct core *o, int fd) {
        struct server *v = o->server;
        struct stat st;
        int type = 0;
        socklen_t size = sizeof type;

        /* nothing but a stream: whatever else it may be could make us wait */
        bool good = v && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
                    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
                    count_of(v, FRONT_USER) < FRONT_MAX && v->count < CLIENTS_MAX - RESERVED;
        int flags = good ? fcntl(fd, F_GETFL) : -1;
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
                fd_close(&fd);
                return;
        }
        struct peer *p = peer_add(v, fd);
        if (!p)
                return;
        p->c.uid = FRONT_USER;
        p->c.front = true;
        (void)snprintf(p->c.owner, sizeof p->c.owner, "ssh");
}

void server_cut(struct core *o, uint64_t session) {
        struct peer *p = o->server ? o->server->first : NULL;

        while (p) {
                bool his = p->c.session == session;

                p->c.session = his ? 0 : p->c.session;
                if (his)
                        hang_up(p); /* others may go with it */
                p = his ? o->server->first : p->next;
        }
}

static void accept_some(struct loop_watch *w, uint32_t events) {
        struct server *v = LOOP_OWNER(w, struct server, watch);

        (void)events;
        for (unsigned i = 0; i < ACCEPT_AT_ONCE; i++) {
                int fd = accept4(v->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0) {
                        greet(v, fd);
                        continue;
                }
                if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
                        return;
                log_line(LOG_LEVEL_ERROR, NULL, "could not accept a connection: %s", err_name(-errno));
                loop_unwatch(v->o->loop, &v->watch);
                loop_timer_set(v->o->loop, &v->pause, loop_now(v->o->loop) + PAUSE_MS);
                return;
        }
}

static void resume(struct loop_timer *t) {
        struct server *v = LOOP_OWNER(t, struct server, pause);

        if (loop_watch(v->o->loop, &v->watch, v->listener, EPOLLIN) < 0)
                loop_timer_set(v->o->loop, &v->pause, loop_now(v->o->loop) + PAUSE_MS);
}

/* Some descriptors are kept for what clients ask for: without one for an answer of the warden's we would have to end.
 */
static int fd_most(void) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX)
                return INT_MAX;
        return (int)(files.rlim_cur - MIN(files.rlim_cur / 2, (rlim_t)SPARE_FDS));
}

int server_open(struct core *o, int listener, struct err *err) {
        struct server *v = calloc(1, sizeof *v);

        if (!v)
                return err_set(err, -ENOMEM, "could not open the local socket");
        *v = (struct server){.o = o, .listener = listener, .fd_most = fd_most()};
        v->watch.ready = accept_some;
        v->pause.fire = resume;
        int r = loop_watch(o->loop, &v->watch, listener, EPOLLIN);
        if (r < 0) {
                free(v);
                return err_set(err, r, "descriptor %d is not a listening socket", listener);
        }
        o->server = v;
        if (o->front)
                o->front->open(o);
        if (o->ssh_front)
                o->ssh_front->open(o);
        return 0;
}

void server_drain(struct core *o) {
        struct server *v = o->server;

        if (!v)
                return;
        if (o->front && !v->draining)
                o->front->drain(o);
        if (o->ssh_front && !v->draining)
                o->ssh_front->drain(o);
        v->draining = true; /* who connects now waits for the next operator, which has the same socket */
        loop_unwatch(o->loop, &v->watch);
        loop_timer_clear(o->loop, &v->pause);
}

void server_close(struct core *o) {
        struct server *v = o->server;

        if (!v)
                return;
        server_drain(o);
        if (o->front)
                o->front->close(o);
        if (o->ssh_front)
                o->ssh_front->close(o);
        for (struct peer *p; (p = v->first);) {
                hang_up(p);
                if (v->first == p) /* no `gone`, so nobody will answer it any more */
                        peer_free(p);
        }
        free(v);
        o->server = NULL;
}
