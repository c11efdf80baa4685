/* The link to a guest: a stream of frames (stream.c), each read by guest_read, judged by guest-state.c, and only then
 * handed to whoever it is for.
 *
 * Always holds: no frame reaches a callback that the guest was not allowed to send; what a guest may make us keep is
 * bounded by windows and by the queue. Must never: touch the link after a callback that closed it. */
#include "operator/guest-link.h"

#include <fcntl.h>
#include <stdarg.h>

#include "base/fd.h"
#include "operator/guest-state.h"
#include "operator/stream.h"

#define QUEUE_MARK (128U * 1024)
#define QUEUE_MOST (512U * 1024)
#define RESERVE    (64U * 1024) /* of the queue, for credit: what we owe a guest always fits, or it does not read */

struct guest_link {
        struct core *o;
        struct stream stream;
        struct guest_state state;
        const struct guest_link_events *events;
        void *data;
        bool closing; /* requests are being ended */
        bool silent;  /* its owner closed it meanwhile: nothing more is told */
        bool *gone;   /* set when the link is freed inside a callback */
        bool exec_waits;
        char why[160]; /* the breach, as a clause */
};

static ssize_t measure(struct stream *s, const uint8_t *bytes, size_t size);
static void frame(struct stream *s, const uint8_t *bytes, size_t size);
static void room(struct stream *s);
static void broken(struct stream *s, int error);

static const struct stream_events on_stream = {measure, frame, room, broken};

/* --- out --- */

static int put(struct guest_link *g, const struct guest_message *m, const char *const *argv, const char *const *envp,
               const int *fds, size_t fd_count, size_t most) {
        _cleanup_buf_ struct buf b = {0};

        guest_put(&b, m, argv, envp);
        if (!buf_ok(&b))
                return -EINVAL;
        if (g->stream.over)
                return -EPIPE;
        if (g->stream.queued > 0 && g->stream.queued + b.size > most)
                return -EAGAIN;
        return stream_send(&g->stream, b.data, b.size, fds, fd_count);
}

static int put_plain(struct guest_link *g, const struct guest_message *m) {
        return put(g, m, NULL, NULL, NULL, 0, QUEUE_MOST);
}

static void breach(struct guest_link *g, const char *format, ...) _printf_(2, 3);

/* What we owe it: room is reserved, so that it is missing only for a guest that does not read. */
static void put_owed(struct guest_link *g, const struct guest_message *m) {
        if (put(g, m, NULL, NULL, NULL, 0, QUEUE_MOST + RESERVE) == -EAGAIN)
                breach(g, "it does not read what it is sent");
}

int guest_link_open(struct core *o, int fd, const struct guest_link_events *events, void *data, struct guest_link **ret,
                    struct err *err) {
        struct guest_message hello = {.kind = GUEST_HELLO, .version = GUEST_VERSION};
        struct guest_link *g = calloc(1, sizeof *g);
        int flags = fcntl(fd, F_GETFL);

        if (!g || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
                int r = g ? -errno : -ENOMEM;
                free(g);
                fd_close(&fd);
                return err_set(err, r, "could not talk to a guest");
        }
        g->o = o;
        g->events = events;
        g->data = data;
        int r = stream_open(&g->stream, o->loop, fd, &on_stream, QUEUE_MARK, QUEUE_MOST + RESERVE);
        if (r < 0) {
                free(g);
                return err_set(err, r, "could not talk to a guest");
        }
        put_owed(g, &hello); /* an end of the connection is told from the loop, as always */
        *ret = g;
        return 0;
}

static void end_request(struct guest_request_state *q, const struct guest_message *m) {
        struct guest_request *r = q->owner;

        guest_state_end(q);
        if (!r)
                return;
        r->channel = 0;
        r->link = NULL;
        r->end(r, m);
}

/* The end of the link: requests first, then its owner is told, unless it is the one who closes. */
static void finish(struct guest_link *g, const char *why) {
        const struct guest_message reset = {
                .kind = GUEST_END, .error = -ECONNRESET, .text = "", .path = "", .target = ""};

        if (g->closing) {
                g->silent = true;
                return;
        }
        g->closing = true;
        if (g->gone)
                *g->gone = true;
        stream_close(&g->stream);
        for (size_t i = 0; g->state.requests && i < GUEST_REQUESTS_MAX; i++)
                if (g->state.requests[i].busy)
                        end_request(&g->state.requests[i], &reset);
        const struct guest_link_events *events = g->silent || !why ? NULL : g->events;
        void *data = g->data;
        guest_state_free(&g->state);
        free(g);
        if (events)
                events->broken(data, why);
}

void guest_link_close(struct guest_link *g) {
        if (g)
                finish(g, NULL);
}

static void breach(struct guest_link *g, const char *format, ...) {
        va_list args;

        if (g->stream.over)
                return;
        va_start(args, format);
        (void)vsnprintf(g->why, sizeof g->why, format, args);
        va_end(args);
        stream_break(&g->stream, -EBADMSG);
}

static void broken(struct stream *s, int error) {
        struct guest_link *g = LOOP_OWNER(s, struct guest_link, stream);
        char why[200];

        if (g->why[0])
                (void)snprintf(why, sizeof why, "the guest broke the protocol: %s", g->why);
        else
                (void)snprintf(why, sizeof why, "%s", error ? err_name(error) : "the guest closed the connection");
        finish(g, why);
}

/* --- runs, our side --- */

int guest_link_exec(struct guest_link *g, const struct guest_message *exec, const char *const *argv,
                    const char *const *envp, const int *fds, size_t fd_count) {
        struct guest_message m = *exec;

        m.kind = GUEST_EXEC;
        m.fds = (uint32_t)fd_count;
        if (fd_count > GUEST_FDS_MAX)
                return -EINVAL;
        if (g->state.unstarted >= GUEST_LINK_UNSTARTED || !stream_has_room(&g->stream)) {
                g->exec_waits = true;
                return g->stream.over ? -EPIPE : -EAGAIN;
        }
        uint32_t highest = g->state.highest;
        int r = guest_state_exec(&g->state, m.channel, m.flags);
        if (r < 0)
                return r == -EEXIST ? -EINVAL : r;
        r = put(g, &m, argv, envp, fds, fd_count, QUEUE_MOST);
        if (r < 0) { /* as if it had never been asked for: the same number may be tried again */
                guest_state_forget(&g->state, m.channel);
                g->state.highest = highest;
                g->exec_waits |= r == -EAGAIN;
        }
        return r;
}

int guest_link_attach(struct guest_link *g, const struct guest_message *run, const uint64_t offsets[GUEST_STREAMS]) {
        int r = g->stream.over ? -EPIPE : guest_state_attach(&g->state, run, offsets);

        for (unsigned i = 0; i < GUEST_STREAMS && r == 0; i++) {
                struct guest_message m = {.kind = GUEST_ATTACH,
                                          .channel = run->run,
                                          .stream = (enum guest_stream)i,
                                          .offset = offsets[i]};

                if (offsets[i] != UINT64_MAX && (i == GUEST_TTY) == !!(run->flags & GUEST_TERMINAL))
                        put_owed(g, &m);
        }
        return r;
}

ssize_t guest_link_input(struct guest_link *g, uint32_t run, const void *data, size_t size) {
        struct guest_run_state *r = guest_state_run(&g->state, run);

        if (g->stream.over)
                return -EPIPE;
        if (!r || !r->input || r->exited)
                return -ENOENT;
        size_t n = MIN(size, stream_has_room(&g->stream) ? guest_state_input_room(r) : 0);
        r->blocked = n < size;
        if (n == 0)
                return 0;
        struct guest_message m = {.kind = GUEST_INPUT, .channel = run, .data = data, .data_size = n};
        int e = put_plain(g, &m);
        if (e < 0)
                return e;
        r->in_sent += n;
        return (ssize_t)n;
}

int guest_link_send(struct guest_link *g, const struct guest_message *m) {
        switch ((int)m->kind) {
        case GUEST_SIGNAL:
        case GUEST_RESIZE:
                return put_plain(g, m);
        case GUEST_FORGET:
                guest_state_forget(&g->state, m->channel);
                put_owed(g, m);
                return 0;
        case GUEST_INPUT_END:
                put_owed(g, m);
                return 0;
        default:
                return -EINVAL;
        }
}

void guest_link_take(struct guest_link *g, uint32_t run, enum guest_stream stream, uint64_t offset) {
        struct guest_run_state *r = guest_state_run(&g->state, run);
        struct guest_message m = {.kind = GUEST_CREDIT, .channel = run, .stream = stream};

        if (r && !g->stream.over && guest_state_confirm(r, stream, offset, &m.offset))
                put_owed(g, &m);
}

bool guest_link_has_room(const struct guest_link *g) {
        return stream_has_room(&g->stream);
}

/* --- requests, our side --- */

/* The version that has a kind of request. */
static uint32_t since(enum guest_kind kind) {
        return kind == GUEST_LEAF_END ? 4 : kind == GUEST_WRITE_IF ? 3 : 1;
}

int guest_link_ask(struct guest_link *g, struct guest_request *r, struct guest_message *m) {
        if (g->stream.over)
                return -EPIPE;
        if (!stream_has_room(&g->stream) || (since(m->kind) > 1 && !g->state.hello))
                return -EAGAIN;
        if (g->state.hello && g->state.version < since(m->kind))
                return -EOPNOTSUPP;
        m->channel = guest_state_ask(&g->state, m, r);
        if (m->channel == 0)
                return -EAGAIN;
        int e = put_plain(g, m);
        if (e < 0) {
                guest_state_end(guest_state_request(&g->state, m->channel));
                return e;
        }
        r->channel = m->channel;
        r->link = g;
        return 0;
}

static struct guest_request_state *state_of(const struct guest_request *r) {
        return r->link ? guest_state_request(&r->link->state, r->channel) : NULL;
}

ssize_t guest_link_data(struct guest_request *r, const void *data, size_t size) {
        struct guest_request_state *q = state_of(r);

        if (!q || !guest_state_sends_data(q))
                return -EPIPE;
        size_t n = MIN(size, stream_has_room(&r->link->stream) ? guest_state_data_room(q) : 0);
        q->blocked = n < size;
        if (n == 0)
                return 0;
        struct guest_message m = {.kind = GUEST_DATA, .channel = r->channel, .data = data, .data_size = n};
        int e = put_plain(r->link, &m);
        if (e < 0)
                return e;
        q->sent += n;
        return (ssize_t)n;
}

int guest_link_finish(struct guest_request *r) {
        struct guest_message m = {.kind = GUEST_FINISH, .channel = r->channel};

        if (!state_of(r))
                return -EPIPE;
        put_owed(r->link, &m);
        return 0;
}

void guest_link_cancel(struct guest_request *r) {
        struct guest_request_state *q = state_of(r);
        struct guest_message m = {.kind = GUEST_CANCEL, .channel = r->channel};

        if (!q)
                return;
        q->owner = NULL;
        put_owed(r->link, &m);
        r->channel = 0;
        r->link = NULL;
}

void guest_link_more(struct guest_request *r) {
        struct guest_request_state *q = state_of(r);
        struct guest_message m = {.kind = GUEST_CREDIT, .channel = r->channel, .stream = GUEST_OF_REQUEST};

        if (q && guest_state_confirm_data(q, &m.offset))
                put_owed(r->link, &m);
}

/* --- in --- */

static ssize_t measure(struct stream *s, const uint8_t *bytes, size_t size) {
        struct guest_link *g = LOOP_OWNER(s, struct guest_link, stream);
        uint32_t payload, channel;
        uint16_t kind;

        if (size < GUEST_HEAD)
                return 0;
        if (guest_head(bytes, &payload, &kind, &channel) < 0) {
                breach(g, "it sent what can be no frame");
                return -EBADMSG;
        }
        if (payload > guest_state_payload_max(kind)) {
                breach(g, "it sent a frame '%s' of %u bytes", guest_kind_name((enum guest_kind)kind), payload);
                return -EBADMSG;
        }
        return (ssize_t)(GUEST_HEAD + payload);
}

/* Calls for whoever waits for room to send input of a run, or to start one. Returns false if the link is gone. */
static bool tell_runs(struct guest_link *g) {
        bool gone = false;

        g->gone = &gone;
        for (size_t i = 0; i < g->state.run_count;) {
                struct guest_run_state *r = &g->state.runs[i];

                if (!r->blocked || guest_state_input_room(r) == 0 || !stream_has_room(&g->stream)) {
                        i++;
                        continue;
                }
                r->blocked = false;
                if (g->events->room)
                        g->events->room(g->data, r->number);
                if (gone)
                        return false;
                i = 0; /* others may have come and gone */
        }
        if (g->exec_waits && g->state.unstarted < GUEST_LINK_UNSTARTED) {
                g->exec_waits = false;
                if (g->events->room)
                        g->events->room(g->data, 0);
                if (gone)
                        return false;
        }
        g->gone = NULL;
        return true;
}

static void room(struct stream *s) {
        struct guest_link *g = LOOP_OWNER(s, struct guest_link, stream);
        bool gone = false;

        if (!tell_runs(g))
                return;
        g->gone = &gone;
        for (size_t i = 0; g->state.requests && i < GUEST_REQUESTS_MAX; i++) {
                struct guest_request_state *q = &g->state.requests[i];

                if (!q->busy || !q->blocked || !q->owner || guest_state_data_room(q) == 0)
                        continue;
                q->blocked = false;
                if (q->owner->room)
                        q->owner->room(q->owner);
                if (gone)
                        return;
        }
        g->gone = NULL;
}

static void take_run(struct guest_link *g, const struct guest_message *m, struct guest_run_state *r) {
        bool gone = false;

        switch ((int)m->kind) {
        case GUEST_OUTPUT:
                g->gone = &gone;
                bool dealt = g->events->output(g->data, m->channel, m->stream, m->offset, m->data, m->data_size);
                if (gone)
                        return;
                g->gone = NULL;
                if (dealt)
                        guest_link_take(g, m->channel, m->stream, m->offset + m->data_size);
                break;
        case GUEST_CREDIT:
                if (r->blocked)
                        (void)tell_runs(g);
                break;
        case GUEST_STARTED:
        case GUEST_EXITED:
                g->gone = &gone;
                if (m->kind == GUEST_STARTED)
                        g->events->started(g->data, m->channel, m->number);
                else
                        g->events->exited(g->data, m);
                if (gone)
                        return;
                g->gone = NULL;
                if (g->exec_waits)
                        (void)tell_runs(g);
                break;
        default:
                break;
        }
}

static void take_request(struct guest_link *g, const struct guest_message *m, struct guest_request_state *q) {
        struct guest_request *r = q->owner;
        bool gone = false;

        switch ((int)m->kind) {
        case GUEST_END:
                end_request(q, m);
                break;
        case GUEST_DATA:
                g->gone = &gone;
                bool dealt = !r->data || r->data(r, m->data, m->data_size);
                if (gone)
                        return;
                g->gone = NULL;
                if (dealt && q->owner == r) /* not cancelled meanwhile */
                        guest_link_more(r);
                break;
        case GUEST_CREDIT:
                if (q->blocked && stream_has_room(&g->stream)) {
                        q->blocked = false;
                        if (r->room)
                                r->room(r);
                }
                break;
        default:
                if (r->item)
                        r->item(r, m);
        }
}

static void frame(struct stream *s, const uint8_t *bytes, size_t size) {
        struct guest_link *g = LOOP_OWNER(s, struct guest_link, stream);
        struct guest_message m;
        struct guest_place at;

        if (guest_read(bytes, size, &m) < 0) {
                uint32_t payload, channel;
                uint16_t kind = 0;

                (void)guest_head(bytes, &payload, &kind, &channel);
                breach(g, "it sent a malformed frame '%s'", guest_kind_name((enum guest_kind)kind));
                return;
        }
        switch (guest_state_take(&g->state, &m, &at)) {
        case GUEST_PASS:
                if (m.kind == GUEST_HELLO)
                        g->events->hello(g->data);
                else if (at.run)
                        take_run(g, &m, at.run);
                else
                        take_request(g, &m, at.request);
                break;
        case GUEST_DROP:
                break;
        case GUEST_BREACH:
        default:
                breach(g, "%s", at.why);
        }
}
