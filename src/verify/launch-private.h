/* What the files of launch share. */
#pragma once

#include "verify/launch.h"

/* A list of words that grows, for argv and environment. A failed addition marks it; words_check says so at the end. */
struct words {
        char **list; /* NULL at the end; each allocated */
        size_t count;
        bool failed;
};

void words_free(struct words *w);
#define _cleanup_words_ _cleanup_(words_free)

/* What is executed, and with which environment. record: where it shall write its record, "" for none. */
int launch_words(const struct judge *j, const struct launch *l, const char *record, struct words *ret, struct err *err);
int launch_environment(const struct judge *j, const struct launch *l, struct words *ret, struct err *err);

/* Is it one of our own sandboxes, with our launcher's options? */
bool launch_is_ours(const struct judge *j, const struct launch *l);

/* A new terminal: our end, and theirs. */
int launch_terminal(int *ret_ours, int *ret_theirs, struct err *err);

/* Waits at most until then, and reads and types what can be; notices the end. False: the time is over. */
bool launch_step(struct running *r, uint64_t until_us);
uint64_t launch_clock(void); /* microseconds, monotonic */
