/* Fuzz target: lines, segments and the head of a ledger, as a disk or a hostile hand may have left them. The input is a
 * segment. Every line that is taken has one form; with prev and hash put right, for nobody guesses those, the lines are
 * followed as far as they go, checkpoints included; no changed line is ever taken. The same bytes are also read as a
 * file, searched, and taken for a head. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "ledger/chain.h"
#include "ledger/head.h"
#include "ledger/segment.h"
#include "tests/fuzz/fuzz.h"

/* From its parts, the same bytes. */
static void assert_one_form(const struct line *l) {
        _cleanup_buf_ struct buf again = {0};

        buf_printf(
                &again,
                "{\"seq\":%llu,\"time\":\"%.*s\",\"sandbox\":\"%.*s\",\"actor\":\"%.*s\",\"kind\":\"%.*s\",\"data\":",
                (unsigned long long)l->seq, LINE_TIME, l->time, (int)l->sandbox.size, l->sandbox.p, (int)l->actor.size,
                l->actor.p, (int)l->kind.size, l->kind.p);
        buf_add(&again, l->data.p, l->data.size);
        buf_printf(&again, ",\"prev\":\"%.*s\",\"hash\":\"%.*s\"}", LINE_HEX, l->prev, LINE_HEX, l->hash);
        assert(buf_ok(&again) && again.size == l->size && memcmp(again.data, l->text, l->size) == 0);
        assert(l->sandbox.size <= LINE_SANDBOX_MAX && l->actor.size <= LEDGER_ACTOR_MAX &&
               l->kind.size <= LINE_KIND_MAX);
        assert(l->data.size <= LEDGER_DATA_MAX && l->size < LINE_BYTES_MAX);
}

/* The line with the predecessor and hash that it ought to have. */
static void put_right(char *text, const struct line *l, const struct chain *c) {
        uint8_t hash[HASH_SIZE];

        memcpy(text + (l->prev - l->text), c->hash, LINE_HEX);
        struct line changed = *l;
        changed.text = text;
        line_hash(&changed, hash);
        line_hex(hash, sizeof hash, text + (l->hash - l->text));
}

static void follow(struct chain *c, const char *text, size_t size) {
        static char copy[LINE_BYTES_MAX];
        struct line l, taken;

        if (line_parse(text, size, &l) < 0)
                return;
        assert_one_form(&l);
        if (c->seq == 0)
                chain_begin_at(c, &l);
        memcpy(copy, text, size);
        put_right(copy, &l, c);
        uint64_t before = c->seq;
        if (chain_take(c, copy, size, &taken) < 0) {
                assert(c->what[0] && c->seq == before);
                return;
        }
        assert(c->seq == before + 1 && taken.seq == c->seq && c->tree.count > 0);
        copy[size / 2] ^= 1; /* the next in line, and not what it was */
        struct chain other = *c;
        other.seq = before;
        assert(chain_take(&other, copy, size, &taken) < 0);
}

static void as_a_file(const uint8_t *data, size_t size) {
        _cleanup_fd_ int fd = memfd_create("segment", MFD_CLOEXEC);
        struct ledger_verdict v;
        struct err err = {0};
        uint64_t at;

        assert(fd >= 0 && fd_write_full(fd, data, size) == 0);
        int r = ledger_verify_segment(fd, "fuzz", NULL, &v, &err);
        assert(r == 0 ? v.events > 0 && v.broken_seq == 0
                      : r == ERR_CORRUPT && v.broken_seq > 0 && v.what[0] && err.text[0]);
        r = segment_seek(fd, size, 3, &at);
        assert(r == ERR_CORRUPT || (r == 0 && at <= size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *)data, *end = text + size;
        struct chain chain;
        struct head head;

        chain_begin(&chain);
        for (const char *line = text; line < end;) {
                const char *newline = memchr(line, '\n', (size_t)(end - line));
                if (!newline)
                        break;
                follow(&chain, line, (size_t)(newline - line));
                line = newline + 1;
        }
        as_a_file(data, size);
        (void)head_parse(text, size, &head);
        return 0;
}
