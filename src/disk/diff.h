/* What a command did to its copy-on-write view of a directory.
 *
 * lower is the directory itself, upper the overlay's upper layer after all processes of the sandbox are dead. Upper is
 * hostile input: names, depth, sizes and types are whatever the sandbox could make. The result is a flat list in the
 * order of a walk (a directory right before what is in it), complete: a removed directory is followed by all that was
 * in it. Owners, extended attributes and times are not compared. */
#pragma once

#include <sys/stat.h>
#include <time.h>

#include "base/err.h"

enum diff_kind {
        DIFF_ADDED,
        DIFF_CHANGED, /* content or link target, perhaps the mode too */
        DIFF_REMOVED,
        DIFF_MODE, /* permission bits alone */
        DIFF_TYPE, /* a file became a directory, a link a file, ... */
};

enum {
        DIFF_CONFLICT = 1 << 0, /* somebody changed it in lower after the run began */
        DIFF_SPECIAL = 1 << 1,  /* a device, socket or fifo */
        DIFF_SETID = 1 << 2,    /* a setuid or setgid bit that was not there */
        DIFF_MOUNT = 1 << 3,    /* at or below a mount point in lower, which the sandbox did not see */
};

/* A file of lower as it was when the diff was made. */
struct diff_old {
        uint64_t ino;
        uint64_t size;
        struct timespec mtime;
        mode_t mode; /* with the type; 0: there is none */
        uid_t uid;
        gid_t gid;
};

struct diff_entry {
        char *path; /* relative, plain components */
        enum diff_kind kind;
        unsigned flags;
        mode_t mode;   /* new, with the type; 0: removed */
        uint64_t size; /* apparent size; that of the old file when removed */
        uint64_t data; /* bytes really there, holes left out; 0 when removed */
        struct timespec mtime;
        struct diff_old old;
        const char *risk; /* why the host's tools would execute or obey it, or NULL; constant text */
};

struct diff {
        struct diff_entry *entry;
        size_t count;
        uid_t uid; /* who owns lower */
        gid_t gid;
};

struct diff_options {
        bool userxattr;        /* the overlay keeps its marks in user.overlay.*, not trusted.overlay.* */
        struct timespec start; /* CLOCK_REALTIME, taken before the overlay was mounted */
        size_t max_entries;    /* 0: a million */
        size_t max_depth;      /* 0: 2000 directories */
        size_t max_path_bytes; /* of all paths together; 0: 256 MiB */
};

/* lower and upper may be O_PATH descriptors. Past a cap it is ERR_LIMIT, for an upper layer with features that we do
 * not mount with (redirects, metacopy) ERR_CORRUPT. Unreadable files in upper are made readable for their owner. */
int diff_compute(int upper, int lower, const struct diff_options *o, struct diff *ret, struct err *err);
void diff_free(struct diff *d);

/* Reads a link of any length below PATH_MAX into memory that the caller frees. */
int diff_read_link(int root, const char *path, char **ret);

/* The index of the nearest entry above entry i (a parent that is in the list too), or SIZE_MAX. above[] must hold the
 * answers of all entries before i. */
size_t diff_above(const struct diff *d, const size_t *above, size_t i);
