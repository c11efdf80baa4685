/* What the three reports say alike: sentences, counts, the command to repeat it, and what nobody tried. */
#pragma once

#include "verify/report.h"

enum { REPORT_BIG = 4096, REPORT_MAX = 32 << 20 };

/* Counts of one group. A check that was chosen and not judged counts as not tried. */
struct report_count {
        unsigned checks, promised, otherwise, open, untried, permitted, inapplicable, witnessed;
        unsigned shown;   /* the same attempt was seen to work where it may */
        unsigned unshown; /* it did not, so that the refusal says less */
};
void report_count(const struct judge *j, enum group g, struct report_count *ret); /* GROUP_COUNT: of all */

enum verdict report_verdict(const struct finding *f); /* PENDING is UNTRIED */
const char *report_why(const struct finding *f);

/* The verdict in one sentence, and a second one with the numbers. buf is returned. */
const char *report_headline(const struct judge *j, char *buf, size_t size);
const char *report_summary(const struct judge *j, char *buf, size_t size);
const char *report_caller(const struct judge *j, char *buf, size_t size);
const char *report_duration(unsigned ms, char *buf, size_t size);

/* What would print this again, quoted for a shell. */
void report_command(const struct judge *j, struct buf *ret);

/* Where an attempt works: for programs and for people. */
extern const char *const report_control_names[];
extern const char *const report_control_words[];
extern const char *const report_shown_names[];

/* A limit is set small and reached: the rows of the table that are called so. */
bool report_is_limit(const struct check *c);

/* Host state was taken before and after. */
bool report_has_state(const struct judge *j);

/* The i-th thing that no check of this report is about, and why; false past the last. */
bool report_beyond(const struct judge *j, size_t i, const char **ret_what, const char **ret_why);
/* Why checks of the table were left out; NULL if none was. */
const char *report_left_out(const struct judge *j);

/* Copies hostile text so that it is one inert line; the caller frees it. NULL: no memory. */
char *report_inert(const char *s);
/* The same, and the ends of its lines stay what they are. */
char *report_inert_lines(const char *s);

/* A record for people and for programs (report-record.c). text is a record; false if it is not well-formed. */
bool record_good(const char *text);
void record_ascii(const char *text, struct buf *ret);  /* the same value, every character beyond ASCII as \u */
void record_pretty(const char *text, struct buf *ret); /* the same, a line for each value */
const char *record_sentence(const char *text, char *buf, size_t size); /* what ran and how it ended */
