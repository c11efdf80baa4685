/* Entries of an archive, one after the other, into a tree. Between unpack.c and layers.c. */
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "pack/target.h"

enum unpack_pass {
        UNPACK_ALL,       /* an ordinary archive */
        UNPACK_WHITEOUTS, /* of a layer: takes away what it says is gone from the layers below, and nothing else */
        UNPACK_LAYER,     /* of a layer: the rest */
};

struct unpack {
        struct target *target;
        const struct caps *caps;
        struct tally *tally;
};

int unpack_entries(struct unpack *u, struct archive *a, enum unpack_pass pass, struct err *err);

/* A reader for tar with any usual compression; no other formats, and no programs that are started for it. */
int unpack_reader(struct archive **ret, struct err *err);
void unpack_reader_end(struct archive **a);
#define _cleanup_reader_ _cleanup_(unpack_reader_end)

/* The next header: 1, 0 at the end, or an error. Sizes and counts of everything that is passed over are held against
 * the caps, too. */
int unpack_next(struct unpack *u, struct archive *a, struct archive_entry **ret, struct err *err);
int unpack_trouble(struct archive *a, const char *what, struct err *err);
