/* The server's side of WebSocket (RFC 6455): the opening, messages both ways, pings, the closing. Framing is wslay's.
 *
 * The other end may hold one message of WEBSOCKET_MESSAGE_MAX bytes here and what it does not read, up to the mark
 * that every stream has; above that nothing is read from it and nothing taken from the verb. One that is not heard of
 * for a minute, or whose session has ended, is closed. No extension is ever agreed to. */
#pragma once

#include "api/websocket-upgrade.h"

#define WEBSOCKET_MESSAGE_MAX (64U * 1024)

struct wslay_event_context;

struct websocket {
        struct upgrade up; /* first */
        struct wslay_event_context *ws;
        /* A whole message; text was checked to be UTF-8. */
        void (*message)(struct websocket *w, bool text, const uint8_t *data, size_t size);
        const uint8_t *in; /* what was read and wslay has not taken yet; only inside a call */
        size_t in_size;
        uint8_t head[16]; /* of a frame, until its first bytes come */
        size_t head_size;
        bool pumping;
        bool broken;           /* what came was no frame: wslay is not asked any more */
        uint64_t heard, asked; /* when; of the loop */
        uint64_t closing;      /* since when; 0: it is not */
        bool leaving;          /* it closes once what was said before is sent */
        uint16_t last_code;    /* and this is then said */
        char last_reason[121];
};

/* Is the head a right opening? If not it is refused, with what would be right. */
bool websocket_check(struct exchange *x);

/* 0 or -ENOMEM. The struct is the caller's; it stays where it is until websocket_free. */
int websocket_init(struct websocket *w, struct exchange *x,
                   void (*message)(struct websocket *w, bool text, const uint8_t *data, size_t size));
void websocket_free(struct websocket *w);

void websocket_open(struct websocket *w);                                           /* answers with 101 */
void websocket_send(struct websocket *w, bool text, const void *data, size_t size); /* in messages of a bounded size */
/* Our closing frame, behind what was said before. Messages that come now are dropped. */
void websocket_close(struct websocket *w, uint16_t code, const char *reason);

/* For the view. */
bool websocket_has_room(const struct websocket *w);
void websocket_released(struct websocket *w); /* the verb takes input again, or there is something to do */
void websocket_tick(struct websocket *w, uint64_t now);
