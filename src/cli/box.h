/* `stockade run` under another driver than native: the daemon makes a sandbox for the one command and removes it. */
#pragma once

#include "cli/run.h"

/* Is the command to run in a sandbox of the daemon? */
bool box_wanted(const struct run_options *o);
/* Refuses options that such a sandbox does not have. */
int box_check(const struct run_options *o, struct err *err);
/* From the first request to the exit status. */
int box_run(const struct run_options *o);

/* box_record.c: the record of the sandbox's run, made of what the daemon knows and its ledger. */
int box_record(const struct run_options *o, const char *sandbox, int status, int fd, struct err *err);
