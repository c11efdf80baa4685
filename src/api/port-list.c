/* Which ports are listened on: what the kernel tells programs inside in /proc/net/tcp and tcp6, read through the guest.
 * The text is hostile, and read by port-table.c. */
#include <stdio.h>

#include "api/port-table.h"
#include "api/port.h"
#include "api/route.h"

#define TEXT_MAX (256U * 1024)
struct listing {
        struct buf text; /* of the file that is being read */
        unsigned file;
        uint16_t ports[PORT_TABLE_MAX];
        size_t count;
};

#define FILES 2 /* of IPv4, and of IPv6 */

static void ask(struct exchange *x) {
        struct listing *l = x->data;
        struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "verb", "sockets");
        json_str(&j, "sandbox", route_param(x, "sandbox"));
        json_bool(&j, "six", l->file > 0);
        json_close(&j, '}');
        exchange_dispatch(x, &b);
}

static void gather(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        struct listing *l = x->data;

        if (kind == LOCAL_OUTPUT && l->text.size < TEXT_MAX)
                buf_add(&l->text, data, MIN(size, TEXT_MAX - l->text.size));
}

static void show(struct exchange *x) {
        const struct listing *l = x->data;
        struct buf b = {0};
        struct json j = {.out = &b};
        char name[8];

        json_open(&j, NULL, '{');
        json_open(&j, "ports", '{');
        for (size_t i = 0; i < l->count; i++) {
                (void)snprintf(name, sizeof name, "%u", l->ports[i]);
                json_u64(&j, name, l->ports[i]);
        }
        json_close(&j, '}');
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

static void next(struct exchange *x) {
        struct listing *l = x->data;

        if (l->text.data && buf_ok(&l->text))
                port_table_read(l->text.data, l->text.size, l->ports, &l->count);
        buf_free(&l->text);
        if (++l->file < FILES)
                ask(x);
        else
                show(x);
}

static void answer(struct exchange *x, const char *result) {
        (void)result;
        next(x);
}

/* A sandbox without one of the two files is one without such ports; every other refusal is the answer. */
static void unanswered(struct exchange *x, const char *code, const char *message, const char *hint) {
        const struct listing *l = x->data;

        if (l->file > 0 && str_eq(code, "not_found"))
                next(x);
        else
                reply_refused(x, code, message, hint);
}

static bool always_room(const struct exchange *x) {
        (void)x;
        return true;
}

static void free_all(struct exchange *x) {
        struct listing *l = TAKE_PTR(x->data);

        if (l)
                buf_free(&l->text);
        free(l);
}

const struct view view_port_list = {
        .frame = gather, .answer = answer, .unanswered = unanswered, .free = free_all, .has_room = always_room};

void port_list_begin(struct exchange *x) {
        x->data = calloc(1, sizeof(struct listing));
        if (x->data)
                ask(x);
        else
                reply_error(x, "failed", "try again", "out of memory");
}
