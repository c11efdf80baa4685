/* Inside of the store: what its users and its writer thread share. */
#pragma once

#include <pthread.h>

#include "store/db.h"
#include "store/family.h"

enum {
        STORE_BACKLOG_MAX = 64 << 20,
        STORE_BATCH = 4096, /* rows in one transaction, at most */
        STORE_DELAY_MS = 20,
        STORE_RETRY_MIN_MS = 100,
        STORE_RETRY_MAX_MS = 1000,
        STORE_CLOSE_TRIES = 3,
};

/* A row in the queue; it follows, and what its pointers lead to. */
struct store_change {
        struct store_change *next;
        uint64_t ticket;
        size_t size; /* with what follows */
        enum store_family family;
        bool remove;
        bool more; /* the next one has to be in the same transaction */
};

struct store {
        char *path;
        int event_fd;
        sqlite3 *reader; /* the caller's thread */
        pthread_t thread;

        pthread_mutex_t lock; /* for what follows, up to the thread's own */
        pthread_cond_t wake;
        struct store_change *queue, *queue_end;
        struct store_change
                *open; /* the first of a group that is not ended: from here on nothing is taken; NULL: none */
        bool grouping;
        size_t backlog; /* bytes of what is queued and not committed */
        uint64_t last_ticket, committed, gathered_ms;
        bool hurry, closing;
        int health;

        /* the thread's own */
        sqlite3 *writer;
        bool wipe; /* the log may have what was removed and must not stay */
        sqlite3_stmt *put[STORE_FAMILIES][FAMILY_PUTS], *remove[STORE_FAMILIES], *begin, *commit, *rollback;
};

const struct family *store_family(enum store_family f);
uint64_t store_now_ms(void); /* of a clock that only goes forward */

int committer_prepare(struct store *s, struct err *err);
void committer_finalize(struct store *s);
void *committer_thread(void *store);
