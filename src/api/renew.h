/* Sessions that go on: a page that is open does not throw its user out every hour.
 *
 * A session can be renewed while it is good, until twelve hours after the sign-in. All that came of one sign-in is one
 * chain, known everywhere by the jti of its first session: whoever ends one of them ends all. */
#pragma once

#include "api/exchange.h"
#include "auth/session.h"

const char *renew_chain(const struct session *s, char ret[SESSION_JTI]); /* the jti of its first one; returns ret */
/* From when on nothing of a chain is good by itself, whatever came of it: it was revoked now, and its last session that
 * we know of ends then. */
uint64_t renew_over(uint64_t now_ms, uint64_t expires_ms);
void renew_answer(struct exchange *x); /* POST /api/auth/session/renew */
