/* What came of it, for people and for programs. All three say the same; whatever comes from a sandbox is escaped. */
#pragma once

#include "verify/judge.h"

/* Short: a line per group and what is not as promised; options.verbose: every check. Colours only where out is a
 * terminal and NO_COLOR is not set. */
void report_text(const struct judge *j, FILE *out);
void report_json(const struct judge *j, struct buf *out); /* everything that the other two show; one line */
void report_html(const struct judge *j, struct buf *out); /* one file, nothing loaded from anywhere */

/* A line on standard error that says what is being tried, on a terminal; nothing otherwise. */
void progress_show(const char *what, size_t done, size_t all);
void progress_clear(void);

/* Keeping it. The first two are called before the judge makes its world: they hold the real folders open from then on,
 * whatever is mounted over them later, and an answer that cannot be written is known before the long work. */
int keep_check_report(const char *path, struct err *err); /* can the page be written there? */
int keep_open(struct judge *j,
              struct err *err); /* the folder of this report; on failure j->folder is "": none is kept */
/* Writes a record as NAME.json there and hands the text to r. Without a folder, only that. */
int keep_record(struct judge *j, struct judge_record *r, const char *name, const char *text, struct err *err);
/* Writes report.json there, the page to options.report if it was asked for, and both as the latest of their kind beside
 * that folder, unless it is about single checks or another maker's sandbox. */
int keep_report(const struct judge *j, struct err *err);

/* Fills j->host: what this machine is, and the hashes of our programs. Before the judge makes its world. */
void facts_host(struct judge *j);
