/* Reports, and the denials file. */
#include "gate/event.h"

#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "gate/control.h"
#include "gate/ward.h"

/* --- the denials file --- */

static void write_denials(struct ward *w) {
        struct event_log *l = &w->events;
        static char text[EVENT_LINES * EVENT_LINE_SIZE];
        size_t size = 0;
        int fd = w->fds[GATE_DENIALS];

        if (fd < 0 || l->lines_written == l->line_count)
                return;
        uint64_t first = l->line_count > EVENT_LINES ? l->line_count - EVENT_LINES : 0;
        for (uint64_t i = first; i < l->line_count; i++) {
                const char *line = l->lines[i % EVENT_LINES];
                size_t n = strnlen(line, EVENT_LINE_SIZE);

                memcpy(text + size, line, n);
                size += n;
        }
        /* a reader may see a mixture of old and new for an instant; lines are whole again right after */
        if (pwrite(fd, text, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0)
                l->lines_written = l->line_count; /* otherwise once more, later */
        l->denials_at = loop_now();
}

static void add_line(struct event_log *l, const struct gate_event *e) {
        struct timespec now;
        struct tm tm;
        char host[HOSTNAME_SIZE], path[96], method[40], when[32];

        (void)clock_gettime(CLOCK_REALTIME, &now);
        (void)gmtime_r(&now.tv_sec, &tm);
        if (strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
                when[0] = '\0';
        text_escape(host, sizeof host, e->host[0] ? e->host : "-");
        text_escape(method, sizeof method, e->method);
        text_escape(path, sizeof path, e->path);
        char port[8] = "";
        if (e->port)
                (void)snprintf(port, sizeof port, ":%u", e->port);
        char *line = l->lines[l->line_count++ % EVENT_LINES];
        char detail[sizeof e->detail], hint[200];
        text_escape(detail, sizeof detail, e->detail);
        gate_hint(e, hint, sizeof hint);
        int n = snprintf(line, EVENT_LINE_SIZE - 1, "%s %s%s%.120s%s%s%s: %s%s%s%s%s%s", when, method,
                         method[0] ? " " : "", host, port, path[0] ? " " : "", path, gate_reason_text(e->reason),
                         detail[0] ? " (" : "", detail, detail[0] ? ")" : "", hint[0] ? "; hint: " : "", hint);
        size_t used = n < 0 ? 0 : MIN((size_t)n, (size_t)EVENT_LINE_SIZE - 2);
        line[used] = '\n';
        line[used + 1] = '\0';
}

/* --- reports --- */

static bool report(struct ward *w, struct gate_event *e) {
        struct gate_message m = {.kind = GATE_EVENT, .ward = w->id, .event = *e};

        if (control_send(&m) < 0)
                return false; /* the count stays, and goes with the next */
        e->count = 0;
        return true;
}

static bool same(const struct gate_event *a, const struct gate_event *b) {
        return a->reason == b->reason && a->port == b->port && str_eq(a->host, b->host) &&
               str_eq(a->method, b->method) && str_eq(a->path, b->path);
}

/* A place for an event that is new: an unused one, or that of the oldest with nothing left to report. */
static struct event_item *find_place(struct event_log *l) {
        struct event_item *oldest = NULL;

        if (l->count < EVENT_KINDS)
                return &l->items[l->count++];
        for (size_t i = 0; i < l->count; i++)
                if (l->items[i].event.count == 0 && (!oldest || l->items[i].last < oldest->last))
                        oldest = &l->items[i];
        return oldest;
}

static bool is_rest(const struct gate_event *e) {
        return str_eq(e->host, "*");
}

/* Questions and connections are two kinds: the first cost next to nothing. */
static unsigned kind(const struct gate_event *e) {
        return 2 * (unsigned)e->reason + (e->port != 0);
}

/* Every place has something to report: the kind that has most of them gives way, so that a flood of one does not hide
 * another. Its rest is counted in one place, without names. */
static struct event_item *make_room(struct event_log *l, unsigned wanted) {
        unsigned counts[2 * GATE_REASON_COUNT] = {0}, most = 0;
        struct event_item *rest = NULL, *victim = NULL;

        for (size_t i = 0; i < l->count; i++)
                counts[kind(&l->items[i].event)]++;
        for (unsigned i = 0; i < ELEMENTSOF(counts); i++)
                if (counts[i] > counts[most])
                        most = i;
        for (size_t i = 0; i < l->count; i++) {
                if (kind(&l->items[i].event) != most)
                        continue;
                if (is_rest(&l->items[i].event))
                        rest = &l->items[i];
                else
                        victim = &l->items[i];
        }
        if (!rest) {
                struct gate_event e = {.reason = victim->event.reason,
                                       .rule = -1,
                                       .host = "*",
                                       .port = victim->event.port,
                                       .count = victim->event.count};
                victim->event = e;
                return make_room(l, wanted);
        }
        if (most == wanted)
                return rest;
        rest->event.count += victim->event.count;
        victim->event.count = 0;
        return victim;
}

static void timer_set(struct ward *w, uint64_t delay) {
        struct loop_timer *t = &w->events.timer;
        uint64_t when = loop_now() + delay;

        if (!loop_timer_is_set(t) || t->when > when)
                loop_timer_set(t, when);
}

void event_refused(struct ward *w, const struct gate_event *refused) {
        struct event_log *l = &w->events;
        struct event_item *item = NULL;
        struct gate_event plain = *refused, *e = &plain;

        if (str_eq(e->detail, gate_reason_text(e->reason)))
                e->detail[0] = '\0'; /* nobody wants to read it twice */
        for (size_t i = 0; i < l->count && !item; i++)
                if (same(&l->items[i].event, e))
                        item = &l->items[i];
        bool known = item && loop_now() - item->last < 60000;
        if (!item) {
                item = find_place(l);
                if (!item)
                        item = make_room(l, kind(e));
                if (item->event.count > 0 && is_rest(&item->event)) {
                        item->event.count++;
                        timer_set(w, EVENT_FLUSH_MS);
                        return;
                }
                item->event = *e;
                item->event.count = 0;
        }
        bool fresh = item->event.count == 0 && (!known || loop_now() - item->last >= EVENT_FLUSH_MS);
        uint64_t count = item->event.count + 1;
        item->event = *e; /* the newest detail */
        item->event.count = count;
        item->last = loop_now();
        if (!known) {
                add_line(l, e);
                if (loop_now() - l->denials_at >= EVENT_DENIALS_MS || l->denials_at == 0)
                        write_denials(w);
                else
                        timer_set(w, EVENT_DENIALS_MS);
        }
        if (fresh && meter_bucket_has(&l->rate, loop_now()) > 0) {
                meter_bucket_take(&l->rate, 1);
                if (report(w, &item->event))
                        return;
        }
        timer_set(w, EVENT_FLUSH_MS);
}

static void report_used(struct ward *w) {
        w->hosts.changed = false;
        w->events.used_at = loop_now();
        for (size_t i = 0; i <= METER_HOSTS; i++) {
                struct meter_host *h = i < METER_HOSTS ? &w->hosts.items[i] : &w->hosts.rest;

                if (!h->used || (h->connections == 0 && h->sent == 0 && h->received == 0))
                        continue;
                struct gate_event e = {
                        .reason = GATE_USED,
                        .count = h->connections,
                        .sent = h->sent,
                        .received = h->received,
                        .port = h->port,
                        .rule = h->rule,
                };
                (void)snprintf(e.host, sizeof e.host, "%s", h->host);
                if (!report(w, &e)) {
                        w->hosts.changed = true;
                        timer_set(w, EVENT_FLUSH_MS);
                        return;
                }
                h->connections = h->sent = h->received = 0;
        }
}

void event_used(struct ward *w) {
        if (w->hosts.changed)
                return;
        w->hosts.changed = true;
        timer_set(w, EVENT_USED_MS);
}

void event_flush(struct ward *w) {
        struct event_log *l = &w->events;

        for (size_t i = 0; i < l->count; i++)
                if (l->items[i].event.count > 0 && !report(w, &l->items[i].event))
                        break;
        report_used(w);
        write_denials(w);
}

static void timer_fired(struct loop_timer *t) {
        struct event_log *l = LOOP_OWNER(t, struct event_log, timer);
        struct ward *w = ward_by_place(l->place);
        bool left = false;

        if (!w)
                return;
        for (size_t i = 0; i < l->count; i++) {
                if (l->items[i].event.count == 0)
                        continue;
                if (meter_bucket_has(&l->rate, loop_now()) == 0 || !report(w, &l->items[i].event)) {
                        left = true;
                        break;
                }
                meter_bucket_take(&l->rate, 1);
        }
        write_denials(w);
        if (w->hosts.changed && loop_now() - l->used_at >= EVENT_USED_MS)
                report_used(w);
        if (left || w->hosts.changed)
                timer_set(w, EVENT_FLUSH_MS);
}

void event_init(struct ward *w) {
        w->events.place = w->place;
        w->events.timer.fire = timer_fired;
        meter_bucket_init(&w->events.rate, EVENT_RATE, EVENT_RATE, loop_now());
}

void event_finish(struct ward *w) {
        loop_timer_clear(&w->events.timer);
}
