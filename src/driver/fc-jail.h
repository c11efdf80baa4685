/* Where Firecracker runs: a root that is made here and that its jailer moves it into, as the second of the sandbox's
 * ids, without capabilities, in a network namespace with nothing but its tap.
 *
 * The root is a file system of the keeper's mount namespace and goes with it. In it are a copy of the program and two
 * devices (the jailer makes them), the kernel and the initial archive, read-only, and the sockets of the machine's
 * streams. The jailer makes no cgroup and no pid namespace: the keeper is in the sandbox's, and so is all that it
 * starts. */
#pragma once

#include <limits.h>

#include "driver/words.h"

#define JAIL_SOCKET "/run/firecracker.socket" /* of the API: paths as Firecracker sees them */
#define JAIL_KERNEL "/kernel"
#define JAIL_INITRD "/initrd"
#define JAIL_VSOCK  "/v.sock"

struct jail {
        const char *jailer, *program; /* program: with no link in it, because its last part names the folder */
        const char *base;             /* a folder that is covered by what is made here */
        const char *id;               /* of the sandbox */
        uint32_t id_base;             /* of its host ids */
        const char *network; /* path of a network namespace: not /proc/self, the jailer closes what it inherits */
};

/* Where programs are: /usr/local/bin first, then /usr/bin. ret gets no link. ERR_UNENFORCED with a hint: nowhere. */
int jail_find(const char *name, char ret[PATH_MAX], struct err *err);

int jail_words(const struct jail *j, struct words *ret);

/* The host's path of what Firecracker knows as `inside`; fits into a socket's address, or is ERR_LIMIT. */
int jail_path(const struct jail *j, const char *inside, char ret[108], struct err *err);

/* Makes the root in this mount namespace, which is to be private. image: folder with `kernel` and `initrd`. */
int jail_build(const struct jail *j, const char *image, struct err *err);

/* A socket for this port of the host's, which the machine may connect to: Firecracker looks for it at JAIL_VSOCK "_"
 * PORT. Not blocking. */
int jail_listen(const struct jail *j, unsigned port, struct err *err);
