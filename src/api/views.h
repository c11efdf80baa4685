/* The views that more than one route has. */
#pragma once

#include "api/exchange.h"

extern const struct view view_run;        /* a run's output, gathered: {"stdout", "stderr", …the run} */
extern const struct view view_run_events; /* the same as server-sent events while it comes */
extern const struct view
        view_terminal_events;          /* of a terminal, whose output is called that, as clients of Tangle have it */
extern const struct view view_events;  /* events as they are: the ledger's, changes of files */
extern const struct view view_bytes;   /* output frames are the body */
extern const struct view view_life;    /* a sandbox, as clients of Tangle expect the answer to stop and resume */
extern const struct view view_changes; /* events gathered into {"changes": […], …the result} */
extern const struct view view_report_page; /* report-page.c: {"page"} as a page that can do nothing */
extern const struct view view_first;       /* the only element of an array in the result */

/* "key": value, which is JSON of this size. */
void views_member(struct json *j, const char *key, const char *value, size_t size);
void views_ssh(const struct core *o, struct json *j, const char *key); /* where SSH is spoken: an array of addresses */

/* {…members}{result}: both objects in one. members is "\"a\":1", without braces. */
void views_merge(struct exchange *x, unsigned status, const char *members, const char *result);
