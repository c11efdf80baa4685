/* Routes about sandboxes as a whole, about what happened, and about the host. */
#include <stdio.h>

#include "api/page.h"
#include "api/routes.h"
#include "api/views.h"
#include "base/json-read.h"
#include "operator/sandbox.h"

#define PAGE     100
#define PAGE_MAX 1000

static void answer_not_given(struct exchange *x) {
        reply_error(x, "bad_request", "see GET /api/openapi.json", "'limit' is a number from 1 to %d", PAGE_MAX);
}

/* --- list
 * ---------------------------------------------------------------------------------------------------------------- */

static void list(struct exchange *x, bool everything) {
        struct buf b = {0};
        struct json j = {.out = &b};
        char text[64];
        uint64_t limit = PAGE;

        if (route_query(x, "limit", text, sizeof text) != 0) {
                limit = text[0] && strlen(text) <= 4 && !text[strspn(text, "0123456789")] ? strtoull(text, NULL, 10)
                                                                                          : 0;
                if (limit == 0 || limit > PAGE_MAX) {
                        answer_not_given(x);
                        return;
                }
        }
        json_open(&j, NULL, '{');
        json_str(&j, "verb", "list");
        json_u64(&j, "max", limit);
        if (route_query(x, "cursor", text, sizeof text) > 0)
                json_str(&j, "after", text);
        if (route_query(x, "state", text, sizeof text) > 0)
                json_str(&j, "state", text);
        if (everything || (route_query(x, "all", text, sizeof text) > 0 && str_eq(text, "true")))
                json_bool(&j, "all", true);
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

void list_begin(struct exchange *x) {
        list(x, false);
}

void list_all_begin(struct exchange *x) {
        list(x, true);
}

/* --- create
 * ------------------------------------------------------------------------------------------------------- */

/* The body's members under the verb's names. */
static void ask_renamed(struct exchange *x, const char *verb) {
        static const struct {
                const char *name, *verb;
        } renamed[] = {{"overrides", "set"},
                       {"from_snapshot", "snapshot"},
                       {"profile", "profile"},
                       {"name", "name"},
                       {"profile_text", "profile_text"},
                       {"allow", "allow"},
                       {"image", "image"},
                       {"owner", "owner"},
                       {"memory_only", "memory_only"},
                       {"driver", "driver"},
                       {"secrets", "secrets"},
                       {"key", "key"}};
        struct buf b = {.max = 2U << 20}, unused = {.max = 2U << 20};
        struct json j = {.out = &b}, check = {.out = &unused};
        bool good = route_fields(x, &check);

        buf_free(&unused);
        if (!good)
                return;
        json_open(&j, NULL, '{');
        json_str(&j, "verb", verb);
        for (size_t i = 0; i < ELEMENTSOF(renamed); i++) {
                size_t size = 0;
                const char *value = json_at(x->body.data, renamed[i].name, &size);

                if (value)
                        views_member(&j, renamed[i].verb, value, size);
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

void create_begin(struct exchange *x) {
        ask_renamed(x, "create");
}

void profile_check_begin(struct exchange *x) {
        ask_renamed(x, "profile-check");
}

static void deleted_answer(struct exchange *x, const char *result) {
        (void)result;
        views_merge(x, 200, "\"deleted\":true", "{}");
}

const struct view view_deleted_sandbox = {.answer = deleted_answer};

/* Another verb than the one that a capability has to name. */
static void ask_other(struct exchange *x, const char *verb) {
        struct buf b = {0};
        struct json j = {.out = &b};

        route_request(x, &j, verb);
        if (!route_fields(x, &j)) {
                buf_free(&b);
                return;
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

/* Whoever may see a sandbox may see its policy, in more words. */
void policy_begin(struct exchange *x) {
        ask_other(x, "policy-show");
}

/* Whoever may see what it uses may see what it used. */
void usage_history_begin(struct exchange *x) {
        ask_other(x, "usage-history");
}

/* Whoever may follow what happens may look back. */
void events_search_begin(struct exchange *x) {
        ask_other(x, "events-search");
}

static void policy_answer(struct exchange *x, const char *result) {
        static const char *const names[] = {"id",   "profile", "policy",  "network",  "driver",
                                            "held", "asked",   "differs", "described"};
        struct buf b = {.max = LOCAL_ANSWER_MAX};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                size_t size = 0;
                const char *value = json_at(result, names[i], &size);

                if (value)
                        views_member(&j, str_eq(names[i], "policy") ? "effective" : names[i], value, size);
        }
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

const struct view view_policy = {.answer = policy_answer};

/* Of a trial the answer is what the policy would be, in the same form. */
void policy_change_begin(struct exchange *x) {
        bool check = false;

        if (json_find_bool(x->body.data, "check", &check) && check)
                x->view = &view_policy;
        ask_other(x, "policy");
}

/* --- secrets
 * ---------------------------------------------------------------------------------------------------------------- */

/* As clients of Tangle send them: "env_json", an object. */
void secrets_begin(struct exchange *x) {
        struct buf b = {.max = 2U << 20};
        struct json j = {.out = &b};
        size_t size = 0;
        const char *value = json_at(x->body.data, "secrets", &size);

        if (!value)
                value = json_at(x->body.data, "env_json", &size);
        if (!value || *value != '{') {
                reply_error(x, "bad_request", "send {\"env_json\": {\"NAME\": \"value\"}}",
                            "an object of secrets is needed");
                return;
        }
        route_request(x, &j, "secret");
        views_member(&j, "secrets", value, size);
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

static void secrets_answer(struct exchange *x, const char *result) {
        (void)result;
        views_merge(x, 200, "\"status\":\"secrets_configured\"", "{}");
}

const struct view view_secrets_set = {.answer = secrets_answer};

static void wiped_answer(struct exchange *x, const char *result) {
        (void)result;
        views_merge(x, 200, "\"status\":\"secrets_wiped\"", "{}");
}

const struct view view_secrets_wiped = {.answer = wiped_answer};

/* --- what happened
 * ------------------------------------------------------------------------------------------------------------- */

void events_begin(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        char text[512];
        uint64_t from = 0;
        int kinds = route_query(x, "kinds", text, sizeof text);

        if (kinds > 0 && text[0])
                x->data = strdup(text);
        route_request(x, &j, "events");
        const char *last = x->head.last_event;
        bool again = last && last[0] && strlen(last) < 19 && !last[strspn(last, "0123456789")];
        if (again)
                from = strtoull(last, NULL, 10) + 1;
        else if (route_query(x, "from", text, sizeof text) > 0) {
                if (!text[0] || strlen(text) > 18 || text[strspn(text, "0123456789")]) {
                        buf_free(&b);
                        reply_error(x, "bad_request", "a number is right", "'from' of the query is malformed");
                        return;
                }
                from = strtoull(text, NULL, 10);
                again = true;
        }
        if (again)
                json_u64(&j, "from", from);
        int follow = route_query(x, "follow", text, sizeof text);
        json_bool(&j, "follow", follow <= 0 || (!str_eq(text, "false") && !str_eq(text, "0")));
        json_close(&j, '}');
        exchange_dispatch(x, &b);
        if (x->busy && !x->streaming) /* it was let in: whoever waits may know */
                reply_begin(x, 200, "text/event-stream", UINT64_MAX);
}

void diff_begin(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        char to[65];

        if (route_query(x, "to", to, sizeof to) <= 0 || !to[0]) {
                reply_error(x, "bad_request", "add ?to=ID",
                            "with what is it compared? A snapshot, or a stopped sandbox");
                return;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "verb", "diff");
        json_str(&j, "from", route_param(x, "snapshot"));
        json_str(&j, "to", to);
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

/* What the local socket tells everybody on the host, an operator alone is told from elsewhere. */
void operator_health_begin(struct exchange *x) {
        struct buf b = {0};

        if (!x->c.admin) {
                reply_error(x, "refused", "sign in with a wallet of 'operators' in stockade.conf",
                            "this is for operators");
                return;
        }
        buf_str(&b, "{\"verb\":\"health\"}");
        exchange_dispatch(x, &b);
}

/* --- the host
 * ----------------------------------------------------------------------------------------------------------------------
 */

extern const char openapi_text[]; /* made from docs/openapi.yaml */
extern const size_t openapi_size;

void openapi_answer(struct exchange *x) {
        reply_static(x, 200, "application/json", openapi_text, openapi_size);
}

void capabilities_answer(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        const struct core *o = x->api->o;

        json_open(&j, NULL, '{');
        json_str(&j, "version", STOCKADE_VERSION);
        json_open(&j, "drivers", '[');
        driver_names(o, &j);
        json_close(&j, ']');
        driver_json(o, &j, "driver_details");
        json_open(&j, "features", '{');
        json_bool(&j, "disks", !o->rootless);
        json_bool(&j, "images", !o->rootless);
        json_bool(&j, "snapshots", !o->rootless);
        json_bool(&j, "pause", !o->no_freeze);
        json_bool(&j, "network", o->conf.ceiling_network);
        json_bool(&j, "plain_sign_in", o->conf.plain_sign_in);
        json_bool(&j, "web", page_has_app());
        json_close(&j, '}');
        json_open(&j, "limits", '{');
        json_u64(&j, "memory", o->conf.ceiling_memory);
        json_u64(&j, "cpus_thousandths", o->conf.ceiling_cpus);
        json_u64(&j, "processes", o->conf.ceiling_processes);
        json_u64(&j, "disk", o->conf.ceiling_disk);
        json_close(&j, '}');
        json_str(&j, "mode", o->conf.mode);
        json_str(&j, "ports_domain", o->conf.ports_domain[0] ? o->conf.ports_domain : NULL);
        json_open(&j, "network", '{');
        json_str(&j, "name", o->conf.network_name[0] ? o->conf.network_name : NULL);
        json_u64(&j, "chain_id", o->conf.chain);
        json_u64(&j, "service_id", o->conf.service_id);
        json_u64(&j, "blueprint_id", o->conf.blueprint_id);
        json_str(&j, "managing_operator", o->conf.managing_operator[0] ? o->conf.managing_operator : NULL);
        json_close(&j, '}');
        json_open(&j, "capabilities", '[');
        json_close(&j, ']');
        json_open(&j, "harnesses", '[');
        json_close(&j, ']');
        json_close(&j, '}');
        reply_json(x, 200, &b);
}
