/* What the tests of the ledger share: one that is opened, filled, waited for, verified. */
#pragma once

#include <poll.h>
#include <time.h>

#include "base/test-folder.h"
#include "base/test.h"
#include "ledger/head.h"
#include "ledger/segment.h"
#include "ledger/verify.h"

#define _cleanup_folder_ _cleanup_(test_folder_remove)
#define A                "aaaaaaaaaaaaaaaa"
#define B                "bbbbbbbbbbbbbbbb"

static _unused_ uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static _unused_ struct ledger *open_with(const struct test_folder *f, struct ledger_options o) {
        struct err err = {0};
        struct ledger *l = NULL;

        o.dir = f->fd;
        if (ledger_open(&l, &o, &err) < 0)
                (void)printf("# %s\n", err.text);
        assert(l);
        return l;
}
#define OPEN(f, ...) open_with(f, (struct ledger_options){__VA_ARGS__})

static _unused_ void wait_for(struct ledger *l, int64_t seq) {
        assert(seq >= 0);
        ledger_hurry(l);
        while (ledger_durable(l) < (uint64_t)seq) {
                struct pollfd p = {.fd = ledger_fd(l), .events = POLLIN};
                uint64_t n;

                assert(poll(&p, 1, 20000) == 1);
                (void)!read(ledger_fd(l), &n, sizeof n);
        }
}

static _unused_ int64_t add(struct ledger *l, const char *sandbox, uint64_t n) {
        char data[80];

        (void)snprintf(data, sizeof data, "{\"run\":%llu,\"n\":%llu}", (unsigned long long)(n % 3),
                       (unsigned long long)n);
        return ledger_append(l, LEDGER_NET_USE, sandbox, "gate", data);
}

static _unused_ int verify(const struct test_folder *f, struct ledger_verdict *v) {
        struct err err = {0};
        int r = ledger_verify(f->fd, v, &err);

        CHECK((r == 0) == (v->broken_seq == 0) && (r == 0) == (err.text[0] == '\0'));
        CHECK(r == 0 || r == ERR_CORRUPT);
        if (r < 0)
                (void)printf("# %s\n", err.text);
        return r;
}

static _unused_ void check_good(const struct test_folder *f, uint64_t at_least) {
        struct ledger_verdict v;

        CHECK(verify(f, &v) == 0 && v.events >= at_least && v.last_seq == v.events);
}

/* A ledger of a few segments with events of two sandboxes, closed in order. */
static _unused_ void make_ledger(struct test_folder *f, unsigned events) {
        struct ledger *l = OPEN(f, .segment_bytes = 16384, .checkpoint_events = 20);

        for (unsigned i = 0; i < events; i++)
                (void)add(l, i % 5 == 0 ? B : A, i);
        ledger_close(l);
}

static _unused_ void last_segment(const struct test_folder *f, char name[SEGMENT_NAME]) {
        _cleanup_(segment_list_free) struct segment_list list = {0};

        assert(segment_list(f->fd, &list, NULL) == 0 && list.count > 0);
        segment_name(list.first[list.count - 1], name);
}
