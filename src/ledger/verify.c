/* Verifying: every line of every segment, in order, up to what the writer said was durable.
 *
 * Believes nothing but what it was told by the caller (ledger_expect): names of segments, numbers, links, hashes,
 * roots, signatures and the head have to agree. Stops at the first thing that does not, and names it. */
#include "ledger/verify.h"

#include "ledger/head.h"
#include "ledger/segment.h"

#include <stdarg.h>
#include <sys/stat.h>

#include "base/fd.h"

struct verify {
        struct chain chain;
        const struct ledger_expect *expect;
        bool met; /* the expected event was there */
        int (*each)(void *data, const struct line *line, const struct chain *chain);
        void *data;
        struct ledger_verdict *verdict;
        struct err *err;
};

/* Fills the verdict's blame and the sentence. */
static int _printf_(3, 4) broken(struct verify *v, uint64_t seq, const char *format, ...) {
        va_list args;

        va_start(args, format);
        (void)vsnprintf(v->verdict->what, sizeof v->verdict->what, format, args);
        va_end(args);
        v->verdict->broken_seq = MAX(seq, (uint64_t)1);
        return err_set(v->err, ERR_CORRUPT, "the ledger is broken at event %llu%s%s: %s", (unsigned long long)seq,
                       v->verdict->segment[0] ? " in " : "", v->verdict->segment, v->verdict->what);
}

static int take(struct verify *v, const char *text, size_t size) {
        const struct ledger_expect *x = v->expect;
        struct line line;

        if (chain_take(&v->chain, text, size, &line) < 0)
                return broken(v, v->chain.seq + 1, "%s", v->chain.what);
        if (x && x->seq == line.seq) {
                v->met = true;
                if (memcmp(x->hash, v->chain.raw, HASH_SIZE) != 0)
                        return broken(v, line.seq, "its hash is not the one that was expected");
        }
        if (v->chain.checkpoint == line.seq && x && x->key[0]) {
                char key[LEDGER_KEY_TEXT];

                keys_fingerprint(&v->chain.keys, key);
                if (!str_eq(key, x->key))
                        return broken(v, line.seq, "the checkpoint was signed with other keys than expected");
        }
        v->verdict->events++;
        return v->each ? v->each(v->data, &line, &v->chain) : 0;
}

/* All lines of a file up to end. *ret_whole is where the last whole line ends. */
static int take_lines(struct verify *v, int fd, uint64_t end, uint64_t *ret_whole) {
        _cleanup_(segment_lines_free) struct segment_lines s = {0};
        const char *text;
        size_t size;
        int r = segment_lines_open(&s, fd, 0, end, SEGMENT_WHOLE);

        if (r < 0)
                return err_set(v->err, r, "cannot verify the ledger");
        while ((r = segment_lines_next(&s, &text, &size)) == 1) {
                r = take(v, text, size);
                if (r < 0)
                        return r;
        }
        if (r == ERR_CORRUPT)
                return broken(v, v->chain.seq + 1, "the line is longer than an event can be");
        if (r < 0)
                return err_set(v->err, r, "cannot read segment '%s'", v->verdict->segment);
        *ret_whole = s.place;
        return 0;
}

static void conclude(struct verify *v) {
        struct ledger_verdict *d = v->verdict;

        d->last_seq = v->chain.seq;
        d->checkpoints = v->chain.checkpoints;
        d->unsigned_events = v->chain.seq - v->chain.checkpoint;
        (void)snprintf(d->last_hash, sizeof d->last_hash, "%.*s", LINE_HEX, v->chain.hash);
        if (v->chain.have_keys)
                keys_fingerprint(&v->chain.keys, d->key);
}

/* The whole: expectations that were not met, last. */
static int finish(struct verify *v, int r) {
        const struct ledger_expect *x = v->expect;

        conclude(v);
        if (r < 0 || !x)
                return r;
        if (x->seq > 0 && !v->met)
                return broken(v, v->chain.seq + 1, "it ends at event %llu, but event %llu was expected to be there",
                              (unsigned long long)v->chain.seq, (unsigned long long)x->seq);
        if (x->key[0] && !v->chain.have_keys)
                return broken(v, v->chain.seq, "there is no checkpoint that could be signed with the expected keys");
        return 0;
}

static int verify_segment(struct verify *v, int dir, uint64_t first, const struct head *head) {
        uint64_t end, whole = 0;
        struct stat st;

        segment_name(first, v->verdict->segment);
        if (first != v->chain.seq + 1) {
                if (first > v->chain.seq + 1)
                        return broken(v, v->chain.seq + 1, "a segment is missing: the next one begins at event %llu",
                                      (unsigned long long)first);
                return broken(v, v->chain.seq + 1, "a segment begins at event %llu, which was there already",
                              (unsigned long long)first);
        }
        _cleanup_fd_ int fd = segment_open(dir, first, v->err);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return err_set(v->err, -errno, "cannot read segment '%s'", v->verdict->segment);
        bool last = first == head->segment;
        end = last ? head->size : (uint64_t)st.st_size;
        if (last && (uint64_t)st.st_size < end)
                end = (uint64_t)st.st_size;
        int r = take_lines(v, fd, end, &whole);
        if (r < 0)
                return r;
        if (last) {
                v->verdict->beyond = (uint64_t)st.st_size - end;
                if (whole < head->size || v->chain.seq < head->seq)
                        return broken(v, v->chain.seq + 1, "the end is missing: the ledger had %llu events",
                                      (unsigned long long)head->seq);
                if (v->chain.seq != head->seq || memcmp(v->chain.raw, head->hash, HASH_SIZE) != 0)
                        return broken(v, v->chain.seq,
                                      "the last event is not the one that the file '" HEAD_FILE "' names");
                return 0;
        }
        if (whole < end)
                return broken(v, v->chain.seq + 1, "the segment ends in the middle of a line");
        if (v->chain.checkpoint != v->chain.seq)
                return broken(v, v->chain.seq + 1,
                              "the end of a segment is missing: it does not end with a checkpoint");
        return 0;
}

static int verify_all(struct verify *v, int dir) {
        _cleanup_(segment_list_free) struct segment_list list = {0};
        _cleanup_fd_ int head_fd = -EBADF;
        struct head head;

        int r = head_open(dir, false, &head_fd, v->err);
        if (r == -ENOENT) {
                r = segment_list(dir, &list, v->err);
                if (r == 0 && list.count == 0) {
                        (void)err_set(v->err, -ENOENT, "there is no ledger in this folder");
                        return err_hint(v->err, "name the folder that has the files NUMBER" SEGMENT_SUFFIX
                                                ": `stockade ledger verify DIR`");
                }
                return r < 0 ? r
                             : broken(v, 1, "the file '" HEAD_FILE "', which says where the ledger ends, is missing");
        }
        if (r == 0)
                r = head_read(head_fd, &head, v->err);
        if (r == ERR_CORRUPT)
                return broken(v, 1, "the file '" HEAD_FILE "', which says where the ledger ends, is damaged");
        if (r == 0)
                r = segment_list(dir, &list, v->err);
        if (r < 0)
                return r;
        size_t i = 0;
        for (; i < list.count && list.first[i] <= head.segment; i++) {
                r = verify_segment(v, dir, list.first[i], &head);
                if (r < 0)
                        return r;
        }
        v->verdict->segment[0] = '\0';
        if (v->chain.seq < head.seq)
                return broken(v, v->chain.seq + 1, "the end is missing: the ledger had %llu events",
                              (unsigned long long)head.seq);
        return 0;
}

int verify_walk(int dir, const struct ledger_expect *expect,
                int (*each)(void *data, const struct line *line, const struct chain *chain), void *data,
                struct ledger_verdict *ret, struct err *err) {
        struct verify v = {.expect = expect, .each = each, .data = data, .verdict = ret, .err = err};

        *ret = (struct ledger_verdict){.first_seq = 1};
        chain_begin(&v.chain);
        int r = finish(&v, verify_all(&v, dir));
        if (ret->events == 0)
                ret->first_seq = 0;
        return r;
}

int ledger_verify_expect(int dir, const struct ledger_expect *expect, struct ledger_verdict *ret, struct err *err) {
        return verify_walk(dir, expect, NULL, NULL, ret, err);
}

int ledger_verify(int dir, struct ledger_verdict *ret, struct err *err) {
        return ledger_verify_expect(dir, NULL, ret, err);
}

int ledger_verify_segment(int file, const char *label, const struct ledger_expect *expect, struct ledger_verdict *ret,
                          struct err *err) {
        _cleanup_(segment_lines_free) struct segment_lines s = {0};
        struct verify v = {.expect = expect, .verdict = ret, .err = err};
        struct line line;
        const char *text;
        size_t size;
        uint64_t whole = 0;

        *ret = (struct ledger_verdict){0};
        (void)snprintf(ret->segment, sizeof ret->segment, "%s", label);
        chain_begin(&v.chain);
        int r = segment_lines_open(&s, file, 0, UINT64_MAX, SEGMENT_FEW);
        if (r == 0)
                r = segment_lines_next(&s, &text, &size);
        if (r < 0 && r != ERR_CORRUPT)
                return err_set(err, r, "cannot read '%s'", label);
        if (r != 1 || line_parse(text, size, &line) < 0)
                return finish(&v, broken(&v, 1, "the file does not begin with an event in canonical form"));
        chain_begin_at(&v.chain, &line);
        ret->first_seq = line.seq;
        r = take_lines(&v, file, UINT64_MAX, &whole);
        if (r == 0) {
                struct stat st;

                if (fstat(file, &st) == 0 && (uint64_t)st.st_size > whole)
                        ret->beyond = (uint64_t)st.st_size - whole;
        }
        return finish(&v, r);
}
