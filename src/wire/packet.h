/* What every conversation over a SOCK_SEQPACKET pair needs: one packet with its descriptors, and the numbers of a
 * message whose fields are named by a table (gate.c, warden.c). */
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "wire/wire.h"

#define PACKET_FDS_MAX 16

/* Sends the parts as one packet. Whether it waits for room is the socket's own mode. 0, -EINVAL for too many
 * descriptors, or -errno. */
int packet_send(int socket, const struct iovec *parts, size_t part_count, const int *fds, size_t fd_count);

/* As much of a stream as goes now, with descriptors at its first byte: how much that was, or -1 and errno, as send. */
ssize_t packet_send_some(int socket, const void *bytes, size_t size, const int *fds, size_t fd_count);

/* Receives one packet: its bytes (0 with no descriptor: end of file), -EBADMSG for one that was cut, -EMFILE if we have
 * no descriptors left for those that came along, or -errno. fds has room for fds_max, at most PACKET_FDS_MAX.
 * Descriptors are the caller's from here on, close-on-exec; after an error there are none. */
ssize_t packet_receive(int socket, void *packet, size_t room, int *fds, size_t fds_max, size_t *ret_fd_count);

/* The same for whoever can do something with the bytes alone: *ret_lost says that there were descriptors, and that we
 * had no room for them; then there are none. */
ssize_t packet_receive_anyway(int socket, void *packet, size_t room, int *fds, size_t fds_max, size_t *ret_fd_count,
                              bool *ret_lost);

void packet_close(int *fds, size_t fd_count);

/* A number of 2, 4 or 8 bytes that lies anywhere. */
void packet_put_number(struct buf *b, const void *from, size_t size);
void packet_take_number(struct wire *w, void *to, size_t size);
