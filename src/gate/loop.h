/* The gate's one loop: descriptors by epoll, timers by a heap, and a queue of work that is not finished yet.
 *
 * What epoll hands back is a typed reference (kind, index, generation), never a pointer: an event that was fetched
 * before its connection was closed does not match the generation of whoever has the place now, and is dropped by the
 * handler. Everything has a fixed size that is set at the start. */
#pragma once

#include <sys/epoll.h>

#include "base/err.h"

enum loop_kind {
        LOOP_CONTROL,
        LOOP_TCP, /* a ward's listening sockets: index is the ward's place */
        LOOP_PROXY,
        LOOP_DNS,
        LOOP_DNS_TCP,
        LOOP_TAP,
        LOOP_CLIENT, /* a connection's two sides, and attempts to reach its server: index is the flow's place */
        LOOP_SERVER,
        LOOP_ATTEMPT_0,
        LOOP_ATTEMPT_1,
        LOOP_QUERY,    /* a DNS client's TCP connection */
        LOOP_RESOLVER, /* a socket of the resolver: index is the descriptor */
        LOOP_KIND_COUNT,
};

struct loop_ref {
        uint8_t kind;
        uint32_t index;
        uint32_t generation; /* 24 bits */
};
#define LOOP_GENERATION_MASK 0xffffffU

typedef void loop_handler(const struct loop_ref *ref, uint32_t events);

int loop_init(struct err *err);
void loop_handle(enum loop_kind kind, loop_handler *handler);

/* 0 or -errno. loop_forget is needed only for descriptors that others hold too: closing the last one is enough. */
int loop_watch(int fd, uint32_t events, enum loop_kind kind, uint32_t index, uint32_t generation);
int loop_rewatch(int fd, uint32_t events, enum loop_kind kind, uint32_t index, uint32_t generation);
void loop_forget(int fd);

/* Milliseconds of a clock that only goes forward, as of this turn of the loop. */
uint64_t loop_now(void);

/* A timer lies in its owner's memory. Setting one that is set moves it. */
struct loop_timer {
        uint64_t when;
        uint32_t place; /* in the heap, from 1; 0: not set */
        void (*fire)(struct loop_timer *t);
};
void loop_timer_set(struct loop_timer *t, uint64_t when);
void loop_timer_clear(struct loop_timer *t);
static inline bool loop_timer_is_set(const struct loop_timer *t) {
        return t->place != 0;
}

/* Work for this turn, after all events were looked at; run once per turn at most, so that everyone gets a share. */
struct loop_task {
        struct loop_task *next, *previous; /* NULL: not queued */
        void (*run)(struct loop_task *t);
};
void loop_later(struct loop_task *t);
void loop_cancel(struct loop_task *t);

/* Timers, tasks and waits lie in their owner's struct: this is the owner. */
#define LOOP_OWNER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

_noreturn_ void loop_run(void);
