/* Questions over HTTP to a program on a Unix socket: one connection for each, bounded answers.
 *
 * Whoever answers may be taken over by what it runs, so what it says is read as if it were hostile: strict HTTP
 * (base/http.h), caps on every size, one deadline for the whole answer, and its sentences escaped before anybody sees
 * them. */
#pragma once

#include "base/buf.h"
#include "base/http.h"

#define ASK_ANSWER_MAX (1U << 20)

struct ask_peer {
        const char *socket;
        const char *who;    /* in sentences: "the engine" */
        const char *host;   /* what the header Host says */
        const char *prefix; /* before every path; "" for none */
        const char *reason; /* the key under which a refusal has its sentence */
        const char *hint;   /* what to do when nobody is there */
        unsigned seconds;   /* for a whole answer */
};

struct ask_question {
        const char *method, *path; /* the path already encoded */
        const char *type;          /* of the body; NULL: there is none */
        const void *body;
        size_t size;
};

struct ask_answer {
        unsigned status;
        struct buf body;
};
void ask_answer_free(struct ask_answer *a);
#define _cleanup_answer_ _cleanup_(ask_answer_free)

/* The answer, whatever its status is. *ret is freed by the caller also on failure. */
int ask(const struct ask_peer *p, const struct ask_question *q, struct ask_answer *ret, struct err *err);

/* The same, and its body is one JSON value that json_find can be used on. */
int ask_json(const struct ask_peer *p, const struct ask_question *q, struct ask_answer *ret, struct err *err);

/* "what: the engine says …", with what it said escaped. -ENOENT for 404, -EEXIST for 409, otherwise -EIO. */
int ask_refused(const struct ask_peer *p, const struct ask_answer *a, const char *what, struct err *err);

/* Reading an answer as it arrives. Start with {.who = …, .answer = …}. ask_feed: 1 when it is whole, 0 while more is to
 * come; ask_end: the other side closed. */
struct ask_reader {
        const char *who;
        struct ask_answer *answer;
        struct buf head;
        struct http_body body;
        bool in_body;
        bool until_close;
};
void ask_reader_free(struct ask_reader *r);
#define _cleanup_reader_ _cleanup_(ask_reader_free)
int ask_feed(struct ask_reader *r, const void *bytes, size_t size, struct err *err);
int ask_end(const struct ask_reader *r, struct err *err);
