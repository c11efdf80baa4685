/* Reading and changing the superblock as bytes at their offsets, with its checksum (CRC-32C). */
#include "disk/superblock.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

enum {
        AT = 1024, /* in the image */
        SIZE = 1024,
        /* in the superblock */
        BLOCKS = 0x04,
        FREE_BLOCKS = 0x0c,
        FREE_INODES = 0x10,
        BLOCK_SIZE = 0x18,
        MAGIC = 0x38,
        STATE = 0x3a,
        INCOMPAT = 0x60,
        RO_COMPAT = 0x64,
        UUID = 0x68,
        LABEL = 0x78,
        CHECKSUM = 0x3fc,
        /* their values */
        STATE_ERRORS = 0x2,
        INCOMPAT_RECOVER = 0x4,
        INCOMPAT_CSUM_SEED = 0x2000,
        RO_COMPAT_METADATA_CSUM = 0x400,
};

static uint32_t get(const uint8_t *sb, size_t at, size_t bytes) {
        uint32_t value = 0;

        for (size_t i = 0; i < bytes; i++)
                value |= (uint32_t)sb[at + i] << (8 * i);
        return value;
}

static uint32_t crc32c(const uint8_t *data, size_t size) {
        uint32_t crc = UINT32_MAX;

        for (size_t i = 0; i < size; i++) {
                crc ^= data[i];
                for (unsigned bit = 0; bit < 8; bit++)
                        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
        }
        return crc;
}

static int load(int image, uint8_t sb[SIZE]) {
        ssize_t n = pread(image, sb, SIZE, AT);

        if (n < 0)
                return -errno;
        if (n != SIZE || get(sb, MAGIC, 2) != 0xef53 || get(sb, BLOCK_SIZE, 4) != 2 ||
            !(get(sb, INCOMPAT, 4) & INCOMPAT_CSUM_SEED) || !(get(sb, RO_COMPAT, 4) & RO_COMPAT_METADATA_CSUM) ||
            get(sb, CHECKSUM, 4) != crc32c(sb, CHECKSUM))
                return ERR_CORRUPT;
        return 0;
}

const char *superblock_label(uint64_t blocks, uint64_t inodes, char buf[SUPERBLOCK_LABEL_SIZE]) {
        (void)snprintf(buf, SUPERBLOCK_LABEL_SIZE, "%08x%08x", (unsigned)blocks, (unsigned)inodes);
        return buf;
}

static uint64_t read_label(const uint8_t *text) {
        char digits[9] = "";

        memcpy(digits, text, 8);
        return strtoul(digits, NULL, 16);
}

int superblock_read(int image, struct superblock *ret) {
        uint8_t sb[SIZE];

        int r = load(image, sb);
        if (r < 0)
                return r;
        *ret = (struct superblock){
                .blocks = get(sb, BLOCKS, 4),
                .free_blocks = get(sb, FREE_BLOCKS, 4),
                .free_inodes = get(sb, FREE_INODES, 4),
                .quota_blocks = read_label(sb + LABEL),
                .quota_inodes = read_label(sb + LABEL + 8),
        };
        ret->dirty = (get(sb, INCOMPAT, 4) & INCOMPAT_RECOVER) || (get(sb, STATE, 2) & STATE_ERRORS);
        memcpy(ret->uuid, sb + UUID, sizeof ret->uuid);
        return 0;
}

int superblock_rename(int image) {
        uint8_t sb[SIZE];

        int r = load(image, sb);
        if (r < 0)
                return r;
        if (getrandom(sb + UUID, 16, 0) != 16)
                return -EAGAIN;
        sb[UUID + 6] = (uint8_t)(0x40 | (sb[UUID + 6] & 0x0f));
        sb[UUID + 8] = (uint8_t)(0x80 | (sb[UUID + 8] & 0x3f));
        uint32_t crc = crc32c(sb, CHECKSUM);
        for (size_t i = 0; i < 4; i++)
                sb[CHECKSUM + i] = (uint8_t)(crc >> (8 * i));
        ssize_t n = pwrite(image, sb, SIZE, AT);
        return n == SIZE ? 0 : n < 0 ? -errno : -EIO;
}
