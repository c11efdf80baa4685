/* bench/gate: what the way through the gate costs, beside no gate, a bare relay in its place, and two proxies.
 *
 * One client program and one server program serve every row. A round asks every row for the same, measure by measure,
 * in a new random order each time; ratios are taken within a round. A row that cannot run is skipped with its reason; a
 * row that fails ends as skipped and makes the exit status 1. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "bench/gate.h"

#define STREAMS   64
#define AT_A_TIME 16 /* connections, where the rate is measured */
#define HOLD      10000
#define RESERVE   256 /* descriptors that a full gate needs for other things */

struct options {
        const char *stockade, *json;
        uint64_t rounds, starts, ms;
        bool check, hurry;
};

/* Who drives a row, and where to. */
enum hand { OUTSIDE, IN_COPY, IN_SPLICE, IN_GATE, IN_INSPECT, SERVER, TINYPROXY, SQUID, HANDS };
static struct gate_hand hands[HANDS];
static const struct {
        enum hand hand;
        const char *via;
} ways[GATE_ROWS] = {
        [GATE_DIRECT] = {OUTSIDE, "plain:" GATE_SERVER ":5000"},
        [GATE_COPY] = {IN_COPY, "plain:" GATE_SERVER ":5000"},
        [GATE_SPLICE] = {IN_SPLICE, "plain:" GATE_SERVER ":5000"},
        [GATE_RELAY] = {IN_GATE, "plain:" GATE_NAME ":5000"},
        [GATE_CONNECT] = {IN_GATE, "proxy:198.18.0.1:3128:" GATE_NAME ":5000"},
        [GATE_TINYPROXY] = {OUTSIDE, "proxy:127.0.0.1:8888:" GATE_SERVER ":5000"},
        [GATE_SQUID] = {OUTSIDE, "proxy:127.0.0.1:3129:" GATE_SERVER ":5000"},
        [GATE_DIRECT_TLS] = {OUTSIDE, "tls:" GATE_NAME ":443"},
        [GATE_TERMINATED] = {IN_INSPECT, "tls:" GATE_NAME ":443"},
};

static volatile sig_atomic_t gate_stopped;

static void gate_stop(int number) {
        gate_stopped = number;
}

static const char gate_usage[] =
        "usage: gate [--rounds N] [--starts N] [--time MS] [--stockade PATH] [--json FILE] [--check]\n"
        "            [--hurry]\n"
        "\n"
        "  --rounds N       rounds of every row (20)\n"
        "  --starts N       starts of a sandbox with and without a network, each (200)\n"
        "  --time MS        how long one measurement of a rate takes (300)\n"
        "  --stockade PATH  the program to measure ($STOCKADE, or build/src/cli/stockade)\n"
        "  --hurry          before everything else that runs on this machine; for short runs where others work too\n"
        "  --json FILE      write the results there\n"
        "  --check          exit with 1 when a promise is missed or was not measured\n";

static int gate_number(const char *text, uint64_t max, uint64_t *ret, struct err *err) {
        uint64_t value = 0;
        int r = text_parse(text, TEXT_COUNT, &value, err);

        if (r == 0 && value > max)
                r = err_set(err, ERR_INPUT, "'%s' is more than the %llu that are useful", text,
                            (unsigned long long)max);
        if (r == 0)
                *ret = value;
        return r;
}

/* 0 to go on, 1 when help was printed. */
static int gate_options(int argc, char **argv, struct options *o, struct err *err) {
        static const struct option table[] = {
                {"rounds", required_argument, NULL, 'n'},
                {"starts", required_argument, NULL, 's'},
                {"time", required_argument, NULL, 't'},
                {"stockade", required_argument, NULL, 'b'},
                {"json", required_argument, NULL, 'j'},
                {"check", no_argument, NULL, 'c'},
                {"help", no_argument, NULL, 'h'},
                {"hurry", no_argument, NULL, 'u'},
                {NULL, 0, NULL, 0},
        };
        const char *path = getenv("STOCKADE");
        int r = 0;

        *o = (struct options){
                .stockade = path ? path : "build/src/cli/stockade", .rounds = 20, .starts = 200, .ms = 300};
        for (int c; r == 0 && (c = getopt_long(argc, argv, "h", table, NULL)) != -1;) {
                switch (c) {
                case 'n':
                        r = gate_number(optarg, GATE_ROUNDS_MAX, &o->rounds, err);
                        break;
                case 's':
                        r = gate_number(optarg, 100000, &o->starts, err);
                        break;
                case 't':
                        r = gate_number(optarg, 10000, &o->ms, err);
                        break;
                case 'b':
                        o->stockade = optarg;
                        break;
                case 'j':
                        o->json = optarg;
                        break;
                case 'c':
                        o->check = true;
                        break;
                case 'u':
                        o->hurry = true;
                        break;
                case 'h':
                        (void)fputs(gate_usage, stdout);
                        return 1;
                default:
                        return err_set(err, ERR_INPUT, "see gate --help");
                }
        }
        if (r == 0 && optind < argc)
                r = err_set(err, ERR_INPUT, "'%s' is not an option; see gate --help", argv[optind]);
        return r;
}

/* --- who takes part --- */

static void gate_skip(struct gate_report *r, enum hand hand, const char *via, const struct err *err) {
        for (int i = 0; i < GATE_ROWS; i++)
                if (ways[i].hand == hand && (!via || str_eq(via, ways[i].via)) && r->skip[i][0] == '\0')
                        (void)snprintf(r->skip[i], sizeof(r->skip[i]), "%.390s", err->text);
}

static bool gate_listens(uint16_t port) {
        struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

        for (unsigned i = 0; i < 300; i++) {
                _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

                if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
                        return true;
                (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
        return false;
}

static void gate_hire_proxy(struct gate_report *r, enum hand hand, int row, const char *const *argv, uint16_t port) {
        struct err err = {0};

        if (access(argv[0], X_OK) < 0)
                (void)err_set(&err, ERR_INPUT, "'%s' is not installed", argv[0]);
        else if (gate_hire(&hands[hand], argv, false, &err) == 0 && !gate_listens(port))
                (void)err_set(&err, ERR_INPUT, "failed: '%s' did not come up", argv[0]);
        hands[hand].between = hands[hand].pid;
        if (err.text[0] != '\0')
                (void)snprintf(r->skip[row], sizeof(r->skip[row]), "%.390s", err.text);
}

static int gate_hire_inside(struct gate_hand *h, const struct gate_place *p, const char *stockade, const char *profile,
                            struct err *err) {
        const char *const argv[] = {stockade, "run", "--profile", profile, "--", p->load, "client", NULL};

        return gate_hire(h, argv, true, err);
}

static int gate_gather(struct gate_report *r, const struct gate_place *p, struct err *err) {
        const char *const server[] = {p->load, "server", p->folder, NULL};
        const char *const outside[] = {p->load, "client", NULL};
        const char *const tinyproxy[] = {"/usr/bin/tinyproxy", "-d", "-c", p->tinyproxy, NULL};
        const char *const squid[] = {"/usr/sbin/squid", "-N", "-f", p->squid, NULL};
        uint64_t ready[2];

        int e = gate_hire(&hands[SERVER], server, true, err);
        if (e == 0)
                e = gate_hear(&hands[SERVER], ready, err);
        if (e == 0)
                e = gate_hire(&hands[OUTSIDE], outside, true, err);
        if (e == 0)
                e = gate_hire_inside(&hands[IN_COPY], p, p->sibling[0], p->plain, err);
        if (e == 0)
                e = gate_hire_inside(&hands[IN_SPLICE], p, p->sibling[1], p->plain, err);
        if (e == 0)
                e = gate_hire_inside(&hands[IN_GATE], p, p->stockade, p->plain, err);
        if (e == 0)
                e = gate_hire_inside(&hands[IN_INSPECT], p, p->stockade, p->inspect, err);
        if (e < 0)
                return e;
        (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* they come up meanwhile */
        for (enum hand i = IN_COPY; i <= IN_INSPECT && e == 0; i++)
                e = gate_ask(&hands[i], ready, err, "drop") == 0 ? gate_find(&hands[i], err) : ERR_REFUSED;
        if (e < 0)
                return e;
        gate_hire_proxy(r, TINYPROXY, GATE_TINYPROXY, tinyproxy, 8888);
        gate_hire_proxy(r, SQUID, GATE_SQUID, squid, 3129);
        return 0;
}

/* --- one measurement --- */

/* The process between client and server. */
static struct gate_hand *gate_between(int row) {
        return &hands[row == GATE_TINYPROXY ? TINYPROXY : row == GATE_SQUID ? SQUID : ways[row].hand];
}

static void gate_probe(struct gate_report *r, int row, int metric, unsigned round, bool counts, uint64_t ms) {
        struct gate_hand *h = &hands[ways[row].hand];
        const char *via = ways[row].via;
        const char *names = row == GATE_DIRECT ? GATE_SERVER : "198.18.0.1";
        struct err err = {0};
        uint64_t out[2] = {0, 0}, before = gate_work_of(gate_between(row));
        bool pair = false;
        int e = 0;

        switch (metric) {
        case GATE_ONE:
                e = gate_ask(h, out, &err, "stream %s 1 %llu", via, (unsigned long long)ms);
                break;
        case GATE_MANY:
                e = gate_ask(h, out, &err, "stream %s %d %llu", via, STREAMS, (unsigned long long)ms);
                break;
        case GATE_RATE:
                e = gate_ask(h, out, &err, "rate %s %d %llu", via, AT_A_TIME, (unsigned long long)ms);
                break;
        case GATE_P50:
                pair = true;
                e = gate_ask(h, out, &err, "latency %s 50", via);
                break;
        case GATE_NAMES_RATE:
                e = gate_ask(h, out, &err, "asks %s %s %llu", names, GATE_NAME, (unsigned long long)ms);
                break;
        case GATE_NAMES_P50:
                pair = true;
                e = gate_ask(h, out, &err, "names %s %s 100", names, GATE_NAME);
                break;
        default:
                return; /* comes with another */
        }
        if (e < 0) {
                struct err why = {0};

                (void)err_set(&why, e, "failed: %s of %s: %s", gate_metric_names[metric], gate_row_names[row],
                              err.text);
                if (metric == GATE_NAMES_RATE) /* a limit of the gate may forbid that; the row goes on */
                        (void)snprintf(r->trouble, sizeof(r->trouble), "%.390s", why.text);
                else
                        gate_skip(r, ways[row].hand, via, &why);
                return;
        }
        if (!counts)
                return;
        if (pair) {
                r->value[row][metric][round] = out[0];
                r->value[row][metric + 1][round] = out[1];
        } else if (out[1] > 0)
                /* nothing at all is a result, too, and not the lack of one */
                r->value[row][metric][round] = MAX((uint64_t)((double)out[0] * 1e9 / (double)out[1]), 1U);
        /* the quarter of the time before counting begins is work, too */
        if (metric == GATE_ONE && before > 0 && out[0] > 0)
                r->value[row][GATE_WORK][round] = (uint64_t)((double)(gate_work_of(gate_between(row)) - before) / 1.25 /
                                                             ((double)out[0] / (1 << 20)));
}

static uint64_t gate_random(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static void gate_shuffle(int order[GATE_ROWS], uint64_t *state) {
        for (int i = 0; i < GATE_ROWS; i++)
                order[i] = i;
        for (unsigned i = GATE_ROWS - 1; i > 0; i--) {
                unsigned j = (unsigned)(gate_random(state) % (i + 1));
                int t = order[i];

                order[i] = order[j];
                order[j] = t;
        }
}

/* One start of each sort, in random order. */
static void gate_start(struct gate_report *r, const struct gate_place *p, uint64_t *state) {
        const char *const without[] = {p->stockade, "run", "--", "/usr/bin/echo", NULL};
        const char *const with[] = {p->stockade, "run", "--allow", "example.test", "--", "/usr/bin/echo", NULL};
        int first = (int)(gate_random(state) & 1);

        for (int i = 0; i < GATE_SORTS && r->starts > r->speak[i].count; i++) {
                int sort = i ^ first;
                struct err err = {0};
                uint64_t speak = 0, gone = 0;

                (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* the last namespace is gone then */
                if (gate_time(sort == GATE_WITH ? with : without, &speak, &gone, &err) < 0) {
                        (void)snprintf(r->trouble, sizeof(r->trouble), "failed: %.380s", err.text);
                        return;
                }
                r->speak[sort].ns[r->speak[sort].count++] = speak;
                r->gone[sort].ns[r->gone[sort].count++] = gone;
                r->later[0][r->later_count] += sort == GATE_WITH ? (double)speak : -(double)speak;
                r->later[1][r->later_count] += sort == GATE_WITH ? (double)gone : -(double)gone;
                r->later_count += i == GATE_SORTS - 1;
        }
}

/* The first round is not counted. */
static void gate_rounds(struct gate_report *r, const struct gate_place *p, uint64_t ms) {
        uint64_t state = measure_now() | 1;
        int order[GATE_ROWS];

        for (unsigned round = 0; round <= r->wanted && !gate_stopped; round++) {
                for (int metric = 0; metric < GATE_METRICS; metric++) {
                        gate_shuffle(order, &state);
                        for (int i = 0; i < GATE_ROWS && !gate_stopped; i++) {
                                bool named = order[i] == GATE_DIRECT || order[i] == GATE_RELAY;

                                if (r->skip[order[i]][0] == '\0' && (metric < GATE_NAMES_RATE || named))
                                        gate_probe(r, order[i], metric, round - 1, round > 0, ms);
                        }
                }
                for (unsigned i = 0; round > 0 && !gate_stopped && i < (r->starts + r->wanted - 1) / r->wanted; i++)
                        gate_start(r, p, &state);
                r->rounds = round;
        }
}

/* --- memory --- */

/* A gate of its own, so that it is seen before it has done anything. */
static void gate_memories(struct gate_report *r, const struct gate_place *p) {
        struct gate_hand h = {.to = -EBADF};
        struct rlimit limit = {0};
        struct err err = {0};
        uint64_t out[2] = {0, 0};

        (void)getrlimit(RLIMIT_NOFILE, &limit);
        r->held = MIN((uint64_t)HOLD, ((uint64_t)limit.rlim_max - RESERVE) / 2);
        int e = gate_hire_inside(&h, p, p->stockade, p->plain, &err);
        if (e == 0)
                e = gate_ask(&h, out, &err, "drop"); /* it is there now */
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (e == 0)
                e = gate_find(&h, &err);
        if (e == 0)
                e = gate_memory_of(&h, &r->memory[GATE_IDLE], &err);
        if (e == 0)
                e = gate_ask(&h, out, &err, "hold %s %llu", ways[GATE_RELAY].via, (unsigned long long)r->held);
        if (e == 0)
                e = gate_memory_of(&h, &r->memory[GATE_FULL], &err);
        if (e == 0)
                e = gate_memory_of(&hands[IN_GATE], &r->memory[GATE_USED_UP], &err);
        if (e < 0)
                (void)snprintf(r->trouble, sizeof(r->trouble), "failed: memory: %.380s", err.text);
        gate_dismiss(&h);
}

/* --- the whole --- */

static int gate_prepare(struct gate_report *r, const struct options *o, struct err *err) {
        r->wanted = (unsigned)MAX(o->rounds, 1U);
        r->starts = (unsigned)o->starts;
        bool good = true;
        for (int i = 0; i < GATE_ROWS; i++)
                for (int k = 0; k < GATE_METRICS; k++)
                        good &= (r->value[i][k] = calloc(r->wanted + 1, sizeof(uint64_t))) != NULL;
        for (int i = 0; i < GATE_SORTS; i++) {
                good &= (r->speak[i].ns = calloc(o->starts + 1, sizeof(uint64_t))) != NULL;
                good &= (r->gone[i].ns = calloc(o->starts + 1, sizeof(uint64_t))) != NULL;
        }
        for (int i = 0; i < 2; i++)
                good &= (r->later[i] = calloc(o->starts + 1, sizeof(double))) != NULL;
        return good ? 0 : err_set(err, -ENOMEM, "could not allocate room for the samples");
}

static int gate_measure(const struct options *o, struct gate_report *r, struct err *err) {
        struct gate_place place = {0};
        struct err tls = {0};

        int e = gate_prepare(r, o, err);
        if (e == 0)
                e = gate_place_open(&place, o->stockade, err);
        if (e == 0)
                e = gate_gather(r, &place, err);
        if (e == 0) {
                if (o->hurry)
                        gate_hurry(place.load);
                (void)gate_memory_of(&hands[IN_INSPECT], &r->memory[GATE_IDLE_TLS], &tls);
                gate_rounds(r, &place, o->ms);
                if (!gate_stopped)
                        gate_memories(r, &place);
        }
        for (int i = 0; i < HANDS; i++) {
                if (i == SERVER && hands[i].pid > 0)
                        (void)kill(hands[i].pid, SIGTERM); /* it reads nothing */
                gate_dismiss(&hands[i]);
        }
        gate_place_close(&place);
        return gate_stopped && e == 0 ? err_set(err, -EINTR, "stopped by a signal") : e;
}

static int gate_verdict(const struct gate_report *r, bool check) {
        bool bad = r->trouble[0] != '\0';

        for (int i = 0; i < GATE_ROWS; i++)
                bad |= str_starts(r->skip[i], "failed: ");
        return bad || (check && !gate_report_kept(r));
}

int main(int argc, char **argv) {
        static struct gate_report report;
        struct options o;
        struct err err = {0};

        int r = gate_options(argc, argv, &o, &err);
        if (r > 0)
                return 0;
        (void)signal(SIGPIPE, SIG_IGN);
        (void)sigaction(SIGINT, &(struct sigaction){.sa_handler = gate_stop}, NULL);
        (void)sigaction(SIGTERM, &(struct sigaction){.sa_handler = gate_stop}, NULL);
        if (r == 0 && geteuid() != 0)
                r = err_set(&err, -EPERM, "network namespaces of our own need root");
        if (r == 0)
                r = gate_measure(&o, &report, &err);
        if (r == 0) {
                gate_report_print(&report);
                r = o.json ? gate_report_json(&report, o.json, &err) : 0;
        }
        if (r < 0) {
                err_print(&err);
                return 125;
        }
        return gate_verdict(&report, o.check);
}
