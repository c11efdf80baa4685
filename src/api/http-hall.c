/* See http-hall.h. What has come is looked at and left where it is: libmicrohttpd reads it. So a socket is watched for
 * changes only (EPOLLET), since it stays readable; and each byte that comes has those before it looked at again, which
 * LOOK keeps cheap: a head that is longer than that goes on unfinished.
 *
 * What always holds: all have the same time, so the list is in the order in which they are due, with those that have
 * gone already in front.
 *
 * Must never: judge what was said; close more than AT_ONCE connections for each door in a turn. */
#include "api/http-hall.h"

#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"

#define WAIT_MS 30000 /* for the whole head */
#define LOOK    2048  /* bytes of it */
#define AT_ONCE 4     /* connections that are closed in one turn, for each door: as many as http.c accepts there */

/* --- the list ------------------------------------------------------------------------------------------------------
 */

static void append(struct link *l) {
        struct hall *h = &l->api->hall;

        l->next = NULL;
        l->previous = h->last;
        if (h->last)
                h->last->next = l;
        else
                h->first = l;
        h->last = l;
}

static void prepend(struct link *l) {
        struct hall *h = &l->api->hall;

        l->previous = NULL;
        l->next = h->first;
        if (h->first)
                h->first->previous = l;
        else
                h->last = l;
        h->first = l;
}

static void unlink_it(struct link *l) {
        struct hall *h = &l->api->hall;

        if (l->next)
                l->next->previous = l->previous;
        else
                h->last = l->previous;
        if (l->previous)
                l->previous->next = l->next;
        else
                h->first = l->next;
        l->next = l->previous = NULL;
}

static void set_timer(struct api *a) {
        struct link *l = a->hall.first;

        if (!l)
                loop_timer_clear(a->o->loop, &a->hall.timer);
        else if (l->expires > loop_now(a->o->loop))
                loop_timer_set(a->o->loop, &a->hall.timer, l->expires);
        else
                loop_later(a->o->loop, &a->hall.task);
}

/* The others in the next turn, which has what came meanwhile before it. */
static void on_task(struct loop_task *t) {
        struct api *a = LOOP_OWNER(t, struct api, hall.task);
        uint64_t now = loop_now(a->o->loop);

        for (unsigned i = 0; i < AT_ONCE * a->door_count && a->hall.first && a->hall.first->expires <= now; i++) {
                struct link *l = a->hall.first;

                loop_unwatch(a->o->loop, &l->watch);
                unlink_it(l);
                http_leave(l);
        }
        set_timer(a);
}

static void on_timer(struct loop_timer *t) {
        struct api *a = LOOP_OWNER(t, struct api, hall.timer);

        loop_later(a->o->loop, &a->hall.task);
}

/* --- one of them ----------------------------------------------------------------------------------------------------
 */

/* An empty line, as libmicrohttpd takes lines to end: that some of these are wrong is said by head.c. */
static bool is_whole(const char *text, size_t size) {
        return memmem(text, size, "\n\r", 2) || memmem(text, size, "\n\n", 2) || memmem(text, size, "\r\r", 2);
}

enum look { STAY, ADMIT, GONE };

static enum look look_at(const struct link *l) {
        char text[LOOK];
        ssize_t n = recv(l->fd, text, sizeof text, MSG_PEEK | MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return STAY;
        if (n <= 0)
                return GONE;
        return (size_t)n == sizeof text || is_whole(text, (size_t)n) ? ADMIT : STAY;
}

static void on_ready(struct loop_watch *w, uint32_t events) {
        struct link *l = LOOP_OWNER(w, struct link, watch);
        struct api *a = l->api;
        enum look seen = look_at(l);

        if (seen == STAY && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
                return;
        loop_unwatch(a->o->loop, &l->watch);
        unlink_it(l);
        if (seen == ADMIT) {
                http_admit(l);
                return;
        }
        http_uncount(l); /* the rest of a head will not come */
        l->expires = 0;
        prepend(l);
        set_timer(a);
}

void hall_enter(struct link *l) {
        struct api *a = l->api;

        l->expires = loop_now(a->o->loop) + WAIT_MS;
        l->watch.ready = on_ready;
        switch (look_at(l)) {
        case ADMIT:
                http_admit(l);
                return;
        case STAY:
                if (loop_watch(a->o->loop, &l->watch, l->fd, EPOLLIN | EPOLLRDHUP | EPOLLET) == 0) {
                        append(l);
                        if (a->hall.first == l)
                                set_timer(a);
                        return;
                }
                break;
        case GONE:
        default:
                break;
        }
        http_leave(l);
}

void hall_open(struct api *a) {
        a->hall.timer.fire = on_timer;
        a->hall.task.run = on_task;
}

void hall_close(struct api *a) {
        loop_timer_clear(a->o->loop, &a->hall.timer);
        loop_cancel(a->o->loop, &a->hall.task);
        for (struct link *l = a->hall.first; l; l = l->next)
                loop_unwatch(a->o->loop, &l->watch);
}
