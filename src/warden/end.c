/* The end of a sandbox, asked for or not: everything in it is killed, counted, and removed. Its disks stay.
 *
 * Nothing here waits: a cgroup whose last task is still on its way out is looked at again a little later. Whoever asked
 * is answered when nothing is left. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/log.h"
#include "cell/ids.h"
#include "warden/step.h"
#include "warden/warden.h"

#define LOOKS_MAX      400  /* some seconds */
#define DISK_LOOKS_MAX 1500 /* half a minute */

static void kill_all(struct sandbox *s) {
        struct cgroup c;

        if (sandbox_cgroup(s, &c) == 0) {
                if (sandbox_evict_all(s, &c))
                        (void)cgroup_kill_pass(&c);
                cgroup_close(&c);
        }
        if (s->pidfd >= 0)
                (void)kernel_pidfd_send_signal(s->pidfd, SIGKILL, NULL);
}

/* What it used, before the counters go. */
static void measure(struct sandbox *s) {
        struct cgroup c;

        memset(&s->usage, 0xff, sizeof s->usage);
        if (sandbox_cgroup(s, &c) < 0)
                return;
        sandbox_measure(s, &c, &s->usage);
        cgroup_close(&c);
}

void end_tell_gone(const struct sandbox *s) {
        struct warden_message m = {.kind = WARDEN_GONE, .error = s->status, .usage = s->usage};

        memcpy(m.id, s->id, sizeof m.id);
        link_tell(s->w, &m);
}

/* Whoever asked is answered; if nobody did, the operator hears of it. False: once there is one. */
static bool tell(struct sandbox *s) {
        struct warden *w = s->w;
        struct warden_message m = {.usage = s->usage};
        struct err cancelled = {0};

        if (s->start_serial != 0) {
                (void)err_set(&cancelled, -ECANCELED, "sandbox '%s' was stopped before it served", s->id);
                link_fail(w, s->start_serial, s->failure ? s->failure->code : cancelled.code,
                          s->failure ? s->failure : &cancelled);
        }
        if (s->stop_serial != 0)
                link_answer(w, s->stop_serial, &m, NULL, 0);
        if (s->start_serial != 0 || s->asked)
                return true;
        log_line(LOG_LEVEL_INFO, s->id, "its first process ended (status 0x%x)", (unsigned)s->status);
        end_tell_gone(s);
        return w->hello;
}

/* empty: nothing of it lives any more, as its cgroups say. */
static void remove_rest(struct sandbox *s, bool empty) {
        struct warden *w = s->w;

        if (s->slot >= 0 && empty)
                ids_release(w->ids, (uint32_t)s->slot);
        else if (s->slot >= 0)
                ids_keep(w->ids, (uint32_t)s->slot);
        s->slot = -1;
        step("released");
        int r = state_remove_tree(w->sandboxes, s->id);
        if (r < 0)
                log_line(LOG_LEVEL_WARNING, s->id, "could not remove its folder: %s", err_name(r));
        step("removed");
        if (s->disk[0] && s->order != ORDER_DONE && !s->abandoned)
                disks_order_late(w, s->disk);
        if (tell(s))
                sandbox_free(s);
        else {
                sandbox_take_out(s);
                s->next = w->gone;
                w->gone = s;
        }
        operator_look(w);
}

/* What was written to its disk goes to the host, and then the disk is free, so that whoever asked for the end can start
 * another one with it. Somebody who reads it may take as long as he likes. */
static bool holds_disk(const struct sandbox *s) {
        const struct warden *w = s->w;

        return s->disk[0] && w->volumes && !work_uses_disk(w, s->disk) && volume_busy(w->volumes, s->disk) == 1;
}

/* Its PID 1 is gone, and so is everything that was in the same pid namespace. */
static void remove_cgroups(struct sandbox *s) {
        struct warden *w = s->w;
        struct cgroup c;
        int r = 0;

        if (sandbox_cgroup(s, &c) == 0) {
                if (s->looks % 32 != 0 || sandbox_evict_all(s, &c))
                        (void)cgroup_kill_pass(&c);
                r = cgroup_nest_remove(s->nest, &c);
                cgroup_close(&c);
        }
        /* its disk is written back while it is unmounted; whoever was answered may want to mount it again */
        if (r == 0 && s->disk[0] && s->asked && volume_busy(w->volumes, s->disk) == 1)
                r = -EAGAIN;
        if ((r == -EBUSY || r == -EAGAIN) && s->looks++ < LOOKS_MAX) {
                loop_timer_set(w->loop, &s->timer, loop_now(w->loop) + MIN(1 + s->looks / 8, 20U));
                return;
        }
        if (r < 0)
                log_line(LOG_LEVEL_WARNING, s->id, "could not %s: %s",
                         r == -EAGAIN ? "wait for the end of its disk" : "remove its cgroups", err_name(r));
        if (holds_disk(s) && s->disk_looks++ < DISK_LOOKS_MAX) {
                loop_timer_set(w->loop, &s->timer, loop_now(w->loop) + MIN(1 + s->disk_looks / 8, 20U));
                return;
        }
        if (r < 0 && r != -EAGAIN)
                remove_rest(s, false);
        else if (box_is_elsewhere(s))
                box_end(s, remove_rest);
        else
                remove_rest(s, true);
}

static void look_again(struct loop_timer *t) {
        remove_cgroups(LOOP_OWNER(t, struct sandbox, timer));
}

static void enter_end(struct sandbox *s) {
        struct warden *w = s->w;

        s->state = SANDBOX_ENDING;
        if (s->disk[0])
                work_spoil_copies(w, s->disk);
        if (s->reports.on)
                loop_unwatch(w->loop, &s->reports);
        fd_close(&s->report);
        fd_close(&s->disk_root);
        loop_timer_clear(w->loop, &s->timer);
        for (size_t i = 0; i < ELEMENTSOF(s->sockets); i++)
                fd_close(&s->sockets[i]);
}

void end_begin(struct sandbox *s) {
        if (s->state == SANDBOX_ENDING)
                return;
        enter_end(s);
        step("ending");
        kill_all(s);
        step("killed");
        if (!s->exit.on) { /* nobody will tell us: look by ourselves */
                measure(s);
                s->timer.fire = look_again;
                loop_timer_set(s->w->loop, &s->timer, loop_now(s->w->loop) + 1);
        }
}

void end_died(struct sandbox *s) {
        int status;

        if (s->child && waitpid(s->pid, &status, WNOHANG) == s->pid)
                s->status = status;
        loop_unwatch(s->w->loop, &s->exit);
        if (s->state != SANDBOX_ENDING)
                enter_end(s);
        measure(s);
        s->timer.fire = look_again;
        remove_cgroups(s);
}

void end_found_dead(struct sandbox *s) {
        enter_end(s);
        measure(s);
        s->timer.fire = look_again;
        loop_timer_set(s->w->loop, &s->timer, loop_now(s->w->loop) + 1);
}

int end_request(struct request *q) {
        struct sandbox *s = sandbox_find(q->w, q->m->id);

        memset(&q->answer.usage, 0xff, sizeof q->answer.usage);
        if (!s)
                return 0;
        if (s->stop_serial != 0)
                return err_set(&q->err, -EALREADY, "sandbox '%s' is being stopped already", s->id);
        s->stop_serial = q->m->serial;
        s->asked = true;
        if (q->m->flags & WARDEN_ABANDON && s->disk[0] && s->state != SANDBOX_ENDING) {
                struct err err = {0};
                s->abandoned = true;
                if (volume_abandon(q->w->volumes, s->disk, &err) < 0)
                        log_err(LOG_LEVEL_WARNING, s->id, &err);
        }
        end_begin(s);
        return REQUEST_LATER;
}

void end_all(struct warden *w) {
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (struct sandbox *s = w->buckets[i], *next; s; s = next) {
                        next = s->next;
                        s->asked = true;
                        end_begin(s);
                }
}
