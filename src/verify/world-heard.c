/* The table of what arrived: the listener writes, the judge reads and forgets, in memory that both have.
 *
 * One writer of each number, no lock: events are added behind count, and forgetting only moves first. What does not fit
 * is counted. The judge first waits until the listener has noted what is there already; a listener that does not answer
 * is not silence, and is reported as something that was heard. */
#include "verify/world-own.h"

static const char deaf[] = "the listener does not answer: what arrived is not known";

static bool equal(const struct world_event *a, const struct world_event *b) {
        return str_eq(a->kind, b->kind) && str_eq(a->attempt, b->attempt) && str_eq(a->address, b->address) &&
               a->port == b->port && a->type == b->type && str_eq(a->begin, b->begin);
}

uint32_t world_heard_note(struct world_heard *h, const struct world_event *e, size_t bytes) {
        uint32_t first = atomic_load(&h->first), count = atomic_load(&h->count), used = count - first;

        if (used >= WORLD_HEARD_MAX / 4 * 3) /* a flood must not hide what is different */
                for (uint32_t i = first; i != count; i++)
                        if (equal(&h->events[i % WORLD_HEARD_MAX], e)) {
                                (void)atomic_fetch_add(&h->times[i % WORLD_HEARD_MAX], 1);
                                world_heard_count(h, i, bytes);
                                return WORLD_NO_EVENT;
                        }
        if (used >= WORLD_HEARD_MAX) {
                (void)atomic_fetch_add(&h->lost, 1);
                return WORLD_NO_EVENT;
        }
        h->events[count % WORLD_HEARD_MAX] = *e;
        atomic_store(&h->times[count % WORLD_HEARD_MAX], 1);
        atomic_store(&h->bytes[count % WORLD_HEARD_MAX], bytes);
        atomic_store(&h->count, count + 1);
        return count;
}

void world_heard_count(struct world_heard *h, uint32_t event, size_t bytes) {
        /* forgotten ones are not counted any more */
        if (event != WORLD_NO_EVENT && event - atomic_load(&h->first) < WORLD_HEARD_MAX)
                (void)atomic_fetch_add(&h->bytes[event % WORLD_HEARD_MAX], bytes);
}

void world_forget(struct world *w) {
        struct world_heard *h = w->heard;

        (void)world_listen_settle(w);
        atomic_store(&h->first, atomic_load(&h->count));
        atomic_store(&h->lost_before, atomic_load(&h->lost));
        atomic_store(&h->questions_before, atomic_load(&h->questions));
        atomic_store(&h->rebinds, 0);
        atomic_store(&h->most, 0);
        world_victim_forget(w);
}

unsigned world_lost(const struct world *w) {
        return atomic_load(&w->heard->lost) - atomic_load(&w->heard->lost_before);
}

unsigned world_most(const struct world *w) {
        return atomic_load(&w->heard->most);
}

size_t world_events(const struct world *w, struct world_event *ret, size_t max) {
        const struct world_heard *h = w->heard;
        size_t n = 0;

        bool settled = world_listen_settle(w);
        uint32_t count = atomic_load(&h->count);
        for (uint32_t i = atomic_load(&h->first); i != count && n < max; i++, n++) {
                ret[n] = h->events[i % WORLD_HEARD_MAX];
                ret[n].times = atomic_load(&h->times[i % WORLD_HEARD_MAX]);
                ret[n].bytes = atomic_load(&h->bytes[i % WORLD_HEARD_MAX]);
        }
        if (!settled && n < max) {
                ret[n] = (struct world_event){.kind = "lost", .times = 1};
                (void)snprintf(ret[n].begin, sizeof ret[n].begin, "%s", deaf);
                n++;
        }
        return n;
}

bool world_heard(const struct world *w, const char *attempt, char *ret, size_t size) {
        const struct world_heard *h = w->heard;
        size_t used = 0;
        unsigned more = 0;

        ret[0] = '\0';
        if (!world_listen_settle(w)) {
                (void)snprintf(ret, size, "%s", deaf);
                used = strlen(ret);
        }
        uint32_t count = atomic_load(&h->count);
        for (uint32_t i = atomic_load(&h->first); i != count; i++) {
                const struct world_event *e = &h->events[i % WORLD_HEARD_MAX];

                if (e->attempt[0] && !str_eq(e->attempt, attempt))
                        continue;
                if (used > 0 && used + 200 > size) { /* enough was said */
                        more++;
                        continue;
                }
                int n = snprintf(ret + used, size - used, "%s%s at %s%s%.0u from %s: '%.120s'", used ? "; " : "",
                                 e->dns ? "question" : e->kind, e->address, e->port ? " port " : "", e->port, e->from,
                                 e->begin);
                used = MIN(used + (size_t)MAX(n, 0), size - 1);
        }
        if (more > 0 || world_lost(w) > 0)
                (void)snprintf(ret + used, size - used, "; and %u more", more + world_lost(w));
        return used > 0 || world_lost(w) > 0;
}

unsigned world_questions(const struct world *w, const char *name_contains) {
        const struct world_heard *h = w->heard;
        unsigned found = 0;

        (void)world_listen_settle(w);
        if (name_contains[0] == '\0') /* also those that did not fit into the table */
                return atomic_load(&h->questions) - atomic_load(&h->questions_before);
        uint32_t count = atomic_load(&h->count);
        for (uint32_t i = atomic_load(&h->first); i != count; i++)
                if (h->events[i % WORLD_HEARD_MAX].dns && strstr(h->events[i % WORLD_HEARD_MAX].begin, name_contains))
                        found += atomic_load(&h->times[i % WORLD_HEARD_MAX]);
        return found;
}
