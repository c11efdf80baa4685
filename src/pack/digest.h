/* Digests of what an image's archive holds. A blob's name is the SHA-256 of its bytes; the layers of older archives
 * have theirs in the image's configuration. */
#pragma once

#include "base/err.h"
#include "pack/layers.h"

struct archive;
struct archive_entry;

enum { DIGEST_TEXT = 65 }; /* hexadecimal, with its NUL */

struct digests {
        struct digest_layer {
                char name[LAYERS_NAME_SIZE];
                char digest[DIGEST_TEXT]; /* "": it is a link */
                char link[LAYERS_NAME_SIZE];
        } layer[LAYERS_MAX]; /* NAME.tar, as far as they fit */
        size_t count;
        char wrong[LAYERS_NAME_SIZE]; /* the first blob that is not what its name says; "": none */
};

/* Looks at one entry, whose plain name this is, while the archive is gone through: its content is read if it has a
 * digest. */
int digest_take(struct digests *d, struct archive *a, struct archive_entry *e, const char *name, struct err *err);

/* Whether every blob was what its name says. */
int digest_check_blobs(const struct digests *d, struct err *err);

/* Whether layers are what the configuration (checked JSON) says, in order; those that are blobs were compared already.
 * A configuration that says nothing of its layers is refused. */
int digest_check_layers(const struct digests *d, const struct layers *l, const char *config, struct err *err);
