/* bench/start: what it costs to start a sandbox, beside what it could cost and what others take.
 *
 * Every round starts each row once, in a new random order, so that the machine's moods fall on all alike. The driver is
 * small and static: what it takes to fork it does not colour the times. A row that cannot run is skipped with its
 * reason; a row that fails ends as skipped and makes the exit status 1. */
#include <fcntl.h>
#include <getopt.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "bench/peers.h"
#include "bench/report.h"

#define START_MAX_ROUNDS 100000

struct options {
        const char *stockade, *image, *json;
        uint64_t rounds, slow_rounds, warmup, pause_ms;
        bool steps, check;
};

static const int start_peer_of_row[ROWS] = {
        [ROW_BARE] = PEER_BARE,   [ROW_FLOOR] = -1,       [ROW_FLOOR_TEMPLATE] = -1,  [ROW_STOCKADE] = PEER_STOCKADE,
        [ROW_BWRAP] = PEER_BWRAP, [ROW_RUNC] = PEER_RUNC, [ROW_DOCKER] = PEER_DOCKER, [ROW_RUNSC] = PEER_RUNSC,
};

static const char *const start_labels[ROWS][2] = {
        [ROW_BARE] = {"bare", "bare spawn"},
        [ROW_FLOOR] = {"floor", "floor: the kernel's steps alone"},
        [ROW_FLOOR_TEMPLATE] = {"floor-template", "floor, root from a template directory"},
        [ROW_STOCKADE] = {"stockade", "stockade run --profile low"},
        [ROW_BWRAP] = {"bwrap", "bwrap --unshare-all, same mounts"},
        [ROW_RUNC] = {"runc", "runc run, same mounts"},
        [ROW_DOCKER] = {"docker", "docker run"},
        [ROW_RUNSC] = {"runsc", "runsc do"},
};

static const char start_usage[] =
        "usage: start [--rounds N] [--slow-rounds N] [--warmup N] [--pause MS] [--stockade PATH] [--image NAME]\n"
        "             [--json FILE] [--steps] [--check]\n"
        "\n"
        "  --rounds N       times each row is started (200)\n"
        "  --slow-rounds N  the same for runc, docker and runsc (40)\n"
        "  --warmup N       rounds before that, not counted (5)\n"
        "  --pause MS       rest before each start, so that the last one's network namespace is gone (5)\n"
        "  --stockade PATH  the program to measure ($STOCKADE, or build/src/cli/stockade)\n"
        "  --image NAME     what docker would run, if it is on this machine (debian:12)\n"
        "  --json FILE      write the results there; bench/plot makes a picture of them\n"
        "  --steps          print what each step of the floor takes\n"
        "  --check          exit with 1 when a promised ratio or the memory limit is missed or was not measured\n";

static int start_number(const char *text, uint64_t max, uint64_t *ret, struct err *err) {
        uint64_t value = 0;
        int r = text_parse(text, TEXT_COUNT, &value, err);
        if (r < 0)
                return r;
        if (value > max)
                return err_set(err, ERR_INPUT, "'%s' is more than the %llu that are useful", text,
                               (unsigned long long)max);
        *ret = value;
        return 0;
}

/* 0 to go on, 1 when help was printed. */
static int start_options(int argc, char **argv, struct options *o, struct err *err) {
        static const struct option table[] = {
                {"rounds", required_argument, NULL, 'n'},
                {"slow-rounds", required_argument, NULL, 's'},
                {"warmup", required_argument, NULL, 'w'},
                {"pause", required_argument, NULL, 'p'},
                {"stockade", required_argument, NULL, 'b'},
                {"image", required_argument, NULL, 'i'},
                {"json", required_argument, NULL, 'j'},
                {"steps", no_argument, NULL, 't'},
                {"check", no_argument, NULL, 'c'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        const char *path = getenv("STOCKADE");
        *o = (struct options){.stockade = path ? path : "build/src/cli/stockade",
                              .image = "debian:12",
                              .rounds = 200,
                              .slow_rounds = 40,
                              .warmup = 5,
                              .pause_ms = 5};
        for (int r = 0, c; r == 0 && (c = getopt_long(argc, argv, "h", table, NULL)) != -1;) {
                switch (c) {
                case 'n':
                        r = start_number(optarg, START_MAX_ROUNDS, &o->rounds, err);
                        break;
                case 's':
                        r = start_number(optarg, START_MAX_ROUNDS, &o->slow_rounds, err);
                        break;
                case 'w':
                        r = start_number(optarg, START_MAX_ROUNDS, &o->warmup, err);
                        break;
                case 'p':
                        r = start_number(optarg, 10000, &o->pause_ms, err);
                        break;
                case 'b':
                        o->stockade = optarg;
                        break;
                case 'i':
                        o->image = optarg;
                        break;
                case 'j':
                        o->json = optarg;
                        break;
                case 't':
                        o->steps = true;
                        break;
                case 'c':
                        o->check = true;
                        break;
                case 'h':
                        (void)fputs(start_usage, stdout);
                        return 1;
                default:
                        return err_set(err, ERR_INPUT, "see start --help");
                }
                if (r < 0)
                        return r;
        }
        return optind < argc ? err_set(err, ERR_INPUT, "'%s' is not an option; see start --help", argv[optind]) : 0;
}

static uint64_t start_random(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static void start_shuffle(int order[ROWS], uint64_t *state) {
        for (int i = 0; i < ROWS; i++)
                order[i] = i;
        for (unsigned i = ROWS - 1; i > 0; i--) {
                unsigned j = (unsigned)(start_random(state) % (i + 1));
                int t = order[i];
                order[i] = order[j];
                order[j] = t;
        }
}

/* Rows with fewer samples than rounds are spread evenly over the run. */
static bool start_takes_part(const struct report *r, const struct row *row, unsigned round) {
        return (uint64_t)(round + 1) * row->wanted / r->rounds != (uint64_t)round * row->wanted / r->rounds;
}

static void start_note_steps(struct report *r, const struct floor_trace *t) {
        r->steps = t->count - 1;
        for (unsigned i = 0; i < r->steps; i++) {
                r->step_name[i] = t->name[i + 1];
                r->step[i].ns[r->step[i].count++] = t->at[i + 1] - t->at[i];
        }
}

/* One start of one row. A failure is written into the row. */
static void start_once(struct report *r, int index, struct floor *floor, const struct peers *peers, bool counts) {
        struct row *row = &r->row[index];
        int peer = start_peer_of_row[index];
        struct err err = {0};
        (void)nanosleep(&(struct timespec){.tv_sec = r->pause_ms / 1000, .tv_nsec = r->pause_ms % 1000 * 1000000L},
                        NULL);
        uint64_t begin = measure_now();
        int result;
        if (peer < 0)
                result = floor_run(floor, index == ROW_FLOOR ? FLOOR_TMPFS : FLOOR_TEMPLATE, &err);
        else
                result = peers_run(peers->peer[peer].program, peers->peer[peer].argv);
        uint64_t end = measure_now();
        if (result != 0 && peer < 0)
                (void)snprintf(row->skip, sizeof(row->skip), "failed: %.300s", err.text);
        else if (result != 0)
                (void)snprintf(row->skip, sizeof(row->skip), "failed: ended with %d", result);
        else if (counts)
                row->samples.ns[row->samples.count++] = end - begin;
        if (result == 0 && counts && index == ROW_FLOOR)
                start_note_steps(r, floor->trace);
}

static void start_rounds(struct report *r, struct floor *floor, const struct peers *peers) {
        uint64_t state = r->seed;
        int order[ROWS];
        for (unsigned round = 0; round < r->warmup + r->rounds; round++) {
                bool counts = round >= r->warmup;
                start_shuffle(order, &state);
                for (int i = 0; i < ROWS; i++) {
                        struct row *row = &r->row[order[i]];
                        if (row->skip[0] == '\0' && (counts ? start_takes_part(r, row, round - r->warmup)
                                                            : round < 2 || row->wanted == r->rounds))
                                start_once(r, order[i], floor, peers, counts);
                }
        }
        for (int i = 0; i < ROWS; i++)
                r->row[i].sum = measure_summary(&r->row[i].samples);
        for (unsigned i = 0; i < r->steps; i++)
                r->step_sum[i] = measure_summary(&r->step[i]);
}

static int start_prepare(struct report *r, const struct options *o, const struct peers *peers, struct err *err) {
        r->rounds = (unsigned)o->rounds;
        r->warmup = (unsigned)o->warmup;
        r->pause_ms = (unsigned)o->pause_ms;
        r->seed = measure_now() | 1;
        for (int i = 0; i < ROWS; i++) {
                struct row *row = &r->row[i];
                row->name = start_labels[i][0];
                row->label = start_labels[i][1];
                row->wanted = (unsigned)(i >= ROW_RUNC ? MIN(o->slow_rounds, o->rounds) : o->rounds);
                row->samples.ns = calloc(o->rounds + 1, sizeof(uint64_t));
                if (!row->samples.ns)
                        return err_set(err, -ENOMEM, "could not allocate room for the samples");
                if (start_peer_of_row[i] >= 0)
                        (void)snprintf(row->skip, sizeof(row->skip), "%s", peers->peer[start_peer_of_row[i]].skip);
                if (row->wanted == 0)
                        (void)snprintf(row->skip, sizeof(row->skip), "0 rounds asked for");
        }
        for (size_t i = 0; i < FLOOR_STEPS; i++) {
                r->step[i].ns = calloc(o->rounds + 1, sizeof(uint64_t));
                if (!r->step[i].ns)
                        return err_set(err, -ENOMEM, "could not allocate room for the samples");
        }
        return 0;
}

static void start_memory(struct report *r, const struct peers *peers) {
        const struct peer *p = &peers->peer[PEER_STOCKADE];
        struct err err = {0};
        if (r->row[ROW_STOCKADE].skip[0] != '\0')
                (void)snprintf(r->memory_skip, sizeof(r->memory_skip), "%s", r->row[ROW_STOCKADE].skip);
        else if (memory_measure(p->program, &r->memory, &err) < 0)
                (void)snprintf(r->memory_skip, sizeof(r->memory_skip), "%s", err.text);
}

/* 0 when all is well, 1 when a row failed, or with --check a promise was not kept. */
static int start_verdict(const struct report *r, bool check) {
        struct promise promises[PROMISES];
        int bad = 0;
        for (int i = 0; i < ROWS; i++)
                bad |= str_starts(r->row[i].skip, "failed: ");
        report_promises(r, promises);
        for (size_t i = 0; check && i < PROMISES; i++)
                bad |= promises[i].limit > 0 && (!promises[i].known || promises[i].value > promises[i].limit);
        return bad;
}

/* What the programs print is not wanted; what they complain about is. Returns the real standard output. */
static int start_silence(struct err *err) {
        _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        _cleanup_fd_ int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (null < 0 || out < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
                return err_set(err, -errno, "cannot turn standard output away");
        return TAKE_FD(out);
}

static int start_measure(const struct options *o, struct report *r, struct err *err) {
        struct floor floor = {.v2 = -EBADF, .v1 = {-EBADF, -EBADF, -EBADF}};
        struct peers peers = {0};
        struct err floor_err = {0};
        int e = peers_open(&peers, o->stockade, o->image, err);
        if (e == 0)
                e = start_prepare(r, o, &peers, err);
        if (e == 0 && floor_open(&floor, peers.root, &floor_err) < 0) {
                (void)snprintf(r->row[ROW_FLOOR].skip, sizeof(r->row[0].skip), "%.300s", floor_err.text);
                (void)snprintf(r->row[ROW_FLOOR_TEMPLATE].skip, sizeof(r->row[0].skip), "%.300s", floor_err.text);
        }
        if (e == 0) {
                start_rounds(r, &floor, &peers);
                start_memory(r, &peers);
        }
        floor_close(&floor);
        peers_close(&peers);
        return e;
}

static int start_measure_silently(const struct options *o, struct report *r, struct err *err) {
        _cleanup_fd_ int out = start_silence(err);
        if (out < 0)
                return out;
        int e = start_measure(o, r, err);
        if (dup2(out, STDOUT_FILENO) < 0 && e == 0)
                e = err_set(err, -errno, "cannot turn standard output back");
        return e;
}

int main(int argc, char **argv) {
        static struct report report;
        struct options o;
        struct err err = {0};
        int r = start_options(argc, argv, &o, &err);
        if (r > 0)
                return 0;
        if (r == 0 && geteuid() != 0)
                r = err_set(&err, -EPERM, "the floor and runc need root");
        if (r == 0)
                r = start_measure_silently(&o, &report, &err);
        if (r == 0) {
                report_print(&report, o.steps);
                r = o.json ? report_write_json(&report, o.json, &err) : 0;
        }
        if (r < 0) {
                err_print(&err);
                return 125;
        }
        return start_verdict(&report, o.check);
}
