/* Capabilities: made, listed with their last use, revoked. Those that were given away are in memory and in the store;
 * what a token says is in the token itself (auth/capability.h). */
#include "api/token.h"

#include <stdio.h>

#include "api/route.h"
#include "base/json-read.h"
#include "operator/sandbox.h"
#include "operator/ssh-door.h"

static struct token *token_add(struct signin *s, const struct store_capability *row) {
        struct token *t = calloc(1, sizeof *t);
        char *grant = t ? strndup(row->grant ? row->grant : "", row->grant_size) : NULL;

        if (!grant) {
                free(t);
                return NULL;
        }
        t->row = *row;
        t->row.grant = grant;
        t->noted = true;
        t->next = s->tokens;
        s->tokens = t;
        s->token_count++;
        return t;
}

int token_load(void *data, const void *found) {
        const struct store_capability *row = found;
        struct signin *s = data;

        if (row->expires_ms <= signin_now_ms()) {
                (void)store_remove(s->api->o->store, STORE_CAPABILITY, row);
                return 0;
        }
        if (!token_add(s, row))
                return -ENOMEM;
        return row->revoked ? revoked_add(s->revoked, row->jti, row->expires_ms) : 0;
}

static void token_free(struct signin *s, struct token **place) {
        struct token *t = *place;

        *place = t->next;
        s->token_count--;
        free((void *)(uintptr_t)t->row.grant);
        free(t);
}

void token_close(struct signin *s) {
        while (s->tokens)
                token_free(s, &s->tokens);
}

void token_tidy(struct signin *s) {
        struct store *store = s->api->o->store;
        uint64_t now = signin_now_ms();

        for (struct token **t = &s->tokens; *t;) {
                if ((*t)->row.expires_ms <= now) {
                        (void)store_remove(store, STORE_CAPABILITY, &(*t)->row);
                        token_free(s, t);
                        continue;
                }
                if (!(*t)->noted && store_put(store, STORE_CAPABILITY, &(*t)->row) != STORE_REFUSED)
                        (*t)->noted = true;
                t = &(*t)->next;
        }
}

void token_used(struct api *a, const char *jti) {
        for (struct token *t = a->signin->tokens; t; t = t->next)
                if (str_eq(t->row.jti, jti)) {
                        t->row.used_ms = signin_now_ms();
                        t->noted = false;
                        return;
                }
}

static void token_json(const struct token *t, struct json *j, const char *key) {
        json_open(j, key, '{');
        json_str(j, "jti", t->row.jti);
        json_str(j, "about", t->row.about);
        json_u64(j, "created_at_ms", t->row.created_ms);
        json_u64(j, "expires_at_ms", t->row.expires_ms);
        if (t->row.used_ms > 0)
                json_u64(j, "last_use_ms", t->row.used_ms);
        else
                json_null(j, "last_use_ms");
        json_bool(j, "revoked", t->row.revoked);
        buf_printf(j->out, ",\"grant\":%s", t->row.grant_size > 0 ? (const char *)t->row.grant : "{}");
        json_close(j, '}');
}

void token_list(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_open(&j, "tokens", '[');
        for (const struct token *t = x->api->signin->tokens; t; t = t->next)
                if (str_eq(t->row.owner, x->c.owner))
                        token_json(t, &j, NULL);
        json_close(&j, ']');
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

/* An array of words of the body. */
struct words {
        char text[CAPABILITY_WORDS][CAPABILITY_RESOURCE];
        const char *list[CAPABILITY_WORDS];
        size_t count;
};

static bool read_words(const char *body, const char *name, struct words *w) {
        struct json_walk walk;

        if (json_find_kind(body, name) != '[' || !json_walk_begin(&walk, body, name))
                return false;
        while (json_walk_next(&walk)) {
                if (w->count == CAPABILITY_WORDS ||
                    !json_find_str(walk.value, "", w->text[w->count], CAPABILITY_RESOURCE))
                        return false;
                w->list[w->count] = w->text[w->count];
                w->count++;
        }
        return w->count > 0;
}

static void words_json(struct json *j, const char *key, const struct words *w) {
        json_open(j, key, '[');
        for (size_t i = 0; i < w->count; i++)
                json_str(j, NULL, w->list[i]);
        json_close(j, ']');
}

static size_t tokens_of(const struct signin *s, const char *owner, bool revoked) {
        size_t n = 0;

        for (const struct token *t = s->tokens; t; t = t->next)
                n += str_eq(t->row.owner, owner) && (revoked || !t->row.revoked);
        return n;
}

struct making {
        struct exchange *x;
        struct durable durable;
        struct buf answer;
};

static void made(struct durable *d, int error) {
        struct making *m = LOOP_OWNER(d, struct making, durable);
        struct exchange *x = m->x;

        if (x->connection && error < 0)
                reply_error(x, "full", "make room on the disk of the state folder", "it could not be written down: %s",
                            err_name(error));
        else if (x->connection)
                reply_json(x, 201, &m->answer);
        buf_free(&m->answer);
        free(m);
        exchange_release(x);
}

static void token_store(struct exchange *x, struct store_capability *row, const struct buf *token) {
        struct signin *s = x->api->signin;
        struct making *m = calloc(1, sizeof *m);
        struct token *t = m ? token_add(s, row) : NULL;
        struct json j = {.out = m ? &m->answer : NULL};
        struct err err = {0};
        char data[64];

        (void)snprintf(data, sizeof data, "{\"jti\":\"%s\"}", row->jti);
        if (!t || record_needed(x->api->o, LEDGER_GRANT_GIVE, "", x->c.owner, data, &m->durable.seq, &err) < 0) {
                if (t)
                        token_free(s, &s->tokens);
                free(m);
                reply_error(x, "failed", "try again", "the token could not be made");
                return;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "token", token->data);
        token_json(t, &j, "capability");
        json_close(&j, '}');
        m->x = x;
        m->durable.ticket = store_put(x->api->o->store, STORE_CAPABILITY, &t->row);
        m->durable.done = made;
        exchange_hold(x);
        store_hurry(x->api->o->store);
        durable_wait(x->api->o, &m->durable);
}

void token_make(struct exchange *x) {
        struct signin *s = x->api->signin;
        _cleanup_free_ struct words *verbs = calloc(1, sizeof *verbs), *resources = calloc(1, sizeof *resources);
        _cleanup_keyring_wipe_ struct buf token = {0};
        _cleanup_buf_ struct buf grant = {0};
        struct json j = {.out = &grant};
        struct store_capability row = {.created_ms = signin_now_ms()};
        struct err err = {0};
        uint64_t seconds = 3600;

        if (!verbs || !resources) {
                reply_error(x, "failed", "try again", "out of memory");
                return;
        }
        (void)json_find_u64(x->body.data, "expires_in", &seconds);
        if (!read_words(x->body.data, "verbs", verbs) || !read_words(x->body.data, "resources", resources) ||
            seconds < 1 || seconds > 366ULL * 86400) {
                reply_error(x, "bad_request",
                            "send {\"verbs\": [\"exec\"], \"resources\": [\"sandbox/ID\"], \"expires_in\": SECONDS}",
                            "a token needs verbs, resources, and at most a year");
                return;
        }
        if (s->token_count >= SIGNIN_TOKENS_MAX || tokens_of(s, x->c.owner, false) >= SIGNIN_OWNER_MAX ||
            tokens_of(s, x->c.owner, true) >= SIGNIN_OWNER_ALL) {
                reply_error(x, "limit",
                            "revoke some that are not needed; revoked ones count until they would have expired, up to "
                            "256 of an owner",
                            "there are too many tokens");
                return;
        }
        (void)json_find_str(x->body.data, "about", row.about, sizeof row.about);
        (void)snprintf(row.owner, sizeof row.owner, "%s", x->c.owner);
        row.expires_ms = row.created_ms + seconds * 1000;
        struct capability_grant g = {.owner = row.owner,
                                     .verbs = {verbs->list, verbs->count},
                                     .resources = {resources->list, resources->count},
                                     .issued_ms = row.created_ms,
                                     .expires_ms = row.expires_ms};
        if (capability_make(s->keys, &g, row.jti, &token, &err) < 0) {
                reply_error(x, "bad_request", "see docs/openapi.yaml", "%s", err.text);
                return;
        }
        json_open(&j, NULL, '{');
        words_json(&j, "verbs", verbs);
        words_json(&j, "resources", resources);
        json_close(&j, '}');
        row.grant = grant.data;
        row.grant_size = grant.size;
        token_store(x, &row, &token);
}

void token_end(struct exchange *x) {
        const char *jti = route_param(x, "jti");

        for (struct token *t = x->api->signin->tokens; jti && t; t = t->next)
                if (str_eq(t->row.jti, jti) && str_eq(t->row.owner, x->c.owner)) {
                        t->row.revoked = true;
                        /* first what it let in: the row says "revoked" when nothing of that is left */
                        uint64_t keys = ssh_keys_end(x->api->o, t->row.jti);
                        uint64_t row = store_put(x->api->o->store, STORE_CAPABILITY, &t->row);

                        signin_revoke(x, LEDGER_GRANT_END, t->row.jti, t->row.expires_ms, MAX(keys, row));
                        return;
                }
        reply_error(x, "not_found", "GET /api/capabilities/tokens lists them", "there is no such token");
}
