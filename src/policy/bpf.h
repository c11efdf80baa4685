/* A classic BPF program, written from its last instruction to its first.
 *
 * All jumps in such a program go forward. Written backwards, every target exists before the jump to it, so offsets are
 * known at once and never need patching; a conditional jump, whose offset has eight bits, gets a stepping stone when
 * its target is too far. A position is counted from the end: 0 is the last instruction. */
#pragma once

#include <linux/filter.h>

#include "base/macro.h"

enum { BPF_ROOM = 1024 };

struct bpf {
        struct sock_filter code[BPF_ROOM]; /* filled from the end */
        unsigned count;
        bool full; /* something did not fit; the program is not usable */
};

/* Ends the program with this value. Shares an existing return where there is one. */
unsigned bpf_return(struct bpf *b, uint32_t value);

/* Compares the accumulator with k (test: BPF_JEQ, BPF_JGE, BPF_JGT or BPF_JSET) and goes to one of two positions. */
unsigned bpf_branch(struct bpf *b, uint16_t test, uint32_t k, unsigned yes, unsigned no);

/* Goes to a position: nothing if it is what was written last. */
unsigned bpf_goto(struct bpf *b, unsigned target);

/* Loads a 32-bit word of struct seccomp_data, or masks what was loaded, and goes on with what was written last. */
unsigned bpf_load(struct bpf *b, size_t offset);
unsigned bpf_and(struct bpf *b, uint32_t mask);

/* The first instruction in execution order; count of them follow. */
const struct sock_filter *bpf_start(const struct bpf *b);
