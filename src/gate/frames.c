/* Reading WebSocket frames and writing them anew.
 *
 * A head is a byte of flags and kind, a byte of length, and 2 or 8 more when the length does not fit. What we write has
 * at most OWN_MAX bytes of payload, so its head has 2 or 4 bytes. A part of a message that is held back whole gets no
 * frame. More comes out than went in by what was held before, and by two bytes for a frame of less than 126 bytes that
 * becomes one of more: it then has at least 126 bytes, so one byte in 64 covers it (FRAMES_MORE). */
#include "gate/frames.h"

enum { FINAL = 0x80, RESERVED = 0x70, KIND = 0x0f, CONTROL = 0x08, MASKED = 0x80, LENGTH = 0x7f };
enum { GOES_ON = 0, TEXT = 1, BYTES = 2, CLOSE = 8, PONG = 10 };
#define OWN_MAX 0xffff
#define ROOM    4 /* for a head */
static_assert(FRAMES_MORE >= FRAMES_PIECE / 64 + 16 * ROOM, "what heads may add");

static size_t head_size(const struct frames *f) {
        if (f->have < 2)
                return 2;
        unsigned length = f->head[1] & LENGTH;
        return length == 127 ? 10 : length == 126 ? 4 : 2;
}

static uint64_t payload_size(const struct frames *f) {
        size_t size = head_size(f);
        uint64_t value = 0;

        if (size == 2)
                return f->head[1] & LENGTH;
        for (size_t i = 2; i < size; i++)
                value = value << 8 | f->head[i];
        return value;
}

/* The head is there. False: no server sends such a one. */
static bool begin(struct frames *f) {
        unsigned kind = f->head[0] & KIND;

        f->left = payload_size(f);
        if ((f->head[0] & RESERVED) || (f->head[1] & MASKED) || f->left > INT64_MAX)
                return false;
        if (kind & CONTROL) {
                f->control_size = 0;
                return (f->head[0] & FINAL) && kind <= PONG && f->left <= sizeof f->control;
        }
        if (kind > BYTES || (kind == GOES_ON) != f->inside)
                return false;
        if (kind != GOES_ON)
                f->kind = (uint8_t)kind;
        f->inside = true;
        return true;
}

/* A frame of ours; its payload is at out + ROOM. Returns its size. */
static size_t put(uint8_t flags, uint8_t *out, size_t size) {
        size_t head = size < 126 ? 2 : 4;

        out[0] = flags;
        if (head == 2) {
                out[1] = (uint8_t)size;
                memmove(out + head, out + ROOM, size);
        } else {
                out[1] = 126;
                out[2] = (uint8_t)(size >> 8);
                out[3] = (uint8_t)size;
        }
        return head + size;
}

/* Payload of a message, of which `fresh` bytes stand behind what is held, at out + ROOM + r->held. */
static size_t message(struct frames *f, struct redact *r, uint8_t *out, size_t fresh, bool last) {
        size_t pass = redact_feed(r, out + ROOM, fresh, last);

        if (pass == 0 && !last)
                return 0;
        pass = put((uint8_t)(f->kind | (last ? FINAL : 0)), out, pass);
        f->kind = GOES_ON;
        return pass;
}

static size_t control(struct frames *f, struct redact *r, uint8_t *out) {
        redact_line(r, (char *)f->control, f->control_size);
        memcpy(out + ROOM, f->control, f->control_size);
        return put(f->head[0], out, f->control_size);
}

/* A part of a frame's payload, or, if it has none, its end. Returns how many bytes it was. */
static size_t payload(struct frames *f, struct redact *r, const uint8_t *in, size_t size, uint8_t *out, size_t *made) {
        bool of_control = f->head[0] & CONTROL;
        size_t n = (size_t)MIN((uint64_t)MIN(size, (size_t)OWN_MAX - r->held), f->left);

        f->left -= n;
        if (of_control) {
                memcpy(f->control + f->control_size, in, n);
                f->control_size = (uint8_t)(f->control_size + n);
        } else {
                bool last = f->left == 0 && (f->head[0] & FINAL);

                memcpy(out + *made + ROOM + r->held, in, n);
                *made += message(f, r, out + *made, n, last);
                if (last)
                        f->inside = false;
        }
        if (f->left > 0)
                return n;
        if (of_control)
                *made += control(f, r, out + *made);
        f->have = 0;
        return n;
}

bool frames_search(struct frames *f, struct redact *r, const uint8_t *in, size_t size, uint8_t *out, size_t *made) {
        *made = 0;
        for (size_t at = 0; at < size && !f->lost;) {
                if (f->have < head_size(f)) {
                        f->head[f->have++] = in[at++];
                        if (f->have < head_size(f))
                                continue;
                        f->lost = !begin(f);
                        if (f->lost || f->left > 0)
                                continue;
                }
                at += payload(f, r, in + at, size - at, out, made);
        }
        return !f->lost;
}

size_t frames_end(struct frames *f, struct redact *r, uint8_t *out) {
        size_t held = r->held, size = redact_feed(r, out + ROOM, 0, true);

        return held > 0 && !f->lost ? put(f->kind, out, size) : 0;
}
