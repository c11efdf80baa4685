/* A sandbox that fails again and again is left alone for a while, so that those who ask it do not all wait: for that
 * sandbox and its owner alone, and for what needs its guest. To look at it, stop, resume and delete it is always
 * possible. Failures are counted by reason, one after the other without an answer in between; after a while one request
 * is let through to try. No I/O; time is a parameter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
        BREAKER_FAILURES = 5,  /* of one reason, in a row */
        BREAKER_PLACES = 1024, /* sandboxes that failed lately; the one whose failure is longest ago goes */
};
#define BREAKER_OPEN_MS UINT64_C(10000) /* doubled each time that trying fails */
#define BREAKER_MOST_MS UINT64_C(60000)

struct breakers;
struct breakers *breakers_new(void);
void breakers_free(struct breakers *b);

/* Whether this verb needs the guest; and whether a fault of this code says that the sandbox is broken. */
bool breaker_is_for(const char *verb);
bool breaker_is_fault(const char *verb, const char *code);

/* False: not now; why ("timeout", "failed"), and for how long. */
bool breaker_lets(struct breakers *b, const char *owner, const char *sandbox, uint64_t now, const char **ret_why,
                  uint64_t *ret_wait_ms);
/* How it went; code NULL: it answered, if only to refuse. */
void breaker_note(struct breakers *b, const char *owner, const char *sandbox, const char *code, uint64_t now);
