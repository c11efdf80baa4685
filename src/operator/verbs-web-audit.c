/* Looking back in the ledger: what happened, newest first, by kind, time, sandbox and words; and what gates let pass
 * and refused, by name.
 *
 * The ledger can be long and there is one loop: a search reads it backwards in blocks, a few milliseconds in a turn,
 * all searches in turns, and gives up after so many lines with the place to go on from. Who may see a line is decided
 * where it is for those who follow (events.h). */
#include <ctype.h>
#include <stdio.h>
#include <time.h>

#include "base/json-read.h"
#include "operator/events.h"
#include "operator/sandbox.h"
#include "operator/verbs.h"

#define BLOCK        1024   /* lines that are read forwards before the block in front of them */
#define TURN_US      2000   /* of all searches */
#define LOOKED_MAX   200000 /* lines for one request */
#define ANSWER_MAX   (1U << 20)
#define EVENTS_MAX   500
#define EVENTS       100
#define SEARCHES_MAX 16
#define SEARCHES_OWN 2 /* of one owner */
#define TEXT_MAX     64
#define STAMP        24 /* "2026-01-02T03:04:05.678" */
#define NAMES_OWN    64 /* that one sandbox alone has asked for */
#define NAMES_MAX    512
#define NAMES        100

struct name {
        struct table_node node;
        char host[256], reason[32];
        char sandbox[STORE_ID]; /* that asked for it last, of those that we saw */
        uint64_t allowed, denied, sent, received;
};

struct search {
        struct search *next;
        struct call *call;
        struct core *o;
        bool waits; /* for `before` */
        struct durable before;
        struct ledger_reader *reader; /* of the block; NULL: it begins with the next one */
        uint64_t low, high;           /* the block: from low to below high */
        uint64_t at;                  /* the next line of it */
        uint64_t span;                /* lines of the next block; 0: BLOCK */
        uint64_t looked, most;
        char owner[STORE_OWNER]; /* "": everybody's */
        char sandbox[STORE_ID];
        char kinds[256], text[TEXT_MAX + 1], since[STAMP], until[STAMP];
        bool too_old; /* the block has lines from before `since` */

        struct buf block; /* its lines that were found, and where each begins */
        size_t starts[BLOCK], found;
        struct buf out; /* the answer's events */
        uint64_t count, limit, last;

        bool by_name; /* instead: counts of what gates said */
        struct table names;
};

static struct search *searches; /* one operator in a process */
static struct loop_task turn_task;

static void names_free(struct search *s) {
        for (struct table_node *n; (n = table_next(&s->names, NULL));) {
                table_remove(&s->names, n);
                free(TABLE_OWNER(n, struct name, node));
        }
        table_free(&s->names);
}

static void search_free(struct search *s) {
        for (struct search **at = &searches; *at; at = &(*at)->next)
                if (*at == s) {
                        *at = s->next;
                        break;
                }
        if (s->waits)
                durable_cancel(s->o, &s->before);
        ledger_reader_close(s->reader);
        names_free(s);
        buf_free(&s->block);
        buf_free(&s->out);
        free(s);
}

static void gone(struct call *c) {
        search_free(c->data);
        call_drop(c);
}

static uint64_t now_us(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* --- what is wanted -------------------------------------------------------------------------------------------------
 */

/* "net,run.start": families and single kinds. */
static bool is_kind(const char *wanted, const char *kind) {
        for (const char *p = wanted; *p; p += p[strcspn(p, ",")] ? strcspn(p, ",") + 1 : strlen(p)) {
                size_t size = strcspn(p, ",");

                if (size > 0 && strncmp(p, kind, size) == 0 && (kind[size] == '\0' || kind[size] == '.'))
                        return true;
        }
        return !wanted[0];
}

/* text is in small letters. The line is made so in pieces, which overlap by the length of the text. */
static bool has_text(const char *line, size_t size, const char *text) {
        size_t length = strlen(text);
        const char *end = memmem(line, size, ",\"prev\":\"", 9);
        char small[4096];

        size = end ? (size_t)(end - line) : size;
        if (length == 0)
                return true;
        for (size_t at = 0; at + length <= size; at += sizeof small - (length - 1)) {
                size_t n = MIN(size - at, sizeof small);

                for (size_t i = 0; i < n; i++)
                        small[i] = (char)tolower((unsigned char)line[at + i]);
                if (memmem(small, n, text, length))
                        return true;
        }
        return false;
}

static bool is_wanted(struct search *s, const char *line, size_t size) {
        char kind[32] = "", time[40] = "";

        if (!events_field(line, size, ",\"kind\":\"", kind, sizeof kind) ||
            !events_field(line, size, ",\"time\":\"", time, sizeof time))
                return false;
        time[STAMP - 1] = '\0';
        if (s->since[0] && strcmp(time, s->since) < 0) {
                s->too_old = true;
                return false;
        }
        if (s->until[0] && strcmp(time, s->until) > 0)
                return false;
        return is_kind(s->kinds, kind) && events_concern(s->o, s->owner[0] ? s->owner : NULL, s->sandbox, line, size) &&
               has_text(line, size, s->text);
}

/* --- by name --------------------------------------------------------------------------------------------------------
 */

/* How many names only this sandbox brought in. */
static size_t names_of(const struct search *s, const char *sandbox) {
        size_t count = 0;

        for (struct table_node *n = table_next(&s->names, NULL); n; n = table_next(&s->names, n))
                count += str_eq(TABLE_OWNER(n, struct name, node)->sandbox, sandbox);
        return count;
}

static void add_name(struct search *s, const char *line, size_t size) {
        _cleanup_free_ char *text = strndup(line, size);
        char host[sizeof((struct name *)0)->host], sandbox[STORE_ID] = "";
        uint64_t count = 1, sent = 0, received = 0;

        if (!text || !json_find_str(text, "data.host", host, sizeof host))
                return;
        (void)json_find_str(text, "sandbox", sandbox, sizeof sandbox);
        struct table_node *known = table_find(&s->names, host);
        if (!known && names_of(s, sandbox) >= NAMES_OWN) { /* names that it makes up hide nobody else's */
                (void)snprintf(host, sizeof host, "(others of %s)", sandbox);
                known = table_find(&s->names, host);
        }
        struct name *n = known ? TABLE_OWNER(known, struct name, node) : NULL;
        if (!n) {
                if (s->names.count >= NAMES_MAX || !(n = calloc(1, sizeof *n)))
                        return;
                copy_text(n->host, sizeof n->host, host);
                copy_text(n->sandbox, sizeof n->sandbox, sandbox);
                if (table_add(&s->names, &n->node, n->host) < 0) {
                        free(n);
                        return;
                }
        }
        (void)json_find_u64(text, "data.count", &count);
        if (json_find_u64(text, "data.sent", &sent) && json_find_u64(text, "data.received", &received)) {
                n->allowed += count;
                n->sent += sent;
                n->received += received;
        } else {
                n->denied += count;
                if (!n->reason[0]) /* the last one that there was: we go backwards, a block at a time */
                        (void)json_find_str(text, "data.reason", n->reason, sizeof n->reason);
        }
}

static int by_count(const void *a, const void *b) {
        const struct name *x = *(struct name *const *)a, *y = *(struct name *const *)b;
        uint64_t more = x->allowed + x->denied, less = y->allowed + y->denied;

        return more != less ? (more > less ? -1 : 1) : strcmp(x->host, y->host);
}

static void names_json(struct search *s, struct json *j) {
        struct name *all[NAMES_MAX];
        size_t count = 0;

        for (struct table_node *n = table_next(&s->names, NULL); n && count < NAMES_MAX; n = table_next(&s->names, n))
                all[count++] = TABLE_OWNER(n, struct name, node);
        qsort(all, count, sizeof all[0], by_count);
        json_open(j, "names", '[');
        for (size_t i = 0; i < count && i < s->limit; i++) {
                json_open(j, NULL, '{');
                json_str(j, "host", all[i]->host);
                json_u64(j, "allowed", all[i]->allowed);
                json_u64(j, "denied", all[i]->denied);
                json_u64(j, "sent", all[i]->sent);
                json_u64(j, "received", all[i]->received);
                json_str(j, "reason", all[i]->reason[0] ? all[i]->reason : NULL);
                json_close(j, '}');
        }
        json_close(j, ']');
        json_bool(j, "more", count > s->limit || s->names.count >= NAMES_MAX);
}

/* --- the walk -------------------------------------------------------------------------------------------------------
 */

static void answer(struct search *s, uint64_t next) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        struct call *c = s->call;

        json_open(&j, NULL, '{');
        if (s->by_name)
                names_json(s, &j);
        else {
                json_open(&j, "events", '[');
                buf_add(&b, s->out.data ? s->out.data : "", s->out.size);
                json_close(&j, ']');
        }
        if (next > 1)
                json_u64(&j, "next", next);
        else
                json_null(&j, "next");
        json_u64(&j, "looked", s->looked);
        json_close(&j, '}');
        search_free(s);
        call_answer(c, &b);
}

static bool is_full(const struct search *s) {
        return !s->by_name && (s->count >= s->limit || s->out.size >= ANSWER_MAX);
}

/* The block's lines, newest first, go behind what was found so far. */
static void take_block(struct search *s) {
        for (size_t i = s->found; i-- > 0 && !is_full(s);) {
                size_t end = i + 1 < s->found ? s->starts[i + 1] : s->block.size;

                if (s->out.size > 0)
                        buf_str(&s->out, ",");
                buf_add(&s->out, s->block.data + s->starts[i], end - s->starts[i]);
                s->count++;
                (void)events_number(s->block.data + s->starts[i], end - s->starts[i], &s->last);
        }
        s->found = s->block.size = 0;
}

static int begin_block(struct search *s, struct err *err) {
        uint64_t span = s->span ? s->span : BLOCK;

        s->low = s->high > span ? s->high - span : 1;
        s->at = s->low;
        s->span = 0;
        return ledger_reader_open(&s->reader, events_folder(s->o), s->low, err);
}

/* One line, or the end of a block. 1: go on; 0: it is answered, and gone; below: it failed. */
static int step(struct search *s, struct err *err) {
        const char *line;
        size_t size;

        if (s->high <= 1) {
                answer(s, 0);
                return 0;
        }
        if (!s->reader) {
                int r = begin_block(s, err);
                return r < 0 ? r : 1;
        }
        int r = s->at < s->high ? ledger_reader_next(s->reader, &line, &size, err) : 0;
        if (r < 0)
                return r;
        if (r > 0) {
                s->at++;
                s->looked++;
                if (!is_wanted(s, line, size))
                        return 1;
                if (s->by_name)
                        add_name(s, line, size);
                else {
                        s->starts[s->found++] = s->block.size;
                        buf_add(&s->block, line, size);
                        if (s->block.size > ANSWER_MAX) { /* lines are long here: half of them are enough */
                                s->span = (s->high - s->low) / 2;
                                s->found = s->block.size = 0;
                                ledger_reader_close(TAKE_PTR(s->reader));
                        }
                        if (!buf_ok(&s->block))
                                return err_set(err, -ENOMEM, "cannot look back");
                }
                return 1;
        }
        ledger_reader_close(TAKE_PTR(s->reader));
        take_block(s);
        s->high = s->low;
        if (is_full(s))
                answer(s, s->last);
        else if (s->too_old || s->looked >= s->most) {
                answer(s, s->too_old ? 0 : s->high);
        } else
                return 1;
        return 0;
}

static void to_the_end(struct search *s) {
        struct search **at = &searches;

        while (*at != s)
                at = &(*at)->next;
        *at = s->next;
        while (*at)
                at = &(*at)->next;
        s->next = NULL;
        *at = s;
}

static struct search *first_ready(void) {
        struct search *s = searches;

        while (s && s->waits)
                s = s->next;
        return s;
}

/* One search for a while, then the next. */
static void turn(struct loop_task *task) {
        struct search *s = first_ready();
        uint64_t until = now_us() + TURN_US;
        struct err err = {0};
        int r = 1;

        if (!s)
                return;
        struct core *o = s->o;
        while (r > 0 && now_us() < until)
                r = step(s, &err);
        if (r < 0) {
                struct call *c = s->call;

                search_free(s);
                call_refuse(c, &err);
        } else if (r > 0)
                to_the_end(s);
        if (first_ready())
                loop_later(o->loop, task);
}

/* --- the requests ---------------------------------------------------------------------------------------------------
 */

static void stamp(uint64_t ms, char ret[STAMP]) {
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;

        if (!gmtime_r(&seconds, &tm) || strftime(ret, STAMP, "%Y-%m-%dT%H:%M:%S", &tm) != 19) {
                ret[0] = '\0';
                return;
        }
        (void)snprintf(ret + 19, STAMP - 19, ".%03u", (unsigned)(ms % 1000));
}

/* Whoever asks gets all that was appended before he asked. A ledger that cannot be written can be read all the same. */
static void before_is_durable(struct durable *d, int error) {
        struct search *s = LOOP_OWNER(d, struct search, before);

        (void)error;
        s->waits = false;
        s->high = MIN(s->high, ledger_durable(s->o->ledger) + 1);
        loop_later(s->o->loop, &turn_task);
}

/* NULL: it was refused. */
static struct search *begin(struct call *c, bool all) {
        unsigned count = 0, own = 0;

        for (const struct search *s = searches; s; s = s->next) {
                count++;
                own += str_eq(s->call->owner, c->owner);
        }
        if (count >= (c->admin ? SEARCHES_MAX : SEARCHES_MAX - SEARCHES_OWN) || own >= SEARCHES_OWN) {
                call_refuse_text(c, "busy", "try again in a moment", "others are being searched for at the moment");
                return NULL;
        }
        struct search *s = calloc(1, sizeof *s);
        if (!s) {
                call_refuse_text(c, "failed", "try again", "out of memory");
                return NULL;
        }
        s->call = c;
        s->o = c->o;
        s->most = LOOKED_MAX;
        s->block.max = ANSWER_MAX + LEDGER_DATA_MAX + 4096;
        if (!all)
                copy_text(s->owner, sizeof s->owner, c->owner);
        s->high = call_number(c, "before", UINT64_MAX);
        s->next = searches;
        searches = s;
        c->data = s;
        c->gone = gone;
        turn_task.run = turn;
        s->waits = true;
        s->before = (struct durable){.seq = ledger_appended(c->o->ledger), .done = before_is_durable};
        durable_wait(c->o, &s->before);
        return s;
}

void verb_events_search(struct call *c) {
        char sandbox[STORE_NAME] = "", id[STORE_ID] = "";
        bool all = call_bool(c, "all");

        if (all && !c->admin) {
                call_refuse_text(c, "refused", "leave 'all' out", "only root and the operator's own user see others'");
                return;
        }
        if (call_text(c, "sandbox", sandbox, sizeof sandbox)[0]) { /* also one that is deleted */
                const struct sandbox *named = verbs_sandbox(c, sandbox);

                copy_text(id, sizeof id, named ? named->id : warden_is_id(sandbox) ? sandbox : "");
                if (!id[0]) {
                        call_refuse_text(c, "not_found", "of one that is deleted, say the id",
                                         "there is no sandbox '%s'", sandbox);
                        return;
                }
        }
        struct search *s = begin(c, all);
        if (!s)
                return;
        copy_text(s->sandbox, sizeof s->sandbox, id);
        (void)call_text(c, "kinds", s->kinds, sizeof s->kinds);
        (void)call_text(c, "text", s->text, sizeof s->text);
        for (char *p = s->text; *p; p++)
                *p = (char)tolower((unsigned char)*p);
        s->limit = call_number(c, "limit", EVENTS);
        if (call_has(c, "since_ms"))
                stamp(call_number(c, "since_ms", 0), s->since);
        if (call_has(c, "until_ms"))
                stamp(call_number(c, "until_ms", 0), s->until);
}

void verb_gate_names(struct call *c) {
        struct search *s = begin(c, true);

        if (!s)
                return;
        s->by_name = true;
        s->limit = call_number(c, "limit", NAMES);
        copy_text(s->kinds, sizeof s->kinds, "net,dns");
        if (call_has(c, "since_ms"))
                stamp(call_number(c, "since_ms", 0), s->since);
}
