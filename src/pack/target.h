/* A tree that is being written, below one descriptor.
 *
 * Paths are relative and made of plain names. Every name is looked up by openat2 below the root, without following a
 * link, without crossing a mount: what an archive says about links changes where nothing is written. What is in the way
 * of a new entry is removed first, folders with all that is in them; a folder over a folder keeps what is in it.
 *
 * Set-id bits are dropped, and so are file capabilities: nothing in a sandbox is more than its user. Of the extended
 * attributes those of users are kept. Devices are never made. Ids above 65535 become 65534. */
#pragma once

#include <sys/stat.h>

#include "base/fd.h"
#include "pack/pack.h"

struct target_meta {
        mode_t mode; /* permission bits */
        uint64_t uid, gid;
        struct timespec mtime;
};

struct target; /* remembers when each folder was changed, to set it when nothing is written there any more */

int target_open(struct target **ret, int root, struct err *err);
void target_free(struct target *t);

/* Sets the times of folders. */
int target_close(struct target *t, struct err *err);

/* Each returns 0 or more, or an error with a sentence. The root itself is "". */
int target_folder(struct target *t, const char *path, const struct target_meta *m, struct err *err);
int target_link(struct target *t, const char *path, const char *to, const struct target_meta *m, struct err *err);
int target_same(struct target *t, const char *path, const char *other, struct err *err); /* a hard link */
int target_fifo(struct target *t, const char *path, const struct target_meta *m, struct err *err);

/* A new, empty file, open for writing; target_done finishes it. */
int target_file(struct target *t, const char *path, struct err *err);
int target_done(int fd, const char *path, const struct target_meta *m, struct err *err);

/* A user's extended attribute of an open file or folder; others are passed over. */
int target_attribute(int fd, const char *name, const void *value, size_t size);

int target_remove(struct target *t, const char *path, struct err *err); /* 0 also when it is not there */
int target_empty(struct target *t, const char *path, struct err *err);  /* all that is in a folder, if it is one */
