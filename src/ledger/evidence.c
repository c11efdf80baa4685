/* Packing evidence: what concerns one sandbox or one run, with proofs, as one JSON object.
 *
 *   {"stockade_evidence":1,"sandbox":"…","run":0,"made":"…","intervals":[
 *   {"events":[
 *   "<a line of the ledger>",
 *   …],"proof":["<64 hex>",…],"checkpoint":"<the line of the checkpoint that covers them>"},
 *   …],"ledger":{"seq":N,"hash":"…"}}
 * Lines are strings, so that their bytes survive any program that reads and writes JSON. An interval is what one
 * checkpoint covers; the proof has the roots of the parts of its tree that none of the events are in (ledger/merkle.h).
 * The last interval's checkpoint is null when there is none yet.
 *
 * The ledger is walked once and verified on the way; memory is bounded by one interval. */
#include <time.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/json.h"
#include "ledger/segment.h"
#include "ledger/verify.h"

enum { EVIDENCE_FLUSH = 1 << 20 };

struct maker {
        const char *sandbox;
        uint64_t run;
        bool run_begun, run_ended;
        uint8_t (*leaves)[HASH_SIZE]; /* of this interval */
        bool *wanted;
        size_t count, room;
        bool open, any; /* an interval is begun in the file; there was one before */
        uint64_t packed, packed_open;
        struct buf out;
        int fd;
        uint64_t left; /* bytes that may still be written */
        struct err *err;
};

static void maker_free(struct maker *m) {
        free(m->leaves);
        free(m->wanted);
        buf_free(&m->out);
}

static int flush(struct maker *m, bool all) {
        if (!buf_ok(&m->out))
                return err_set(m->err, -ENOMEM, "cannot pack evidence");
        if (!all && m->out.size < EVIDENCE_FLUSH)
                return 0;
        if (m->out.size > m->left) {
                (void)err_set(m->err, -EFBIG, "the evidence is larger than it may be");
                return err_hint(m->err, "ask for one run, or pack it on the host itself: `stockade ledger evidence`");
        }
        int r = fd_write_full(m->fd, m->out.data, m->out.size);
        if (r < 0)
                return err_set(m->err, r, "could not write the evidence");
        m->left -= m->out.size;
        m->out.size = 0;
        return 0;
}

/* A string by itself: bytes of a line have no control characters, and are UTF-8. */
static void put_line(struct buf *out, const struct line *l) {
        buf_str(out, "\"");
        for (size_t i = 0, start = 0; i <= l->size; i++)
                if (i == l->size || l->text[i] == '"' || l->text[i] == '\\') {
                        buf_add(out, l->text + start, i - start);
                        if (i < l->size)
                                buf_str(out, "\\");
                        start = i;
                }
        buf_str(out, "\"");
}

/* The run that an event names in its data, or 0. */
static uint64_t run_of(const struct line *l) {
        char data[4096];
        uint64_t run = 0;

        if (l->data.size >= sizeof data)
                return 0; /* events that name a run are small */
        memcpy(data, l->data.p, l->data.size);
        data[l->data.size] = '\0';
        if (json_check(data, l->data.size, NULL) < 0 || !json_find_u64(data, "run", &run))
                return 0;
        return run;
}

/* Of one run: what names it, and what befell its sandbox meanwhile. */
static bool wants(struct maker *m, const struct line *l) {
        if (!line_is(&l->sandbox, m->sandbox))
                return false;
        if (m->run == 0)
                return true;
        uint64_t run = run_of(l);
        if (run == m->run) {
                m->run_begun = true;
                m->run_ended |= line_is(&l->kind, ledger_kind_name(LEDGER_RUN_END));
                return true;
        }
        return run == 0 && m->run_begun && !m->run_ended;
}

static int add_leaf(struct maker *m, const uint8_t leaf[HASH_SIZE], bool wanted) {
        if (m->count == m->room) {
                size_t room = m->room ? 2 * m->room : 4096;
                uint8_t(*leaves)[HASH_SIZE] = realloc(m->leaves, room * sizeof *leaves);
                if (leaves)
                        m->leaves = leaves;
                bool *flags = realloc(m->wanted, room * sizeof *flags);
                if (flags)
                        m->wanted = flags;
                if (!leaves || !flags)
                        return err_set(m->err, -ENOMEM, "cannot pack evidence");
                m->room = room;
        }
        memcpy(m->leaves[m->count], leaf, HASH_SIZE);
        m->wanted[m->count++] = wanted;
        return 0;
}

static void add_event(struct maker *m, const struct line *l) {
        if (!m->open)
                buf_str(&m->out, m->any ? ",\n{\"events\":[\n" : "\n{\"events\":[\n");
        else
                buf_str(&m->out, ",\n");
        m->open = m->any = true;
        put_line(&m->out, l);
        m->packed++;
        m->packed_open++;
}

/* checkpoint: NULL where there is none yet. */
static void end_interval(struct maker *m, const struct line *checkpoint) {
        _cleanup_buf_ struct buf proof = {.max = 64 << 20};

        if (!m->open)
                return;
        buf_str(&m->out, "],\"proof\":[");
        if (checkpoint)
                merkle_prove((const uint8_t(*)[HASH_SIZE])m->leaves, m->wanted, m->count, &proof);
        m->out.failed |= proof.failed;
        for (size_t i = 0; i < proof.size; i += HASH_SIZE) {
                char hex[HASH_TEXT_SIZE];

                hash_text((const uint8_t *)proof.data + i, hex);
                buf_printf(&m->out, "%s\"%s\"", i ? "," : "", hex);
        }
        buf_str(&m->out, "],\"checkpoint\":");
        if (checkpoint) {
                put_line(&m->out, checkpoint);
                m->packed_open = 0;
        } else
                buf_str(&m->out, "null");
        buf_str(&m->out, "}");
        m->open = false;
}

static int each(void *data, const struct line *l, const struct chain *chain) {
        struct maker *m = data;
        bool wanted = false;

        if (chain->checkpoint == l->seq) {
                end_interval(m, l);
                m->count = 0;
        } else {
                wanted = wants(m, l);
                if (wanted)
                        add_event(m, l);
        }
        int r = add_leaf(m, chain->raw, wanted);
        return r < 0 ? r : flush(m, false);
}

static void put_beginning(struct maker *m) {
        struct json j = {.out = &m->out};
        struct line_clock clock = {0};
        char time[LINE_TIME + 1];
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        line_time(&clock, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, time);
        json_open(&j, NULL, '{');
        json_u64(&j, "stockade_evidence", 1);
        json_str(&j, "sandbox", m->sandbox);
        json_u64(&j, "run", m->run);
        json_str(&j, "made", time);
        json_open(&j, "intervals", '[');
}

int ledger_evidence(int dir, const char *sandbox, uint64_t run, int out, uint64_t most, struct ledger_verdict *ret,
                    struct err *err) {
        _cleanup_(maker_free) struct maker m = {
                .sandbox = sandbox, .run = run, .fd = out, .left = most, .err = err, .out.max = 256 << 20};
        struct ledger_verdict unused, *verdict = ret ? ret : &unused;

        *verdict = (struct ledger_verdict){0};
        if (sandbox[0] == '\0' || line_check_sandbox(sandbox) < 0) {
                (void)err_set(err, ERR_INPUT, "'%.40s' is not the id of a sandbox", sandbox);
                return err_hint(err, "ids are 16 hexadecimal digits: `stockade list --all`");
        }
        put_beginning(&m);
        int r = verify_walk(dir, NULL, each, &m, verdict, err);
        if (r < 0)
                return r;
        if (m.packed == 0) {
                if (run)
                        (void)err_set(err, ERR_INPUT, "the ledger has no run %llu of sandbox '%s'",
                                      (unsigned long long)run, sandbox);
                else
                        (void)err_set(err, ERR_INPUT, "the ledger has nothing about sandbox '%s'", sandbox);
                return err_hint(err, "`stockade ledger tail --from 1` shows what it has");
        }
        end_interval(&m, NULL);
        buf_printf(&m.out, "],\n\"ledger\":{\"seq\":%llu,\"hash\":\"%s\"}}\n", (unsigned long long)verdict->last_seq,
                   verdict->last_hash);
        r = flush(&m, true);
        if (r < 0)
                return r;
        verdict->events = m.packed;
        verdict->unsigned_events = m.packed_open;
        (void)snprintf(verdict->sandbox, sizeof verdict->sandbox, "%s", sandbox);
        verdict->run = run;
        return 0;
}
