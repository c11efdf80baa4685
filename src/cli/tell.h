/* Words for people: sizes, times, what an answer's fields say. Each returns buf. */
#pragma once

#include "base/err.h"

const char *tell_size(char *buf, size_t size, uint64_t bytes);    /* "12.3MiB"; UINT64_MAX: "-" */
const char *tell_span(char *buf, size_t size, uint64_t ms);       /* "850ms", "12s", "3m", "5h", "9d" */
const char *tell_ago(char *buf, size_t size, uint64_t since_ms);  /* a time since 1970, as a span until now; 0: "-" */
const char *tell_time(char *buf, size_t size, uint64_t since_ms); /* "2026-11-15 19:20:00", local */

/* A text of an answer, made inert; "-" if there is none. What does not fit is cut. */
const char *tell_text(char *buf, size_t size, const char *json, const char *path);
uint64_t tell_number(const char *json, const char *path); /* UINT64_MAX if there is none */

uint64_t tell_now(void);   /* milliseconds since 1970 */
uint64_t tell_clock(void); /* milliseconds of a clock that only goes forward */

/* Progress of long work, on standard error if that is a terminal and nobody asked for JSON; at most four times a
 * second. "copied 12.3MiB, 40MiB/s" */
struct tell_progress {
        const char *what; /* "sent", "received" */
        bool on, shown;
        uint64_t start, next;
};
void tell_progress_begin(struct tell_progress *p, const char *what, bool json);
void tell_progress(struct tell_progress *p, uint64_t bytes);
void tell_progress_end(struct tell_progress *p); /* takes its line away */
