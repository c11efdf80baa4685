/* Sandboxes that are ready before anybody asks, for plans and drivers in use (pool_drivers): started like any other,
 * with the policy in force, in nobody's name and in no row. Given away once; never taken back. An operator that did not
 * start them removes them. */
#pragma once

#include "operator/sandbox.h"

int pool_open(struct core *o, struct err *err);
void pool_close(struct core *o);

struct sandbox *pool_take(struct core *o, struct frozen *f, enum driver d); /* NULL: none is ready */
void pool_wanted(struct core *o, struct frozen *f, enum driver d); /* such a one was created: there will be more */
bool pool_gone(struct core *o, const char *id);                    /* WARDEN_GONE; false: not one of these */
void pool_discard(struct sandbox *s);                              /* one that was taken, and is nobody's after all */
void pool_drain(struct core *o);                                   /* removes all, and makes no more */
bool pool_drained(const struct core *o);                           /* nothing is left of it */
size_t pool_ready(const struct core *o);
void pool_json(const struct core *o, struct json *j); /* members of an open object */
