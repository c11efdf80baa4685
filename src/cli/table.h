/* Tables for people: columns that fit the terminal, or as wide as they need when there is none.
 *
 * Every cell is made inert before it is kept (text_escape): names and commands come from sandboxes. When the terminal
 * is too narrow the columns that may shrink do, and what was cut ends in an ellipsis. */
#pragma once

#include "base/buf.h"

#define TABLE_COLUMNS_MAX 12

enum {
        TABLE_RIGHT = 1 << 0,  /* numbers */
        TABLE_SHRINK = 1 << 1, /* may be cut */
};

struct table_column {
        const char *title;
        unsigned flags;
};

struct table {
        const struct table_column *columns;
        size_t count;
        struct buf cells; /* NUL-terminated texts, row after row */
        size_t filled;
};

void table_begin(struct table *t, const struct table_column *columns, size_t count);
void table_cell(struct table *t, const char *text);
void table_number(struct table *t, uint64_t value);
void table_json(struct table *t, const char *json, const char *path); /* a text or number of an answer; "-" if absent */

/* Prints into out, with a heading, for this many columns (0: no limit), and frees the table. */
void table_end(struct table *t, struct buf *out, size_t width);
void table_print(struct table *t); /* the same to standard output, for its terminal */

size_t table_width(const char *text); /* columns that a text takes on a terminal */
size_t table_terminal(void);          /* columns of the terminal on standard output, or 0 */
