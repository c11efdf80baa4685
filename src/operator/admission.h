/* Who gets in: how many sandboxes, how much memory, how many processors and how much disk there may be, on this host
 * and of each owner. Counted where it is decided, so that a hundred requests at once cannot pass a limit together. */
#pragma once

#include "operator/sandbox.h"

void admission_open(struct core *o); /* limits from the configuration and from what the host has */

/* Whether this much more fits, for owner. ERR_LIMIT names the limit and its value. */
int admission_check(struct core *o, const struct owner *owner, const struct share *more, struct err *err);
uint64_t admission_disk_left(struct core *o, const struct owner *owner); /* bytes that would still fit */

/* Whether this owner may have one more of these; whoever makes it counts it, in owner->tally. ERR_LIMIT as above. */
int admission_one_more(struct core *o, const struct owner *owner, enum tally what, struct err *err);

/* What a sandbox takes while it runs; `disk` is for one that is about to be made (disks are counted by themselves). */
int admission_enter(struct sandbox *s, uint64_t disk, struct err *err);
void admission_count(struct sandbox *s); /* without asking: it runs already */
void admission_leave(struct sandbox *s);
