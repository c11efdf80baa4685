/* The file `head`: up to where the ledger is durable. The writer changes it after every fdatasync, so it is never ahead
 * of the disk; readers in any process go no further. It also shows that an end is missing. It carries the writer's
 * lock. It is not signed: see docs/ledger.md on what that means. */
#pragma once

#include "ledger/ledger.h"

#define HEAD_FILE "head"

struct head {
        uint64_t count;          /* of its changes */
        uint64_t seq;            /* the last durable event; 0: none yet */
        uint64_t segment;        /* the first number of the segment that it is in */
        uint64_t size;           /* where it ends there */
        uint8_t hash[HASH_SIZE]; /* its hash */
};

/* Opens the file, made if there is none and make. A lock for the only writer is taken with make: -EBUSY. */
int head_open(int dir, bool make, int *ret_fd, struct err *err);
int head_read(int fd, struct head *ret, struct err *err);
bool head_parse(const char *text, size_t size, struct head *ret); /* one of the two */
int head_write(int fd, const struct head *h);                     /* in place; 0 or -errno */
