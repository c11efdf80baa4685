/* Attempts to reach what no rule allows, from a sandbox that may reach one name: by address, by another name, on
 * another port, past the proxy, through a relay, by what an allowed name resolves or redirects to.
 *
 * What is forbidden carries the attempt's mark, what is allowed the control's (gate.h). */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/gate.h"

#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif

#define ANSWER_MS 2000 /* what is answered or refused is so at once: only a host under load takes longer */
#define SILENT_MS 120  /* for what is never answered */
#define HTTP      80

/* A name by every door: the name server, CONNECT, absolute form, SOCKS5. */
static void every_door(const char *name, unsigned port) {
        char address[INET6_ADDRSTRLEN];
        uint8_t bytes[1024];

        for (int i = 0; i < 2; i++) {
                gate_lookup(name, i ? AF_INET6 : AF_INET, address, sizeof address);
                if (address[0])
                        (void)shot_get(address, port, name, false);
        }
        (void)shot_proxy_text("CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n" GATE_GET, name, port, name, port,
                              gate_mark(), name);
        (void)shot_proxy_text("GET http://%s:%u/?%s HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n\r\n", name, port,
                              gate_mark(), name, port);
        size_t n = gate_socks(bytes, 512, 3, name, strlen(name), port);
        if (n > 0) {
                int more = snprintf((char *)bytes + n, sizeof bytes - n, GATE_GET, gate_mark(), name);
                (void)shot_proxy(bytes, n + (size_t)more);
        }
}

static void every_door_control(void) {
        uint8_t bytes[1024];
        const char *name = gate_good();
        struct shot *s = shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\n" GATE_GET, name, name,
                                         gate_control(), name);

        if (s)
                s->control = true;
        size_t n = gate_socks(bytes, 512, 3, name, strlen(name), HTTP);
        if (n > 0) {
                int more = snprintf((char *)bytes + n, sizeof bytes - n, GATE_GET, gate_control(), name);
                s = shot_proxy(bytes, n + (size_t)more);
                if (s)
                        s->control = true;
        }
}

static void allowed(struct result *r) {
        (void)shot_get(gate_good_address(), HTTP, gate_good(), false);
        every_door(gate_good(), HTTP);
        shots_fire(r, ANSWER_MS);
}

static void other_name(struct result *r) {
        char name[GATE_NAME_MAX];

        (void)snprintf(name, sizeof name, "%s.%s", probe_name(), gate_evil());
        every_door(gate_evil(), HTTP);
        every_door(name, HTTP);
        every_door_control();
        shot_good();
        shots_fire(r, ANSWER_MS);
}

/* Nothing is said that could be read or refused: the connection itself is the message, and so is the name. */
static void silent(struct result *r) {
        static const char *const keys[] = {"evil-address", "other-address", "other-address6", "metadata-address",
                                           "host-address"};
        char address[INET6_ADDRSTRLEN];

        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                (void)shot_bytes(probe_fact(keys[i]), HTTP, "", 0);
                (void)shot_bytes(probe_fact(keys[i]), (unsigned)probe_number("other-port", HTTP), "", 0);
        }
        gate_lookup(gate_evil(), AF_INET, address, sizeof address);
        (void)shot_bytes(address, HTTP, "", 0);
        shots_fire(r, SILENT_MS);
}

/* The allowed name on ports that its rule does not have. */
static void other_port(struct result *r) {
        static const unsigned ports[] = {8080, 853, 25};

        for (size_t i = 0; i < ELEMENTSOF(ports); i++)
                every_door(gate_good(), ports[i]);
        if (probe_fact("other-port"))
                every_door(gate_good(), (unsigned)probe_number("other-port", 0));
        shot_good();
        every_door_control();
        shots_fire(r, ANSWER_MS);
}

static void to_fact(const char *key, unsigned port) {
        const char *address = probe_fact(key);
        char mapped[INET6_ADDRSTRLEN + 8];

        if (!address)
                return;
        (void)shot_get(address, port, address, false);
        (void)shot_get(address, port, gate_good(), false); /* saying the allowed name does not help */
        if (!strchr(address, ':')) {
                (void)snprintf(mapped, sizeof mapped, "::ffff:%s", address);
                (void)shot_get(mapped, port, gate_good(), false);
        }
}

/* No proxy is asked: the addresses themselves, also that of the server that is allowed by name. */
static void literal_v4(struct result *r) {
        to_fact("evil-address", HTTP);
        to_fact("good-address", HTTP);
        to_fact("other-address", (unsigned)probe_number("other-port", HTTP));
        to_fact("evil-address", 443);
        shot_good();
        shots_fire(r, ANSWER_MS);
}

static void literal_v6(struct result *r) {
        to_fact("good-address6", HTTP);
        to_fact("other-address6", (unsigned)probe_number("other-port", HTTP));
        shot_good();
        shots_fire(r, ANSWER_MS);
}

static void metadata(struct result *r) {
        to_fact("metadata-address", HTTP);
        if (probe_fact("metadata-address"))
                every_door(probe_fact("metadata-address"), HTTP);
        shot_good();
        every_door_control();
        shots_fire(r, ANSWER_MS);
}

static void private_address(struct result *r) {
        to_fact("private-address", HTTP);
        if (probe_fact("private-address"))
                every_door(probe_fact("private-address"), HTTP);
        shot_good();
        every_door_control();
        shots_fire(r, ANSWER_MS);
}

/* The host itself: its loopback through the proxy, its own addresses also directly. */
static void host_loopback(struct result *r) {
        static const char *const names[] = {"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]",
                                            "127.1",     "127.0.0.2", "[::]",    "0"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                (void)shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\n" GATE_GET, names[i], names[i],
                                      gate_mark(), names[i]),
                        (void)shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                                              names[i], gate_mark(), names[i]);
        every_door("127.0.0.1", HTTP);
        every_door("127.0.0.1", (unsigned)probe_number("tcp-port", HTTP));
        every_door_control();
        shots_fire(r, ANSWER_MS);
}

static void host_address(struct result *r) {
        to_fact("host-address", HTTP);
        to_fact("host-address", (unsigned)probe_number("tcp-port", HTTP));
        to_fact("host-address6", HTTP);
        if (probe_fact("host-address"))
                every_door(probe_fact("host-address"), HTTP);
        shot_good();
        every_door_control();
        shots_fire(r, ANSWER_MS);
}

/* Numbers that some libraries take for the address of a server. */
static void number_forms(struct result *r) {
        struct in_addr a;
        const char *address = probe_fact("evil-address");
        char forms[8][64];

        if (!address || inet_pton(AF_INET, address, &a) != 1) {
                probe_note(r, "no evil-address=ADDRESS given");
                return;
        }
        uint32_t n = ntohl(a.s_addr);
        (void)snprintf(forms[0], sizeof forms[0], "%u", n);
        (void)snprintf(forms[1], sizeof forms[1], "0x%x", n);
        (void)snprintf(forms[2], sizeof forms[2], "0%o.0%o.0%o.0%o", n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255);
        (void)snprintf(forms[3], sizeof forms[3], "%u.%u", n >> 24, n & 0xffffff);
        (void)snprintf(forms[4], sizeof forms[4], "0x%x.0x%x.0x%x.0x%x", n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255);
        (void)snprintf(forms[5], sizeof forms[5], "[::ffff:%s]", address);
        (void)snprintf(forms[6], sizeof forms[6], "%s.", address);
        (void)snprintf(forms[7], sizeof forms[7], "%s", address);
        for (size_t i = 0; i < ELEMENTSOF(forms); i++)
                every_door(forms[i], HTTP);
        every_door_control();
        shots_fire(r, ANSWER_MS);
}

/* Allowed names whose answers are not public: each connection is to the address that was checked, or none. */
static void by_answer(struct result *r, const char *const *keys) {
        for (; *keys; keys++)
                if (probe_fact(*keys))
                        every_door(probe_fact(*keys), HTTP);
        shot_good();
        shots_fire(r, ANSWER_MS);
}

static void private_answer(struct result *r) {
        static const char *const keys[] = {"private-name",  "loop-name", "mapped-name",
                                           "metadata-name", "near-name", NULL};

        by_answer(r, keys);
}

/* The public one of its addresses does not answer on this port; the next is the host's loopback, which does. */
static void mixed_answer(struct result *r) {
        const char *name = probe_fact("mixed-name");
        char address[INET6_ADDRSTRLEN];

        if (!name || !probe_fact("tcp-port")) {
                probe_note(r, "no mixed-name=NAME or tcp-port=PORT given");
                return;
        }
        gate_lookup(name, AF_INET, address, sizeof address);
        (void)shot_get(address, HTTP, name, true);
        every_door(name, (unsigned)probe_number("tcp-port", 0));
        shots_fire(r, ANSWER_MS);
}

/* The first answer is public, the next ones are the host's loopback. Asked again until nobody can have kept the first:
 * an answer that may not be kept is kept for a second all the same. */
static void rebind(struct result *r) {
        static const char *const keys[] = {"rebind-name", NULL};

        for (unsigned i = 0; i < 5; i++) {
                r->evidence[0] = '\0';
                by_answer(r, keys);
                (void)poll(NULL, 0, 250);
        }
}

/* An allowed server sends us elsewhere; who follows is judged again. */
static void redirect(struct result *r) {
        const char *name = probe_fact("redirect-name"), *to = probe_fact("metadata-address");
        char address[INET6_ADDRSTRLEN];

        if (!name || !to) {
                probe_note(r, "no redirect-name=NAME or metadata-address=ADDRESS given");
                return;
        }
        gate_lookup(name, AF_INET, address, sizeof address);
        (void)shot_get(address, HTTP, name, true);
        (void)shot_text(to, HTTP, "GET /latest/meta-data/?%s HTTP/1.1\r\nHost: %s\r\n\r\n", gate_mark(), to);
        (void)shot_proxy_text("GET http://%s/latest/meta-data/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                              to, gate_mark(), to);
        /* on the connection to the server that sent us there */
        (void)shot_text(address, HTTP, "GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\n\r\n", to, gate_mark(), to);
        shots_fire(r, ANSWER_MS);
}

/* Copies between two sockets until one of them ends. */
static void relay(int a, int b) {
        char bytes[2048];
        struct pollfd p[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};

        while (poll(p, 2, 500) > 0)
                for (int i = 0; i < 2; i++) {
                        ssize_t n = p[i].revents ? recv(p[i].fd, bytes, sizeof bytes, 0) : 1;
                        if (n <= 0 || (p[i].revents && send(p[!i].fd, bytes, (size_t)n, MSG_NOSIGNAL) != n))
                                return;
                }
}

/* Serves one client on a port of our own loopback and connects it with this address. */
static unsigned relay_to(const char *address, unsigned port, pid_t *ret_child) {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, to = own;
        socklen_t n = sizeof own;
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || bind(fd, (struct sockaddr *)&own, n) < 0 || listen(fd, 4) < 0 ||
            getsockname(fd, (struct sockaddr *)&own, &n) < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1)
                return 0;
        to.sin_port = htons((uint16_t)port);
        *ret_child = fork();
        if (*ret_child == 0) {
                (void)alarm(2);
                int client = accept(fd, NULL, NULL), server = socket(AF_INET, SOCK_STREAM, 0);
                if (client >= 0 && server >= 0 && connect(server, (struct sockaddr *)&to, sizeof to) == 0)
                        relay(client, server);
                _exit(0);
        }
        return *ret_child > 0 ? ntohs(own.sin_port) : 0;
}

static void relay_inside(struct result *r) {
        pid_t first = -1, second = -1;
        const char *evil = probe_fact("evil-address");
        unsigned bad = evil ? relay_to(evil, HTTP, &first) : 0, good = relay_to(gate_good_address(), HTTP, &second);

        if (bad)
                (void)shot_get("127.0.0.1", bad, gate_evil(), false);
        if (good) {
                (void)shot_get("127.0.0.1", good, gate_good(), true);
        }
        shots_fire(r, ANSWER_MS);
        for (int i = 0; i < 2; i++) {
                pid_t child = i ? second : first;
                if (child > 0 && kill(child, SIGKILL) == 0)
                        (void)waitpid(child, NULL, 0);
        }
}

/* Data in the first packet, another source address, source routes, a mark, a device, other kinds of streams. */
static void odd_stream(const char *address, unsigned how) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(HTTP)}, from = {.sin_family = AF_INET};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, how == 1 ? 262 : 0);
        char text[200], answer[200];
        int one = 1;
        int n = snprintf(text, sizeof text, GATE_GET, gate_mark(), gate_good());

        if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1)
                return;
        const uint8_t route[8] = {0x83, 7, 4};
        uint8_t options[8];
        memcpy(options, route, sizeof options);
        memcpy(options + 3, &to.sin_addr, 4);
        from.sin_addr.s_addr = how == 3 ? htonl(INADDR_LOOPBACK) : to.sin_addr.s_addr ^ htonl(1);
        switch (how) {
        case 2:
                (void)setsockopt(fd, IPPROTO_IP, IP_OPTIONS, options, sizeof options);
                break;
        case 3:
        case 4:
                (void)setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof one);
                (void)setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof one);
                (void)bind(fd, (struct sockaddr *)&from, sizeof from);
                break;
        case 5:
                (void)setsockopt(fd, SOL_SOCKET, SO_MARK, &one, sizeof one);
                (void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3);
                break;
        default:
                break;
        }
        if (how == 0)
                (void)sendto(fd, text, (size_t)n, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof to);
        else
                (void)connect(fd, (struct sockaddr *)&to, sizeof to);
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (poll(&p, 1, 30) > 0 && how > 0)
                (void)send(fd, text, (size_t)n, MSG_NOSIGNAL);
        p.events = POLLIN;
        if (poll(&p, 1, 30) > 0)
                (void)recv(fd, answer, sizeof answer, 0);
}

static void odd_streams(struct result *r) {
        const char *address = probe_fact("evil-address");

        if (!address) {
                probe_note(r, "no evil-address=ADDRESS given");
                return;
        }
        for (unsigned how = 0; how < 6; how++)
                odd_stream(address, how);
        to_fact("evil-address", HTTP);
        shot_good();
        shots_fire(r, ANSWER_MS);
}

/* QUIC, time, mDNS, anything: datagrams to everybody who would hear them. */
static void datagrams(struct result *r) {
        static const char *const keys[] = {"evil-address",   "good-address", "other-address",
                                           "other-address6", "host-address", "dns-address"};
        const unsigned ports[] = {443, 123, 853, (unsigned)probe_number("other-udp-port", 9),
                                  (unsigned)probe_number("udp-port", 9)};
        unsigned tried = 0;
        int error = 0;

        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                for (size_t p = 0; probe_fact(keys[i]) && p < ELEMENTSOF(ports); p++) {
                        char answer[64];
                        ssize_t n = gate_datagram(probe_fact(keys[i]), ports[p], gate_mark(), strlen(gate_mark()),
                                                  answer, sizeof answer, 2);
                        tried++;
                        if (n >= 0) {
                                probe_done(r, "%s answered on port %u", probe_fact(keys[i]), ports[p]);
                                return;
                        }
                        error = (int)-n;
                }
        if (tried)
                probe_refused(r, error, "%u datagrams, no answer", tried);
        else
                probe_note(r, "no addresses given");
}

/* The sockets that everything is led to, asked directly, and addresses that stand for names, picked by hand. */
static void own_sockets(struct result *r) {
        static const char *const addresses[] = {"127.0.0.1",  "::1",          "198.18.0.1",
                                                "198.18.0.2", "198.18.200.1", "fd53:746f:636b::1"};
        static const unsigned known[] = {3128, 15001, 53, 80};
        unsigned ports[24];
        size_t count = ELEMENTSOF(known);
        char text[8192];

        if (gate_outside()) {
                probe_note(r, "there is no gate here");
                return;
        }
        ssize_t n = fd_read_at(AT_FDCWD, "/proc/net/tcp", text, sizeof text);
        memcpy(ports, known, sizeof known);
        for (char *line = n > 0 ? strchr(text, '\n') : NULL; line && count < ELEMENTSOF(ports);
             line = strchr(line + 1, '\n')) {
                unsigned port, state;
                if (sscanf(line, " %*u: %*x:%x %*x:%*x %x", &port, &state) == 2 && state == 10)
                        ports[count++] = port;
        }
        for (size_t p = 0; p < count; p++)
                for (size_t i = 0; i < ELEMENTSOF(addresses); i++)
                        (void)shot_text(addresses[i], ports[p],
                                        "GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                                        gate_evil(), gate_mark(), gate_evil());
        shot_good();
        shots_fire(r, ANSWER_MS);
}

const struct attempt gate_attempts[] = {
        {"gate-allowed", allowed, 0},
        {"gate-other-name", other_name, 0},
        {"gate-silent", silent, 0},
        {"gate-other-port", other_port, 0},
        {"gate-literal-v4", literal_v4, 0},
        {"gate-literal-v6", literal_v6, 0},
        {"gate-number-forms", number_forms, 0},
        {"gate-metadata", metadata, 0},
        {"gate-private", private_address, 0},
        {"gate-host-loopback", host_loopback, 0},
        {"gate-host-address", host_address, 0},
        {"gate-private-answer", private_answer, 0},
        {"gate-mixed-answer", mixed_answer, 0},
        {"gate-rebind", rebind, 0},
        {"gate-redirect", redirect, 0},
        {"gate-relay", relay_inside, 0},
        {"gate-odd-streams", odd_streams, 0},
        {"gate-datagrams", datagrams, 0},
        {"gate-own-sockets", own_sockets, 0},
        {0},
};
