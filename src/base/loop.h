/* One thread's loop: descriptors by epoll, timers by a heap, work for later.
 *
 * A watch, a timer and a task lie in their owner's memory and carry a function; the owner finds itself with
 * LOOP_OWNER. An owner that goes away takes them back first (loop_unwatch, loop_timer_clear, loop_cancel): then nothing
 * is called for it any more, also not in the same turn. Nothing here is allocated per event. */
#pragma once

#include <sys/epoll.h>

#include "base/err.h"

struct loop;

struct loop_watch {
        int fd;          /* set by loop_watch; -EBADF or anything when not watched */
        uint32_t events; /* EPOLLIN and so on, as asked for */
        bool on;
        uint32_t generation;
        void (*ready)(struct loop_watch *w, uint32_t events);
};

struct loop_timer {
        uint64_t when;  /* milliseconds of loop_now */
        uint32_t place; /* in the heap, from 1; 0: not set */
        void (*fire)(struct loop_timer *t);
};

struct loop_task {
        struct loop_task *next, *previous; /* NULL: not queued */
        void (*run)(struct loop_task *t);
};

#define LOOP_OWNER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

int loop_create(struct loop **ret, struct err *err);
void loop_destroy(struct loop *l);

/* 0 or -errno. Watching again with other events changes them. The descriptor stays the owner's to close, after
 * loop_unwatch. */
int loop_watch(struct loop *l, struct loop_watch *w, int fd, uint32_t events);
void loop_unwatch(struct loop *l, struct loop_watch *w);

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t when); /* setting one that is set moves it */
void loop_timer_clear(struct loop *l, struct loop_timer *t);

void loop_later(struct loop *l, struct loop_task *t); /* once, after this turn's events */
void loop_cancel(struct loop *l, struct loop_task *t);

uint64_t loop_now(const struct loop *l); /* milliseconds of a clock that only goes forward, as of this turn */

/* Runs until loop_stop. loop_turn does one turn and waits no longer than ms (-1: as long as it takes). */
int loop_run(struct loop *l);
int loop_turn(struct loop *l, int ms);
void loop_stop(struct loop *l);
