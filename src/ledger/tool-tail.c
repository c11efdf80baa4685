/* `stockade ledger tail`: events as a table for people, or as the lines that they are.
 *
 * What is printed for people was checked first and made inert: a ledger may have been tampered with. */
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json-read.h"
#include "base/text.h"
#include "ledger/head.h"
#include "ledger/tool.h"

enum { TAIL_LINES = 20, TAIL_LINES_MAX = 100000, TAIL_WAIT_MS = 1000 };

struct tail {
        const struct tool_options *o;
        bool heading;
        size_t width;
        char **ring; /* the last lines that were asked for, before they are printed */
        size_t room, count, next;
        uint64_t left; /* so many more are printed */
};

static void tail_free(struct tail *t) {
        for (size_t i = 0; i < t->room; i++)
                free(t->ring[i]);
        free(t->ring);
}

/* "net" stands for all of net.*. */
static bool kind_matches(const struct line *l, const char *kind) {
        size_t n = strlen(kind);

        return l->kind.size >= n && memcmp(l->kind.p, kind, n) == 0 && (l->kind.size == n || l->kind.p[n] == '.');
}

static bool matches(const struct tool_options *o, const struct line *l) {
        return (!o->sandbox || line_is(&l->sandbox, o->sandbox)) && (!o->kind || kind_matches(l, o->kind));
}

static enum tool_paint paint_of(const struct line *l) {
        static const struct {
                const char *end;
                enum tool_paint paint;
        } table[] = {{".deny", TOOL_YELLOW},     {".hit", TOOL_YELLOW},    {".refused", TOOL_YELLOW},
                     {".pressure", TOOL_YELLOW}, {".fail", TOOL_RED},      {".quarantine", TOOL_RED},
                     {".orphan", TOOL_YELLOW},   {".part-died", TOOL_RED}, {".repair", TOOL_RED},
                     {".checkpoint", TOOL_DIM}};

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                size_t n = strlen(table[i].end);
                if (l->kind.size >= n && memcmp(l->kind.p + l->kind.size - n, table[i].end, n) == 0)
                        return table[i].paint;
        }
        return TOOL_PLAIN;
}

/* {"run":1,"host":"a"} as run=1 host=a. */
static void put_data(struct buf *out, const struct line *l) {
        _cleanup_free_ char *text = strndup(l->data.p, l->data.size);
        struct json_walk w;
        char key[80], value[400];

        if (!text || json_check(text, l->data.size, NULL) < 0 || !json_walk_begin(&w, text, "")) {
                buf_str(out, "(not JSON)");
                return;
        }
        for (bool first = true; json_walk_next(&w); first = false) {
                size_t size = 0;
                if (json_find_kind(w.value, "") == '{' && line_is(&l->kind, ledger_kind_name(LEDGER_CHECKPOINT)))
                        continue; /* keys and signatures are for programs */
                const char *raw = json_at(w.value, "", &size);

                buf_printf(out, "%s%s=", first ? "" : " ", json_walk_key(&w, key, sizeof key) ? key : "?");
                if (json_find_str(w.value, "", value, sizeof value))
                        buf_str(out, value);
                else
                        buf_add(out, raw, MIN(size, (size_t)2000));
        }
}

/* At most this many columns of a text; what was cut shows as an ellipsis. */
static void print_cut(const char *text, size_t columns) {
        size_t n = 0, bytes = 0;

        while (text[bytes] && n < columns) {
                bytes += MAX(text_utf8_length((const unsigned char *)text + bytes), (size_t)1);
                n++;
        }
        if (!text[bytes]) {
                (void)printf("%s\n", text);
                return;
        }
        while (bytes > 0 && ((unsigned char)text[--bytes] & 0xc0) == 0x80)
                ;
        (void)printf("%.*s…\n", (int)bytes, text);
}

/* What fits: a narrow terminal gets no date, a very narrow one no actor. Prints all but the data; the columns used. */
static size_t print_columns(const struct tail *t, const char *seq, const char *date, const char *time,
                            const struct line_part *sandbox, const struct line_part *kind,
                            const struct line_part *actor, enum tool_paint paint) {
        bool dated = t->width == 0 || t->width >= 120, acted = t->width == 0 || t->width >= 100;
        int n = printf("%8s  ", seq);

        if (dated)
                n += printf("%.10s ", date);
        n += printf("%-8.8s  %-16.*s  ", time, (int)sandbox->size, sandbox->p);
        (void)printf("%s", tool_on(paint));
        n += printf("%-18.*s", (int)kind->size, kind->p);
        (void)printf("%s", paint == TOOL_PLAIN ? "" : tool_off());
        n += acted ? printf("  %-12.*s  ", (int)actor->size, actor->p) : printf("  ");
        return n > 0 ? (size_t)n : 0;
}

static void print_heading(struct tail *t) {
        static const struct line_part sandbox = {"SANDBOX", 7}, kind = {"KIND", 4}, actor = {"ACTOR", 5};

        if (t->heading)
                return;
        t->heading = true;
        (void)printf("%s", tool_on(TOOL_DIM));
        (void)print_columns(t, "EVENT", "DATE (UTC)", "TIME", &sandbox, &kind, &actor, TOOL_PLAIN);
        (void)printf("DATA%s\n", tool_off());
}

static void print_line(struct tail *t, const struct line *l) {
        _cleanup_buf_ struct buf data = {0};
        char inert[8192], seq[24];

        if (t->o->json) {
                (void)printf("%.*s\n", (int)l->size, l->text);
                return;
        }
        print_heading(t);
        put_data(&data, l);
        text_escape(inert, sizeof inert, data.data ? data.data : "");
        (void)snprintf(seq, sizeof seq, "%llu", (unsigned long long)l->seq);
        size_t used = print_columns(t, seq, l->time, l->time + 11, &l->sandbox, &l->kind, &l->actor, paint_of(l));
        print_cut(inert, t->width == 0 ? SIZE_MAX : t->width > used + 5 ? t->width - used : 5);
}

static int remember(struct tail *t, const struct line *l, struct err *err) {
        char *copy = strndup(l->text, l->size);

        if (!copy)
                return err_set(err, -ENOMEM, "cannot keep the last lines");
        free(t->ring[t->next]);
        t->ring[t->next] = copy;
        t->next = (t->next + 1) % t->room;
        t->count = MIN(t->count + 1, t->room);
        return 0;
}

static void print_remembered(struct tail *t) {
        for (size_t i = 0; i < t->count; i++) {
                const char *text = t->ring[(t->next + t->room - t->count + i) % t->room];
                struct line l;

                if (line_parse(text, strlen(text), &l) == 0)
                        print_line(t, &l);
        }
        t->count = 0;
}

/* Everything that is there now; into the ring or out. */
static int drain(struct tail *t, struct ledger_reader *r, bool keep, struct err *err) {
        const char *text;
        struct line l;
        size_t size;
        int e = 0;

        while (t->left > 0 && (e = ledger_reader_next(r, &text, &size, err)) == 1) {
                if (line_parse(text, size, &l) < 0 || !matches(t->o, &l))
                        continue;
                if (!keep) {
                        print_line(t, &l);
                        t->left--;
                }
                if (keep && (e = remember(t, &l, err)) < 0)
                        return e;
        }
        return MIN(e, 0);
}

/* Returns when the head may have moved. */
static void wait_for_more(int notify) {
        struct pollfd p = {.fd = notify, .events = POLLIN};
        char events[4096];

        if (poll(&p, 1, TAIL_WAIT_MS) > 0)
                (void)!read(notify, events, sizeof events);
}

/* Where to begin: the number that was asked for, or far enough before the end for the last lines. */
static int begin_at(const struct tool_options *o, int dir, uint64_t lines, uint64_t *from, struct err *err) {
        uint64_t last = 0;

        if (o->from)
                return 0;
        int r = ledger_last(dir, &last, err);
        if (r < 0)
                return r;
        bool filtered = o->sandbox || o->kind;
        *from = filtered || last < lines ? 1 : last - lines + 1; /* with a filter, nobody knows where they are */
        return 0;
}

static int make_ring(struct tail *t, uint64_t lines, struct err *err) {
        t->room = (size_t)MAX(MIN(lines, (uint64_t)TAIL_LINES_MAX), (uint64_t)1);
        t->ring = calloc(t->room, sizeof *t->ring);
        if (t->ring)
                return 0;
        t->room = 0;
        return err_set(err, -ENOMEM, "cannot keep the last lines");
}

static int watch(const char *folder) {
        char head[TOOL_NAME + 8];
        int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

        (void)snprintf(head, sizeof head, "%s/" HEAD_FILE, folder);
        (void)inotify_add_watch(fd, head, IN_MODIFY); /* without it, we look every second */
        return fd;
}

int tool_tail(const struct tool_options *o, struct err *err) {
        _cleanup_(tail_free) struct tail t = {.o = o, .width = tool_width(), .left = UINT64_MAX};
        struct ledger_reader *reader = NULL;
        uint64_t lines = TAIL_LINES, from = 0;
        char name[TOOL_NAME];

        int r = o->lines ? tool_number(o->lines, "--lines", &lines, err) : 0;
        if (r == 0 && o->from)
                r = tool_number(o->from, "--from", &from, err);
        if (r < 0)
                return r;
        if (o->lines && o->from)
                t.left = lines;
        _cleanup_fd_ int dir = tool_open(o, name, err);
        if (dir < 0)
                return dir;
        /* before the first look, so that nothing is missed */
        _cleanup_fd_ int notify = o->follow ? watch(name) : -EBADF;
        r = make_ring(&t, lines, err);
        if (r == 0)
                r = begin_at(o, dir, lines, &from, err);
        if (r == 0)
                r = ledger_reader_open(&reader, dir, from, err);
        if (r == 0)
                r = drain(&t, reader, !o->from && lines > 0, err);
        print_remembered(&t);
        while (r == 0 && o->follow && t.left > 0 && fflush(stdout) == 0) {
                wait_for_more(notify);
                r = drain(&t, reader, false, err);
        }
        ledger_reader_close(reader);
        return r;
}
