/* Unit tests of what is said between operator and warden: every kind reads back over a real socket pair, and nothing
 * that is malformed, has a name that is none, or the wrong descriptors passes. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "wire/driver.h"
#include "wire/packet.h"
#include "wire/warden.h"

#define ID "0123456789abcdef"

static char packet[WARDEN_PACKET_MAX];
static int ends[2];

static void open_pair(void) {
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
}

static void close_pair(void) {
        fd_close(&ends[0]);
        fd_close(&ends[1]);
}

static bool is_kind(uint32_t k) {
        return warden_is_request(k) || (k >= WARDEN_ANSWER && k < WARDEN_FROM_END);
}

static bool unasked(uint32_t k) {
        return k == WARDEN_GONE || k == WARDEN_GATE_GONE || k == WARDEN_PRESSURE || k == WARDEN_END;
}

static bool lists_layers(uint32_t k) {
        return k == WARDEN_START || k == WARDEN_DIFF || k == WARDEN_EXPORT || k == WARDEN_FLATTEN || k == WARDEN_ITEM ||
               k == WARDEN_READ;
}

/* Every field has a value; those that the kind does not have are lost on the way. */
static struct warden_message sample(uint32_t kind) {
        struct warden_message m = {.kind = kind, .serial = unasked(kind) ? 0 : 7, .version = WARDEN_VERSION};

        m.error = -EBUSY;
        memcpy(m.id, ID, sizeof m.id);
        memcpy(m.target, "fedcba9876543210", sizeof m.target);
        memcpy(m.image, "00000000000000aa", sizeof m.image);
        memcpy(m.disk, "00000000000000bb", sizeof m.disk);
        m.layer_count = lists_layers(kind) ? 3 : 0;
        for (uint32_t i = 0; i < m.layer_count; i++)
                (void)snprintf(m.layers[i], sizeof m.layers[i], "%016x", i + 1);
        m.split = 2;
        m.run = 3;
        m.slot = 4;
        m.paper = WARDEN_PAPER_PAGE;
        m.size = 1ULL << 40;
        m.inodes = 5;
        m.owner = UINT64_MAX;
        m.pid = 6;
        m.start_time = 8;
        m.driver = DRIVER_GVISOR;
        for (size_t i = 0; i < ELEMENTSOF(m.numbers); i++)
                m.numbers[i] = 10 + i;
        m.usage = (struct warden_usage){1, 2, 3, 4, 5, 6, 7, 8, 9, UINT64_MAX};
        m.text = "a sentence with \xc3\xbc";
        m.hint = "a hint";
        return m;
}

static size_t fds_for(uint32_t kind) {
        switch (kind) {
        case WARDEN_START:
        case WARDEN_KEEP_KEY:
        case WARDEN_DIFF:
        case WARDEN_EXPORT:
        case WARDEN_IMPORT:
        case WARDEN_IMAGE:
                return 1;
        case WARDEN_READ:
                return 2;
        default:
                return 0;
        }
}

static int send_it(const struct warden_message *m, size_t count) {
        static const int fds[WARDEN_FDS_MAX + 1] = {0};

        return warden_send(ends[0], m, fds, count);
}

static size_t bytes_of(uint32_t kind) {
        struct warden_message m = sample(kind);
        int fds[WARDEN_FDS_MAX];
        size_t count = 0;

        CHECK(send_it(&m, fds_for(kind)) == 0);
        ssize_t n = packet_receive(ends[1], packet, sizeof packet, fds, WARDEN_FDS_MAX, &count);
        CHECK(n > 0);
        packet_close(fds, count);
        return n > 0 ? (size_t)n : 0;
}

static void every_kind_reads_back(void) {
        open_pair();
        for (uint32_t kind = 0; kind < 200; kind++) {
                struct warden_message m = sample(kind), got;
                int fds[WARDEN_FDS_MAX];
                size_t count = 99;

                if (!is_kind(kind)) {
                        CHECK(send_it(&m, 0) == -EINVAL);
                        CHECK_STR(warden_kind_name(kind), "?");
                        continue;
                }
                CHECK(send_it(&m, fds_for(kind)) == 0);
                CHECK(warden_receive(ends[1], packet, &got, fds, &count) == 1);
                CHECK(count == fds_for(kind) && got.kind == kind && got.serial == m.serial);
                CHECK(got.layer_count == m.layer_count && memcmp(got.layers, m.layers, sizeof m.layers) == 0);
                CHECK(got.text && got.hint && warden_kind_name(kind)[0] && warden_kind_name(kind)[0] != '?');
                packet_close(fds, count);
        }
        close_pair();
}

static struct warden_message back(uint32_t kind) {
        struct warden_message got = {0};

        open_pair();
        size_t n = bytes_of(kind);
        CHECK(warden_read(packet, n, &got) == 0);
        close_pair();
        return got;
}

static void fields_of_some(void) {
        struct warden_message m = back(WARDEN_START);
        CHECK_STR(m.id, ID);
        CHECK_STR(m.disk, "00000000000000bb");
        CHECK_STR(m.image, "00000000000000aa");
        CHECK(m.driver == DRIVER_GVISOR);
        CHECK(m.size == 0 && m.run == 0 && m.pid == 0 && m.target[0] == '\0'); /* it has none of these */
        m = back(WARDEN_DISK_MAKE);
        CHECK(m.size == 1ULL << 40 && m.inodes == 5 && m.owner == UINT64_MAX);
        m = back(WARDEN_DIFF);
        CHECK(m.split == 2 && m.layer_count == 3);
        m = back(WARDEN_ANSWER);
        CHECK(m.error == -EBUSY && m.pid == 6 && m.start_time == 8 && m.numbers[5] == 15);
        CHECK(m.usage.cpu_us == 1 && m.usage.throttled_us == UINT64_MAX);
        CHECK_STR(m.text, "a sentence with \xc3\xbc");
        CHECK_STR(m.hint, "a hint");
        m = back(WARDEN_GONE);
        CHECK(m.error == -EBUSY && m.usage.oom_kills == 8 && m.serial == 0);
        m = back(WARDEN_PAPER);
        CHECK(m.paper == WARDEN_PAPER_PAGE && m.id[0] == '\0');
        m = back(WARDEN_PRESSURE);
        CHECK(m.numbers[0] == 10 && m.numbers[1] == 11 && m.numbers[2] == 0);
}

static void ids(void) {
        CHECK(warden_is_id(ID) && warden_is_id("ffffffffffffffff"));
        CHECK(!warden_is_id("") && !warden_is_id("0123456789abcde") && !warden_is_id("0123456789abcdef0"));
        CHECK(!warden_is_id("0123456789abcdeF") && !warden_is_id("../../../../etc/") &&
              !warden_is_id("0123456789abcde/"));
}

static void only_whole_messages_pass(void) {
        struct warden_message got = {.run = 77};

        open_pair();
        for (uint32_t kind = 0; kind < 200; kind++) {
                if (!is_kind(kind))
                        continue;
                size_t n = bytes_of(kind);

                CHECK(warden_read(packet, n, &got) == 0);
                got.run = 77;
                for (size_t cut = 0; cut < n; cut++)
                        CHECK(warden_read(packet, cut, &got) == -EBADMSG);
                packet[n] = 0;
                CHECK(warden_read(packet, n + 1, &got) == -EBADMSG);
                CHECK(got.run == 77); /* untouched */
        }
        static const uint8_t unknown[] = {0, WARDEN_KIND_COUNT, 99, WARDEN_FROM_END, 255};
        for (size_t i = 0; i < sizeof unknown; i++) {
                char head[12] = {(char)unknown[i], 0, 0, 0, 1};
                CHECK(warden_read(head, sizeof head, &got) == -EBADMSG);
        }
        close_pair();
}

static int patched(uint32_t kind, const char *from, const char *to, size_t size) {
        struct warden_message got;
        size_t n = bytes_of(kind);
        char *at = memmem(packet, n, from, size);

        CHECK(at != NULL);
        if (at)
                memcpy(at, to, size);
        return warden_read(packet, n, &got);
}

static void hostile_fields_are_refused(void) {
        struct warden_message got;

        open_pair();
        CHECK(patched(WARDEN_STOP, ID, "aaaaaaaaaaaaaaaa", 16) == 0);
        CHECK(patched(WARDEN_STOP, ID, "../3456789abcdef", 16) == -EBADMSG);
        CHECK(patched(WARDEN_STOP, ID, "0123456789ABCDEF", 16) == -EBADMSG);
        CHECK(patched(WARDEN_STOP, ID, "0123\00056789abcde", 16) == -EBADMSG);
        CHECK(patched(WARDEN_START, "00000000000000bb", "../0000000000000", 16) == -EBADMSG);
        CHECK(patched(WARDEN_START, "0000000000000002", "000000000000000/", 16) == -EBADMSG);
        CHECK(patched(WARDEN_ANSWER, "a sentence", "a\033entence", 10) == -EBADMSG);
        CHECK(patched(WARDEN_ANSWER, "a sentence", "a\nentence!", 10) == -EBADMSG);
        CHECK(patched(WARDEN_ANSWER, "a hint", "\xff hint", 6) == -EBADMSG);

        size_t n = bytes_of(WARDEN_STOP); /* kind, serial, flags */
        packet[8] = 1;
        CHECK(warden_read(packet, n, &got) == -EBADMSG); /* a flag that it does not have */
        n = bytes_of(WARDEN_STOP);
        packet[4] = 0;
        CHECK(warden_read(packet, n, &got) == -EBADMSG); /* no serial */
        n = bytes_of(WARDEN_GONE);
        packet[4] = 1;
        CHECK(warden_read(packet, n, &got) == -EBADMSG);
        n = bytes_of(WARDEN_LEAF);
        packet[n - 4] = 0;
        CHECK(warden_read(packet, n, &got) == -EBADMSG); /* run 0 is the sandbox itself */
        n = bytes_of(WARDEN_GATE);
        packet[n - 3] = 1;
        CHECK(warden_read(packet, n, &got) == -EBADMSG); /* slot 260 */
        n = bytes_of(WARDEN_ITEM);
        packet[12] = WARDEN_ITEM_COUNT;
        CHECK(warden_read(packet, n, &got) == -EBADMSG);
        close_pair();
}

static void layers_have_bounds(void) {
        struct warden_message m = sample(WARDEN_EXPORT), got;
        int fds[WARDEN_FDS_MAX];
        size_t count;

        open_pair();
        for (m.layer_count = 0; m.layer_count < WARDEN_LAYERS_MAX; m.layer_count++)
                memcpy(m.layers[m.layer_count], ID, sizeof ID);
        CHECK(send_it(&m, 1) == 0);
        CHECK(warden_receive(ends[1], packet, &got, fds, &count) == 1 && got.layer_count == WARDEN_LAYERS_MAX);
        packet_close(fds, count);
        m.layer_count++;
        CHECK(send_it(&m, 1) == -EINVAL);

        _cleanup_buf_ struct buf b = {0};
        wire_put_u32(&b, WARDEN_EXPORT);
        wire_put_u32(&b, 1);
        wire_put_u32(&b, 0);
        wire_put_str(&b, "");
        wire_put_u32(&b, UINT32_MAX);
        for (unsigned i = 0; i <= WARDEN_LAYERS_MAX; i++)
                wire_put_str(&b, ID);
        CHECK(warden_read(b.data, b.size, &got) == -EBADMSG);

        m = sample(WARDEN_DIFF);
        m.split = 4;
        CHECK(send_it(&m, 1) == -EINVAL);
        m = sample(WARDEN_START);
        m.disk[0] = '\0';
        CHECK(send_it(&m, 1) == -EINVAL); /* layers without a disk */
        m.layer_count = 0;
        CHECK(send_it(&m, 1) == 0);
        m.driver = DRIVER_COUNT;
        CHECK(send_it(&m, 1) == -EINVAL);
        close_pair();
}

static void a_sender_cannot_break_its_message(void) {
        struct warden_message m = sample(WARDEN_ANSWER), got;
        char text[2 * WARDEN_TEXT_SIZE];
        int fds[WARDEN_FDS_MAX];
        size_t count;

        open_pair();
        memset(text, 't', sizeof text);
        memcpy(text, "\033[2J\xff", 5);
        text[sizeof text - 1] = '\0';
        m.text = text;
        m.hint = NULL;
        CHECK(send_it(&m, 0) == 0);
        CHECK(warden_receive(ends[1], packet, &got, fds, &count) == 1);
        CHECK(strlen(got.text) == WARDEN_TEXT_SIZE - 1 && str_starts(got.text, "\\x1b[2J\\xffttt"));
        CHECK_STR(got.hint, "");
        m = sample(WARDEN_STOP);
        m.id[3] = '/';
        CHECK(send_it(&m, 0) == -EINVAL);
        m = sample(WARDEN_STOP);
        m.serial = 0;
        CHECK(send_it(&m, 0) == -EINVAL);
        m = sample(WARDEN_STOP);
        m.flags = WARDEN_KILL;
        CHECK(send_it(&m, 0) == -EINVAL);
        CHECK(warden_receive(ends[1], packet, &got, fds, &count) == -EAGAIN);
        fd_close(&ends[0]);
        CHECK(warden_receive(ends[1], packet, &got, fds, &count) == 0);
        close_pair();
}

static unsigned open_descriptors(void) {
        unsigned n = 0;

        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* What a captured operator may send that warden_send would not. */
static int raw(const void *bytes, size_t size, size_t fd_count) {
        static const int zeros[PACKET_FDS_MAX];
        struct warden_message got;
        int fds[WARDEN_FDS_MAX];
        size_t count = 0;

        CHECK(packet_send(ends[0], &(struct iovec){(void *)(uintptr_t)bytes, size}, 1, zeros, fd_count) == 0);
        int r = warden_receive(ends[1], packet, &got, fds, &count);
        if (r == 1)
                packet_close(fds, count);
        return r;
}

static void descriptors_are_counted_and_never_leak(void) {
        static char large[WARDEN_PACKET_MAX + 64], copy[WARDEN_PACKET_MAX];

        open_pair();
        unsigned before = open_descriptors();
        for (size_t n = 0; n <= PACKET_FDS_MAX; n++) {
                size_t size = bytes_of(WARDEN_START);
                memcpy(copy, packet, size);
                CHECK(raw(copy, size, n) == (n == 1 ? 1 : -EBADMSG));
                copy[8] = WARDEN_AUTHORITY;
                CHECK(raw(copy, size, n) == (n == 4 ? 1 : -EBADMSG));
                size = bytes_of(WARDEN_KEEP_KEY);
                memcpy(copy, packet, size);
                CHECK(raw(copy, size, n) == (n == 1 ? 1 : -EBADMSG));
                size = bytes_of(WARDEN_STOP);
                memcpy(copy, packet, size);
                CHECK(raw(copy, size, n) == (n == 0 ? 1 : -EBADMSG));
                size = bytes_of(WARDEN_ANSWER);
                memcpy(copy, packet, size);
                CHECK(raw(copy, size, n) == 1);
        }
        CHECK(raw("", 0, 3) == -EBADMSG); /* an empty packet with descriptors is not the end */
        CHECK(raw(large, sizeof large, 2) == -EBADMSG);
        CHECK(open_descriptors() == before);
        close_pair();
}

/* As many descriptors as there are, and no more: an answer that comes with one is told from nonsense. */
static void without_descriptors(void) {
        struct rlimit before, low;
        struct warden_message got, m = sample(WARDEN_ANSWER);
        int fds[WARDEN_FDS_MAX];
        size_t count = 0;

        open_pair();
        unsigned open = open_descriptors();
        CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
        low = before;
        int next = fcntl(0, F_DUPFD_CLOEXEC, 0); /* all places below are taken */
        m.error = 0;
        for (unsigned room = 0; room < 2; room++) {
                low.rlim_cur = (rlim_t)next + 1 + room;
                CHECK(send_it(&m, 2) == 0);
                CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
                CHECK(warden_receive(ends[1], packet, &got, fds, &count) == 1);
                CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
                CHECK(got.serial == m.serial && got.error == -EMFILE && count == 0 && got.text[0] && got.hint[0]);
        }
        size_t size = bytes_of(WARDEN_KEEP_KEY); /* a request is refused as ever */
        static char copy[WARDEN_PACKET_MAX];
        memcpy(copy, packet, size);
        low.rlim_cur = (rlim_t)next + 1;
        CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
        CHECK(raw(copy, size, 1) == -EBADMSG);
        CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
        fd_close(&next);
        CHECK(open_descriptors() == open);
        close_pair();
}

TEST_MAIN(TEST(every_kind_reads_back), TEST(fields_of_some), TEST(ids), TEST(only_whole_messages_pass),
          TEST(hostile_fields_are_refused), TEST(layers_have_bounds), TEST(a_sender_cannot_break_its_message),
          TEST(descriptors_are_counted_and_never_leak), TEST(without_descriptors))
