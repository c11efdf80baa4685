/* The life of an exchange.
 *
 * Always holds: while `busy`, a verb has it and answers exactly once, or is told `gone`; while there is a connection,
 * it is either inside libmicrohttpd's hands or suspended, and whoever makes an answer wakes it. The memory goes when
 * neither has it. */
#include "api/exchange.h"

#include <time.h>

#include "api/breaker.h"
#include "api/head.h"
#include "api/metrics.h"
#include "api/refusal.h"
#include "api/route.h"
#include "api/who.h"
#include "auth/capability.h"
#include "base/json-read.h"

#define BODY_MS      30000       /* for a body that is read whole */
#define GATHER_ALL   (64U << 20) /* that all exchanges keep */
#define GATHER_OWNER (16U << 20) /* and those of one owner */
#define BODY_FREE    (16U << 10) /* of a body that is read whole: not counted */
#define GATHER_STEP  (64U << 10)
#define DISCARD_MAX  (8U << 20) /* of a body that nobody wants, so that its sender comes to hear why */

static uint64_t now_us(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* In steps, so that the owner's others are counted now and then and not for every frame. */
static size_t in_steps(size_t size) {
        return (size + GATHER_STEP - 1) & ~(size_t)(GATHER_STEP - 1);
}

static void set_kept(struct exchange *x, size_t base, size_t kept) {
        size_t step = in_steps(base + kept);

        x->api->gathered = x->api->gathered - x->gathered + step;
        x->gathered = step;
        x->base = base;
        x->kept = kept;
}

static bool may_keep(struct exchange *x, size_t base, size_t kept) {
        size_t step = in_steps(base + kept), owner = step;

        if (step > x->gathered) {
                for (const struct exchange *y = x->api->exchanges; y; y = y->next)
                        if (y != x && y->gathered > 0 && str_eq(y->c.owner, x->c.owner))
                                owner += y->gathered;
                if (owner > GATHER_OWNER || x->api->gathered - x->gathered + step > GATHER_ALL)
                        return false;
        }
        set_kept(x, base, kept);
        return true;
}

static struct exchange *of(struct client *c) {
        return LOOP_OWNER(c, struct exchange, c);
}

struct link *exchange_link(const struct exchange *x) {
        return x->link;
}

bool exchange_is_suspended(const struct exchange *x) {
        return x->suspended;
}

/* It may hold secrets. */
static void drop_body(struct exchange *x) {
        if (x->body.data)
                explicit_bzero(x->body.data, x->body.size);
        buf_free(&x->body);
}

/* Whether its sandbox answered, for those who ask it next. */
static void note(const struct exchange *x) {
        const char *sandbox = x->asked && x->route ? route_param(x, "sandbox") : NULL;

        if (!sandbox || !breaker_is_for(x->route->verb) || x->status == 0 || x->failed)
                return;
        bool fault = x->code && breaker_is_fault(x->route->verb, x->code);
        if (fault || !x->code || x->status < 500)
                breaker_note(x->api->breakers, x->c.owner, sandbox, fault ? x->code : NULL, loop_now(x->api->o->loop));
}

static void forget(struct exchange *x) {
        struct api *a = x->api;

        note(x);

        if (x->next)
                x->next->previous = x->previous;
        if (x->previous)
                x->previous->next = x->next;
        else
                a->exchanges = x->next;
        a->gathered -= x->gathered;
        capability_close(x->capability);
        loop_cancel(a->o->loop, &x->room);
        loop_cancel(a->o->loop, &x->feeding);
        if (x->view && x->view->free)
                x->view->free(x);
        if (x->response)
                MHD_destroy_response(x->response);
        drop_body(x);
        buf_free(&x->out);
        if (x->request) /* it may hold secrets */
                explicit_bzero(x->request, strlen(x->request));
        free(x->request);
        free(x->feed);
        free(x->path);
        free(x);
}

/* Suspended connections are nobody's: from here on it is us who wake it. */
static void wait_for_us(struct exchange *x) {
        if (!x->suspended) {
                x->suspended = true;
                MHD_suspend_connection(x->connection);
        }
}

void exchange_wake(struct exchange *x) {
        if (!x->suspended || !x->connection)
                return;
        x->suspended = false;
        MHD_resume_connection(x->connection);
        http_wake(x->api);
}

/* --- the door's side ------------------------------------------------------------------------------------------------
 */

static void door_send(struct client *c, enum local_kind kind, const void *data, size_t size) {
        struct exchange *x = of(c);

        if (x->busy && x->connection && !x->failed && x->view && x->view->frame)
                x->view->frame(x, kind, data, size);
}

static bool door_has_room(const struct client *c) {
        const struct exchange *x = (const struct exchange *)(const void *)c;

        if (!x->busy || !x->connection || x->failed)
                return false;
        return x->view && x->view->has_room ? x->view->has_room(x) : x->out.size - x->out_at < EXCHANGE_MARK;
}

static void door_hold_input(struct client *c, bool hold) {
        struct exchange *x = of(c);

        x->held = hold || !c->input;
        if (x->held)
                return;
        if (x->feed)
                loop_later(x->api->o->loop, &x->feeding);
        else if (x->view && x->view->released)
                x->view->released(x);
        else if (!x->inside && !x->streaming)
                exchange_wake(x);
}

/* The verb lets go of it. False: nobody is there any more, and it is gone. */
static bool let_go(struct exchange *x) {
        if (!x->busy)
                return false;
        x->busy = false;
        if (!x->connection) {
                forget(x);
                return false;
        }
        return true;
}

static void door_answer(struct client *c, const char *result) {
        struct exchange *x = of(c);

        if (!let_go(x))
                return;
        if (x->view && x->view->answer)
                x->view->answer(x, result); /* which may ask another verb */
        else if (x->streaming)
                reply_end(x);
        else {
                struct buf b = {.max = LOCAL_ANSWER_MAX};

                buf_str(&b, result);
                reply_json(x, route_status(x->route), &b);
        }
}

static void door_refuse(struct client *c, const char *code, const char *message, const char *hint) {
        struct exchange *x = of(c);

        if (!let_go(x))
                return;
        if (!x->streaming && x->view && x->view->unanswered)
                x->view->unanswered(x, code, message, hint);
        else if (!x->streaming)
                reply_refused(x, code, message, hint);
        else if (x->view && x->view->refuse)
                x->view->refuse(x, code, message, hint);
        else
                reply_fail(x);
}

static const struct client_door door = {door_send, door_has_room, door_hold_input, door_answer, door_refuse};

static void tell_room(struct loop_task *t) {
        struct exchange *x = LOOP_OWNER(t, struct exchange, room);

        if (x->busy && x->c.writable && door_has_room(&x->c))
                x->c.writable(&x->c);
}

static void give(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        if (x->view && x->view->input)
                x->view->input(x, kind, data, size);
        else
                x->c.input(&x->c, kind, data, size);
}

static void feed(struct loop_task *t) {
        struct exchange *x = LOOP_OWNER(t, struct exchange, feeding);

        while (x->feed && x->busy && !x->held && x->c.input) {
                size_t n = MIN(x->feed_size - x->feed_at, (size_t)LOCAL_FRAME_MAX);

                if (n == 0) {
                        free(TAKE_PTR(x->feed));
                        x->c.input(&x->c, LOCAL_FINISH, NULL, 0);
                        return;
                }
                x->feed_at += n;
                x->c.input(&x->c, LOCAL_INPUT, (const uint8_t *)x->feed + x->feed_at - n, n);
        }
}

void exchange_feed(struct exchange *x, char *text, size_t size) {
        free(x->feed);
        x->feed = text;
        x->feed_size = size;
        x->feed_at = 0;
        if (size > BODY_FREE) /* it was counted with the body that it came in */
                set_kept(x, x->base + size, x->kept);
        loop_later(x->api->o->loop, &x->feeding);
}

/* --- its beginning and end ------------------------------------------------------------------------------------------
 */

struct exchange *exchange_new(struct link *l, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version) {
        struct exchange *x = calloc(1, sizeof *x);

        if (!x)
                return NULL;
        x->api = l->api;
        x->link = l;
        x->connection = c;
        x->url = url;
        x->method = method;
        x->version = version;
        x->begun = now_us();
        x->room.run = tell_room;
        x->feeding.run = feed;
        x->c = (struct client){.door = &door, .o = l->api->o, .uid = (uid_t)-1};
        x->held = true;
        x->next = x->api->exchanges;
        if (x->next)
                x->next->previous = x;
        x->api->exchanges = x;
        l->exchange = x;
        return x;
}

void exchange_over(struct exchange *x) {
        metrics_done(x->api->metrics, x->route, x->status, now_us() - x->begun);
        if (x->link)
                x->link->exchange = NULL;
        x->link = NULL;
        x->connection = NULL;
        if (!x->busy) {
                forget(x);
                return;
        }
        if (!x->c.gone) /* the verb answers in its time, to nobody */
                return;
        x->busy = false;
        x->c.gone(&x->c);
        forget(x);
}

/* Found out by us, while it was suspended. */
void exchange_lose(struct exchange *x) {
        x->failed = x->close = true;
        if (x->busy && x->c.gone) {
                x->busy = false;
                x->c.gone(&x->c);
        }
        http_cut(x->link);
}

void exchange_tick(struct exchange *x, uint64_t now) {
        if (who_is_over(x)) { /* a session that ended, or was revoked, ends what it opened */
                exchange_lose(x);
                return;
        }
        if (x->deadline > 0 && now >= x->deadline && !x->streaming && x->busy && x->c.gone) {
                x->busy = false;
                x->c.gone(&x->c);
                reply_error(x, "timeout", "it goes on; ask for its state, or give it more time",
                            "there was no answer within %u seconds", x->route->deadline_ms / 1000);
                return;
        }
        if (x->view && x->view->tick)
                x->view->tick(x, now);
}

/* --- libmicrohttpd's side -------------------------------------------------------------------------------------------
 */

static enum MHD_Result send_response(struct exchange *x) {
        struct MHD_Response *r = TAKE_PTR(x->response);
        enum MHD_Result done = refusal_queue(x->connection, x->status, r);

        MHD_destroy_response(r);
        return done;
}

enum MHD_Result exchange_begin(struct exchange *x) {
        x->inside = true;
        if (head_check(x) && route_find(x) && route_rate(x) && who_asks(x) && route_admit(x)) {
                x->view = x->route->view;
                x->deadline = loop_now(x->api->o->loop) + x->route->deadline_ms;
                if (x->route->flags & ROUTE_INPUT)
                        route_begin(x);
                else if (x->has_body)
                        x->link->expires = loop_now(x->api->o->loop) + BODY_MS;
        }
        x->inside = false;
        x->discard = x->response != NULL || x->streaming;
        /* at once where what follows is doubtful, or too long to be read for nothing, or waits for our word */
        bool now = x->doubt || x->head.expect || (x->head.length && strlen(x->head.length) > 7);
        return x->response && x->has_body && now ? send_response(x) : MHD_YES;
}

static enum MHD_Result take_piece(struct exchange *x, const char *upload, size_t *size) {
        size_t n = *size;

        x->moved += n;
        if (x->response || x->failed || x->discard) { /* it was answered early: what still comes is for nobody */
                x->discarded += n;
                *size = 0;
                return x->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
        }
        if (!(x->route->flags & ROUTE_INPUT)) {
                if (x->body.size + n > x->route->body) {
                        x->close = true;
                        reply_error(x, "too_large", "send less at a time", "the body has more than %zu bytes",
                                    x->route->body);
                } else if (x->body.size + n > BODY_FREE && !may_keep(x, x->body.size + n, x->kept)) {
                        x->close = true;
                        reply_error(x, "busy", "send it again when others of yours are through",
                                    "too much is being sent at the same time");
                } else
                        buf_add(&x->body, upload, n);
                *size = 0;
                return MHD_YES;
        }
        while (n > 0 && !x->held && x->c.input && x->busy) {
                size_t part = MIN(n, (size_t)LOCAL_FRAME_MAX);

                give(x, LOCAL_INPUT, (const uint8_t *)upload, part);
                upload += part;
                n -= part;
        }
        *size = n;
        x->moved -= n;
        if (n > 0 && x->busy)
                wait_for_us(x);
        return MHD_YES;
}

enum MHD_Result exchange_go_on(struct exchange *x, const char *upload, size_t *upload_size) {
        enum MHD_Result r = MHD_YES;

        x->inside = true;
        if (x->failed && !x->streaming)
                r = MHD_NO;
        else if (*upload_size > 0)
                r = take_piece(x, upload, upload_size);
        else {
                if (!x->finished && !x->response) {
                        if (!(x->route->flags & ROUTE_INPUT)) {
                                x->finished = true;
                                x->link->expires = 0;
                                route_begin(x);
                        } else if (x->busy && !x->held && x->c.input) {
                                x->finished = true;
                                give(x, LOCAL_FINISH, NULL, 0);
                        }
                }
                if (x->response)
                        r = send_response(x);
                else if (!x->busy) /* answered by nobody: our fault */
                        r = MHD_NO;
                else
                        wait_for_us(x);
        }
        x->inside = false;
        return r;
}

/* --- for routes ------------------------------------------------------------------------------------------------------
 */

void exchange_dispatch(struct exchange *x, struct buf *request) {
        if (!buf_ok(request) || !request->data) {
                buf_free(request);
                reply_error(x, "failed", "ask for less at a time", "out of memory");
                return;
        }
        drop_body(x);
        free(x->request);
        x->request = TAKE_PTR(request->data);
        x->asked = true;
        x->c.request = x->request;
        x->c.request_size = request->size;
        if (x->api->draining) {
                x->close = true;
                reply_error(x, "busy", "try again in a moment", "the operator is ending");
                return;
        }
        x->busy = true;
        if (!may_keep(x, request->size > BODY_FREE ? request->size : 0, x->kept)) {
                door_refuse(&x->c, "busy", "too much is being sent at the same time",
                            "send it again when others of yours are through");
                return;
        }
        verbs_dispatch(&x->c);
        if (x->busy && x->c.input)
                x->held = false;
}

bool exchange_gather(struct exchange *x, size_t size) {
        return may_keep(x, x->base, size);
}

void exchange_hold(struct exchange *x) {
        x->busy = true;
        x->c.gone = NULL;
        x->c.input = NULL;
        x->c.writable = NULL;
}

void exchange_release(struct exchange *x) {
        (void)let_go(x);
}
