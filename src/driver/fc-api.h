/* Firecracker's API, as its published description of 1.16 has it: a machine is described, started, paused, kept in
 * files and brought back. Paths are as Firecracker sees them, from the root that its jailer gave it.
 *
 * A machine is described before it starts and never after; it is kept only while it is paused; one is brought back
 * only by a Firecracker that was told nothing yet. What is out of turn is -EBUSY here and never asked. */
#pragma once

#include "driver/ask.h"

#define FC_ID_MAX   32
#define FC_CPUS_MAX 32
#define FC_CID      3 /* of the machine; each Firecracker has its own */

enum fc_state {
        FC_FRESH,     /* nothing was said yet */
        FC_DESCRIBED, /* something was */
        FC_RUNNING,
        FC_PAUSED,
        FC_STATE_COUNT,
};

struct fc {
        const char *socket;
        enum fc_state state;
        bool bootable;    /* it was told what to boot */
        char release[32]; /* "1.16.1" */
};

struct fc_boot {
        const char *kernel, *initrd, *words; /* words: the kernel's command line */
};

struct fc_drive {
        const char *id; /* letters, digits and '_' */
        const char *path;
        bool read_only;
};

/* Files of a machine that was paused: its state, and its memory. */
struct fc_files {
        const char *state, *memory;
};

/* Asks who is there: a Firecracker that has no machine yet, of a version that we know (ERR_UNENFORCED). */
int fc_open(struct fc *f, const char *socket, struct err *err);

/* All return 0, or an error that quotes Firecracker where it refused (-EIO). After an error a machine that did not run
 * is not to be started: ERR_INPUT is what cannot be meant, and was not asked. */
int fc_set_machine(struct fc *f, uint64_t mib, unsigned cpus, struct err *err);
int fc_set_boot(struct fc *f, const struct fc_boot *b, struct err *err);
int fc_set_drive(struct fc *f, const struct fc_drive *d, struct err *err);
int fc_set_link(struct fc *f, const char *id, const char *tap, struct err *err);
int fc_set_vsock(struct fc *f, const char *path, struct err *err);
int fc_set_entropy(struct fc *f, struct err *err);
int fc_start(struct fc *f, struct err *err);
int fc_pause(struct fc *f, struct err *err);
int fc_resume(struct fc *f, struct err *err);
int fc_save(struct fc *f, const struct fc_files *to, struct err *err);
int fc_load(struct fc *f, const struct fc_files *from, bool resume, struct err *err);
