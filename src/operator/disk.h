/* Disks as the operator sees them: whose they are, how large, and how many things refer to them. One that nothing
 * refers to any more is dropped, by the warden, and then forgotten. */
#pragma once

#include "operator/sandbox.h"

struct disk *disk_find(struct core *o, const char *id);
/* A new id, one reference, counted as its owner's. Nothing is made yet and nothing stored. NULL: no memory. */
struct disk *disk_new(struct core *o, struct owner *owner, uint64_t size, uint64_t inodes);
int disk_load(struct core *o, const struct store_disk *row); /* without a reference */

void disk_orphan(struct core *o, const char *id); /* one that nothing knows: dropped, until it is gone */
bool disk_dropping(const struct core *o);         /* some are being dropped */

struct disk *disk_ref(struct disk *d);
void disk_unref(struct disk *d); /* NULL is fine. What refers to it in the store must be gone from there before */

uint64_t disk_put(struct disk *d);                  /* its row; the ticket */
void disk_own(struct disk *d, struct owner *owner); /* of one that was made for the pool */
/* It becomes a layer: never written again; its owner's space is what it takes. The row is the caller's to put. */
void disk_seal(struct disk *d);
void disk_settle_all(struct core *o); /* once, after everything was loaded: drops and measures */
void disks_free(struct core *o);
