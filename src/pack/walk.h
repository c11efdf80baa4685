/* Going through a tree that a sandbox wrote, and files that have several names in it.
 *
 * Folders wait on a stack as paths and are opened one at a time: neither the depth of the tree nor the number of
 * descriptors grows with what is in it. A folder's names come sorted by bytes, folders after that one by one, so that
 * equal trees are gone through in the same order. */
#pragma once

#include <sys/stat.h>

#include "disk/tree.h"
#include "pack/pack.h"

enum { WALK_NAMES_MAX = 1 << 24 };

/* Folders that are still to be looked at. */
struct walk {
        char **path;
        size_t count, room;
};
int walk_push(struct walk *w, const char *path); /* 0 or -ENOMEM */
char *walk_pop(struct walk *w);                  /* NULL when there is none; the caller frees it */
void walk_free(struct walk *w);

/* Pushes names of one folder that are folders, so that they come in order. */
int walk_push_names(struct walk *w, const char *dir, char *const *names, size_t count);

/* The first path of every file that has more than one name. */
struct names {
        struct name *at; /* open addressing */
        size_t count, room;
};
/* *ret is the path that this file was seen under first, or NULL if that is now, or if it has only one. 0 or -ENOMEM. */
int names_first(struct names *n, const struct stat *st, const char *path, const char **ret);
void names_free(struct names *n);

/* Extended attributes of users: fn is called with each. What fn returns below 0 ends it. */
int walk_attributes(int fd, int (*fn)(void *data, const char *name, const void *value, size_t size), void *data);

/* The target of a link in dir into memory that the caller frees. */
int walk_link(int dir, const char *name, char **ret);
