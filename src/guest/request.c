/* The table of requests and what all kinds share: numbers, windows, ends.
 *
 * What always holds: a request in the list has sent no END; at most GUEST_REQUESTS_MAX are in it; nobody sends beyond
 * the other side's window. */
#include "guest/request.h"

#include <stdarg.h>

#include "base/text.h"

#define THANKS (GUEST_WINDOW / 4) /* so much is used before it is confirmed */

static const struct request_kind *const kinds[] = {
        [GUEST_LIST_RUNS] = &runs_kind,      [GUEST_STAT] = &stat_kind,     [GUEST_LIST] = &list_kind,
        [GUEST_READ] = &read_kind,           [GUEST_WRITE] = &write_kind,   [GUEST_MKDIR] = &mkdir_kind,
        [GUEST_MOVE] = &move_kind,           [GUEST_REMOVE] = &remove_kind, [GUEST_TAR_OUT] = &tar_out_kind,
        [GUEST_TAR_IN] = &tar_in_kind,       [GUEST_WATCH] = &watch_kind,   [GUEST_CONNECT] = &port_kind,
        [GUEST_PROCESSES] = &processes_kind, [GUEST_USAGE] = &usage_kind,   [GUEST_WRITE_IF] = &write_if_kind,
        [GUEST_LEAF_END] = &leaf_end_kind,
};

static struct request *find(struct guest *g, uint32_t channel) {
        for (struct request *r = g->requests; r; r = r->next)
                if (r->channel == channel)
                        return r;
        return NULL;
}

static void insert(struct guest *g, struct request *r) {
        r->next = NULL;
        r->previous = g->last_request;
        *(r->previous ? &r->previous->next : &g->requests) = r;
        g->last_request = r;
        g->request_count++;
}

static void take_out(struct guest *g, struct request *r) {
        *(r->previous ? &r->previous->next : &g->requests) = r->next;
        *(r->next ? &r->next->previous : &g->last_request) = r->previous;
        g->request_count--;
}

static void drop(struct guest *g, struct request *r) {
        take_out(g, r);
        if (r->kind->free)
                r->kind->free(g, r);
        free(r);
}

void request_drop_all(struct guest *g) {
        while (g->requests)
                drop(g, g->requests);
}

void request_say(struct guest *g, const struct request *r, struct guest_message *m) {
        m->channel = r->channel;
        link_say(g, m);
}

/* The last word about a channel. */
static void say_end(struct guest *g, uint32_t channel, int error, const uint64_t numbers[3], const struct err *err) {
        struct guest_message m = {.kind = GUEST_END, .channel = channel, .error = error};
        char text[sizeof err->text];

        text_escape(text, sizeof text, err->text);
        m.text = text;
        memcpy(m.numbers, numbers, 3 * sizeof *numbers);
        link_say(g, &m);
}

void request_end(struct guest *g, struct request *r, int error, const char *format, ...) {
        uint64_t numbers[3] = {r->sent + r->taken, r->entries, r->skipped};
        struct err err = {0};
        char sentence[sizeof err.text];
        va_list args;

        if (error < 0 && format) {
                va_start(args, format);
                (void)vsnprintf(sentence, sizeof sentence, format, args);
                va_end(args);
                (void)err_set(&err, error, "%s", sentence);
        }
        say_end(g, r->channel, error, numbers, &err);
        drop(g, r);
}

void request_end_with(struct guest *g, struct request *r, struct guest_message *end) {
        request_say(g, r, end);
        drop(g, r);
}

static void refuse(struct guest *g, const struct guest_message *m, int error, const char *sentence) {
        struct err err = {0};

        (void)err_set(&err, error, "%s", sentence);
        say_end(g, m->channel, error, (const uint64_t[3]){0}, &err);
}

int request_begin(struct guest *g, const struct guest_message *m) {
        const struct request_kind *kind = kinds[m->kind];

        if (find(g, m->channel))
                return -EBADMSG;
        if (g->request_count >= GUEST_REQUESTS_MAX) {
                refuse(g, m, -EAGAIN, "too many requests are under way");
                return 0;
        }
        struct request *r = calloc(1, kind->size);
        if (!r) {
                refuse(g, m, -ENOMEM, "the guest has no memory for this request");
                return 0;
        }
        r->kind = kind;
        r->channel = m->channel;
        r->flags = m->flags;
        r->window = (m->kind == GUEST_READ || m->kind == GUEST_TAR_OUT) && g->link.version >= 2 ? GUEST_BULK_WINDOW
                                                                                                : GUEST_WINDOW;
        insert(g, r);
        int error = kind->begin(g, r, m);
        if (error < 0)
                request_end(g, r, error, "cannot %s '%s'", guest_kind_name(m->kind), m->path);
        return 0;
}

int request_data(struct guest *g, const struct guest_message *m) {
        struct request *r = find(g, m->channel);

        if (!r)
                return 0; /* it has ended, which they do not know yet */
        if (!r->kind->data || r->received + m->data_size > r->thanks + GUEST_WINDOW)
                return -EBADMSG;
        r->received += m->data_size;
        int error = r->kind->data(g, r, m->data, m->data_size);
        if (error < 0)
                request_end(g, r, error, "cannot write");
        return 0;
}

int request_finish(struct guest *g, const struct guest_message *m) {
        struct request *r = find(g, m->channel);

        if (r && !r->kind->finish)
                return -EBADMSG;
        if (r)
                r->kind->finish(g, r);
        return 0;
}

int request_cancel(struct guest *g, const struct guest_message *m) {
        struct request *r = find(g, m->channel);

        if (r)
                request_end(g, r, -ECANCELED, "it was cancelled");
        return 0;
}

int request_credit(struct guest *g, const struct guest_message *m) {
        struct request *r = find(g, m->channel);

        if (!r)
                return 0;
        if (m->offset > r->sent)
                return -EBADMSG;
        if (m->offset > r->credit) {
                r->credit = m->offset;
                request_wake(g, r);
        }
        return 0;
}

size_t request_window(const struct request *r) {
        return (size_t)(r->credit + r->window - r->sent);
}

void request_send(struct guest *g, struct request *r, const void *data, size_t size) {
        struct guest_message m = {.kind = GUEST_DATA, .data = data, .data_size = size};

        r->sent += size;
        request_say(g, r, &m);
}

void request_took(struct guest *g, struct request *r, size_t size) {
        r->taken += size;
        if (r->taken - r->thanks < THANKS)
                return;
        struct guest_message m = {.kind = GUEST_CREDIT, .stream = GUEST_OF_REQUEST, .offset = r->taken};
        r->thanks = r->taken;
        request_say(g, r, &m);
}

void request_wake(struct guest *g, struct request *r) {
        if (r->kind->step)
                r->ready = true;
        serve_wake(g);
}

/* Whoever had a step goes to the end of the list: with little room they take turns. */
bool request_pump(struct guest *g) {
        bool more = false;

        for (unsigned n = g->request_count; n > 0 && link_has_room(&g->link); n--) {
                struct request *r = g->requests;

                take_out(g, r);
                insert(g, r);
                if (r->ready) {
                        more = true;
                        r->kind->step(g, r);
                }
        }
        return more;
}
