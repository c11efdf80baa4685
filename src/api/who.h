/* Who asks: the bearer of a session, of a capability, of a ticket for one stream; or nobody. */
#pragma once

#include "api/exchange.h"

/* Fills x->c.owner, x->c.admin, x->jti. False: it was refused. */
bool who_asks(struct exchange *x);

/* What is done through something that is open by another verb's right, such as typing into what may be looked at. */
bool who_may(struct exchange *x, const char *verb);

/* When the body is there: whether the token is still good, and a capability also for what body and query name. False:
 * it was refused. */
bool who_may_also(struct exchange *x);

/* Whether whoever asks is on this host or has an operator's session, as AUTH_LOCAL wants it; nothing is refused. */
bool who_is_trusted(const struct exchange *x);

/* Whether this owner may use the API at all: `wallets` and `operators` of stockade.conf. */
bool who_is_welcome(const struct api *a, const char *owner);

/* What x was opened with has ended meanwhile: expired, or revoked. */
bool who_is_over(const struct exchange *x);
