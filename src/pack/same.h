/* Whether two entries of two trees are the same. For compare.c and flatten.c. */
#pragma once

#include "pack/walk.h"

/* One name in two trees; a mode of 0: it is not there. */
struct pair {
        const char *path, *name;
        int dir[2]; /* the folders that it is in; -EBADF where there is none */
        struct stat st[2];
};

/* 1 if type and content (or target) are the same, 0 if not, or -errno. Files with the same size and times of change
 * are: two views of layers show the same inode then, and nobody inside can set the second of those times. Otherwise
 * they are read. */
int same_content(const struct pair *p);

/* Mode (without set-id bits) and owner. */
bool same_dress(const struct pair *p);

/* Goes through both trees at once: fn is called for every name that either has, a folder before what is in it; it says
 * with SAME_INTO whether the walk goes into that folder. */
enum { SAME_PASS = 0, SAME_INTO = 1 };
int same_walk(int old, int new, int (*fn)(void *data, const struct pair *p), void *data, struct err *err);
