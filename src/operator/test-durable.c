/* Waiting for the disk, with a real ledger and a real store: called when both are durable and never before, in order,
 * not after a cancel; and with an error when the disk takes nothing, until it does again. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "operator/operator.h"

static struct core core;
static char folder[] = "/tmp/stockade-test-XXXXXX";

static void begin(unsigned slow) {
        struct err err = {0};
        struct ledger_options o = {.slow_fsync_ms = slow, .delay_ms = 20};

        core = (struct core){0};
        memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
        CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0 && mkdir("ledger", 0700) == 0);
        o.dir = open("ledger", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(ledger_open(&core.ledger, &o, &err) == 0);
        (void)close(o.dir);
        CHECK(store_open(&core.store, ".", &err) == 0);
        CHECK(loop_create(&core.loop, &err) == 0 && durable_open(&core, &err) == 0);
}

static void empty(const char *path) {
        DIR *d = opendir(path);

        for (struct dirent *e; d && (e = readdir(d));)
                (void)unlinkat(dirfd(d), e->d_name, 0);
        if (d)
                (void)closedir(d);
}

static void end(void) {
        durable_close(&core);
        store_close(core.store);
        ledger_close(core.ledger);
        loop_destroy(core.loop);
        empty("ledger");
        CHECK(rmdir("ledger") == 0);
        empty(".");
        CHECK(chdir("/") == 0 && rmdir(folder) == 0);
}

static char order[64];
static int last_error;

struct waiter {
        struct durable d;
        char name;
        struct waiter *cancel;
};

static void done(struct durable *d, int error) {
        struct waiter *w = LOOP_OWNER(d, struct waiter, d);

        if (error == 0)
                CHECK(d->seq <= ledger_durable(core.ledger) && d->ticket <= store_committed(core.store));
        last_error = error;
        order[strlen(order)] = w->name;
        if (w->cancel)
                durable_cancel(&core, &w->cancel->d);
}

static uint64_t event(void) {
        int64_t seq = ledger_append(core.ledger, LEDGER_NET_USE, "", "test", "{}");

        CHECK(seq > 0);
        return (uint64_t)seq;
}

static uint64_t row(const char *id) {
        struct store_image image = {.created_ms = 1};

        (void)snprintf(image.id, sizeof image.id, "%s", id);
        (void)snprintf(image.owner, sizeof image.owner, "uid:1");
        (void)snprintf(image.name, sizeof image.name, "%s", id);
        return store_put(core.store, STORE_IMAGE, &image);
}

/* Until so many were called; false: that takes longer than it may. */
static bool turns(size_t count) {
        uint64_t end_ = loop_now(core.loop) + 60000;

        while (strlen(order) < count && loop_now(core.loop) < end_)
                CHECK(loop_turn(core.loop, 100) == 0);
        return strlen(order) == count;
}

static void both(void) {
        struct waiter a = {{.done = done}, 'a', NULL}, b = {{.done = done}, 'b', NULL}, c = {{.done = done}, 'c', NULL},
                      none = {{.done = done}, 'n', NULL};

        begin(0);
        memset(order, 0, sizeof order);
        durable_wait(&core, &none.d); /* for nothing: at once, but not from inside */
        CHECK(order[0] == '\0');
        CHECK(loop_turn(core.loop, 0) == 0);
        CHECK_STR(order, "n");
        memset(order, 0, sizeof order);
        a.d.seq = event();
        a.d.ticket = row("0123456789abcdef");
        b.d.ticket = row("1123456789abcdef");
        c.d.seq = event();
        durable_wait(&core, &a.d);
        durable_wait(&core, &b.d);
        durable_wait(&core, &c.d);
        CHECK(turns(3) && last_error == 0);
        CHECK(strchr(order, 'a') && strchr(order, 'b') && strchr(order, 'c'));
        end();
}

/* A row that the store did not take: nobody waits for it, and nobody is told that it is there. */
static void refused(void) {
        struct waiter a = {{.ticket = STORE_REFUSED, .done = done}, 'a', NULL},
                      b = {{.ticket = STORE_REFUSED, .done = done}, 'b', NULL};

        begin(0);
        memset(order, 0, sizeof order);
        a.d.seq = event();
        b.d.patience = UINT64_MAX; /* it will never be there */
        durable_wait(&core, &a.d);
        durable_wait(&core, &b.d);
        CHECK(turns(2) && last_error == -ENOSPC);
        CHECK_STR(order, "ab");
        end();
}

static void in_order(void) {
        struct waiter w[20] = {0};

        begin(0);
        memset(order, 0, sizeof order);
        for (size_t i = 0; i < ELEMENTSOF(w); i++) {
                w[i] = (struct waiter){{.seq = event(), .done = done}, (char)('a' + i), NULL};
                durable_wait(&core, &w[i].d);
        }
        w[3].cancel = &w[7]; /* in the same turn, perhaps */
        durable_cancel(&core, &w[5].d);
        durable_cancel(&core, &w[5].d);
        CHECK(turns(ELEMENTSOF(w) - 2));
        CHECK_STR(order, "abcdegijklmnopqrst"); /* without f and h */
        end();
}

static void waits(void) {
        struct waiter a = {{.done = done}, 'a', NULL};

        begin(50);
        memset(order, 0, sizeof order);
        a.d.seq = event();
        uint64_t before = loop_now(core.loop);
        durable_wait(&core, &a.d);
        CHECK(turns(1) && loop_now(core.loop) - before >= 50 && last_error == 0);
        end();
}

static void disk_full(void) {
        struct waiter a = {{.done = done}, 'a', NULL}, b = {{.done = done}, 'b', NULL}, p = {{.done = done}, 'p', NULL},
                      q = {{.done = done}, 'q', NULL};
        struct rlimit old, none = {0};

        begin(0);
        memset(order, 0, sizeof order);
        (void)signal(SIGXFSZ, SIG_IGN);
        CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
        none.rlim_max = old.rlim_max;
        a.d.seq = event();
        CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0); /* no file grows any more */
        durable_wait(&core, &a.d);
        CHECK(turns(1) && last_error < 0 && ledger_health(core.ledger) < 0);
        p.d.seq = q.d.seq = a.d.seq; /* who has patience is told when it ends, or when it is there */
        p.d.patience = loop_now(core.loop) + 200;
        q.d.patience = loop_now(core.loop) + 60000;
        durable_wait(&core, &p.d);
        durable_wait(&core, &q.d);
        CHECK(turns(2) && last_error < 0 && loop_now(core.loop) >= p.d.patience);
        CHECK_STR(order, "ap");
        CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
        for (unsigned i = 0; i < 500 && ledger_health(core.ledger) < 0; i++)
                CHECK(loop_turn(core.loop, 20) == 0);
        b.d.seq = a.d.seq; /* it was tried again, and is there now */
        durable_wait(&core, &b.d);
        CHECK(turns(4) && last_error == 0);
        CHECK_STR(order, "apqb");
        end();
}

TEST_MAIN(TEST(both), TEST(refused), TEST(in_order), TEST(waits), TEST(disk_full))
