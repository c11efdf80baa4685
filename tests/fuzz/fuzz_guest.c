/* Fuzz target: what a guest, which is never trusted, says to the operator, and the other way round. A frame that
 * guest_read accepts keeps every cap, and has one form only: written again it is the same bytes. */
#include "tests/fuzz/fuzz.h"
#include "wire/guest.h"

static void check_text(const char *text, size_t room, bool plain) {
        size_t n = strnlen(text, room);

        assert(n < room);
        for (size_t i = 0; plain && i < n; i++)
                assert((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *argv[GUEST_ARGS_MAX + 1], *envp[GUEST_ARGS_MAX + 1];
        _cleanup_buf_ struct buf again = {0};
        struct guest_message m;
        uint32_t payload, channel;
        uint16_t kind;

        if (size < GUEST_HEAD || guest_read(data, size, &m) < 0)
                return 0;
        assert(guest_head(data, &payload, &kind, &channel) == 0);
        assert(payload == size - GUEST_HEAD && kind == m.kind && channel == m.channel);
        assert(m.data_size <= GUEST_DATA_MAX && m.argc <= GUEST_ARGS_MAX && m.envc <= GUEST_ARGS_MAX);
        assert(m.fds <= GUEST_FDS_MAX && m.error <= 0 && (unsigned)m.stream <= GUEST_OF_REQUEST);
        check_text(m.path, GUEST_PATH_MAX, false);
        check_text(m.target, GUEST_PATH_MAX, false);
        check_text(m.text, GUEST_TEXT_MAX, true);
        if (m.kind == GUEST_EXEC)
                guest_strings(&m, argv, envp);
        guest_put(&again, &m, m.kind == GUEST_EXEC ? argv : NULL, m.kind == GUEST_EXEC ? envp : NULL);
        assert(buf_ok(&again) && again.size == size && memcmp(again.data, data, size) == 0);
        return 0;
}
