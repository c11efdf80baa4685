/* Cgroup leaves in a machine: what the guest asks the machine's first process for, over its report socket, one packet
 * each way. A leaf has the number of its run. The guest cannot reach a leaf itself: it is another user than the one
 * that cgroups belong to, and what it gets is a file to write "0" to, as the warden's are. */
#pragma once

#include <stdint.h>

enum leaf_ask {
        LEAF_OPEN = 1, /* makes it: its file comes along */
        LEAF_END,      /* removes it if nothing lives in it, -EBUSY otherwise; both say what it has counted */
        LEAF_KILL,     /* kills what lives in it, then as LEAF_END: to be asked again until it is gone */
};

struct leaf_request {
        uint32_t ask; /* enum leaf_ask */
        uint32_t run;
};

/* UINT64_MAX: not known. */
struct leaf_count {
        uint64_t cpu_us, memory_peak, oom_kills, fork_refusals;
};

struct leaf_answer {
        int32_t error; /* 0 or -errno */
        uint32_t run;
        struct leaf_count count;
};
