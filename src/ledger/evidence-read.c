/* Checking evidence: a file from anybody, without the ledger.
 *
 * Read whole into memory below a cap, then walked once with the keys in the order in which they are written; blanks may
 * be anywhere, so that a file that was reformatted still verifies. Shown is that every event in it was under a
 * checkpoint that the holder of the printed keys signed. Not shown is that nothing was left out: that takes the whole
 * ledger. */
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "ledger/chain.h"
#include "ledger/evidence.h"

enum { EVIDENCE_MAX = 512 << 20, EVIDENCE_TEXT = 6 * LINE_BYTES_MAX };

struct hashes {
        uint8_t (*hash)[HASH_SIZE];
        uint64_t *seq; /* of events; unused for proofs */
        size_t count, room;
};

struct exam {
        const char *p, *end; /* what is left of the file */
        char *quoted;        /* a string as it stands there, EVIDENCE_TEXT + 1 bytes */
        char *string;        /* and decoded, LINE_BYTES_MAX + 1 bytes */
        struct hashes events, proof;
        uint64_t last; /* the last event or range that was seen */
        bool have_keys;
        struct keys_public keys;
        struct ledger_verdict *verdict;
        struct err *err;
};

static void exam_free(struct exam *x) {
        free(x->quoted);
        free(x->string);
        free(x->events.hash);
        free(x->events.seq);
        free(x->proof.hash);
        free(x->proof.seq);
}

static int _printf_(3, 4) broken(struct exam *x, uint64_t seq, const char *format, ...) {
        va_list args;

        va_start(args, format);
        (void)vsnprintf(x->verdict->what, sizeof x->verdict->what, format, args);
        va_end(args);
        x->verdict->broken_seq = MAX(seq, (uint64_t)1);
        return err_set(x->err, ERR_CORRUPT, "the evidence does not hold at event %llu: %s", (unsigned long long)seq,
                       x->verdict->what);
}

static int misformed(struct exam *x, const char *what) {
        return broken(x, x->last + 1, "the file is not evidence as Stockade packs it: %s was expected", what);
}

/* --- the form of the file --------------------------------------------------------------------------------------- */

static void blank(struct exam *x) {
        while (x->p < x->end && (*x->p == ' ' || *x->p == '\t' || *x->p == '\n' || *x->p == '\r'))
                x->p++;
}

static bool eat(struct exam *x, const char *word) {
        size_t n = strlen(word);

        blank(x);
        if ((size_t)(x->end - x->p) < n || memcmp(x->p, word, n) != 0)
                return false;
        x->p += n;
        return true;
}

/* A string into x->string. */
static bool eat_string(struct exam *x) {
        blank(x);
        const char *start = x->p, *p = start + 1;

        if (p >= x->end || *start != '"')
                return false;
        for (; p < x->end && *p != '"'; p++)
                if (*p == '\\')
                        p++;
        if (p >= x->end || p + 1 - start > EVIDENCE_TEXT)
                return false;
        size_t n = (size_t)(p + 1 - start);
        memcpy(x->quoted, start, n);
        x->quoted[n] = '\0';
        x->p = p + 1;
        return json_check(x->quoted, n, NULL) == 0 && json_find_str(x->quoted, "", x->string, LINE_BYTES_MAX + 1);
}

static bool eat_key(struct exam *x, const char *key) {
        return eat_string(x) && str_eq(x->string, key) && eat(x, ":");
}

static bool eat_number(struct exam *x, uint64_t *ret) {
        char digits[24];
        size_t n = 0;

        blank(x);
        while (n < sizeof digits - 1 && x->p + n < x->end && x->p[n] >= '0' && x->p[n] <= '9')
                n++;
        memcpy(digits, x->p, n);
        digits[n] = '\0';
        x->p += n;
        return json_check(digits, n, NULL) == 0 && json_find_u64(digits, "", ret);
}

static int add(struct exam *x, struct hashes *h, uint64_t seq, const uint8_t hash[HASH_SIZE]) {
        if (h->count == h->room) {
                size_t room = h->room ? 2 * h->room : 256;
                uint8_t(*more)[HASH_SIZE] = realloc(h->hash, room * sizeof *more);
                if (more)
                        h->hash = more;
                uint64_t *numbers = realloc(h->seq, room * sizeof *numbers);
                if (numbers)
                        h->seq = numbers;
                if (!more || !numbers)
                        return err_set(x->err, -ENOMEM, "cannot verify the evidence");
                h->room = room;
        }
        memcpy(h->hash[h->count], hash, HASH_SIZE);
        h->seq[h->count++] = seq;
        return 0;
}

/* --- what it says ----------------------------------------------------------------------------------------------- */

/* The line in x->string, whose hash has to be right. */
static int take_line(struct exam *x, struct line *ret, uint8_t ret_hash[HASH_SIZE]) {
        char hex[LINE_HEX];

        if (line_parse(x->string, strlen(x->string), ret) < 0)
                return broken(x, x->last + 1, "a line is not an event in canonical form");
        line_hash(ret, ret_hash);
        line_hex(ret_hash, HASH_SIZE, hex);
        if (memcmp(hex, ret->hash, LINE_HEX) != 0)
                return broken(x, ret->seq, "its hash does not match its bytes");
        return 0;
}

static int take_events(struct exam *x) {
        x->events.count = 0;
        do {
                uint8_t hash[HASH_SIZE];
                struct line line;

                if (!eat_string(x))
                        return misformed(x, "an event");
                int r = take_line(x, &line, hash);
                if (r < 0)
                        return r;
                if (line.seq <= x->last)
                        return broken(x, line.seq, "it stands behind event %llu", (unsigned long long)x->last);
                if (!line_is(&line.sandbox, x->verdict->sandbox))
                        return broken(x, line.seq, "it is another sandbox's");
                r = add(x, &x->events, line.seq, hash);
                if (r < 0)
                        return r;
                if (x->verdict->events++ == 0)
                        x->verdict->first_seq = line.seq;
                x->last = x->verdict->last_seq = line.seq;
                (void)snprintf(x->verdict->last_hash, sizeof x->verdict->last_hash, "%.*s", LINE_HEX, line.hash);
        } while (eat(x, ","));
        return eat(x, "]") ? 0 : misformed(x, "',' or ']' behind an event");
}

static int take_proof(struct exam *x) {
        x->proof.count = 0;
        if (eat(x, "]"))
                return 0;
        do {
                uint8_t hash[HASH_SIZE];

                if (!eat_string(x) || strlen(x->string) != LINE_HEX || !line_unhex(x->string, HASH_SIZE, hash))
                        return misformed(x, "a hash of the proof");
                int r = add(x, &x->proof, 0, hash);
                if (r < 0)
                        return r;
        } while (eat(x, ","));
        return eat(x, "]") ? 0 : misformed(x, "',' or ']' behind a hash");
}

/* The checkpoint in x->string, and whether it covers the events. */
static int take_checkpoint(struct exam *x) {
        uint64_t first = x->events.seq[0];
        struct checkpoint c;
        struct line line;
        uint8_t root[HASH_SIZE];

        int r = take_line(x, &line, root);
        if (r < 0)
                return r;
        if (!line_is(&line.kind, ledger_kind_name(LEDGER_CHECKPOINT)) || checkpoint_read(&line, &c) < 0)
                return broken(x, first, "what should be its checkpoint is none");
        if (c.from > first || c.to < x->last || c.to >= c.seq)
                return broken(x, first, "the checkpoint does not cover it");
        if (x->have_keys && memcmp(&x->keys, &c.keys, sizeof c.keys) != 0)
                return broken(x, first, "its checkpoint was signed with other keys than the ones before");
        if (!checkpoint_holds(&c))
                return broken(x, first, "a signature of its checkpoint is wrong");
        for (size_t i = 0; i < x->events.count; i++)
                x->events.seq[i] -= c.from;
        if (merkle_check(c.to - c.from + 1, x->events.seq, (const uint8_t(*)[HASH_SIZE])x->events.hash, x->events.count,
                         (const uint8_t(*)[HASH_SIZE])x->proof.hash, x->proof.count, root) < 0 ||
            memcmp(root, c.root, sizeof root) != 0)
                return broken(x, first, "it, or an event with it, is not among those that the checkpoint covers");
        x->keys = c.keys;
        x->have_keys = true;
        x->last = c.to;
        x->verdict->checkpoints++;
        return 0;
}

/* *ret_open: the events have no checkpoint yet. */
static int take_interval(struct exam *x, bool *ret_open) {
        if (!eat(x, "{") || !eat_key(x, "events") || !eat(x, "["))
                return misformed(x, "\"events\"");
        int r = take_events(x);
        if (r < 0)
                return r;
        if (!eat(x, ",") || !eat_key(x, "proof") || !eat(x, "["))
                return misformed(x, "\"proof\"");
        r = take_proof(x);
        if (r < 0)
                return r;
        if (!eat(x, ",") || !eat_key(x, "checkpoint"))
                return misformed(x, "\"checkpoint\"");
        *ret_open = eat(x, "null");
        if (*ret_open)
                x->verdict->unsigned_events = x->events.count;
        else if (!eat_string(x))
                return misformed(x, "a checkpoint's line");
        else
                r = take_checkpoint(x);
        if (r == 0 && !eat(x, "}"))
                r = misformed(x, "'}'");
        return r;
}

static int take_all(struct exam *x) {
        struct ledger_verdict *v = x->verdict;
        uint64_t version, seq;
        bool open = false;

        if (!eat(x, "{") || !eat_key(x, "stockade_evidence") || !eat_number(x, &version))
                return misformed(x, "\"stockade_evidence\"");
        if (version != 1)
                return misformed(x, "version 1");
        if (!eat(x, ",") || !eat_key(x, "sandbox") || !eat_string(x) || strlen(x->string) >= sizeof v->sandbox ||
            line_check_sandbox(x->string) < 0)
                return misformed(x, "\"sandbox\" with an id");
        (void)snprintf(v->sandbox, sizeof v->sandbox, "%s", x->string);
        if (!eat(x, ",") || !eat_key(x, "run") || !eat_number(x, &v->run))
                return misformed(x, "\"run\"");
        if (!eat(x, ",") || !eat_key(x, "made") || !eat_string(x))
                return misformed(x, "\"made\"");
        if (!eat(x, ",") || !eat_key(x, "intervals") || !eat(x, "["))
                return misformed(x, "\"intervals\"");
        do {
                if (open)
                        return broken(x, x->last, "events without a checkpoint stand before others");
                int r = take_interval(x, &open);
                if (r < 0)
                        return r;
        } while (eat(x, ","));
        if (!eat(x, "]") || !eat(x, ",") || !eat_key(x, "ledger") || !eat(x, "{") || !eat_key(x, "seq") ||
            !eat_number(x, &seq) || !eat(x, ",") || !eat_key(x, "hash") || !eat_string(x) || !eat(x, "}") ||
            !eat(x, "}"))
                return misformed(x, "\"ledger\"");
        blank(x);
        return x->p == x->end ? 0 : misformed(x, "the end");
}

int evidence_check(const char *text, size_t size, struct ledger_verdict *ret, struct err *err) {
        _cleanup_(exam_free) struct exam x = {.p = text, .end = text + size, .verdict = ret, .err = err};

        x.quoted = malloc(EVIDENCE_TEXT + 1);
        x.string = malloc(LINE_BYTES_MAX + 1);
        if (!x.quoted || !x.string)
                return err_set(err, -ENOMEM, "cannot verify the evidence");
        int r = take_all(&x);
        if (x.have_keys)
                keys_fingerprint(&x.keys, ret->key);
        return r;
}

int ledger_evidence_verify(int in, struct ledger_verdict *ret, struct err *err) {
        _cleanup_buf_ struct buf text = {.max = EVIDENCE_MAX};
        char piece[65536];
        ssize_t n;

        *ret = (struct ledger_verdict){0};
        while ((n = fd_read_full(in, piece, sizeof piece)) > 0) {
                buf_add(&text, piece, (size_t)n);
                if (!buf_ok(&text))
                        return err_set(err, ERR_LIMIT, "the evidence is larger than %d MiB", EVIDENCE_MAX >> 20);
        }
        if (n < 0)
                return err_set(err, (int)n, "cannot read the evidence");
        return evidence_check(text.data ? text.data : "", text.size, ret, err);
}
