/* The store as its users see it, and its queue. What touches the database for writing is the writer's (committer.c).
 *
 * Always: tickets are committed in the order in which they were given, in whole transactions. Never: a wait for a disk
 * on the way of store_put. */
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "store/backup.h"
#include "store/committer.h"
#include "store/migrate.h"

static const struct family *const families[] = {
        [STORE_SANDBOX] = &family_sandbox, [STORE_RUN] = &family_run,
        [STORE_DISK] = &family_disk,       [STORE_SNAPSHOT] = &family_snapshot,
        [STORE_IMAGE] = &family_image,     [STORE_REQUEST] = &family_request,
        [STORE_REVOKED] = &family_revoked, [STORE_CAPABILITY] = &family_capability,
        [STORE_SSH_KEY] = &family_ssh_key, [STORE_DATA_KEY] = &family_data_key,
        [STORE_SECRET] = &family_secret,
};
static_assert(ELEMENTSOF(families) == STORE_FAMILIES, "a family without queries");

const struct family *store_family(enum store_family f) {
        return families[f];
}

uint64_t store_now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- the queue -------------------------------------------------------------------------------------------------- */

static uint64_t put(struct store *s, enum store_family f, const void *row, bool remove) {
        assert(f < STORE_FAMILIES);
        const struct family *family = families[f];
        size_t size = sizeof(struct store_change) + family->row_size + (remove ? 0 : family_blobs(family, row));
        uint64_t ticket = STORE_REFUSED;

        struct store_change *c = malloc(size);
        if (!c)
                return STORE_REFUSED;
        *c = (struct store_change){.family = f, .remove = remove, .size = size};
        if (remove)
                memcpy(c + 1, row, family->row_size); /* its blobs are not looked at */
        else
                family_copy(family, c + 1, row, (char *)(c + 1) + family->row_size);

        (void)pthread_mutex_lock(&s->lock);
        bool wake = false;
        if (s->backlog + size <= STORE_BACKLOG_MAX || s->grouping) {
                c->more = s->grouping;
                if (s->grouping && !s->open)
                        s->open = c;
                c->ticket = ticket = ++s->last_ticket;
                if (s->queue_end)
                        s->queue_end->next = c;
                else {
                        s->queue = c;
                        s->gathered_ms = store_now_ms();
                        wake = true;
                }
                s->queue_end = c;
                s->backlog += size;
                c = NULL;
        }
        (void)pthread_mutex_unlock(&s->lock);
        free(c);
        if (wake)
                (void)pthread_cond_signal(&s->wake);
        return ticket;
}

uint64_t store_put(struct store *s, enum store_family f, const void *row) {
        return put(s, f, row, false);
}

uint64_t store_remove(struct store *s, enum store_family f, const void *row) {
        return put(s, f, row, true);
}

void store_begin(struct store *s) {
        (void)pthread_mutex_lock(&s->lock);
        assert(!s->grouping);
        s->grouping = true;
        (void)pthread_mutex_unlock(&s->lock);
}

void store_end(struct store *s) {
        (void)pthread_mutex_lock(&s->lock);
        assert(s->grouping);
        if (s->open)
                s->queue_end->more = false;
        s->open = NULL;
        s->grouping = false;
        (void)pthread_mutex_unlock(&s->lock);
        (void)pthread_cond_signal(&s->wake);
}

uint64_t store_committed(struct store *s) {
        (void)pthread_mutex_lock(&s->lock);
        uint64_t ticket = s->committed;
        (void)pthread_mutex_unlock(&s->lock);
        return ticket;
}

int store_fd(struct store *s) {
        return s->event_fd;
}

void store_hurry(struct store *s) {
        (void)pthread_mutex_lock(&s->lock);
        bool wake = s->queue && !s->hurry;
        s->hurry |= wake;
        (void)pthread_mutex_unlock(&s->lock);
        if (wake)
                (void)pthread_cond_signal(&s->wake);
}

int store_health(struct store *s) {
        (void)pthread_mutex_lock(&s->lock);
        int health = s->health;
        (void)pthread_mutex_unlock(&s->lock);
        return health;
}

/* --- loading ---------------------------------------------------------------------------------------------------- */

/* Gives every result to fn. The statement is bound. */
static int give(struct store *s, const struct family *f, sqlite3_stmt *q, int (*fn)(void *data, const void *row),
                void *data, struct err *err) {
        _cleanup_free_ void *row = calloc(1, f->row_size);
        int r;

        if (!row)
                return err_set(err, -ENOMEM, "cannot load table '%s'", f->name);
        while ((r = sqlite3_step(q)) == SQLITE_ROW) {
                int e = family_read(f, q, row);
                if (e < 0) {
                        char says[80];
                        (void)snprintf(says, sizeof says, "table '%s' has a row with values that it cannot have",
                                       f->name);
                        return db_damaged(s->path, says, err);
                }
                e = fn(data, row);
                if (e < 0)
                        return e;
        }
        return r == SQLITE_DONE ? 0 : db_fail(s->reader, r, s->path, "load a table", err);
}

int store_load(struct store *s, enum store_family f, int (*fn)(void *data, const void *row), void *data,
               struct err *err) {
        _cleanup_(db_finalize) sqlite3_stmt *q = NULL;
        int r = sqlite3_prepare_v2(s->reader, families[f]->load, -1, &q, NULL);

        if (r != SQLITE_OK)
                return db_fail(s->reader, r, s->path, "load a table", err);
        return give(s, families[f], q, fn, data, err);
}

int store_runs(struct store *s, const char *sandbox, uint64_t before, unsigned max,
               int (*fn)(void *data, const void *row), void *data, struct err *err) {
        _cleanup_(db_finalize) sqlite3_stmt *q = NULL;
        int r = sqlite3_prepare_v2(s->reader, family_run_recent, -1, &q, NULL);

        if (r == SQLITE_OK)
                r = sqlite3_bind_text(q, 1, sandbox, -1, SQLITE_STATIC);
        if (r == SQLITE_OK)
                r = sqlite3_bind_int64(q, 2, before == 0 ? INT64_MAX : (int64_t)MIN(before, (uint64_t)INT64_MAX));
        if (r == SQLITE_OK)
                r = sqlite3_bind_int64(q, 3, max);
        if (r != SQLITE_OK)
                return db_fail(s->reader, r, s->path, "load runs", err);
        return give(s, &family_run, q, fn, data, err);
}

/* --- open and close --------------------------------------------------------------------------------------------- */

static void store_free(struct store *s) {
        while (s->queue) {
                struct store_change *c = s->queue;
                s->queue = c->next;
                free(c);
        }
        committer_finalize(s);
        db_close(&s->reader);
        db_close(&s->writer);
        fd_close(&s->event_fd);
        (void)pthread_cond_destroy(&s->wake);
        (void)pthread_mutex_destroy(&s->lock);
        free(s->path);
        free(s);
}

static void store_freep(struct store **s) {
        if (*s)
                store_free(*s);
}

/* The file itself, ours alone: SQLite gives its other files the same mode. */
static int make_file(const char *path, struct err *err) {
        _cleanup_fd_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0 && errno == EEXIST)
                return 0;
        if (fd < 0)
                return err_set(err, -errno, "cannot make the store '%s'", path);
        int r = backup_sync_folder(path);
        return r < 0 ? err_set(err, r, "cannot make the store '%s'", path) : 0;
}

static int check(sqlite3 *db, const char *path, struct err *err) {
        char says[200] = "";
        int r = db_text(db, "PRAGMA quick_check(1)", says, sizeof says);

        if (r < 0)
                return db_fail(db, sqlite3_errcode(db), path, "check the store", err);
        return str_eq(says, "ok") ? 0 : db_damaged(path, says, err);
}

/* Checks, copies, migrates. */
static int prepare(struct store *s, struct err *err) {
        char mode[20] = "", suffix[32];
        unsigned version = 0;

        int r = migrate_version(s->writer, s->path, &version, err);
        if (r == 0)
                r = check(s->writer, s->path, err);
        if (r < 0)
                return r;
        r = db_text(s->writer, "PRAGMA journal_mode = WAL", mode, sizeof mode);
        if (r < 0 || !str_eq(mode, "wal"))
                return db_fail(s->writer, r < 0 ? sqlite3_errcode(s->writer) : SQLITE_CANTOPEN, s->path, "keep a log",
                               err);
        if (version > 0 && version < migrate_newest()) {
                (void)snprintf(suffix, sizeof suffix, "before-%u", version + 1);
                r = backup_make(s->writer, s->path, suffix);
                if (r < 0) {
                        (void)err_set(err, r, "could not copy the store '%s' before changing its schema", s->path);
                        return err_hint(err, "nothing was changed: make room for the copy and start again");
                }
        }
        r = migrate_to(s->writer, s->path, migrate_newest(), err);
        if (r < 0)
                return r;
        if (version > 0)
                (void)backup_daily(s->writer, s->path); /* a copy that cannot be made must not keep us from working */
        return 0;
}

static int start_thread(struct store *s) {
        pthread_attr_t attr;
        sigset_t all, before;
        int r = pthread_attr_init(&attr);

        if (r != 0)
                return -r;
        (void)sigfillset(&all); /* signals are for the thread that waits for them */
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        (void)pthread_attr_setstacksize(&attr, 512 << 10);
        r = pthread_create(&s->thread, &attr, committer_thread, s);
        (void)pthread_attr_destroy(&attr);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

static int store_init(struct store *s, const char *folder) {
        pthread_condattr_t attr;

        s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        (void)pthread_mutex_init(&s->lock, NULL);
        (void)pthread_condattr_init(&attr);
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&s->wake, &attr);
        (void)pthread_condattr_destroy(&attr);
        if (asprintf(&s->path, "%s/store.db", folder) < 0)
                s->path = NULL;
        return !s->path ? -ENOMEM : s->event_fd < 0 ? -EMFILE : 0;
}

int store_open(struct store **ret, const char *folder, struct err *err) {
        _cleanup_(store_freep) struct store *s = calloc(1, sizeof *s);
        unsigned version;

        if (!s)
                return err_set(err, -ENOMEM, "cannot open the store in '%s'", folder);
        int r = store_init(s, folder);
        if (r < 0)
                return err_set(err, r, "cannot open the store in '%s'", folder);
        r = make_file(s->path, err);
        if (r == 0)
                r = db_open(&s->writer, s->path, true, err);
        if (r == 0)
                r = prepare(s, err);
        if (r == 0)
                r = committer_prepare(s, err);
        if (r == 0)
                r = db_open(&s->reader, s->path, false, err);
        if (r == 0)
                r = migrate_version(s->reader, s->path, &version, err); /* opens its files, too */
        if (r < 0)
                return r;
        r = start_thread(s);
        if (r < 0)
                return err_set(err, r, "cannot start the store's writer");
        *ret = TAKE_PTR(s);
        return 0;
}

void store_close(struct store *s) {
        if (!s)
                return;
        (void)pthread_mutex_lock(&s->lock);
        s->closing = true;
        (void)pthread_mutex_unlock(&s->lock);
        (void)pthread_cond_signal(&s->wake);
        (void)pthread_join(s->thread, NULL);
        store_free(s);
}
