/* What somebody else can check: a signed checkpoint of the ledger, and evidence about one sandbox or one run.
 *
 * Evidence takes a walk through the whole ledger, which is nothing for the loop. One thread at a time packs it into a
 * file without a name; from there it goes to whoever asked, as fast as he reads. Those who come meanwhile wait in line,
 * so many of them, and one of each owner. Whoever leaves while his is being packed leaves its file to us.
 *
 * Must never: tell an owner about sandboxes that are not his, deleted ones included. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/fd.h"
#include "operator/life.h"
#include "operator/sandbox.h"
#include "operator/verbs.h"

#define EVIDENCE_MAX  8              /* in line, being packed, or being read */
#define EVIDENCE_MOST (512ULL << 20) /* bytes of one: it lies on the disk of the state folder */
#define PIECE         (64U << 10)    /* that is sent at a time */
#define PIECES        16             /* in one turn */
#define READ_MS       600000         /* from the first byte to the last, or it is cut off */

struct evidence {
        struct evidence *next;
        struct core *o;
        struct call *call; /* NULL: nobody waits for it any more */
        char owner[STORE_OWNER];
        char sandbox[STORE_ID];
        uint64_t run; /* 0: all */
        struct durable durable;
        enum { EVIDENCE_WAITS, EVIDENCE_PACKS, EVIDENCE_SENDS } step;
        bool covered; /* the checkpoint behind it is durable: it may be packed */
        pthread_t thread;
        int dir, file, done[2]; /* of done, a pipe: its end says that the thread has ended */
        struct loop_watch watch;
        struct loop_task sending;
        struct loop_timer late;
        uint64_t sent;
        /* the thread's until it has ended */
        int result;
        struct err err;
        struct ledger_verdict verdict;
};

static void begin_next(struct core *o);

static void evidence_free(struct evidence *e) {
        struct core *o = e->o;

        for (struct evidence **p = &o->registry->evidence; *p; p = &(*p)->next)
                if (*p == e) {
                        *p = e->next;
                        break;
                }
        durable_cancel(o, &e->durable);
        loop_cancel(o->loop, &e->sending);
        loop_timer_clear(o->loop, &e->late);
        fd_close(&e->dir);
        fd_close(&e->file);
        fd_close(&e->done[0]);
        fd_close(&e->done[1]);
        free(e);
        begin_next(o);
}

static void refuse(struct evidence *e, const struct err *err) {
        struct call *c = TAKE_PTR(e->call);
        struct err why = *err; /* which may be e's own */

        evidence_free(e);
        if (c)
                call_refuse_as(c, why.code == ERR_INPUT ? "not_found" : call_code(why.code), &why);
}

/* --- sent
 * ---------------------------------------------------------------------------------------------------------------- */

static void answer(struct evidence *e) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct call *c = TAKE_PTR(e->call);

        json_open(&j, NULL, '{');
        json_u64(&j, "bytes", e->sent);
        json_u64(&j, "events", e->verdict.events);
        json_u64(&j, "unsigned_events", e->verdict.unsigned_events);
        json_close(&j, '}');
        evidence_free(e);
        call_answer(c, &b);
}

static void send_some(struct loop_task *task) {
        static uint8_t piece[PIECE];
        struct evidence *e = LOOP_OWNER(task, struct evidence, sending);

        for (unsigned i = 0; i < PIECES && client_has_room(e->call->client); i++) {
                ssize_t n = pread(e->file, piece, sizeof piece, (off_t)e->sent);

                if (n < 0) {
                        struct err err = {0};

                        (void)err_set(&err, -errno, "the evidence cannot be read");
                        refuse(e, &err);
                        return;
                }
                if (n == 0) {
                        answer(e);
                        return;
                }
                e->sent += (uint64_t)n;
                (void)client_send(e->call->client, LOCAL_OUTPUT, piece, (size_t)n);
        }
        if (client_has_room(e->call->client))
                loop_later(e->o->loop, &e->sending);
}

static void writable(struct client *client) {
        struct call *c = client->data;
        struct evidence *e = c->data;

        if (e->step == EVIDENCE_SENDS)
                loop_later(e->o->loop, &e->sending);
}

static void too_slow(struct loop_timer *t) {
        struct evidence *e = LOOP_OWNER(t, struct evidence, late);
        struct err err = {0};

        (void)call_err(&err, -ECANCELED, "the evidence was not read within %d minutes", READ_MS / 60000);
        (void)err_hint(&err, "ask again, and read faster");
        refuse(e, &err);
}

/* --- packed
 * -------------------------------------------------------------------------------------------------------------- */

static void *pack(void *data) {
        struct evidence *e = data;

        e->result = ledger_evidence(e->dir, e->sandbox, e->run, e->file, EVIDENCE_MOST, &e->verdict, &e->err);
        (void)close(e->done[1]); /* the loop joins us: this is what wakes it */
        return NULL;
}

static void packed(struct loop_watch *w, uint32_t events) {
        struct evidence *e = LOOP_OWNER(w, struct evidence, watch);

        (void)events;
        loop_unwatch(e->o->loop, &e->watch);
        (void)pthread_join(e->thread, NULL);
        e->done[1] = -EBADF;
        if (!e->call)
                evidence_free(e);
        else if (e->result < 0)
                refuse(e, &e->err);
        else {
                e->step = EVIDENCE_SENDS;
                e->late.fire = too_slow;
                loop_timer_set(e->o->loop, &e->late, loop_now(e->o->loop) + READ_MS);
                loop_later(e->o->loop, &e->sending);
                begin_next(e->o);
        }
}

static int begin(struct evidence *e, struct err *err) {
        e->dir = openat(e->o->state, "ledger", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (e->dir < 0)
                return err_set(err, -errno, "cannot open the ledger's folder");
        e->file = openat(e->o->state, "evidence", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (e->file < 0 && errno == EEXIST && unlinkat(e->o->state, "evidence", 0) == 0)
                e->file = openat(e->o->state, "evidence", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (e->file < 0)
                return err_set(err, -errno, "could not make a file for the evidence");
        (void)unlinkat(e->o->state, "evidence", 0);
        if (pipe2(e->done, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not pack evidence");
        e->watch.ready = packed;
        int r = loop_watch(e->o->loop, &e->watch, e->done[0], EPOLLIN);
        if (r == 0) {
                r = -pthread_create(&e->thread, NULL, pack, e);
                if (r < 0)
                        loop_unwatch(e->o->loop, &e->watch);
        }
        return r < 0 ? err_set(err, r, "could not pack evidence") : 0;
}

static void begin_next(struct core *o) {
        struct evidence *next = NULL;
        struct err err = {0};

        for (struct evidence *e = o->registry->evidence; e; e = e->next) {
                if (e->step == EVIDENCE_PACKS)
                        return;
                if (e->step == EVIDENCE_WAITS && e->covered && !next)
                        next = e;
        }
        if (!next || o->registry->closing)
                return;
        next->step = EVIDENCE_PACKS;
        if (begin(next, &err) < 0) {
                next->step = EVIDENCE_SENDS; /* it is in nobody's way */
                refuse(next, &err);
        }
}

/* --- asked for
 * -------------------------------------------------------------------------------------------------------------- */

static void gone(struct call *c) {
        struct evidence *e = c->data;

        e->call = NULL;
        call_drop(c);
        if (e->step != EVIDENCE_PACKS) /* the thread is still at it */
                evidence_free(e);
}

static void covered(struct durable *d, int error) {
        struct evidence *e = LOOP_OWNER(d, struct evidence, durable);
        struct err err = {0};

        if (error < 0) {
                (void)err_set(&err, error, "the ledger cannot be written, so nothing can be signed");
                refuse(e, &err);
                return;
        }
        e->covered = true;
        begin_next(e->o);
}

/* His, or it was until a day ago. */
static bool find_sandbox(struct call *c, char ret[STORE_ID]) {
        char text[STORE_NAME];
        const struct sandbox *s = verbs_sandbox(c, call_text(c, "sandbox", text, sizeof text));

        if (s)
                copy_text(ret, STORE_ID, s->id);
        else if (warden_is_id(text) && grave_has(c->o, text, c->admin ? NULL : c->owner))
                copy_text(ret, STORE_ID, text);
        else {
                call_refuse_text(c, "not_found", "'stockade list' shows what there is", "there is no sandbox '%s'",
                                 text);
                return false;
        }
        return true;
}

static bool has_place(struct call *c) {
        unsigned all = 0, his = 0;

        for (const struct evidence *e = c->o->registry->evidence; e; e = e->next) {
                all++;
                his += str_eq(e->owner, c->owner);
        }
        if (all < EVIDENCE_MAX && his == 0)
                return true;
        call_refuse_text(c, "busy", "try again when that is done",
                         his > 0 ? "evidence of this owner is being packed already"
                                 : "evidence of others is being packed");
        return false;
}

void verb_evidence(struct call *c) {
        char sandbox[STORE_ID] = "";
        struct core *o = c->o;
        struct err err = {0};

        if (!find_sandbox(c, sandbox) || !has_place(c))
                return;
        if (life_refuses(o, true, &err)) { /* it takes room on the disk, and descriptors */
                call_refuse(c, &err);
                return;
        }
        struct evidence *e = calloc(1, sizeof *e), **last = &o->registry->evidence;
        int64_t seq = e ? ledger_checkpoint(o->ledger) : -ENOMEM;
        if (seq < 0) {
                free(e);
                call_refuse_text(c, call_code((int)seq), "try again in a moment",
                                 "no checkpoint can be put behind it now: %s", err_name((int)seq));
                return;
        }
        e->o = o;
        e->call = c;
        e->run = call_number(c, "run", 0);
        e->dir = e->file = e->done[0] = e->done[1] = -EBADF;
        e->sending.run = send_some;
        copy_text(e->owner, sizeof e->owner, c->owner);
        copy_text(e->sandbox, sizeof e->sandbox, sandbox);
        e->durable = (struct durable){.seq = (uint64_t)seq, .done = covered};
        while (*last)
                last = &(*last)->next;
        *last = e;
        c->data = e;
        c->gone = gone;
        c->client->writable = writable;
        durable_wait(o, &e->durable);
}

/* --- checkpoint
 * ------------------------------------------------------------------------------------------------------------- */

struct checkpoint {
        struct core *o;
        struct call *call;
        struct durable durable;
};

static int read_line(struct core *o, uint64_t seq, struct buf *ret, struct err *err) {
        _cleanup_fd_ int dir = openat(o->state, "ledger", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        struct ledger_reader *reader = NULL;
        const char *line = NULL;
        size_t size = 0;

        if (dir < 0)
                return err_set(err, -errno, "cannot open the ledger's folder");
        int r = ledger_reader_open(&reader, dir, seq, err);
        if (r == 0)
                r = ledger_reader_next(reader, &line, &size, err);
        if (r > 0)
                buf_add(ret, line, size);
        ledger_reader_close(reader);
        return r;
}

/* The line with its signatures, as it stands in the ledger; what it vouches for is everything up to there. */
static void signed_answer(struct durable *d, int error) {
        struct checkpoint *p = LOOP_OWNER(d, struct checkpoint, durable);
        _cleanup_buf_ struct buf b = {0}, line = {0};
        struct json j = {.out = &b};
        struct call *c = p->call;
        struct err err = {0};
        char kind[32] = "", hash[HASH_TEXT_SIZE] = "";

        uint64_t seq = d->seq;
        int r = error < 0 ? err_set(&err, error, "the ledger cannot be written") : read_line(p->o, seq, &line, &err);
        free(p);
        if (r > 0 && buf_ok(&line)) {
                (void)json_find_str(line.data, "kind", kind, sizeof kind);
                (void)json_find_str(line.data, "hash", hash, sizeof hash);
        }
        if (r < 0)
                call_refuse(c, &err);
        else if (!str_eq(kind, ledger_kind_name(LEDGER_CHECKPOINT)))
                call_refuse_text(c, "busy", "try again in a moment", "there is no checkpoint yet");
        else {
                json_open(&j, NULL, '{');
                json_u64(&j, "seq", seq);
                json_str(&j, "hash", hash);
                json_str(&j, "checkpoint", line.data);
                json_close(&j, '}');
                call_answer(c, &b);
        }
}

void verb_checkpoint(struct call *c) {
        struct checkpoint *p = calloc(1, sizeof *p);
        int64_t seq = p ? ledger_checkpoint(c->o->ledger) : -ENOMEM;

        if (seq < 0) {
                free(p);
                call_refuse_text(c, call_code((int)seq), "try again in a moment", "no checkpoint can be put now: %s",
                                 err_name((int)seq));
                return;
        }
        *p = (struct checkpoint){.o = c->o, .call = c};
        p->durable = (struct durable){.seq = (uint64_t)seq, .done = signed_answer};
        durable_wait(c->o, &p->durable);
}
