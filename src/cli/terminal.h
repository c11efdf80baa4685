/* The caller's terminal: raw while a session owns it, and as it was before whatever ends us.
 *
 * One terminal per process, which is where standard input is. It is put back by terminal_restore, at exit, and by
 * the signals that end us (a session blocks those that it passes on); only SIGKILL leaves it raw. */
#pragma once

#include "base/err.h"

bool terminal_is(int fd);
int terminal_raw(struct err *err);   /* every key is a byte; 0 also when standard input is no terminal */
int terminal_quiet(struct err *err); /* no echo, no lines, no signals from keys */
void terminal_again(void);           /* after we were stopped: as the last of the two */
void terminal_restore(void);
bool terminal_size(uint64_t *rows, uint64_t *columns); /* false where there is none */
