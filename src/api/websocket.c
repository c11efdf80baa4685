/* WebSocket over an upgraded connection. wslay is given bytes and gives bytes; it never sees the socket.
 *
 * Always holds: a frame goes to the socket with its head in one piece; after our closing frame nothing else is sent;
 * the connection ends from our side when both closing frames have been seen, or half a second to a second after ours.
 * What the other end still sends meanwhile is read and dropped: closing a socket with unread bytes in it would reset
 * it, and the closing frame would be lost. */
#include "api/websocket.h"

#include <stdio.h>
#include <strings.h>
#include <wslay/wslay.h>

#include "api/websocket-accept.h"
#include "api/who.h"

#define PIECE       (32U * 1024) /* of what is sent: the other end need not hold more */
#define WAITING_MAX 64           /* messages: who does not read is not read from */
#define PING_MS     20000
#define LOST_MS     60000
#define LINGER_MS   400

/* --- opening --------------------------------------------------------------------------------------------------------
 */

/* Connection is a list of words; one of them must be this. */
static bool says_upgrade(struct exchange *x) {
        const char *p = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Connection");

        for (; p && *p; p += strspn(p, ", \t")) {
                size_t n = strcspn(p, ", \t");

                if (n == 7 && strncasecmp(p, "upgrade", 7) == 0)
                        return true;
                p += n;
        }
        return false;
}

bool websocket_check(struct exchange *x) {
        char accept[WEBSOCKET_ACCEPT];
        const struct head *h = &x->head;
        const char *wrong = NULL;

        if (!str_eq(x->method, "GET") || !str_eq(x->version, "HTTP/1.1"))
                wrong = "a WebSocket is opened with GET and HTTP/1.1";
        else if (!h->upgrade || strcasecmp(h->upgrade, "websocket") != 0 || !says_upgrade(x))
                wrong = "Upgrade and Connection do not ask for a WebSocket";
        else if (!h->websocket_version || !str_eq(h->websocket_version, "13"))
                wrong = "Sec-WebSocket-Version is not 13";
        else if (!h->websocket_key || !websocket_accept(h->websocket_key, accept))
                wrong = "Sec-WebSocket-Key is not 16 bytes in base64";
        if (!wrong)
                return true;
        reply_error(x, "upgrade_needed", "see RFC 6455, section 4.1", "%s", wrong);
        reply_header(x, "Upgrade", "websocket");
        reply_header(x, "Sec-WebSocket-Version", "13");
        return false;
}

void websocket_open(struct websocket *w) {
        struct exchange *x = w->up.x;
        char accept[WEBSOCKET_ACCEPT];

        if (!websocket_accept(x->head.websocket_key, accept))
                return;
        upgrade_begin(&w->up);
        reply_header(x, "Sec-WebSocket-Accept", accept);
}

/* --- wslay ----------------------------------------------------------------------------------------------------------
 */

static ssize_t give_bytes(struct wslay_event_context *c, uint8_t *buf, size_t size, int flags, void *data) {
        struct websocket *w = data;
        size_t n = MIN(size, w->in_size);

        (void)flags;
        if (n == 0) {
                wslay_event_set_error(c, WSLAY_ERR_WOULDBLOCK);
                return -1;
        }
        memcpy(buf, w->in, n);
        w->in += n;
        w->in_size -= n;
        return (ssize_t)n;
}

/* Heads come alone, with a word that more follows. */
static ssize_t take_bytes(struct wslay_event_context *c, const uint8_t *data, size_t size, int flags, void *user) {
        static uint8_t whole[sizeof((struct websocket *)0)->head + PIECE];
        struct websocket *w = user;

        if ((flags & WSLAY_MSG_MORE) && w->head_size == 0 && size <= sizeof w->head) {
                memcpy(w->head, data, size);
                w->head_size = size;
                return (ssize_t)size;
        }
        size_t n = MIN(size, sizeof whole - w->head_size);
        memcpy(whole, w->head, w->head_size);
        memcpy(whole + w->head_size, data, n);
        int r = upgrade_has_room(&w->up) ? upgrade_send(&w->up, whole, w->head_size + n) : -EAGAIN;
        if (r < 0) {
                wslay_event_set_error(c, r == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
                return -1;
        }
        w->head_size = 0;
        return (ssize_t)n;
}

static void cut_off(struct websocket *w);

/* Whoever opened it may have lost the right a moment ago, and nobody has looked since. */
static void on_message(struct wslay_event_context *c, const struct wslay_event_on_msg_recv_arg *m, void *data) {
        struct websocket *w = data;

        (void)c;
        if (wslay_is_ctrl_frame(m->opcode) || w->closing || w->leaving)
                return;
        if (who_is_over(w->up.x))
                cut_off(w);
        else
                w->message(w, m->opcode == WSLAY_TEXT_FRAME, m->msg, m->msg_length);
}

static uint64_t now_of(const struct websocket *w) {
        return loop_now(w->up.x->api->o->loop);
}

/* Both have said that it is over, or wslay has, after something that was no WebSocket. */
static void settle(struct websocket *w) {
        bool sent = !wslay_event_want_write(w->ws);

        if (!wslay_event_want_read(w->ws) && !w->closing)
                w->closing = now_of(w);
        if (sent && w->closing) {
                upgrade_last_word(&w->up);
                upgrade_hold(&w->up, false); /* until the other end has heard it */
                return;
        }
        struct exchange *x = w->up.x;
        upgrade_hold(&w->up, (x->busy && x->held) || wslay_event_get_queued_msg_count(w->ws) > WAITING_MAX);
        /* what waited here may have gone at once, and then the socket never tells of room */
        if (x->busy && x->c.writable && websocket_has_room(w))
                loop_later(x->api->o->loop, &x->room);
}

/* What came is no frame. wslay would close without saying why. */
static void break_off(struct websocket *w) {
        static const uint8_t frame[] = {0x88, 2, WSLAY_CODE_PROTOCOL_ERROR >> 8, WSLAY_CODE_PROTOCOL_ERROR & 0xff};

        if (w->closing || upgrade_send(&w->up, frame, sizeof frame) < 0) {
                upgrade_end(&w->up);
                return;
        }
        w->closing = now_of(w);
        w->broken = true;
        upgrade_last_word(&w->up);
        upgrade_hold(&w->up, false);
}

static void queue_close(struct websocket *w, uint16_t code, const char *reason) {
        w->leaving = false;
        w->closing = MAX(now_of(w), (uint64_t)1);
        (void)wslay_event_queue_close(w->ws, code, (const uint8_t *)reason, MIN(strlen(reason), (size_t)120));
}

static void pump(struct websocket *w) {
        if (w->broken || w->pumping || !w->up.open || w->up.over)
                return;
        w->pumping = true;
        int r = 0;
        if (w->in_size > 0 && !w->closing)
                r = wslay_event_recv(w->ws);
        w->in_size = 0;
        if (r == 0)
                r = wslay_event_send(w->ws);
        if (r == 0 && w->leaving && wslay_event_get_queued_msg_count(w->ws) == 0) {
                queue_close(w, w->last_code, w->last_reason);
                r = wslay_event_send(w->ws);
        }
        w->pumping = false;
        if (r != 0)
                break_off(w);
        else
                settle(w);
}

/* --- the socket -----------------------------------------------------------------------------------------------------
 */

static void on_opened(struct upgrade *u) {
        struct websocket *w = LOOP_OWNER(u, struct websocket, up);

        w->heard = w->asked = now_of(w);
        pump(w);
        loop_later(u->x->api->o->loop, &u->x->room);
}

static void on_bytes(struct upgrade *u, const uint8_t *data, size_t size) {
        struct websocket *w = LOOP_OWNER(u, struct websocket, up);

        w->heard = now_of(w);
        w->in = data;
        w->in_size = size;
        pump(w);
}

static void on_room(struct upgrade *u) {
        pump(LOOP_OWNER(u, struct websocket, up));
        loop_later(u->x->api->o->loop, &u->x->room);
}

int websocket_init(struct websocket *w, struct exchange *x,
                   void (*message)(struct websocket *w, bool text, const uint8_t *data, size_t size)) {
        static const struct upgrade_events events = {on_opened, on_bytes, on_room};
        static const struct wslay_event_callbacks calls = {
                .recv_callback = give_bytes, .send_callback = take_bytes, .on_msg_recv_callback = on_message};

        upgrade_init(&w->up, x, &events);
        w->message = message;
        if (wslay_event_context_server_init(&w->ws, &calls, w) != 0)
                return -ENOMEM;
        wslay_event_config_set_max_recv_msg_length(w->ws, WEBSOCKET_MESSAGE_MAX);
        return 0;
}

void websocket_free(struct websocket *w) {
        upgrade_free(&w->up);
        if (w->ws)
                wslay_event_context_free(w->ws);
        w->ws = NULL;
}

/* --- saying something -----------------------------------------------------------------------------------------------
 */

void websocket_send(struct websocket *w, bool text, const void *data, size_t size) {
        const uint8_t *p = data;

        if (w->closing || w->leaving || w->up.over)
                return;
        do { /* a text is one message: it is ours, and short */
                size_t n = text ? size : MIN(size, (size_t)PIECE);
                struct wslay_event_msg m = {
                        .opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, .msg = p, .msg_length = n};

                if (wslay_event_queue_msg(w->ws, &m) != 0 || wslay_event_get_queued_msg_length(w->ws) > EXCHANGE_MOST) {
                        upgrade_end(&w->up);
                        return;
                }
                p += n;
                size -= n;
        } while (size > 0);
        pump(w);
}

void websocket_close(struct websocket *w, uint16_t code, const char *reason) {
        if (w->closing || w->leaving || w->up.over)
                return;
        if (wslay_event_get_queued_msg_count(w->ws) == 0)
                queue_close(w, code, reason);
        else { /* wslay would send it before what waits */
                w->leaving = true;
                w->last_code = code;
                (void)snprintf(w->last_reason, sizeof w->last_reason, "%s", reason);
        }
        pump(w);
}

bool websocket_has_room(const struct websocket *w) {
        return !w->closing && !w->leaving && !w->up.over && wslay_event_get_queued_msg_length(w->ws) < EXCHANGE_MARK;
}

void websocket_released(struct websocket *w) {
        pump(w);
}

/* Whoever opened it may not have it any more: the verb hears nothing further, whatever the other end does. */
static void cut_off(struct websocket *w) {
        struct exchange *x = w->up.x;

        if (x->busy && x->c.gone) {
                x->busy = false;
                x->c.gone(&x->c);
        }
        queue_close(w, WSLAY_CODE_POLICY_VIOLATION, "the session has ended");
        pump(w);
}

void websocket_tick(struct websocket *w, uint64_t now) {
        struct wslay_event_msg ping = {.opcode = WSLAY_PING};
        struct exchange *x = w->up.x;

        if (!w->up.open || w->up.over)
                return;
        if (!w->closing && who_is_over(x)) {
                cut_off(w);
                return;
        }
        /* what it says lies unread by our own will, and its word that it lives with it: but that it left can be seen */
        bool deaf = x->busy && x->held && !w->closing;
        if (deaf && http_hung_up(x->link)) {
                upgrade_end(&w->up);
                return;
        }
        if (deaf)
                w->heard = now;
        if ((w->closing && now >= w->closing + LINGER_MS) || now >= w->heard + LOST_MS) {
                upgrade_end(&w->up);
                return;
        }
        /* also then: a host that is gone is found out by what is sent to it */
        bool idle = deaf ? wslay_event_get_queued_msg_count(w->ws) == 0 : now >= w->heard + PING_MS;
        if (!w->closing && idle && now >= w->asked + PING_MS) {
                w->asked = now;
                (void)wslay_event_queue_msg(w->ws, &ping);
        }
        pump(w);
}
