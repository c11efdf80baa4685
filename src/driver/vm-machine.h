/* A machine with what serves it, and its way to tell how it goes. */
#pragma once

#include <sys/types.h>

#include "wire/plan.h"

struct machine_facts {
        const char *image; /* folder with `kernel` and `initrd`, made by stockade-vm-image */
        uint32_t id_base;  /* of the sandbox's host ids */
        int tree;          /* a folder of our mount namespace, with all that is mounted below it */
        int disk;          /* -EBADF: none */
        int tap;           /* -EBADF: none */
        bool live;         /* the tree has places that others change: vm-plan.h */
        bool kvm;
        uint64_t memory; /* of the sandbox */
        unsigned cpus;
        int errors; /* where the programs complain; -EBADF: nowhere */
};

struct machine {
        pid_t qemu, fs, live; /* qemu: or another that runs the machine; live: 0 if there is none */
        int qemu_pidfd, fs_pidfd, live_pidfd;
        int line; /* vm-carry.h: CARRY_UP comes first */
};
#define MACHINE_NONE ((struct machine){.qemu_pidfd = -EBADF, .fs_pidfd = -EBADF, .live_pidfd = -EBADF, .line = -EBADF})

/* Starts virtiofsd on the tree, as root of the sandbox's own ids, and QEMU, as the second of them. The caller is real
 * root, and all of them die with the thread that called. On failure nothing is left. */
int machine_start(const struct machine_facts *f, struct machine *ret, struct err *err);

/* A program that serves the tree to a machine, in a place of its own, as root of the sandbox's ids. shows: what it
 * needs of the host's files; listener: its PLACE_FD_FIRST. */
struct machine_server {
        const char *const *shows;
        size_t show_count;
        char *const *argv;
        int listener;
};
int machine_serve(const struct machine_facts *f, const struct machine_server *s, pid_t *ret_pid, int *ret_pidfd,
                  struct err *err);

/* Kills all of it and waits. */
void machine_end(struct machine *m);

/* Waits until its kernel has booted. */
int machine_wait_up(const struct machine *m, int timeout_ms, struct err *err);

/* Waits so too, gives the machine its plan, and waits until its guest serves: timeout_ms is for all of it. A machine
 * that says what is wrong is quoted. */
int machine_begin(const struct machine *m, const struct plan *p, int timeout_ms, struct err *err);

/* Memory and processors that a plan asks for, within what a machine can have. */
void machine_limits(const struct plan *p, struct machine_facts *f);
