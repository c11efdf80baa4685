/* Docker's Engine API over its Unix socket; no docker program. Whoever owns the socket is root already, but what it
 * says is read as ask.h reads everybody. */
#pragma once

#include "driver/ask.h"

#define ENGINE_SOCKET "/run/docker.sock"

struct engine {
        const char *socket;
        char prefix[16];  /* of every path: "/v1.41", the version of the API that we speak */
        char release[64]; /* of the engine, for people */
};

/* Asks which versions it speaks and picks one. An engine that is not there, or is too old, is a sentence and a hint. */
int engine_open(struct engine *e, const char *socket, struct err *err);

/* The answer, whatever its status is. *ret is freed by the caller also on failure. */
int engine_ask(const struct engine *e, const struct ask_question *q, struct ask_answer *ret, struct err *err);

/* The same, and its body is one JSON value that json_find can be used on. */
int engine_ask_json(const struct engine *e, const struct ask_question *q, struct ask_answer *ret, struct err *err);

/* "what: the engine says …", with what it said escaped. -ENOENT for 404, -EEXIST for 409, otherwise -EIO. */
int engine_refused(const struct ask_answer *a, const char *what, struct err *err);

/* "/v1.41" from what /version said, or ERR_UNENFORCED. */
int engine_pick_version(const char *newest, const char *oldest, char ret[16], struct err *err);
