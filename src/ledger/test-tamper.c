/* Whatever is changed in a ledger afterwards is found and named; evidence stands alone and cannot be bent. */
#include "base/json.h"
#include "ledger/test-ledger.h"

/* --- tampering -------------------------------------------------------------------------------------------------- */

struct text {
        char *data;
        size_t size;
};

static struct text slurp(const struct test_folder *f, const char *name) {
        struct text t;

        assert(fd_read_file(f->fd, name, 1 << 26, true, &t.data, &t.size, NULL) == 0);
        return t;
}

static void text_free(struct text *t) {
        free(t->data);
}
#define _cleanup_text_ _cleanup_(text_free)

/* Line n of a text, from 0, with its newline. */
static struct text line_of(const struct text *t, size_t n) {
        char *p = t->data;

        while (n-- > 0)
                p = (char *)memchr(p, '\n', t->size - (size_t)(p - t->data)) + 1;
        return (struct text){p, (size_t)((char *)memchr(p, '\n', t->size - (size_t)(p - t->data)) + 1 - p)};
}

/* Expects that the ledger is found broken, at an event if one is given. */
static void check_broken(const struct test_folder *f, uint64_t seq, const char *words) {
        struct ledger_verdict v;

        CHECK(verify(f, &v) == ERR_CORRUPT);
        if (seq > 0 && v.broken_seq != seq)
                (void)printf("# broken at %llu, not at %llu\n", (unsigned long long)v.broken_seq,
                             (unsigned long long)seq);
        CHECK(seq == 0 || v.broken_seq == seq);
        if (!strstr(v.what, words))
                (void)printf("# '%s' is not in '%s'\n", words, v.what);
        CHECK(strstr(v.what, words) != NULL);
}

static void every_flipped_bit_is_found(void) {
        _cleanup_folder_ struct test_folder f;

        test_folder_make(&f);
        make_ledger(&f, 60);
        _cleanup_(segment_list_free) struct segment_list list = {0};
        CHECK(segment_list(f.fd, &list, NULL) == 0 && list.count >= 2);
        for (size_t i = 0; i < list.count; i++) {
                char name[SEGMENT_NAME];

                segment_name(list.first[i], name);
                _cleanup_text_ struct text t = slurp(&f, name);
                _cleanup_fd_ int fd = openat(f.fd, name, O_RDWR | O_CLOEXEC);
                for (size_t k = 0; k < t.size; k += 11) {
                        struct ledger_verdict v;
                        char changed = (char)(t.data[k] ^ (1 << (k % 8)));
                        uint64_t want = list.first[i];

                        for (size_t n = 0; n < k; n++)
                                want += t.data[n] == '\n';
                        assert(pwrite(fd, &changed, 1, (off_t)k) == 1);
                        bool found = ledger_verify(f.fd, &v, NULL) == ERR_CORRUPT && v.broken_seq == want;
                        if (!found)
                                (void)printf("# byte %zu of %s: broken at %llu, not at %llu\n", k, name,
                                             (unsigned long long)v.broken_seq, (unsigned long long)want);
                        CHECK(found);
                        assert(pwrite(fd, &t.data[k], 1, (off_t)k) == 1);
                }
        }
        check_good(&f, 60);
}

static void changed_lines_are_found(void) {
        _cleanup_folder_ struct test_folder f, good;
        const char *name = "00000000000000000001.jsonl";

        test_folder_make(&f);
        test_folder_make(&good);
        make_ledger(&good, 130);
        _cleanup_text_ struct text t = slurp(&good, name);
        struct text five = line_of(&t, 5), six = line_of(&t, 6);
        size_t before = (size_t)(five.data - t.data), behind = (size_t)(six.data + six.size - t.data);
        char *changed = malloc(2 * t.size);
        assert(changed);

        test_folder_copy(&good, &f); /* a line is missing */
        memcpy(changed, t.data, before);
        memcpy(changed + before, six.data, t.size - (size_t)(six.data - t.data));
        assert(fd_replace_file(f.fd, name, 0600, changed, t.size - five.size) == 0);
        check_broken(&f, 6, "1 event is missing before event 7");

        memcpy(changed, t.data, t.size); /* two are in the wrong order */
        memcpy(changed + before, six.data, six.size);
        memcpy(changed + before + six.size, five.data, five.size);
        assert(fd_replace_file(f.fd, name, 0600, changed, t.size) == 0);
        check_broken(&f, 6, "missing before event 7");

        memcpy(changed, t.data, behind); /* one is there twice */
        memcpy(changed + behind, six.data, six.size);
        memcpy(changed + behind + six.size, t.data + behind, t.size - behind);
        assert(fd_replace_file(f.fd, name, 0600, changed, t.size + six.size) == 0);
        check_broken(&f, 8, "event 7 stands where event 8 belongs");

        /* one is rewritten with its hash, as somebody would who knows how: the next does not follow */
        struct line line;
        struct line_clock clock = {0};
        uint8_t hash[HASH_SIZE];
        assert(line_parse(five.data, five.size - 1, &line) == 0);
        struct line_new forged = {.seq = line.seq,
                                  .time_us = 1767323045678901,
                                  .sandbox = line.sandbox,
                                  .actor = line.actor,
                                  .kind = line.kind,
                                  .data = {"{\"n\":666}", 9}};
        memcpy(changed, t.data, before);
        size_t n = line_write(&forged, &clock, line.prev, changed + before, hash);
        memcpy(changed + before + n, six.data, t.size - (size_t)(six.data - t.data));
        assert(fd_replace_file(f.fd, name, 0600, changed, t.size - five.size + n) == 0);
        check_broken(&f, 7, "does not continue");
        free(changed);
}

/* The data of a checkpoint with another root, and the signatures that it had. */
static size_t with_root(const struct line *l, const uint8_t root[HASH_SIZE], char ret[CHECKPOINT_DATA_MAX]) {
        memcpy(ret, l->data.p, l->data.size);
        char *at = memmem(ret, l->data.size, "\"root\":\"", 8);
        assert(at);
        line_hex(root, HASH_SIZE, at + 8);
        return l->data.size;
}

/* How well a forger does it. */
enum forgery {
        HASHES,   /* every hash and link is right */
        ROOTS,    /* and every root */
        OWN_KEYS, /* and every signature, with keys of his own from there on */
        FORGERIES,
};

/* Rewrites everything from event 27 on; checkpoints are events 20, 40 and the last. */
static size_t forge(const struct text *t, enum forgery how, const struct keys *own, char *out, struct chain *chain) {
        struct line_clock clock = {0};
        size_t used = 0, size = 0;

        chain_begin(chain);
        for (size_t at = 0; at < t->size; at += size + 1) {
                char data[CHECKPOINT_DATA_MAX], prev[LINE_HEX];
                uint8_t hash[HASH_SIZE];
                struct line line;

                size = (size_t)((char *)memchr(t->data + at, '\n', t->size - at) - (t->data + at));
                assert(line_parse(t->data + at, size, &line) == 0);
                bool checkpoint = line_is(&line.kind, "ledger.checkpoint");
                memcpy(prev, chain->hash, sizeof prev);
                if (line.seq < 27) { /* as it was */
                        memcpy(out + used, t->data + at, size + 1);
                        used += size + 1;
                        assert(line_unhex(line.hash, HASH_SIZE, hash));
                        chain_add(chain, line.seq, hash, checkpoint);
                        continue;
                }
                struct line_new n = {.seq = line.seq,
                                     .time_us = 1,
                                     .sandbox = line.sandbox,
                                     .actor = line.actor,
                                     .kind = line.kind,
                                     .data = line.data};
                if (line.seq == 27)
                        n.data = (struct line_part){"{\"n\":666}", 9};
                struct checkpoint c = {.seq = line.seq, .from = chain->from, .to = chain->seq};
                if (checkpoint && how != HASHES)
                        merkle_root(&chain->tree, c.root);
                if (checkpoint && how == ROOTS)
                        n.data = (struct line_part){data, with_root(&line, c.root, data)};
                if (checkpoint && how == OWN_KEYS) {
                        line_time(&clock, 1, c.time);
                        memcpy(c.head, prev, LINE_HEX);
                        n.data = (struct line_part){data, (size_t)checkpoint_write(&c, own, data)};
                }
                used += line_write(&n, &clock, prev, out + used, hash);
                chain_add(chain, line.seq, hash, checkpoint);
        }
        return used;
}

static void forged_chains_are_found(void) {
        static const char found[][60] = {[HASHES] = "root",
                                         [ROOTS] = "a signature of the checkpoint is wrong",
                                         [OWN_KEYS] = "other keys than the ones before"};
        const char *name = "00000000000000000001.jsonl";
        _cleanup_folder_ struct test_folder forger;
        struct keys *own = NULL;

        test_folder_make(&forger);
        CHECK(keys_open(&own, forger.fd, true, NULL) == 0);
        for (unsigned how = HASHES; how < FORGERIES; how++) {
                _cleanup_folder_ struct test_folder f;
                struct chain chain;

                test_folder_make(&f);
                struct ledger *l = OPEN(&f, .checkpoint_events = 20);
                for (unsigned i = 0; i < 50; i++)
                        (void)add(l, A, i);
                ledger_close(l);
                _cleanup_text_ struct text t = slurp(&f, name);
                _cleanup_free_ char *forged = malloc(2 * t.size);
                assert(forged);
                size_t used = forge(&t, (enum forgery)how, own, forged, &chain);
                struct head h = {.count = 1000, .seq = chain.seq, .segment = 1, .size = used};
                memcpy(h.hash, chain.raw, HASH_SIZE);
                _cleanup_fd_ int fd = -EBADF;
                assert(head_open(f.fd, true, &fd, NULL) == 0 && head_write(fd, &h) == 0);
                assert(fd_replace_file(f.fd, name, 0600, forged, used) == 0);
                check_broken(&f, 40, found[how]);
        }
        keys_close(own);
}

static void moved_segments_are_found(void) {
        _cleanup_folder_ struct test_folder f, good;
        _cleanup_(segment_list_free) struct segment_list list = {0};
        char first[SEGMENT_NAME], second[SEGMENT_NAME], third[SEGMENT_NAME], last[SEGMENT_NAME];
        struct ledger_verdict v;

        test_folder_make(&f);
        test_folder_make(&good);
        make_ledger(&good, 400);
        CHECK(verify(&good, &v) == 0 && segment_list(good.fd, &list, NULL) == 0 && list.count > 4);
        segment_name(list.first[0], first);
        segment_name(list.first[1], second);
        segment_name(list.first[2], third);
        last_segment(&good, last);
#define AGAIN() (test_folder_empty(&f), test_folder_copy(&good, &f))

        AGAIN(); /* swapped */
        CHECK(renameat(f.fd, second, f.fd, "x") == 0 && renameat(f.fd, third, f.fd, second) == 0 &&
              renameat(f.fd, "x", f.fd, third) == 0);
        check_broken(&f, list.first[1], "missing before event");
        AGAIN(); /* missing */
        CHECK(unlinkat(f.fd, second, 0) == 0);
        check_broken(&f, list.first[1], "a segment is missing");
        AGAIN();
        CHECK(unlinkat(f.fd, first, 0) == 0);
        check_broken(&f, 1, "a segment is missing");
        AGAIN(); /* shortened by a line, by half a line, down to a checkpoint */
        _cleanup_text_ struct text t = slurp(&f, second);
        size_t lines = 0;
        for (size_t i = 0; i < t.size; i++)
                lines += t.data[i] == '\n';
        struct text end = line_of(&t, lines - 1);
        assert(fd_replace_file(f.fd, second, 0600, t.data, t.size - end.size) == 0);
        check_broken(&f, list.first[2] - 1, "does not end with a checkpoint");
        assert(fd_replace_file(f.fd, second, 0600, t.data, t.size - end.size / 2) == 0);
        check_broken(&f, list.first[2] - 1, "middle of a line");
        const char *checkpoint = memmem(t.data, t.size, "ledger.checkpoint", 17);
        size_t cut = (size_t)((const char *)memchr(checkpoint, '\n', t.size - (size_t)(checkpoint - t.data)) + 1 -
                              t.data);
        CHECK(cut < t.size);
        assert(fd_replace_file(f.fd, second, 0600, t.data, cut) == 0);
        check_broken(&f, 0, "a segment is missing");
        AGAIN(); /* the end: a line, a whole segment, everything behind a checkpoint */
        _cleanup_text_ struct text tail = slurp(&f, last);
        assert(fd_replace_file(f.fd, last, 0600, tail.data, tail.size - 100) == 0);
        check_broken(&f, v.last_seq, "the end is missing");
        CHECK(unlinkat(f.fd, last, 0) == 0);
        check_broken(&f, 0, "the end is missing");
        AGAIN();
        CHECK(unlinkat(f.fd, HEAD_FILE, 0) == 0);
        check_broken(&f, 1, "'head'");
        AGAIN();
        assert(fd_replace_file(f.fd, HEAD_FILE, 0600, "x", 1) == 0);
        check_broken(&f, 1, "damaged");
        AGAIN(); /* a line that never ends */
        char *endless = calloc(1, 1 << 20);
        assert(endless);
        memset(endless, 'x', 1 << 20);
        assert(fd_replace_file(f.fd, second, 0600, endless, 1 << 20) == 0);
        check_broken(&f, list.first[1], "longer than an event");
        free(endless);
        CHECK(verify(&good, &v) == 0);
#undef AGAIN
}

/* Cut off cleanly and with a head to match, nothing in the folder can show it: that is what expectations are for. */
static void expectations_find_a_clean_cut(void) {
        _cleanup_folder_ struct test_folder f, other;
        struct ledger_verdict v;
        struct ledger_expect x = {0};
        struct err err = {0};

        test_folder_make(&f);
        make_ledger(&f, 10);
        CHECK(verify(&f, &v) == 0);
        x.seq = v.last_seq;
        CHECK(line_unhex(v.last_hash, HASH_SIZE, x.hash));
        memcpy(x.key, v.key, sizeof x.key);
        CHECK(ledger_verify_expect(f.fd, &x, &v, &err) == 0);
        x.hash[5] ^= 1;
        CHECK(ledger_verify_expect(f.fd, &x, &v, &err) == ERR_CORRUPT && v.broken_seq == x.seq &&
              strstr(v.what, "expected"));
        x.hash[5] ^= 1;
        x.seq++;
        CHECK(ledger_verify_expect(f.fd, &x, &v, &err) == ERR_CORRUPT && strstr(v.what, "was expected to be there"));
        x.seq = 0;
        test_folder_make(&other); /* somebody else's ledger in its place: right in itself */
        make_ledger(&other, 10);
        CHECK(verify(&other, &v) == 0);
        CHECK(ledger_verify_expect(other.fd, &x, &v, &err) == ERR_CORRUPT && strstr(v.what, "other keys"));
}

/* --- evidence --------------------------------------------------------------------------------------------------- */

/* Packs into the file evidence.json of the folder. */
static int pack(const struct test_folder *f, const char *sandbox, uint64_t run, struct ledger_verdict *v,
                struct err *err) {
        _cleanup_fd_ int out = openat(f->fd, "evidence.json", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert(out >= 0);
        return ledger_evidence(f->fd, sandbox, run, out, UINT64_MAX, v, err);
}

static int examine(const struct test_folder *f, struct ledger_verdict *v) {
        _cleanup_fd_ int in = openat(f->fd, "evidence.json", O_RDONLY | O_CLOEXEC);
        struct err err = {0};

        assert(in >= 0);
        int r = ledger_evidence_verify(in, v, &err);
        CHECK((r == 0) == (v->broken_seq == 0) && (r == 0) == (err.text[0] == '\0'));
        return r;
}

static int examine_text(const struct test_folder *f, const char *text, size_t size, struct ledger_verdict *v) {
        assert(fd_replace_file(f->fd, "evidence.json", 0600, text, size) == 0);
        return examine(f, v);
}

static void evidence_stands_alone(void) {
        _cleanup_folder_ struct test_folder f, alone;
        struct ledger_verdict whole, made, v;
        struct err err = {0};

        test_folder_make(&f);
        test_folder_make(&alone);
        make_ledger(&f, 400);
        CHECK(verify(&f, &whole) == 0);
        CHECK(pack(&f, B, 0, &made, &err) == 0 && made.events == 80 && made.unsigned_events == 0);
        _cleanup_text_ struct text t = slurp(&f, "evidence.json");
        CHECK(examine_text(&alone, t.data, t.size, &v) == 0); /* a folder with nothing else */
        CHECK(v.events == 80 && v.unsigned_events == 0 && v.checkpoints > 10 && v.run == 0);
        CHECK_STR(v.sandbox, B);
        CHECK_STR(v.key, whole.key);
        CHECK(t.size < 80 * 1000 + v.checkpoints * 2500); /* proofs are small */
        _cleanup_fd_ int out = openat(f.fd, "capped", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK(ledger_evidence(f.fd, B, 0, out, t.size - 1, &made, &err) == -EFBIG && err.hint[0]);
        CHECK(ledger_evidence(f.fd, B, 0, out, t.size, &made, &err) == 0);
        err = (struct err){0};

        /* reformatted by some other program */
        _cleanup_buf_ struct buf loose = {.max = 4 << 20};
        bool quoted = false;
        for (size_t i = 0; i < t.size; i++) {
                if (t.data[i] == '\\')
                        buf_add(&loose, &t.data[i++], 1);
                else if (t.data[i] == '"')
                        quoted = !quoted;
                buf_add(&loose, &t.data[i], 1);
                if (!quoted && strchr("[]{},:", t.data[i]))
                        buf_str(&loose, " \n\t");
        }
        CHECK(buf_ok(&loose) && examine_text(&alone, loose.data, loose.size, &v) == 0 && v.events == 80);

        CHECK(pack(&f, "ffffffffffffffff", 0, NULL, &err) == ERR_INPUT && err.hint[0]);
        CHECK(pack(&f, "a b", 0, NULL, &err) == ERR_INPUT && pack(&f, "", 0, NULL, &err) == ERR_INPUT);
}

static void every_change_in_evidence_is_found(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_verdict v;

        test_folder_make(&f);
        make_ledger(&f, 60);
        CHECK(pack(&f, B, 0, NULL, NULL) == 0);
        _cleanup_text_ struct text t = slurp(&f, "evidence.json");
        size_t begin = (size_t)((char *)memmem(t.data, t.size, "\"intervals\"", 11) - t.data);
        size_t end = (size_t)((char *)memmem(t.data, t.size, "\"ledger\":{", 10) - t.data);
        CHECK(begin > 0 && end > begin && examine(&f, &v) == 0);
        for (size_t i = begin; i < end; i += 5) {
                char old = t.data[i];

                t.data[i] ^= (char)(1 << (i % 7));
                if (strchr(" \n\r\t", t.data[i]) && strchr(" \n\r\t", old)) {
                        t.data[i] = old;
                        continue; /* a blank for a blank */
                }
                bool found = examine_text(&f, t.data, t.size, &v) < 0;
                if (!found)
                        (void)printf("# byte %zu: '%c' for '%c' was taken\n", i, t.data[i], old);
                CHECK(found);
                t.data[i] = old;
        }
        for (size_t size = 0; size < t.size - 1; size += 97) /* cut off anywhere */
                CHECK(examine_text(&f, t.data, size, &v) < 0);

        /* an interval there twice */
        char *start = memmem(t.data, t.size, "\n{\"events\"", 10),
             *next = memmem(start + 1, t.size - (size_t)(start + 1 - t.data), "\n{\"events\"", 10);
        _cleanup_buf_ struct buf twice = {.max = 4 << 20};
        assert(start && next);
        buf_add(&twice, t.data, (size_t)(next - t.data));
        buf_add(&twice, start, t.size - (size_t)(start - t.data));
        CHECK(examine_text(&f, twice.data, twice.size, &v) == ERR_CORRUPT && strstr(v.what, "stands behind"));

        /* an event taken out, with its comma */
        char *first = memmem(t.data, t.size, "\n\"{", 3), *comma = memchr(first + 1, '\n', t.size);
        memmove(first, comma, t.size - (size_t)(comma - t.data));
        CHECK(examine_text(&f, t.data, t.size - (size_t)(comma - first), &v) == ERR_CORRUPT);
        CHECK(strstr(v.what, "not among those") != NULL);
}

/* Somebody with keys of his own makes a good ledger of lies: it verifies, under another fingerprint. Mixed with the
 * real one it does not. */
static void evidence_has_one_signer(void) {
        _cleanup_folder_ struct test_folder f, lies;
        struct ledger_verdict one, two, v;

        test_folder_make(&f);
        test_folder_make(&lies);
        make_ledger(&f, 60);
        make_ledger(&lies, 60);
        CHECK(pack(&f, B, 0, NULL, NULL) == 0 && pack(&lies, B, 0, NULL, NULL) == 0);
        CHECK(examine(&f, &one) == 0 && examine(&lies, &two) == 0 && !str_eq(one.key, two.key));
        _cleanup_text_ struct text a = slurp(&f, "evidence.json"), b = slurp(&lies, "evidence.json");
        char *behind_a = memmem(a.data, a.size, "},\n{\"events\"", 12),
             *behind_b = memmem(b.data, b.size, "},\n{\"events\"", 12);
        CHECK(behind_a && behind_b);
        _cleanup_buf_ struct buf mixed = {.max = 4 << 20};
        buf_add(&mixed, a.data, (size_t)(behind_a - a.data));
        buf_add(&mixed, behind_b, b.size - (size_t)(behind_b - b.data));
        CHECK(examine_text(&f, mixed.data, mixed.size, &v) == ERR_CORRUPT && strstr(v.what, "other keys"));
}

/* Evidence made up from nothing, right in every hash: only its signatures are not. */
static void made_up_evidence_is_found(void) {
        _cleanup_folder_ struct test_folder f;
        struct line_clock clock = {0};
        struct chain chain;
        struct checkpoint c = {.seq = 2, .from = 1, .to = 1};
        char event[500], line[2048], data[CHECKPOINT_DATA_MAX];
        struct ledger_verdict v;
        struct keys *k = NULL;
        uint8_t hash[HASH_SIZE];

        test_folder_make(&f);
        CHECK(keys_open(&k, f.fd, true, NULL) == 0);
        chain_begin(&chain);
        struct line_new n = {
                .seq = 1, .sandbox = {A, 16}, .actor = {"uid:0", 5}, .kind = {"run.start", 9}, .data = {"{}", 2}};
        size_t event_size = line_write(&n, &clock, chain.hash, event, c.root) - 1;
        chain_add(&chain, 1, c.root, false);
        memcpy(c.head, chain.hash, LINE_HEX);
        line_time(&clock, 0, c.time);
        int data_size = checkpoint_write(&c, k, data);
        CHECK(data_size > 0);
        for (int wrong = 0; wrong <= 2; wrong++) { /* neither, either of the two */
                static const char *const signature[] = {"", "\"ed25519\":", "\"secp256k1\":"};
                char *digit = strstr(strstr(data, signature[wrong]), "\"signature\":\"") + 20, was = *digit;

                if (wrong)
                        *digit = was == '7' ? '8' : '7';
                struct line_new m = {.seq = 2,
                                     .sandbox = {"", 0},
                                     .actor = {"ledger", 6},
                                     .kind = {"ledger.checkpoint", 17},
                                     .data = {data, (size_t)data_size}};
                size_t size = line_write(&m, &clock, chain.hash, line, hash) - 1;
                *digit = was;
                _cleanup_buf_ struct buf out = {0};
                struct json j = {.out = &out};
                event[event_size] = line[size] = '\0';
                buf_printf(&out,
                           "{\"stockade_evidence\":1,\"sandbox\":\"%s\",\"run\":0,\"made\":\"\",\"intervals\":[{"
                           "\"events\":[",
                           A);
                json_str(&j, NULL, event);
                buf_str(&out, "],\"proof\":[],\"checkpoint\":");
                j.comma = false;
                json_str(&j, NULL, line);
                buf_str(&out, "}],\"ledger\":{\"seq\":2,\"hash\":\"\"}}");
                CHECK(examine_text(&f, out.data, out.size, &v) == (wrong ? ERR_CORRUPT : 0));
                CHECK(!wrong || strstr(v.what, "a signature of its checkpoint is wrong"));
        }
        keys_close(k);
}

static void evidence_of_one_run(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_verdict v;
        struct err err = {0};

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, .checkpoint_events = 10);
        (void)ledger_append(l, LEDGER_SANDBOX_CREATE, A, "uid:1", "{}");
        (void)ledger_append(l, LEDGER_RUN_START, A, "uid:1", "{\"run\":1}");
        (void)ledger_append(l, LEDGER_NET_DENY, A, "gate", "{\"host\":\"x\"}"); /* while run 1 runs */
        (void)ledger_append(l, LEDGER_RUN_START, A, "uid:1", "{\"run\":2}");
        (void)ledger_append(l, LEDGER_RUN_START, B, "uid:1", "{\"run\":1}"); /* another's */
        for (unsigned i = 0; i < 25; i++)
                (void)ledger_append(l, LEDGER_EXEC, A, "kernel", "{\"run\":2,\"path\":\"/bin/sh\"}");
        (void)ledger_append(l, LEDGER_RUN_END, A, "operator", "{\"run\":1,\"status\":0}");
        (void)ledger_append(l, LEDGER_NET_DENY, A, "gate", "{\"host\":\"y\"}"); /* after it */
        ledger_close(l);
        CHECK(pack(&f, A, 1, &v, NULL) == 0 && v.events == 3);
        CHECK(examine(&f, &v) == 0 && v.events == 3 && v.run == 1 && v.checkpoints == 2);
        CHECK(pack(&f, A, 2, NULL, NULL) == 0 && examine(&f, &v) == 0 && v.events == 1 + 25 + 1);
        CHECK(pack(&f, A, 9, NULL, &err) == ERR_INPUT && strstr(err.text, "no run 9"));
}

static void what_is_not_signed_is_said(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_verdict v;

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, .checkpoint_events = 10, .checkpoint_ms = 100000);
        for (unsigned i = 0; i < 14; i++)
                (void)add(l, A, i);
        wait_for(l, add(l, A, 14));
        CHECK(pack(&f, A, 0, &v, NULL) == 0 && v.events == 15 && v.unsigned_events == 6);
        CHECK(examine(&f, &v) == 0 && v.events == 15 && v.unsigned_events == 6 && v.checkpoints == 1);
        wait_for(l, ledger_checkpoint(l));
        CHECK(pack(&f, A, 0, &v, NULL) == 0 && v.unsigned_events == 0);
        CHECK(examine(&f, &v) == 0 && v.events == 15 && v.unsigned_events == 0 && v.checkpoints == 2);
        ledger_close(l);
}

TEST_MAIN(TEST(every_flipped_bit_is_found), TEST(changed_lines_are_found), TEST(forged_chains_are_found),
          TEST(moved_segments_are_found), TEST(expectations_find_a_clean_cut), TEST(evidence_stands_alone),
          TEST(every_change_in_evidence_is_found), TEST(evidence_has_one_signer), TEST(made_up_evidence_is_found),
          TEST(evidence_of_one_run), TEST(what_is_not_signed_is_said))
