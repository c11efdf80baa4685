/* Writing classic BPF backwards; see bpf.h. Nothing here knows what the program is for. */
#include "policy/bpf.h"

#include <stddef.h>

/* The longest way that a conditional jump can skip, less one for a stepping stone that its other branch may need. */
#define REACH 254U

static struct sock_filter *bpf_at(struct bpf *b, unsigned position) {
        return &b->code[BPF_ROOM - 1 - position];
}

static unsigned bpf_write(struct bpf *b, uint16_t code, uint8_t yes, uint8_t no, uint32_t k) {
        if (b->count == BPF_ROOM) {
                b->full = true;
                return BPF_ROOM - 1;
        }
        *bpf_at(b, b->count) = (struct sock_filter){.code = code, .jt = yes, .jf = no, .k = k};
        return b->count++;
}

/* Instructions between the next one to be written and target. */
static unsigned bpf_distance(const struct bpf *b, unsigned target) {
        assert(target < b->count);
        return b->count - 1 - target;
}

/* A position that means the same as target and is the latest one. A return is copied rather than jumped to. */
static unsigned bpf_step(struct bpf *b, unsigned target) {
        struct sock_filter there = *bpf_at(b, target);

        if (there.code == (BPF_RET | BPF_K))
                return bpf_write(b, there.code, 0, 0, there.k);
        return bpf_write(b, BPF_JMP | BPF_JA, 0, 0, bpf_distance(b, target));
}

unsigned bpf_return(struct bpf *b, uint32_t value) {
        for (unsigned i = b->count; i-- > 0;) /* the latest is the nearest */
                if (bpf_at(b, i)->code == (BPF_RET | BPF_K) && bpf_at(b, i)->k == value)
                        return i;
        return bpf_write(b, BPF_RET | BPF_K, 0, 0, value);
}

unsigned bpf_branch(struct bpf *b, uint16_t test, uint32_t k, unsigned yes, unsigned no) {
        if (bpf_distance(b, yes) > REACH)
                yes = bpf_step(b, yes);
        if (bpf_distance(b, no) > REACH)
                no = bpf_step(b, no);
        return bpf_write(b, (uint16_t)(BPF_JMP | BPF_K | test), (uint8_t)bpf_distance(b, yes),
                         (uint8_t)bpf_distance(b, no), k);
}

unsigned bpf_goto(struct bpf *b, unsigned target) {
        return bpf_distance(b, target) == 0 ? target : bpf_step(b, target);
}

unsigned bpf_load(struct bpf *b, size_t offset) {
        return bpf_write(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

unsigned bpf_and(struct bpf *b, uint32_t mask) {
        return bpf_write(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
}

const struct sock_filter *bpf_start(const struct bpf *b) {
        return &b->code[BPF_ROOM - b->count];
}
