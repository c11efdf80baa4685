/* Requests about disks and images. The files are disk/volume.h's; here is who may touch them: a disk that a sandbox
 * has, as its own or below it, is neither dropped nor written by anybody else. */
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "warden/step.h"
#include "warden/warden.h"

#define LEAST_SIZE (1U << 20)

int disks_check_size(struct request *q) {
        const struct conf *conf = &q->w->conf;

        if (q->m->size < LEAST_SIZE || q->m->size > conf->ceiling_disk) {
                (void)err_set(&q->err, ERR_REFUSED, "a disk of %llu bytes is not within the ceiling",
                              (unsigned long long)q->m->size);
                return err_hint(&q->err, "stockade.conf: ceiling_disk would have to allow it");
        }
        if (q->m->inodes == 0 || q->m->inodes > conf->ceiling_inodes) {
                (void)err_set(&q->err, ERR_REFUSED, "a disk with %llu files is not within the ceiling",
                              (unsigned long long)q->m->inodes);
                return err_hint(&q->err, "stockade.conf: ceiling_inodes would have to allow it");
        }
        return 0;
}

int disks_check_space(struct request *q) {
        if (!q->w->low_on_space)
                return 0;
        (void)err_set(&q->err, -ENOSPC, "the file system of '%s' is nearly full", q->w->state_path);
        return err_hint(&q->err, "make room, or lower disk_reserve in stockade.conf");
}

/* --- making --- */

int disks_blank(const struct work_job *j, struct work_result *ret, struct err *err) {
        (void)ret;
        return volume_prepare(j->w->volumes, j->m.size, j->m.inodes, 1, err);
}

/* Children do it unless one is in stock: mounting takes its time, and so does mke2fs, for a size that is new. */
int disks_make(struct request *q) {
        int r = disks_check_size(q);

        if (r == 0)
                r = disks_check_space(q);
        if (r == 0 && work_writes_disk(q->w, q->m->id))
                r = err_set(&q->err, -EEXIST, "disk '%s' is being made", q->m->id);
        if (r < 0)
                return r;
        r = warm_make(q);
        if (r != REQUEST_LATER)
                step("disk-made");
        return r;
}

static int reclaim(const struct work_job *j, struct work_result *ret, struct err *err) {
        (void)ret;
        return volume_reclaim(j->w->volumes, err);
}

void disks_reclaim(struct warden *w) {
        static const struct work_how how = {.run = reclaim, .lane = WORK_COPYING};

        (void)work_quietly(w, &how, &(struct warden_message){.kind = WARDEN_DISK_DROP});
}

int disks_drop(struct request *q) {
        if (sandbox_uses_disk(q->w, q->m->id, false) || work_uses_disk(q->w, q->m->id))
                return err_set(&q->err, -EBUSY, "disk '%s' is in use", q->m->id);
        int r = volume_drop(q->w->volumes, q->m->id, &q->err);
        step("disk-dropped");
        if (r == 0)
                disks_reclaim(q->w);
        return r;
}

static int measure(struct warden *w, const char *id, uint64_t ret[], struct err *err) {
        struct volume_space space;

        int r = volume_space(w->volumes, id, &space, err);
        if (r < 0)
                return r;
        ret[WARDEN_SPACE_HOST] = space.host_bytes;
        ret[WARDEN_SPACE_BYTES] = space.bytes;
        ret[WARDEN_SPACE_BYTES_USED] = space.bytes_used;
        ret[WARDEN_SPACE_INODES] = space.inodes;
        ret[WARDEN_SPACE_INODES_USED] = space.inodes_used;
        return 0;
}

static int sync_and_measure(const struct work_job *j, struct work_result *ret, struct err *err) {
        int r = volume_flush(j->w->volumes, j->m.id, err);

        if (r == 0)
                r = volume_sync(j->w->volumes, j->m.id, err);
        return r < 0 ? r : measure(j->w, j->m.id, ret->numbers, err);
}

static int look(const struct work_job *j, struct work_result *ret, struct err *err) {
        return measure(j->w, j->m.id, ret->numbers, err);
}

/* Only a child waits for the host's disk, and for a file system on which a sandbox may be in the middle of a sync. */
int disks_space(struct request *q) {
        static const struct work_how durably = {.run = sync_and_measure, .lane = WORK_COPYING};
        static const struct work_how looking = {.run = look, .lane = WORK_LOOKING};

        if (q->m->flags & WARDEN_DURABLE)
                return work_begin(q, &durably);
        if (sandbox_of_disk(q->w, q->m->id))
                return work_begin(q, &looking);
        return measure(q->w, q->m->id, q->answer.numbers, &q->err);
}

static int prepare_blank(const struct work_job *j, struct work_result *ret, struct err *err) {
        unsigned count = (unsigned)MIN(j->m.numbers[0], VOLUME_READY_MAX + 0ULL);

        (void)ret;
        return volume_prepare(j->w->volumes, j->m.size, j->m.inodes, count, err);
}

int disks_pool(struct request *q) {
        static const struct work_how how = {.run = prepare_blank, .lane = WORK_COPYING};
        int r = disks_check_size(q);

        return r < 0 ? r : work_begin(q, &how);
}

int disks_image_drop(struct request *q) {
        if (sandbox_uses_image(q->w, q->m->id) || work_uses_image(q->w, q->m->id))
                return err_set(&q->err, -EBUSY, "image '%s' is in use", q->m->id);
        return image_drop(q->w->volumes, q->m->id, &q->err);
}

/* --- order --- */

#define ORDER_MS 1000  /* after a start: whoever waits for it has it by then */
#define AGAIN_MS 30000 /* after a failure */

static void each_disk(struct warden *w, void (*fn)(struct sandbox *s)) {
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (struct sandbox *s = w->buckets[i]; s; s = s->next)
                        if (s->disk[0] && s->state != SANDBOX_ENDING)
                                fn(s);
}

static void mark_now(struct sandbox *s) {
        fd_close(&s->disk_root);
        if (s->order == ORDER_NOT && s->state == SANDBOX_RUNNING)
                s->order = ORDER_NOW;
}

static void mark_done(struct sandbox *s) {
        if (s->order == ORDER_NOW)
                s->order = ORDER_DONE;
}

static void mark_not(struct sandbox *s) {
        if (s->order == ORDER_NOW)
                s->order = ORDER_NOT;
}

/* What was made in a hurry waits for the host's disk here, and then its writes are ordered. */
static void order_one(struct sandbox *s) {
        struct err err = {0};

        if (s->order == ORDER_NOW && volume_order(s->w->volumes, s->disk, &err) < 0) {
                log_err(LOG_LEVEL_WARNING, s->id, &err);
                s->order = ORDER_FAILED; /* in the child that does it: for order_run */
        }
}

static void order_begin(struct sandbox *s) {
        if (s->order == ORDER_NOW)
                volume_order_begin(s->w->volumes, s->disk);
}

static int order_prepare(struct work_job *j, struct err *err) {
        (void)err;
        each_disk(j->w, mark_now);
        return 0;
}

static int order_run(const struct work_job *j, struct work_result *ret, struct err *err) {
        (void)ret;
        each_disk(j->w, order_begin);
        each_disk(j->w, order_one);
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (const struct sandbox *s = j->w->buckets[i]; s; s = s->next)
                        if (s->order == ORDER_FAILED)
                                return err_set(err, -EIO, "could not put the disk of '%s' in order", s->id);
        return volume_order_names(j->w->volumes, err);
}

static void order_now(struct loop_timer *t);

static void order_in(struct warden *w, uint64_t ms) {
        w->order_timer.fire = order_now;
        if (w->order_timer.place == 0 || w->order_timer.when > loop_now(w->loop) + ms)
                loop_timer_set(w->loop, &w->order_timer, loop_now(w->loop) + ms);
}

/* What could not be put in order now, because the host's disk is full or the child was killed, is tried again. */
static int order_finish(struct work_job *j, struct work_result *result, struct err *err) {
        (void)err;
        each_disk(j->w, result->code < 0 ? mark_not : mark_done);
        if (result->code < 0)
                order_in(j->w, AGAIN_MS);
        return 0;
}

static void order_now(struct loop_timer *t) {
        static const struct work_how how = {order_prepare, order_run, order_finish, WORK_COPYING, NULL};

        struct warden *w = LOOP_OWNER(t, struct warden, order_timer);

        if (work_quietly(w, &how, &(struct warden_message){.kind = WARDEN_START}) < 0)
                order_in(w, ORDER_MS);
}

static int late_run(const struct work_job *j, struct work_result *ret, struct err *err) {
        (void)ret;
        return volume_order_late(j->w->volumes, j->m.disk, err);
}

void disks_order_late(struct warden *w, const char *disk) {
        static const struct work_how how = {.run = late_run, .lane = WORK_COPYING};
        struct warden_message m = {.kind = WARDEN_DISK_SPACE};

        (void)snprintf(m.disk, sizeof m.disk, "%s", disk); /* not its id: it may be dropped meanwhile */
        (void)work_quietly(w, &how, &m);
}

void disks_order_soon(struct warden *w) {
        order_in(w, ORDER_MS);
}

/* --- copies --- */

static int clone_prepare(struct work_job *j, struct err *err) {
        int r = volume_busy(j->w->volumes, j->m.target);

        if (r != -ENOENT)
                return r < 0 ? err_set(err, r, "cannot look for a disk '%s'", j->m.target)
                             : err_set(err, -EEXIST, "there is a disk '%s' already", j->m.target);
        j->made = true;
        return 0;
}

static int clone_run(const struct work_job *j, struct work_result *ret, struct err *err) {
        (void)ret;
        int r = j->m.flags & WARDEN_FROZEN ? volume_flush(j->w->volumes, j->m.id, err) : 0;
        return r < 0 ? r : volume_clone(j->w->volumes, j->m.id, j->m.target, err);
}

/* Whatever there is of one that is not whole. */
static int clone_finish(struct work_job *j, struct work_result *result, struct err *err) {
        struct err ignored = {0};

        (void)err;
        if (result->code < 0 && j->made) {
                (void)volume_drop(j->w->volumes, j->m.target, &ignored);
                disks_reclaim(j->w);
        }
        return 0;
}

/* Nobody writes to a disk while it is copied: its sandbox is frozen, and stays so (use.c), and no other is started with
 * it (start.c). If that sandbox ends, so does the copy (end.c). */
static int check_source(struct request *q) {
        const struct sandbox *s = sandbox_of_disk(q->w, q->m->id);
        struct cgroup c;

        if (work_writes_disk(q->w, q->m->id))
                return err_set(&q->err, -EBUSY, "disk '%s' is being made", q->m->id);
        if (!s)
                return 0;
        bool frozen = false;
        if (q->m->flags & WARDEN_FROZEN && s->state == SANDBOX_RUNNING && sandbox_cgroup(s, &c) == 0) {
                frozen = cgroup_is_frozen(&c);
                cgroup_close(&c);
        }
        return frozen ? 0 : err_set(&q->err, -EBUSY, "disk '%s' is in use, and its sandbox is not frozen", q->m->id);
}

int disks_clone(struct request *q) {
        static const struct work_how how = {clone_prepare, clone_run, clone_finish, WORK_COPYING, NULL};
        int r = disks_check_space(q);

        if (r == 0)
                r = check_source(q);
        if (r == 0 && work_uses_disk(q->w, q->m->target))
                r = err_set(&q->err, -EEXIST, "disk '%s' is being made", q->m->target);
        return r < 0 ? r : work_begin(q, &how);
}
