/* Who listens at an address of this host, as the kernel says. Without TLS that is all there is to know the other end
 * by: where the daemon is down, any user could stand there in its place and take the token. */
#pragma once

#include <sys/types.h>

#include "base/endpoint.h"

struct peer {
        uint8_t address[16];
        unsigned port;

        /* found */
        unsigned count;
        bool exact; /* by its address; otherwise by one that stands for all */
        bool mixed; /* of several users */
        uid_t uid;
};

void peer_want(struct peer *p, const union endpoint *at);

/* A line of /proc/net/tcp or tcp6. What is no socket that listens there is passed over. */
void peer_look(struct peer *p, const char *line);

/* The user who made the socket that listens there. -ENOENT: there is none, or none that can be seen; -ENOTUNIQ: they
 * are of several users. */
int peer_listener(const union endpoint *at, uid_t *ret);
