/* Attempts that take a while, because the judge does something meanwhile: kills the gate, changes the rules, knocks at
 * a port that is open in here; and those that use up what the rules give, or look for what they keep.
 *
 * They say "up" on a line of its own when the judge may begin. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/gate.h"

#define HTTP 80

static void say(const char *line) {
        (void)fd_write_full(STDOUT_FILENO, line, strlen(line));
}

static void address_of(const char *name, char *ret, size_t size) {
        static char kept[INET6_ADDRSTRLEN];

        gate_lookup(name, AF_INET, ret, size);
        if (str_eq(name, gate_good()) && ret[0]) /* while there is no gate, nobody answers: use what we had */
                (void)snprintf(kept, sizeof kept, "%s", ret);
        else if (str_eq(name, gate_good()))
                (void)snprintf(ret, size, "%s", kept);
}

/* Asks for the allowed name and for another, again and again, by name, by address and by proxy. */
static void steady(struct result *r) {
        uint64_t end = gate_now() + probe_number("ms", 1000);
        const char *evil = probe_fact("evil-address");
        char address[INET6_ADDRSTRLEN];
        bool first = true;

        do {
                address_of(gate_evil(), address, sizeof address);
                if (address[0])
                        (void)shot_get(address, HTTP, gate_evil(), false);
                if (evil)
                        (void)shot_get(evil, HTTP, evil, false);
                (void)shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                                      gate_evil(), gate_mark(), gate_evil());
                address_of(gate_good(), address, sizeof address);
                (void)shot_get(address, HTTP, gate_good(), true);
                r->evidence[0] = '\0';
                shots_fire(r, 300);
                if (first)
                        say("up\n");
                first = false;
                (void)poll(NULL, 0, 15);
        } while (gate_now() < end);
}

/* More connections at once than there may be: each asks, and none is closed until the end. */
static void connections(struct result *r) {
        char address[INET6_ADDRSTRLEN];

        gate_lookup(gate_good(), AF_INET, address, sizeof address);
        for (unsigned i = 0; i < probe_number("count", 12); i++)
                (void)shot_text(address, HTTP, "GET /slow/%u?%s HTTP/1.1\r\nHost: %s\r\n\r\n", i, gate_mark(),
                                gate_good());
        shots_fire(r, (unsigned)probe_number("ms", 700));
}

/* More bytes than may be sent in all, in requests that each carry a known number. */
static void egress(struct result *r) {
        char address[INET6_ADDRSTRLEN], fill[1024];

        memset(fill, 'x', sizeof fill);
        gate_lookup(gate_good(), AF_INET, address, sizeof address);
        for (unsigned i = 0; i < probe_number("count", 40); i++)
                (void)shot_text(address, HTTP,
                                "GET /%u?%s HTTP/1.1\r\nHost: %s\r\nX-Fill: %.1024s\r\nConnection: close\r\n\r\n", i,
                                gate_mark(), gate_good(), fill);
        shots_fire(r, 700);
}

/* A port that is open to everybody in here. Whoever comes is told a word that only the judge and we know. */
static void inbound(struct result *r) {
        struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                                   .sin6_port = htons((uint16_t)probe_number("inbound-port", 0))};
        const char *word = probe_fact("inbound-word");
        _cleanup_fd_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int one = 1, zero = 0;
        unsigned visits = 0;

        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
        if (!word || fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) < 0 || listen(fd, 16) < 0) {
                probe_note(r, "cannot listen: %s", word ? strerror(errno) : "no inbound-word=WORD given");
                return;
        }
        say("up\n");
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t end = gate_now() + probe_number("ms", 1000);
        while (gate_now() < end && poll(&p, 1, (int)(end - gate_now())) > 0) {
                int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
                if (client < 0)
                        continue;
                (void)send(client, word, strlen(word), MSG_NOSIGNAL);
                (void)close(client);
                visits++;
        }
        if (visits)
                probe_done(r, "%u came in", visits);
        else
                probe_refused(r, ETIMEDOUT, "nobody came in");
}

/* Knocks where another sandbox listens, and prints what it is told. */
static void inbound_knock(struct result *r) {
        static const char *const own[] = {"127.0.0.1", "::1", "198.18.0.1", "198.18.0.2", "fd53:746f:636b::1"};
        unsigned port = (unsigned)probe_number("inbound-port", 0);

        for (size_t i = 0; i < (gate_outside() ? 2 : ELEMENTSOF(own));
             i++) /* the rest are the gate's, and only inside */
                (void)shot_text(own[i], port, "%s\n", gate_mark());
        if (probe_fact("host-address"))
                (void)shot_text(probe_fact("host-address"), port, "%s\n", gate_mark());
        shots_print(400);
        say("\n");
        probe_refused(r, ECONNREFUSED, "what was said is printed");
}

static void dump(const char *path) {
        static char text[64 << 10];
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);

        for (ssize_t i = 0; i < n; i++)
                if ((unsigned char)text[i] < ' ')
                        text[i] = ' ';
        if (n > 0) {
                (void)fd_write_full(STDOUT_FILENO, text, (size_t)n);
                say("\n");
        }
}

/* Prints every file in a folder, and what stands in the environment and arguments of every process. */
static void dump_folder(const char *folder, const char *const *names) {
        DIR *dir = opendir(folder);
        char path[600];

        for (struct dirent *e; dir && (e = readdir(dir));) {
                (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
                if (!names && e->d_type == DT_REG)
                        dump(path);
                for (size_t i = 0; names && names[i] && e->d_name[0] >= '0' && e->d_name[0] <= '9'; i++) {
                        (void)snprintf(path, sizeof path, "%s/%s/%s", folder, e->d_name, names[i]);
                        dump(path);
                }
        }
        if (dir)
                (void)closedir(dir);
}

/* A secret that the gate keeps for us: looks for it everywhere, and has it sent where it does not belong, also to
 * servers that say back what they were told. The judge looks for it in all that is printed here. */
static void secret(struct result *r) {
        static const char *const of_process[] = {"environ", "cmdline", "maps", NULL};
        static const char *const folders[] = {"/run/stockade", "/run/stockade/net", "/run", "/etc", "/tmp", "/dev/shm"};
        const char *name = probe_fact("secret-variable");
        const char *placeholder = name ? getenv(name) : NULL;
        const char *inner = probe_fact("inner-name"), *second = probe_fact("second-name");
        char address[INET6_ADDRSTRLEN];

        for (size_t i = 0; i < ELEMENTSOF(folders); i++)
                dump_folder(folders[i], NULL);
        dump_folder("/proc", of_process);
        if (!placeholder || !inner || !second) {
                probe_refused(r, ENOENT, "there is not even a placeholder");
                return;
        }
        const char *const hosts[] = {inner, second, gate_good(), probe_fact("loop-name")};
        for (size_t i = 0; i < ELEMENTSOF(hosts) && hosts[i]; i++) {
                gate_lookup(hosts[i], AF_INET, address, sizeof address);
                struct shot *s = shot_text(address, HTTP,
                                           "GET /open/?%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Key: "
                                           "%s\r\nConnection: close\r\n\r\n",
                                           i == 0 ? gate_control() : gate_mark(), hosts[i], placeholder, placeholder);
                if (s)
                        shots_print(700); /* that they answer is fine: what they say is looked at */
                say("\n");
        }
        probe_refused(r, ENOENT, "only a placeholder of %zu bytes", strlen(placeholder));
}

const struct attempt gate_hold_attempts[] = {
        {"gate-killed", steady, 0},           {"gate-live", steady, 0},
        {"gate-connections", connections, 0}, {"gate-egress", egress, 0},
        {"gate-inbound", inbound, 0},         {"gate-inbound-knock", inbound_knock, 0},
        {"gate-secret", secret, GUARDED},     {0},
};
