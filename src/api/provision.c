/* How far sandboxes have come, as clients of Tangle ask for it: {call_id, sandbox_id, phase, …}.
 *
 * No chain called for them here, so the number is made from the sandbox's id, which keeps it the same for ever: its
 * first thirteen digits, as many as a number of JavaScript can hold. An owner sees his own and nobody else's. */
#include <stdio.h>

#include "api/routes.h"
#include "base/json-read.h"

#define DIGITS 13

static uint64_t call_id(const char *id) {
        char text[DIGITS + 1];

        (void)snprintf(text, sizeof text, "%s", id);
        return strtoull(text, NULL, 16);
}

/* What it is called there, and how much of the way that is. */
static const char *phase_of(const char *state, unsigned *ret_percent) {
        static const struct {
                const char *state, *phase;
                unsigned percent;
        } phases[] = {
                {"creating", "container_create", 40}, {"starting", "container_start", 60}, {"failed", "failed", 0}};

        for (size_t i = 0; i < ELEMENTSOF(phases); i++)
                if (str_eq(phases[i].state, state)) {
                        *ret_percent = phases[i].percent;
                        return phases[i].phase;
                }
        *ret_percent = 100;
        return "ready"; /* it was provisioned, whatever was done with it since */
}

static void status_json(const struct exchange *x, const char *sandbox, struct json *j) {
        char id[STORE_ID] = "", state[24] = "", reason[24] = "";
        uint64_t created = 0, started = 0, ended = 0;
        unsigned percent = 0;

        (void)json_find_str(sandbox, "id", id, sizeof id);
        (void)json_find_str(sandbox, "state", state, sizeof state);
        (void)json_find_str(sandbox, "reason", reason, sizeof reason);
        (void)json_find_u64(sandbox, "created_ms", &created);
        (void)json_find_u64(sandbox, "started_ms", &started);
        (void)json_find_u64(sandbox, "ended_ms", &ended);
        uint64_t updated = MAX(created, MAX(started, ended));
        const char *phase = phase_of(state, &percent);
        json_open(j, NULL, '{');
        json_u64(j, "call_id", call_id(id));
        json_str(j, "sandbox_id", id);
        json_str(j, "phase", phase);
        json_str(j, "message", str_eq(phase, "failed") && reason[0] ? reason : NULL);
        json_str(j, "state", state);
        json_u64(j, "started_at", created / 1000);
        json_u64(j, "started_at_ms", created);
        json_u64(j, "updated_at", updated / 1000);
        json_u64(j, "updated_at_ms", updated);
        json_u64(j, "progress_pct", percent);
        json_str(j, "sidecar_url", NULL); /* there is no way past this API */
        json_open(j, "metadata", '{');
        json_u64(j, "service_id", x->api->o->conf.service_id);
        json_close(j, '}');
        json_close(j, '}');
}

static void many_answer(struct exchange *x, const char *result) {
        struct buf b = {.max = LOCAL_ANSWER_MAX};
        struct json j = {.out = &b};
        struct json_walk w;
        char next[64] = "";

        json_open(&j, NULL, '{');
        json_open(&j, "provisions", '[');
        if (json_walk_begin(&w, result, "sandboxes"))
                while (json_walk_next(&w))
                        status_json(x, w.value, &j);
        json_close(&j, ']');
        json_str(&j, "next_cursor", json_find_str(result, "next_cursor", next, sizeof next) ? next : NULL);
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

const struct view view_provisions = {.answer = many_answer};

static uint64_t wanted(const struct exchange *x) {
        const char *text = route_param(x, "call");

        return strlen(text) <= 16 && !text[strspn(text, "0123456789")] ? strtoull(text, NULL, 10) : UINT64_MAX;
}

void provision_begin(struct exchange *x) {
        struct buf b = {0};

        if (wanted(x) == UINT64_MAX) {
                reply_error(x, "bad_request", "GET /api/provisions lists them", "'%.40s' is no call_id",
                            route_param(x, "call"));
                return;
        }
        buf_str(&b, "{\"verb\":\"list\"}");
        exchange_dispatch(x, &b);
}

static void one_answer(struct exchange *x, const char *result) {
        struct buf b = {0};
        struct json j = {.out = &b};
        struct json_walk w;

        if (json_walk_begin(&w, result, "sandboxes"))
                while (json_walk_next(&w)) {
                        char id[STORE_ID] = "";

                        if (!json_find_str(w.value, "id", id, sizeof id) || call_id(id) != wanted(x))
                                continue;
                        status_json(x, w.value, &j);
                        reply_json(x, 200, &b);
                        return;
                }
        reply_error(x, "not_found", "GET /api/provisions lists them", "there is no such provision");
}

const struct view view_provision = {.answer = one_answer};
