/* The ledger to whoever watches: lines as they are, from any number on, to several readers at once. */
#pragma once

#include "operator/call.h"

int events_open(struct core *o, struct err *err);
void events_close(struct core *o);
void events_follow(struct call *c);      /* the verb `events` */
int events_folder(const struct core *o); /* where the ledger is; stays ours */

/* Of one line: whether it is about this sandbox (only, "" for any) and this owner may see it (NULL: all may be seen).
 */
bool events_concern(struct core *o, const char *owner, const char *only, const char *line, size_t size);
/* The text behind key, which is like ",\"kind\":\"", before the line's data; and its number. False: there is none. */
bool events_field(const char *line, size_t size, const char *key, char *ret, size_t room);
bool events_number(const char *line, size_t size, uint64_t *ret);
