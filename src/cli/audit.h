/* Reading records of the kernel's audit stream, between audit.c and its tests. */
#pragma once

#include "cli/run.h"

#define AUDIT_RECORD_ACCESS 1423 /* AUDIT_LANDLOCK_ACCESS */
#define AUDIT_RECORD_DOMAIN 1424 /* AUDIT_LANDLOCK_DOMAIN */

/* What is known so far; starts with {0}. */
struct audit {
        char domain[32];       /* the run's own; "" until its record has come */
        char waiting[16][512]; /* the last denials before that: the domain's own record follows its first denial */
        size_t waiting_count;  /* since the beginning */
};

/* One record of this type. A denial in the domain that pid made becomes one of the outcome's. */
void audit_take(struct audit *a, const char *text, unsigned type, pid_t pid, struct run_outcome *o);
