/* A folder of the host as a tar stream, and a tar stream from a sandbox as a folder of the host.
 *
 * What comes out of a sandbox is hostile. Unpacking never leaves the folder that it was given: every name is resolved
 * below it without following a link, files are made new, nothing is written through what was there before. No set-id
 * bits, no owners, no devices, no pipes; links that lead out of the folder are left out and counted. */
#pragma once

#include <sys/types.h>

#include "base/pax.h"

enum {
        PACK_IDS = 1 << 0, /* owners and set-id bits go along: the tree is to become an image */
};

/* Gives header blocks and contents, in order. A negative result of give ends it and is returned. */
typedef int (*pack_give)(void *data, const void *bytes, size_t size, struct err *err);

struct pack_count {
        uint64_t entries, bytes;
        uint64_t special;  /* devices, sockets, pipes that were left out */
        uint64_t changed;  /* files that changed while they were read: filled up or cut to what was announced */
        char example[256]; /* one that was left out */
};

/* The folder at dir with all that is below it, as "./…", or under prefix. Links are packed as links. */
int pack_folder(int dir, const char *prefix, unsigned flags, pack_give give, void *data, struct pack_count *count,
                struct err *err);

struct unpack_options {
        uint64_t max_bytes, max_entries; /* more is refused, and what was there by then stays */
        bool any_link;                   /* also links that lead out */
        bool replace;                    /* files that are there; otherwise one ends it with -EEXIST */
};

struct unpack_count {
        uint64_t entries, bytes;
        uint64_t links, special; /* left out */
        char example[256];       /* one that was left out */
};

struct unpack;
int unpack_begin(struct unpack **ret, int dir, const struct unpack_options *o,
                 struct err *err); /* dir stays the caller's */
int unpack_take(struct unpack *u, const void *bytes, size_t size, struct err *err);
int unpack_end(struct unpack *u, struct unpack_count *ret, struct err *err); /* an archive that was cut is an error */
void unpack_free(struct unpack *u);

mode_t unpack_umask(void); /* ours, unchanged */
