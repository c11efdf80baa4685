/* Inside of a ledger that is being written: what append and the writer thread share, and what is the thread's alone. */
#pragma once

#include <pthread.h>

#include "base/buf.h"
#include "ledger/chain.h"
#include "ledger/head.h"

enum {
        WRITER_UNIT = 1 << 20,        /* so much is written before an fdatasync, about */
        WRITER_PREALLOCATE = 4 << 20, /* disk space is taken in steps of this */
        WRITER_SHRINK = 256 << 10,    /* larger buffers are given back in quiet times */
        WRITER_RETRY_MIN_MS = 100,
        WRITER_RETRY_MAX_MS = 1000,
        WRITER_CLOSE_TRIES = 3,
};

/* An event in the queue; sandbox, actor and data follow, then padding to 8 bytes. */
struct writer_entry {
        uint64_t seq, time_us;
        uint32_t data_size;
        uint16_t kind;
        uint8_t sandbox_size, actor_size;
        bool last_of_segment; /* a checkpoint, after which a new segment begins */
};

struct ledger {
        struct ledger_options options; /* with the defaults filled in */
        int dir, head_fd, event_fd;
        struct keys *keys;
        pthread_t thread;

        pthread_mutex_t lock; /* for what follows, up to the thread's own */
        pthread_cond_t wake;
        struct buf gather; /* entries that the thread has not taken yet */
        size_t taken;      /* bytes of entries that it has taken and not made durable */
        uint64_t next_seq;
        uint64_t planned;                    /* bytes that the segment will have with all that is queued */
        uint64_t covered;                    /* events since the last checkpoint that was queued */
        uint64_t gathered_ms;                /* when the oldest in gather came */
        uint64_t uncovered_ms;               /* when the oldest without a checkpoint came */
        uint64_t counted[LEDGER_KIND_COUNT]; /* events that were accepted, since it was opened */
        bool hurry, closing;
        int health;
        struct head durable;

        /* the thread's own */
        struct buf work, out; /* entries taken; lines made of them */
        struct chain chain;   /* up to the last line in out */
        struct line_clock clock;
        int segment_fd;   /* -EBADF: to be made with the next line */
        bool segment_new; /* its name is not durable yet */
        uint64_t segment, segment_size, segment_allocated;
        bool ends; /* out ends with the last line of its segment */
};

uint64_t writer_now_ms(void); /* of a clock that only goes forward */

/* Queues a checkpoint. With the lock held. 0 or -ENOMEM. */
int writer_queue_checkpoint(struct ledger *l, bool last_of_segment);
int writer_queue(struct ledger *l, enum ledger_kind kind, const char *sandbox, const char *actor, const char *data,
                 size_t data_size, bool last_of_segment);

void *writer_thread(void *ledger);

/* recover.c: finds the end of what there is, checks the last segment and cuts off what is torn (*ret_cut bytes). Fills
 * chain, segment*, next_seq, planned, covered and durable. */
int recover_end(struct ledger *l, uint64_t *ret_cut, struct err *err);
