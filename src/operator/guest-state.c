/* Judging what a guest says. Requests are a table: what each kind may be answered with. Every switch over a frame
 * defaults to a breach. */
#include "operator/guest-state.h"

#define SMALL_PAYLOAD (3 * GUEST_PATH_MAX + 512) /* texts and numbers */
#define DATA_PAYLOAD  (GUEST_DATA_MAX + 64)
#define WORTH         (GUEST_WINDOW / 2) /* credit below this is not worth a frame */

enum {
        DATA_IN = 1 << 0,  /* the guest sends DATA */
        DATA_OUT = 1 << 1, /* we do */
        OPENS = 1 << 2,    /* OPENED comes before anything else */
        FINISHES = 1 << 3, /* the guest says FINISH */
        BULK = 1 << 4,     /* of its DATA more may be under way, if it knows that we say so */
};

static const struct answers {
        enum guest_kind kind;
        enum guest_kind item; /* 0: none */
        unsigned flags;
        uint32_t most; /* items: they need no credit, and whoever asked keeps something for each */
} table[] = {
        {GUEST_LIST_RUNS, GUEST_RUN, 0, GUEST_RUNS_MAX},
        {GUEST_STAT, GUEST_ENTRY, 0, 1},
        {GUEST_LIST, GUEST_ENTRY, 0, 1U << 20},
        {GUEST_READ, 0, DATA_IN | BULK, 0},
        {GUEST_WRITE, 0, DATA_OUT, 0},
        {GUEST_WRITE_IF, 0, DATA_OUT, 0},
        {GUEST_MKDIR, 0, 0, 0},
        {GUEST_MOVE, 0, 0, 0},
        {GUEST_REMOVE, 0, 0, 0},
        {GUEST_TAR_OUT, 0, DATA_IN | BULK, 0},
        {GUEST_TAR_IN, 0, DATA_OUT, 0},
        {GUEST_WATCH, GUEST_CHANGE, OPENS, UINT32_MAX},
        {GUEST_CONNECT, 0, DATA_IN | DATA_OUT | OPENS | FINISHES, 0},
        {GUEST_PROCESSES, GUEST_PROCESS, 0, 1U << 16},
        {GUEST_USAGE, 0, 0, 0},
        {GUEST_LEAF_END, 0, 0, 0},
};

static const struct answers *answers_of(enum guest_kind kind) {
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (table[i].kind == kind)
                        return &table[i];
        return NULL;
}

uint32_t guest_state_payload_max(uint16_t kind) {
        switch (kind) {
        case GUEST_DATA:
        case GUEST_OUTPUT:
                return DATA_PAYLOAD;
        case GUEST_HELLO:
        case GUEST_CREDIT:
        case GUEST_FINISH:
        case GUEST_STARTED:
        case GUEST_EXITED:
        case GUEST_RUN:
        case GUEST_ENTRY:
        case GUEST_CHANGE:
        case GUEST_OPENED:
        case GUEST_PROCESS:
        case GUEST_END:
                return SMALL_PAYLOAD;
        default:
                return 0;
        }
}

void guest_state_free(struct guest_state *s) {
        free(s->runs);
        free(s->requests);
        *s = (struct guest_state){0};
}

static enum guest_verdict breach(struct guest_place *p, const char *why) {
        p->why = why;
        return GUEST_BREACH;
}

/* --- runs: an array in the order of their numbers, which mostly grow --- */

static size_t run_index(const struct guest_state *s, uint32_t number) {
        size_t low = 0, high = s->run_count;

        while (low < high) {
                size_t middle = (low + high) / 2;
                if (s->runs[middle].number < number)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct guest_run_state *guest_state_run(struct guest_state *s, uint32_t run) {
        size_t i = run_index(s, run);

        return i < s->run_count && s->runs[i].number == run ? &s->runs[i] : NULL;
}

static int run_add(struct guest_state *s, uint32_t number, struct guest_run_state **ret) {
        size_t at = run_index(s, number);

        if (s->run_count >= GUEST_RUNS_MAX)
                return -ENOMEM;
        if (s->run_count == s->run_room) {
                size_t room = s->run_room ? 2 * s->run_room : 2;
                struct guest_run_state *r = reallocarray(s->runs, room, sizeof *r);

                if (!r)
                        return -ENOMEM;
                s->runs = r;
                s->run_room = room;
        }
        memmove(s->runs + at + 1, s->runs + at, (s->run_count - at) * sizeof *s->runs);
        s->run_count++;
        s->runs[at] = (struct guest_run_state){.number = number};
        s->highest = MAX(s->highest, number);
        *ret = &s->runs[at];
        return 0;
}

int guest_state_exec(struct guest_state *s, uint32_t run, uint32_t flags) {
        struct guest_run_state *r;

        if (run == 0 || run <= s->highest) /* also one that was forgotten: its frames could not be told apart */
                return -EEXIST;
        int e = run_add(s, run, &r);
        if (e < 0)
                return e;
        r->terminal = flags & GUEST_TERMINAL;
        r->input = flags & (GUEST_TERMINAL | GUEST_STDIN);
        for (unsigned i = 0; i < GUEST_STREAMS; i++) {
                r->out[i].attached = (i == GUEST_TTY) == r->terminal;
                r->out[i].end = UINT64_MAX;
        }
        s->unstarted++;
        return 0;
}

int guest_state_attach(struct guest_state *s, const struct guest_message *m, const uint64_t offsets[GUEST_STREAMS]) {
        struct guest_run_state *r = guest_state_run(s, m->run);

        if (!r) {
                int e = m->run == 0 ? -EINVAL : run_add(s, m->run, &r);
                if (e < 0)
                        return e;
                r->terminal = m->flags & GUEST_TERMINAL;
                r->input = m->flags & (GUEST_TERMINAL | GUEST_STDIN);
                r->started = true;
                r->in_sent = m->offset;
                r->in_taken = MAX(m->length, m->offset - MIN(m->offset, (uint64_t)GUEST_WINDOW));
                for (unsigned i = 0; i < GUEST_STREAMS; i++) /* of one that ended long ago, EXITED comes all the same */
                        r->out[i].end = UINT64_MAX;
        }
        for (unsigned i = 0; i < GUEST_STREAMS; i++) {
                struct guest_run_stream *o = &r->out[i];

                if (offsets[i] == UINT64_MAX || (i == GUEST_TTY) != r->terminal)
                        continue;
                if (!o->attached)
                        o->next = o->confirmed = offsets[i];
                o->asked = offsets[i];
                o->attached = o->jump = true;
        }
        return 0;
}

void guest_state_forget(struct guest_state *s, uint32_t run) {
        struct guest_run_state *r = guest_state_run(s, run);

        if (!r)
                return;
        if (!r->started)
                s->unstarted--;
        size_t at = (size_t)(r - s->runs);
        s->run_count--;
        memmove(r, r + 1, (s->run_count - at) * sizeof *r);
}

bool guest_state_confirm(struct guest_run_state *r, enum guest_stream stream, uint64_t offset, uint64_t *ret_offset) {
        if (stream >= GUEST_STREAMS)
                return false;
        struct guest_run_stream *o = &r->out[stream];
        offset = MIN(offset, o->next); /* what has not come cannot have been dealt with */
        if (offset <= o->confirmed || offset - o->confirmed < WORTH)
                return false;
        *ret_offset = o->confirmed = offset;
        return true;
}

size_t guest_state_input_room(const struct guest_run_state *r) {
        return r->input && !r->exited ? (size_t)(GUEST_WINDOW - (r->in_sent - r->in_taken)) : 0;
}

static enum guest_verdict take_output(struct guest_run_state *r, const struct guest_message *m, struct guest_place *p) {
        struct guest_run_stream *o = m->stream < GUEST_STREAMS ? &r->out[m->stream] : NULL;
        uint64_t end;

        if (!o || !o->attached)
                return breach(p, "it sent output of a stream that was not asked for");
        if (m->data_size == 0 || __builtin_add_overflow(m->offset, m->data_size, &end))
                return breach(p, "it sent output without bytes, or past the end of numbers");
        if (m->offset != o->next) {
                if (!o->jump || m->offset < o->asked)
                        return breach(p, "it sent output with a gap, or twice");
                o->jump = false;
                o->confirmed = m->offset;
        }
        if (end - o->confirmed > GUEST_WINDOW)
                return breach(p, "it sent more output than it had credit for");
        if (end > o->end)
                return breach(p, "it sent output of a run behind its end");
        o->next = end;
        return GUEST_PASS;
}

static enum guest_verdict take_exited(struct guest_state *s, struct guest_run_state *r, const struct guest_message *m,
                                      struct guest_place *p) {
        if (r->exited)
                return breach(p, "it ended a run twice");
        for (unsigned i = 0; i < GUEST_STREAMS; i++) {
                if (r->out[i].attached && !r->out[i].jump && m->newest[i] < r->out[i].next)
                        return breach(p, "it ended a run before its own output");
                if (!(m->flags & GUEST_OPEN))
                        r->out[i].end = MAX(m->newest[i], r->out[i].next);
        }
        r->exited = true;
        if (!r->started)
                s->unstarted--;
        r->started = true;
        return GUEST_PASS;
}

static enum guest_verdict take_run(struct guest_state *s, const struct guest_message *m, struct guest_place *p) {
        struct guest_run_state *r = p->run = guest_state_run(s, m->channel);

        if (!r && m->kind == GUEST_OUTPUT && m->channel > s->highest)
                return breach(p, "it sent output of a run that nobody started");
        if (!r)
                return GUEST_DROP;
        switch ((int)m->kind) {
        case GUEST_STARTED:
                if (r->started || m->number <= 0)
                        return breach(p, "it began a run twice");
                r->started = true;
                s->unstarted--;
                return GUEST_PASS;
        case GUEST_OUTPUT:
                return take_output(r, m, p);
        case GUEST_EXITED:
                return take_exited(s, r, m, p);
        case GUEST_CREDIT:
                if (m->stream != GUEST_IN || m->offset < r->in_taken || m->offset > r->in_sent)
                        return breach(p, "it gave credit for input that was never sent");
                r->in_taken = m->offset;
                return GUEST_PASS;
        default:
                return breach(p, "it sent a frame that only we send");
        }
}

/* --- requests: a channel is a place in the table and how often it was used --- */

struct guest_request_state *guest_state_request(struct guest_state *s, uint32_t channel) {
        struct guest_request_state *r = s->requests ? &s->requests[channel % GUEST_REQUESTS_MAX] : NULL;

        return r && r->busy && r->uses == channel / GUEST_REQUESTS_MAX ? r : NULL;
}

uint32_t guest_state_ask(struct guest_state *s, const struct guest_message *m, struct guest_request *owner) {
        if (!answers_of(m->kind))
                return 0;
        if (!s->requests)
                s->requests = calloc(GUEST_REQUESTS_MAX, sizeof *s->requests);
        for (uint32_t i = 0; s->requests && i < GUEST_REQUESTS_MAX; i++) {
                struct guest_request_state *r = &s->requests[i];

                if (r->busy)
                        continue;
                uint32_t uses = r->uses + 1;
                if (uses > UINT32_MAX / GUEST_REQUESTS_MAX)
                        uses = 1;
                *r = (struct guest_request_state){.uses = uses, .busy = true, .kind = m->kind, .owner = owner};
                r->most = m->kind == GUEST_READ ? m->length : UINT64_MAX;
                return uses * GUEST_REQUESTS_MAX + i;
        }
        return 0;
}

void guest_state_end(struct guest_request_state *r) {
        r->busy = false;
        r->owner = NULL;
}

bool guest_state_sends_data(const struct guest_request_state *r) {
        const struct answers *a = answers_of(r->kind);

        return a && a->flags & DATA_OUT;
}

bool guest_state_confirm_data(struct guest_request_state *r, uint64_t *ret_offset) {
        if (r->received - r->confirmed < WORTH)
                return false;
        *ret_offset = r->confirmed = r->received;
        return true;
}

size_t guest_state_data_room(const struct guest_request_state *r) {
        return (size_t)(GUEST_WINDOW - (r->sent - r->taken));
}

static enum guest_verdict take_data(struct guest_request_state *r, const struct guest_message *m,
                                    const struct answers *a, struct guest_place *p) {
        if (!(a->flags & DATA_IN) || r->finished || (a->flags & OPENS && !r->opened))
                return breach(p, "it sent data that were not asked for");
        if (m->data_size == 0 ||
            m->data_size > (a->flags & BULK ? GUEST_BULK_WINDOW : GUEST_WINDOW) - (r->received - r->confirmed))
                return breach(p, "it sent more data than it had credit for");
        if (m->data_size > r->most - r->received)
                return breach(p, "it sent more data than were asked for");
        r->received += m->data_size;
        return GUEST_PASS;
}

static enum guest_verdict take_answer(struct guest_state *s, const struct guest_message *m, struct guest_place *p) {
        struct guest_request_state *r = p->request = guest_state_request(s, m->channel);
        const struct answers *a = r ? answers_of(r->kind) : NULL;
        enum guest_verdict v = GUEST_PASS;

        if (!a)
                return breach(p, "it answered what nobody asked");
        switch ((int)m->kind) {
        case GUEST_DATA:
                v = take_data(r, m, a, p);
                break;
        case GUEST_CREDIT:
                if (!(a->flags & DATA_OUT) || m->offset < r->taken || m->offset > r->sent)
                        return breach(p, "it gave credit for data that were never sent");
                r->taken = m->offset;
                break;
        case GUEST_OPENED:
                if (!(a->flags & OPENS) || r->opened)
                        return breach(p, "it opened what was not to be opened, or twice");
                r->opened = true;
                break;
        case GUEST_FINISH:
                if (!(a->flags & FINISHES) || !r->opened || r->finished)
                        return breach(p, "it finished what was not open");
                r->finished = true;
                break;
        case GUEST_RUN:
        case GUEST_ENTRY:
        case GUEST_CHANGE:
        case GUEST_PROCESS:
                if (m->kind != a->item || (a->flags & OPENS && !r->opened))
                        return breach(p, "its answer does not fit the question");
                if (r->items >= a->most && a->most < UINT32_MAX)
                        return breach(p, "its answer has more parts than there can be");
                r->items += r->items < UINT32_MAX;
                break;
        case GUEST_END:
                break;
        default:
                return breach(p, "it sent a frame that only we send");
        }
        return v == GUEST_PASS && !r->owner && m->kind != GUEST_END ? GUEST_DROP : v;
}

enum guest_verdict guest_state_take(struct guest_state *s, const struct guest_message *m, struct guest_place *ret) {
        *ret = (struct guest_place){0};
        if (m->kind == GUEST_HELLO) {
                if (s->hello)
                        return breach(ret, "it said hello twice");
                if (m->version == 0)
                        return breach(ret, "its hello has no version");
                s->hello = true;
                s->version = m->version;
                s->features = m->features;
                return GUEST_PASS;
        }
        if (!s->hello)
                return breach(ret, "it did not say hello first");
        if (m->kind == GUEST_STARTED || m->kind == GUEST_OUTPUT || m->kind == GUEST_EXITED ||
            (m->kind == GUEST_CREDIT && m->stream != GUEST_OF_REQUEST))
                return take_run(s, m, ret);
        return take_answer(s, m, ret);
}
