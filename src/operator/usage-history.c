/* Rings of samples, one per sandbox that is looked at. The warden is asked, a few sandboxes at a time; an answer that
 * comes when its ring is gone is for nobody. When there are too many rings, that of the sandbox that nobody has asked
 * for longest goes, of the owner who has most: nobody loses his because of others. */
#include "operator/usage-history.h"

#include "base/json-read.h"
#include "operator/verbs.h"
#include "operator/warden-link.h"

#define EVERY_MS    2000
#define SAMPLES     720
#define UNASKED_MS  (300 * 1000)
#define RINGS_MAX   256
#define RINGS_OWNER 64
#define TICK_MS     250
#define TICK_MAX    32 /* sandboxes that are measured in one tick */
#define SPACE_EACH  5  /* every so many samples its disk is measured, too */
#define RECENT      30

struct sample {
        uint64_t at_ms;                                                               /* wall clock */
        uint64_t cpu_us, memory, io_read, io_write, net_in, net_out, processes, disk; /* UINT64_MAX: unknown */
};

struct ring {
        struct table_node node;
        struct ring *next;
        char id[STORE_ID];
        struct owner *owner;
        uint64_t asked, due; /* loop time */
        uint64_t taken;      /* samples so far: the newest is samples[(taken - 1) % SAMPLES] */
        bool waiting;        /* for the warden */
        size_t room;         /* grows to SAMPLES, and goes round then */
        struct sample *samples;
};

struct histories {
        struct core *o;
        struct table by_id;
        struct ring *rings;
        size_t count;
        struct loop_timer timer;
};

static void drop(struct histories *h, struct ring *r) {
        for (struct ring **at = &h->rings; *at; at = &(*at)->next)
                if (*at == r) {
                        *at = r->next;
                        break;
                }
        table_remove(&h->by_id, &r->node);
        h->count--;
        free(r->samples);
        free(r);
}

void usage_history_close(struct core *o) {
        struct histories *h = TAKE_PTR(o->registry->histories);

        if (!h)
                return;
        loop_timer_clear(o->loop, &h->timer);
        while (h->rings)
                drop(h, h->rings);
        table_free(&h->by_id);
        free(h);
}

static struct ring *find(struct core *o, const char *id) {
        struct table_node *n = o->registry->histories ? table_find(&o->registry->histories->by_id, id) : NULL;

        return n ? TABLE_OWNER(n, struct ring, node) : NULL;
}

/* --- measuring ------------------------------------------------------------------------------------------------------
 */

static bool grow(struct ring *r) {
        size_t room = r->room ? MIN(r->room * 2, (size_t)SAMPLES) : 32;

        if (r->taken < r->room || r->room == SAMPLES)
                return true;
        struct sample *more = realloc(r->samples, room * sizeof *more);
        if (!more)
                return false;
        r->samples = more;
        r->room = room;
        return true;
}

static uint64_t sum(uint64_t a, uint64_t b) {
        return a == UINT64_MAX || b == UINT64_MAX ? UINT64_MAX : a + b;
}

static void take(struct ring *r, const struct sandbox *s, const struct warden_usage *u) {
        struct sample x = {.at_ms = wall_ms(),
                           .cpu_us = sum(s->cpu_us, u->cpu_us),
                           .memory = u->memory_now,
                           .io_read = u->read_bytes,
                           .io_write = u->write_bytes,
                           .net_in = UINT64_MAX,
                           .net_out = UINT64_MAX,
                           .processes = u->processes_now,
                           .disk = s->disk ? s->disk->used : UINT64_MAX};

        if (s->ward)
                gate_ward_moved(s->ward, &x.net_out, &x.net_in);
        if (grow(r))
                r->samples[r->taken++ % SAMPLES] = x;
}

/* Which one an answer is about: it may be gone by then. */
struct question {
        struct core *o;
        char id[STORE_ID], disk[STORE_ID]; /* the disk that it had */
};

static void used(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct question *q = data;
        struct ring *r = find(q->o, q->id);
        const struct sandbox *s = sandbox_find(q->o, q->id);

        (void)fds;
        (void)fd_count;
        if (r) {
                r->waiting = false;
                if (s && s->up && answer->error == 0)
                        take(r, s, &answer->usage);
        }
        free(q);
}

static void space(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct question *q = data;
        struct sandbox *s = sandbox_find(q->o, q->id);

        (void)fds;
        (void)fd_count;
        if (s && s->disk && str_eq(s->disk->id, q->disk) && answer->error == 0)
                s->disk->used = answer->numbers[WARDEN_SPACE_BYTES_USED];
        free(q);
}

static bool ask(struct sandbox *s, struct warden_message *m, warden_done *done) {
        struct question *q = malloc(sizeof *q);

        if (!q)
                return false;
        q->o = s->o;
        copy_text(q->id, sizeof q->id, s->id);
        copy_text(q->disk, sizeof q->disk, s->disk ? s->disk->id : "");
        if (warden_call(s->o, m, NULL, 0, done, q) == 0)
                return true;
        free(q);
        return false;
}

static void measure(struct ring *r, struct sandbox *s) {
        struct warden_message m = {.kind = WARDEN_USAGE};

        if (!s->up || r->waiting)
                return;
        if (s->disk && r->taken % SPACE_EACH == 0) {
                struct warden_message d = {.kind = WARDEN_DISK_SPACE};

                copy_text(d.id, sizeof d.id, s->disk->id);
                (void)ask(s, &d, space);
        }
        copy_text(m.id, sizeof m.id, s->id);
        r->waiting = ask(s, &m, used);
}

static void tick(struct loop_timer *timer) {
        struct histories *h = LOOP_OWNER(timer, struct histories, timer);
        uint64_t now = loop_now(h->o->loop);
        unsigned left = TICK_MAX;

        for (struct ring *r = h->rings, *next; r; r = next) {
                struct sandbox *s = sandbox_find(h->o, r->id);

                next = r->next;
                if (!s || now - r->asked >= UNASKED_MS)
                        drop(h, r);
                else if (r->due <= now && left > 0) {
                        left--;
                        r->due = now + EVERY_MS;
                        measure(r, s);
                }
        }
        if (h->rings)
                loop_timer_set(h->o->loop, timer, now + TICK_MS);
}

/* --- rings ----------------------------------------------------------------------------------------------------------
 */

static size_t count_of(const struct histories *h, const struct owner *owner) {
        size_t n = 0;

        for (const struct ring *r = h->rings; r; r = r->next)
                n += r->owner == owner;
        return n;
}

static void make_room(struct histories *h, const struct owner *mine) {
        const struct owner *most = mine;
        struct ring *oldest = NULL;

        if (count_of(h, mine) < RINGS_OWNER) {
                if (h->count < RINGS_MAX)
                        return;
                for (const struct ring *r = h->rings; r; r = r->next)
                        if (count_of(h, r->owner) > count_of(h, most))
                                most = r->owner;
        }
        for (struct ring *r = h->rings; r; r = r->next)
                if (r->owner == most && (!oldest || r->asked <= oldest->asked))
                        oldest = r;
        if (oldest)
                drop(h, oldest);
}

static struct histories *open_histories(struct core *o) {
        struct histories *h = o->registry->histories;

        if (h || !(h = calloc(1, sizeof *h)))
                return h;
        h->o = o;
        h->timer.fire = tick;
        return o->registry->histories = h;
}

/* The sandbox's ring, which is measured from now on; NULL: no memory. */
static struct ring *look_at(struct sandbox *s) {
        struct histories *h = open_histories(s->o);
        uint64_t now = loop_now(s->o->loop);
        struct ring *r = h ? find(s->o, s->id) : NULL;

        if (!h)
                return NULL;
        if (!r) {
                make_room(h, s->owner);
                if (!(r = calloc(1, sizeof *r)))
                        return NULL;
                copy_text(r->id, sizeof r->id, s->id);
                r->owner = s->owner;
                if (table_add(&h->by_id, &r->node, r->id) < 0) {
                        free(r);
                        return NULL;
                }
                r->next = h->rings;
                h->rings = r;
                h->count++;
                if (!h->timer.place)
                        loop_timer_set(s->o->loop, &h->timer, now);
        }
        r->asked = now;
        return r;
}

/* --- answers --------------------------------------------------------------------------------------------------------
 */

static void samples_json(const struct ring *r, uint64_t since_ms, size_t most, struct json *j, const char *key) {
        uint64_t kept = r ? MIN(r->taken, (uint64_t)SAMPLES) : 0, from = r ? r->taken - MIN(kept, (uint64_t)most) : 0;

        json_open(j, key, '[');
        for (uint64_t i = from; r && i < r->taken; i++) {
                const struct sample *x = &r->samples[i % SAMPLES];

                if (x->at_ms <= since_ms)
                        continue;
                json_open(j, NULL, '{');
                json_u64(j, "at_ms", x->at_ms);
                json_u64_or_null(j, "cpu_us", x->cpu_us);
                json_u64_or_null(j, "memory", x->memory);
                json_u64_or_null(j, "io_read", x->io_read);
                json_u64_or_null(j, "io_write", x->io_write);
                json_u64_or_null(j, "net_in", x->net_in);
                json_u64_or_null(j, "net_out", x->net_out);
                json_u64_or_null(j, "processes", x->processes);
                json_u64_or_null(j, "disk", x->disk);
                json_close(j, '}');
        }
        json_close(j, ']');
}

void verb_usage_history(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        const struct sandbox *s = c->sandbox;
        const struct frozen *f = s->frozen;

        json_open(&j, NULL, '{');
        json_str(&j, "sandbox", s->id);
        json_bool(&j, "running", s->up);
        json_u64(&j, "every_ms", EVERY_MS);
        json_open(&j, "limits", '{');
        json_u64_or_null(&j, "cpus_thousandths", f->cpus);
        json_u64_or_null(&j, "memory", f->memory);
        json_u64_or_null(&j, "disk", s->disk ? s->disk->size : UINT64_MAX);
        json_u64_or_null(&j, "cpu_ms", f->budget_cpu);
        json_u64_or_null(&j, "egress", f->gate.egress);
        json_close(&j, '}');
        samples_json(look_at(c->sandbox), call_number(c, "since_ms", 0), SAMPLES, &j, "samples");
        json_close(&j, '}');
        call_answer(c, &b);
}

/* Of several at once, for a list: those that are not there, or somebody else's, are left out. */
void verb_usage_recent(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        struct json_walk w;
        const struct sandbox *said[64]; /* as many as the verb's row allows */
        size_t count = 0;

        json_open(&j, NULL, '{');
        json_u64(&j, "every_ms", EVERY_MS);
        json_open(&j, "usage", '{');
        if (json_walk_begin(&w, c->text, "sandboxes"))
                while (json_walk_next(&w)) {
                        char text[STORE_NAME];
                        struct sandbox *s = json_find_str(w.value, "", text, sizeof text) && warden_is_id(text)
                                                    ? verbs_sandbox(c, text)
                                                    : NULL;

                        for (size_t i = 0; s && i < count; i++)
                                if (said[i] == s)
                                        s = NULL; /* a key is there once */
                        if (s && count < ELEMENTSOF(said)) {
                                said[count++] = s;
                                samples_json(look_at(s), 0, RECENT, &j, s->id);
                        }
                }
        json_close(&j, '}');
        json_close(&j, '}');
        call_answer(c, &b);
}
