/* Between the files of the digest: who collects what. Collectors append lines in any order and fail only for want of
 * memory or at a cap; what is not there or may not be read is not an error. */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "verify/digest.h"

enum {
        PARTS_ENTRIES_MAX = 50000,    /* files, groups, settings in one part */
        PARTS_DEPTH_MAX = 32,         /* folders in folders */
        PARTS_PROCESSES_MAX = 100000, /* of the whole host */
        PARTS_BYTES_MAX = 32 << 20,   /* of lines in one part */
};

struct parts_process {
        pid_t pid, parent;
        bool below; /* the judge, and not of its own */
        char state;
        char name[20];
};

/* What is asked for. */
struct parts_scope {
        bool host;
        const char *const *watched; /* or NULL */
        const int *ours;            /* or NULL */
        struct parts_process *processes;
        size_t process_count;
};

/* One line: the text of the format with whatever could break a line escaped. */
void parts_line(struct buf *b, const char *format, ...) _printf_(2, 3);

/* digest-host.c */
int parts_processes(struct parts_scope *s, struct err *err); /* fills the scope */
bool parts_is_below(const struct parts_scope *s, pid_t pid); /* the judge; also one that is newer than the scope */
int parts_take(enum digest_part part, const struct parts_scope *s, struct buf *b, struct err *err);

/* digest-files.c */
struct parts_tree {
        struct buf *out;
        unsigned entries;
        bool across;  /* into what is mounted below, too */
        bool folders; /* nothing else is looked at */
        dev_t device;
        /* Appends the lines of one entry. True: look below it. */
        bool (*visit)(struct parts_tree *t, int dir, const char *name, const char *path, const struct stat *st);
        const void *data;
};
int parts_walk(struct parts_tree *t, const char *top, struct err *err); /* a top that is not there is empty */
int parts_files(const struct parts_scope *s, struct buf *b, struct err *err);
int parts_devices(struct buf *b, struct err *err);
int parts_cgroups(const struct parts_scope *s, struct buf *b, struct err *err);
