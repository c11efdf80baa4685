/* LZ4, legacy frames. Every length is checked against what is left of the input and of the block's room before it is
 * used; a block never refers to bytes before its own beginning. */
#include "driver/vm-lz4.h"

#define LEGACY_MAGIC 0x184c2102U
#define BLOCK_MAX    (8U << 20) /* of every block but the last, unpacked */
#define MATCH_LEAST  4

static uint32_t le32(const uint8_t *p) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

struct block {
        const uint8_t *in, *end;
        uint8_t *out;
        size_t made;
};

/* A length of 15 goes on in further bytes, until one is not 255. */
static bool take_length(struct block *b, size_t *length) {
        uint8_t byte = 255;

        if (*length != 15)
                return true;
        while (byte == 255) {
                if (b->in == b->end || *length > BLOCK_MAX)
                        return false;
                byte = *b->in++;
                *length += byte;
        }
        return true;
}

static bool take_literals(struct block *b, size_t length) {
        if (!take_length(b, &length) || length > (size_t)(b->end - b->in) || length > BLOCK_MAX - b->made)
                return false;
        memcpy(b->out + b->made, b->in, length);
        b->in += length;
        b->made += length;
        return true;
}

static bool take_match(struct block *b, size_t length) {
        if (b->end - b->in < 2)
                return false;
        size_t distance = b->in[0] | (size_t)b->in[1] << 8;
        b->in += 2;
        if (!take_length(b, &length) || distance == 0 || distance > b->made)
                return false;
        length += MATCH_LEAST;
        if (length > BLOCK_MAX - b->made)
                return false;
        for (; length > 0; length--, b->made++) /* byte by byte: a match may reach into what it makes */
                b->out[b->made] = b->out[b->made - distance];
        return true;
}

/* The last sequence of a block has literals alone. */
static bool unpack_block(struct block *b) {
        while (b->in < b->end) {
                uint8_t token = *b->in++;

                if (!take_literals(b, token >> 4))
                        return false;
                if (b->in == b->end)
                        return true;
                if (!take_match(b, token & 15))
                        return false;
        }
        return false;
}

bool vm_lz4_begins(const uint8_t *bytes, size_t size) {
        return size >= 4 && le32(bytes) == LEGACY_MAGIC;
}

int vm_lz4_unpack(const uint8_t *bytes, size_t size, struct buf *out, struct err *err) {
        _cleanup_free_ uint8_t *room = malloc(BLOCK_MAX);
        size_t at = 4;

        if (!room)
                return err_set(err, -ENOMEM, "could not unpack the kernel");
        if (!vm_lz4_begins(bytes, size))
                return err_set(err, ERR_CORRUPT, "the stream has no beginning");
        while (size - at >= 4) {
                uint32_t packed = le32(bytes + at);
                struct block b = {.in = bytes + at + 4, .out = room};

                if (packed == 0 || packed > size - at - 4)
                        return err_set(err, ERR_CORRUPT, "a block of %u bytes at %zu is cut short", packed, at);
                b.end = b.in + packed;
                if (!unpack_block(&b))
                        return err_set(err, ERR_CORRUPT, "the block at %zu is damaged", at);
                buf_add(out, room, b.made);
                if (!buf_ok(out))
                        return err_set(err, ERR_LIMIT, "more than %zu bytes come out of it", out->max);
                at += 4 + packed;
        }
        return at == size ? 0 : err_set(err, ERR_CORRUPT, "%zu bytes follow the last block", size - at);
}
