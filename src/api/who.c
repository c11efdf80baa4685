/* Who asks. A token is looked at in an order that gives nothing away: its form, its seal, its time, whether it was
 * revoked; and every refusal of it is the same. */
#include "api/who.h"

#include <stdio.h>
#include <strings.h>

#include "api/port-host.h"
#include "api/renew.h"
#include "api/route.h"
#include "api/signin.h"
#include "api/token.h"
#include "base/json-read.h"
#include "operator/sandbox.h"
#include "operator/snapshot.h"

static bool bad_token(struct exchange *x) {
        x->close = x->has_body;
        reply_error(x, "bad_token", "sign in again: POST /api/auth/challenge",
                    "the token is not good, or not any more");
        return false;
}

/* Operators by their wallets; administrators of this host only by a link that they asked for as such. */
static bool is_admin(const struct core *o, const char *owner) {
        if (str_starts(owner, SIGNIN_ADMIN))
                return true;
        for (size_t i = 0; i < o->conf.operators.count; i++)
                if (str_starts(owner, "eth:") && strcasecmp(owner + 4, o->conf.operators.items[i]) == 0)
                        return true;
        return false;
}

static bool is_named(const struct conf_list *wallets, const char *owner) {
        for (size_t i = 0; i < wallets->count; i++)
                if (strcasecmp(owner + 4, wallets->items[i]) == 0 || str_eq(wallets->items[i], "*"))
                        return true;
        return false;
}

/* Users of this host come by a link that the local socket gave them, and whoever asked there was let in. */
bool who_is_welcome(const struct api *a, const char *owner) {
        return !str_starts(owner, "eth:") || is_admin(a->o, owner) || is_named(&a->o->conf.wallets, owner);
}

static void become(struct exchange *x, const char *owner, const char *jti, uint64_t expires_ms) {
        copy_text(x->c.owner, sizeof x->c.owner, signin_owner(owner));
        copy_text(x->jti, sizeof x->jti, jti);
        x->expires_ms = expires_ms;
        x->c.admin = is_admin(x->api->o, owner);
}

/* At this moment: what was opened before is not opened again, but its time and whether it was revoked are looked at. */
static bool find_session(struct api *a, const char *token, struct session *ret) {
        struct signin *s = a->signin;
        char first[SESSION_JTI];

        return session_memo_get(s->memo, s->keys, SESSION_PERSON, a->url, token, strlen(token), signin_now_ms(), ret,
                                NULL) == 0 &&
               !revoked_has(s->revoked, ret->jti) && !revoked_has(s->revoked, renew_chain(ret, first));
}

static bool by_session(struct exchange *x, const char *token) {
        struct session found;
        char first[SESSION_JTI];

        if (!find_session(x->api, token, &found) || !who_is_welcome(x->api, found.subject))
                return bad_token(x);
        become(x, found.subject, renew_chain(&found, first), found.expires_ms);
        return true;
}

/* What a capability has to name. Names are turned into ids, of its owner's things alone. */
static void resource_of(struct exchange *x, const char *owner, char *ret, size_t size) {
        const char *sandbox = route_param(x, "sandbox"), *snapshot = route_param(x, "snapshot"),
                   *port = route_param(x, "port");

        if (sandbox) {
                const struct sandbox *s = warden_is_id(sandbox) ? NULL : sandbox_named(x->api->o, owner, sandbox);

                (void)snprintf(ret, size, "sandbox/%.64s%s%.10s", s ? s->id : sandbox, port ? "/port/" : "",
                               port ? port : "");
        } else if (snapshot) {
                const struct snapshot *p = warden_is_id(snapshot) ? NULL : snapshot_named(x->api->o, owner, snapshot);

                (void)snprintf(ret, size, "snapshot/%.64s", p ? p->id : snapshot);
        } else if (str_eq(x->route->verb, "create") || str_eq(x->route->verb, "list"))
                (void)snprintf(ret, size, "sandbox");
        else
                (void)snprintf(ret, size, "host");
}

static bool not_for(struct exchange *x, const char *resource) {
        reply_error(x, "not_permitted", "its owner can give another one: POST /api/capabilities/tokens",
                    "this token is not for '%s' on %s", x->route->verb[0] ? x->route->verb : "this", resource);
        return false;
}

/* A snapshot, or where there is none a sandbox, by id or name. Snapshots of the sandbox in the path go with it. */
static bool may_use(struct exchange *x, const char *name) {
        struct core *o = x->api->o;
        bool is_id = warden_is_id(name);
        const struct snapshot *p = is_id ? snapshot_find(o, name) : snapshot_named(o, x->c.owner, name);
        const struct sandbox *s = is_id ? sandbox_find(o, name) : sandbox_named(o, x->c.owner, name);
        p = p && str_eq(p->owner->name, x->c.owner) ? p : NULL; /* of others' nothing is known here */
        s = s && str_eq(s->owner->name, x->c.owner) ? s : NULL;
        char resource[CAPABILITY_RESOURCE], own[CAPABILITY_RESOURCE] = "";

        if (p && route_param(x, "sandbox"))
                resource_of(x, x->c.owner, own, sizeof own);
        if (p && str_starts(own, "sandbox/") && str_eq(own + 8, p->sandbox))
                return true;
        (void)snprintf(resource, sizeof resource, "%s/%.64s", !p && s ? "sandbox" : "snapshot",
                       p   ? p->id
                       : s ? s->id
                           : name);
        return capability_may(x->capability, x->route->verb, resource, signin_now_ms(), NULL) || not_for(x, resource);
}

bool who_may(struct exchange *x, const char *verb) {
        char resource[CAPABILITY_RESOURCE];

        if (!x->capability)
                return true;
        resource_of(x, x->c.owner, resource, sizeof resource);
        return capability_may(x->capability, verb, resource, signin_now_ms(), NULL);
}

bool who_may_also(struct exchange *x) {
        const char *verb = x->route->verb, *body = x->body.data ? x->body.data : "{}";
        char name[EXCHANGE_PARAM] = "", resource[CAPABILITY_RESOURCE];

        if (who_is_over(x)) /* revoked while the body came */
                return bad_token(x);
        if (!x->capability)
                return true;
        if (!who_may(x, verb)) { /* likewise: its name is another sandbox's by now */
                resource_of(x, x->c.owner, resource, sizeof resource);
                return not_for(x, resource);
        }
        if (str_eq(verb, "diff"))
                (void)route_query(x, "to", name, sizeof name);
        else if (str_eq(verb, "rollback"))
                (void)json_find_str(body, "snapshot", name, sizeof name);
        else if (str_eq(verb, "create"))
                (void)json_find_str(body, "from_snapshot", name, sizeof name);
        return !name[0] || may_use(x, name);
}

static bool is_over(const struct client *c) {
        return who_is_over(LOOP_OWNER(c, const struct exchange, c));
}

static bool by_capability(struct exchange *x, const char *token) {
        struct signin *s = x->api->signin;
        _cleanup_capability_ struct capability *c = NULL;
        char resource[CAPABILITY_RESOURCE];
        struct err err = {0};
        uint64_t now = signin_now_ms();

        if (capability_open(s->keys, token, strlen(token), &c, NULL) < 0 || capability_expires_ms(c) <= now ||
            revoked_has(s->revoked, capability_jti(c)) || !who_is_welcome(x->api, capability_owner(c)))
                return bad_token(x);
        resource_of(x, capability_owner(c), resource, sizeof resource);
        if (x->route->auth != AUTH_OWNER || !capability_may(c, x->route->verb, resource, now, &err)) {
                x->close = x->has_body;
                return not_for(x, resource);
        }
        become(x, capability_owner(c), capability_jti(c), capability_expires_ms(c));
        x->c.admin = false; /* whoever gave it away */
        x->capability = TAKE_PTR(c);
        x->c.capability = x->jti;
        x->c.expires_ms = x->expires_ms;
        x->c.is_over = is_over;
        token_used(x->api, x->jti);
        return true;
}

/* "owner jti expires path" */
static bool by_ticket(struct exchange *x, const char *ticket) {
        struct signin *s = x->api->signin;
        char note[SINGLE_USE_NOTE], owner[SESSION_SUBJECT], jti[SESSION_JTI];
        unsigned long long expires = 0;
        int at = 0;

        if (single_use_take(s->tickets, ticket, strlen(ticket), loop_now(x->api->o->loop), note, NULL) < 0 ||
            sscanf(note, "%95s %32s %llu %n", owner, jti, &expires, &at) < 3 || at == 0 || !str_eq(note + at, x->url) ||
            revoked_has(s->revoked, jti) || expires <= signin_now_ms())
                return bad_token(x);
        become(x, owner, jti, expires);
        return true;
}

static bool nobody(struct exchange *x) {
        x->close = x->has_body;
        reply_error(x, "no_token", "sign in: POST /api/auth/challenge, then POST /api/auth/session",
                    "this needs Authorization: Bearer and a token");
        return false;
}

static bool is_here(const struct exchange *x) {
        static const uint8_t one[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, 0xff};

        if (x->head.forwarded) /* a proxy's word for whom it asks */
                return false;
        return memcmp(x->address, one, 16) == 0 || (memcmp(x->address, mapped, 12) == 0 && x->address[12] == 127);
}

static const char *bearer(const struct exchange *x) {
        const char *value = x->head.authorization;

        if (!value || strncasecmp(value, "Bearer ", 7) != 0)
                return NULL;
        return value + 7 + strspn(value + 7, " ");
}

static bool by_bearer(struct exchange *x) {
        const char *token = bearer(x);

        if (!token)
                return bad_token(x);
        return capability_is(token, strlen(token)) ? by_capability(x, token) : by_session(x, token);
}

bool who_is_trusted(const struct exchange *x) {
        const char *token = bearer(x);
        struct session found;

        return is_here(x) || (token && find_session(x->api, token, &found) && is_admin(x->api->o, found.subject));
}

bool who_asks(struct exchange *x) {
        char ticket[SINGLE_USE_ID + 1];
        bool given = (x->route->flags & ROUTE_TICKET) && route_query(x, "ticket", ticket, sizeof ticket) > 0;

        if (x->own_host)
                return port_host_who(x);
        if ((x->route->auth == AUTH_LOCAL && is_here(x)) || x->route->auth == AUTH_NONE)
                return true;
        if (x->head.authorization)
                return by_bearer(x) && (x->route->auth != AUTH_LOCAL || x->c.admin || bad_token(x));
        return given ? by_ticket(x, ticket) : nobody(x);
}

bool who_is_over(const struct exchange *x) {
        return x->jti[0] && (x->expires_ms <= signin_now_ms() || revoked_has(x->api->signin->revoked, x->jti));
}
