/* stockade-pack, for whoever starts it: what it is given, and what it says.
 *
 * stockade-pack is the one program that reads archives from outside and trees that sandboxes wrote. It is started with
 * the descriptors of one job and a user namespace, joins that, gives up everything else, and only then looks at its
 * first foreign byte. Ids 0 to 65535 inside that namespace are the canonical ids of disks and images, so the trees that
 * it is given have to be mounts that were made for the same namespace (volume_mount, volume_mount_readonly,
 * image_begin).
 *
 * What it says is one line, and hostile input: it may have been captured by what it read. */
#pragma once

#include "base/err.h"

#define PACKER_PROGRAM   "stockade-pack"
#define PACKER_RESULT_FD 6 /* with --join: the line goes here, not to standard output */
#define PACKER_NS_FD     7
#define PACKER_FDS       5 /* 3 to 7 */
#define PACKER_LINE_MAX  1024

enum packer_verb {
        PACKER_UNPACK,  /* archive, target tree: a tar with any usual compression */
        PACKER_IMAGE,   /* the same, or an archive of `docker save` or in OCI's layout */
        PACKER_PACK,    /* tree, out: everything as a tar, compressed with zstd */
        PACKER_DIFF,    /* old tree, new tree, out: what changed, a line of JSON for each file */
        PACKER_FLATTEN, /* tree, target tree: makes the target the same */
        PACKER_READ,    /* tree, question, out: an entry, a folder's entries, or a file's bytes; see pack/read.c */
        PACKER_VERBS,
};

struct packer_job {
        enum packer_verb verb;
        int fds[3];                      /* in the order above; the third is looked at where there is one */
        uint64_t max_bytes, max_entries; /* of what is unpacked; 0: what the target holds */
        int user_ns;
};

/* Everything that starting it needs: argv, and the descriptors that become 3 to 7 (-EBADF: none). `theirs` is among
 * them and is to be closed after the start; the line is then read from `ours`. */
struct packer_call {
        char *argv[8];
        int fds[PACKER_FDS];
        int ours, theirs;
        char numbers[2][24];
};
int packer_prepare(const struct packer_job *job, struct packer_call *ret, struct err *err);
void packer_call_end(struct packer_call *c); /* closes ours and theirs */

/* Its line, read and checked. */
struct packer_result {
        uint64_t bytes, entries;
        uint64_t skipped; /* what has no place in a tree or an archive: devices, sockets, overlong names */
        char text[256];   /* what an archive was; printable */
};

/* Reads from `ours` once it has ended (or to its end). Its own error, ERR_CORRUPT if it said nothing that makes sense:
 * then it was killed, or worse. */
int packer_result(int ours, struct packer_result *ret, struct err *err);
int packer_read(const char *line, size_t size, struct packer_result *ret, struct err *err);
