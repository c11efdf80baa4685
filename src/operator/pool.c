/* The pool. One sandbox is being made at a time, and none while somebody waits for one of his own, so that filling up
 * never slows down those who asked. A plan that nobody asked for in a while loses its place; so
 * does one whose box could not be made, until somebody asks again: each try may ask an engine, or boot a machine. */
#include "operator/pool.h"

#include "base/log.h"
#include "operator/disk.h"
#include "operator/life.h"
#include "operator/warden-link.h"

#define KINDS_MAX 8
#define REFILL_MS 30              /* after somebody took one */
#define FORGET_MS (600 * 1000ULL) /* a plan that nobody asked for */
#define BACK_OFF  5000            /* after one could not be made */

struct kind {
        struct frozen *frozen;
        enum driver driver;
        struct sandbox *ready[256];
        size_t count;
        uint64_t used; /* loop time */
};

struct pool {
        struct core *o;
        struct kind kinds[KINDS_MAX];
        size_t kind_count;
        struct sandbox *making;
        struct loop_timer timer;
        bool drained;
        unsigned removing;
};

int pool_open(struct core *o, struct err *err) {
        struct pool *p = calloc(1, sizeof *p);

        if (!p)
                return err_set(err, -ENOMEM, "could not begin");
        p->o = o;
        o->registry->pool = p;
        return 0;
}

size_t pool_ready(const struct core *o) {
        size_t n = 0;

        for (size_t i = 0; i < o->registry->pool->kind_count; i++)
                n += o->registry->pool->kinds[i].count;
        return n;
}

void pool_json(const struct core *o, struct json *j) {
        const struct pool *p = o->registry->pool;

        json_u64(j, "ready", pool_ready(o));
        json_u64(j, "size", o->conf.pool);
        json_bool(j, "making", p->making != NULL);
        json_open(j, "kinds", '[');
        for (size_t i = 0; i < p->kind_count; i++) {
                json_open(j, NULL, '{');
                json_str(j, "profile", p->kinds[i].frozen->profile);
                json_str(j, "driver", driver_name(p->kinds[i].driver));
                json_u64(j, "ready", p->kinds[i].count);
                json_close(j, '}');
        }
        json_close(j, ']');
}

bool pool_drained(const struct core *o) {
        const struct pool *p = o->registry->pool;

        return p->drained && !p->making && p->removing == 0;
}

static void removed(struct task *t) {
        struct sandbox *s = t->sandbox;

        if (t->error < 0)
                log_line(LOG_LEVEL_WARNING, NULL, "a pooled sandbox %s could not be removed: %s", s->id, t->err.text);
        s->o->registry->pool->removing--;
        task_end(t);
        guest_close(s); /* also of one that could not be stopped */
        life_bury(s);
}

static void remove_begin(struct task *t) {
        t->abandon = true;
        stop_sandbox(t, removed);
}

void pool_discard(struct sandbox *s) {
        struct task *t = task_new(s, NULL, remove_begin);

        if (!t)
                return;
        s->o->registry->pool->removing++;
        task_go(t);
}

static void kind_clear(struct pool *p, struct kind *k) {
        while (k->count > 0)
                pool_discard(k->ready[--k->count]);
        frozen_unref(k->frozen);
        p->kind_count--;
        memmove(k, k + 1, (size_t)(p->kinds + p->kind_count - k) * sizeof *k);
}

static bool can_make(const struct pool *p) {
        const struct registry *r = p->o->registry;

        return !p->drained && !p->making && !p->o->draining && !r->pressure && !r->unrecorded && !r->adoption &&
               !life_few_descriptors(p->o);
}

static void refill(struct loop_timer *timer);

static void later(struct pool *p, uint64_t ms) {
        p->timer.fire = refill;
        loop_timer_set(p->o->loop, &p->timer, loop_now(p->o->loop) + ms);
}

static struct kind *find(struct pool *p, const struct frozen *f, enum driver d) {
        for (size_t i = 0; i < p->kind_count; i++)
                if (p->kinds[i].frozen == f && p->kinds[i].driver == d)
                        return &p->kinds[i];
        return NULL;
}

static void made(struct task *t) {
        struct pool *p = t->o->registry->pool;
        struct sandbox *s = t->sandbox;
        struct kind *k = find(p, s->frozen, s->driver);
        bool good = t->error == 0 && s->up && s->guest;

        if (!good)
                log_line(LOG_LEVEL_WARNING, NULL, "no sandbox could be prepared: %s", t->err.text);
        task_end(t);
        p->making = NULL;
        if (!good && k && k->driver != DRIVER_NATIVE) {
                kind_clear(p, k);
                k = NULL;
        }
        if (good && k && !p->drained && k->count < p->o->conf.pool)
                k->ready[k->count++] = s;
        else if (s->up)
                pool_discard(s);
        else
                life_bury(s);
        later(p, good ? 0 : BACK_OFF);
}

static void make_start(struct task *t) {
        if (t->error < 0)
                made(t);
        else
                start_sandbox(t, made);
}

static void make_begin(struct task *t) {
        start_disk(t, make_start);
}

static void make(struct pool *p, struct kind *k) {
        struct sandbox *s = sandbox_new(p->o, k->frozen);
        struct task *t = NULL;

        if (s)
                s->driver = k->driver;
        if (s && k->frozen->disk)
                s->disk = disk_new(p->o, NULL, k->frozen->disk_size, k->frozen->disk_inodes);
        if (s && (s->disk || !k->frozen->disk))
                t = task_new(s, NULL, make_begin);
        if (!t) {
                if (s)
                        sandbox_free(s);
                later(p, BACK_OFF);
                return;
        }
        s->state = STATE_RUNNING; /* as far as its guest and its leaves are concerned */
        p->making = s;
        task_go(t);
}

static void refill(struct loop_timer *timer) {
        struct pool *p = LOOP_OWNER(timer, struct pool, timer);
        uint64_t now = loop_now(p->o->loop);

        for (size_t i = 0; i < p->kind_count; i++)
                if (now > p->kinds[i].used + FORGET_MS)
                        kind_clear(p, &p->kinds[i--]);
        if (!can_make(p)) {
                if (!p->making && p->kind_count > 0 && !p->drained)
                        later(p, BACK_OFF);
                return;
        }
        for (size_t i = 0; i < p->kind_count; i++)
                if (p->kinds[i].count < p->o->conf.pool) {
                        make(p, &p->kinds[i]);
                        return;
                }
        if (p->kind_count > 0)
                later(p, FORGET_MS / 4);
}

static void pool_told(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        (void)data;
        (void)fds;
        (void)fd_count;
        if (answer->error < 0)
                log_line(LOG_LEVEL_WARNING, NULL, "blank disks are not kept ready: %s", answer->text);
}

static bool is_pooled(const struct core *o, enum driver d) {
        for (size_t i = 0; i < o->conf.pool_drivers.count; i++)
                if (driver_find(o->conf.pool_drivers.items[i]) == (int)d)
                        return true;
        return false;
}

void pool_wanted(struct core *o, struct frozen *f, enum driver d) {
        struct pool *p = o->registry->pool;
        struct kind *k = find(p, f, d);

        /* an authority belongs to an owner's gate, an image may be removed: those are made when they are asked for */
        if (o->conf.pool == 0 || !is_pooled(o, d) || p->drained || f->trust || f->image_root)
                return;
        if (!k && p->kind_count == KINDS_MAX) {
                struct kind *oldest = &p->kinds[0];

                for (size_t i = 1; i < p->kind_count; i++)
                        if (p->kinds[i].used < oldest->used)
                                oldest = &p->kinds[i];
                kind_clear(p, oldest);
        }
        if (!k) {
                k = &p->kinds[p->kind_count++];
                *k = (struct kind){.frozen = frozen_ref(f), .driver = d};
                if (f->disk && !o->rootless) { /* and blank disks of this kind */
                        struct warden_message m = {.kind = WARDEN_POOL,
                                                   .size = f->disk_size,
                                                   .inodes = f->disk_inodes,
                                                   .numbers = {o->conf.pool}};

                        (void)warden_call(o, &m, NULL, 0, pool_told, NULL);
                }
        }
        k->used = loop_now(o->loop);
        later(p, REFILL_MS);
}

struct sandbox *pool_take(struct core *o, struct frozen *f, enum driver d) {
        struct kind *k = find(o->registry->pool, f, d);

        while (k && k->count > 0) {
                struct sandbox *s = k->ready[--k->count];

                if (s->up && s->guest) {
                        s->from_pool = true;
                        s->created_ms = s->used_ms = s->started_ms = wall_ms();
                        return s;
                }
                pool_discard(s);
        }
        return NULL;
}

bool pool_gone(struct core *o, const char *id) {
        struct pool *p = o->registry->pool;

        for (size_t i = 0; i < p->kind_count; i++)
                for (size_t n = 0; n < p->kinds[i].count; n++)
                        if (str_eq(p->kinds[i].ready[n]->id, id)) {
                                struct sandbox *s = p->kinds[i].ready[n];

                                p->kinds[i].ready[n] = p->kinds[i].ready[--p->kinds[i].count];
                                guest_close(s);
                                s->up = false;
                                sandbox_free(s);
                                later(p, BACK_OFF);
                                return true;
                        }
        return p->making && str_eq(p->making->id, id);
}

void pool_drain(struct core *o) {
        struct pool *p = o->registry->pool;

        p->drained = true;
        loop_timer_clear(o->loop, &p->timer);
        while (p->kind_count > 0)
                kind_clear(p, &p->kinds[0]);
}

void pool_close(struct core *o) {
        struct pool *p = o->registry->pool;

        if (!p)
                return;
        loop_timer_clear(o->loop, &p->timer);
        for (size_t i = 0; i < p->kind_count; i++) {
                for (size_t n = 0; n < p->kinds[i].count; n++) {
                        guest_close(p->kinds[i].ready[n]);
                        sandbox_free(p->kinds[i].ready[n]);
                }
                frozen_unref(p->kinds[i].frozen);
        }
        free(p);
        o->registry->pool = NULL;
}
