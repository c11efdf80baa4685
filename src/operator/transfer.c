/* Transfers. What a client sent that is not whole never counts as sent, whatever the child made of it. */
#include "operator/transfer.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

#define STALL_MS      (60 * 1000) /* a client that neither reads nor sends for so long has left */
#define PIECE         (64 * 1024)
#define QUESTION_MAX  8192        /* what every pipe holds */
#define LINE_MAX_SIZE (64 * 1024) /* a path and the target of a link, each byte as \u00xx */
#define REST_MS       200

/* --- whose turn it is -----------------------------------------------------------------------------------------------
 */

static bool owner_busy(const struct transfer *t) {
        for (const struct transfer *i = t->o->registry->transfers; i; i = i->next)
                if (i->running && i->brief == t->brief && str_eq(i->call->owner, t->call->owner))
                        return true;
        return false;
}

/* Whoever gets bytes may take his time with them: one of the warden's places stays for those who only look. */
static bool places_taken(const struct transfer *t) {
        unsigned reading = 0;

        for (const struct transfer *i = t->o->registry->transfers; i; i = i->next)
                reading += i->running && i->brief && !i->line;
        return t->brief && !t->line && reading >= WARDEN_WORK_MAX - 1;
}

/* Each look has its disks mounted by the warden itself, which hears nobody else meanwhile: whoever had one rests for as
 * long as it took, so that half of the time is others'. How long, of the loop's clock; 0: it may begin. */
static uint64_t rests_until(const struct transfer *t) {
        struct owner *w = t->brief ? owner_get(t->o, t->call->owner) : NULL;

        return w && w->rests_until > loop_now(t->o->loop) ? w->rests_until : 0;
}

static void rest_begins(const struct transfer *t) {
        struct owner *w = t->brief && t->running ? owner_get(t->o, t->call->owner) : NULL;
        uint64_t now = loop_now(t->o->loop);

        if (w)
                w->rests_until = now + MIN(now - t->begun, (uint64_t)REST_MS);
}

static void run(struct transfer *t);

static void rested(struct loop_timer *timer) {
        struct registry *r = LOOP_OWNER(timer, struct registry, transfer_timer);

        loop_later(r->o->loop, &r->transfer_task);
}

/* One of each owner's at a time: nobody can take all of the warden's places. */
static void run_next(struct loop_task *task) {
        struct registry *r = LOOP_OWNER(task, struct registry, transfer_task);
        uint64_t soonest = UINT64_MAX;

        for (struct transfer *t = r->transfers; t; t = t->next) {
                if (t->running || owner_busy(t) || places_taken(t))
                        continue;
                uint64_t rests = rests_until(t);
                if (rests == 0) {
                        run(t);
                        loop_later(r->o->loop, &r->transfer_task);
                        return; /* the list may have changed */
                }
                soonest = MIN(soonest, rests);
        }
        r->transfer_timer.fire = rested;
        if (soonest < UINT64_MAX)
                loop_timer_set(r->o->loop, &r->transfer_timer, soonest);
}

static void leave_list(struct transfer *t) {
        struct registry *r = t->o->registry;

        for (struct transfer **p = &r->transfers; *p; p = &(*p)->next)
                if (*p == t) {
                        *p = t->next;
                        break;
                }
        r->transfer_task.run = run_next;
        loop_later(t->o->loop, &r->transfer_task);
}

void transfer_free(struct transfer *t) {
        rest_begins(t);
        leave_list(t);
        loop_timer_clear(t->o->loop, &t->stall);
        loop_unwatch(t->o->loop, &t->watch);
        fd_close(&t->fd);
        free(t->rest);
        free(t->question);
        free(t);
}

static void settle(struct transfer *t) {
        if (!t->ended || !t->answered)
                return;
        if (t->error == 0 && t->in && !t->whole)
                t->error = call_err(&t->err, -ECANCELED, "the client went away before everything was sent");
        if (t->error == 0 && !t->in && t->gone)
                t->error = call_err(&t->err, -ECANCELED, "it was not read for %d s: what came is not all of it",
                                    STALL_MS / 1000);
        t->done(t);
}

static void end_pipe(struct transfer *t) {
        loop_unwatch(t->o->loop, &t->watch);
        fd_close(&t->fd);
        t->ended = true;
}

static void stalled(struct loop_timer *timer) {
        struct transfer *t = LOOP_OWNER(timer, struct transfer, stall);

        if (t->ended)
                return;
        t->gone = true; /* as if it had gone: what came is not whole */
        end_pipe(t);
        settle(t);
}

/* It is the client's turn; it has a while. */
static void await_client(struct transfer *t) {
        t->stall.fire = stalled;
        loop_timer_set(t->o->loop, &t->stall, loop_now(t->o->loop) + STALL_MS);
}

/* --- out ------------------------------------------------------------------------------------------------------------
 */

static void give_lines(struct transfer *t) {
        char *start = (char *)t->rest, *end;

        t->rest[t->rest_size] = '\0';
        while ((end = strchr(start, '\n'))) {
                *end = '\0';
                if (t->call->client)
                        t->line(t, start);
                start = end + 1;
        }
        t->rest_size -= (size_t)((uint8_t *)start - t->rest);
        memmove(t->rest, start, t->rest_size);
        if (t->rest_size >= LINE_MAX_SIZE)
                t->rest_size = 0; /* no line of ours is that long */
}

static void read_pipe(struct transfer *t) {
        static uint8_t piece[PIECE];

        for (unsigned i = 0; i < 8; i++) {
                if (t->call->client && !client_has_room(t->call->client)) {
                        loop_unwatch(t->o->loop, &t->watch);
                        await_client(t);
                        return;
                }
                ssize_t n = t->line ? read(t->fd, t->rest + t->rest_size, LINE_MAX_SIZE - t->rest_size)
                                    : read(t->fd, piece, sizeof piece);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
                if (n <= 0) {
                        end_pipe(t);
                        settle(t);
                        return;
                }
                t->bytes += (uint64_t)n;
                if (t->line) {
                        t->rest_size += (size_t)n;
                        give_lines(t);
                } else if (t->call->client)
                        (void)client_send(t->call->client, LOCAL_OUTPUT, piece, (size_t)n);
        }
}

static void client_writable(struct client *client) {
        struct call *c = client->data;
        struct transfer *t = c->data;

        loop_timer_clear(t->o->loop, &t->stall);
        if (t->fd >= 0)
                (void)loop_watch(t->o->loop, &t->watch, t->fd, EPOLLIN);
}

/* --- in -------------------------------------------------------------------------------------------------------------
 */

static void write_pipe(struct transfer *t) {
        while (t->fd >= 0 && t->rest_at < t->rest_size) {
                ssize_t n = write(t->fd, t->rest + t->rest_at, t->rest_size - t->rest_at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN) {
                        (void)loop_watch(t->o->loop, &t->watch, t->fd, EPOLLOUT);
                        return;
                }
                if (n < 0) { /* the child has had enough, or is gone: its answer says which */
                        end_pipe(t);
                        break;
                }
                t->rest_at += (size_t)n;
                t->bytes += (uint64_t)n;
        }
        loop_unwatch(t->o->loop, &t->watch);
        t->rest_size = t->rest_at = 0;
        if (t->whole && t->fd >= 0)
                end_pipe(t);
        if (t->call->client)
                client_hold_input(t->call->client, false);
        if (!t->ended)
                await_client(t);
        settle(t);
}

static void client_input(struct client *client, enum local_kind kind, const uint8_t *data, size_t size) {
        struct call *c = client->data;
        struct transfer *t = c->data;

        if (kind == LOCAL_FINISH)
                t->whole = true;
        else if (kind == LOCAL_INPUT && t->fd >= 0 && size <= LOCAL_FRAME_MAX) {
                memcpy(t->rest, data, size);
                t->rest_size = size;
                t->rest_at = 0;
                client_hold_input(client, true); /* until this is in the pipe */
        } else
                return;
        loop_timer_clear(t->o->loop, &t->stall);
        write_pipe(t);
}

static void ready(struct loop_watch *w, uint32_t events) {
        struct transfer *t = LOOP_OWNER(w, struct transfer, watch);

        (void)events;
        if (t->in)
                write_pipe(t);
        else
                read_pipe(t);
}

/* --- both -----------------------------------------------------------------------------------------------------------
 */

static void client_gone(struct call *c) {
        struct transfer *t = c->data;

        t->gone = true;
        if (!t->running) { /* nobody has begun: nothing is to be undone */
                t->ended = t->answered = true;
                t->error = call_err(&t->err, -ECANCELED, "the client went away");
                settle(t);
        } else if (!t->ended) {
                end_pipe(t);
                settle(t);
        }
}

static void answered(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct transfer *t = data;

        (void)fds;
        (void)fd_count;
        t->answered = true;
        t->answer = *answer;
        copy_text(t->text, sizeof t->text, answer->text ? answer->text : "");
        t->answer.text = t->answer.hint = "";
        t->error = answer->error;
        if (t->error < 0) {
                t->err.code = t->error;
                copy_text(t->err.text, sizeof t->err.text, answer->text[0] ? answer->text : err_name(t->error));
                copy_text(t->err.hint, sizeof t->err.hint, answer->hint);
        }
        if (t->in && !t->ended) /* the child needs no more */
                end_pipe(t);
        if (t->in && t->error == 0)
                t->whole = t->whole || !t->gone;
        settle(t);
}

struct transfer *transfer_new(struct call *c, bool in, void (*done)(struct transfer *t)) {
        struct transfer *t = calloc(1, sizeof *t);

        if (t)
                t->rest = malloc(MAX((size_t)LOCAL_FRAME_MAX, (size_t)LINE_MAX_SIZE) + 1);
        if (!t || !t->rest) {
                free(t);
                call_refuse_text(c, "failed", "try again", "out of memory");
                return NULL;
        }
        t->o = c->o;
        t->call = c;
        t->fd = -EBADF;
        t->in = in;
        t->done = done;
        t->watch.ready = ready;
        return t;
}

/* The question, ready to be read to its end: nobody waits for anybody. */
static int question_pipe(const struct transfer *t, int *ret) {
        int ends[2];

        if (!t->question)
                return 0;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        ssize_t n = t->question_size <= QUESTION_MAX ? write(ends[1], t->question, t->question_size) : -1;
        (void)close(ends[1]);
        *ret = ends[0];
        return n == (ssize_t)t->question_size ? 0 : -EMSGSIZE;
}

static void run(struct transfer *t) {
        struct call *c = t->call;
        _cleanup_fd_ int question = -EBADF;
        int ends[2] = {-EBADF, -EBADF};
        int r = pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;

        t->running = true;
        t->begun = loop_now(t->o->loop);
        if (r == 0) {
                t->fd = ends[t->in];
                r = fcntl(t->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : question_pipe(t, &question);
        }
        if (r == 0)
                r = warden_call(t->o, &t->request, question >= 0 ? (int[]){question, ends[!t->in]} : &ends[!t->in],
                                question >= 0 ? 2 : 1, answered, t);
        if (ends[0] >= 0)
                (void)close(ends[!t->in]);
        if (r == 0 && !t->in)
                r = loop_watch(t->o->loop, &t->watch, t->fd, EPOLLIN);
        if (r < 0) {
                warden_forget(t->o, t);
                t->answered = t->ended = true;
                t->error = call_err(&t->err, r, "a pipe could not be made: %s", err_name(r));
                t->done(t);
                return;
        }
        if (!c->client)
                client_gone(c);
        else if (t->in) {
                c->client->input = client_input;
                await_client(t);
                client_hold_input(c->client, false);
        } else
                c->client->writable = client_writable;
}

void transfer_begin(struct transfer *t, const struct warden_message *m) {
        struct registry *r = t->o->registry;
        struct transfer **last = &r->transfers;

        t->request = *m;
        copy_text(t->words, sizeof t->words, m->text ? m->text : "");
        t->request.text = t->words;
        t->request.hint = "";
        t->call->data = t;
        t->call->gone = client_gone;
        while (*last)
                last = &(*last)->next;
        *last = t;
        r->transfer_task.run = run_next;
        loop_later(t->o->loop, &r->transfer_task);
}
