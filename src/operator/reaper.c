/* The reaper. Processor time is looked at when the rest of the budget could be used up at the earliest: seldom while
 * much is left, every half second in the end; also while no run is under way, because what runs started may go on in
 * the background. */
#include "operator/reaper.h"

#include <stdio.h>

#include "operator/life.h"
#include "operator/run.h"
#include "operator/warden-link.h"

#define LOOK_MIN_MS 500
#define LOOK_MAX_MS (600 * 1000ULL)

static uint64_t either(uint64_t own, uint64_t configured) {
        return own != FROZEN_UNSET ? own : configured;
}

uint64_t reaper_lifetime(const struct sandbox *s) {
        return either(s->frozen->time_lifetime, s->o->conf.lifetime);
}

static uint64_t idle_time(const struct sandbox *s) {
        return either(s->frozen->time_idle, s->o->conf.idle);
}

/* --- budget.cpu -----------------------------------------------------------------------------------------------------
 */

static uint64_t budget_left(const struct sandbox *s, uint64_t now_us) {
        uint64_t used = (s->cpu_us + now_us) / 1000;

        return used < s->frozen->budget_cpu ? s->frozen->budget_cpu - used : 0;
}

static void counted(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct sandbox *s = LOOP_OWNER(data, struct sandbox, timer);
        struct task *t;

        (void)fds;
        (void)fd_count;
        s->counting = false;
        if (!s->up || s->state != STATE_RUNNING)
                return;
        if (answer->error == 0 && answer->usage.cpu_us != UINT64_MAX)
                s->budget_used = answer->usage.cpu_us;
        uint64_t left = budget_left(s, s->budget_used);
        if (left == 0) {
                char data_text[96];

                (void)snprintf(data_text, sizeof data_text, "{\"budget\":\"budget.cpu\",\"used_us\":%llu}",
                               (unsigned long long)(s->cpu_us + s->budget_used));
                (void)record(s->o, LEDGER_BUDGET_HIT, s->id, "operator", data_text);
                t = life_stop(s, NULL, REASON_BUDGET);
                if (t)
                        task_go(t);
                return;
        }
        uint64_t cpus = s->frozen->cpus != FROZEN_UNSET ? s->frozen->cpus : s->o->facts[WARDEN_FACT_CPUS];
        uint64_t earliest = left * 1000 / MAX(cpus, 1U);
        s->budget_check = loop_now(s->o->loop) + MIN(MAX(earliest, (uint64_t)LOOK_MIN_MS), LOOK_MAX_MS);
        reaper_look(s);
}

static void count(struct sandbox *s) {
        struct warden_message m = {.kind = WARDEN_USAGE};

        if (s->counting)
                return;
        copy_text(m.id, sizeof m.id, s->id);
        if (warden_call(s->o, &m, NULL, 0, counted, &s->timer) == 0)
                s->counting = true;
}

/* --- the timer ------------------------------------------------------------------------------------------------------
 */

static void stop(struct sandbox *s, enum reason reason) {
        struct task *t = life_stop(s, NULL, reason);

        if (t)
                task_go(t);
}

static void due(struct loop_timer *timer) {
        struct sandbox *s = LOOP_OWNER(timer, struct sandbox, timer);
        uint64_t now = wall_ms(), lifetime = reaper_lifetime(s), idle = idle_time(s);

        if (!ops_idle(&s->ops)) /* whoever works on it comes first */
                loop_timer_set(s->o->loop, &s->timer, loop_now(s->o->loop) + LOOK_MIN_MS);
        else if (!state_alive(s->state) || !s->up)
                ;
        else if (lifetime != FROZEN_UNSET && now >= s->created_ms + lifetime)
                stop(s, REASON_LIFETIME);
        else if (idle != FROZEN_UNSET && run_active(s) == 0 && now >= s->used_ms + idle)
                stop(s, REASON_IDLE);
        else {
                if (s->frozen->budget_cpu != FROZEN_UNSET && s->state == STATE_RUNNING &&
                    loop_now(s->o->loop) >= s->budget_check)
                        count(s);
                run_stale_look(s);
                reaper_look(s);
        }
}

static void sooner(uint64_t *next, uint64_t when) {
        *next = MIN(*next, when);
}

void reaper_look(struct sandbox *s) {
        struct loop *l = s->o->loop;
        uint64_t wall = wall_ms(), now = loop_now(l), next = UINT64_MAX;
        uint64_t lifetime = reaper_lifetime(s), idle = idle_time(s);

        if (!s->owner || !state_alive(s->state)) {
                loop_timer_clear(l, &s->timer);
                return;
        }
        if (lifetime != FROZEN_UNSET)
                sooner(&next, now + (s->created_ms + lifetime > wall ? s->created_ms + lifetime - wall : 0));
        if (idle != FROZEN_UNSET && run_active(s) == 0)
                sooner(&next, now + (s->used_ms + idle > wall ? s->used_ms + idle - wall : 0));
        if (s->frozen->budget_cpu != FROZEN_UNSET && s->state == STATE_RUNNING && !s->counting) {
                if (s->budget_check == 0) { /* this start has used nothing yet */
                        uint64_t cpus = s->frozen->cpus != FROZEN_UNSET ? s->frozen->cpus : 1000;

                        s->budget_check = now + MAX(budget_left(s, 0) * 1000 / MAX(cpus, 1U), (uint64_t)LOOK_MIN_MS);
                }
                sooner(&next, s->budget_check);
        }
        uint64_t stale = run_stale_due(s);
        if (stale != UINT64_MAX)
                sooner(&next, now + (stale > wall ? stale - wall : 0));
        if (next == UINT64_MAX) {
                loop_timer_clear(l, &s->timer);
                return;
        }
        s->timer.fire = due;
        loop_timer_set(l, &s->timer, MAX(next, now + 1));
}
