/* QEMU's and virtiofsd's command lines, from facts. */
#pragma once

#include "driver/words.h"

#define VM_MEMORY_OVERHEAD (96ULL << 20) /* what the machine's own kernel takes of it */
#define VM_CPUS_MAX        32

/* Paths as the two programs see them: see vm-place.h. */
#define VM_QEMU_PROGRAM "/usr/bin/qemu-system-x86_64"
#define VM_FS_PROGRAM   "/usr/lib/qemu/virtiofsd"
#define VM_IMAGE_INSIDE "/image"
#define VM_TREE_INSIDE  "/tree"

/* Descriptors are numbers that the started program has; negative: the machine has no such thing. */
struct vm_facts {
        bool kvm;        /* a kernel was really booted with it */
        uint64_t memory; /* of the sandbox: the machine has VM_MEMORY_OVERHEAD more */
        unsigned cpus;
        unsigned tsc_khz; /* of this host's clock */
        unsigned files;   /* that virtiofsd can have open: the machine's kernel remembers no more; 0: not said */
        int line;         /* a connected stream */
        int tree;         /* a stream to virtiofsd */
        int live;         /* to another */
        int disk;         /* an ext4 image, for reading and writing */
        int tap;
};

int vm_qemu_words(const struct vm_facts *f, struct words *ret);

/* listener: a listening socket that QEMU's end of `tree` or `live` is connected to. */
int vm_fs_words(int listener, bool live, struct words *ret);

/* How fast this host's time stamp counter runs: measured, for 20 ms. */
unsigned vm_tsc_khz(void);
