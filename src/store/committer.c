/* The writer thread: one transaction for what has gathered. A transaction that fails is rolled back and tried again
 * with the same rows, in the same order, until it works. */
#include "store/committer.h"

#include <time.h>
#include <unistd.h>

/* --- statements ------------------------------------------------------------------------------------------------- */

static int prepare_one(struct store *s, const char *sql, sqlite3_stmt **ret) {
        return sql ? sqlite3_prepare_v3(s->writer, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) : SQLITE_OK;
}

int committer_prepare(struct store *s, struct err *err) {
        int r = prepare_one(s, "BEGIN IMMEDIATE", &s->begin);

        if (r == SQLITE_OK)
                r = prepare_one(s, "COMMIT", &s->commit);
        if (r == SQLITE_OK)
                r = prepare_one(s, "ROLLBACK", &s->rollback);
        for (size_t f = 0; r == SQLITE_OK && f < STORE_FAMILIES; f++) {
                const struct family *family = store_family((enum store_family)f);

                for (size_t i = 0; r == SQLITE_OK && i < FAMILY_PUTS; i++)
                        r = prepare_one(s, family->put[i], &s->put[f][i]);
                if (r == SQLITE_OK)
                        r = prepare_one(s, family->remove, &s->remove[f]);
        }
        return r == SQLITE_OK ? 0 : db_fail(s->writer, r, s->path, "prepare the queries", err);
}

void committer_finalize(struct store *s) {
        for (size_t f = 0; f < STORE_FAMILIES; f++) {
                for (size_t i = 0; i < FAMILY_PUTS; i++)
                        db_finalize(&s->put[f][i]);
                db_finalize(&s->remove[f]);
        }
        db_finalize(&s->begin);
        db_finalize(&s->commit);
        db_finalize(&s->rollback);
}

/* Executes a statement that gives no rows; a result of SQLite. */
static int execute(sqlite3_stmt *q) {
        int r = sqlite3_step(q), reset = sqlite3_reset(q);

        return r == SQLITE_DONE ? reset : r;
}

static int apply(struct store *s, const struct store_change *c) {
        const struct family *f = store_family(c->family);
        const void *row = c + 1;

        for (size_t i = 0; i < FAMILY_PUTS; i++) {
                sqlite3_stmt *q = !c->remove ? s->put[c->family][i] : i == 0 ? s->remove[c->family] : NULL;

                if (!q)
                        continue;
                int r = family_bind(f, q, row);
                if (r == SQLITE_OK)
                        r = execute(q);
                (void)sqlite3_clear_bindings(q); /* they point into the row */
                if (r != SQLITE_OK)
                        return r;
        }
        return SQLITE_OK;
}

/* All rows of a list up to a ticket, or none. Our code. */
static int commit(struct store *s, const struct store_change *list, uint64_t last) {
        int r = execute(s->begin);

        for (const struct store_change *c = list; r == SQLITE_OK; c = c->next) {
                r = apply(s, c);
                s->wipe |= store_family(c->family)->wipe;
                if (c->ticket == last) /* what follows it may be changing */
                        break;
        }
        if (r == SQLITE_OK)
                r = execute(s->commit);
        if (r == SQLITE_OK)
                return 0;
        int code = db_code(s->writer, r);
        if (!sqlite3_get_autocommit(s->writer))
                (void)execute(s->rollback);
        return code < 0 ? code : -EIO;
}

/* Pages that were written are taken into the file, over what was there, and the log is cut to nothing. If somebody
 * reads just now, it is done after the next transaction. */
static void wipe(struct store *s) {
        if (s->wipe && sqlite3_wal_checkpoint_v2(s->writer, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK)
                s->wipe = false;
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

static void tell(struct store *s) {
        uint64_t one = 1;

        (void)!write(s->event_fd, &one, sizeof one); /* full is as good: it is readable */
}

static void wait_until(struct store *s, uint64_t ms) {
        struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

        if (ms == UINT64_MAX)
                (void)pthread_cond_wait(&s->wake, &s->lock);
        else
                (void)pthread_cond_timedwait(&s->wake, &s->lock, &t);
}

/* Waits until something is to be committed: the beginning of the queue and the last ticket of the batch. The queue is
 * not touched: it is only added to at its end meanwhile. NULL: there is nothing and we are being closed. A group is
 * never cut in two, and one that is not ended is not taken. */
static const struct store_change *wait_for_work(struct store *s, uint64_t *ret_last) {
        const struct store_change *first, *c;
        size_t count = 0;

        (void)pthread_mutex_lock(&s->lock);
        for (;;) {
                bool any = s->queue != s->open;
                uint64_t now = store_now_ms(), when = any ? s->gathered_ms + STORE_DELAY_MS : UINT64_MAX;

                if (s->closing || (any && (s->hurry || when <= now)))
                        break;
                wait_until(s, when);
        }
        first = s->queue != s->open ? s->queue : NULL;
        for (c = s->queue; c != s->open; c = c->next) {
                *ret_last = c->ticket;
                if (++count >= STORE_BATCH && !c->more)
                        break;
        }
        if (c == s->open) /* all of it */
                s->hurry = false;
        (void)pthread_mutex_unlock(&s->lock);
        return first;
}

/* Takes what was committed off the queue and says so. */
static void done(struct store *s, uint64_t last) {
        struct store_change *old;

        (void)pthread_mutex_lock(&s->lock);
        old = s->queue;
        while (s->queue && s->queue->ticket <= last) {
                s->backlog -= s->queue->size;
                s->queue = s->queue->next;
        }
        if (!s->queue)
                s->queue_end = NULL;
        s->gathered_ms = store_now_ms();
        s->committed = last;
        s->health = 0;
        tell(s);
        struct store_change *rest = s->queue;
        (void)pthread_mutex_unlock(&s->lock);
        while (old != rest) {
                struct store_change *next = old->next;
                free(old);
                old = next;
        }
}

/* Notes a failure and waits for the next try. False: give up, we are being closed and it was tried often enough. */
static bool try_again(struct store *s, int error, unsigned *tries) {
        uint64_t pause = MIN((uint64_t)STORE_RETRY_MIN_MS << MIN(*tries, 8u), (uint64_t)STORE_RETRY_MAX_MS);
        uint64_t until = store_now_ms() + pause;

        (void)pthread_mutex_lock(&s->lock);
        bool was_closing = s->closing;
        if (s->health != error) {
                s->health = error;
                tell(s);
        }
        while (store_now_ms() < until && s->closing == was_closing)
                wait_until(s, until);
        bool closes_now = s->closing != was_closing;
        (void)pthread_mutex_unlock(&s->lock);
        *tries = closes_now ? 0 : *tries + 1;
        return !was_closing || *tries < STORE_CLOSE_TRIES;
}

void *committer_thread(void *store) {
        struct store *s = store;
        const struct store_change *list;
        unsigned tries = 0;
        uint64_t last;

        while ((list = wait_for_work(s, &last))) {
                int r = commit(s, list, last);

                if (r < 0 && !try_again(s, r, &tries))
                        break;
                if (r == 0) {
                        tries = 0;
                        wipe(s);
                        done(s, last);
                }
        }
        (void)sqlite3_wal_checkpoint_v2(s->writer, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        return NULL;
}
