/* Stop, resume, pause, unpause, delete: what a sandbox goes through after it was created. Each is a chain of steps; the
 * state in the row says to a successor what was being done.
 *
 *   pause, unpause   the row has the new state, then it is done: a successor does it again
 *   stop             `stopping`, then it is killed, then `stopped`
 *   resume           `starting`, then it is started, then `running`
 *   delete           `deleting`, then it is killed, then the row goes and its disk with it */
#include "operator/life.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/reaper.h"
#include "operator/run.h"
#include "operator/secret.h"
#include "operator/snapshot.h"
#include "operator/warden-link.h"

#define FDS_EACH      8     /* of a sandbox: its guest, a leaf, what it prints */
#define FDS_TRIED_MAX 16384 /* more than that under way at once is too many */
#define FDS_SPARE     128   /* for what goes on, for its end, and for clients: server.c keeps 64 */
#define NEW_MS        60000 /* a disk that nobody is known to have used for longer than this */
#define BURY_MS       5000  /* for clients that still read what a deleted sandbox printed */
#define PATIENCE_MS   10000 /* for a full disk, when something was deleted from it */

/* Numbers are given from below, so where the last ones were never reached there are enough. Otherwise it is tried: what
 * is free may be anywhere. What the warden was asked for and has not sent counts. */
bool life_few_descriptors(const struct core *o) {
        struct rlimit most;
        int fds[FDS_TRIED_MAX];
        size_t count = 0;

        if (getrlimit(RLIMIT_NOFILE, &most) < 0 || most.rlim_cur > INT_MAX)
                return false;
        size_t needed = (warden_under_way(o) + 1) * FDS_EACH + MIN((size_t)most.rlim_cur / 4, (size_t)FDS_SPARE);
        if (needed > MIN((size_t)most.rlim_cur, ELEMENTSOF(fds)))
                return true;
        int last = (int)(most.rlim_cur - needed);
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, last);
        if (fd >= 0)
                (void)close(fd);
        if (fd == last)
                return false;
        while (count < needed && (fds[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
                count++;
        for (size_t i = 0; i < count; i++)
                (void)close(fds[i]);
        return count < needed;
}

bool life_refuses(struct core *o, bool writes, struct err *err) {
        const struct registry *r = o->registry;

        if (o->draining) {
                (void)call_err(err, -EBUSY, "the daemon is ending");
                (void)err_hint(err, "start it again: stockade up");
        } else if (r->unrecorded || (o->conf.require_recording && ledger_health(o->ledger) < 0)) {
                (void)call_err(err, -ENOSPC, "the ledger cannot be written, so nothing new may begin");
                (void)err_hint(err, "make room on its disk; it goes on by itself then");
        } else if (store_health(o->store) < 0) {
                (void)call_err(err, -ENOSPC, "nothing can be written down, so nothing new may begin: %s",
                               err_name(store_health(o->store)));
                (void)err_hint(err, "make room on the disk of the state folder; it goes on by itself then");
        } else if (writes && r->pressure) {
                (void)call_err(err, -ENOSPC, "the disk of the state folder is nearly full, so no new disk is made");
                (void)err_hint(err, "delete sandboxes or snapshots, or make room: disk_reserve in stockade.conf");
        } else if (life_few_descriptors(o)) {
                (void)call_err(err, -EBUSY, "hardly any descriptor is left, so nothing new may begin");
                (void)err_hint(err, "stop sandboxes, end connections, or raise the limit of open files (LimitNOFILE)");
        } else
                return false;
        return true;
}

/* --- pause and unpause ----------------------------------------------------------------------------------------------
 */

/* True: there is nothing to do, and it is being said. */
static bool is_so_already(struct task *t, enum state to) {
        if (t->sandbox->state != to)
                return false;
        task_settle(t);
        task_commit(t, task_answer);
        return true;
}

static void freeze(struct task *t, bool on, void (*then)(struct task *t)) {
        struct warden_message m = {.kind = on ? WARDEN_FREEZE : WARDEN_THAW};

        copy_text(m.id, sizeof m.id, t->sandbox->id);
        task_ask(t, &m, NULL, 0, then);
}

static void paused(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct err why = t->err;

        step(t->o, "pause.frozen");
        if (t->error == 0) {
                run_clock(s, false);
                task_finish(t);
                return;
        }
        if (!s->up) { /* it died meanwhile: there is nothing to take back */
                task_refuse(t);
                return;
        }
        s->state = STATE_RUNNING;
        task_rows(t, sandbox_put(s, false));
        (void)record_text(t->o, LEDGER_SANDBOX_UNPAUSE, s->id, "operator", "why", why.text);
        task_commit(t, task_refuse); /* it could not be done: the row says again what is */
        t->err = why;
}

static void pause_freeze(struct task *t) {
        step(t->o, "pause.row");
        if (t->error < 0) {
                if (t->sandbox->state == STATE_PAUSED)
                        t->sandbox->state = STATE_RUNNING;
                task_refuse(t);
        } else
                freeze(t, true, paused);
}

static void pause_begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        enum state to;

        if (!task_allowed(t, EVENT_PAUSE, &to) || is_so_already(t, to))
                return;
        if (t->o->no_freeze) {
                (void)task_fail(t, ERR_UNENFORCED, "this host cannot pause a sandbox: it has no cgroup v2");
                (void)err_hint(&t->err, "'stockade doctor' shows what this host lacks");
                task_refuse(t);
                return;
        }
        if (!task_event(t, LEDGER_SANDBOX_PAUSE, NULL)) {
                task_refuse(t);
                return;
        }
        s->state = to;
        task_write(t, pause_freeze);
}

struct task *life_pause(struct sandbox *s, struct call *call) {
        return task_new(s, call, pause_begin);
}

static void unpaused(struct task *t) {
        struct sandbox *s = t->sandbox;

        step(t->o, "unpause.thawed");
        if (t->error == 0) {
                sandbox_touch(s);
                run_clock(s, true);
                if (!s->guest)
                        guest_reconnect(s);
                reaper_look(s);
        }
        task_answer(t);
}

static void unpause_thaw(struct task *t) {
        step(t->o, "unpause.row");
        if (t->error < 0) {
                if (t->sandbox->state == STATE_RUNNING)
                        t->sandbox->state = STATE_PAUSED;
                task_refuse(t);
        } else
                freeze(t, false, unpaused);
}

static void unpause_begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        enum state to;

        if (!task_allowed(t, EVENT_UNPAUSE, &to) || is_so_already(t, to))
                return;
        if (life_refuses(t->o, s->disk != NULL, &t->err) || !task_event(t, LEDGER_SANDBOX_UNPAUSE, NULL)) {
                task_refuse(t);
                return;
        }
        s->state = to;
        task_write(t, unpause_thaw);
}

struct task *life_unpause(struct sandbox *s, struct call *call) {
        return task_new(s, call, unpause_begin);
}

/* --- stop -----------------------------------------------------------------------------------------------------------
 */

static void stop_answer(struct task *t) {
        step(t->o, "stop.done");
        if (t->error == 0 && t->sandbox->frozen->snapshot_on_stop && t->sandbox->disk && t->reason != REASON_ROLLBACK) {
                struct task *snap = snapshot_make(t->sandbox, NULL, "");

                if (snap)
                        task_go(snap);
        }
        flatten_look(t->sandbox);
        task_answer(t);
}

static void stop_killed(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct err why = t->err;

        step(t->o, "stop.killed");
        if (t->error < 0) {
                s->state = STATE_FAILED;
                s->reason = REASON_DRIVER_FAILED;
                (void)record_text(t->o, LEDGER_SANDBOX_FAIL, s->id, "operator", "why", why.text);
                (void)sandbox_put(s, false);
                task_refuse(t);
                return;
        }
        s->state = STATE_STOPPED;
        s->reason = t->reason;
        admission_leave(s);
        reaper_look(s);
        task_write(t, stop_answer);
}

static void stop_kill(struct task *t) {
        step(t->o, "stop.row");
        if (t->error < 0)
                task_refuse(t); /* still `stopping` in memory: whoever asks again tries again */
        else
                stop_sandbox(t, stop_killed);
}

static void stop_begin(struct task *t) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct sandbox *s = t->sandbox;
        enum state to;

        if (s->state == STATE_STOPPING)
                to = STATE_STOPPING;
        else if (!task_allowed(t, EVENT_STOP, &to))
                return;
        if (to == STATE_STOPPED) {
                task_settle(t);
                task_commit(t, task_answer);
                return;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "reason", reason_name(t->reason));
        json_close(&j, '}');
        if (!task_event(t, LEDGER_SANDBOX_STOP, b.data)) {
                task_refuse(t);
                return;
        }
        s->state = to;
        s->reason = t->reason;
        task_rows(t, sandbox_put(s, false));
        task_commit(t, stop_kill);
}

struct task *life_stop(struct sandbox *s, struct call *call, enum reason reason) {
        struct task *t = task_new(s, call, stop_begin);

        if (t)
                t->reason = reason;
        return t;
}

/* --- resume ---------------------------------------------------------------------------------------------------------
 */

static void resume_answer(struct task *t) {
        step(t->o, "resume.done");
        task_answer(t);
}

static void resume_started(struct task *t);

static void remade(struct task *t) {
        step(t->o, "resume.remade");
        if (t->error < 0)
                resume_started(t);
        else
                start_sandbox(t, resume_started);
}

static void lost_dropped(struct task *t) {
        if (t->error < 0)
                resume_started(t);
        else
                start_disk(t, remade);
}

/* A power cut took its disk, of which it had just been told. Only in its first moments: whatever else may have happened
 * to a disk, it is not ours to put an empty one in its place. True: it is made again, blank. */
static bool remake_disk(struct task *t) {
        const struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_DISK_DROP};

        if (t->error != -ENODATA || t->remade || !s->disk || !life_disk_was_new(s))
                return false;
        log_line(LOG_LEVEL_WARNING, s->id, "its disk %s was lost with the power, and is made again, blank",
                 s->disk->id);
        if (!task_event(t, LEDGER_DISK_LOST,
                        "{\"why\":\"the power went before it was on the host's disk; it is blank now\"}"))
                return false;
        t->remade = true;
        copy_text(m.id, sizeof m.id, s->disk->id);
        task_ask(t, &m, NULL, 0, lost_dropped);
        return true;
}

bool life_disk_was_new(const struct sandbox *s) {
        return s->used_ms < s->disk->created_ms + NEW_MS;
}

static void resume_started(struct task *t) {
        struct sandbox *s = t->sandbox;

        step(t->o, "resume.started");
        if (remake_disk(t))
                return;
        if (t->error < 0) {
                admission_leave(s);
                task_gave_up(t, STATE_STOPPED);
                return;
        }
        s->state = STATE_RUNNING;
        reaper_look(s);
        (void)task_event(t, LEDGER_SANDBOX_START, NULL);
        task_write(t, resume_answer);
}

static void resume_start(struct task *t) {
        step(t->o, "resume.row");
        if (t->error < 0) {
                if (t->sandbox->state == STATE_STARTING)
                        t->sandbox->state = STATE_STOPPED;
                admission_leave(t->sandbox);
                task_refuse(t);
        } else
                start_sandbox(t, resume_started);
}

/* A sandbox that used up what it was given does not get it again by stopping and starting. */
static bool used_up(struct task *t) {
        const struct sandbox *s = t->sandbox;
        const struct frozen *f = s->frozen;
        uint64_t lifetime = reaper_lifetime(s);

        if (f->budget_cpu != FROZEN_UNSET && s->cpu_us / 1000 >= f->budget_cpu)
                (void)task_fail(t, ERR_REFUSED, "its processor time (budget.cpu) is used up");
        else if (lifetime != FROZEN_UNSET && wall_ms() >= s->created_ms + lifetime)
                (void)task_fail(t, ERR_REFUSED, "its time (time.lifetime) is over");
        else
                return false;
        (void)err_hint(&t->err, "snapshot it and fork the snapshot, or create another one with a larger budget");
        return true;
}

/* Another driver than before, if one is named: what it has is on its disk. */
static bool moves(struct task *t) {
        struct sandbox *s = t->sandbox;
        char asked[33], why[DRIVER_WHY];
        enum driver d = s->driver;

        if (!t->call || !call_has(t->call, "driver"))
                return true;
        int r = driver_choose(t->o, s->frozen, call_text(t->call, "driver", asked, sizeof asked), &d, why, &t->err);
        if (r == -EAGAIN)
                (void)task_fail(t, -EBUSY, "the drivers of this host are being looked at");
        if (r < 0)
                return false;
        s->driver = d;
        copy_text(s->driver_why, sizeof s->driver_why, why);
        return true;
}

static void resume_begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        enum state to;

        if (s->state == STATE_STARTING) /* found by the adoption */
                to = STATE_STARTING;
        else if (!task_allowed(t, EVENT_RESUME, &to))
                return;
        if (to == STATE_RUNNING) {
                task_settle(t);
                task_commit(t, task_answer);
                return;
        }
        if (life_refuses(t->o, s->disk != NULL, &t->err) || used_up(t) || !moves(t) ||
            admission_enter(s, 0, &t->err) < 0 || !task_event(t, LEDGER_SANDBOX_RESUME, NULL)) {
                admission_leave(s);
                if (s->state == STATE_STARTING) { /* it was not resumed after all */
                        s->state = STATE_STOPPED;
                        (void)sandbox_put(s, false);
                }
                task_refuse(t);
                return;
        }
        flatten_apply(t);
        s->state = to;
        task_rows(t, sandbox_put(s, false));
        task_commit(t, resume_start);
}

struct task *life_resume(struct sandbox *s, struct call *call) {
        return task_new(s, call, resume_begin);
}

/* --- delete ---------------------------------------------------------------------------------------------------------
 */

static void bury_timer(struct loop_timer *timer) {
        life_bury(LOOP_OWNER(timer, struct sandbox, timer));
}

static void bury(struct loop_task *task) {
        struct sandbox *s = LOOP_OWNER(task, struct sandbox, bury);

        if (ops_idle(&s->ops) && !s->runs && !s->ghosts) {
                sandbox_free(s);
                return;
        }
        if (wall_ms() > s->ended_ms + BURY_MS) /* they had time to read the rest */
                run_cut_off(s, "it has been deleted", "the sandbox was deleted");
        s->timer.fire = bury_timer; /* the last words about its runs are still being written */
        loop_timer_set(s->o->loop, &s->timer, loop_now(s->o->loop) + 20);
}

void life_bury(struct sandbox *s) {
        s->bury.run = bury;
        loop_later(s->o->loop, &s->bury);
}

static void delete_answer(struct task *t) {
        struct sandbox *s = t->sandbox;

        step(t->o, "delete.gone");
        if (t->error < 0) {
                (void)task_fail(t, -ENOSPC, "sandbox %s is deleted, but that could not be written down yet", s->id);
                (void)err_hint(&t->err, "make room on the disk of the state folder");
                task_refuse(t);
        } else
                task_finish(t);
        life_bury(s);
}

/* What lies on the disk goes at once, whoever still reads its logs. */
static void release_disk(struct sandbox *s) {
        flatten_drop(s);
        layers_clear(&s->layers);
        disk_unref(TAKE_PTR(s->disk));
        if (s->image)
                s->image->refs--;
        s->image = NULL;
}

static void delete_killed(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct store_sandbox grave = {.created_ms = s->created_ms, .ended_ms = wall_ms()};
        struct buf nothing = {0};

        step(t->o, "delete.killed");
        if (t->error < 0) {
                task_refuse(t); /* stays `deleting`: asked again, it is tried again */
                return;
        }
        s->state = STATE_DELETED;
        admission_leave(s);
        copy_text(grave.id, sizeof grave.id, s->id);
        copy_text(grave.owner, sizeof grave.owner, s->owner->name);
        copy_text(grave.state, sizeof grave.state, state_name(s->state));
        copy_text(grave.driver, sizeof grave.driver, driver_name(s->driver));
        grave.policy = grave.plan = "";
        run_forget_all(s);
        store_begin(t->o->store);
        task_rows(t, store_put(t->o->store, STORE_SANDBOX, &grave));
        if (t->call)
                task_rows(t, call_settle(t->call, &nothing));
        store_end(t->o->store);
        s->ended_ms = grave.ended_ms;
        sandbox_unregister(s);
        grave_add(t->o, s->id, s->owner->name, wall_ms());
        release_disk(s); /* after the rows: whoever finds them undone finds `deleting`, or a disk that is not there */
        t->durable.patience = loop_now(t->o->loop) + PATIENCE_MS;
        task_commit(t, delete_answer);
}

/* On a full disk this is what makes room: then event and rows, which wait in memory, can be written. */
static void delete_kill(struct task *t) {
        step(t->o, "delete.row");
        t->error = 0;
        stop_sandbox(t, delete_killed);
}

static void delete_begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct buf nothing = {0};
        enum state to;

        if (!task_allowed(t, EVENT_DELETE, &to))
                return;
        if (s->state == STATE_DELETED) {
                if (t->call)
                        (void)call_settle(t->call, &nothing);
                task_finish(t);
                return;
        }
        if (state_alive(s->state) && !t->force) {
                (void)task_fail(t, -EEXIST, "sandbox %s is %s", s->name[0] ? s->name : s->id, state_name(s->state));
                (void)err_hint(&t->err, "stop it first, or delete it by force");
                task_refuse(t);
                return;
        }
        if (s->state != STATE_DELETING && !task_event(t, LEDGER_SANDBOX_DELETE, NULL)) {
                task_refuse(t);
                return;
        }
        t->reason = REASON_STOPPED;
        t->abandon = true;
        s->state = to;
        reaper_look(s);
        store_begin(t->o->store); /* one that goes on has its secrets */
        task_rows(t, secret_forget(s));
        task_rows(t, sandbox_put(s, false));
        store_end(t->o->store);
        task_commit(t, delete_kill);
}

struct task *life_delete(struct sandbox *s, struct call *call, bool force) {
        struct task *t = task_new(s, call, delete_begin);

        if (t)
                t->force = force;
        return t;
}

/* --- what happens by itself -----------------------------------------------------------------------------------------
 */

static void lost_begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        enum state to;

        if (s->up && s->generation == t->generation && state_move(s->state, EVENT_DIED, &to)) {
                start_ward_close(s);
                guest_close(s);
                run_drop_spare(s);
                s->up = s->pressed = s->pausing = s->networked = false;
                run_end_all(s, t->reason);
                s->ended_ms = wall_ms();
                if (to == STATE_STOPPED) {
                        s->reason = t->reason;
                        admission_leave(s);
                        flatten_look(s);
                }
                s->state = to;
                (void)record_text(t->o, LEDGER_SANDBOX_FAIL, s->id, "operator", "reason", reason_name(t->reason));
                (void)sandbox_put(s, false);
                reaper_look(s);
        }
        task_end(t);
}

void life_lost(struct sandbox *s, enum reason reason) {
        struct task *t = task_new(s, NULL, lost_begin);

        if (!t)
                return;
        t->reason = reason;
        t->generation = s->generation;
        task_go(t);
}

/* The warden has cleaned up already. Waits its turn: a stop that is under way has the first word. What comes before the
 * warden said that this life has begun is about the one before. */
void life_died(struct sandbox *s, const struct warden_message *m) {
        uint64_t kills = m->usage.oom_kills;

        if (m->usage.cpu_us != UINT64_MAX)
                s->cpu_us += m->usage.cpu_us;
        if (s->up)
                life_lost(s, kills != UINT64_MAX && kills > 0 ? REASON_OOM
                             : m->error >= 0                  ? REASON_SIGNAL
                                                              : REASON_LOST);
}
