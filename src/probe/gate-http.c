/* Attempts to say one thing to the gate and have another thing happen: spellings of hosts that one parser reads as the
 * allowed name and another as somebody else's, requests hidden in others, hellos that name nobody.
 *
 * Where a conversation begins with something that is allowed, that part carries the control's mark; only what must not
 * pass carries the attempt's. */
#include <arpa/inet.h>
#include <unistd.h>

#include "probe/gate.h"

#define ANSWER_MS 2000 /* what is answered or refused is so at once: only a host under load takes longer */
#define HTTP      80
#define TLS       443

/* Spellings: G stands for the allowed name, E for the other, A for the other's address. Control bytes as they are. */
static const char *const spellings[] = {
        "G.E",
        "E",
        "E.",
        "E#G",
        "E?G",
        "E/G",
        "E\\G",
        "G@E",
        "G:80@E",
        "G:80.E",
        "E%00.G",
        "E%2eG",
        "E .G",
        "G E",
        "G,E",
        "E;G",
        "*.G",
        "*",
        ".G",
        "G..",
        "-G",
        "[G]",
        "G%lo",
        "G%25lo",
        "E\tG",
        "E\vG",
        "G\x7f.E",
        "E\r\n.G",
        "G\r\nHost: E",
        "E\n.G",
        "G\r.E",
        "A",
        "A.",
        "A#G",
        "G@A",
        "[::ffff:A]",
        "[::ffff:A%lo]",
        "[A]",
        "A%00G",
        "G.A",
        "\xd0\xb5.E",
        "g\xd0\xbe"
        "od.test",
        "goo\xc2\xad"
        "d.test",
        "E\xe3\x80\x82G",
        "E\xef\xbc\x8fG",
        "xn--G",
        "G:80:80@E",
        "http://E",
        "//E",
        "E:80#@G",
        "E:80\\@G",
        "G\xff.E",
        "EG",
        "G-E",
        "localhost",
};

/* Writes one out. Returns its size. */
static size_t spell(const char *pattern, char *buf, size_t size) {
        size_t n = 0;

        for (; *pattern && n + GATE_NAME_MAX < size; pattern++) {
                const char *part = *pattern == 'G'   ? gate_good()
                                   : *pattern == 'E' ? gate_evil()
                                   : *pattern == 'A' ? probe_fact("evil-address")
                                                     : NULL;
                if (part)
                        n += (size_t)snprintf(buf + n, size - n, "%s", part);
                else
                        buf[n++] = *pattern;
        }
        buf[n] = '\0';
        return n;
}

static void spelled_connect(struct result *r) {
        char host[1024];

        for (size_t i = 0; probe_fact("evil-address") && i < ELEMENTSOF(spellings); i++) {
                (void)spell(spellings[i], host, sizeof host);
                (void)shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\n" GATE_GET, host, host, gate_mark(),
                                      gate_evil());
                (void)shot_proxy_text("CONNECT %s:443 HTTP/1.1\r\nHost: %s\r\n\r\n%s", host, gate_good(), gate_mark());
        }
        struct shot *s = shot_proxy_text("CONNECT %s.:80 HTTP/1.1\r\nHost: %s.:80\r\n\r\n" GATE_GET, gate_good(),
                                         gate_good(), gate_control(), gate_good());
        if (s)
                s->control = true;
        shots_fire(r, ANSWER_MS);
}

static void spelled_absolute(struct result *r) {
        char host[1024];

        for (size_t i = 0; probe_fact("evil-address") && i < ELEMENTSOF(spellings); i++) {
                (void)spell(spellings[i], host, sizeof host);
                (void)shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host,
                                      gate_mark(), host);
                (void)shot_proxy_text("GET http://%s:80/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host,
                                      gate_mark(), gate_evil());
        }
        struct shot *s = shot_proxy_text("GET http://%s./?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                                         gate_good(), gate_control(), gate_good());
        if (s)
                s->control = true;
        shots_fire(r, ANSWER_MS);
}

/* A name with its length in front can hold anything, zeros too. */
static void socks_shot(const void *host, size_t length, bool control) {
        uint8_t bytes[1024];
        size_t n = gate_socks(bytes, 512, 3, host, length, HTTP);

        if (n == 0)
                return;
        n += (size_t)snprintf((char *)bytes + n, sizeof bytes - n, GATE_GET, control ? gate_control() : gate_mark(),
                              control ? gate_good() : gate_evil());
        struct shot *s = shot_proxy(bytes, n);
        if (s)
                s->control = control;
}

static void spelled_socks(struct result *r) {
        char host[1024];
        size_t n;

        for (size_t i = 0; probe_fact("evil-address") && i < ELEMENTSOF(spellings); i++) {
                n = spell(spellings[i], host, sizeof host);
                socks_shot(host, n < 255 ? n : 255, false);
        }
        for (unsigned i = 0; i < 3; i++) { /* a zero after, before and between */
                n = (size_t)snprintf(host, sizeof host, "%s|%s", i == 1 ? gate_evil() : gate_good(),
                                     i == 2   ? ""
                                     : i == 1 ? gate_good()
                                              : gate_evil());
                *strchr(host, '|') = '\0';
                socks_shot(host, n, false);
        }
        socks_shot(gate_good(), strlen(gate_good()), true);
        shots_fire(r, ANSWER_MS);
}

/* The connection is to the allowed name; its Host is each of the others. */
static void spelled_host(struct result *r) {
        char host[1024];
        const char *address = gate_good_address();

        for (size_t i = 0; probe_fact("evil-address") && i < ELEMENTSOF(spellings); i++) {
                (void)spell(spellings[i], host, sizeof host);
                (void)shot_get(address, HTTP, host, false);
        }
        shot_good();
        shots_fire(r, ANSWER_MS);
}

static void host_other(struct result *r) {
        const char *a = gate_good_address(), *g = gate_good(), *e = gate_evil(), *m = gate_mark();

        (void)shot_get(a, HTTP, e, false);
        (void)shot_text(a, HTTP, "GET /?%s HTTP/1.1\r\n\r\n", m);
        (void)shot_text(a, HTTP, "GET /?%s HTTP/1.1\r\nHost: %s\r\nHost: %s\r\n\r\n", m, g, e);
        (void)shot_text(a, HTTP, "GET /?%s HTTP/1.1\r\nHost : %s\r\n\r\n", m, g);
        (void)shot_text(a, HTTP, "GET /?%s HTTP/1.1\r\nHost: %s\r\n\r\n", m, "");
        (void)shot_text(a, HTTP, "GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\n\r\n", e, m, g);
        (void)shot_text(a, HTTP, "GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\n\r\n", g, m, e);
        (void)shot_text(a, HTTP, "CONNECT %s:80 HTTP/1.1\r\nHost: %s\r\nX: %s\r\n\r\n", e, e, m);
        (void)shot_text(a, HTTP, "GET /?%s HTTP/1.0\r\nHost: %s\r\n\r\n", m, e);
        (void)shot_text(a, HTTP, "GET /?%s HTTP/0.9\r\n\r\n", m);
        (void)shot_text(a, HTTP, "GET /?%s\r\n\r\n", m);
        (void)shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\n\r\n", g, m, e);
        (void)shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\nHost: %s\r\n\r\n", g, m, g, e);
        shot_good();
        shots_fire(r, ANSWER_MS);
}

/* The first request is as allowed as can be; the next on the same connection is for somebody else. */
static void keep_alive(struct result *r) {
        const char *g = gate_good(), *e = gate_evil();
        char first[300];

        (void)snprintf(first, sizeof first, "GET /?%s HTTP/1.1\r\nHost: %s\r\n\r\n", gate_control(), g);
        (void)shot_text(gate_good_address(), HTTP, "%s" GATE_GET, first, gate_mark(), e);
        (void)shot_text(gate_good_address(), HTTP, "%sGET http://%s/?%s HTTP/1.1\r\nHost: %s\r\n\r\n", first, e,
                        gate_mark(), e);
        (void)shot_proxy_text("GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\n\r\nGET http://%s/?%s HTTP/1.1\r\nHost: "
                              "%s\r\nConnection: close\r\n\r\n",
                              g, gate_control(), g, e, gate_mark(), e);
        shots_fire(r, ANSWER_MS);
}

/* Bytes that were sent before anybody said that they may be. */
static void pipelined(struct result *r) {
        const char *g = gate_good(), *e = gate_evil(), *m = gate_mark();

        (void)shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\n" GATE_GET, e, e, m, g);
        (void)shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\nCONNECT %s:80 HTTP/1.1\r\nHost: "
                              "%s:80\r\n\r\n" GATE_GET,
                              g, g, e, e, m, e);
        (void)shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\n" GATE_GET, g, g, m, e);
        (void)shot_proxy_text("CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n" GATE_GET, g, g, m, e);
        (void)shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\nContent-Length: 9\r\n\r\nsome body" GATE_GET, g,
                              g, m, e);
        (void)shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\n" GATE_GET, e, g, m, e);
        struct shot *s = shot_proxy_text("CONNECT %s:80 HTTP/1.1\r\nHost: %s:80\r\n\r\n" GATE_GET, g, g, gate_control(),
                                         g);
        if (s)
                s->control = true;
        shots_fire(r, ANSWER_MS);
}

/* Requests whose end two readers would see in two places; behind it stands another, for somebody else. */
static void smuggled(struct result *r) {
        static const char *const framings[] = {
                "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
                "Content-Length: 0, 44\r\n\r\n",
                "Content-Length: +0\r\n\r\n",
                "Content-Length: 0x0\r\n\r\n",
                "Content-Length:\r\n 0\r\n\r\n",
                "X: y\r\n\tContent-Length: 44\r\n\r\n",
                "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
                "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
                "Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n",
                "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                "Transfer-Encoding: chunked\r\n\r\n0;ext=\"\r\n\r\n",
                "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
                "Transfer-Encoding: chunked\r\n\r\n0\n\n",
                "Transfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n",
                "Connection: Host\r\n\r\n",
                "\r\n",
                "X: y\n\n",
        };
        const char *a = gate_good_address(), *g = gate_good();

        for (size_t i = 0; i < ELEMENTSOF(framings); i++) {
                (void)shot_text(a, HTTP, "POST /framing-%zu HTTP/1.1\r\nHost: %s\r\n%s" GATE_GET, i, g, framings[i],
                                gate_mark(), gate_evil());
                (void)shot_proxy_text("POST http://%s/framing-%zu HTTP/1.1\r\nHost: %s\r\n%s" GATE_GET, g, i, g,
                                      framings[i], gate_mark(), gate_evil());
        }
        shot_good();
        shots_fire(r, ANSWER_MS);
}

/* Out of HTTP/1.1 into something that nobody compares. */
static void upgrade(struct result *r) {
        const char *a = gate_good_address(), *g = gate_good(), *m = gate_mark();

        (void)shot_text(a, HTTP,
                        "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                        "HTTP2-Settings: %s\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%s",
                        g, m, m);
        (void)shot_text(a, HTTP, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%s\r\n\r\n", m);
        (void)shot_text(a, HTTP, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0, %s\r\n\r\n", g,
                        m);
        (void)shot_text(a, HTTP, "SSH-2.0-%s\r\n", m);
        (void)shot_text(a, HTTP, "%s\r\n\r\n", m);
        shot_good();
        shots_fire(r, ANSWER_MS);
}

static struct shot *hello_to(const char *address, unsigned port, const char *const *names, size_t record,
                             bool control) {
        uint8_t hello[2048], records[8192];
        size_t n = gate_hello(hello, sizeof hello, names, control ? gate_control() : gate_mark());

        n = gate_records(records, sizeof records, hello, n, record);
        struct shot *s = shot_bytes(address, port, records, n);
        if (s)
                s->control = control;
        return s;
}

static void tls_control(const char *address) {
        const char *const names[] = {gate_good(), NULL};

        (void)hello_to(address, TLS, names, 16384, true);
}

/* The connection is to the allowed name; the hello names another server, or two, or nobody. */
static void sni_other(struct result *r) {
        const char *a = gate_good_address();
        const char *const other[] = {gate_evil(), NULL}, *const nobody[] = {NULL};
        const char *const both[] = {gate_good(), gate_evil(), NULL}, *const odd[] = {"*", NULL};
        const char *const address[] = {probe_fact("evil-address"), NULL}, *const empty[] = {"", NULL};

        (void)hello_to(a, TLS, other, 16384, false);
        (void)hello_to(a, TLS, both, 16384, false);
        (void)hello_to(a, TLS, odd, 16384, false);
        (void)hello_to(a, TLS, empty, 16384, false);
        (void)hello_to(a, TLS, nobody, 16384, false);
        (void)hello_to(a, TLS, address, 16384, false);
        tls_control(a);
        shots_fire(r, ANSWER_MS);
}

/* The same in many records and many packets. */
static void sni_fragments(struct result *r) {
        const char *a = gate_good_address();
        const char *const other[] = {gate_evil(), NULL};
        static const size_t sizes[] = {1, 7, 60};

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                struct shot *s = hello_to(a, TLS, other, sizes[i], false);
                if (s)
                        s->piece = sizes[i] + 5;
        }
        struct shot *s = hello_to(a, TLS, other, 16384, false);
        if (s)
                s->piece = 3;
        tls_control(a);
        shots_fire(r, ANSWER_MS);
}

/* Through the proxy, where the name was agreed on before. */
static void sni_tunnel(struct result *r) {
        const char *const other[] = {gate_evil(), NULL}, *const good[] = {gate_good(), NULL};

        for (unsigned i = 0; i < 2; i++) {
                uint8_t bytes[4096], hello[1024];
                int n = snprintf((char *)bytes, 1024, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n", gate_good(),
                                 gate_good());
                size_t length = gate_hello(hello, sizeof hello, i ? good : other, i ? gate_control() : gate_mark());
                length = gate_records(bytes + n, sizeof bytes - (size_t)n, hello, length, 16384);
                struct shot *s = shot_proxy(bytes, (size_t)n + length);
                if (s)
                        s->control = i == 1;
        }
        shots_fire(r, ANSWER_MS);
}

/* The port of TLS is for TLS, that of HTTP for HTTP. */
static void wrong_protocol(struct result *r) {
        const char *a = gate_good_address();
        const char *const names[] = {gate_good(), NULL};

        (void)shot_get(a, TLS, gate_good(), false);
        (void)shot_text(a, TLS, "%s\n", gate_mark());
        (void)shot_text(a, HTTP, "%s\n", gate_mark());
        (void)hello_to(a, HTTP, names, 16384, false);
        tls_control(a);
        shots_fire(r, ANSWER_MS);
}

/* A rule with methods and paths: only those. */
static void paths(struct result *r) {
        static const char *const forms[] = {"GET /closed/",
                                            "GET /open/../closed/",
                                            "GET /open/%2e%2e/closed/",
                                            "GET /open/..;/x",
                                            "GET //open/",
                                            "GET /open%2fx",
                                            "GET /OPEN/",
                                            "POST /open/",
                                            "DELETE /open/",
                                            "GET /open/\\..\\x",
                                            "GET /closed/#/open/",
                                            "GET /open/..%5cx",
                                            "get /open/",
                                            "GET /"};
        const char *name = probe_fact("second-name");
        char address[INET6_ADDRSTRLEN];

        if (!name) {
                probe_note(r, "no second-name=NAME given");
                return;
        }
        gate_lookup(name, AF_INET, address, sizeof address);
        for (size_t i = 0; i < ELEMENTSOF(forms); i++)
                (void)shot_text(address, HTTP, "%s?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", forms[i],
                                gate_mark(), name);
        struct shot *s = shot_text(address, HTTP, "GET /open/?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                                   gate_control(), name);
        if (s)
                s->control = true;
        shots_fire(r, ANSWER_MS);
}

const struct attempt gate_http_attempts[] = {
        {"host-spelled-connect", spelled_connect, 0},
        {"host-spelled-absolute", spelled_absolute, 0},
        {"host-spelled-socks", spelled_socks, 0},
        {"host-spelled-header", spelled_host, 0},
        {"host-other", host_other, 0},
        {"host-keep-alive", keep_alive, 0},
        {"connect-pipelined", pipelined, 0},
        {"request-smuggled", smuggled, 0},
        {"http-upgrade", upgrade, 0},
        {"sni-other", sni_other, 0},
        {"sni-fragments", sni_fragments, 0},
        {"sni-tunnel", sni_tunnel, 0},
        {"gate-wrong-protocol", wrong_protocol, 0},
        {"gate-paths", paths, 0},
        {0},
};
