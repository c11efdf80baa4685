/* Renewal. What a chain needs to know is in the sealed token itself, so nothing is kept here: the first jti and the
 * moment of the sign-in stand in the scope. */
#include "api/renew.h"

#include <stdio.h>

#include "api/route.h"
#include "api/signin.h"

#define TOTAL_MS (12ULL * 3600 * 1000) /* since the sign-in */
#define SCOPE    "renewed "

/* False: it is the first. */
static bool read_scope(const struct session *s, char root[SESSION_JTI], uint64_t *began_ms) {
        unsigned long long ms = 0;
        char end;

        if (!str_starts(s->scope, SCOPE) || /* most are: asked for every request */
            sscanf(s->scope, SCOPE "%32[0-9a-f] %18llu%c", root, &ms, &end) != 2 || !session_is_jti(root))
                return false;
        *began_ms = ms;
        return true;
}

const char *renew_chain(const struct session *s, char ret[SESSION_JTI]) {
        uint64_t began;

        if (!read_scope(s, ret, &began))
                (void)snprintf(ret, SESSION_JTI, "%s", s->jti);
        return ret;
}

uint64_t renew_over(uint64_t now_ms, uint64_t expires_ms) {
        return MAX(expires_ms, now_ms + TOTAL_MS);
}

void renew_answer(struct exchange *x) {
        struct signin *s = x->api->signin;
        const char *token = x->head.authorization ? x->head.authorization + strlen("Bearer ") : "";
        uint64_t now = signin_now_ms(), began;
        char root[SESSION_JTI];
        struct session old, new = {.issued_ms = now};
        _cleanup_buf_ struct buf none = {0};
        struct json nothing = {.out = &none};

        if (!route_fields(x, &nothing))
                return;
        token += strspn(token, " ");
        if (session_memo_get(s->memo, s->keys, SESSION_PERSON, x->api->url, token, strlen(token), now, &old, NULL) <
            0) { /* it was good a moment ago */
                reply_error(x, "bad_token", "sign in again: POST /api/auth/challenge",
                            "the token is not good, or not any more");
                return;
        }
        if (!read_scope(&old, root, &began)) {
                (void)snprintf(root, sizeof root, "%s", old.jti);
                began = old.issued_ms;
        }
        new.expires_ms = MIN(now + x->api->o->conf.session, began + TOTAL_MS);
        if (began + TOTAL_MS <= old.expires_ms) {
                reply_error(x, "not_permitted", "sign in again: POST /api/auth/challenge",
                            "it lasts already as long as renewing could make it, which is until twelve hours after the "
                            "sign-in");
                return;
        }
        (void)snprintf(new.subject, sizeof new.subject, "%s", old.subject);
        (void)snprintf(new.scope, sizeof new.scope, SCOPE "%s %llu", root, (unsigned long long)began);
        signin_give(x, &new, root);
}
