/* Token buckets and the table of hosts. */
#include "base/test.h"
#include "gate/meter.h"

static void buckets_fill_and_drain(void) {
        struct meter_bucket b;

        meter_bucket_init(&b, 100, 20, 1000);
        CHECK(meter_bucket_has(&b, 1000) == 20);
        meter_bucket_take(&b, 15);
        CHECK(meter_bucket_has(&b, 1000) == 5);
        CHECK(meter_bucket_wait(&b, 10) == 50);
        CHECK(meter_bucket_has(&b, 1050) == 10);
        CHECK(meter_bucket_has(&b, 999999) == 20);
        meter_bucket_take(&b, 50);
        CHECK(meter_bucket_has(&b, 999999) == 0);
        CHECK(meter_bucket_has(&b, 1) == 0);            /* a clock that went back gives nothing */
        CHECK(meter_bucket_has(&b, 999999 + 300) == 0); /* the debt comes first */
        CHECK(meter_bucket_has(&b, 999999 + 350) == 5);
}

static void buckets_of_slow_rates_lose_nothing(void) {
        struct meter_bucket b;
        uint64_t got = 0;

        meter_bucket_init(&b, 3, 10, 0);
        meter_bucket_take(&b, 10);
        for (uint64_t now = 1; now <= 10000; now++) {
                uint64_t has = meter_bucket_has(&b, now);

                meter_bucket_take(&b, has);
                got += has;
        }
        CHECK(got == 30);
}

static void buckets_at_the_edges(void) {
        struct meter_bucket b;

        meter_bucket_init(&b, UINT64_MAX, 0, 0);
        CHECK(meter_bucket_has(&b, 1) == UINT64_MAX);
        meter_bucket_take(&b, UINT64_MAX);
        CHECK(meter_bucket_has(&b, 1) == UINT64_MAX);
        meter_bucket_init(&b, 0, 0, 0);
        CHECK(meter_bucket_has(&b, UINT64_MAX) == 0);
        CHECK(meter_bucket_wait(&b, 1) >= 1);
        meter_bucket_init(&b, UINT64_MAX - 1, UINT64_MAX - 1, 0);
        CHECK(meter_bucket_has(&b, UINT64_MAX) > 0);
        meter_bucket_take(&b, UINT64_MAX);
        CHECK(meter_bucket_has(&b, UINT64_MAX) == 0);
}

static void hosts_share_and_give_way(void) {
        static struct meter_hosts t;
        char name[16];
        struct meter_host *first = meter_host(&t, "a.test", 443, 0);

        CHECK(meter_host(&t, "a.test", 443, 0) == first);
        CHECK(meter_host(&t, "a.test", 80, 0) != first);
        first->active = 1;
        for (unsigned i = 0; i < METER_HOSTS; i++) {
                (void)snprintf(name, sizeof name, "h%u.test", i);
                meter_host(&t, name, 1, 0)->sent = 1;
        }
        CHECK(meter_host(&t, "late.test", 1, 0) == &t.rest);
        CHECK_STR(t.rest.host, "*");
        CHECK(meter_host(&t, "a.test", 443, 0) == first);
        t.items[7].sent = 0; /* reported, and nobody uses it */
        CHECK(meter_host(&t, "late.test", 1, 0) == &t.items[7]);
        CHECK_STR(t.items[7].host, "late.test");
}

TEST_MAIN(TEST(buckets_fill_and_drain), TEST(buckets_of_slow_rates_lose_nothing), TEST(buckets_at_the_edges),
          TEST(hosts_share_and_give_way))
