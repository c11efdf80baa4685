/* The relay between real sockets: what goes through, what ends with what, and that streams never mix. */
#include "driver/relay.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "wire/packet.h"

#define MUCH (3 << 20)

static struct relay relay;
static struct sockaddr_un outer_at, inner_at;

static int door(struct sockaddr_un *at) {
        socklen_t size = sizeof(sa_family_t);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        *at = (struct sockaddr_un){.sun_family = AF_UNIX};
        CHECK(bind(fd, (struct sockaddr *)at, size) == 0 && listen(fd, 8) == 0); /* a name of the kernel's choice */
        size = sizeof *at;
        CHECK(getsockname(fd, (struct sockaddr *)at, &size) == 0);
        return fd;
}

static int dial(const struct sockaddr_un *at) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        CHECK(connect(fd, (const struct sockaddr *)at, sizeof(sa_family_t) + 6) == 0);
        return fd;
}

static void begin(void) {
        memset(&relay, 0, sizeof relay);
        relay_init(&relay, door(&outer_at), door(&inner_at), NULL);
}

static void end(void) {
        for (size_t i = 0; i < RELAY_WAITING; i++)
                fd_close(&relay.callers[i].fd);
        fd_close(&relay.outer);
        fd_close(&relay.inner);
        fd_close(&relay.outer_door);
        fd_close(&relay.inner_door);
}

/* Turns until nothing happens any more; false if that never comes. */
static bool settle(void) {
        struct pollfd polls[RELAY_POLLS];

        for (unsigned i = 0; i < 1000; i++) {
                relay_ask(&relay, polls);
                if (poll(polls, RELAY_POLLS, 0) == 0)
                        return true;
                relay_answer(&relay, polls);
        }
        return false;
}

static bool hears(int fd, const char *text) {
        char got[256] = "";

        (void)settle();
        ssize_t n = recv(fd, got, sizeof got - 1, 0);
        return n == (ssize_t)strlen(text) && str_eq(got, text);
}

static bool ended(int fd) {
        char byte;

        (void)settle();
        ssize_t n = recv(fd, &byte, 1, 0);
        return n == 0 || (n < 0 && errno == ECONNRESET);
}

static void say(int fd, const char *text) {
        CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static void test_both_ways(void) {
        begin();
        int inner = dial(&inner_at);
        say(inner, "hello");
        CHECK(settle() && relay.met && !relay.paired); /* nobody is there: nothing is read */
        int outer = dial(&outer_at);
        CHECK(hears(outer, "hello"));
        say(outer, "question");
        CHECK(hears(inner, "question"));
        say(inner, "answer");
        CHECK(hears(outer, "answer"));
        end();
        (void)close(inner);
        (void)close(outer);
}

/* Sends as much as goes, and says how much that was. */
static size_t push(int fd) {
        static char bytes[65536];
        size_t sum = 0;
        ssize_t n;

        do {
                n = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
                sum += n > 0 ? (size_t)n : 0;
        } while (settle() && n > 0 && sum < MUCH);
        return sum;
}

static size_t pull(int fd) {
        static char bytes[65536];
        size_t sum = 0;
        ssize_t n;

        while (settle() && (n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
                sum += (size_t)n;
        return sum;
}

/* Who does not read holds up the sender, and nothing is lost. */
static void test_back_pressure(void) {
        begin();
        int inner = dial(&inner_at), outer = dial(&outer_at);
        for (int way = 0; way < 2; way++) {
                int from = way ? inner : outer, to = way ? outer : inner;
                size_t sent = push(from);

                CHECK(sent > RELAY_ROOM && sent < MUCH);
                CHECK(pull(to) == sent);
                sent = push(from);
                (void)close(from); /* what was said before is delivered, and then the end */
                CHECK(pull(to) == sent && ended(to));
                (void)close(to);
                inner = dial(&inner_at);
                outer = dial(&outer_at);
        }
        end();
        (void)close(inner);
        (void)close(outer);
}

static void test_takes_over(void) {
        begin();
        int inner = dial(&inner_at), first = dial(&outer_at);
        CHECK(settle() && relay.paired);
        say(first, "last words");
        int second = dial(&outer_at);
        say(second, "first words");
        CHECK(ended(first));
        CHECK(hears(inner, "last words") && ended(inner)); /* and nothing of the second */
        CHECK(send(inner, "too late", 8, MSG_NOSIGNAL) < 0);
        int fresh = dial(&inner_at);
        CHECK(hears(fresh, "first words"));
        say(fresh, "fine");
        CHECK(hears(second, "fine"));
        /* three at once: the newest stays */
        int many[3];
        for (size_t i = 0; i < ELEMENTSOF(many); i++)
                many[i] = dial(&outer_at);
        CHECK(ended(second) && ended(many[0]) && ended(many[1]) && ended(fresh));
        int last = dial(&inner_at);
        say(last, "for the newest");
        CHECK(hears(many[2], "for the newest"));
        end();
        const int all[] = {inner, first, second, fresh, many[0], many[1], many[2], last};
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                (void)close(all[i]);
}

/* A guest that comes and goes while nobody is there, and one that waits beside another. */
static void test_comes_and_goes(void) {
        begin();
        for (unsigned i = 0; i < 5; i++) {
                int inner = dial(&inner_at);
                CHECK(settle());
                (void)close(inner);
                CHECK(settle() && relay.inner < 0);
        }
        int outer = dial(&outer_at), inner = dial(&inner_at), beside = dial(&inner_at);
        say(beside, "not I");
        say(inner, "I");
        CHECK(hears(outer, "I"));
        (void)close(inner);
        CHECK(ended(outer)); /* the one beside is for the next */
        int next = dial(&outer_at);
        CHECK(hears(next, "not I"));
        end();
        (void)close(outer);
        (void)close(beside);
        (void)close(next);
}

/* Who does not know the secret is not taken for the guest, and cannot keep it away either. */
static void test_secret(void) {
        static const uint8_t secret[BOX_SECRET_SIZE] = "0123456789abcde";
        int others[2 * RELAY_WAITING];

        begin();
        relay.secret = secret;
        int outer = dial(&outer_at);
        for (size_t i = 0; i < ELEMENTSOF(others); i++) {
                others[i] = dial(&inner_at);
                if (i % 2)
                        say(others[i], "0123456789abcdX and more");
                CHECK(settle() && !relay.met);
        }
        say(outer, "question");
        int guest = dial(&inner_at);
        CHECK(send(guest, secret, 7, 0) == 7 && settle() && !relay.met);
        CHECK(send(guest, secret + 7, sizeof secret - 7, 0) == sizeof secret - 7);
        say(guest, "answer");
        CHECK(hears(outer, "answer") && hears(guest, "question") && relay.paired);
        for (size_t i = 0; i < ELEMENTSOF(others); i++) {
                CHECK(ended(others[i]));
                (void)close(others[i]);
        }
        end();
        (void)close(outer);
        (void)close(guest);
}

static unsigned open_fds(void) {
        unsigned count = 0;
        DIR *d = opendir("/proc/self/fd");

        while (d && readdir(d))
                count++;
        (void)closedir(d);
        return count;
}

/* What came with the bytes: how many descriptors, closed again. */
static size_t came_with(int fd, const char *text) {
        char got[256] = "";
        int fds[GUEST_FDS_MAX];
        size_t count = 0;

        (void)settle();
        ssize_t n = packet_receive(fd, got, sizeof got, fds, ELEMENTSOF(fds), &count);
        CHECK(n == (ssize_t)strlen(text) && memcmp(got, text, strlen(text)) == 0);
        packet_close(fds, count);
        return count;
}

/* From outside they go in with their bytes, from inside nowhere; none stays with us. */
static void test_descriptors(void) {
        const int given[GUEST_FDS_MAX] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO, STDERR_FILENO,
                                          STDERR_FILENO, STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};

        begin();
        int inner = dial(&inner_at), outer = dial(&outer_at);
        CHECK(settle());
        unsigned before = open_fds();
        CHECK(packet_send_some(inner, "with", 4, given, 1) == 4 && came_with(outer, "with") == 0);
        CHECK(packet_send_some(outer, "with", 4, given, 3) == 4);
        say(outer, "out"); /* behind it, and not with it */
        CHECK(came_with(inner, "with") == 3 && came_with(inner, "out") == 0);
        say(outer, "before");
        CHECK(packet_send_some(outer, "all", 3, given, GUEST_FDS_MAX) == 3);
        CHECK(came_with(inner, "beforeall") == GUEST_FDS_MAX);
        CHECK(open_fds() == before);
        end();
        (void)close(inner);
        (void)close(outer);
}

/* Sends until the guest, which does not read, takes no more and the lane holds something. */
static void stuff(int outer) {
        static const char bytes[1024];

        while (settle() && relay.in.end == 0)
                CHECK(send(outer, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof bytes);
}

/* They wait with their bytes for a guest that does not read, nothing overtakes them, and they go with a connection. */
static void test_descriptors_wait(void) {
        const int given = STDERR_FILENO;

        begin();
        int inner = dial(&inner_at), outer = dial(&outer_at);
        CHECK(settle());
        unsigned before = open_fds();
        stuff(outer);
        CHECK(packet_send_some(outer, "a", 1, &given, 1) == 1);
        say(outer, "b");
        CHECK(settle() && relay.in.fd_count == 1 && open_fds() == before + 1);
        CHECK(pull(inner) > 0 && relay.in.fd_count == 0 && open_fds() == before);
        stuff(outer);
        CHECK(packet_send_some(outer, "a", 1, &given, 1) == 1 && settle() && relay.in.fd_count == 1);
        int next = dial(&outer_at);
        CHECK(settle() && ended(outer) && relay.in.fd_count == 0);
        end();
        (void)close(inner);
        (void)close(outer);
        (void)close(next);
}

TEST_MAIN(TEST(test_both_ways), TEST(test_back_pressure), TEST(test_takes_over), TEST(test_comes_and_goes),
          TEST(test_secret), TEST(test_descriptors), TEST(test_descriptors_wait))
