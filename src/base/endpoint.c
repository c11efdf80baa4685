/* Addresses with ports. A port may be 0, which lets the kernel choose. */
#include "base/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>

static bool parse_port(const char *text, uint16_t *ret) {
        unsigned port = 0;

        if (!text[0] || strlen(text) > 5 || text[strspn(text, "0123456789")] || (text[0] == '0' && text[1]))
                return false;
        for (; *text; text++)
                port = port * 10 + (unsigned)(*text - '0');
        *ret = htons((uint16_t)port);
        return port <= UINT16_MAX;
}

int endpoint_parse(const char *text, union endpoint *ret, struct err *err) {
        union endpoint e = {0};
        char host[ENDPOINT_TEXT] = "";
        const char *colon = strrchr(text, ':');
        bool six = text[0] == '[', good = false;
        size_t n = colon ? (size_t)(colon - text) : 0;

        if (colon && n < sizeof host) {
                memcpy(host, text, n);
                if (six && n > 2 && host[n - 1] == ']') {
                        host[n - 1] = '\0';
                        e.six.sin6_family = AF_INET6;
                        good = inet_pton(AF_INET6, host + 1, &e.six.sin6_addr) == 1 &&
                               parse_port(colon + 1, &e.six.sin6_port);
                } else if (!six) {
                        e.four.sin_family = AF_INET;
                        good = inet_pton(AF_INET, host, &e.four.sin_addr) == 1 &&
                               parse_port(colon + 1, &e.four.sin_port);
                }
        }
        if (!good)
                return err_set(err, ERR_INPUT, "'%.60s' is not an address with a port", text);
        *ret = e;
        return 0;
}

socklen_t endpoint_size(const union endpoint *e) {
        return e->any.sa_family == AF_INET6 ? sizeof e->six : sizeof e->four;
}

uint16_t endpoint_port(const union endpoint *e) {
        return ntohs(e->any.sa_family == AF_INET6 ? e->six.sin6_port : e->four.sin_port);
}

void endpoint_set_port(union endpoint *e, uint16_t port) {
        *(e->any.sa_family == AF_INET6 ? &e->six.sin6_port : &e->four.sin_port) = htons(port);
}

bool endpoint_bytes(const struct sockaddr *a, uint8_t ret[16]) {
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

        if (a->sa_family == AF_INET) {
                memcpy(ret, mapped, 12);
                memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
        } else if (a->sa_family == AF_INET6)
                memcpy(ret, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
        else
                return false;
        return true;
}

bool endpoint_parse_bytes(const char *text, uint8_t ret[16]) {
        union endpoint e = {0};

        if (inet_pton(AF_INET, text, &e.four.sin_addr) == 1)
                e.any.sa_family = AF_INET;
        else if (inet_pton(AF_INET6, text, &e.six.sin6_addr) == 1)
                e.any.sa_family = AF_INET6;
        return endpoint_bytes(&e.any, ret);
}

bool endpoint_is_loopback(const union endpoint *e) {
        static const uint8_t one[16] = {[15] = 1};
        uint8_t bytes[16];

        return endpoint_bytes(&e->any, bytes) &&
               (memcmp(bytes, one, 16) == 0 || (bytes[10] == 0xff && bytes[11] == 0xff && bytes[12] == 127));
}

const char *endpoint_format(const union endpoint *e, char buf[ENDPOINT_TEXT]) {
        char host[INET6_ADDRSTRLEN] = "";
        bool six = e->any.sa_family == AF_INET6;

        (void)inet_ntop(e->any.sa_family, six ? (const void *)&e->six.sin6_addr : &e->four.sin_addr, host, sizeof host);
        (void)snprintf(buf, ENDPOINT_TEXT, six ? "[%s]:%u" : "%s:%u", host, endpoint_port(e));
        return buf;
}
