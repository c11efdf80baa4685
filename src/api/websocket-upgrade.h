/* A connection that is HTTP no more: after the head of a 101 the socket is ours, in our own loop, and bytes go both
 * ways as they come. libmicrohttpd keeps the descriptor and closes it when we say so.
 *
 * It lies at the beginning of what a view keeps in x->data. Everything may be asked of it from the moment of
 * upgrade_init on; before the socket is there nothing has room. */
#pragma once

#include "api/exchange.h"
#include "operator/stream.h"

struct upgrade;

struct upgrade_events {
        void (*opened)(struct upgrade *u); /* the socket is there */
        void (*bytes)(struct upgrade *u, const uint8_t *data, size_t size);
        void (*room)(struct upgrade *u); /* what waits has fallen below the mark */
};

struct upgrade {
        struct exchange *x;
        const struct upgrade_events *events;
        struct MHD_UpgradeResponseHandle *handle; /* NULL: not yet, or given back */
        struct stream stream;
        struct loop_task end;
        bool open; /* the socket is there */
        bool over; /* it ends at the end of this turn, or has ended */
};

void upgrade_init(struct upgrade *u, struct exchange *x, const struct upgrade_events *events);
void upgrade_free(struct upgrade *u);

/* Answers with 101. The caller adds the headers that belong to it right afterwards (reply_header). */
void upgrade_begin(struct upgrade *u);

bool upgrade_has_room(const struct upgrade *u);
int upgrade_send(struct upgrade *u, const void *data, size_t size); /* as stream_send; -EAGAIN before it is open */
void upgrade_hold(struct upgrade *u, bool hold);                    /* read nothing for now */

void upgrade_last_word(struct upgrade *u); /* nothing more is sent by us; what still comes is read */
void upgrade_end(struct upgrade *u);       /* closed, and the verb is told; at the end of this turn */
