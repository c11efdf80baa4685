/* The chain: one line after another, each tied to the one before. */
#include "ledger/chain.h"

#include <stdarg.h>

void chain_begin(struct chain *c) {
        *c = (struct chain){.from = 1};
        memset(c->hash, '0', sizeof c->hash);
}

void chain_begin_at(struct chain *c, const struct line *first) {
        chain_begin(c);
        if (first->seq == 1)
                return;
        c->seq = first->seq - 1;
        memcpy(c->hash, first->prev, LINE_HEX);
        (void)line_unhex(first->prev, HASH_SIZE, c->raw);
        c->from = c->checkpoint = c->seq;
        merkle_add(&c->tree, c->raw);
}

static int _printf_(2, 3) wrong(struct chain *c, const char *format, ...) {
        va_list args;

        va_start(args, format);
        (void)vsnprintf(c->what, sizeof c->what, format, args);
        va_end(args);
        return ERR_CORRUPT;
}

void chain_add(struct chain *c, uint64_t seq, const uint8_t hash[HASH_SIZE], bool checkpoint) {
        if (checkpoint) {
                c->tree.count = 0;
                c->from = c->checkpoint = seq;
                c->checkpoints++;
        }
        merkle_add(&c->tree, hash);
        memcpy(c->raw, hash, HASH_SIZE);
        line_hex(hash, HASH_SIZE, c->hash);
        c->seq = seq;
}

static int take_checkpoint(struct chain *c, const struct line *l) {
        struct checkpoint k;
        uint8_t root[HASH_SIZE];

        if (checkpoint_read(l, &k) < 0)
                return wrong(c, "the checkpoint is not in its one form");
        if (c->tree.count == 0 || k.from != c->from || k.to != c->seq)
                return wrong(c, "the checkpoint does not cover what is before it");
        merkle_root(&c->tree, root);
        if (memcmp(root, k.root, sizeof root) != 0)
                return wrong(c, "the checkpoint's root does not match the events before it");
        if (c->have_keys && memcmp(&k.keys, &c->keys, sizeof k.keys) != 0)
                return wrong(c, "the checkpoint was signed with other keys than the ones before");
        if (!checkpoint_holds(&k))
                return wrong(c, "a signature of the checkpoint is wrong");
        c->keys = k.keys;
        c->have_keys = true;
        return 0;
}

int chain_take(struct chain *c, const char *text, size_t size, struct line *ret) {
        uint8_t hash[HASH_SIZE];
        char hex[LINE_HEX];
        struct line l;

        if (line_parse(text, size, &l) < 0)
                return wrong(c, "the line is not an event in canonical form");
        if (l.seq != c->seq + 1) {
                if (l.seq <= c->seq)
                        return wrong(c, "event %llu stands where event %llu belongs", (unsigned long long)l.seq,
                                     (unsigned long long)(c->seq + 1));
                return wrong(c, "%llu event%s missing before event %llu", (unsigned long long)(l.seq - c->seq - 1),
                             l.seq - c->seq == 2 ? " is" : "s are", (unsigned long long)l.seq);
        }
        line_hash(&l, hash);
        line_hex(hash, sizeof hash, hex);
        if (memcmp(hex, l.hash, LINE_HEX) != 0)
                return wrong(c, "its hash does not match its bytes");
        if (memcmp(c->hash, l.prev, LINE_HEX) != 0)
                return wrong(c, "it does not continue the event before it (prev is another hash)");
        bool checkpoint = line_is(&l.kind, ledger_kind_name(LEDGER_CHECKPOINT));
        if (checkpoint && take_checkpoint(c, &l) < 0)
                return ERR_CORRUPT;
        chain_add(c, l.seq, hash, checkpoint);
        *ret = l;
        return 0;
}
