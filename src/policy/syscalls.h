/* The system calls that code in a sandbox may make: one table, as data.
 *
 * The table says for each call: allow, refuse with an errno, or look at the arguments. The compiler (filter.c), the
 * printed list and the tests all walk this one table, so they cannot disagree about what it says. What is not in the
 * table is refused with SYSCALL_DEFAULT. */
#pragma once

#include <linux/seccomp.h>

#include "base/err.h"

/* What becomes of a call: values as the kernel takes them from a filter. */
#define SYSCALL_ALLOW     SECCOMP_RET_ALLOW
#define SYSCALL_REFUSE(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))
#define SYSCALL_DEFAULT   SYSCALL_REFUSE(ENOSYS)

enum {
        SYSCALL_NUMBERS = 1024, /* every number is below this; the rest is SYSCALL_DEFAULT */
        SYSCALL_TESTS = 3,      /* tests in one clause */
        SYSCALL_NAME_MAX = 32,
};

enum syscall_compare {
        COMPARE_END, /* no more tests in this clause */
        COMPARE_EQUAL,
        COMPARE_OTHER,   /* not equal */
        COMPARE_AT_MOST, /* unsigned */
        COMPARE_ANY_BIT, /* at least one bit of value is set; mask is not used */
};

/* One look at one half of one argument. For int arguments the kernel ignores the high half, so we do too: a test on
 * all 64 bits could be dodged by setting a high bit. */
struct syscall_test {
        uint8_t argument; /* 0 to 5 */
        bool high;        /* the upper 32 bits; false: the lower ones */
        uint8_t compare;  /* enum syscall_compare */
        uint32_t mask;    /* applied before comparing; 0 stands for all bits */
        uint32_t value;
};

/* If every test holds, the action is taken; otherwise the next clause is tried. */
struct syscall_clause {
        struct syscall_test tests[SYSCALL_TESTS];
        uint32_t action;
};

/* Clauses in order; when none applies, otherwise. */
struct syscall_rule {
        const char *text; /* for people: what is refused, or what alone is allowed */
        const struct syscall_clause *clauses;
        size_t count;
        uint32_t otherwise;
};

/* Rows that only some sandboxes have. A call whose rows are conditional has one for either case. */
enum syscall_when {
        SYSCALL_ALWAYS,
        SYSCALL_IF_MEMFD, /* programs may be run from memory */
        SYSCALL_IF_NO_MEMFD,
        SYSCALL_IF_PTRACE, /* processes may look into one another */
        SYSCALL_IF_NO_PTRACE,
};

/* One call of the table. */
struct syscall_entry {
        const char *group;
        char name[SYSCALL_NAME_MAX];
        int number; /* on this architecture; -1: does not exist here */
        enum syscall_when when;
        const struct syscall_rule *rule; /* NULL: action alone decides */
        uint32_t action;
};

/* Where a walk through the table stands; start with {0}. */
struct syscalls_walk {
        size_t row;
        size_t offset;
};

/* The next call of the table, in its order. Returns 1, 0 at the end, or a negative code if the table is malformed. */
int syscalls_next(struct syscalls_walk *walk, struct syscall_entry *ret, struct err *err);
