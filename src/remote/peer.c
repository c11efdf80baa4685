/* Sockets that listen, in /proc/net. The other end of a connection would not do: until it is accepted it has no owner,
 * and is shown as root's. */
#include "remote/peer.h"

#include <stdio.h>

#include "base/fd.h"

enum { LISTENS = 0x0a, LINES_MAX = 1 << 20 };

void peer_want(struct peer *p, const union endpoint *at) {
        *p = (struct peer){.port = endpoint_port(at)};
        (void)endpoint_bytes(&at->any, p->address);
}

/* Words of 32 bits as the host has them, each in hexadecimal: one for IPv4, four for IPv6. */
static bool parse_address(const char *text, uint8_t ret[16]) {
        union endpoint four = {.four = {.sin_family = AF_INET}};
        uint32_t words[4] = {0};
        size_t size = strlen(text);

        if (size != 8 && size != 32)
                return false;
        for (size_t i = 0; i < size; i++) {
                unsigned digit = (unsigned)(text[i] >= 'A' ? text[i] - 'A' + 10 : text[i] - '0');

                words[i / 8] = words[i / 8] << 4 | (digit & 15);
        }
        four.four.sin_addr.s_addr = words[0];
        if (size == 8)
                return endpoint_bytes(&four.any, ret);
        memcpy(ret, words, sizeof words);
        return true;
}

static bool is_any(const uint8_t address[16], bool four) {
        static const uint8_t any[16], any_four[16] = {[10] = 0xff, 0xff};

        return memcmp(address, any, sizeof any) == 0 || (four && memcmp(address, any_four, sizeof any_four) == 0);
}

void peer_look(struct peer *p, const char *line) {
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
        char text[33];
        uint8_t address[16];
        unsigned port, state, uid;

        if (sscanf(line, " %*u: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %u", text, &port, &state, &uid) != 4 ||
            state != LISTENS || port != p->port || !parse_address(text, address))
                return;
        bool exact = memcmp(address, p->address, sizeof address) == 0;
        if (!exact && (p->exact || !is_any(address, memcmp(p->address, mapped, sizeof mapped) == 0)))
                return;
        if (exact && !p->exact) { /* the kernel prefers it to those that stand for all */
                p->exact = true;
                p->mixed = false;
                p->count = 0;
        }
        p->mixed |= p->count++ > 0 && p->uid != uid;
        p->uid = uid;
}

int peer_listener(const union endpoint *at, uid_t *ret) {
        static const char *const places[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
        struct peer p;
        char line[512];

        peer_want(&p, at);
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                FILE *in = fopen(places[i], "re");

                if (!in && errno == ENOENT && i > 0) /* no IPv6 here */
                        break;
                if (!in)
                        return -ENOENT;
                for (unsigned n = 0; n < LINES_MAX && fgets(line, sizeof line, in); n++)
                        peer_look(&p, line);
                (void)fclose(in);
        }
        if (p.count == 0)
                return -ENOENT;
        *ret = p.uid;
        return p.mixed ? -ENOTUNIQ : 0;
}
