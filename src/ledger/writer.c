/* The writer thread: takes what has gathered, chains it, writes it, syncs it, says so.
 *
 * What it does not manage to write stays in `out`, byte for byte, and is written again at the same place until it
 * works: after a failed fdatasync the kernel may have dropped what it could not write, so that asking again would lie.
 * A line is never half of one and half of another, and there is no gap, however often this fails. Bytes behind the head
 * mean nothing to anybody until the head has moved. */
#include "ledger/writer.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "ledger/segment.h"

/* --- lines ------------------------------------------------------------------------------------------------------ */

/* Room for one more line at the end of out; NULL without memory. */
static char *out_room(struct ledger *l, size_t size) {
        size_t before = l->out.size;

        if (before + size > l->out.room) {
                size_t want = MIN(MAX(2 * l->out.room, before + size + 4096), l->out.max);
                char *more = realloc(l->out.data, want + 1);
                if (!more)
                        return NULL;
                l->out.data = more;
                l->out.room = want;
        }
        return l->out.data + before;
}

/* Makes the line of an entry. -ENOMEM and -EIO (no signature) leave everything as it was. */
static int make_line(struct ledger *l, const struct writer_entry *e) {
        const char *text = (const char *)(e + 1);
        const char *kind = ledger_kind_name((enum ledger_kind)e->kind);
        char data[CHECKPOINT_DATA_MAX];
        uint8_t hash[HASH_SIZE];
        struct line_new n = {
                .seq = e->seq,
                .time_us = e->time_us,
                .sandbox = {text, e->sandbox_size},
                .actor = {text + e->sandbox_size, e->actor_size},
                .kind = {kind, strlen(kind)},
                .data = {text + e->sandbox_size + e->actor_size, e->data_size},
        };

        if (e->kind == LEDGER_CHECKPOINT) {
                struct checkpoint c = {.seq = e->seq, .from = l->chain.from, .to = l->chain.seq};

                line_time(&l->clock, e->time_us, c.time);
                merkle_root(&l->chain.tree, c.root);
                memcpy(c.head, l->chain.hash, LINE_HEX);
                int size = checkpoint_write(&c, l->keys, data);
                if (size < 0)
                        return size;
                n.data = (struct line_part){data, (size_t)size};
        }
        char *out = out_room(l, line_size(&n));
        if (!out)
                return -ENOMEM;
        l->out.size += line_write(&n, &l->clock, l->chain.hash, out, hash);
        chain_add(&l->chain, e->seq, hash, e->kind == LEDGER_CHECKPOINT);
        return 0;
}

/* Fills out from work, from *at on: up to a unit, or to the end of the segment. */
static int make_unit(struct ledger *l, size_t *at) {
        while (*at < l->work.size && l->out.size < WRITER_UNIT && !l->ends) {
                const struct writer_entry *e = (const void *)(l->work.data + *at);
                int r = make_line(l, e);

                if (r < 0)
                        return l->out.size > 0 ? 0 : r; /* the rest comes later */
                *at += (sizeof *e + e->sandbox_size + e->actor_size + e->data_size + 7) / 8 * 8;
                l->ends = e->last_of_segment;
        }
        return 0;
}

/* --- the disk --------------------------------------------------------------------------------------------------- */

static int open_segment(struct ledger *l) {
        char name[SEGMENT_NAME];

        segment_name(l->durable.seq + 1, name);
        int fd = openat(l->dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        l->segment_fd = fd;
        l->segment = l->durable.seq + 1;
        l->segment_size = l->segment_allocated = 0;
        l->segment_new = true;
        return 0;
}

/* Space ahead, so that a sync has less to do. Doing without is only slower. */
static void preallocate(struct ledger *l) {
        uint64_t need = l->segment_size + l->out.size;

        if (need <= l->segment_allocated)
                return;
        uint64_t to = (need + WRITER_PREALLOCATE) / WRITER_PREALLOCATE * WRITER_PREALLOCATE;
        if (fallocate(l->segment_fd, FALLOC_FL_KEEP_SIZE, (off_t)l->segment_allocated,
                      (off_t)(to - l->segment_allocated)) == 0)
                l->segment_allocated = to;
}

static void pause_ms(unsigned ms) {
        struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

        while (nanosleep(&t, &t) < 0 && errno == EINTR)
                ;
}

static int write_out(struct ledger *l) {
        for (size_t done = 0; done < l->out.size;) {
                ssize_t n = pwrite(l->segment_fd, l->out.data + done, l->out.size - done,
                                   (off_t)(l->segment_size + done));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                done += (size_t)n;
        }
        return 0;
}

/* Makes out durable. Nothing has changed when it fails. */
static int commit(struct ledger *l, struct head *ret) {
        int r = l->segment_fd < 0 ? open_segment(l) : 0;

        if (r < 0)
                return r;
        preallocate(l);
        r = write_out(l);
        if (r < 0)
                return r;
        if (l->options.slow_fsync_ms > 0)
                pause_ms(l->options.slow_fsync_ms);
        if (fdatasync(l->segment_fd) < 0)
                return -errno;
        if (l->segment_new && fsync(l->dir) < 0)
                return -errno;
        l->segment_new = false;
        struct head h = {.count = l->durable.count + 1,
                         .seq = l->chain.seq,
                         .segment = l->segment,
                         .size = l->segment_size + l->out.size};
        memcpy(h.hash, l->chain.raw, HASH_SIZE);
        r = head_write(l->head_fd, &h);
        if (r == 0)
                *ret = h;
        return r;
}

static void close_segment(struct ledger *l) {
        if (l->segment_fd >= 0)
                (void)!ftruncate(l->segment_fd, (off_t)l->segment_size); /* gives back what was taken ahead */
        fd_close(&l->segment_fd);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

static void tell(struct ledger *l) {
        uint64_t one = 1;

        (void)!write(l->event_fd, &one, sizeof one); /* full is as good: it is readable */
}

/* With the lock held: until woken, or until a time of writer_now_ms. */
static void wait_until(struct ledger *l, uint64_t ms) {
        struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

        if (ms == UINT64_MAX)
                (void)pthread_cond_wait(&l->wake, &l->lock);
        else
                (void)pthread_cond_timedwait(&l->wake, &l->lock, &t);
}

/* Notes a failure and waits for the next try. False: give up, we are being closed and it was tried often enough. */
static bool try_again(struct ledger *l, int error, unsigned *tries) {
        uint64_t wait = MIN((uint64_t)WRITER_RETRY_MIN_MS << MIN(*tries, 8u), (uint64_t)WRITER_RETRY_MAX_MS);
        uint64_t until = writer_now_ms() + wait;

        (void)pthread_mutex_lock(&l->lock);
        bool was_closing = l->closing;
        if (l->health != error) {
                l->health = error;
                tell(l);
        }
        while (writer_now_ms() < until && l->closing == was_closing)
                wait_until(l, until);
        bool closes_now = l->closing != was_closing;
        (void)pthread_mutex_unlock(&l->lock);
        *tries = closes_now ? 0 : *tries + 1;
        return !was_closing || *tries < WRITER_CLOSE_TRIES;
}

/* Everything in work becomes durable, or we give up. */
static bool write_work(struct ledger *l) {
        unsigned tries = 0;
        size_t at = 0;

        while (at < l->work.size || l->out.size > 0) {
                struct head h;
                int r = l->out.size > 0 ? 0 : make_unit(l, &at);

                if (r == 0)
                        r = commit(l, &h);
                if (r < 0) {
                        if (!try_again(l, r, &tries))
                                return false;
                        continue;
                }
                tries = 0;
                l->segment_size = h.size;
                l->out.size = 0;
                if (l->ends)
                        close_segment(l);
                l->ends = false;
                (void)pthread_mutex_lock(&l->lock);
                l->durable = h;
                l->health = 0;
                l->taken = l->work.size - at;
                tell(l);
                (void)pthread_mutex_unlock(&l->lock);
        }
        l->work.size = 0;
        return true;
}

/* When the next thing is due; 0: now. With the lock held. */
static uint64_t due(const struct ledger *l) {
        uint64_t when = UINT64_MAX;

        if (l->closing || (l->hurry && l->gather.size > 0) || l->gather.size >= WRITER_UNIT)
                return 0;
        if (l->gather.size > 0)
                when = l->gathered_ms + l->options.delay_ms;
        if (l->covered > 0)
                when = MIN(when, l->uncovered_ms + l->options.checkpoint_ms);
        return when;
}

static void shrink(struct buf *b) {
        if (b->size == 0 && b->room > WRITER_SHRINK)
                buf_free(b);
}

/* Waits for work and takes it. False: there is none and we are being closed. */
static bool take_work(struct ledger *l) {
        uint64_t when, now;

        (void)pthread_mutex_lock(&l->lock);
        while ((when = due(l)) > (now = writer_now_ms())) {
                if (l->gather.size == 0) { /* a quiet time */
                        shrink(&l->gather);
                        shrink(&l->work);
                        shrink(&l->out);
                }
                wait_until(l, when);
        }
        if (l->covered > 0 && (l->closing || l->uncovered_ms + l->options.checkpoint_ms <= now) &&
            writer_queue_checkpoint(l, false) < 0)
                l->uncovered_ms = now; /* no memory: another time */
        struct buf empty = l->work;
        l->work = l->gather;
        l->gather = empty;
        l->taken = l->work.size;
        l->hurry = false;
        (void)pthread_mutex_unlock(&l->lock);
        return l->work.size > 0;
}

void *writer_thread(void *ledger) {
        struct ledger *l = ledger;

        for (;;) {
                bool work = take_work(l);

                if (work && !write_work(l))
                        break;
                if (!work) {
                        (void)pthread_mutex_lock(&l->lock);
                        bool closing = l->closing;
                        (void)pthread_mutex_unlock(&l->lock);
                        if (closing)
                                break;
                }
        }
        close_segment(l);
        return NULL;
}
