/* Starting and stopping what a sandbox is made of: its disk, its process, its guest, its ward at the gate.
 *
 * Always holds: `up` says whether the warden has it. What fails half-way is taken apart before anybody is told. */
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "operator/disk.h"
#include "operator/image.h"
#include "operator/life.h"
#include "operator/run.h"
#include "operator/secret.h"
#include "operator/warden-link.h"

#define FEW 4 /* requests that the warden has to answer: it has time for one more */

/* --- disk -----------------------------------------------------------------------------------------------------------
 */

void start_disk(struct task *t, void (*then)(struct task *t)) {
        const struct disk *d = t->sandbox->disk;
        struct warden_message m = {.kind = WARDEN_DISK_MAKE};

        if (!d) {
                t->error = 0;
                then(t);
                return;
        }
        copy_text(m.id, sizeof m.id, d->id);
        m.size = d->size;
        m.inodes = d->inodes;
        m.owner = d->owner ? d->owner->number : 0;
        task_ask(t, &m, NULL, 0, then);
}

/* --- the gate -------------------------------------------------------------------------------------------------------
 */

static void ask_start(struct task *t);

static void authority(void *data, int error, int fds[GATE_CA_COUNT]) {
        struct task *t = data;

        if (error < 0) {
                start_ward_close(t->sandbox);
                (void)task_fail(t, ERR_UNENFORCED, "the gate could not make an authority for TLS: %s", err_name(error));
                (void)err_hint(&t->err, "rules with methods, paths, a secret or inspect need it");
                t->then(t);
                return;
        }
        for (unsigned i = 0; i < GATE_CA_COUNT; i++)
                t->authority[i] = TAKE_FD(fds[i]);
        t->authority_given = true;
        ask_start(t);
}

int start_ward(struct sandbox *s, struct task *t, struct err *err) {
        const struct frozen *f = s->frozen;
        struct gate_ward_plan plan = {
                .owner = s->owner->name,
                .sandbox = s->id,
                .limits = f->gate,
                .rules = f->rules,
                .rules_size = f->rules_size,
                .trust = f->trust,
        };

        int r = gate_ward_open(s->o, &plan, t && f->trust ? authority : NULL, t, &s->ward, err);
        if (r == 0)
                secret_tell(s);
        return r;
}

void start_ward_close(struct sandbox *s) {
        loop_timer_clear(s->o->loop, &s->network_timer);
        warden_forget(s->o, &s->network_timer);
        if (s->ward)
                gate_ward_close(TAKE_PTR(s->ward));
}

static void key_kept(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        (void)data;
        (void)fds;
        (void)fd_count;
        if (answer->error < 0)
                log_line(LOG_LEVEL_WARNING, NULL, "an authority's key is not kept: %s", answer->text);
}

/* For the next gate, should this one die: programs inside trust this authority and no other. */
static void keep_key(struct task *t) {
        struct warden_message m = {.kind = WARDEN_KEEP_KEY};

        if (t->authority[GATE_CA_KEY] < 0)
                return;
        copy_text(m.id, sizeof m.id, t->sandbox->id);
        (void)warden_call(t->o, &m, &t->authority[GATE_CA_KEY], 1, key_kept, NULL);
}

/* --- start ----------------------------------------------------------------------------------------------------------
 */

static void taken_back(struct task *t) {
        (void)task_fail(t, -EMFILE, "no descriptor is left for a sandbox that was started");
        (void)err_hint(&t->err, "end some sandboxes and connections, or raise the limit of open files (LimitNOFILE)");
        t->then = t->after;
        t->then(t);
}

static void started(struct task *t) {
        struct sandbox *s = t->sandbox;

        if (t->error == -EMFILE) { /* it runs, perhaps, and what came along is lost: nobody could talk to it */
                t->after = t->then;
                stop_sandbox(t, taken_back);
                return;
        }
        if (t->error < 0) {
                start_ward_close(s);
                driver_doubt(s->o, s->driver); /* perhaps it is not what its probe found any more */
                t->then(t);
                return;
        }
        s->up = true;
        s->generation++;
        s->started_ms = s->used_ms = wall_ms();
        s->ended_ms = 0;
        s->reason = REASON_NONE;
        s->budget_check = s->budget_used = 0;
        s->networked = t->answer.flags & WARDEN_NETWORKED;
        if (t->authority_given)
                keep_key(t);
        if (t->fd_count > 0)
                guest_connect(s, TAKE_FD(t->fds[0]));
        if (s->ward && s->networked && t->fd_count > 1) {
                gate_ward_sockets(s->ward, t->fds + 1, t->fd_count - 1);
                t->fd_count = 1;
        }
        if (warden_under_way(s->o) <= FEW) /* many at once: whoever wants to run something asks for a leaf then */
                run_prepare_spare(s);
        t->then(t);
}

static void ask_start(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_START};
        int fds[4] = {-EBADF};
        size_t count = 1;

        fds[0] = frozen_memfd(s->frozen, &t->err);
        if (fds[0] < 0) {
                t->error = fds[0];
                start_ward_close(s);
                t->then(t);
                return;
        }
        m.driver = s->driver;
        copy_text(m.id, sizeof m.id, s->id);
        copy_text(m.disk, sizeof m.disk, s->disk ? s->disk->id : "");
        copy_text(m.image, sizeof m.image, s->image ? s->image->id : "");
        if (s->disk)
                layers_message(&s->layers, &m);
        if (t->authority_given) {
                m.flags |= WARDEN_AUTHORITY;
                for (; count <= GATE_CA_JAVA + 1; count++)
                        fds[count] = t->authority[count - 1];
        }
        task_ask(t, &m, fds, count, started);
}

void start_sandbox(struct task *t, void (*then)(struct task *t)) {
        struct sandbox *s = t->sandbox;

        t->then = then;
        t->authority_given = false;
        if (s->frozen->rules && s->owner) {
                int r = start_ward(s, t, &t->err);
                if (r < 0) {
                        t->error = r;
                        then(t);
                        return;
                }
                if (s->frozen->trust)
                        return; /* authority() goes on */
        }
        ask_start(t);
}

/* --- stop -----------------------------------------------------------------------------------------------------------
 */

static void stopped(struct task *t) {
        struct sandbox *s = t->sandbox;

        s->stopping = false;
        if (t->error == 0) {
                s->up = false;
                s->pressed = s->pausing = s->networked = false;
                if (t->answer.usage.cpu_us != UINT64_MAX)
                        s->cpu_us += t->answer.usage.cpu_us;
                s->ended_ms = wall_ms();
                guest_close(s);
                run_end_all(s, t->reason);
        }
        t->then(t);
}

void stop_sandbox(struct task *t, void (*then)(struct task *t)) {
        struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_STOP, .flags = t->abandon ? WARDEN_ABANDON : 0};

        t->then = then;
        s->stopping = true; /* that its guest hangs up is no news */
        start_ward_close(s);
        run_drop_spare(s);
        copy_text(m.id, sizeof m.id, s->id);
        task_ask(t, &m, NULL, 0, stopped);
}
