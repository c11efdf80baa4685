/* The table and the JSON of bench/start. Times are kept in nanoseconds, shown in milliseconds, written in microseconds;
 * ratios are of medians. Nothing is rounded before it is compared with its limit. */
#include <fcntl.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "bench/report.h"

#define REPORT_MEMORY_LIMIT 1024 /* KiB, launcher and keeper together */

static uint64_t report_p50(const struct report *r, int row) {
        return r->row[row].sum.p50;
}

static struct promise report_ratio(const char *name, uint64_t value, uint64_t base, uint64_t limit) {
        bool known = value > 0 && base > 0;
        return (struct promise){.name = name, .known = known, .value = known ? value * 1000 / base : 0, .limit = limit};
}

void report_promises(const struct report *r, struct promise ret[PROMISES]) {
        uint64_t stockade = report_p50(r, ROW_STOCKADE), bare = report_p50(r, ROW_BARE);
        uint64_t floor = report_p50(r, ROW_FLOOR), template = report_p50(r, ROW_FLOOR_TEMPLATE);
        ret[0] = report_ratio("stockade / bwrap", stockade, report_p50(r, ROW_BWRAP), 600);
        ret[1] = report_ratio("stockade / (floor + bare)", stockade, floor && bare ? floor + bare : 0, 1500);
        ret[2] = report_ratio("stockade / (template floor + bare)", stockade, template && bare ? template + bare : 0,
                              0);
        ret[3] = (struct promise){.name = "launcher and keeper, private MiB",
                                  .known = r->memory_skip[0] == '\0',
                                  .value = r->memory.private_kib * 1000 / 1024,
                                  .limit = REPORT_MEMORY_LIMIT * 1000 / 1024};
}

static double report_ms(uint64_t ns) {
        return (double)ns / 1e6;
}

static void report_print_steps(const struct report *r) {
        (void)printf("\nsteps of the floor, us %30s %8s %8s\n", "p50", "p95", "min");
        uint64_t sum = 0;
        for (unsigned i = 0; i < r->steps; i++) {
                const struct summary *s = &r->step_sum[i];
                sum += s->p50;
                (void)printf("  %-42s %8.1f %8.1f %8.1f\n", r->step_name[i], (double)s->p50 / 1e3, (double)s->p95 / 1e3,
                             (double)s->min / 1e3);
        }
        (void)printf("  %-42s %8.1f\n", "sum of the medians", (double)sum / 1e3);
}

void report_print(const struct report *r, bool steps) {
        struct promise promises[PROMISES];
        (void)printf(
                "start of /usr/bin/true until it is gone, ms; %u rounds in random order, %u warm-up, %u ms pause\n\n",
                r->rounds, r->warmup, r->pause_ms);
        (void)printf("%-44s %5s %8s %8s %8s %8s\n", "", "n", "p50", "p95", "p99", "min");
        for (size_t i = 0; i < ROWS; i++) {
                const struct row *row = &r->row[i];
                const struct summary *s = &row->sum;
                if (row->skip[0] != '\0')
                        (void)printf("%-44s skipped: %s\n", row->label, row->skip);
                else
                        (void)printf("%-44s %5zu %8.3f %8.3f %8.3f %8.3f\n", row->label, row->samples.count,
                                     report_ms(s->p50), report_ms(s->p95), report_ms(s->p99), report_ms(s->min));
        }
        (void)printf("\n");
        report_promises(r, promises);
        for (size_t i = 0; i < PROMISES; i++) {
                const struct promise *p = &promises[i];
                (void)printf("%-44s ", p->name);
                if (!p->known)
                        (void)printf("not measured\n");
                else if (p->limit == 0)
                        (void)printf("%5.2f\n", (double)p->value / 1e3);
                else
                        (void)printf("%5.2f  at most %.2f: %s\n", (double)p->value / 1e3, (double)p->limit / 1e3,
                                     p->value <= p->limit ? "kept" : "MISSED");
        }
        if (r->memory_skip[0] != '\0')
                (void)printf("memory was not measured: %s\n", r->memory_skip);
        if (steps && r->steps > 0)
                report_print_steps(r);
}

static void report_json_summary(struct json *j, const struct summary *s) {
        json_u64(j, "p50_us", s->p50 / 1000);
        json_u64(j, "p95_us", s->p95 / 1000);
        json_u64(j, "p99_us", s->p99 / 1000);
        json_u64(j, "min_us", s->min / 1000);
}

static void report_json_host(const struct report *r, struct json *j) {
        struct utsname host = {0};
        char stamp[32] = "";
        time_t now = time(NULL);
        struct tm tm = {0};
        (void)uname(&host);
        if (gmtime_r(&now, &tm))
                (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &tm);
        json_str(j, "bench", "start");
        json_str(j, "time", stamp);
        json_str(j, "kernel", host.release);
        json_i64(j, "processors", sysconf(_SC_NPROCESSORS_ONLN));
        json_u64(j, "rounds", r->rounds);
        json_u64(j, "warmup", r->warmup);
        json_u64(j, "pause_ms", r->pause_ms);
        json_u64(j, "seed", r->seed);
}

static void report_json_rows(const struct report *r, struct json *j) {
        json_open(j, "rows", '[');
        for (size_t i = 0; i < ROWS; i++) {
                const struct row *row = &r->row[i];
                json_open(j, NULL, '{');
                json_str(j, "name", row->name);
                json_str(j, "label", row->label);
                if (row->skip[0] != '\0') {
                        json_str(j, "skipped", row->skip);
                } else {
                        json_u64(j, "n", row->samples.count);
                        report_json_summary(j, &row->sum);
                }
                json_close(j, '}');
        }
        json_close(j, ']');
        json_open(j, "floor_steps", '[');
        for (unsigned i = 0; i < r->steps; i++) {
                json_open(j, NULL, '{');
                json_str(j, "name", r->step_name[i]);
                json_u64(j, "p50_ns", r->step_sum[i].p50);
                json_u64(j, "p95_ns", r->step_sum[i].p95);
                json_u64(j, "min_ns", r->step_sum[i].min);
                json_close(j, '}');
        }
        json_close(j, ']');
}

static void report_json_promises(const struct report *r, struct json *j) {
        struct promise promises[PROMISES];
        report_promises(r, promises);
        json_open(j, "promises", '[');
        for (size_t i = 0; i < PROMISES; i++) {
                const struct promise *p = &promises[i];
                json_open(j, NULL, '{');
                json_str(j, "name", p->name);
                if (p->known)
                        json_u64(j, "thousandths", p->value);
                else
                        json_null(j, "thousandths");
                if (p->limit > 0) {
                        json_u64(j, "limit_thousandths", p->limit);
                        json_bool(j, "kept", p->known && p->value <= p->limit);
                }
                json_close(j, '}');
        }
        json_close(j, ']');
        json_open(j, "memory", '{');
        if (r->memory_skip[0] != '\0') {
                json_str(j, "skipped", r->memory_skip);
        } else {
                json_u64(j, "processes", r->memory.processes);
                json_u64(j, "private_kib", r->memory.private_kib);
        }
        json_close(j, '}');
}

int report_write_json(const struct report *r, const char *path, struct err *err) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        json_open(&j, NULL, '{');
        report_json_host(r, &j);
        report_json_rows(r, &j);
        report_json_promises(r, &j);
        json_close(&j, '}');
        buf_str(&out, "\n");
        if (!buf_ok(&out))
                return err_set(err, -ENOMEM, "could not make the JSON for '%s'", path);
        _cleanup_fd_ int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        int e = file < 0 ? -errno : fd_write_full(file, out.data, out.size);
        return e < 0 ? err_set(err, e, "cannot write '%s'", path) : 0;
}
