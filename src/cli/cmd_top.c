/* `stockade top`: who uses what, now. One line per running sandbox, every second; q ends it. */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json-read.h"
#include "cli/client.h"
#include "cli/table.h"
#include "cli/tell.h"
#include "cli/terminal.h"

enum { STEP_MS = 1000, ROWS_MAX = 4096, ID = 64, NAME = 80 };

struct options {
        struct args_common common;
        bool once, all;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option top_options[] = {
        {"all", 'a', NULL, "those of every owner (root)", ARGS_FLAG, AT(all)},
        {"once", '1', NULL, "print it once and end", ARGS_FLAG, AT(once)},
};

const struct args_verb top_verb = {
        .name = "top",
        .words = "",
        .summary = "show what running sandboxes use, live",
        .about = "One line for each running sandbox that is yours: processor time in the last second as a part of one "
                 "processor, memory, processes, disk. Keys: c sorts by processor, m by memory, q ends. Without a "
                 "terminal, or with --once, the table is printed once; what the processors did is measured over a "
                 "fifth of a second then.",
        .flags = ARGS_JSON,
        .options = top_options,
        .count = ELEMENTSOF(top_options),
};

struct row {
        char id[ID], name[NAME], state[24];
        uint64_t cpu_us, memory, memory_peak, processes, read_bytes, write_bytes, disk_used;
        uint64_t percent; /* thousandths of a processor since the last look */
};

struct picture {
        struct row *rows;
        size_t count;
        uint64_t taken; /* milliseconds of a clock */
};

static void picture_free(struct picture *p) {
        free(p->rows);
        *p = (struct picture){0};
}

/* --- taking a picture ----------------------------------------------------------------------------------------- */

static int ask(const struct options *o, const char *verb, struct talk *t, const char **ret, struct err *err) {
        _cleanup_request_ struct talk_request q;

        talk_begin(&q, verb);
        if (o->all)
                json_bool(&q.json, "all", true);
        return talk_ask(t, &o->common, &q, ret, err);
}

static uint64_t known(const char *json, const char *path) {
        uint64_t value = tell_number(json, path);

        return value == UINT64_MAX ? 0 : value;
}

static int by_id(const void *a, const void *b) {
        return strcmp(((const struct row *)a)->id, ((const struct row *)b)->id);
}

static struct row *find(const struct picture *p, const char *id) {
        struct row key;

        (void)snprintf(key.id, sizeof key.id, "%s", id);
        return p->rows ? bsearch(&key, p->rows, p->count, sizeof key, by_id) : NULL;
}

static int take(const struct options *o, struct picture *ret, struct err *err) {
        _cleanup_talk_ struct talk usage = {.fd = -EBADF}, list = {.fd = -EBADF};
        const char *used, *known_as;
        struct json_walk w;
        char id[ID];

        int r = ask(o, "usage", &usage, &used, err);
        if (r == 0)
                r = ask(o, "list", &list, &known_as, err);
        if (r < 0)
                return r;
        struct picture p = {.taken = tell_clock(), .rows = calloc(ROWS_MAX, sizeof(struct row))};
        if (!p.rows)
                return err_set(err, -ENOMEM, "cannot show usage");
        if (json_walk_begin(&w, used, "usage"))
                while (p.count < ROWS_MAX && json_walk_next(&w)) {
                        struct row *row = &p.rows[p.count++];

                        (void)tell_text(row->id, sizeof row->id, w.value, "sandbox");
                        row->cpu_us = known(w.value, "cpu_us");
                        row->memory = known(w.value, "memory");
                        row->memory_peak = known(w.value, "memory_peak");
                        row->processes = known(w.value, "processes");
                        row->disk_used = tell_number(w.value, "disk_used");
                        row->read_bytes = known(w.value, "read_bytes");
                        row->write_bytes = known(w.value, "write_bytes");
                }
        qsort(p.rows, p.count, sizeof *p.rows, by_id);
        if (json_walk_begin(&w, known_as, "sandboxes"))
                while (json_walk_next(&w)) {
                        struct row *row = find(&p, tell_text(id, sizeof id, w.value, "id"));

                        if (!row)
                                continue;
                        (void)tell_text(row->name, sizeof row->name, w.value, "name");
                        (void)tell_text(row->state, sizeof row->state, w.value, "state");
                }
        *ret = p;
        return 0;
}

/* What happened between two pictures. */
static void compare(const struct picture *before, struct picture *now) {
        uint64_t ms = MAX(now->taken - before->taken, (uint64_t)1);

        for (size_t i = 0; i < now->count; i++) {
                const struct row *old = find(before, now->rows[i].id);

                if (old && now->rows[i].cpu_us > old->cpu_us)
                        now->rows[i].percent = (now->rows[i].cpu_us - old->cpu_us) / ms;
        }
}

/* --- showing it ----------------------------------------------------------------------------------------------- */

static int by_cpu(const void *a, const void *b) {
        const struct row *x = a, *y = b;

        return x->percent != y->percent ? (x->percent < y->percent) - (x->percent > y->percent) : by_id(a, b);
}

static int by_memory(const void *a, const void *b) {
        const struct row *x = a, *y = b;

        return x->memory != y->memory ? (x->memory < y->memory) - (x->memory > y->memory) : by_id(a, b);
}

/* The lines, for a terminal of this many columns and rows (0: no limit). The picture's order is put back. */
static void draw(struct picture *p, bool memory_first, size_t columns, size_t rows, struct buf *out) {
        static const struct table_column heads[] = {{"ID", 0},
                                                    {"NAME", TABLE_SHRINK},
                                                    {"STATE", 0},
                                                    {"CPU%", TABLE_RIGHT},
                                                    {"MEMORY", TABLE_RIGHT},
                                                    {"PEAK", TABLE_RIGHT},
                                                    {"PROCS", TABLE_RIGHT},
                                                    {"DISK", TABLE_RIGHT},
                                                    {"READ", TABLE_RIGHT},
                                                    {"WRITTEN", TABLE_RIGHT}};
        uint64_t memory = 0, percent = 0;
        struct table t;
        char text[32];

        qsort(p->rows, p->count, sizeof *p->rows, memory_first ? by_memory : by_cpu);
        for (size_t i = 0; i < p->count; i++) {
                memory += p->rows[i].memory;
                percent += p->rows[i].percent;
        }
        buf_printf(out, "%zu running, %llu.%llu %% of one processor, %s memory\n\n", p->count,
                   (unsigned long long)percent / 10, (unsigned long long)percent % 10,
                   tell_size(text, sizeof text, memory));
        table_begin(&t, heads, ELEMENTSOF(heads));
        for (size_t i = 0; i < p->count && (rows == 0 || i + 4 < rows); i++) {
                const struct row *r = &p->rows[i];

                table_cell(&t, r->id);
                table_cell(&t, r->name);
                table_cell(&t, r->state);
                (void)snprintf(text, sizeof text, "%llu.%llu", (unsigned long long)r->percent / 10,
                               (unsigned long long)r->percent % 10);
                table_cell(&t, text);
                table_cell(&t, tell_size(text, sizeof text, r->memory));
                table_cell(&t, tell_size(text, sizeof text, r->memory_peak));
                table_number(&t, r->processes);
                table_cell(&t, tell_size(text, sizeof text, r->disk_used));
                table_cell(&t, tell_size(text, sizeof text, r->read_bytes));
                table_cell(&t, tell_size(text, sizeof text, r->write_bytes));
        }
        table_end(&t, out, columns);
        qsort(p->rows, p->count, sizeof *p->rows, by_id);
}

static int once(const struct options *o) {
        _cleanup_(picture_free) struct picture before = {0}, now = {0};
        _cleanup_buf_ struct buf out = {.max = 32 << 20};
        struct err err = {0};

        int r = take(o, &before, &err);
        (void)poll(NULL, 0, 200);
        if (r == 0)
                r = take(o, &now, &err);
        if (r < 0)
                return talk_failed(NULL, &o->common, &err);
        compare(&before, &now);
        draw(&now, false, table_terminal(), 0, &out);
        (void)fputs(out.data ? out.data : "", stdout);
        return 0;
}

static int as_json(const struct options *o) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct err err = {0};
        const char *result;

        if (ask(o, "usage", &t, &result, &err) < 0)
                return talk_failed(&t, &o->common, &err);
        talk_print(result);
        return 0;
}

/* Waits for a key until the next picture is due; 0 if none came. */
static char key(uint64_t until) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        uint64_t now = tell_clock();
        char c;

        if (now < until && poll(&p, 1, (int)(until - now)) > 0)
                return read(STDIN_FILENO, &c, 1) == 1 ? c : 'q';
        return 0;
}

/* Over what is there, line by line, so that nothing flickers. */
static void show(const char *text) {
        (void)fputs("\033[H", stdout);
        for (size_t n; *text; text += n + 1) {
                n = strcspn(text, "\n");
                (void)printf("%.*s\033[K\n", (int)n, text);
        }
        (void)fputs("\033[J", stdout);
}

static int live(const struct options *o) {
        _cleanup_(picture_free) struct picture before = {0};
        bool memory_first = false;
        struct err err = {0};
        int r = terminal_quiet(&err);

        (void)fputs("\033[2J", stdout);
        for (bool go_on = r == 0; go_on;) {
                _cleanup_buf_ struct buf out = {.max = 4 << 20};
                struct picture now = {0};
                uint64_t rows = 24, columns = 80;

                r = take(o, &now, &err);
                if (r < 0)
                        break;
                compare(&before, &now);
                (void)terminal_size(&rows, &columns);
                draw(&now, memory_first, columns, rows, &out);
                show(out.data ? out.data : "");
                (void)fflush(stdout);
                picture_free(&before);
                before = now;
                for (uint64_t until = now.taken + STEP_MS; go_on && tell_clock() < until;) {
                        char c = key(until);
                        go_on = c != 'q' && c != 3 && c != 4;
                        if (c == 'm' || c == 'c') {
                                memory_first = c == 'm';
                                break;
                        }
                }
        }
        terminal_restore();
        return r < 0 ? talk_failed(NULL, &o->common, &err) : 0;
}

int cmd_top(int argc, char **argv) {
        struct options o = {0};
        int status;

        if (!client_begin(&top_verb, &argc, argv, &o, &status))
                return status;
        if (o.common.json)
                return as_json(&o);
        return o.once || !terminal_is(STDIN_FILENO) || !terminal_is(STDOUT_FILENO) ? once(&o) : live(&o);
}
