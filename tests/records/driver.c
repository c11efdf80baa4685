/* Drives the ledger and the store for test_*.py, and says on standard output what it was told: one line per news, so
 * that whoever kills it knows what was acknowledged before.
 *
 *   driver ledger FOLDER SEGMENT_BYTES    appends events without end
 *   driver store FOLDER                   puts rows without end
 *
 * open N          the number or ticket it starts from
 * durable N HASH  the ledger: everything up to N is durable, and N has this hash
 * committed N     the store: rows 1 to N are
 * health E        what writing meets now, 0: nothing
 * refused E       an event that has to be recorded before the act was turned away */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/fd.h"
#include "ledger/ledger.h"
#include "store/store.h"

static void _printf_(1, 2) say(const char *format, ...) {
        char line[200];
        va_list args;

        va_start(args, format);
        int n = vsnprintf(line, sizeof line, format, args);
        va_end(args);
        if (n > 0 && fd_write_full(STDOUT_FILENO, line, (size_t)n) < 0)
                _exit(0); /* nobody listens any more */
}

static void drain(int fd, int ms) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t n;

        (void)poll(&p, 1, ms);
        (void)!read(fd, &n, sizeof n);
}

static int fail(const struct err *err) {
        err_print(err);
        return 1;
}

/* Some of everything: small and large, durable and not, bursts and single ones. */
static int64_t append(struct ledger *l, uint64_t i) {
        char data[5000];

        (void)snprintf(data, sizeof data, "{\"i\":%llu,\"pad\":\"%0*d\"}", (unsigned long long)i,
                       (int)(i % 97 == 0 ? 4000 : 1 + i * 31 % 100), 0);
        return ledger_append(l, i % 10 == 0 ? LEDGER_SANDBOX_CREATE : LEDGER_NET_USE, "0123456789abcdef", "driver",
                             data);
}

static int drive_ledger(const char *folder, uint64_t segment_bytes) {
        _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct ledger_options o = {.dir = dir, .segment_bytes = segment_bytes, .checkpoint_events = 64, .delay_ms = 2};
        struct err err = {0};
        struct ledger *l;
        uint64_t told = 0, i = 0;
        int health = 0;

        if (ledger_open(&l, &o, &err) < 0)
                return fail(&err);
        say("open %llu\n", (unsigned long long)ledger_durable(l));
        for (;;) {
                uint8_t hash[HASH_SIZE];
                char text[HASH_TEXT_SIZE];
                uint64_t seq;

                for (unsigned burst = 0; burst < 1 + i % 50; burst++) {
                        int64_t r = append(l, i++);
                        if (r < 0 && r != -EAGAIN)
                                say("refused %d\n", (int)-r);
                }
                drain(ledger_fd(l), 5);
                ledger_position(l, &seq, hash);
                hash_text(hash, text);
                if (seq != told)
                        say("durable %llu %s\n", (unsigned long long)(told = seq), text);
                if (ledger_health(l) != health)
                        say("health %d\n", -(health = ledger_health(l)));
        }
}

static uint64_t put(struct store *s, uint64_t i) {
        char text[3000];
        struct store_sandbox row = {.owner = "driver", .state = "running", .created_ms = i, .policy = text};

        (void)snprintf(row.id, sizeof row.id, "%016llx", (unsigned long long)i);
        row.policy_size = (size_t)snprintf(text, sizeof text, "%llu:%0*d", (unsigned long long)i,
                                           1 + (int)(i * 7919 % 2900), 0);
        return store_put(s, STORE_SANDBOX, &row);
}

static int count(void *data, const void *row) {
        (void)row;
        ++*(uint64_t *)data;
        return 0;
}

static int drive_store(const char *folder) {
        struct err err = {0};
        struct store *s;
        uint64_t told = 0, from = 0;
        int health = 0;

        if (store_open(&s, folder, &err) < 0 || store_load(s, STORE_SANDBOX, count, &from, &err) < 0)
                return fail(&err);
        say("open %llu\n", (unsigned long long)from);
        for (uint64_t i = from + 1;;) {
                for (unsigned burst = 0; burst < 1 + i % 20; burst++)
                        if (put(s, i) != STORE_REFUSED)
                                i++; /* ticket n is row from + n */
                if (i % 3 == 0)
                        store_hurry(s);
                drain(store_fd(s), 5);
                uint64_t done = store_committed(s);
                if (done != told)
                        say("committed %llu\n", (unsigned long long)(from + (told = done)));
                if (store_health(s) != health)
                        say("health %d\n", -(health = store_health(s)));
        }
}

int main(int argc, char **argv) {
        if (argc == 4 && str_eq(argv[1], "ledger"))
                return drive_ledger(argv[2], strtoull(argv[3], NULL, 10));
        if (argc == 3 && str_eq(argv[1], "store"))
                return drive_store(argv[2]);
        (void)fprintf(stderr, "usage: driver ledger FOLDER SEGMENT_BYTES | store FOLDER\n");
        return 125;
}
