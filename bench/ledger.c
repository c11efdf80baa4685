/* bench/ledger: how many events a second the ledger appends durably and verifies, and what an append costs its caller.
 *
 * The folder has to be on a disk that counts: the current folder unless another is named; what is made there is removed
 * again. Events are like the operator's: 64 sandboxes, some 80 bytes of data. --check fails when a promise is missed.
 */
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "bench/measure.h"
#include "ledger/ledger.h"

enum { PROMISED_APPENDED = 150000, PROMISED_VERIFIED = 500000, SANDBOXES = 64, ALONE = 1000, SLOW = 200 };

struct bench {
        const char *folder;
        char path[4096];
        int dir;
        uint64_t events;
        bool check, missed;
        FILE *json;
};

static const char usage[] =
        "usage: ledger [--events N] [--folder DIR] [--json FILE] [--check]\n"
        "\n"
        "  --events N    how many are appended and verified (1M)\n"
        "  --folder DIR  where the ledger is made (the current folder)\n"
        "  --json FILE   write the results there too\n"
        "  --check       exit with 1 when fewer than 150,000 are appended or 500,000 verified a second\n";

static double seconds_since(uint64_t start) {
        return (double)(measure_now() - start) / 1e9;
}

/* Of all our threads: what it costs, however busy the machine is otherwise. */
static double processor_seconds(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say(struct bench *b, const char *name, double value, const char *unit, const char *about) {
        (void)printf("  %-28s %12.0f %-9s %s\n", name, value, unit, about);
        if (b->json)
                (void)fprintf(b->json, "%s\"%s\":%.1f", ftell(b->json) > 1 ? "," : "", name, value);
}

static int wait_durable(struct ledger *l, uint64_t seq) {
        while (ledger_durable(l) < seq) {
                struct pollfd p = {.fd = ledger_fd(l), .events = POLLIN};
                uint64_t n;

                if (ledger_health(l) < 0)
                        return ledger_health(l);
                (void)poll(&p, 1, 1000);
                (void)!read(ledger_fd(l), &n, sizeof n);
        }
        return 0;
}

/* One event like those that a busy gate makes; waits for room when there is none. */
static int64_t append(struct ledger *l, uint64_t i, enum ledger_kind kind) {
        char sandbox[17], data[120];
        int64_t r;

        (void)snprintf(sandbox, sizeof sandbox, "%016llx", (unsigned long long)(i % SANDBOXES));
        (void)snprintf(data, sizeof data,
                       "{\"run\":%llu,\"host\":\"packages.example.org\",\"port\":443,\"bytes\":%llu}",
                       (unsigned long long)(i / 1000 + 1), (unsigned long long)(i * 7919 % 1000000));
        while ((r = ledger_append(l, kind, sandbox, "gate", data)) == -EAGAIN) {
                uint64_t n;
                struct pollfd p = {.fd = ledger_fd(l), .events = POLLIN};

                (void)poll(&p, 1, 1000);
                (void)!read(ledger_fd(l), &n, sizeof n);
        }
        return r;
}

static int appended(struct bench *b, struct err *err) {
        struct ledger_options o = {.dir = b->dir};
        struct ledger *l;
        struct stat st;
        int64_t last = 0;
        int r = ledger_open(&l, &o, err);

        if (r < 0)
                return r;
        double processor = processor_seconds();
        uint64_t start = measure_now();
        for (uint64_t i = 0; i < b->events && last >= 0; i++)
                last = append(l, i, LEDGER_NET_USE);
        r = last < 0 ? (int)last : wait_durable(l, (uint64_t)last);
        double rate = (double)b->events / seconds_since(start);
        processor = processor_seconds() - processor;
        ledger_close(l);
        if (r < 0)
                return err_set(err, r, "could not append");
        say(b, "appended", rate, "events/s", "one caller, until all is durable");
        say(b, "appended-cost", processor * 1e9 / (double)b->events, "ns",
            "of processor time for one, caller and writer");
        b->missed |= rate < PROMISED_APPENDED;
        if (fstatat(b->dir, "00000000000000000001.jsonl", &st, 0) == 0)
                say(b, "line", (double)st.st_size / (double)MIN(b->events, (uint64_t)190000), "bytes",
                    "an event, about");
        return 0;
}

static int verified(struct bench *b, struct err *err) {
        struct ledger_verdict v;
        double processor = processor_seconds();
        uint64_t start = measure_now();
        int r = ledger_verify(b->dir, &v, err);

        if (r < 0)
                return r;
        double rate = (double)v.events / seconds_since(start);
        processor = processor_seconds() - processor;
        say(b, "verified", rate, "events/s", "hashes, links, roots and signatures");
        say(b, "verified-cost", processor * 1e9 / (double)v.events, "ns", "of processor time for one");
        b->missed |= rate < PROMISED_VERIFIED;
        say(b, "checkpoints", (double)v.checkpoints, "", "signed twice each");
        return 0;
}

static int was_read(struct bench *b, struct err *err) {
        struct ledger_reader *reader;
        const char *line;
        uint64_t count = 0, start = measure_now();
        size_t size;
        int r = ledger_reader_open(&reader, b->dir, 1, err);

        if (r < 0)
                return r;
        while ((r = ledger_reader_next(reader, &line, &size, err)) == 1)
                count++;
        ledger_reader_close(reader);
        if (r == 0)
                say(b, "read", (double)count / seconds_since(start), "events/s", "by one reader");
        return r;
}

static int packed(struct bench *b, struct err *err) {
        struct ledger_verdict v;
        _cleanup_fd_ int file = openat(b->dir, "evidence.json", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        uint64_t start = measure_now();

        int r = file < 0 ? err_set(err, -errno, "cannot make evidence.json")
                         : ledger_evidence(b->dir, "0000000000000007", 0, file, UINT64_MAX, &v, err);
        if (r < 0)
                return r;
        say(b, "evidence", seconds_since(start) * 1e3, "ms", "to pack one sandbox of 64, all of its events");
        (void)lseek(file, 0, SEEK_SET);
        start = measure_now();
        r = ledger_evidence_verify(file, &v, err);
        if (r == 0)
                say(b, "evidence-verified", seconds_since(start) * 1e3, "ms", "by somebody who has only that file");
        return r;
}

/* One durable event after another, and what append itself takes: with the disk as it is, and with one that is slow. */
static int alone(struct bench *b, unsigned slow_ms, size_t rounds, struct err *err) {
        struct ledger_options o = {.dir = b->dir, .slow_fsync_ms = slow_ms};
        _cleanup_free_ uint64_t *whole = calloc(rounds, sizeof *whole), *call = calloc(rounds, sizeof *call);
        struct samples durable = {.ns = whole}, called = {.ns = call};
        struct ledger *l;

        if (!whole || !call)
                return err_set(err, -ENOMEM, "cannot measure");
        int r = ledger_open(&l, &o, err);
        if (r < 0)
                return r;
        for (size_t i = 0; r == 0 && i < rounds; i++) {
                uint64_t start = measure_now();
                int64_t seq = append(l, i, LEDGER_RUN_START);

                called.ns[called.count++] = measure_now() - start;
                r = seq < 0 ? (int)seq : wait_durable(l, (uint64_t)seq);
                durable.ns[durable.count++] = measure_now() - start;
        }
        ledger_close(l);
        if (r < 0)
                return err_set(err, r, "could not append");
        struct summary d = measure_summary(&durable), c = measure_summary(&called);
        say(b, slow_ms ? "slow-disk-durable-p50" : "durable-p50", (double)d.p50 / 1e3, "µs",
            "one event, until it is durable");
        say(b, slow_ms ? "slow-disk-durable-p99" : "durable-p99", (double)d.p99 / 1e3, "µs", "");
        say(b, slow_ms ? "slow-disk-append-p50" : "append-p50", (double)c.p50, "ns", "what the caller waits");
        say(b, slow_ms ? "slow-disk-append-p99" : "append-p99", (double)c.p99, "ns", "");
        return 0;
}

static int make_folder(struct bench *b, struct err *err) {
        int n = snprintf(b->path, sizeof b->path, "%s/ledger-bench.%ld", b->folder, (long)getpid());

        if (n < 0 || (size_t)n >= sizeof b->path || mkdir(b->path, 0700) < 0)
                return err_set(err, -errno, "cannot make a folder in '%s'", b->folder);
        b->dir = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return b->dir < 0 ? err_set(err, -errno, "cannot open '%s'", b->path) : 0;
}

static void remove_folder(struct bench *b) {
        DIR *d = b->dir < 0 ? NULL : fdopendir(b->dir);
        struct dirent *e;

        while (d && (e = readdir(d)))
                (void)unlinkat(dirfd(d), e->d_name, 0);
        if (d)
                (void)closedir(d);
        if (b->path[0])
                (void)rmdir(b->path);
}

static int measure_all(struct bench *b, struct err *err) {
        int r = make_folder(b, err);

        if (r == 0)
                r = appended(b, err);
        if (r == 0)
                r = verified(b, err);
        if (r == 0)
                r = was_read(b, err);
        if (r == 0)
                r = packed(b, err);
        if (r == 0)
                r = alone(b, 0, ALONE, err);
        if (r == 0)
                r = alone(b, 20, SLOW, err);
        remove_folder(b);
        return r;
}

int main(int argc, char **argv) {
        static const struct option table[] = {
                {"events", required_argument, NULL, 'n'}, {"folder", required_argument, NULL, 'd'},
                {"json", required_argument, NULL, 'j'},   {"check", no_argument, NULL, 'c'},
                {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
        struct bench b = {.folder = ".", .dir = -EBADF, .events = 1000000};
        struct err err = {0};
        int c, r = 0;

        while ((c = getopt_long(argc, argv, "", table, NULL)) != -1)
                switch (c) {
                case 'n':
                        r = text_parse(optarg, TEXT_COUNT, &b.events, &err);
                        break;
                case 'd':
                        b.folder = optarg;
                        break;
                case 'j':
                        b.json = fopen(optarg, "we");
                        r = b.json ? 0 : err_set(&err, -errno, "cannot write '%s'", optarg);
                        break;
                case 'c':
                        b.check = true;
                        break;
                default:
                        (void)fputs(usage, c == 'h' ? stdout : stderr);
                        return c == 'h' ? 0 : 125;
                }
        if (b.json)
                (void)fputc('{', b.json);
        if (r == 0)
                r = measure_all(&b, &err);
        if (b.json) {
                (void)fputs("}\n", b.json);
                (void)fclose(b.json);
        }
        if (r < 0) {
                err_print(&err);
                return 125;
        }
        if (b.check && b.missed)
                (void)fprintf(stderr, "ledger: fewer than %d appended or %d verified a second\n", PROMISED_APPENDED,
                              PROMISED_VERIFIED);
        return b.check && b.missed;
}
