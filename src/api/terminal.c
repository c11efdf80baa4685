/* Terminals over WebSocket. The verb `attach` is asked first: whoever may not have the run gets an ordinary answer,
 * and only what the verb has accepted is upgraded. A terminal is a run like any other, so it is there after a restart
 * of the operator, and whoever comes back gets its scrollback, or what came since the offset that he names. */
#include "api/terminal.h"

#include "api/encode.h"
#include "api/route.h"
#include "api/websocket.h"
#include "api/who.h"
#include "base/json-read.h"

#define CONTROL_MAX 4096
#define NORMAL      1000
#define FAILED      1011

/* {"name": json} as a text message. */
static void say(struct websocket *w, const char *name, const char *json) {
        _cleanup_buf_ struct buf b = {.max = 1U << 20};

        buf_printf(&b, "{\"%s\":%s}", name, json);
        if (buf_ok(&b))
                websocket_send(w, true, b.data, b.size);
        else
                websocket_close(w, FAILED, "out of memory");
}

static void say_refused(struct websocket *w, const char *code, const char *message, const char *hint) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        reply_error_json(&j, code, message, hint);
        say(w, "refused", buf_ok(&b) ? b.data : "{}");
}

static bool is_control(const char *text) {
        bool detach = false;
        uint64_t number = 0, rows, columns;

        if (json_find_kind(text, "resize"))
                return json_find_u64(text, "resize.0", &rows) && json_find_u64(text, "resize.1", &columns) &&
                       rows - 1 < LOCAL_EXTENT_MAX && columns - 1 < LOCAL_EXTENT_MAX;
        return json_find_u64(text, "signal", &number) || json_find_bool(text, "detach", &detach);
}

/* Whoever may look on may not type, unless the token says that, too. */
static bool may(struct exchange *x, const char *control) {
        return control ? (json_find_kind(control, "resize") == '\0' || who_may(x, "resize")) &&
                                 (json_find_kind(control, "signal") == '\0' || who_may(x, "signal"))
                       : who_may(x, "input");
}

static void not_permitted(struct websocket *w) {
        say_refused(w, "not_permitted", "this token is for looking on", "its owner can give one for 'input' as well");
}

static void message(struct websocket *w, bool text, const uint8_t *data, size_t size) {
        struct exchange *x = w->up.x;
        char control[CONTROL_MAX + 1];

        if (!x->busy || !x->c.input)
                return;
        if (!text) {
                if (may(x, NULL))
                        x->c.input(&x->c, LOCAL_INPUT, data, size);
                else
                        not_permitted(w);
                return;
        }
        bool good = size <= CONTROL_MAX && json_check((const char *)data, size, NULL) == 0;
        if (good) {
                memcpy(control, data, size);
                control[size] = '\0';
                good = is_control(control);
        }
        if (good && !may(x, control))
                not_permitted(w);
        else if (good)
                x->c.input(&x->c, LOCAL_CONTROL, (const uint8_t *)control, size);
        else
                say_refused(w, "bad_request", "a text message is not understood",
                            "send {\"resize\": [rows, cols]}, each from 1 to 1000, or {\"signal\": n}; what is typed "
                            "goes as "
                            "binary");
}

static void frame(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        struct websocket *w = x->data;
        _cleanup_buf_ struct buf b = {.max = 2U << 20};
        struct json j = {.out = &b};

        if (!x->streaming)
                websocket_open(w);
        if (kind == LOCAL_OUTPUT)
                websocket_send(w, false, data, size);
        else if (kind == LOCAL_ERRORS) {
                json_open(&j, NULL, '{');
                encode_member(&j, "data", data, size);
                json_close(&j, '}');
                say(w, "error_output", buf_ok(&b) ? b.data : "{}");
        } else if (kind == LOCAL_EVENT && size < CONTROL_MAX) {
                buf_add(&b, data, size);
                say(w, "started", buf_ok(&b) ? b.data : "{}");
        }
}

static void answer(struct exchange *x, const char *result) {
        struct websocket *w = x->data;

        if (!x->streaming)
                websocket_open(w);
        say(w, "exit", result);
        websocket_close(w, NORMAL, "the run has ended");
}

static void refuse(struct exchange *x, const char *code, const char *text, const char *hint) {
        say_refused(x->data, code, text, hint);
        websocket_close(x->data, FAILED, "refused");
}

static void tick(struct exchange *x, uint64_t now) {
        if (x->data)
                websocket_tick(x->data, now);
}

static bool has_room(const struct exchange *x) {
        return x->data && websocket_has_room(x->data);
}

static void released(struct exchange *x) {
        if (x->data)
                websocket_released(x->data);
}

static void free_all(struct exchange *x) {
        struct websocket *w = TAKE_PTR(x->data);

        if (!w)
                return;
        websocket_free(w);
        free(w);
}

const struct view view_terminal = {.frame = frame,
                                   .answer = answer,
                                   .refuse = refuse,
                                   .tick = tick,
                                   .free = free_all,
                                   .has_room = has_room,
                                   .released = released};

void terminal_begin(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        struct websocket *w;

        if (!websocket_check(x))
                return;
        w = calloc(1, sizeof *w);
        x->data = w;
        if (!w || websocket_init(w, x, message) < 0) {
                reply_error(x, "failed", "try again", "out of memory");
                return;
        }
        route_request(x, &j, "attach");
        if (!route_fields(x, &j)) {
                buf_free(&b);
                return;
        }
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}
