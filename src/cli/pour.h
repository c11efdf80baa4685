/* Files and archives through a request: INPUT frames from a file or from whoever makes the bytes, OUTPUT frames to a
 * file that appears when it is whole. Long ones show progress on a terminal. */
#pragma once

#include "cli/talk.h"
#include "cli/tell.h"

/* The file of this name for reading; "-" is standard input. */
int pour_open(const char *name, int *ret, struct err *err);

/* Sends the whole of in, then FINISH, and waits for the result. An answer that comes before everything is sent ends it.
 */
int pour_in(struct talk *t, int in, bool json, const char **ret, struct err *err);

/* The same by hand, for those who make the bytes: begin, give as often as needed, end. pour_give returns -ECANCELED
 * when the answer has come already; pour_end then says what it was. */
struct pour {
        struct talk *talk;
        struct tell_progress progress;
        uint64_t bytes;
        bool answered;
};
void pour_begin(struct pour *p, struct talk *t, bool json);
int pour_give(struct pour *p, const void *data, size_t size, struct err *err);
int pour_end(struct pour *p, const char **ret, struct err *err);

/* A file that is written beside its place, and put there when it is whole. "-" is standard output. */
struct pour_file {
        int fd;
        int folder; /* -EBADF: standard output */
        char name[256], temporary[300];
        bool replace, named; /* named: temporary is in the folder */
        mode_t mode;
};
int pour_create(struct pour_file *f, const char *path, mode_t mode, bool replace, struct err *err);
int pour_keep(struct pour_file *f, struct err *err); /* complete */
void pour_discard(struct pour_file *f);              /* not; harmless after pour_keep */

/* Writes OUTPUT frames to the file until the answer; ERR_LIMIT when there are more than `limit` bytes. */
int pour_out(struct talk *t, struct pour_file *f, uint64_t limit, bool json, const char **ret, struct err *err);

/* The whole of it: asks, writes what comes to path (NULL: standard output), and with --json prints the result of what
 * went to a file. */
int pour_save(struct talk *t, const struct args_common *o, struct talk_request *q, const char *path, bool replace,
              const char **ret, struct err *err);
