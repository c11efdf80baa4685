/* Sessions that were opened lately, by their tokens: a client sends the same token with every request, and opening it
 * anew costs more than most requests.
 *
 * A token is found only if all of its bytes are the same; kind, audience and time are judged anew each time. Whether it
 * was revoked is asked by jti afterwards, as always. One that is not here is opened as session_open does and then kept
 * in the place of an older one. What does not open is not kept. */
#pragma once

#include "auth/session.h"

enum { SESSION_MEMO_TOKEN = 1024 }; /* longer ones are opened every time */

struct session_memo;

int session_memo_open(struct session_memo **ret, size_t places, struct err *err); /* a power of two, up to 65536 */
void session_memo_close(struct session_memo *m);                                  /* wipes it; NULL is fine */
static inline void session_memo_closep(struct session_memo **m) {
        session_memo_close(*m);
}
#define _cleanup_session_memo_ _cleanup_(session_memo_closep)

/* The contract of session_open. Always with the same ring: after a change of keys, forget first. */
int session_memo_get(struct session_memo *m, const struct keyring *k, enum session_kind kind, const char *audience,
                     const char *token, size_t size, uint64_t now_ms, struct session *ret, struct err *err);
void session_memo_forget(struct session_memo *m);
