/* Netlink messages, written by hand into a fixed buffer: what talks to the kernel between clone and exec may neither
 * allocate nor take a lock.
 *
 * A batch is any number of messages that are sent at once and that the kernel answers before the sending call returns.
 * Running out of room is remembered and refused by netlink_talk, so that writers need not check. */
#pragma once

#include <linux/netlink.h>

#include "base/macro.h"

#define NETLINK_BATCH_SIZE 8192

struct netlink {
        size_t size;
        size_t message; /* where the last message begins */
        uint32_t sequence;
        bool full;
        _Alignas(struct nlmsghdr) uint8_t bytes[NETLINK_BATCH_SIZE];
};

/* Begins a message with the header that its type wants. The last one has to ask for an answer: NLM_F_ACK. */
void netlink_begin(struct netlink *n, unsigned type, unsigned flags, const void *header, size_t size);

void netlink_want_answer(struct netlink *n); /* to the last one, if it did not ask yet */

void netlink_put(struct netlink *n, unsigned type, const void *data, size_t size);
void netlink_put_text(struct netlink *n, unsigned type, const char *text);
void netlink_put_u32(struct netlink *n, unsigned type, uint32_t value);
void netlink_put_be32(struct netlink *n, unsigned type, uint32_t value); /* nftables wants network order */

/* An attribute that holds attributes: what comes between open and close. */
size_t netlink_open(struct netlink *n, unsigned type);
void netlink_close(struct netlink *n, size_t opened);

/* Sends the batch and reads the answers. Returns 0, or the first error; *ret_failed is then the message that it is
 * about, counted from 1, or 0. netlink_talk does so on a socket of its own. */
int netlink_ask(const struct netlink *n, int socket, uint32_t *ret_failed);
int netlink_talk(const struct netlink *n, int protocol, uint32_t *ret_failed);
