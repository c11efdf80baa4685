/* Counters per route, and gauges that are read when somebody asks. Bounded by the table of routes: nothing that a
 * client sends becomes a label. */
#include "api/metrics.h"

#include <stdio.h>

#include "api/route.h"
#include "operator/pool.h"
#include "operator/sandbox.h"
#include "operator/server.h"
#include "operator/trial.h"

#define ROUTES_MAX 128
#define CLASSES    6 /* cut off, 1xx to 5xx */

static const unsigned edges_ms[] = {1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000};
#define EDGES (ELEMENTSOF(edges_ms) + 1)

struct numbers {
        uint64_t by_class[CLASSES];
        uint64_t buckets[EDGES];
        uint64_t us;
};

struct metrics {
        struct numbers routes[ROUTES_MAX + 1]; /* the last: of no route */
};

struct metrics *metrics_new(void) {
        return calloc(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *m) {
        free(m);
}

void metrics_done(struct metrics *m, const struct route *r, unsigned status, uint64_t us) {
        size_t i = r ? MIN(route_index(r), (size_t)ROUTES_MAX) : ROUTES_MAX, edge = 0;
        struct numbers *n = &m->routes[i];

        n->by_class[status < 600 ? status / 100 : 5]++;
        while (edge < ELEMENTSOF(edges_ms) && us > edges_ms[edge] * 1000ULL)
                edge++;
        n->buckets[edge]++;
        n->us += us;
}

static void head(struct buf *b, const char *name, const char *type, const char *help) {
        buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(struct buf *b, const char *name, const char *type, const char *help, uint64_t value) {
        head(b, name, type, help);
        buf_printf(b, "%s %llu\n", name, (unsigned long long)value);
}

static void label(struct buf *b, size_t i) {
        const struct route *r = i < ROUTES_MAX ? route_at(i) : NULL;

        buf_printf(b, "method=\"%s\",route=\"%s\"", r ? r->method : "", r ? r->path : "unmatched");
}

static uint64_t total(const struct numbers *n) {
        uint64_t sum = 0;

        for (size_t c = 0; c < CLASSES; c++)
                sum += n->by_class[c];
        return sum;
}

static void counts(const struct metrics *m, struct buf *b) {
        static const char *const names[CLASSES] = {"cut", "1xx", "2xx", "3xx", "4xx", "5xx"};

        head(b, "stockade_http_requests_total", "counter", "Requests by route and class of answer.");
        for (size_t i = 0; i <= ROUTES_MAX; i++)
                for (size_t c = 0; c < CLASSES; c++)
                        if (m->routes[i].by_class[c] > 0) {
                                buf_str(b, "stockade_http_requests_total{");
                                label(b, i);
                                buf_printf(b, ",class=\"%s\"} %llu\n", names[c],
                                           (unsigned long long)m->routes[i].by_class[c]);
                        }
}

static void times(const struct metrics *m, struct buf *b) {
        head(b, "stockade_http_request_seconds", "histogram", "How long requests took.");
        for (size_t i = 0; i <= ROUTES_MAX; i++) {
                const struct numbers *n = &m->routes[i];
                uint64_t sum = 0;

                if (total(n) == 0)
                        continue;
                for (size_t e = 0; e < EDGES; e++) {
                        sum += n->buckets[e];
                        buf_str(b, "stockade_http_request_seconds_bucket{");
                        label(b, i);
                        if (e < ELEMENTSOF(edges_ms))
                                buf_printf(b, ",le=\"%u.%03u\"} %llu\n", edges_ms[e] / 1000, edges_ms[e] % 1000,
                                           (unsigned long long)sum);
                        else
                                buf_printf(b, ",le=\"+Inf\"} %llu\n", (unsigned long long)sum);
                }
                buf_str(b, "stockade_http_request_seconds_sum{");
                label(b, i);
                buf_printf(b, "} %llu.%06llu\nstockade_http_request_seconds_count{",
                           (unsigned long long)(n->us / 1000000), (unsigned long long)(n->us % 1000000));
                label(b, i);
                buf_printf(b, "} %llu\n", (unsigned long long)sum);
        }
}

static void states(const struct core *o, struct buf *b) {
        unsigned n[STATE_COUNT] = {0};

        for (const struct sandbox *s = o->registry->first; s; s = s->next)
                n[s->state]++;
        head(b, "stockade_sandboxes", "gauge", "Sandboxes by state.");
        for (unsigned i = 0; i < STATE_COUNT; i++)
                buf_printf(b, "stockade_sandboxes{state=\"%s\"} %u\n", state_name((enum state)i), n[i]);
}

/* Creates, runs, what the gate let through and what it did not, limits that were hit: each is an event. */
static void happened(struct core *o, struct buf *b) {
        head(b, "stockade_events_total", "counter", "What happened since the operator began, by kind.");
        for (unsigned k = 0; k < LEDGER_KIND_COUNT; k++)
                if (k != LEDGER_CHECKPOINT)
                        buf_printf(b, "stockade_events_total{kind=\"%s\"} %llu\n",
                                   ledger_kind_name((enum ledger_kind)k),
                                   (unsigned long long)ledger_counted(o->ledger, (enum ledger_kind)k));
}

/* As of the last trial. Whoever collects these keeps it fresh: the next one is begun here when it is due. */
static void readiness(struct core *o, struct buf *b) {
        const struct trial_result *t = trial_last(o);

        gauge(b, "stockade_ready", "gauge", "1: a sandbox could be started when that was last tried.", t && t->good);
        gauge(b, "stockade_trials_total", "counter", "Sandboxes that were started to see whether that works.",
              trial_count(o));
        if (t) {
                head(b, "stockade_trial_start_seconds", "gauge", "How long the last of them took to start.");
                buf_printf(b, "stockade_trial_start_seconds %llu.%03llu\n", (unsigned long long)(t->start / 1000),
                           (unsigned long long)(t->start % 1000));
        }
        if (!trial_fresh(o))
                (void)trial_ask(o, NULL);
}

void metrics_answer(struct exchange *x) {
        struct buf b = {0};
        struct core *o = x->api->o;
        const struct registry *r = o->registry;

        head(&b, "stockade_build_info", "gauge", "The version that runs.");
        buf_str(&b, "stockade_build_info{version=\"" STOCKADE_VERSION "\"} 1\n");
        states(o, &b);
        gauge(&b, "stockade_memory_promised_bytes", "gauge", "Memory that running sandboxes may use.", r->used.memory);
        gauge(&b, "stockade_disk_promised_bytes", "gauge", "Space that disks may use.", r->used.disk);
        gauge(&b, "stockade_cpus_promised_thousandths", "gauge", "Processors that running sandboxes may use.",
              r->used.cpus);
        gauge(&b, "stockade_pool_ready", "gauge", "Prepared sandboxes.", pool_ready(o));
        gauge(&b, "stockade_ledger_events_total", "counter", "Events that are durable.", ledger_durable(o->ledger));
        gauge(&b, "stockade_ledger_ok", "gauge", "1: the ledger can be written.", ledger_health(o->ledger) == 0);
        gauge(&b, "stockade_store_ok", "gauge", "1: the store can be written.", store_health(o->store) == 0);
        gauge(&b, "stockade_disk_pressure", "gauge", "1: the disk is nearly full.", r->pressure);
        gauge(&b, "stockade_http_connections", "gauge", "Connections that are open.", x->api->link_count);
        happened(o, &b);
        readiness(o, &b);
        counts(x->api->metrics, &b);
        times(x->api->metrics, &b);
        reply_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}
