/* The ledger as its users see it: open, append, ask, close. What touches a disk is the writer's (writer.c).
 *
 * Always: a number that append returned belongs to exactly this event; everything that was accepted is written in that
 * order or, if we are killed first, not at all. Never: a wait for a disk, or for anything that waits for one. */
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "ledger/writer.h"

uint64_t writer_now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- the queue, with the lock held ------------------------------------------------------------------------------ */

static uint64_t wall_us(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static size_t entry_size(size_t sandbox, size_t actor, size_t data) {
        return (sizeof(struct writer_entry) + sandbox + actor + data + 7) / 8 * 8;
}

int writer_queue(struct ledger *l, enum ledger_kind kind, const char *sandbox, const char *actor, const char *data,
                 size_t data_size, bool last_of_segment) {
        struct writer_entry e = {
                .seq = l->next_seq,
                .time_us = wall_us(),
                .data_size = (uint32_t)data_size,
                .kind = (uint16_t)kind,
                .sandbox_size = (uint8_t)strlen(sandbox),
                .actor_size = (uint8_t)strlen(actor),
                .last_of_segment = last_of_segment,
        };
        size_t before = l->gather.size;

        buf_add(&l->gather, &e, sizeof e);
        buf_add(&l->gather, sandbox, e.sandbox_size);
        buf_add(&l->gather, actor, e.actor_size);
        buf_add(&l->gather, data, data_size);
        buf_pad(&l->gather, 8);
        if (!buf_ok(&l->gather)) { /* no memory: as if nothing had been asked */
                l->gather.size = before;
                l->gather.failed = false;
                return -ENOMEM;
        }
        if (before == 0)
                l->gathered_ms = writer_now_ms();
        l->next_seq++;
        return 0;
}

int writer_queue_checkpoint(struct ledger *l, bool last_of_segment) {
        int r = writer_queue(l, LEDGER_CHECKPOINT, "", CHECKPOINT_ACTOR, "", 0, last_of_segment);

        if (r < 0)
                return r;
        l->planned = last_of_segment ? 0 : l->planned + CHECKPOINT_LINE_MAX;
        l->covered = 0;
        return 0;
}

/* An event, with the checkpoints that are due around it. */
static int64_t queue_event(struct ledger *l, enum ledger_kind kind, const char *sandbox, const char *actor,
                           const char *data, size_t data_size) {
        struct line_new form = {.seq = l->next_seq,
                                .sandbox.size = strlen(sandbox),
                                .actor.size = strlen(actor),
                                .kind.size = strlen(ledger_kind_name(kind)),
                                .data.size = data_size};
        size_t size = line_size(&form);
        int r = 0;

        if (l->covered > 0 && l->planned + size + CHECKPOINT_LINE_MAX > l->options.segment_bytes)
                r = writer_queue_checkpoint(l, true);
        else if (l->covered + 1 >= l->options.checkpoint_events) /* the checkpoint before is one of them */
                r = writer_queue_checkpoint(l, false);
        if (r == 0)
                r = writer_queue(l, kind, sandbox, actor, data, data_size, false);
        if (r < 0)
                return r;
        l->planned += size;
        if (l->covered++ == 0)
                l->uncovered_ms = writer_now_ms();
        return (int64_t)l->next_seq - 1;
}

/* May this much more be taken? A part of the room is for what must not be turned away. */
static int admit(const struct ledger *l, enum ledger_kind kind, size_t size) {
        bool kept = ledger_kind_kept(kind);
        uint64_t room = kept ? l->options.backlog_bytes : l->options.backlog_bytes / 8 * 7;

        if (l->health < 0 && !kept)
                return l->health;
        if (l->gather.size + l->taken + size > room)
                return l->health < 0 ? l->health : -EAGAIN;
        return 0;
}

int64_t ledger_append(struct ledger *l, enum ledger_kind kind, const char *sandbox, const char *actor,
                      const char *data) {
        size_t size = strnlen(data, LEDGER_DATA_MAX + 1);
        int64_t r = line_check_data(data, size);

        if (r == 0)
                r = line_check_sandbox(sandbox);
        if (r == 0)
                r = line_check_actor(actor);
        if (r < 0)
                return r;
        if (!ledger_kind_name(kind) || kind == LEDGER_CHECKPOINT)
                return -EINVAL;

        (void)pthread_mutex_lock(&l->lock);
        size_t before = l->gather.size;
        r = admit(l, kind, entry_size(strlen(sandbox), strlen(actor), size) + 2 * sizeof(struct writer_entry));
        if (r == 0)
                r = queue_event(l, kind, sandbox, actor, data, size);
        l->counted[kind] += r > 0;
        if (r > 0 && ledger_kind_durable(kind))
                l->hurry = true;
        bool wake = l->gather.size > before && (before == 0 || ledger_kind_durable(kind) ||
                                                (before < WRITER_UNIT && l->gather.size >= WRITER_UNIT));
        (void)pthread_mutex_unlock(&l->lock);
        if (wake)
                (void)pthread_cond_signal(&l->wake);
        return r;
}

int64_t ledger_checkpoint(struct ledger *l) {
        int64_t r = 0;

        (void)pthread_mutex_lock(&l->lock);
        if (l->covered > 0)
                r = l->health < 0 ? l->health : writer_queue_checkpoint(l, false);
        if (r == 0)
                r = (int64_t)l->next_seq - 1;
        l->hurry |= l->gather.size > 0;
        (void)pthread_mutex_unlock(&l->lock);
        (void)pthread_cond_signal(&l->wake);
        return r;
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

uint64_t ledger_durable(struct ledger *l) {
        (void)pthread_mutex_lock(&l->lock);
        uint64_t seq = l->durable.seq;
        (void)pthread_mutex_unlock(&l->lock);
        return seq;
}

uint64_t ledger_appended(struct ledger *l) {
        (void)pthread_mutex_lock(&l->lock);
        uint64_t seq = l->next_seq - 1;
        (void)pthread_mutex_unlock(&l->lock);
        return seq;
}

uint64_t ledger_counted(struct ledger *l, enum ledger_kind kind) {
        (void)pthread_mutex_lock(&l->lock);
        uint64_t n = l->counted[kind];
        (void)pthread_mutex_unlock(&l->lock);
        return n;
}

int ledger_fd(struct ledger *l) {
        return l->event_fd;
}

void ledger_hurry(struct ledger *l) {
        (void)pthread_mutex_lock(&l->lock);
        bool wake = l->gather.size > 0 && !l->hurry;
        l->hurry |= wake;
        (void)pthread_mutex_unlock(&l->lock);
        if (wake)
                (void)pthread_cond_signal(&l->wake);
}

int ledger_health(struct ledger *l) {
        (void)pthread_mutex_lock(&l->lock);
        int health = l->health;
        (void)pthread_mutex_unlock(&l->lock);
        return health;
}

void ledger_position(struct ledger *l, uint64_t *ret_seq, uint8_t ret_hash[HASH_SIZE]) {
        (void)pthread_mutex_lock(&l->lock);
        *ret_seq = l->durable.seq;
        memcpy(ret_hash, l->durable.hash, HASH_SIZE);
        (void)pthread_mutex_unlock(&l->lock);
}

/* --- open and close --------------------------------------------------------------------------------------------- */

static void ledger_free(struct ledger *l) {
        buf_free(&l->gather);
        buf_free(&l->work);
        buf_free(&l->out);
        keys_close(l->keys);
        fd_close(&l->segment_fd);
        fd_close(&l->head_fd);
        fd_close(&l->event_fd);
        fd_close(&l->dir);
        (void)pthread_cond_destroy(&l->wake);
        (void)pthread_mutex_destroy(&l->lock);
        free(l);
}

static void ledger_freep(struct ledger **l) {
        if (*l)
                ledger_free(*l);
}

static void set_options(struct ledger *l, const struct ledger_options *o) {
        l->options = *o;
        if (o->segment_bytes == 0)
                l->options.segment_bytes = 64 << 20;
        if (o->backlog_bytes == 0)
                l->options.backlog_bytes = 32 << 20;
        if (o->delay_ms == 0)
                l->options.delay_ms = 20;
        if (o->checkpoint_ms == 0)
                l->options.checkpoint_ms = 5000;
        if (o->checkpoint_events == 0)
                l->options.checkpoint_events = 4096;
        l->gather.max = l->work.max = 2 * l->options.backlog_bytes; /* admit is the limit */
        l->out.max = 2 * (size_t)WRITER_UNIT;
}

static int start_thread(struct ledger *l) {
        pthread_attr_t attr;
        sigset_t all, before;
        int r = pthread_attr_init(&attr);

        if (r != 0)
                return -r;
        (void)sigfillset(&all); /* signals are for the thread that waits for them */
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        (void)pthread_attr_setstacksize(&attr, 256 << 10);
        r = pthread_create(&l->thread, &attr, writer_thread, l);
        (void)pthread_attr_destroy(&attr);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

static int ledger_init(struct ledger *l, const struct ledger_options *o) {
        pthread_condattr_t attr;

        l->dir = l->head_fd = l->event_fd = l->segment_fd = -EBADF;
        (void)pthread_mutex_init(&l->lock, NULL);
        (void)pthread_condattr_init(&attr);
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&l->wake, &attr);
        (void)pthread_condattr_destroy(&attr);
        set_options(l, o);
        l->dir = fcntl(o->dir, F_DUPFD_CLOEXEC, 3);
        if (l->dir < 0)
                return -errno;
        l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return l->event_fd < 0 ? -errno : 0;
}

int ledger_open(struct ledger **ret, const struct ledger_options *o, struct err *err) {
        _cleanup_(ledger_freep) struct ledger *l = calloc(1, sizeof *l);
        uint64_t cut = 0;
        char data[80];

        if (!l)
                return err_set(err, -ENOMEM, "cannot open the ledger");
        int r = ledger_init(l, o);
        if (r < 0)
                return err_set(err, r, "cannot open the ledger");
        r = head_open(l->dir, true, &l->head_fd, err);
        if (r == 0)
                r = head_read(l->head_fd, &l->durable, err);
        if (r == 0)
                r = recover_end(l, &cut, err);
        if (r < 0)
                return r;
        if (cut > 0) {
                (void)snprintf(data, sizeof data, "{\"cut_bytes\":%llu,\"after\":%llu}", (unsigned long long)cut,
                               (unsigned long long)l->durable.seq);
                r = (int)MIN(queue_event(l, LEDGER_REPAIR, "", CHECKPOINT_ACTOR, data, strlen(data)), 0);
                l->hurry = true;
        }
        if (r == 0)
                r = start_thread(l);
        if (r < 0)
                return err_set(err, r, "cannot start the ledger's writer");
        *ret = TAKE_PTR(l);
        return 0;
}

void ledger_close(struct ledger *l) {
        if (!l)
                return;
        (void)pthread_mutex_lock(&l->lock);
        l->closing = true;
        (void)pthread_mutex_unlock(&l->lock);
        (void)pthread_cond_signal(&l->wake);
        (void)pthread_join(l->thread, NULL);
        ledger_free(l);
}
