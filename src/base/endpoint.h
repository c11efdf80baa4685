/* Addresses with ports, as people write them: 127.0.0.1:7070, [::1]:7070. Numbers only: nothing is looked up. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/err.h"

#define ENDPOINT_TEXT 64

union endpoint {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
};

int endpoint_parse(const char *text, union endpoint *ret, struct err *err);
socklen_t endpoint_size(const union endpoint *e);
uint16_t endpoint_port(const union endpoint *e);
void endpoint_set_port(union endpoint *e, uint16_t port);
bool endpoint_is_loopback(const union endpoint *e);

/* "127.0.0.1:7070"; returns buf. */
const char *endpoint_format(const union endpoint *e, char buf[ENDPOINT_TEXT]);

/* The address alone as sixteen bytes: IPv4 is mapped. False for other families. */
bool endpoint_bytes(const struct sockaddr *a, uint8_t ret[16]);

/* The same of an address without a port: "10.0.0.1", "fd00::1". */
bool endpoint_parse_bytes(const char *text, uint8_t ret[16]);
