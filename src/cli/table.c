/* Tables. All cells are kept until the end, when the width of each column is known. */
#include "cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/tell.h"

enum { CELL_MAX = 4096, LEAST = 6, GAP = 2 };

void table_begin(struct table *t, const struct table_column *columns, size_t count) {
        assert(count <= TABLE_COLUMNS_MAX);
        *t = (struct table){.columns = columns, .count = count, .cells = {.max = 32 << 20}};
}

void table_cell(struct table *t, const char *text) {
        char cell[CELL_MAX];

        text_escape(cell, sizeof cell, text);
        buf_add(&t->cells, cell, strlen(cell) + 1);
        t->filled++;
}

void table_number(struct table *t, uint64_t value) {
        char text[24];

        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        table_cell(t, text);
}

void table_json(struct table *t, const char *json, const char *path) {
        char cell[CELL_MAX];

        table_cell(t, tell_text(cell, sizeof cell, json, path));
}

/* Ranges of characters that terminals draw two columns wide: scripts of East Asia, and pictures. */
static size_t columns_of(const unsigned char *s, size_t length) {
        unsigned c = 0;

        if (length == 3)
                c = (unsigned)(s[0] & 0x0f) << 12 | (unsigned)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
        else if (length == 4)
                c = (unsigned)(s[0] & 0x07) << 18 | (unsigned)(s[1] & 0x3f) << 12 | (unsigned)(s[2] & 0x3f) << 6 |
                    (s[3] & 0x3f);
        bool wide = (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
                    (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
                    (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
        return wide ? 2 : 1;
}

size_t table_width(const char *text) {
        size_t width = 0;

        for (const unsigned char *p = (const unsigned char *)text; *p;) {
                size_t n = text_utf8_length(p);

                width += n > 0 ? columns_of(p, n) : 1;
                p += n > 0 ? n : 1;
        }
        return width;
}

size_t table_terminal(void) {
        struct winsize size;

        if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
                return 0;
        return size.ws_col;
}

/* Takes columns from those that may shrink, always the widest first, until the whole fits or none can give more. */
static void fit(const struct table *t, size_t *widths, size_t width) {
        for (;;) {
                size_t total = GAP * (t->count - 1), widest = SIZE_MAX, next = LEAST;

                for (size_t i = 0; i < t->count; i++) {
                        total += widths[i];
                        if (!(t->columns[i].flags & TABLE_SHRINK))
                                continue;
                        if (widest == SIZE_MAX || widths[i] > widths[widest])
                                widest = i;
                }
                if (total <= width || widest == SIZE_MAX || widths[widest] <= LEAST)
                        return;
                for (size_t i = 0; i < t->count; i++)
                        if ((t->columns[i].flags & TABLE_SHRINK) && widths[i] < widths[widest])
                                next = MAX(next, widths[i]);
                size_t step = MAX(widths[widest] - next, (size_t)1);
                widths[widest] -= MIN(step, total - width);
        }
}

/* A cell in its width; the last of a line is not padded. */
static void put_cell(struct buf *out, const char *text, size_t width, bool right, bool last) {
        size_t own = table_width(text), used = 0;
        const unsigned char *p = (const unsigned char *)text;

        if (own <= width) {
                buf_printf(out, "%*s%s%*s", right ? (int)(width - own) : 0, "", text,
                           right || last ? 0 : (int)(width - own), "");
                return;
        }
        for (size_t n; *p; p += n) {
                n = MAX(text_utf8_length(p), (size_t)1);
                if (used + columns_of(p, n) + 1 > width)
                        break;
                buf_add(out, p, n);
                used += columns_of(p, n);
        }
        buf_printf(out, "\xe2\x80\xa6%*s", last ? 0 : (int)(width - used - 1), "");
}

void table_end(struct table *t, struct buf *out, size_t width) {
        size_t widths[TABLE_COLUMNS_MAX], column = 0;
        const char *p = t->cells.data, *end = p ? p + t->cells.size : p;

        for (size_t i = 0; i < t->count; i++)
                widths[i] = table_width(t->columns[i].title);
        for (const char *cell = p; cell < end; cell += strlen(cell) + 1, column = (column + 1) % t->count)
                widths[column] = MAX(widths[column], table_width(cell));
        if (width > 0)
                fit(t, widths, width);
        for (size_t i = 0; i < t->count; i++) {
                bool last = i + 1 == t->count;

                put_cell(out, t->columns[i].title, widths[i], t->columns[i].flags & TABLE_RIGHT, last);
                buf_printf(out, "%*s%s", last ? 0 : GAP, "", last ? "\n" : "");
        }
        column = 0;
        for (const char *cell = p; cell < end; cell += strlen(cell) + 1) {
                bool last = column + 1 == t->count;

                put_cell(out, cell, widths[column], t->columns[column].flags & TABLE_RIGHT, last);
                buf_printf(out, "%*s%s", last ? 0 : GAP, "", last ? "\n" : "");
                column = last ? 0 : column + 1;
        }
        out->failed |= t->cells.failed;
        buf_free(&t->cells);
}

void table_print(struct table *t) {
        _cleanup_buf_ struct buf out = {.max = 64 << 20};

        table_end(t, &out, table_terminal());
        (void)fputs(out.data ? out.data : "", stdout);
        if (!buf_ok(&out))
                (void)fputs("stockade: the list is longer than can be shown; --json has all of it\n", stderr);
}
