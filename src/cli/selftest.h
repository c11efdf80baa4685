/* The self-test of a driver: a short list of attacks on a sandbox of it, judged from outside. A driver that fails it is
 * not offered. */
#pragma once

#include "base/err.h"

struct selftest {
        bool passed;
        unsigned checks, open; /* attacks that were made, and those that got through */
        unsigned ms;
        char words[160]; /* what came of it, for people */
        char hint[200];  /* what to do, where it could not be made */
};

/* Takes less than a second for native on a machine that is not busy, and two minutes at most for others. A test that
 * cannot be made, or says nothing in time, is not passed. */
void selftest_run(const char *driver, struct selftest *ret);
