/* What our daemons tell whoever runs them, on standard error: one line per failure, where it stops. A sentence when
 * that is a terminal, a JSON object otherwise: time, part, level, message, and hint, sandbox where there are any.
 *
 * Never waits: when the other end does not read, lines are lost, and the next one that gets through says how many. What
 * others said in foreign bytes is made inert. Secrets do not belong here. */
#pragma once

#include "base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_LEVELS };

/* part is "operator", "warden"…, a literal. Call it before system calls are limited: it looks at the time zone once. */
void log_open(const char *part, enum log_level most);
bool log_level_parse(const char *name, enum log_level *ret); /* "error", "warning", "info", "debug" */

void log_line(enum log_level level, const char *sandbox, const char *format, ...) _printf_(3, 4); /* sandbox or NULL */
void log_err(enum log_level level, const char *sandbox, const struct err *err);                   /* with its hint */
