/* DNS questions of the client: for an address, over UDP, to whoever answers. Every answer must be the answer to its
 * question and bring an address; anything else is a failure. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/load.h"

#define NAMES_SAMPLES 100000
#define NAMES_WAIT    2000 /* ms */

static int names_socket(const char *address, struct err *err) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
                return err_set(err, ERR_INPUT, "'%s' is not an address", address);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
                return err_set(err, -errno, "cannot ask %s", address);
        return TAKE_FD(fd);
}

static size_t names_question(uint8_t ret[320], uint16_t id, const char *name) {
        size_t n = 12;

        memset(ret, 0, 12);
        ret[0] = (uint8_t)(id >> 8);
        ret[1] = (uint8_t)id;
        ret[2] = 1; /* recursion desired */
        ret[5] = 1; /* one question */
        while (*name && n < 256) {
                size_t label = strcspn(name, ".");

                ret[n++] = (uint8_t)label;
                memcpy(ret + n, name, MIN(label, (size_t)63));
                n += MIN(label, (size_t)63);
                name += label + (name[label] == '.');
        }
        memcpy(ret + n, (const uint8_t[]){0, 0, 1, 0, 1}, 5);
        return n + 5;
}

static int names_ask(int fd, uint16_t id, const char *name, struct err *err) {
        uint8_t question[320];
        size_t n = names_question(question, id, name);

        return send(fd, question, n, 0) == (ssize_t)n ? 0 : err_set(err, -errno, "could not ask");
}

/* Takes one answer, waiting if there is none. Returns its id. */
static int names_hear(int fd, struct err *err) {
        uint8_t answer[1500];
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        while ((n = recv(fd, answer, sizeof(answer), 0)) < 0 && errno == EAGAIN)
                if (poll(&p, 1, NAMES_WAIT) == 0)
                        return err_set(err, -ETIME, "no answer within %d ms", NAMES_WAIT);
        if (n < 12)
                return err_set(err, n < 0 ? -errno : -EBADMSG, "not an answer");
        if ((answer[3] & 15) != 0 || answer[7] == 0)
                return err_set(err, -EBADMSG, "the answer has code %d and %d addresses", answer[3] & 15, answer[7]);
        return answer[0] << 8 | answer[1];
}

int load_names(const char *address, const char *name, size_t count, struct summary *ret, struct err *err) {
        static uint64_t ns[NAMES_SAMPLES];
        struct samples samples = {.ns = ns};
        _cleanup_fd_ int fd = names_socket(address, err);
        int r = MIN(fd, 0);

        while (r >= 0 && samples.count < MIN(count, (size_t)NAMES_SAMPLES)) {
                uint64_t begin = measure_now();

                r = names_ask(fd, (uint16_t)samples.count, name, err);
                if (r == 0)
                        r = names_hear(fd, err);
                if (r >= 0 && r != (uint16_t)samples.count)
                        r = err_set(err, -EBADMSG, "an answer to another question");
                ns[samples.count++] = measure_now() - begin;
        }
        *ret = measure_summary(&samples);
        return MIN(r, 0);
}

int load_asks(const char *address, const char *name, uint64_t ms, uint64_t *ret_count, uint64_t *ret_ns,
              struct err *err) {
        _cleanup_fd_ int fd = names_socket(address, err);
        uint64_t begin = measure_now(), end = begin + ms * 1000000, count = 0;
        uint16_t id = 0;
        int r = MIN(fd, 0);

        for (unsigned i = 0; i < LOAD_ASKS && r >= 0; i++)
                r = names_ask(fd, id++, name, err);
        while (r >= 0 && measure_now() < end) {
                if ((r = names_hear(fd, err)) >= 0) {
                        count++;
                        r = names_ask(fd, id++, name, err);
                }
        }
        *ret_count = count;
        *ret_ns = measure_now() - begin;
        return MIN(r, 0);
}
