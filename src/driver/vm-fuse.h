/* A machine's side of its files, where there is no virtiofs: what its kernel asks on /dev/fuse goes over a stream to
 * the file server outside (fuse-server.h), and what comes back is the answer. Only the server's notice is understood
 * here: then the kernel is made to forget what it does not use. */
#pragma once

#include "base/err.h"

/* Mounts what is served over the stream at a folder. Two processes of their own carry it from then on; they end with
 * the mount or with the stream. The stream is closed here. */
int vm_fuse_mount(const char *at, int stream, struct err *err);
