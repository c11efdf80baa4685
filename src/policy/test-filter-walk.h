/* What the tests of the system call filter share: the table as it stands for some options, the program compiled from
 * it, a plain walk through the table to compare the program with, an interpreter, and arguments that reach every
 * clause of every rule. */
#pragma once

#include <linux/audit.h>
#include <linux/seccomp.h>

#include "policy/filter.h"
#include "policy/syscalls.h"

#if defined(__x86_64__)
#define NATIVE  AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#define X32_BIT 0x40000000U
#else
#define NATIVE  AUDIT_ARCH_AARCH64
#define FOREIGN AUDIT_ARCH_ARM
#endif

enum { WALK_OPTIONS = 4, WALK_CLAUSES = 64 };
extern const struct filter_options walk_options[WALK_OPTIONS]; /* every combination */

struct walk {
        struct syscall_entry entries[SYSCALL_NUMBERS]; /* only those that these options have */
        size_t entry_count;
        const struct syscall_entry *by_number[SYSCALL_NUMBERS]; /* NULL: not in the table */
        struct sock_filter program[FILTER_ROOM];
        size_t program_size;
};

/* What an instruction of the program did. */
struct walk_step {
        bool executed;
        bool yes, no; /* of a conditional jump: which ways it went */
};

/* Fills w for these options. False: the table or the compiler failed, and why was printed. */
bool walk_load(struct walk *w, const struct filter_options *options);

/* What the table says, read from top to bottom. ret_clause may be NULL: the clause that decided, rule->count for
 * "otherwise", 0 of a call without a rule. */
uint32_t walk_table(const struct walk *w, const struct seccomp_data *data, size_t *ret_clause);

/* Runs a program as the kernel would; steps may be NULL. What the kernel's checker refuses ends as UINT32_MAX. */
uint32_t walk_program(const struct sock_filter *code, size_t size, const struct seccomp_data *data,
                      struct walk_step *steps);

/* How often each clause of each call decided. */
typedef unsigned walk_hits[WALK_CLAUSES];

/* How many places a call has in its hits: its clauses and "otherwise"; 1 without a rule. */
size_t walk_clauses(const struct syscall_entry *e);

/* Prints and counts what is not in hits (of SYSCALL_NUMBERS calls), and instructions that did not do all they can. */
unsigned walk_unreached(const struct walk *w, const walk_hits *hits);
unsigned walk_idle(const struct walk *w, const struct walk_step *steps);

/* Calls visit with every combination of interesting arguments of a call that has a rule. */
void walk_vectors(const struct syscall_entry *e, void (*visit)(const struct seccomp_data *));

/* Calls that no filter is asked about: the kernel puts them into traced programs itself, and sends SIGILL to whoever
 * else makes them (uretprobe, uprobe). */
bool walk_kernels_own(int nr);
