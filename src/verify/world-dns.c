/* The names of the world: a small zone, and answers to questions about it.
 *
 * Everything below a name of the table has the same answer, so that an attempt can put its own name before it. Answers
 * may not be kept (TTL 0). A question is read once, from bytes of a sandbox or of the gate: nothing in it is followed,
 * compressed names are refused, and what does not fit is no question. */
#include <arpa/inet.h>

#include "verify/world-own.h"

enum { TYPE_A = 1, TYPE_AAAA = 28, CLASS_IN = 1, HEADER = 12, ADDRESSES_MAX = 4 };
enum { RCODE_GOOD = 0, RCODE_NO_NAME = 3, RCODE_NOT_HERE = 4 };

static const struct {
        const char *zone;
        const char *v4[ADDRESSES_MAX], *v6[ADDRESSES_MAX];
} zones[] = {
        {"good.test", {WORLD_GOOD}, {WORLD_GOOD6}},
        {"tls.test", {WORLD_GOOD}, {WORLD_GOOD6}},
        {"second.test", {WORLD_SECOND}, {WORLD_SECOND6}},
        {"near.test", {WORLD_NEAR}, {WORLD_NEAR6}},
        {"inner.test", {WORLD_PRIVATE}, {NULL}},
        {"redirect.test", {WORLD_REDIRECT}, {WORLD_REDIRECT6}},
        {"evil.test", {WORLD_EVIL}, {WORLD_EVIL6}},
        {"private.test", {WORLD_PRIVATE, "127.0.0.1", WORLD_METADATA}, {"::1", "fd00:ec2::254"}},
        {"mixed.test", {WORLD_GOOD, "127.0.0.1"}, {NULL}},
        {"loop.test", {"127.0.0.1"}, {"::1"}},
        {"metadata.test", {WORLD_METADATA}, {NULL}},
        {"mapped.test", {NULL}, {"::ffff:127.0.0.1"}},
        {"rebind.test", {WORLD_GOOD}, {NULL}}, /* the first time; then itself */
};
static const char *const rebound[ADDRESSES_MAX] = {"127.0.0.1"};

/* The zone of a name, as an index; -1: none. */
static int find(const char *name, size_t *ret_left) {
        size_t size = strlen(name);

        for (size_t i = 0; i < ELEMENTSOF(zones); i++) {
                size_t n = strlen(zones[i].zone);

                if (size < n || !str_eq(name + size - n, zones[i].zone) || (size > n && name[size - n - 1] != '.'))
                        continue;
                *ret_left = size > n ? size - n - 1 : 0;
                return (int)i;
        }
        return -1;
}

const char *world_dns_zone(const char *name, size_t *ret_left) {
        int i = find(name, ret_left);

        return i < 0 ? NULL : zones[i].zone;
}

/* The name of a question as text. Returns where it ends, 0 if it is none. */
static size_t read_name(const uint8_t *data, size_t size, char name[256]) {
        size_t at = HEADER, used = 0;

        while (at < size && data[at] != 0) {
                size_t n = data[at++];

                if (n > 63 || n > size - at || used + n + 2 > 256)
                        return 0;
                if (used > 0)
                        name[used++] = '.';
                for (size_t i = 0; i < n; i++) {
                        char c = (char)data[at + i];

                        if (c >= 'A' && c <= 'Z')
                                c = (char)(c - 'A' + 'a'); /* some resolvers mix cases */
                        name[used++] = c > ' ' && c < 0x7f && c != '.' ? c : '?';
                }
                at += n;
        }
        name[used] = '\0';
        return at < size ? at + 1 : 0;
}

static unsigned get16(const uint8_t *p) {
        return (unsigned)p[0] << 8 | p[1];
}

static void put16(uint8_t *p, unsigned value) {
        p[0] = (uint8_t)(value >> 8);
        p[1] = (uint8_t)value;
}

/* One address record, its name a pointer to the question. Returns its size. */
static size_t put_address(uint8_t *p, size_t room, int family, const char *text) {
        size_t n = family == AF_INET ? 4 : 16;

        if (room < 12 + n || inet_pton(family, text, p + 12) != 1)
                return 0;
        put16(p, 0xc000 | HEADER);
        put16(p + 2, family == AF_INET ? TYPE_A : TYPE_AAAA);
        put16(p + 4, CLASS_IN);
        memset(p + 6, 0, 4); /* may not be kept */
        put16(p + 10, (unsigned)n);
        return 12 + n;
}

size_t world_dns_answer(const uint8_t *question, size_t size, uint8_t *ret, size_t room, char name[256],
                        unsigned *ret_type, _Atomic uint32_t *rebinds) {
        static const char *const none[ADDRESSES_MAX] = {NULL};
        const char *const *addresses = none;
        unsigned count = 0, code = RCODE_NO_NAME;
        size_t left;

        name[0] = '\0';
        *ret_type = 0;
        if (size < HEADER || (question[2] & 0x80)) /* an answer is no question */
                return 0;
        size_t end = read_name(question, size, name);
        if (end == 0)
                name[0] = '\0'; /* half a name is none */
        if (end == 0 || end + 4 > size || end + 4 > room || get16(question + 4) != 1)
                return 0;
        unsigned type = get16(question + end);
        int family = type == TYPE_AAAA ? AF_INET6 : AF_INET, zone = find(name, &left);

        *ret_type = type;
        if ((question[2] & 0x78) != 0)
                code = RCODE_NOT_HERE;
        else if (zone >= 0) {
                code = RCODE_GOOD;
                if (type == TYPE_AAAA)
                        addresses = zones[zone].v6;
                else if (type == TYPE_A)
                        addresses = str_eq(zones[zone].zone, "rebind.test") && atomic_fetch_add(rebinds, 1) > 0
                                            ? rebound
                                            : zones[zone].v4;
        }
        memcpy(ret, question, end + 4);
        ret[2] = (uint8_t)(0x84 | (question[2] & 0x79)); /* an answer, with authority */
        ret[3] = (uint8_t)(0x80 | code);
        memset(ret + 6, 0, 6);
        size_t used = end + 4;
        for (; count < ADDRESSES_MAX && addresses[count]; count++) {
                size_t n = put_address(ret + used, room - used, family, addresses[count]);

                if (n == 0)
                        break;
                used += n;
        }
        put16(ret + 6, count);
        return used;
}
