/* Questions to a Docker engine. See ask.h for what always holds. */
#include "driver/engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json-read.h"

#define API_MINOR 41 /* what we were written for: 1.41, Docker 20.10 */

static struct ask_peer peer_of(const struct engine *e) {
        return (struct ask_peer){.socket = e->socket,
                                 .who = "the engine",
                                 .host = "docker",
                                 .prefix = e->prefix,
                                 .reason = "message",
                                 .hint = "start Docker ('systemctl start docker'), or set docker_socket in "
                                         "stockade.conf",
                                 .seconds = 20};
}

int engine_ask(const struct engine *e, const struct ask_question *q, struct ask_answer *ret, struct err *err) {
        const struct ask_peer p = peer_of(e);

        return ask(&p, q, ret, err);
}

int engine_ask_json(const struct engine *e, const struct ask_question *q, struct ask_answer *ret, struct err *err) {
        const struct ask_peer p = peer_of(e);

        return ask_json(&p, q, ret, err);
}

int engine_refused(const struct ask_answer *a, const char *what, struct err *err) {
        const struct ask_peer p = peer_of(&(struct engine){0});

        return ask_refused(&p, a, what, err);
}

/* --- versions --- */

/* The NN of "1.NN"; -1 for anything else. */
static int minor_of(const char *version) {
        char *end;

        if (!str_starts(version, "1.") || version[2] < '0' || version[2] > '9')
                return -1;
        long n = strtol(version + 2, &end, 10);
        return *end == '\0' && n < 1000 ? (int)n : -1;
}

int engine_pick_version(const char *newest, const char *oldest, char ret[16], struct err *err) {
        int most = minor_of(newest), least = minor_of(oldest);

        if (most < API_MINOR) {
                (void)err_set(err, ERR_UNENFORCED, "the engine is too old for us: its API is not 1.%d or newer",
                              API_MINOR);
                (void)err_hint(err, "Docker 20.10 or newer is needed");
                return ERR_UNENFORCED;
        }
        (void)snprintf(ret, 16, "/v1.%d", MAX(API_MINOR, least));
        return 0;
}

int engine_open(struct engine *e, const char *socket, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        char newest[16] = "", oldest[16] = "";

        *e = (struct engine){.socket = socket};
        int r = engine_ask_json(e, &(struct ask_question){.method = "GET", .path = "/version"}, &a, err);
        if (r < 0)
                return r;
        if (a.status != 200)
                return engine_refused(&a, "could not ask for the engine's version", err);
        (void)json_find_str(a.body.data, "ApiVersion", newest, sizeof newest);
        (void)json_find_str(a.body.data, "MinAPIVersion", oldest, sizeof oldest);
        (void)json_find_str(a.body.data, "Version", e->release, sizeof e->release);
        return engine_pick_version(newest, oldest, e->prefix, err);
}
