/* Which sandboxes are left alone. A place in the table is taken by a failure and given back by an answer, so it is
 * empty where nothing fails. Whoever can make many sandboxes fail can push out only what failed before: a sandbox that
 * works is never refused. */
#include "api/breaker.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"

static const char *const reasons[] = {"timeout", "failed"};

struct place {
        uint8_t who[HASH_SIZE]; /* of owner and sandbox */
        bool used, trying;      /* trying: one request was let through */
        unsigned counts[ELEMENTSOF(reasons)];
        const char *why; /* NULL: it is not left alone */
        uint64_t last, open_ms, until;
};

struct breakers {
        unsigned used;
        struct place places[BREAKER_PLACES];
};

struct breakers *breakers_new(void) {
        return calloc(1, sizeof(struct breakers));
}

void breakers_free(struct breakers *b) {
        free(b);
}

bool breaker_is_for(const char *verb) {
        static const char *const verbs[] = {"exec", "attach", "put", "get", "tar-in", "tar-out", "ls",
                                            "stat", "mkdir",  "mv",  "rm",  "watch",  "connect", "processes"};

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (str_eq(verbs[i], verb))
                        return true;
        return false;
}

/* How long a command, a watch or a connection takes is its own affair. */
bool breaker_is_fault(const char *verb, const char *code) {
        static const char *const long_ones[] = {"exec", "attach", "watch", "connect"};

        if (str_eq(code, "timeout")) {
                for (size_t i = 0; i < ELEMENTSOF(long_ones); i++)
                        if (str_eq(long_ones[i], verb))
                                return false;
                return true;
        }
        return str_eq(code, "failed");
}

static void key(const char *owner, const char *sandbox, uint8_t ret[static HASH_SIZE]) {
        struct hash h;

        hash_init(&h);
        hash_add_str(&h, owner);
        hash_add_str(&h, sandbox);
        hash_done(&h, ret);
}

static struct place *find(struct breakers *b, const uint8_t who[static HASH_SIZE]) {
        for (size_t i = 0; i < BREAKER_PLACES && b->used > 0; i++)
                if (b->places[i].used && memcmp(b->places[i].who, who, HASH_SIZE) == 0)
                        return &b->places[i];
        return NULL;
}

static struct place *take(struct breakers *b, const uint8_t who[static HASH_SIZE]) {
        struct place *p = find(b, who), *oldest = b->places;

        if (p)
                return p;
        for (size_t i = 0; i < BREAKER_PLACES; i++) {
                p = &b->places[i];
                if (!p->used) {
                        b->used++;
                        oldest = p;
                        break;
                }
                if (p->last < oldest->last)
                        oldest = p;
        }
        *oldest = (struct place){.used = true};
        memcpy(oldest->who, who, HASH_SIZE);
        return oldest;
}

bool breaker_lets(struct breakers *b, const char *owner, const char *sandbox, uint64_t now, const char **ret_why,
                  uint64_t *ret_wait_ms) {
        uint8_t who[HASH_SIZE];

        if (b->used == 0)
                return true;
        key(owner, sandbox, who);
        struct place *p = find(b, who);
        if (!p || !p->why)
                return true;
        if (now >= p->until) { /* one tries; the next one waits for how that goes, or as long again */
                p->trying = true;
                p->until = now + p->open_ms;
                return true;
        }
        *ret_why = p->why;
        *ret_wait_ms = p->until - now;
        return false;
}

void breaker_note(struct breakers *b, const char *owner, const char *sandbox, const char *code, uint64_t now) {
        uint8_t who[HASH_SIZE];

        if (!code && b->used == 0)
                return;
        key(owner, sandbox, who);
        if (!code) {
                struct place *p = find(b, who);

                if (p) {
                        *p = (struct place){0};
                        b->used--;
                }
                return;
        }
        struct place *p = take(b, who);
        p->last = now;
        for (size_t i = 0; i < ELEMENTSOF(reasons); i++) {
                if (!str_eq(reasons[i], code) || (++p->counts[i] < BREAKER_FAILURES && !p->trying))
                        continue;
                if (p->why && !p->trying)
                        continue; /* it had been asked before it was left alone */
                p->open_ms = p->open_ms == 0 ? BREAKER_OPEN_MS : MIN(p->open_ms * 2, BREAKER_MOST_MS);
                p->until = now + p->open_ms;
                p->why = reasons[i];
                p->trying = false;
        }
}
