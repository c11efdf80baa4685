/* Sign-in: challenges, sessions, tickets, capabilities, and what was revoked. The keys come from the secret that the
 * warden passes; what was revoked is in the store before anybody is told that it is.
 *
 * Routes of this file answer by themselves: there is no verb behind them. */
#pragma once

#include "api/exchange.h"
#include "auth/capability.h"
#include "auth/revoked.h"
#include "auth/session-memo.h"
#include "auth/single-use.h"
#include "base/hash.h"

#define SIGNIN_TOKENS_MAX 4096 /* capabilities of all owners */
#define SIGNIN_OWNER_MAX  64   /* of one */
#define SIGNIN_OWNER_ALL  256  /* with those that were revoked, which stay until they would have expired */

/* A capability that was given away. */
struct token {
        struct token *next;
        struct store_capability row; /* row.grant is ours */
        bool noted;                  /* its last use is in the store */
};

#define SIGNIN_MEMO 256 /* sessions whose tokens are not opened anew for every request */

struct signin {
        struct api *api;
        struct session_memo *memo;
        const struct keyring *keys; /* the vault's */
        struct revoked *revoked;
        struct single_use *nonces, *tickets, *links;
        struct token *tokens;
        size_t token_count;
        struct loop_timer timer; /* forgets what has expired, and writes down what was used */
};

int signin_open(struct api *a, struct err *err);
void signin_close(struct api *a);
uint64_t signin_now_ms(void); /* since 1970 */

/* In front of the owner in links and sessions: it acts for all owners. No owner is called so. */
#define SIGNIN_ADMIN "admin/"
const char *signin_owner(const char *subject); /* without that */

/* The URL that signs this owner in, once, within ten minutes. */
int signin_link(struct api *a, const char *owner, struct buf *url, struct err *err);

/* Gives a session with this subject, scope and time away: the answer is sent. renews: the jti of the first of its
 * chain; NULL: it is the first. */
void signin_give(struct exchange *x, const struct session *wanted, const char *renews);

void signin_challenge(struct exchange *x);
void signin_session(struct exchange *x);
void signin_end(struct exchange *x);
void signin_whoami(struct exchange *x);
void signin_ticket(struct exchange *x);

/* It is not good from now on. ticket: of the row that says so; the answer is sent when that is durable. */
void signin_revoke(struct exchange *x, enum ledger_kind kind, const char *jti, uint64_t expires_ms, uint64_t ticket);
