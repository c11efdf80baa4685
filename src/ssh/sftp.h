/* The sftp subsystem: SFTP version 3 over the operator's verbs for files, in a process of its own that waits for each.
 *
 * Requests are answered one after the other. A file that is written appears whole when it is closed, or not at all; so
 * it is written from its beginning to its end. Files are read in any order, quickest from beginning to end. What the
 * verbs cannot do is refused: links, changing owners, cutting files. */
#pragma once

#include "ssh/door.h"
#include "ssh/sftp-request.h"

int sftp_serve(int fd, const struct door *d); /* until the client sends no more; -errno when it breaks */

#define SFTP_HANDLES 64

struct sftp;
struct sftp_handle;

/* sftp-file.c: what handles are. Each is 0 or a status below -1 (-SFTP_FAILURE…), with the operator's sentence. */
struct sftp_why {
        enum sftp_status status;
        char text[512];
};
int sftp_why(struct sftp_why *why, enum sftp_status status, const char *text);  /* -EREMOTEIO */
int sftp_why_code(struct sftp_why *why, const char *code, const char *message); /* of the operator's refusal */

int sftp_file_stat(const struct door *d, const char *path, bool follow, struct sftp_attributes *ret,
                   char target[SFTP_PATH_MAX], struct sftp_why *why); /* target may be NULL */
int sftp_file_change(const struct door *d, const char *path, const struct sftp_attributes *a, struct sftp_why *why);
void sftp_file_attributes(const char *entry, struct sftp_attributes *ret); /* of an entry in JSON */

int sftp_file_open(const struct door *d, const char *path, uint32_t flags, const struct sftp_attributes *a,
                   struct sftp_handle **ret, struct sftp_why *why);
int sftp_file_folder(const struct door *d, const char *path, struct sftp_handle **ret, struct sftp_why *why);
const char *sftp_file_path(const struct sftp_handle *h);
bool sftp_file_is_folder(const struct sftp_handle *h);
/* Bytes from there on: how many, 0 at the end. */
ssize_t sftp_file_read(const struct door *d, struct sftp_handle *h, uint64_t offset, uint8_t *ret, size_t size,
                       struct sftp_why *why);
int sftp_file_write(const struct door *d, struct sftp_handle *h, uint64_t offset, const uint8_t *data, size_t size,
                    struct sftp_why *why);
/* The next entry of a folder as JSON, which stays until the handle is closed; NULL at the end. */
const char *sftp_file_entry(struct sftp_handle *h);
void sftp_file_later(struct sftp_handle *h, const struct sftp_attributes *a);           /* once it is there */
int sftp_file_close(const struct door *d, struct sftp_handle *h, struct sftp_why *why); /* frees it, too */
void sftp_file_drop(struct sftp_handle *h); /* what was being written is not */
