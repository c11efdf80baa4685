/* What is kept of a sign-in: one file per server, mode 0600, in a folder of one's own below the state folder.
 *
 * A file that others could read or write, or that somebody else owns, is refused, and so is a link. */
#pragma once

#include "remote/line.h"

#define KEEP_TOKEN 4096
#define KEEP_CA    (64U << 10)

struct keep {
        char token[KEEP_TOKEN];
        char owner[128];
        char ca[KEEP_CA + 1]; /* the certificates themselves; "": the system's */
        uint64_t expires_ms;
        uid_t listener; /* of this host, besides root and ourselves, as it was at sign-in; 0: nobody */
        bool insecure_http;
};
void keep_wipe(struct keep *k);
#define _cleanup_keep_ _cleanup_(keep_wipe)

/* -ENOENT, with what to do: nobody is signed in there. */
int keep_read(const struct url *u, struct keep *ret, struct err *err);
int keep_write(const struct url *u, const struct keep *k, struct err *err);
int keep_forget(const struct url *u, struct err *err);
void keep_trust(const struct keep *k, struct trust *ret); /* which points into it */

int keep_folder(struct err *err); /* a descriptor */

/* Reads a file that nobody else may read: name below dir, or a path with AT_FDCWD. The caller wipes and frees it. */
int keep_read_private(int dir, const char *name, size_t max, char **ret, size_t *ret_size, struct err *err);
