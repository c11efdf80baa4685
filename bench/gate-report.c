/* The table, the promises and the JSON of bench/gate. A row's number is the median over the rounds; a ratio or a
 * difference is taken within each round, where both sides saw the same machine, and then the median of those. */
#include <fcntl.h>
#include <math.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "bench/gate.h"

const char *const gate_row_names[GATE_ROWS] = {
        [GATE_DIRECT] = "direct", [GATE_COPY] = "bare-copy",        [GATE_SPLICE] = "bare-splice",
        [GATE_RELAY] = "gate",    [GATE_CONNECT] = "gate-connect",  [GATE_TINYPROXY] = "tinyproxy",
        [GATE_SQUID] = "squid",   [GATE_DIRECT_TLS] = "direct-tls", [GATE_TERMINATED] = "gate-tls",
};
const char *const gate_row_labels[GATE_ROWS] = {
        [GATE_DIRECT] = "direct, loopback",     [GATE_COPY] = "bare relay, 256 KiB copies",
        [GATE_SPLICE] = "bare relay, splice",   [GATE_RELAY] = "gate, plain relay",
        [GATE_CONNECT] = "gate, CONNECT",       [GATE_TINYPROXY] = "tinyproxy, CONNECT",
        [GATE_SQUID] = "squid, CONNECT",        [GATE_DIRECT_TLS] = "direct, TLS",
        [GATE_TERMINATED] = "gate, TLS opened",
};
const char *const gate_metric_names[GATE_METRICS] = {
        [GATE_ONE] = "one_stream_bytes_per_s",   [GATE_MANY] = "many_streams_bytes_per_s",
        [GATE_WORK] = "work_ns_per_mib",         [GATE_RATE] = "connections_per_s",
        [GATE_P50] = "connect_p50_ns",           [GATE_P95] = "connect_p95_ns",
        [GATE_NAMES_RATE] = "dns_answers_per_s", [GATE_NAMES_P50] = "dns_p50_ns",
        [GATE_NAMES_P95] = "dns_p95_ns",
};

static int report_compare(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

/* A median, where the middle half of the values lies, and how far the true one may be off (95 %). */
struct spread {
        size_t count;
        bool exact; /* one value, without noise */
        double median, half[2], margin;
};

static struct spread report_spread(double *values, size_t count) {
        if (count == 0)
                return (struct spread){0};
        qsort(values, count, sizeof(*values), report_compare);
        struct spread s = {.count = count,
                           .median = values[(count - 1) / 2],
                           .half = {values[(count - 1) / 4], values[(count - 1) * 3 / 4]}};
        /* of a median: 1.96 * 1.2533 standard deviations over the root, and a middle half is 1.349 of those */
        s.margin = 1.82 * (s.half[1] - s.half[0]) / sqrt((double)count);
        return s;
}

/* How two rows are compared within a round. */
enum report_how { ALONE, RATIO, DIFFERENCE };

static struct spread report_between(const struct gate_report *r, enum report_how how, int row, int base, int metric) {
        static double values[GATE_ROUNDS_MAX];
        size_t count = 0;

        for (unsigned i = 0; i < r->rounds; i++) {
                double a = (double)r->value[row][metric][i], b = (double)r->value[base][metric][i];

                if (a <= 0 || b <= 0)
                        continue;
                values[count++] = how == ALONE ? a : how == RATIO ? a / b : a - b;
        }
        return report_spread(values, count);
}

/* False when there is no round that has what it needs. */
static bool report_value(const struct gate_report *r, enum report_how how, int row, int base, int metric, double *ret) {
        struct spread s = report_between(r, how, row, base, metric);

        *ret = s.median;
        return s.count > 0;
}

/* The best round of a row: what it does when it is least disturbed. */
static double report_best(const struct gate_report *r, int row, int metric) {
        uint64_t best = 0;

        for (unsigned i = 0; i < r->rounds; i++)
                best = MAX(best, r->value[row][metric][i]);
        return (double)best;
}

/* A promise is kept, or missed, only where the noise of this run leaves no doubt. */
enum verdict { KEPT, MISSED, UNSURE, UNKNOWN };
static const char *const report_verdicts[] = {"PASS", "FAIL", "UNSURE", "UNKNOWN"};

struct promise {
        const char *name, *unit;
        bool at_least;
        enum verdict verdict;
        double limit;
        struct spread s;
};
enum { PROMISES = 12, ENOUGH = 8 /* rounds, to judge by them */ };

static struct promise report_promise(const char *name, const char *unit, struct spread s, double scale, double limit,
                                     bool at_least) {
        struct promise p = {.name = name, .unit = unit, .limit = limit, .at_least = at_least, .s = s};

        p.s.median /= scale;
        p.s.half[0] /= scale;
        p.s.half[1] /= scale;
        p.s.margin /= scale;
        if (s.count == 0)
                p.verdict = UNKNOWN;
        else if (!s.exact && (s.count < ENOUGH || fabs(p.s.median - limit) < p.s.margin))
                p.verdict = UNSURE;
        else
                p.verdict = (at_least ? p.s.median >= limit : p.s.median <= limit) ? KEPT : MISSED;
        return p;
}

static struct promise report_ratio(const struct gate_report *r, const char *name, int base, int metric, double limit) {
        return report_promise(name, "", report_between(r, RATIO, GATE_RELAY, base, metric), 1, limit, true);
}

static struct promise report_of_memory(const struct gate_report *r, const char *name, int which, double limit) {
        double kib = (double)r->memory[which].rss_kib;

        return report_promise(name, "MiB", (struct spread){.count = kib > 0, .exact = true, .median = kib}, 1024, limit,
                              false);
}

static void report_promises(const struct gate_report *r, struct promise p[PROMISES]) {
        p[0] = report_ratio(r, "gate / direct, one stream", GATE_DIRECT, GATE_ONE, 0.65);
        p[1] = report_ratio(r, "gate / bare relay with copies, one stream", GATE_COPY, GATE_ONE, 0.95);
        p[2] = report_ratio(r, "gate / tinyproxy, one stream", GATE_TINYPROXY, GATE_ONE, 1);
        p[3] = report_ratio(r, "gate / squid, one stream", GATE_SQUID, GATE_ONE, 1);
        p[4] = report_ratio(r, "gate / tinyproxy, 64 streams", GATE_TINYPROXY, GATE_MANY, 1);
        p[5] = report_ratio(r, "gate / squid, 64 streams", GATE_SQUID, GATE_MANY, 1);
        p[6] = report_promise("added to a connection, p50", "ms",
                              report_between(r, DIFFERENCE, GATE_RELAY, GATE_DIRECT, GATE_P50), 1e6, 1, false);
        p[7] = report_promise("a name looked up, p50", "ms",
                              report_between(r, ALONE, GATE_RELAY, GATE_RELAY, GATE_NAMES_P50), 1e6, 1, false);
        p[8] = report_of_memory(r, "an idle gate, resident", GATE_IDLE, 8);
        p[9] = report_of_memory(r, "a gate with its idle connections, resident", GATE_FULL, 64);
        p[10] = report_promise("a sandbox with a network speaks later by, p50", "ms",
                               report_spread(r->later[0], r->later_count), 1e6, 1, false);
        p[11] = report_promise("and is gone later by, p50", "ms", report_spread(r->later[1], r->later_count), 1e6, 1,
                               false);
}

bool gate_report_kept(const struct gate_report *r) {
        struct promise p[PROMISES];
        bool kept = true;

        report_promises(r, p);
        for (size_t i = 0; i < PROMISES; i++)
                kept &= p[i].verdict == KEPT;
        return kept;
}

/* --- for people --- */

static void report_number(const struct gate_report *r, int row, int metric, double scale, int digits) {
        double value;

        if (report_value(r, ALONE, row, row, metric, &value))
                (void)printf(" %9.*f", digits, value / scale);
        else
                (void)printf(" %9s", "-");
}

static void report_rows(const struct gate_report *r) {
        (void)printf("%-28s %9s %7s %9s %9s %9s %9s %9s %9s\n", "", "1 stream", "of", "best", "its work", "64 strms",
                     "connect", "connect", "connect");
        (void)printf("%-28s %9s %7s %9s %9s %9s %9s %9s %9s\n", "", "MB/s", "direct", "MB/s", "us/MiB", "MB/s", "per s",
                     "p50 us", "p95 us");
        for (int i = 0; i < GATE_ROWS; i++) {
                int base = i >= GATE_DIRECT_TLS ? GATE_DIRECT_TLS : GATE_DIRECT;
                double ratio;

                if (r->skip[i][0] != '\0') {
                        (void)printf("%-28s skipped: %s\n", gate_row_labels[i], r->skip[i]);
                        continue;
                }
                (void)printf("%-28s", gate_row_labels[i]);
                report_number(r, i, GATE_ONE, 1e6, 0);
                if (report_value(r, RATIO, i, base, GATE_ONE, &ratio))
                        (void)printf(" %6.0f%%", ratio * 100);
                else
                        (void)printf(" %7s", "-");
                (void)printf(" %9.0f", report_best(r, i, GATE_ONE) / 1e6);
                report_number(r, i, GATE_WORK, 1e3, 0);
                report_number(r, i, GATE_MANY, 1e6, 0);
                report_number(r, i, GATE_RATE, 1, 0);
                report_number(r, i, GATE_P50, 1e3, 0);
                report_number(r, i, GATE_P95, 1e3, 0);
                (void)printf("\n");
        }
        (void)printf("\n%-28s %9s %9s %9s\n", "names, UDP", "per s", "p50 us", "p95 us");
        for (int i = 0; i <= GATE_RELAY; i += GATE_RELAY) {
                (void)printf("%-28s", i == GATE_DIRECT ? "a bare responder, direct" : "the gate, an allowed name");
                report_number(r, i, GATE_NAMES_RATE, 1, 0);
                report_number(r, i, GATE_NAMES_P50, 1e3, 0);
                report_number(r, i, GATE_NAMES_P95, 1e3, 0);
                (void)printf("\n");
        }
}

static const char *const report_memories[GATE_MEMORIES] = {
        [GATE_IDLE] = "idle",
        [GATE_FULL] = "with idle connections",
        [GATE_USED_UP] = "after all rounds",
        [GATE_IDLE_TLS] = "idle, with TLS loaded",
};
static const char *const report_sorts[GATE_SORTS] = {"without", "with"};

static void report_rest(const struct gate_report *r) {
        (void)printf("\n%-28s %9s %9s\n", "memory of a gate, MiB", "resident", "share");
        for (int i = 0; i < GATE_MEMORIES; i++) {
                const struct gate_memory *m = &r->memory[i];

                (void)printf("%-28s %9.1f %9.1f", report_memories[i], (double)m->rss_kib / 1024,
                             (double)m->pss_kib / 1024);
                if (i == GATE_FULL)
                        (void)printf("  (%llu of them)", (unsigned long long)r->held);
                (void)printf("\n");
        }
        (void)printf("\n%-28s %9s %9s %9s %9s %9s   (ms, %u starts each)\n", "start, network", "speaks", "p95", "min",
                     "gone", "p95", r->starts);
        for (int i = 0; i < GATE_SORTS; i++) {
                struct samples speak = r->speak[i], gone = r->gone[i];
                struct summary a = measure_summary(&speak), b = measure_summary(&gone);

                (void)printf("%-28s %9.3f %9.3f %9.3f %9.3f %9.3f\n", report_sorts[i], (double)a.p50 / 1e6,
                             (double)a.p95 / 1e6, (double)a.min / 1e6, (double)b.p50 / 1e6, (double)b.p95 / 1e6);
        }
}

void gate_report_print(const struct gate_report *r) {
        struct promise p[PROMISES];

        (void)printf("the way through the gate; medians of %u rounds, rows in random order within each\n\n", r->rounds);
        report_rows(r);
        report_rest(r);
        (void)printf("\n");
        report_promises(r, p);
        for (size_t i = 0; i < PROMISES; i++) {
                const struct spread *v = &p[i].s;

                (void)printf("%-7s %-46s ", report_verdicts[p[i].verdict], p[i].name);
                if (v->count > 0)
                        (void)printf("%7.2f %-3s %s %.2f", v->median, p[i].unit, p[i].at_least ? "at least" : "at most",
                                     p[i].limit);
                if (v->margin > 0)
                        (void)printf("  (give or take %.2f; middle half %.2f to %.2f)", v->margin, v->half[0],
                                     v->half[1]);
                (void)printf("\n");
        }
        if (r->trouble[0] != '\0')
                (void)printf("\ntrouble: %s\n", r->trouble);
}

/* --- for programs --- */

static void report_json_rows(const struct gate_report *r, struct json *j) {
        json_open(j, "rows", '[');
        for (int i = 0; i < GATE_ROWS; i++) {
                json_open(j, NULL, '{');
                json_str(j, "name", gate_row_names[i]);
                json_str(j, "label", gate_row_labels[i]);
                json_u64(j, "one_stream_best_bytes_per_s", (uint64_t)report_best(r, i, GATE_ONE));
                if (r->skip[i][0] != '\0')
                        json_str(j, "skipped", r->skip[i]);
                for (int k = 0; k < GATE_METRICS; k++) {
                        double value, ratio;
                        char name[64];

                        if (!report_value(r, ALONE, i, i, k, &value))
                                continue;
                        json_u64(j, gate_metric_names[k], (uint64_t)value);
                        (void)snprintf(name, sizeof(name), "%s_of_direct_thousandths", gate_metric_names[k]);
                        if (report_value(r, RATIO, i, i >= GATE_DIRECT_TLS ? GATE_DIRECT_TLS : GATE_DIRECT, k, &ratio))
                                json_u64(j, name, (uint64_t)(ratio * 1000));
                }
                json_close(j, '}');
        }
        json_close(j, ']');
}

static void report_json_rest(const struct gate_report *r, struct json *j) {
        struct promise p[PROMISES];

        json_open(j, "memory", '[');
        for (int i = 0; i < GATE_MEMORIES; i++) {
                json_open(j, NULL, '{');
                json_str(j, "name", report_memories[i]);
                json_u64(j, "rss_kib", r->memory[i].rss_kib);
                json_u64(j, "pss_kib", r->memory[i].pss_kib);
                json_u64(j, "connections", i == GATE_FULL ? r->held : 0);
                json_close(j, '}');
        }
        json_close(j, ']');
        json_open(j, "starts", '[');
        for (int i = 0; i < GATE_SORTS; i++) {
                struct samples speak = r->speak[i], gone = r->gone[i];

                json_open(j, NULL, '{');
                json_str(j, "network", report_sorts[i]);
                json_u64(j, "speaks_p50_ns", measure_summary(&speak).p50);
                json_u64(j, "gone_p50_ns", measure_summary(&gone).p50);
                json_close(j, '}');
        }
        json_close(j, ']');
        report_promises(r, p);
        json_open(j, "promises", '[');
        for (size_t i = 0; i < PROMISES; i++) {
                json_open(j, NULL, '{');
                json_str(j, "name", p[i].name);
                json_str(j, "unit", p[i].unit);
                json_i64(j, "thousandths", (int64_t)(p[i].s.median * 1000));
                json_i64(j, "margin_thousandths", (int64_t)(p[i].s.margin * 1000));
                json_i64(j, "limit_thousandths", (int64_t)(p[i].limit * 1000));
                json_str(j, "bound", p[i].at_least ? "at least" : "at most");
                json_str(j, "verdict", report_verdicts[p[i].verdict]);
                json_close(j, '}');
        }
        json_close(j, ']');
}

int gate_report_json(const struct gate_report *r, const char *path, struct err *err) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        struct utsname host = {0};

        (void)uname(&host);
        json_open(&j, NULL, '{');
        json_str(&j, "bench", "gate");
        json_str(&j, "kernel", host.release);
        json_i64(&j, "processors", sysconf(_SC_NPROCESSORS_ONLN));
        json_u64(&j, "rounds", r->rounds);
        report_json_rows(r, &j);
        report_json_rest(r, &j);
        json_close(&j, '}');
        buf_str(&out, "\n");
        if (!buf_ok(&out))
                return err_set(err, -ENOMEM, "could not make the JSON for '%s'", path);
        _cleanup_fd_ int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        int e = file < 0 ? -errno : fd_write_full(file, out.data, out.size);
        return e < 0 ? err_set(err, e, "cannot write '%s'", path) : 0;
}
