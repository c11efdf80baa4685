/* Both sides for real, over a line that is a socket pair: connections one after another, one that nobody reads from,
 * and what a peer that breaks the rules gets. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "driver/vm-carry.h"

#define ENOUGH_MS 20000

/* The machine's side gets one end of a pair when it dials; the other goes to the test, by a socket. */
static int hand_inside;

static int dial(void) {
        int pair[2];
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int))];
        } control = {0};
        char byte = 1;
        struct iovec one = {&byte, 1};
        struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(h), &pair[1], sizeof(int));
        if (sendmsg(hand_inside, &m, 0) != 1)
                return -errno;
        (void)close(pair[1]);
        return pair[0];
}

/* The end that the machine's side dialled. */
static int next_inside(int hand) {
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int))];
        } control = {0};
        char byte;
        int fd = -EBADF;
        struct iovec one = {&byte, 1};
        struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        struct pollfd p = {.fd = hand, .events = POLLIN};

        if (poll(&p, 1, ENOUGH_MS) == 1 && recvmsg(hand, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
                memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
        return fd;
}

static int make_listener(struct sockaddr_un *ret, socklen_t *ret_size) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        *ret_size = sizeof *ret;
        CHECK(bind(fd, (struct sockaddr *)ret, sizeof(sa_family_t)) == 0 &&
              listen(fd, 8) == 0); /* a name of its choice */
        CHECK(getsockname(fd, (struct sockaddr *)ret, ret_size) == 0);
        return fd;
}

struct sides {
        pid_t pid[2];
        struct sockaddr_un at; /* of the keeper's side */
        socklen_t at_size;
        int hand; /* where the machine's ends come from */
};

static pid_t start_side(int line, int listener, int hand) {
        static struct carry c;
        pid_t pid = fork();

        if (pid == 0) {
                hand_inside = hand;
                c = (struct carry){.line = line, .listener = listener, .dial = dial};
                _exit(carry_run(&c, -EBADF) < 0 ? 1 : 0);
        }
        return pid;
}

static void start(struct sides *s) {
        int line[2], hand[2], listener = make_listener(&s->at, &s->at_size);

        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, line) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, hand) == 0);
        (void)signal(SIGPIPE, SIG_IGN);
        s->pid[0] = start_side(line[0], listener, -EBADF);
        s->pid[1] = start_side(line[1], -EBADF, hand[1]);
        s->hand = hand[0];
        (void)close(hand[1]);
        (void)close(line[0]);
        (void)close(line[1]);
        (void)close(listener);
}

static int connect_to(const struct sides *s) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CHECK(connect(fd, (const struct sockaddr *)&s->at, s->at_size) == 0);
        return fd;
}

static void stop(struct sides *s) {
        for (int i = 0; i < 2; i++) {
                (void)kill(s->pid[i], SIGKILL);
                (void)waitpid(s->pid[i], NULL, 0);
        }
        (void)close(s->hand);
}

/* Reads exactly this many bytes that are all the same; false if another comes, or the end. */
static bool comes(int fd, char what, size_t count) {
        char bytes[4096];
        struct pollfd p = {.fd = fd, .events = POLLIN};

        while (count > 0) {
                if (poll(&p, 1, ENOUGH_MS) != 1)
                        return false;
                ssize_t n = read(fd, bytes, MIN(count, sizeof bytes));
                if (n <= 0)
                        return false;
                for (ssize_t i = 0; i < n; i++)
                        if (bytes[i] != what)
                                return false;
                count -= (size_t)n;
        }
        return true;
}

static bool ends(int fd) {
        char byte;
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, ENOUGH_MS) == 1 && read(fd, &byte, 1) == 0;
}

static void send_all(int fd, char what, size_t count) {
        char bytes[4096];

        memset(bytes, what, sizeof bytes);
        for (; count > 0; count -= MIN(count, sizeof bytes))
                CHECK(fd_write_full(fd, bytes, MIN(count, sizeof bytes)) == 0);
}

/* As much as goes without anybody reading. */
static size_t fill(int fd, char what) {
        char bytes[4096];
        size_t total = 0;
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        memset(bytes, what, sizeof bytes);
        while (poll(&p, 1, 300) == 1) {
                ssize_t n = send(fd, bytes, sizeof bytes, MSG_DONTWAIT);
                if (n <= 0)
                        break;
                total += (size_t)n;
        }
        return total;
}

static void bytes_go_both_ways(void) {
        struct sides s;
        start(&s);
        int out = connect_to(&s), in = next_inside(s.hand);
        pid_t pid = fork();

        if (pid == 0) { /* more than all windows together, so that somebody has to read meanwhile */
                send_all(out, 'a', 4 << 20);
                _exit(0);
        }
        CHECK(comes(in, 'a', 4 << 20));
        (void)waitpid(pid, NULL, 0);
        send_all(in, 'b', 100);
        CHECK(comes(out, 'b', 100));
        stop(&s);
        (void)close(out);
        (void)close(in);
}

static void the_end_comes_after_the_bytes(void) {
        struct sides s;
        start(&s);
        int out = connect_to(&s), in = next_inside(s.hand);

        send_all(out, 'c', 30000);
        (void)close(out);
        CHECK(comes(in, 'c', 30000));
        CHECK(ends(in));
        (void)close(in);
        int out2 = connect_to(&s), in2 = next_inside(s.hand); /* and there is the next */
        send_all(in2, 'd', 30000);
        (void)close(in2);
        CHECK(comes(out2, 'd', 30000));
        CHECK(ends(out2));
        (void)close(out2);
        stop(&s);
}

/* Both ways full of bytes that nobody takes; the next connection has none of them. It comes when the one before has
 * gone, or while it is there. */
static void a_stalled_one_leaves_nothing(void) {
        struct sides s;
        start(&s);

        for (char round = 0; round < 6; round++) {
                bool gone = round % 2;
                int out = connect_to(&s), in = next_inside(s.hand);

                CHECK(fill(out, 'x') > CARRY_WINDOW);
                CHECK(fill(in, 'y') > CARRY_WINDOW);
                if (gone)
                        (void)close(out);
                int out2 = connect_to(&s), in2 = next_inside(s.hand);
                send_all(out2, (char)('0' + round), 5000);
                CHECK(comes(in2, (char)('0' + round), 5000));
                send_all(in2, (char)('a' + round), 5000);
                CHECK(comes(out2, (char)('a' + round), 5000));
                if (!gone)
                        (void)close(out);
                (void)close(in);
                (void)close(in2); /* this time the one inside goes first */
                CHECK(ends(out2));
                (void)close(out2);
        }
        stop(&s);
}

/* One side for real, the other is us. */
static int status_of_peer(const void *bytes, size_t size, bool keepers) {
        struct sockaddr_un at;
        socklen_t at_size;
        int line[2], hand[2], status = 0, listener = keepers ? make_listener(&at, &at_size) : -EBADF;

        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, line) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, hand) == 0);
        pid_t pid = start_side(line[1], listener, hand[1]);
        (void)close(line[1]);
        (void)fd_write_full(line[0], bytes, size); /* it need not wait for all of it */
        (void)shutdown(line[0], SHUT_WR);
        CHECK(waitpid(pid, &status, 0) == pid);
        (void)close(line[0]);
        (void)close(hand[0]);
        (void)close(hand[1]);
        fd_close(&listener);
        return WEXITSTATUS(status);
}

#define FRAME(kind, number, size) kind, 0, 0, 0, number, 0, 0, 0, (size)&255, (size) >> 8, 0, 0

static void rules_are_kept(void) {
        static const uint8_t good[] = {FRAME(CARRY_OPEN, 1, 0), FRAME(CARRY_DATA, 1, 2), 'h', 'i',
                                       FRAME(CARRY_OPEN, 2, 0), FRAME(CARRY_DATA, 1, 1), 'x', FRAME(CARRY_CLOSE, 1, 0)};
        static const uint8_t again[] = {FRAME(CARRY_OPEN, 1, 0), FRAME(CARRY_OPEN, 1, 0)};
        static const uint8_t early[] = {FRAME(CARRY_DATA, 1, 1), 'x'};
        static const uint8_t large[] = {FRAME(CARRY_OPEN, 1, 0), FRAME(CARRY_DATA, 1, CARRY_PIECE + 1)};
        static const uint8_t credit[] = {FRAME(CARRY_OPEN, 1, 0), FRAME(CARRY_TOOK, 1, 4), 1, 0, 0, 0};
        static const uint8_t unknown[] = {FRAME(9, 0, 0)};
        static const uint8_t opened[] = {FRAME(CARRY_OPEN, 9, 0)};

        CHECK(status_of_peer(good, sizeof good, false) == 0);
        CHECK(status_of_peer(again, sizeof again, false) == 1);
        CHECK(status_of_peer(early, sizeof early, false) == 1);
        CHECK(status_of_peer(large, sizeof large, false) == 1);
        CHECK(status_of_peer(credit, sizeof credit, false) == 1);
        CHECK(status_of_peer(unknown, sizeof unknown, false) == 1);
        CHECK(status_of_peer(opened, sizeof opened, true) == 1); /* only the keeper's side begins one */
}

/* More data than the window has room for, to somebody who does not read. */
static void the_window_is_kept(void) {
        static uint8_t flood[CARRY_HEAD + 40 * (CARRY_HEAD + CARRY_PIECE)];
        const uint8_t open[] = {FRAME(CARRY_OPEN, 1, 0)}, data[] = {FRAME(CARRY_DATA, 1, CARRY_PIECE)};

        memcpy(flood, open, sizeof open);
        for (size_t i = 0; i < 40; i++)
                memcpy(flood + sizeof open + i * (CARRY_HEAD + CARRY_PIECE), data, sizeof data);
        CHECK(status_of_peer(flood, sizeof flood, false) == 1);
}

TEST_MAIN(TEST(bytes_go_both_ways), TEST(the_end_comes_after_the_bytes), TEST(a_stalled_one_leaves_nothing),
          TEST(rules_are_kept), TEST(the_window_is_kept))
