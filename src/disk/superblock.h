/* The few fields of an ext4 superblock that we look at or change while its file system is not mounted. */
#pragma once

#include "base/err.h"

struct superblock {
        bool dirty; /* its journal has to be replayed, or the kernel found errors: to be mounted for writing once */
        uint64_t blocks;                     /* of 4,096 bytes */
        uint64_t free_blocks, free_inodes;   /* as of when it was last unmounted */
        uint64_t quota_blocks, quota_inodes; /* what was asked for; we keep it in the label */
        uint8_t uuid[16];
};

/* ERR_CORRUPT if it is not one of ours: an ext4 file system with checksums that do not depend on its UUID. */
int superblock_read(int image, struct superblock *ret);

/* The label that says what was asked for: 16 digits. */
#define SUPERBLOCK_LABEL_SIZE 17
const char *superblock_label(uint64_t blocks, uint64_t inodes, char buf[SUPERBLOCK_LABEL_SIZE]);

/* Gives it a UUID that no other has: layers of one overlay are told apart by it. */
int superblock_rename(int image);
