/* Images: trees that sandboxes can have instead of the host's /usr. Unpacked by the warden's child; here are their
 * names and who uses them. An image is everybody's to use; it is its owner's to remove. */
#pragma once

#include "operator/call.h"
#include "operator/sandbox.h"

struct image *image_find(struct core *o, const char *id);
struct image *image_named(struct core *o, const char *owner, const char *name); /* of this owner, else of root */
int image_load(struct core *o, const struct store_image *row);
void image_json(const struct image *i, struct json *j, const char *key);
void images_free(struct core *o);

void image_import(struct call *c);
void image_remove(struct call *c, struct image *i);
