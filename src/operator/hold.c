/* When the host cannot take more: below the mark of free disk space sandboxes that write to disks are frozen, because
 * their writes would fail; while the ledger cannot be written and has to be, all are. They go on by themselves when
 * there is room again. Their rows stay as they are: this is not something that anybody asked for. */
#include "base/log.h"
#include "operator/call.h"
#include "operator/life.h"
#include "operator/run.h"
#include "operator/warden-link.h"

#define LOOK_MS 1000

static bool wanted(const struct sandbox *s) {
        const struct registry *r = s->o->registry;

        return r->unrecorded || (r->pressure && s->disk);
}

static void held(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct whose *w = data;
        struct sandbox *s = sandbox_find(w->o, w->sandbox);

        (void)fds;
        (void)fd_count;
        if (answer->error < 0) {
                log_line(LOG_LEVEL_WARNING, w->sandbox, "it could not be %s: %s", w->run ? "held" : "let go",
                         answer->text);
                if (s && s->up && s->state == STATE_RUNNING) { /* looked at again */
                        s->pressed = !w->run;
                        run_clock(s, !s->pressed);
                }
        } else if (s && w->run == 0 && s->state == STATE_RUNNING && !s->pressed) {
                run_clock(s, true);
                run_feed(s);
        }
        free(w);
}

static void hold(struct sandbox *s, bool on) {
        struct warden_message m = {.kind = on ? WARDEN_FREEZE : WARDEN_THAW};
        struct whose *w = whose_new(s, on);

        copy_text(m.id, sizeof m.id, s->id);
        if (!w || warden_call(s->o, &m, NULL, 0, held, w) < 0) {
                free(w);
                return; /* looked at again */
        }
        s->pressed = on;
        if (on) {
                run_clock(s, false);
                s->unrecorded = s->o->registry->unrecorded;
        }
        (void)record_text(s->o, on ? LEDGER_SANDBOX_PAUSE : LEDGER_SANDBOX_UNPAUSE, s->id, "operator", "why",
                          s->unrecorded ? "ledger" : "disk");
}

bool life_held(const struct sandbox *s, struct err *err) {
        if (!s->pressed)
                return false;
        (void)call_err(err, -ENOSPC, "sandbox %s is held: %s", s->name[0] ? s->name : s->id,
                       s->unrecorded ? "the ledger cannot be written" : "the disk of the state folder is nearly full");
        (void)err_hint(err, "%s; it goes on by itself then",
                       s->unrecorded ? "make room on the ledger's disk"
                                     : "delete sandboxes or snapshots, or make room");
        return true;
}

/* Those with an operation under way are looked at when it has ended, at the next look. */
void life_hold(struct core *o) {
        for (struct sandbox *s = o->registry->first; s; s = s->next)
                if (s->up && s->state == STATE_RUNNING && ops_idle(&s->ops) && wanted(s) != s->pressed && !o->no_freeze)
                        hold(s, !s->pressed);
}

void life_pressure(struct core *o, bool low) {
        struct registry *r = o->registry;

        if (r->pressure == low)
                return;
        r->pressure = low;
        log_line(low ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, NULL,
                 low ? "the disk of the state folder is nearly full: sandboxes that write are held"
                     : "there is room on the disk of the state folder again");
        (void)record(o, LEDGER_DAEMON_PRESSURE, "", "operator", low ? "{\"low\":true}" : "{\"low\":false}");
        life_hold(o);
}

static void look(struct loop_timer *timer) {
        struct registry *r = LOOP_OWNER(timer, struct registry, health);
        struct core *o = r->o;
        bool bad = o->conf.require_recording && ledger_health(o->ledger) < 0;

        if (bad != r->unrecorded) {
                r->unrecorded = bad;
                log_line(bad ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, NULL,
                         bad ? "the ledger cannot be written (%s): sandboxes are held"
                             : "the ledger can be written again%.0s",
                         err_name(ledger_health(o->ledger)));
        }
        life_hold(o);
        loop_timer_set(o->loop, &r->health, loop_now(o->loop) + LOOK_MS);
}

void life_watch_health(struct core *o) {
        o->registry->health.fire = look;
        loop_timer_set(o->loop, &o->registry->health, loop_now(o->loop) + LOOK_MS);
}
