/* stockade-pack: what its files share.
 *
 * One job per process, given by its verb: archives become trees, trees become archives, two trees are compared, one is
 * made the same as another, one entry is looked at. Everything that is read here was written by somebody else: names,
 * sizes, links and order are whatever they could think of. The program is confined (confine.c) before it reads the
 * first byte, and writes by descriptor without ever following a link (target.c). */
#pragma once

#include "base/err.h"

/* Counted over the whole job; told at its end. */
struct tally {
        uint64_t bytes, entries;
        uint64_t skipped;
        char text[256];
};

struct caps {
        uint64_t bytes, entries; /* UINT64_MAX: none */
};

int pack_tree(int tree, int out, struct tally *t, struct err *err);                                    /* pack.c */
int compare_trees(int old, int new, int out, struct tally *t, struct err *err);                        /* compare.c */
int read_tree(int tree, int question, int out, struct tally *t, struct err *err);                      /* read.c */
int flatten_tree(int tree, int target, const struct caps *caps, struct tally *t, struct err *err);     /* flatten.c */
int unpack_tree(int archive, int target, const struct caps *caps, struct tally *t, struct err *err);   /* unpack.c */
int layers_unpack(int archive, int target, const struct caps *caps, struct tally *t, struct err *err); /* layers.c */

/* confine.c: joins `ns` (-EBADF: none is needed, since we are not root) and gives up the rest. `read` and `write` are
 * the trees that are still open after that; -EBADF for none. */
struct confine {
        int ns;
        int read[2];
        int write;
};
int confine(const struct confine *c, struct err *err);

/* Names with bytes that are not text, made printable for a sentence. */
const char *pack_shown(const char *path, char buf[200]);
