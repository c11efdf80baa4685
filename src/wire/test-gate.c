/* Unit tests of what is said between a gate and its keeper: every kind reads back over a real socket pair, and nothing
 * that is malformed, too long, or has the wrong descriptors passes. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "wire/gate.h"

static char packet[GATE_PACKET_MAX];
static int ends[2];
static struct buf rules;

static void open_pair(void) {
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
        buf_free(&rules);
        rules_begin(&rules);
        rules_add(&rules, &(struct rule){.host = "example.com", .ports = {443}, .port_count = 1});
        CHECK(buf_ok(&rules));
}

static void close_pair(void) {
        fd_close(&ends[0]);
        fd_close(&ends[1]);
        buf_free(&rules);
}

static unsigned open_descriptors(void) {
        unsigned n = 0;

        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

static struct gate_message sample(enum gate_kind kind) {
        struct gate_message m = {.kind = kind, .ward = kind == GATE_READY ? 0 : 7};

        switch (kind) {
        case GATE_ADD:
                m.flags = GATE_WARD_LEARN;
                m.fds = 1 << GATE_TCP | 1 << GATE_KEY;
                m.limits = (struct gate_limits){1, 2, 3, UINT64_MAX};
                break;
        case GATE_RULES:
                m.token = 3;
                m.rules = rules.data;
                m.rules_size = rules.size;
                break;
        case GATE_SECRET:
                m.name = "TOKEN";
                m.holder = "stockade-placeholder-1";
                m.value = (const uint8_t *)"s3cr\0et\n";
                m.value_size = 8;
                break;
        case GATE_FLUSH:
                m.token = UINT32_MAX;
                break;
        case GATE_APPLIED:
                m.token = 3;
                m.closed = 12;
                break;
        case GATE_EVENT:
                m.event = (struct gate_event){GATE_NO_PATH, 5, 6, 7, 443, -1, "example.com", "GET", "/a", "a clause"};
                break;
        case GATE_FLUSHED:
                m.token = 9;
                m.totals = (struct gate_totals){1, 2, 3, 4, 5, 6, 7};
                break;
        case GATE_FAILED:
                m.text = "no room";
                break;
        case GATE_REMOVE:
        case GATE_READY:
        case GATE_AUTHORITY:
        case GATE_KIND_COUNT:
                break;
        }
        return m;
}

static size_t fds_for(enum gate_kind kind) {
        return kind == GATE_ADD ? 2 : kind == GATE_AUTHORITY ? GATE_CA_COUNT : 0;
}

static int send_sample(enum gate_kind kind) {
        static const int fds[GATE_FDS_MAX] = {0, 1, 2, 0, 1, 2, 0, 1};
        struct gate_message m = sample(kind);

        return gate_send(ends[0], &m, fds, fds_for(kind));
}

/* The bytes of a kind's sample as they are on the wire. */
static size_t bytes_of(enum gate_kind kind) {
        char control[256];
        struct iovec part = {packet, sizeof packet};
        struct msghdr message = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

        CHECK(send_sample(kind) == 0);
        ssize_t n = recv(ends[1], packet, 0, MSG_PEEK | MSG_TRUNC);
        CHECK(n > 0);
        CHECK(recvmsg(ends[1], &message, 0) == n);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
                for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
                        int fd;
                        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                        fd_close(&fd);
                }
        return n > 0 ? (size_t)n : 0;
}

static void same(const struct gate_message *a, const struct gate_message *b) {
        CHECK(a->kind == b->kind && a->ward == b->ward && a->flags == b->flags && a->token == b->token);
        CHECK(a->fds == b->fds && a->closed == b->closed);
        CHECK(memcmp(&a->limits, &b->limits, sizeof a->limits) == 0);
        CHECK(memcmp(&a->totals, &b->totals, sizeof a->totals) == 0);
        CHECK(a->rules_size == b->rules_size && a->value_size == b->value_size);
        CHECK(a->rules_size == 0 || (b->rules && memcmp(a->rules, b->rules, a->rules_size) == 0));
        CHECK(a->value_size == 0 || (b->value && memcmp(a->value, b->value, a->value_size) == 0));
        CHECK_STR(b->name ? b->name : "", a->name ? a->name : "");
        CHECK_STR(b->holder ? b->holder : "", a->holder ? a->holder : "");
        CHECK_STR(b->text ? b->text : "", a->text ? a->text : "");
        CHECK(a->event.reason == b->event.reason && a->event.count == b->event.count);
        CHECK(a->event.sent == b->event.sent && a->event.received == b->event.received);
        CHECK(a->event.port == b->event.port && a->event.rule == b->event.rule);
        CHECK_STR(b->event.host, a->event.host);
        CHECK_STR(b->event.method, a->event.method);
        CHECK_STR(b->event.path, a->event.path);
        CHECK_STR(b->event.detail, a->event.detail);
}

static void every_kind_reads_back(void) {
        open_pair();
        for (enum gate_kind kind = GATE_ADD; kind < GATE_KIND_COUNT; kind++) {
                struct gate_message m = sample(kind), got;
                int fds[GATE_FDS_MAX];
                size_t count = 99;

                CHECK(send_sample(kind) == 0);
                CHECK(gate_receive(ends[1], packet, &got, fds, &count) == 1);
                CHECK(count == fds_for(kind));
                same(&m, &got);
                for (size_t i = 0; i < count && i < GATE_FDS_MAX; i++) {
                        CHECK(fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
                        fd_close(&fds[i]);
                }
        }
        close_pair();
}

static void the_end_and_nothing_yet(void) {
        struct gate_message got;
        int fds[GATE_FDS_MAX];
        size_t count;

        open_pair();
        CHECK(gate_receive(ends[1], packet, &got, fds, &count) == -EAGAIN);
        fd_close(&ends[0]);
        CHECK(gate_receive(ends[1], packet, &got, fds, &count) == 0);
        CHECK(gate_send(ends[1], &(struct gate_message){.kind = GATE_READY}, NULL, 0) == -EPIPE);
        close_pair();
}

/* Every prefix, one byte more, and every unknown kind. */
static void only_whole_messages_pass(void) {
        struct gate_message got;

        open_pair();
        for (enum gate_kind kind = GATE_ADD; kind < GATE_KIND_COUNT; kind++) {
                size_t n = bytes_of(kind);

                CHECK(gate_read(packet, n, &got) == 0);
                for (size_t cut = 0; cut < n; cut++)
                        CHECK(gate_read(packet, cut, &got) == -EBADMSG);
                packet[n] = 0;
                CHECK(gate_read(packet, n + 1, &got) == -EBADMSG);
        }
        static const uint8_t unknown[] = {0, GATE_KIND_COUNT, 255};
        for (size_t i = 0; i < sizeof unknown; i++) {
                char head[8] = {(char)unknown[i]};
                CHECK(gate_read(head, sizeof head, &got) == -EBADMSG);
        }
        close_pair();
}

/* What bytes_of wrote, with some of its bytes replaced by others of the same length. */
static int patched(enum gate_kind kind, const char *from, const char *to, size_t size) {
        struct gate_message got;
        size_t n = bytes_of(kind);
        char *at = memmem(packet, n, from, size);

        CHECK(at != NULL);
        if (at)
                memcpy(at, to, size);
        return gate_read(packet, n, &got);
}

static void hostile_fields_are_refused(void) {
        struct gate_message got;

        open_pair();
        CHECK(patched(GATE_EVENT, "example.com", "example.org", 11) == 0);
        CHECK(patched(GATE_EVENT, "example.com", "exam\033le.com", 11) == -EBADMSG);
        CHECK(patched(GATE_EVENT, "example.com", "exam\0le.com", 11) == -EBADMSG);
        CHECK(patched(GATE_EVENT, "a clause", "a\nclause", 8) == -EBADMSG);
        CHECK(patched(GATE_EVENT, "a clause",
                      "a\x9b"
                      "clause",
                      8) == -EBADMSG);
        CHECK(patched(GATE_FAILED, "no room", "no\rroom", 7) == -EBADMSG);
        CHECK(patched(GATE_SECRET, "TOKEN", "TO EN", 5) == -EBADMSG);
        CHECK(patched(GATE_SECRET, "TOKEN", "1OKEN", 5) == -EBADMSG);
        CHECK(patched(GATE_SECRET, "placeholder", "place older", 11) == -EBADMSG);
        CHECK(patched(GATE_RULES, "example.com", "EXAMPLE.com", 11) == -EBADMSG);

        size_t n = bytes_of(GATE_EVENT); /* kind, ward, reason */
        packet[8] = GATE_REASON_COUNT;
        CHECK(gate_read(packet, n, &got) == -EBADMSG);
        n = bytes_of(GATE_EVENT);
        packet[8 + 4 + 24 + 2] = (char)0xfe; /* rule -2 */
        CHECK(gate_read(packet, n, &got) == -EBADMSG);
        n = bytes_of(GATE_EVENT);
        packet[4] = (char)(GATE_WARDS_MAX & 0xff);
        packet[5] = (char)(GATE_WARDS_MAX >> 8);
        CHECK(gate_read(packet, n, &got) == -EBADMSG);
        n = bytes_of(GATE_READY);
        packet[4] = 1;
        CHECK(gate_read(packet, n, &got) == -EBADMSG);
        n = bytes_of(GATE_ADD);
        packet[8] = 2; /* a flag that there is not */
        CHECK(gate_read(packet, n, &got) == -EBADMSG);
        n = bytes_of(GATE_ADD);
        packet[13] = 1; /* a descriptor that there is not */
        CHECK(gate_read(packet, n, &got) == -EBADMSG);
        close_pair();
}

static void put_event(struct buf *b, size_t host, size_t method, size_t path, size_t detail) {
        const size_t sizes[] = {host, method, path, detail};
        char text[4096];

        wire_put_u32(b, GATE_EVENT);
        wire_put_u32(b, 1);
        wire_put_u32(b, GATE_NO_RULE);
        for (unsigned i = 0; i < 3; i++)
                wire_put_u64(b, 1);
        wire_put_u16(b, 80);
        wire_put_u32(b, 0);
        memset(text, 'x', sizeof text);
        for (unsigned i = 0; i < 4; i++) {
                text[sizes[i]] = '\0';
                wire_put_str(b, text);
                text[sizes[i]] = 'x';
        }
}

static void texts_have_bounds(void) {
        static const size_t most[4] = {HOSTNAME_SIZE - 1, 31, 255, 159};
        struct gate_message got;

        for (unsigned over = 0; over <= 4; over++) {
                _cleanup_buf_ struct buf b = {0};

                put_event(&b, most[0] + (over == 0), most[1] + (over == 1), most[2] + (over == 2),
                          most[3] + (over == 3));
                CHECK(gate_read(b.data, b.size, &got) == (over == 4 ? 0 : -EBADMSG));
                if (over == 4)
                        CHECK(strlen(got.event.detail) == 159);
        }
        for (unsigned over = 0; over < 2; over++) {
                _cleanup_buf_ struct buf b = {0};
                char value[GATE_SECRET_MAX + 1] = "v";

                wire_put_u32(&b, GATE_SECRET);
                wire_put_u32(&b, 1);
                wire_put_str(&b, "A");
                wire_put_str(&b, "holder");
                wire_put_blob(&b, value, GATE_SECRET_MAX + over);
                CHECK(gate_read(b.data, b.size, &got) == (over ? -EBADMSG : 0));
        }
}

static void a_sender_cannot_break_its_message(void) {
        struct gate_message m = sample(GATE_EVENT), got;
        char text[2 * GATE_TEXT_SIZE];
        int fds[GATE_FDS_MAX];
        size_t count;

        open_pair();
        memset(m.event.host, 'h', sizeof m.event.host); /* no NUL */
        memcpy(m.event.detail, "\033[2J\xff x", 8);
        CHECK(gate_send(ends[0], &m, NULL, 0) == 0);
        CHECK(gate_receive(ends[1], packet, &got, fds, &count) == 1);
        CHECK(strlen(got.event.host) == HOSTNAME_SIZE - 1);
        CHECK_STR(got.event.detail, "?[2J? x");

        memset(text, 't', sizeof text);
        text[sizeof text - 1] = '\0';
        m = (struct gate_message){.kind = GATE_FAILED, .text = text};
        CHECK(gate_send(ends[0], &m, NULL, 0) == 0);
        CHECK(gate_receive(ends[1], packet, &got, fds, &count) == 1);
        CHECK(strlen(got.text) == GATE_TEXT_SIZE - 1);

        CHECK(gate_send(ends[0], &(struct gate_message){.kind = 0}, NULL, 0) == -EINVAL);
        CHECK(gate_send(ends[0], &(struct gate_message){.kind = GATE_KIND_COUNT}, NULL, 0) == -EINVAL);
        CHECK(gate_send(ends[0], &(struct gate_message){.kind = GATE_FLUSH, .ward = GATE_WARDS_MAX}, NULL, 0) ==
              -EINVAL);
        CHECK(gate_send(ends[0], &(struct gate_message){.kind = GATE_SECRET, .value_size = 1}, NULL, 0) == -EINVAL);
        m = sample(GATE_SECRET);
        m.holder = NULL;
        CHECK(gate_send(ends[0], &m, NULL, 0) == -EINVAL);
        m.value_size = 0; /* wipes it */
        CHECK(gate_send(ends[0], &m, NULL, 0) == 0);
        CHECK(gate_receive(ends[1], packet, &got, fds, &count) == 1 && got.value_size == 0);
        m = sample(GATE_SECRET);
        m.name = text; /* not cut: another name is another secret */
        CHECK(gate_send(ends[0], &m, NULL, 0) == -EINVAL);
        m = sample(GATE_RULES);
        m.rules_size--;
        CHECK(gate_send(ends[0], &m, NULL, 0) == -EINVAL);
        m = sample(GATE_ADD);
        CHECK(gate_send(ends[0], &m, NULL, 0) == -EINVAL);
        close_pair();
}

/* What a captured gate may send that gate_send would not: sends raw bytes with so many descriptors. */
static int raw(const void *bytes, size_t size, size_t fd_count) {
        union {
                struct cmsghdr align;
                char space[CMSG_SPACE(32 * sizeof(int))];
        } control = {0};
        struct iovec part = {(void *)(uintptr_t)bytes, size};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        struct gate_message got = {.ward = 77};
        int fds[GATE_FDS_MAX];
        size_t count = 99;

        if (fd_count > 0) {
                message.msg_control = control.space;
                message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
                struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
                memset(CMSG_DATA(c), 0, fd_count * sizeof(int)); /* descriptor 0, many times */
        }
        CHECK(sendmsg(ends[0], &message, 0) == (ssize_t)size);
        int r = gate_receive(ends[1], packet, &got, fds, &count);
        if (r < 0)
                CHECK(got.ward == 77 && count == 99); /* untouched */
        for (size_t i = 0; r == 1 && i < count; i++)
                fd_close(&fds[i]);
        return r;
}

static void descriptors_are_counted_and_never_leak(void) {
        static char large[GATE_PACKET_MAX + 64], copy[GATE_PACKET_MAX];

        open_pair();
        unsigned before = open_descriptors();
        for (size_t n = 0; n <= 16; n++) {
                size_t size = bytes_of(GATE_ADD);
                memcpy(copy, packet, size);
                CHECK(raw(copy, size, n) == (n == 2 ? 1 : -EBADMSG));
                size = bytes_of(GATE_AUTHORITY);
                memcpy(copy, packet, size);
                CHECK(raw(copy, size, n) == (n == GATE_CA_COUNT ? 1 : -EBADMSG));
                size = bytes_of(GATE_EVENT);
                memcpy(copy, packet, size);
                CHECK(raw(copy, size, n) == (n == 0 ? 1 : -EBADMSG));
        }
        size_t all = bytes_of(GATE_ADD);
        memcpy(copy, packet, all);
        copy[12] = (char)((1 << GATE_FD_COUNT) - 1);
        CHECK(raw(copy, all, GATE_FD_COUNT) == 1);
        CHECK(raw(copy, all, GATE_FDS_MAX + 1) == -EBADMSG); /* one more than there is room for */
        CHECK(raw("", 0, 3) == -EBADMSG);                    /* an empty packet with descriptors is not the end */
        size_t size = bytes_of(GATE_EVENT);
        memcpy(large, packet, size);
        CHECK(raw(large, sizeof large, 1) == -EBADMSG);
        CHECK(open_descriptors() == before);
        close_pair();
}

static void a_refused_secret_is_wiped(void) {
        static char copy[GATE_PACKET_MAX];

        open_pair();
        size_t n = bytes_of(GATE_SECRET);
        memcpy(copy, packet, n);
        CHECK(memmem(packet, sizeof packet, "s3cr", 4) != NULL);
        memset(packet, 0, sizeof packet);
        CHECK(raw(copy, n, 1) == -EBADMSG);
        CHECK(memmem(packet, sizeof packet, "s3cr", 4) == NULL);
        close_pair();
}

static void reasons_have_words(void) {
        for (enum gate_reason r = 0; r < GATE_REASON_COUNT; r++) {
                CHECK(gate_reason_name(r) && gate_reason_name(r)[0] && gate_reason_text(r) && gate_reason_text(r)[0]);
                CHECK(gate_reason_remedy(r) && (r == GATE_USED || gate_reason_remedy(r)[0]));
                for (enum gate_reason other = 0; other < r; other++)
                        CHECK(!str_eq(gate_reason_name(r), gate_reason_name(other)));
        }
        CHECK_STR(gate_reason_name(GATE_NO_RULE), "no-rule");
        CHECK_STR(gate_reason_name(GATE_WRONG_SERVER), "wrong-server");
        CHECK_STR(gate_reason_name(GATE_REASON_COUNT), "unknown");
}

static void hints_can_be_pasted(void) {
        static const struct {
                struct gate_event e;
                const char *hint;
        } rows[] = {
                {{.reason = GATE_NO_RULE, .host = "a.example", .port = 443},
                 "add {host: a.example} to network.allow, or run with --allow a.example"},
                {{.reason = GATE_NO_RULE, .host = "a.example"},
                 "add {host: a.example} to network.allow, or run with --allow a.example"},
                {{.reason = GATE_NO_RULE, .host = "a.example", .port = 22},
                 "add {host: a.example, ports: [22]} to network.allow, or run with --allow a.example:22"},
                {{.reason = GATE_NO_PORT, .host = "a.example", .port = 80},
                 "add {host: a.example, ports: [80]} to network.allow, or run with --allow a.example:80"},
                {{.reason = GATE_NO_RULE, .host = "192.0.2.1", .port = 5432},
                 "add {cidr: 192.0.2.1/32, ports: [5432]} to network.allow"},
                {{.reason = GATE_NO_RULE, .host = "2001:db8::1", .port = 443},
                 "add {cidr: 2001:db8::1/128, ports: [443]} to network.allow"},
                {{.reason = GATE_PRIVATE, .host = "169.254.169.254", .port = 80},
                 "if that is meant, add {cidr: 169.254.169.254/32, ports: [80], private: true} to network.allow"},
                {{.reason = GATE_PRIVATE, .host = "db.example", .port = 5432},
                 "if that is meant, add {host: db.example, ports: [5432], private: true} to network.allow; a metadata "
                 "service is reached by its address alone (cidr)"},
                {{.reason = GATE_NO_METHOD, .host = "a.example", .port = 443, .method = "POST"},
                 "add POST to 'methods' of the rule for a.example in network.allow"},
                {{.reason = GATE_NO_PATH, .host = "a.example", .port = 443, .path = "/HOST"},
                 "add /HOST to 'paths' of the rule for a.example in network.allow"},
                /* what code inside chose, and nobody should paste */
                {{.reason = GATE_NO_PATH, .host = "a.example", .path = "/$(id)"}, ""},
                {{.reason = GATE_NO_METHOD, .host = "a.example", .method = "`id`"}, ""},
                {{.reason = GATE_NO_RULE, .host = "a;id", .port = 443}, ""},
                {{.reason = GATE_NO_RULE, .host = "A.example", .port = 443}, ""},
                {{.reason = GATE_NO_RULE, .host = "", .port = 443}, ""},
                {{.reason = GATE_USED, .host = "a.example", .port = 443}, ""},
                {{.reason = GATE_EGRESS}, "raise budget.egress"},
        };
        char hint[512];

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                gate_hint(&rows[i].e, hint, sizeof hint);
                CHECK_STR(hint, rows[i].hint);
        }
        for (size_t size = 1; size <= strlen(rows[0].hint); size++) { /* whole or not at all */
                hint[size] = 'x';
                gate_hint(&rows[0].e, hint, size);
                CHECK(hint[0] == '\0' && hint[size] == 'x');
        }
}

TEST_MAIN(TEST(every_kind_reads_back), TEST(the_end_and_nothing_yet), TEST(only_whole_messages_pass),
          TEST(hostile_fields_are_refused), TEST(texts_have_bounds), TEST(a_sender_cannot_break_its_message),
          TEST(descriptors_are_counted_and_never_leak), TEST(a_refused_secret_is_wiped), TEST(reasons_have_words),
          TEST(hints_can_be_pasted))
