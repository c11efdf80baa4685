/* Frames of the local protocol. Pure: what is read here came from the other end of a socket and is believed in nothing
 * but its own bytes. */
#include "wire/local.h"

/* What each kind may carry at most, whatever the caller would take. */
static size_t most(uint8_t kind) {
        switch (kind) {
        case LOCAL_REQUEST:
                return LOCAL_JSON_MAX;
        case LOCAL_ANSWER:
                return LOCAL_ANSWER_MAX;
        case LOCAL_EVENT:
        case LOCAL_INPUT:
        case LOCAL_OUTPUT:
        case LOCAL_ERRORS:
        case LOCAL_CONTROL:
                return LOCAL_FRAME_MAX;
        default: /* FINISH is empty, and there are no others */
                return 0;
        }
}

void local_put(struct buf *b, enum local_kind kind, const void *data, size_t size) {
        if (size > most((uint8_t)kind)) {
                b->failed = true;
                return;
        }
        const uint8_t head[LOCAL_HEAD] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16),
                                          (uint8_t)(size >> 24), (uint8_t)kind};

        buf_add(b, head, sizeof head);
        if (size > 0)
                buf_add(b, data, size);
}

ssize_t local_next(const uint8_t *bytes, size_t size, size_t max, enum local_kind *ret_kind, const uint8_t **ret_data,
                   size_t *ret_size) {
        if (size < LOCAL_HEAD)
                return 0;
        size_t payload = (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
        uint8_t kind = bytes[4];

        if (bytes[5] != 0 || bytes[6] != 0 || bytes[7] != 0)
                return -EBADMSG;
        if (kind == LOCAL_FINISH ? payload > 0 : most(kind) == 0)
                return -EBADMSG;
        if (payload > max || payload > most(kind))
                return -EMSGSIZE;
        if (size - LOCAL_HEAD < payload)
                return 0;
        *ret_kind = (enum local_kind)kind;
        *ret_data = bytes + LOCAL_HEAD;
        *ret_size = payload;
        return (ssize_t)(LOCAL_HEAD + payload);
}
