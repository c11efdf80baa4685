/* From a profile's name to its bytes. */
#pragma once

#include "policy/profile.h"

/* One profile as it was found. */
struct search_file {
        char *label; /* the path, or "builtin:NAME"; what errors name */
        char *data;  /* a NUL follows */
        size_t size;
        uint64_t device, inode; /* of the file; zeros for a built-in */
};

void search_file_free(struct search_file *f);

/* Where this process's environment says; paths live in `store`, which must outlive the result. */
struct search_store {
        char user_dir[4096];
};
struct profile_search search_default(struct search_store *store);

/* Whether the text names a file (has a '/' or ends in ".yaml") rather than a profile to look for. */
bool search_is_path(const char *name);

/* Reads a profile. A relative path is relative to the folder of `from`, the label of the file that names it; NULL: the
 * working directory. Adds what was looked at to sources. */
int search_read(const struct profile_search *search, const char *name, const char *from,
                struct profile_sources *sources, struct search_file *ret, struct err *err);

/* The i-th folder in the order of the search, or NULL after the last. buf holds the result. */
const char *search_folder(const struct profile_search *search, size_t i, char *buf, size_t size);

const struct profile_builtin *search_builtin(const char *name);
