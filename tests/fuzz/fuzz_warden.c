/* Fuzz target: what an operator, captured perhaps, says to the warden. A message that warden_read accepts has ids that
 * are ids, texts that print, and one form only: sent again it is the same bytes. */
#include <sys/socket.h>

#include "base/text.h"
#include "tests/fuzz/fuzz.h"
#include "wire/packet.h"
#include "wire/warden.h"

static void check_id(const char *id) {
        assert(!id[0] || warden_is_id(id));
}

static void check_text(const char *text) {
        char clean[WARDEN_TEXT_SIZE];

        assert(strlen(text) < WARDEN_TEXT_SIZE);
        text_escape(clean, sizeof clean, text);
        assert(strcmp(clean, text) == 0);
}

static void check_sent_again(const struct warden_message *m, const uint8_t *data, size_t size) {
        static const int fds[WARDEN_FDS_MAX];
        static int ends[2] = {-1, -1};
        static uint8_t packet[WARDEN_PACKET_MAX];
        int arrived[PACKET_FDS_MAX];
        size_t count = 0;
        int r = -EINVAL;

        if (ends[0] < 0)
                assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        for (size_t n = 0; n <= 4 && r == -EINVAL; n++)
                r = warden_send(ends[0], m, fds, n);
        assert(r == 0);
        assert(packet_receive(ends[1], packet, sizeof packet, arrived, PACKET_FDS_MAX, &count) == (ssize_t)size);
        packet_close(arrived, count);
        assert(memcmp(packet, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct warden_message m;

        if (size > WARDEN_PACKET_MAX || warden_read(data, size, &m) < 0)
                return 0;
        check_id(m.id);
        check_id(m.target);
        check_id(m.disk);
        check_id(m.image);
        assert(m.layer_count <= WARDEN_LAYERS_MAX && m.split <= WARDEN_LAYERS_MAX);
        for (uint32_t i = 0; i < m.layer_count; i++)
                assert(warden_is_id(m.layers[i]));
        assert(m.slot < WARDEN_GATES_MAX || m.kind == WARDEN_ITEM);
        check_text(m.text);
        check_text(m.hint);
        assert(warden_kind_name(m.kind)[0] != '?');
        check_sent_again(&m, data, size);
        return 0;
}
