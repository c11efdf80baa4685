/* Fuzz target: what a gate, captured perhaps, says to its keeper. A message that gate_read accepts prints, and has one
 * form only: sent again it is the same bytes. */
#include <sys/socket.h>

#include "tests/fuzz/fuzz.h"
#include "wire/gate.h"

static void check_text(const char *text, size_t room) {
        size_t n = text ? strnlen(text, room) : 0;

        assert(n < room);
        for (size_t i = 0; i < n; i++)
                assert(text[i] >= 0x20 && text[i] < 0x7f);
}

static void check_sent_again(const struct gate_message *m, const uint8_t *data, size_t size) {
        static int ends[2] = {-1, -1};
        static uint8_t packet[GATE_PACKET_MAX];

        if (m->kind == GATE_ADD || m->kind == GATE_AUTHORITY)
                return; /* come with descriptors */
        if (ends[0] < 0)
                assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        assert(gate_send(ends[0], m, NULL, 0) == 0);
        assert(recv(ends[1], packet, sizeof packet, MSG_DONTWAIT) == (ssize_t)size);
        assert(memcmp(packet, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct gate_message m;
        char hint[1024];

        if (size > GATE_PACKET_MAX || gate_read(data, size, &m) < 0)
                return 0;
        assert(m.ward < GATE_WARDS_MAX && m.value_size <= GATE_SECRET_MAX && m.rules_size <= RULES_MAX_SIZE);
        check_text(m.name, GATE_NAME_SIZE);
        check_text(m.holder, GATE_HOLDER_SIZE);
        check_text(m.text, GATE_TEXT_SIZE);
        check_text(m.event.host, sizeof m.event.host);
        check_text(m.event.method, sizeof m.event.method);
        check_text(m.event.path, sizeof m.event.path);
        check_text(m.event.detail, sizeof m.event.detail);
        gate_hint(&m.event, hint, sizeof hint);
        check_text(hint, sizeof hint);
        assert(gate_reason_text(m.event.reason)[0]);
        check_sent_again(&m, data, size);
        return 0;
}
