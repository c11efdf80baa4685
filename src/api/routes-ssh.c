/* Routes about SSH: keys that come in, and as whom.
 *
 * Clients of Tangle send the same body to let a key in and to take it out, and read a user name from every answer: it
 * is whom `ssh` has to name, which here is the sandbox. The word that stands beside a key is in the key itself. */
#include "api/routes.h"
#include "api/views.h"
#include "base/json-read.h"
#include "operator/sandbox.h"

/* Of the sandbox that the path means; it was found, and was the asker's, when the verb answered. */
static void add_user(struct exchange *x, struct json *j) {
        const char *text = route_param(x, "sandbox");
        const struct sandbox *s = warden_is_id(text) ? NULL : sandbox_named(x->api->o, x->c.owner, text);

        json_bool(j, "success", true);
        json_str(j, "username", s ? s->id : text);
}

static void key_answer(struct exchange *x, const char *result) {
        struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        add_user(x, &j);
        buf_printf(&b, ",\"result\":%s}", result);
        reply_json(x, 200, &b);
}

const struct view view_ssh_key = {.answer = key_answer};

/* The verb knows a key by itself: the word beside it may be said again, and is not looked at. */
void ssh_remove_begin(struct exchange *x) {
        static const char *const names[] = {"public_key", "fingerprint"};
        struct buf b = {.max = 64U << 10}, unused = {.max = 64U << 10};
        struct json j = {.out = &b}, check = {.out = &unused};
        bool good = route_fields(x, &check);

        buf_free(&unused);
        if (!good)
                return;
        route_request(x, &j, "ssh-key-remove");
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                size_t size = 0;
                const char *value = json_at(x->body.data, names[i], &size);

                if (value)
                        views_member(&j, names[i], value, size);
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

static void user_answer(struct exchange *x, const char *result) {
        struct buf b = {0};
        struct json j = {.out = &b};

        (void)result;
        json_open(&j, NULL, '{');
        add_user(x, &j);
        views_ssh(x->api->o, &j, "listen");
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

const struct view view_ssh_user = {.answer = user_answer};
