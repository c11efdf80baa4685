/* Fuzz target: a whole conversation from a guest, frame after frame, judged by the operator. Runs and requests of every
 * kind are open. Whatever it says, windows hold, a request ends once, and nothing passes that was not asked for. */
#include "operator/guest-state.h"
#include "tests/fuzz/fuzz.h"

static const enum guest_kind kinds[] = {GUEST_LIST_RUNS, GUEST_STAT,    GUEST_LIST,      GUEST_READ,    GUEST_WRITE,
                                        GUEST_MKDIR,     GUEST_MOVE,    GUEST_REMOVE,    GUEST_TAR_OUT, GUEST_TAR_IN,
                                        GUEST_WATCH,     GUEST_CONNECT, GUEST_PROCESSES, GUEST_USAGE};

static void prepare(struct guest_state *s) {
        const uint64_t offsets[GUEST_STREAMS] = {100, UINT64_MAX, UINT64_MAX};
        const struct guest_message run = {.run = 3, .flags = GUEST_STDIN, .offset = 20, .length = 10};

        assert(guest_state_exec(s, 1, 0) == 0 && guest_state_exec(s, 2, GUEST_TERMINAL) == 0);
        assert(guest_state_attach(s, &run, offsets) == 0);
        guest_state_run(s, 2)->in_sent = 1000;
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                struct guest_message m = {.kind = kinds[i], .length = 5000};
                uint32_t channel = guest_state_ask(s, &m, (struct guest_request *)(void *)s);

                assert(channel == GUEST_REQUESTS_MAX + i); /* as the corpus has them */
                if (i % 2)
                        guest_state_request(s, channel)->owner = NULL; /* cancelled */
                if (guest_state_sends_data(guest_state_request(s, channel)))
                        guest_state_request(s, channel)->sent = 1000;
        }
}

static void check(struct guest_state *s) {
        unsigned waiting = 0;

        for (size_t i = 0; i < s->run_count; i++) {
                struct guest_run_state *r = &s->runs[i];

                waiting += !r->started;
                assert(i == 0 || s->runs[i - 1].number < r->number);
                assert(r->in_taken <= r->in_sent && r->in_sent - r->in_taken <= GUEST_WINDOW);
                for (unsigned k = 0; k < GUEST_STREAMS; k++)
                        assert(r->out[k].next - r->out[k].confirmed <= GUEST_WINDOW && r->out[k].next <= r->out[k].end);
        }
        assert(s->unstarted == waiting);
        for (size_t i = 0; i < GUEST_REQUESTS_MAX; i++) {
                struct guest_request_state *r = &s->requests[i];

                assert(r->received - r->confirmed <= GUEST_WINDOW && r->received <= r->most && r->taken <= r->sent);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct guest_state s = {0};
        struct guest_message m;
        struct guest_place at;
        uint64_t offset;

        prepare(&s);
        for (unsigned n = 0; size >= GUEST_HEAD; n++) {
                uint32_t payload, channel;
                uint16_t kind;

                if (guest_head(data, &payload, &kind, &channel) < 0 || payload > guest_state_payload_max(kind) ||
                    payload > size - GUEST_HEAD || guest_read(data, GUEST_HEAD + payload, &m) < 0)
                        break;
                enum guest_verdict v = guest_state_take(&s, &m, &at);
                if (v == GUEST_BREACH) {
                        assert(at.why && at.why[0]);
                        break;
                }
                check(&s);
                if (v == GUEST_PASS && m.kind != GUEST_HELLO) {
                        assert(s.hello && !at.run != !at.request &&
                               (!at.request || m.kind == GUEST_END || at.request->owner));
                        if (m.kind == GUEST_END)
                                guest_state_end(at.request);
                        if (m.kind == GUEST_OUTPUT && n % 2)
                                (void)guest_state_confirm(at.run, m.stream, m.offset + m.data_size, &offset);
                        if (m.kind == GUEST_DATA && n % 2)
                                (void)guest_state_confirm_data(at.request, &offset);
                }
                data += GUEST_HEAD + payload;
                size -= GUEST_HEAD + payload;
        }
        guest_state_free(&s);
        return 0;
}
