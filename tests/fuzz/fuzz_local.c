/* Fuzz target: the frames of the local protocol. The first byte chooses the reader's cap. Frames are taken one after
 * another as a reader does; every frame that is taken lies within the bytes and its caps, and written again gives the
 * same bytes. A frame that waits for more must not turn into another one when more arrives. */
#include "tests/fuzz/fuzz.h"
#include "wire/local.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size == 0)
                return 0;
        size_t max = data[0] < 128 ? data[0] : LOCAL_ANSWER_MAX, at = 0;
        data++;
        size--;
        while (at < size) {
                _cleanup_buf_ struct buf again = {.max = LOCAL_ANSWER_MAX + LOCAL_HEAD};
                enum local_kind kind;
                const uint8_t *payload;
                size_t payload_size;
                ssize_t n = local_next(data + at, size - at, max, &kind, &payload, &payload_size);

                if (n <= 0) {
                        assert(n == 0 || n == -EBADMSG || n == -EMSGSIZE);
                        return 0;
                }
                assert((size_t)n <= size - at && payload == data + at + LOCAL_HEAD);
                assert(payload_size == (size_t)n - LOCAL_HEAD && payload_size <= max);
                local_put(&again, kind, payload, payload_size);
                assert(buf_ok(&again) && again.size == (size_t)n && memcmp(again.data, data + at, again.size) == 0);
                for (size_t i = 0; i < LOCAL_HEAD; i++)
                        assert(local_next(data + at, i, max, &kind, &payload, &payload_size) == 0);
                if (payload_size > 0)
                        assert(local_next(data + at, (size_t)n - 1, max, &kind, &payload, &payload_size) == 0);
                at += (size_t)n;
        }
        return 0;
}
