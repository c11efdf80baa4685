/* A walk through a tree of folders, one entry at a time, never following a link. */
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include "base/buf.h"

#define WALK_DEPTH_MAX 256 /* folders in folders; each is open while we are below it */

enum walk_item {
        WALK_END,   /* all was said */
        WALK_ENTRY, /* a file or link, or a folder before what is in it: then walk_enter or not */
        WALK_LEFT,  /* a folder after what is in it */
};

struct walk {
        struct walk_level {
                DIR *dir;
                size_t length; /* of path, at this folder */
        } * levels;
        size_t depth, room;
        struct buf path;  /* relative to the start; "" for the start itself */
        const char *name; /* last part of path */
        struct stat st;   /* of WALK_ENTRY */
};

/* The start is a folder, open for reading; fd is taken. 0 or -errno. */
int walk_begin(struct walk *w, int fd);
int walk_next(struct walk *w);      /* enum walk_item, or -errno */
int walk_enter(struct walk *w);     /* the folder that was just said; 0 or -errno */
int walk_dir(const struct walk *w); /* where name is: the folder that holds what was just said */
void walk_end(struct walk *w);
