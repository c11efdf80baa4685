/* A warden and a gate on the other ends of socket pairs, and a real ledger: what a gate is told, in which order, again
 * after its death, and what becomes of what it says. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "operator/gate-link.h"
#include "operator/warden-link.h"
#include "wire/packet.h"

static struct core core;
static int warden, gate = -EBADF;
static char folder[] = "/tmp/stockade-test-XXXXXX";
static struct buf rules;

void operator_end(struct core *o) {
        o->ended = true;
}

static void turns(void) {
        for (unsigned i = 0; i < 20; i++)
                CHECK(loop_turn(core.loop, 0) == 0);
}

static void begin(void) {
        struct rule r = {.host = "example.org", .ports = {443}, .port_count = 1};
        struct err err = {0};
        int fds[2];

        core = (struct core){0};
        memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
        CHECK(mkdtemp(folder) != NULL);
        struct ledger_options o = {.dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .delay_ms = 1};
        CHECK(ledger_open(&core.ledger, &o, &err) == 0);
        (void)close(o.dir);
        CHECK(loop_create(&core.loop, &err) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
        warden = fds[1];
        (void)fcntl(warden, F_SETFL, O_RDWR | O_NONBLOCK);
        CHECK(warden_link_open(&core, fds[0], &err) == 0);
        rules_begin(&rules);
        rules_add(&rules, &r);
        CHECK(buf_ok(&rules));
}

static void end(void) {
        DIR *d = opendir(folder);

        gate_link_close(&core);
        warden_link_close(&core);
        ledger_close(core.ledger);
        loop_destroy(core.loop);
        fd_close(&warden);
        fd_close(&gate);
        buf_free(&rules);
        for (struct dirent *e; (e = readdir(d));)
                (void)unlinkat(dirfd(d), e->d_name, 0);
        (void)closedir(d);
        CHECK(rmdir(folder) == 0);
}

/* Answers a request for a gate. */
static void give_gate(uint32_t flags) {
        static uint8_t packet[WARDEN_PACKET_MAX];
        struct warden_message m, a = {.kind = WARDEN_ANSWER, .pid = 1};
        int fds[WARDEN_FDS_MAX], ends[2];
        size_t count;

        turns();
        CHECK(warden_receive(warden, packet, &m, fds, &count) == 1 && m.kind == WARDEN_GATE && m.flags == flags);
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
        fd_close(&gate);
        gate = ends[1];
        a.serial = m.serial;
        CHECK(warden_send(warden, &a, ends, 1) == 0);
        (void)close(ends[0]);
        turns();
        struct gate_message ready = {.kind = GATE_READY};
        CHECK(gate_send(gate, &ready, NULL, 0) == 0);
        turns();
}

static uint8_t said[GATE_PACKET_MAX];
static struct gate_message m;
static int got[GATE_FDS_MAX];
static size_t got_count;

/* What the gate is told next: its kind, 0: nothing. */
static enum gate_kind hear(void) {
        packet_close(got, got_count);
        got_count = 0;
        turns();
        return gate_receive(gate, said, &m, got, &got_count) == 1 ? m.kind : 0;
}

static struct gate_ward *open_ward(const char *sandbox, bool trust,
                                   void (*authority)(void *, int, int[GATE_CA_COUNT])) {
        struct gate_ward_plan plan = {.owner = "uid:1000",
                                      .sandbox = sandbox,
                                      .limits = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                      .rules = rules.data,
                                      .rules_size = rules.size,
                                      .trust = trust};
        struct gate_ward *w = NULL;
        struct err err = {0};

        CHECK(gate_ward_open(&core, &plan, authority, &core, &w, &err) == 0);
        return w;
}

static void give_sockets(struct gate_ward *w, size_t count) {
        int fds[GATE_FD_COUNT];

        for (size_t i = 0; i < count; i++)
                fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        gate_ward_sockets(w, fds, count);
}

#define SOCKETS ((1U << GATE_MEMORY) - 1)

static void expect_told(uint32_t ward, bool secret, bool sockets) {
        CHECK(hear() == GATE_ADD && m.ward == ward && (m.fds & SOCKETS) == 0);
        CHECK(hear() == GATE_RULES && m.ward == ward && m.rules_size == rules.size);
        if (secret)
                CHECK(hear() == GATE_SECRET && str_eq(m.name, "TOKEN") && m.value_size == 5);
        if (sockets)
                CHECK(hear() == GATE_ADD && m.fds == SOCKETS && got_count == GATE_MEMORY);
        CHECK(hear() == 0);
}

static void order(void) {
        begin();
        struct gate_ward *w = open_ward("0123456789abcdef", false, NULL);
        CHECK(!gate_link_idle(&core, "uid:1000") && gate_link_idle(&core, "uid:1001"));
        CHECK(gate_ward_secret(w, "TOKEN", "stockade-placeholder-1", "value", 5) == 0);
        give_gate(0);
        expect_told(1, true, false);
        give_sockets(w, GATE_MEMORY + 1);
        CHECK(hear() == GATE_ADD && m.fds == 1U << GATE_MEMORY); /* names before sockets */
        CHECK(hear() == GATE_ADD && m.fds == SOCKETS && hear() == 0);
        CHECK(gate_ward_rules(w, rules.data, rules.size) == 0);
        CHECK(hear() == GATE_RULES && m.token == 2);
        CHECK(gate_ward_secret(w, "TOKEN", "stockade-placeholder-1", "", 0) == 0);
        CHECK(hear() == GATE_SECRET && m.value_size == 0 && hear() == 0);
        /* a second sandbox of the owner is another ward of the same gate */
        struct gate_ward *second = open_ward("1123456789abcdef", false, NULL);
        expect_told(2, false, false);
        gate_ward_close(second);
        CHECK(hear() == GATE_REMOVE && m.ward == 2 && hear() == GATE_FLUSH && m.ward == 2 && hear() == 0);
        end();
}

static void death(void) {
        begin();
        struct gate_ward *w = open_ward("0123456789abcdef", false, NULL);
        give_gate(0);
        give_sockets(w, GATE_MEMORY + 1);
        CHECK(gate_ward_secret(w, "TOKEN", "stockade-placeholder-1", "value", 5) == 0);
        struct gate_ward *closing = open_ward("1123456789abcdef", false, NULL);
        turns();
        gate_ward_close(closing);
        while (hear())
                ;
        fd_close(&gate); /* dies */
        turns();
        CHECK(loop_turn(core.loop, 200) == 0);
        give_gate(0);
        expect_told(1, true, true);
        CHECK(hear() == 0);
        /* one that talks nonsense is replaced too, later than the first */
        CHECK(write(gate, "nonsense", 8) == 8);
        turns();
        uint64_t before = loop_now(core.loop);
        CHECK(loop_turn(core.loop, 500) == 0 && loop_now(core.loop) - before >= 50);
        give_gate(0);
        expect_told(1, true, true);
        end();
}

static struct {
        unsigned calls;
        int error, fds;
} answered;

static void on_authority(void *data, int error, int fds[GATE_CA_COUNT]) {
        CHECK(data == &core);
        answered.calls++;
        answered.error = error;
        for (unsigned i = 0; i < GATE_CA_COUNT; i++)
                answered.fds += fds[i] >= 0;
}

static void say_authority(uint32_t ward) {
        struct gate_message a = {.kind = GATE_AUTHORITY, .ward = ward};
        int fds[GATE_CA_COUNT];

        for (unsigned i = 0; i < GATE_CA_COUNT; i++)
                fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHECK(gate_send(gate, &a, fds, GATE_CA_COUNT) == 0);
        packet_close(fds, GATE_CA_COUNT);
        turns();
}

static void authority(void) {
        static uint8_t packet[WARDEN_PACKET_MAX];
        struct warden_message keep;
        int fds[WARDEN_FDS_MAX];
        size_t count;

        begin();
        memset(&answered, 0, sizeof answered);
        struct gate_ward *w = open_ward("0123456789abcdef", true, on_authority);
        struct gate_ward *plain = open_ward("2123456789abcdef", false, NULL); /* has another gate */
        give_gate(WARDEN_AUTHORITY);
        expect_told(1, false, false);
        CHECK(answered.calls == 0);
        say_authority(1);
        CHECK(answered.calls == 1 && answered.error == 0 && answered.fds == GATE_CA_COUNT);
        give_sockets(w, GATE_MEMORY + 1);
        /* the other gate was asked for as well; then the key is kept */
        CHECK(warden_receive(warden, packet, &keep, fds, &count) == 1 && keep.kind == WARDEN_GATE && keep.flags == 0);
        CHECK(warden_receive(warden, packet, &keep, fds, &count) == 1 && keep.kind == WARDEN_KEEP_KEY && count == 1);
        CHECK_STR(keep.id, "0123456789abcdef");
        packet_close(fds, count);
        fd_close(&gate);
        turns();
        CHECK(loop_turn(core.loop, 200) == 0);
        give_gate(WARDEN_AUTHORITY);
        CHECK(hear() == GATE_ADD && m.fds == (1U << GATE_KEY | 1U << GATE_MEMORY)); /* before the rules */
        CHECK(hear() == GATE_RULES && hear() == GATE_ADD && hear() == 0);
        say_authority(1); /* said again: nobody waits for it */
        CHECK(answered.calls == 1);
        gate_ward_close(plain);
        end();
}

/* An adopted sandbox: nothing is said before its key is there. */
static void adopted(void) {
        begin();
        struct gate_ward *w = open_ward("0123456789abcdef", true, NULL);
        give_gate(WARDEN_AUTHORITY);
        CHECK(hear() == 0);
        give_sockets(w, GATE_FD_COUNT);
        CHECK(hear() == GATE_ADD && m.fds == (1U << GATE_KEY | 1U << GATE_MEMORY));
        CHECK(hear() == GATE_RULES && hear() == GATE_ADD && m.fds == SOCKETS);
        end();
}

static void no_gate(void) {
        static uint8_t packet[WARDEN_PACKET_MAX];
        struct warden_message q, a = {.kind = WARDEN_ANSWER, .error = -ENOENT, .text = "there is no stockade-gate"};
        int fds[WARDEN_FDS_MAX];
        size_t count;

        begin();
        memset(&answered, 0, sizeof answered);
        struct gate_ward *w = open_ward("0123456789abcdef", true, on_authority);
        turns();
        CHECK(warden_receive(warden, packet, &q, fds, &count) == 1);
        a.serial = q.serial;
        CHECK(warden_send(warden, &a, NULL, 0) == 0);
        turns();
        CHECK(loop_turn(core.loop, 10) == 0);
        CHECK(answered.calls == 1 && answered.error == ERR_UNENFORCED && answered.fds == 0);
        gate_ward_close(w);
        CHECK(gate_link_idle(&core, "uid:1000"));
        end();
}

/* The last line of the ledger that is not a checkpoint. */
static const char *last_event(void) {
        static char line[4096];
        struct ledger_reader *r;
        struct err err = {0};
        const char *text;
        size_t size;
        uint64_t seq = (uint64_t)ledger_checkpoint(core.ledger);

        for (unsigned i = 0; i < 60000 && ledger_durable(core.ledger) < seq; i++)
                (void)usleep(1000);
        _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(ledger_reader_open(&r, dir, 0, &err) == 0);
        while (ledger_reader_next(r, &text, &size, &err) == 1)
                if (!memmem(text, size, "checkpoint", 10))
                        (void)snprintf(line, sizeof line, "%.*s", (int)size, text);
        ledger_reader_close(r);
        return line;
}

static void say_event(uint32_t ward, const struct gate_event *e) {
        struct gate_message event = {.kind = GATE_EVENT, .ward = ward, .event = *e};

        CHECK(gate_send(gate, &event, NULL, 0) == 0);
        turns();
}

static void events(void) {
        struct gate_event used = {.reason = GATE_USED, .count = 3, .sent = 10, .received = 20, .port = 443, .rule = 0},
                          denied = {.reason = GATE_NO_RULE, .count = 1, .port = 80, .rule = -1},
                          looked = {.reason = GATE_NO_RULE, .count = 2, .rule = -1},
                          spent = {.reason = GATE_EGRESS, .count = 1, .port = 443, .rule = 0};

        begin();
        (void)snprintf(used.host, sizeof used.host, "example.org");
        memcpy(denied.host, used.host, sizeof denied.host);
        (void)snprintf(denied.method, sizeof denied.method, "GET");
        memcpy(looked.host, used.host, sizeof looked.host);
        memcpy(spent.host, used.host, sizeof spent.host);
        struct gate_ward *w = open_ward("0123456789abcdef", false, NULL);
        give_gate(0);
        say_event(1, &used);
        const char *line = last_event();
        CHECK(strstr(line,
                     "\"sandbox\":\"0123456789abcdef\",\"actor\":\"gate\",\"kind\":\"net.use\",\"data\":{\"host\":"
                     "\"example.org\",\"port\":443,\"count\":3,\"sent\":10,\"received\":20,\"rule\":0}"));
        say_event(1, &denied);
        line = last_event();
        CHECK(strstr(line, "\"kind\":\"net.deny\"") && strstr(line, "\"reason\":\"no-rule\",\"method\":\"GET\""));
        say_event(1, &looked);
        CHECK(strstr(last_event(), "\"kind\":\"dns.deny\",\"data\":{\"host\":\"example.org\",\"count\":2,"));
        say_event(1, &spent);
        say_event(1, &spent);
        CHECK(strstr(last_event(), "\"kind\":\"net.deny\""));
        struct err err = {0};
        struct ledger_reader *r;
        const char *text;
        size_t size;
        unsigned hits = 0;
        _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(ledger_reader_open(&r, dir, 0, &err) == 0);
        while (ledger_reader_next(r, &text, &size, &err) == 1)
                hits += memmem(text, size, "budget.hit", 10) != NULL;
        ledger_reader_close(r);
        CHECK(hits == 1);
        /* what is said while the ward is being closed is still its own; its number is free after the echo */
        gate_ward_close(w);
        while (hear())
                ;
        say_event(1, &used);
        CHECK(strstr(last_event(), "net.use"));
        CHECK(!gate_link_idle(&core, "uid:1000"));
        struct gate_message echo = {.kind = GATE_FAILED, .ward = 1, .text = "there is no ward 1"};
        CHECK(gate_send(gate, &echo, NULL, 0) == 0);
        turns();
        CHECK(gate_link_idle(&core, "uid:1000"));
        say_event(1, &denied); /* of a ward that there is not: not recorded for anybody */
        CHECK(strstr(last_event(), "net.use"));
        end();
}

TEST_MAIN(TEST(order), TEST(death), TEST(authority), TEST(adopted), TEST(no_gate), TEST(events))
