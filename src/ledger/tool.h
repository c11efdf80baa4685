/* stockade-ledger: the ledger for people and scripts. One function per verb, one table of options for all. */
#pragma once

#include <stdio.h>

#include "ledger/line.h"

enum { TOOL_GOOD = 0, TOOL_BROKEN = 1, TOOL_FAILED = 125 };

struct tool_options {
        const char *place; /* what was named: a folder or a file */
        const char *state, *expect, *key, *from, *lines, *sandbox, *run, *kind, *output;
        bool json, follow;
};

/* Each returns an exit status, or a negative number with a sentence in err. */
int tool_verify(const struct tool_options *o, struct err *err);
int tool_checkpoints(const struct tool_options *o, struct err *err);
int tool_tail(const struct tool_options *o, struct err *err);
int tool_evidence(const struct tool_options *o, struct err *err);

/* The ledger's folder: the one that was named, or the one of the state folder. A descriptor or -errno; *ret_name is how
 * to call it. */
enum { TOOL_NAME = 4200 };
int tool_open(const struct tool_options *o, char ret_name[TOOL_NAME], struct err *err);

int tool_number(const char *text, const char *option, uint64_t *ret, struct err *err);

/* Colours, on a terminal only. */
enum tool_paint { TOOL_PLAIN, TOOL_DIM, TOOL_GREEN, TOOL_YELLOW, TOOL_RED };
const char *tool_on(enum tool_paint paint);
const char *tool_off(void);
size_t tool_width(void);                                    /* columns of the terminal; 0: none, lines are whole */
const char *tool_count(char *buf, size_t size, uint64_t n); /* 1,234,567 */
