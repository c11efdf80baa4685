/* Docker's Engine API over its Unix socket: one connection for each question, bounded answers, no docker program.
 *
 * Whoever owns the socket is root already, but what it says is read as if it were hostile: strict HTTP (base/http.h),
 * caps on every size, one deadline for the whole answer, and its sentences escaped before anybody sees them. */
#pragma once

#include "base/buf.h"
#include "base/http.h"

#define ENGINE_SOCKET     "/run/docker.sock"
#define ENGINE_ANSWER_MAX (1U << 20)

struct engine {
        const char *socket;
        char version[16]; /* of the API that we speak: "v1.41" */
        char release[64]; /* of the engine, for people */
};

struct engine_question {
        const char *method, *path; /* the path without the version, already encoded */
        const char *type;          /* of the body; NULL: there is none */
        const void *body;
        size_t size;
};

struct engine_answer {
        unsigned status;
        struct buf body;
};
void engine_answer_free(struct engine_answer *a);
#define _cleanup_answer_ _cleanup_(engine_answer_free)

/* Asks which versions it speaks and picks one. An engine that is not there, or is too old, is a sentence and a hint. */
int engine_open(struct engine *e, const char *socket, struct err *err);

/* The answer, whatever its status is. *ret is freed by the caller also on failure. */
int engine_ask(const struct engine *e, const struct engine_question *q, struct engine_answer *ret, struct err *err);

/* The same, and its body is one JSON value that json_find can be used on. */
int engine_ask_json(const struct engine *e, const struct engine_question *q, struct engine_answer *ret,
                    struct err *err);

/* "what: the engine says …", with what it said escaped. -ENOENT for 404, -EEXIST for 409, otherwise -EIO. */
int engine_refused(const struct engine_answer *a, const char *what, struct err *err);

/* "v1.41" from what /version said, or ERR_UNENFORCED. */
int engine_pick_version(const char *newest, const char *oldest, char ret[16], struct err *err);

/* Reading an answer as it arrives. Start with {.answer = …}. engine_feed: 1 when it is whole, 0 while more is to come;
 * engine_end: the other side closed. */
struct engine_reader {
        struct engine_answer *answer;
        struct buf head;
        struct http_body body;
        bool in_body;
        bool until_close;
};
void engine_reader_free(struct engine_reader *r);
#define _cleanup_reader_ _cleanup_(engine_reader_free)
int engine_feed(struct engine_reader *r, const void *bytes, size_t size, struct err *err);
int engine_end(const struct engine_reader *r, struct err *err);
