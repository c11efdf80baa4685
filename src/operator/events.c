/* Readers of the ledger. Each has its own place in it and is served as far as its client has room; those who follow are
 * looked after while there is one, by a timer that only compares a number. Who asks for what there is gets everything
 * that was appended before he asked: he waits until it is durable. An owner sees what concerns his sandboxes and what
 * he did himself; whoever acts for all sees all. */
#include "operator/events.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "operator/admission.h"

#define LOOK_MS 25
#define LINES   64  /* in one turn, for one reader */
#define TURN    512 /* and for all: lines that are read for nobody take their time, too */

struct follower {
        struct follower *next;
        struct call *call;
        struct owner *owner; /* who has one watcher more */
        struct ledger_reader *reader;
        char sandbox[STORE_ID]; /* of this one alone; "" all */
        bool follow;
        bool waits; /* for `before` */
        struct durable before;
        uint64_t seen; /* number behind the last line that was read */
};

struct events {
        struct core *o;
        int dir;
        struct follower *followers;
        struct follower *next; /* whose turn it is; NULL: the first one's */
        bool more;             /* some who had their turn want another one */
        struct loop_timer timer;
        struct loop_task task;
        uint64_t durable; /* as of the last look */
};

/* The text behind "key":" in a canonical line, before its data. */
bool events_field(const char *line, size_t size, const char *key, char *ret, size_t room) {
        const char *p = memmem(line, MIN(size, (size_t)512), key, strlen(key));

        if (!p)
                return false;
        p += strlen(key);
        const char *end = memchr(p, '"', (size_t)(line + size - p));
        if (!end || (size_t)(end - p) >= room)
                return false;
        memcpy(ret, p, (size_t)(end - p));
        ret[end - p] = '\0';
        return true;
}

bool events_number(const char *line, size_t size, uint64_t *ret) {
        static const char head[] = "{\"seq\":";
        uint64_t n = 0;

        if (size < sizeof head || memcmp(line, head, sizeof head - 1) != 0)
                return false;
        for (size_t i = sizeof head - 1; i < size && line[i] >= '0' && line[i] <= '9'; i++)
                n = n * 10 + (uint64_t)(line[i] - '0');
        *ret = n;
        return true;
}

static bool owns(struct core *o, const char *sandbox, const char *owner) {
        const struct sandbox *s = sandbox_find(o, sandbox);

        return s ? str_eq(s->owner->name, owner) : grave_has(o, sandbox, owner);
}

bool events_concern(struct core *o, const char *owner, const char *only, const char *line, size_t size) {
        char sandbox[STORE_ID] = "", actor[STORE_OWNER] = "";

        if (!events_field(line, size, ",\"sandbox\":\"", sandbox, sizeof sandbox) ||
            !events_field(line, size, ",\"actor\":\"", actor, sizeof actor))
                return false;
        if (only[0] && !str_eq(only, sandbox))
                return false;
        if (!owner)
                return true;
        return sandbox[0] ? owns(o, sandbox, owner) : str_eq(actor, owner);
}

static bool concerns(const struct follower *f, const char *line, size_t size) {
        return events_concern(f->call->o, f->call->admin ? NULL : f->call->owner, f->sandbox, line, size);
}

static void follower_free(struct follower *f) {
        struct events *e = f->call->o->registry->events;

        for (struct follower **p = &e->followers; *p; p = &(*p)->next)
                if (*p == f) {
                        *p = f->next;
                        break;
                }
        if (e->next == f)
                e->next = f->next;
        if (f->waits)
                durable_cancel(e->o, &f->before);
        f->owner->tally[TALLY_WATCHERS]--;
        ledger_reader_close(f->reader);
        free(f);
}

static void answer(struct follower *f) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct call *c = f->call;

        json_open(&j, NULL, '{');
        json_u64(&j, "next", f->seen + 1);
        json_close(&j, '}');
        follower_free(f);
        call_answer(c, &b);
}

/* Its sandbox is gone: nothing more will be said of it. */
static bool is_over(const struct follower *f) {
        return f->sandbox[0] && !sandbox_find(f->call->o, f->sandbox);
}

/* All of them, those whose turn in this round was over included. */
static void wake(struct events *e) {
        e->more |= e->next != NULL;
        loop_later(e->o->loop, &e->task);
}

/* True: it wants to be asked again in this turn's end. */
static bool serve(struct follower *f, unsigned *left) {
        struct err err = {0};
        const char *line;
        size_t size;
        int r = 1;

        for (unsigned lines = MIN(*left, (unsigned)LINES); lines > 0 && client_has_room(f->call->client); lines--) {
                uint64_t seq = 0;

                (*left)--;
                r = ledger_reader_next(f->reader, &line, &size, &err);
                if (r <= 0)
                        break;
                if (events_number(line, size, &seq))
                        f->seen = seq;
                if (concerns(f, line, size))
                        (void)client_send(f->call->client, LOCAL_EVENT, line, size);
        }
        if (r < 0) {
                struct call *c = f->call;

                follower_free(f);
                call_refuse(c, &err);
                return false;
        }
        if (r == 0 && (!f->follow || is_over(f))) {
                answer(f);
                return false;
        }
        return r > 0 && client_has_room(f->call->client);
}

/* As many lines as one turn has; whoever was left out is the first of the next one. */
static void serve_all(struct loop_task *task) {
        struct events *e = LOOP_OWNER(task, struct events, task);
        unsigned left = TURN;

        if (!e->next)
                e->next = e->followers;
        while (e->next && left > 0) {
                struct follower *f = e->next;

                e->next = f->next;
                if (f->call->client && !f->waits)
                        e->more |= serve(f, &left);
        }
        if (!e->next && !e->more)
                return;
        e->more = e->next && e->more;
        loop_later(e->o->loop, &e->task);
}

static void look(struct loop_timer *timer) {
        struct events *e = LOOP_OWNER(timer, struct events, timer);
        uint64_t durable = ledger_durable(e->o->ledger);

        if (!e->followers)
                return;
        bool over = false;
        for (const struct follower *f = e->followers; f && !over; f = f->next)
                over = f->follow && is_over(f);
        if (durable != e->durable || over) {
                e->durable = durable;
                wake(e);
        }
        loop_timer_set(e->o->loop, &e->timer, loop_now(e->o->loop) + LOOK_MS);
}

/* A ledger that cannot be written does not keep what is in it from being read. */
static void before_is_durable(struct durable *d, int error) {
        struct follower *f = LOOP_OWNER(d, struct follower, before);
        struct events *e = f->call->o->registry->events;

        (void)error;
        f->waits = false;
        wake(e);
}

static void gone(struct call *c) {
        follower_free(c->data);
        call_drop(c);
}

static void writable(struct client *client) {
        struct call *c = client->data;

        wake(c->o->registry->events);
}

void events_follow(struct call *c) {
        struct events *e = c->o->registry->events;
        struct follower *f = calloc(1, sizeof *f);
        struct err err = {0};
        struct owner *owner = owner_get(c->o, c->owner);
        uint64_t from = call_number(c, "from", 0);

        if (!f || !owner)
                (void)call_err(&err, -ENOMEM, "out of memory");
        else
                (void)admission_one_more(c->o, owner, TALLY_WATCHERS, &err);
        if (err.code < 0) {
                free(f);
                call_refuse(c, &err);
                return;
        }
        if (!call_has(c, "from") && call_bool(c, "follow"))
                from = ledger_durable(c->o->ledger) + 1; /* what comes from now on */
        f->call = c;
        f->follow = call_bool(c, "follow");
        f->seen = from > 0 ? from - 1 : 0;
        if (c->sandbox)
                copy_text(f->sandbox, sizeof f->sandbox, c->sandbox->id);
        int r = ledger_reader_open(&f->reader, e->dir, from, &err);
        if (r < 0) {
                free(f);
                call_refuse(c, &err);
                return;
        }
        f->owner = owner;
        owner->tally[TALLY_WATCHERS]++;
        c->data = f;
        c->gone = gone;
        c->client->writable = writable;
        f->next = e->followers;
        e->followers = f;
        if (!f->follow) {
                f->waits = true;
                f->before = (struct durable){.seq = ledger_appended(c->o->ledger), .done = before_is_durable};
                durable_wait(c->o, &f->before);
        } else
                wake(e);
        loop_timer_set(c->o->loop, &e->timer, loop_now(c->o->loop) + LOOK_MS);
}

int events_folder(const struct core *o) {
        return o->registry->events->dir;
}

int events_open(struct core *o, struct err *err) {
        struct events *e = calloc(1, sizeof *e);

        if (!e)
                return err_set(err, -ENOMEM, "could not begin");
        e->o = o;
        e->task.run = serve_all;
        e->timer.fire = look;
        e->dir = openat(o->state, "ledger", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        o->registry->events = e;
        return e->dir < 0 ? err_set(err, -errno, "cannot open the ledger's folder") : 0;
}

void events_close(struct core *o) {
        struct events *e = o->registry->events;

        if (!e)
                return;
        loop_cancel(o->loop, &e->task);
        loop_timer_clear(o->loop, &e->timer);
        fd_close(&e->dir);
        free(e);
        o->registry->events = NULL;
}
