/* `stockade events`: the ledger as it grows. With --json every line is the event's own bytes, as they were hashed. */
#include <poll.h>
#include <stdlib.h>

#include "base/json-read.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/tell.h"

enum { RETURN_MS = 15000 };

struct options {
        struct args_common common;
        bool follow;
        const char *from;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option events_options[] = {
        {"follow", 'f', NULL, "go on as new ones come", ARGS_FLAG, AT(follow)},
        {"from", 0, "N", "from this number on (default: the first; with -f: what is new)", ARGS_TEXT, AT(from)},
};

const struct args_verb events_verb = {
        .name = "events",
        .words = "[SANDBOX]",
        .summary = "show what happened, from the ledger",
        .about =
                "Prints the events of one sandbox, or of all that are yours: when (UTC), which sandbox, what, who, and "
                "more. With "
                "--json each line is the event as it is in the ledger. With -f it comes back by itself when the daemon "
                "is restarted, and leaves none out.",
        .flags = ARGS_JSON,
        .most = 1,
        .what = {WHAT_SANDBOX},
        .options = events_options,
        .count = ELEMENTSOF(events_options),
};

struct watch {
        const struct options *o;
        uint64_t next;  /* the number to go on from */
        uint64_t until; /* how long we try to come back */
};

static void print_event(const char *json) {
        char when[48], sandbox[32], kind[64], actor[96], data[1024] = "";
        size_t size = 0;
        const char *value = json_at(json, "data", &size);

        /* the ledger's own clock, to the second: 2026-01-02T03:04:05.678901Z */
        (void)tell_text(when, sizeof when, json, "time");
        if (strlen(when) > 19 && when[10] == 'T') {
                when[10] = ' ';
                when[19] = '\0';
        }
        if (value && size > 2) {
                _cleanup_free_ char *text = strndup(value, MIN(size, (size_t)900));
                text_escape(data, sizeof data, text ? text : "");
        }
        (void)printf("%s  %-16s  %-20s %s  %s\n", when, tell_text(sandbox, sizeof sandbox, json, "sandbox"),
                     tell_text(kind, sizeof kind, json, "kind"), tell_text(actor, sizeof actor, json, "actor"), data);
}

static void on_event(void *data, const char *json) {
        struct watch *w = data;
        uint64_t seq;

        if (json_find_u64(json, "seq", &seq))
                w->next = seq + 1;
        if (w->o->common.json)
                talk_print(json);
        else
                print_event(json);
        if (w->o->follow)
                (void)fflush(stdout);
}

static int watch_once(struct watch *w, const char *sandbox, struct talk *t, bool *connected, struct err *err) {
        _cleanup_request_ struct talk_request q;
        const char *result;

        talk_begin(&q, "events");
        talk_str(&q, "sandbox", sandbox);
        if (w->next > 0)
                json_u64(&q.json, "from", w->next);
        if (w->o->follow)
                json_bool(&q.json, "follow", true);
        int r = talk_go(t, &w->o->common, &q, err);
        *connected = r == 0;
        return r < 0 ? r : talk_wait(t, &result, on_event, w, err);
}

/* Where the ledger is now: a follower whose connection breaks before the first event has to know. */
static int find_end(struct watch *w, struct talk *t, struct err *err) {
        _cleanup_request_ struct talk_request q;
        const char *result;
        uint64_t seq;

        talk_begin(&q, "health");
        int r = talk_ask(t, &w->o->common, &q, &result, err);
        if (r < 0)
                return r;
        if (json_find_u64(result, "ledger_seq", &seq))
                w->next = seq + 1;
        talk_close(t);
        return 0;
}

static bool go_on(void *data) {
        const struct watch *w = data;

        return tell_clock() < w->until;
}

/* Nobody answered. What a daemon says itself stays so. */
static bool is_away(const struct talk *t, int r) {
        return r < 0 && (!t->code[0] || str_eq(t->code, "no_server") || str_eq(t->code, "no_daemon"));
}

int cmd_events(int argc, char **argv) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct options o = {0};
        struct watch w = {.o = &o};
        struct err err = {0};
        bool connected = false;
        int status;

        if (!client_begin(&events_verb, &argc, argv, &o, &status))
                return status;
        int r = o.from     ? client_number(o.from, "the number of an event, from 1", INT64_MAX, &w.next, &err)
                : o.follow ? find_end(&w, &t, &err)
                           : 0;
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        const char *sandbox = argc > 0 ? argv[1] : NULL;
        r = watch_once(&w, sandbox, &t, &connected, &err);
        /* the connection of a follower may break at any time: the events wait in the ledger */
        for (uint64_t seen = 0, began = 0; o.follow && is_away(&t, r);) {
                uint64_t now = tell_clock();

                /* one that brought something, or stood for long enough, was a good one */
                if (connected && (w.until == 0 || w.next != seen || now - began >= RETURN_MS))
                        w.until = now + RETURN_MS;
                if (!go_on(&w))
                        break;
                (void)poll(NULL, 0, 100);
                seen = w.next;
                began = tell_clock();
                talk_close(&t);
                t.go_on = go_on;
                t.go_on_data = &w;
                r = watch_once(&w, sandbox, &t, &connected, &err);
        }
        return r < 0 ? talk_failed(&t, &o.common, &err) : 0;
}
