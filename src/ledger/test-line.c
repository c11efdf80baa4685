/* The parts of the ledger that do no I/O to speak of: lines, trees, keys, checkpoints, the head, names of segments. */
#include <secp256k1.h>
#include <sodium.h>
#include <sys/stat.h>

#include "base/test-folder.h"
#include "base/test.h"
#include "ledger/chain.h"
#include "ledger/head.h"
#include "ledger/segment.h"

#define _cleanup_folder_ _cleanup_(test_folder_remove)

static size_t make_line(uint64_t seq, const char *data, char *out) {
        static const char prev[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        struct line_clock clock = {0};
        struct line_new n = {.seq = seq,
                             .time_us = 1767323045678901,
                             .sandbox = {"0123456789abcdef", 16},
                             .actor = {"uid:1000", 8},
                             .kind = {"run.start", 9},
                             .data = {data, strlen(data)}};
        uint8_t hash[HASH_SIZE];
        size_t size = line_write(&n, &clock, prev, out, hash);

        CHECK(size == line_size(&n) && out[size - 1] == '\n');
        return size - 1;
}

static bool hash_is_right(const struct line *l) {
        uint8_t hash[HASH_SIZE];
        char hex[LINE_HEX];

        line_hash(l, hash);
        line_hex(hash, sizeof hash, hex);
        return memcmp(hex, l->hash, LINE_HEX) == 0;
}

static void lines_have_one_form(void) {
        static const char form[] =
                "{\"seq\":7,\"time\":\"2026-01-02T03:04:05.678901Z\",\"sandbox\":\"0123456789abcdef\",\"actor\":"
                "\"uid:1000\",\"kind\":\"run.start\",\"data\":{\"a\":[1,\"x y\"]},\"prev\":"
                "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"";
        char text[1024], hex[LINE_HEX];
        uint8_t hash[HASH_SIZE];
        size_t size = make_line(7, "{\"a\":[1,\"x y\"]}", text);
        struct line l;

        CHECK(line_parse(text, size, &l) == 0 && l.seq == 7 && hash_is_right(&l));
        CHECK(strncmp(text, form, strlen(form)) == 0 && size == strlen(form) + strlen(",\"hash\":\"\"}") + LINE_HEX);
        /* somebody else's BLAKE2b says the same */
        CHECK(sodium_init() >= 0 && crypto_generichash(hash, 32, (const uint8_t *)form, strlen(form), NULL, 0) == 0);
        line_hex(hash, sizeof hash, hex);
        CHECK(memcmp(l.hash, hex, LINE_HEX) == 0);
        CHECK(line_is(&l.sandbox, "0123456789abcdef") && line_is(&l.actor, "uid:1000") &&
              line_is(&l.kind, "run.start"));
        CHECK(line_is(&l.data, "{\"a\":[1,\"x y\"]}"));

        /* no other byte anywhere gives a line that holds */
        for (size_t i = 0; i < size; i++)
                for (unsigned bit = 0; bit < 8; bit++) {
                        text[i] ^= (char)(1 << bit);
                        if (line_parse(text, size, &l) == 0 && hash_is_right(&l)) {
                                CHECK(false); /* a changed line was taken */
                                return;
                        }
                        text[i] ^= (char)(1 << bit);
                }
        for (size_t n = 0; n < size; n++)
                CHECK(line_parse(text, n, &l) < 0 || !hash_is_right(&l));
}

static void lines_are_strict(void) {
        char text[1024], seq[64];
        struct line l;
        static const char *const numbers[] = {"0", "01", "-1", "+1", "1.0", "", "18446744073709551616", "1e3"};

        CHECK(line_parse(text, make_line(UINT64_MAX, "{}", text), &l) == 0 && l.seq == UINT64_MAX);
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                char other[1024];
                size_t size = make_line(9, "{}", text);

                (void)snprintf(seq, sizeof seq, "{\"seq\":%s", numbers[i]);
                int n = snprintf(other, sizeof other, "%s%.*s", seq, (int)size - 8, text + 8);
                CHECK(line_parse(other, (size_t)n, &l) < 0);
        }
}

static void times_are_right(void) {
        struct line_clock c = {0};
        char text[LINE_TIME + 1];

        line_time(&c, 0, text);
        CHECK_STR(text, "1970-01-01T00:00:00.000000Z");
        line_time(&c, 1709164799999999, text);
        CHECK_STR(text, "2024-02-28T23:59:59.999999Z");
        line_time(&c, 1709164800000001, text);
        CHECK_STR(text, "2024-02-29T00:00:00.000001Z");
        line_time(&c, UINT64_MAX, text);
        CHECK_STR(text, "9999-12-31T23:59:59.999999Z");
}

static void data_is_guarded(void) {
        static const char *const good[] = {"{}",
                                           "{\"a\":1}",
                                           "{\"a\":\"b c\"}",
                                           "{\"a\":\"\\\" \\\\\"}",
                                           "{\"a\":[{\"b\":null},true,-1.5e3]}",
                                           "{\"ü\":\"\\u0000\"}"};
        static const char *const bad[] = {"",
                                          "{",
                                          "}",
                                          "[]",
                                          "1",
                                          "\"a\"",
                                          "null",
                                          " {}",
                                          "{} ",
                                          "{}\n",
                                          "{\n}",
                                          "{ }",
                                          "{\"a\": 1}",
                                          "{\"a\":1,\"a\":2}",
                                          "{\"a\":\"\n\"}",
                                          "{\"a\":\"\t\"}",
                                          "{\"a\":\"\xff\"}",
                                          "{}{}",
                                          "{\"a\":\"b}",
                                          "{a:1}",
                                          "{\"a\":01}",
                                          "{\"a\":1,}",
                                          "{\"a\":\"\\\\\" }",
                                          "{\"a\":\"x\",\r\"b\":1}",
                                          "{\"a\":\"\x1b[2J\"}"};
        _cleanup_free_ char *large = malloc(LEDGER_DATA_MAX + 2);

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                CHECK(line_check_data(good[i], strlen(good[i])) == 0);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(line_check_data(bad[i], strlen(bad[i])) == -EINVAL);
        assert(large);
        memset(large, 'x', LEDGER_DATA_MAX + 1);
        memcpy(large, "{\"a\":\"", 6);
        memcpy(large + LEDGER_DATA_MAX - 2, "\"}", 2);
        CHECK(line_check_data(large, LEDGER_DATA_MAX) == 0);
        CHECK(line_check_data(large, LEDGER_DATA_MAX + 1) == -E2BIG);
        CHECK(line_check_sandbox("") == 0 && line_check_sandbox("0123456789abcdef") == 0);
        CHECK(line_check_sandbox("a\"b") < 0 && line_check_sandbox("a b") < 0 && line_check_sandbox("../x") < 0);
        CHECK(line_check_sandbox("0123456789abcdef0123456789abcdef0") < 0);
        CHECK(line_check_actor("uid:1000") == 0 && line_check_actor("") < 0 && line_check_actor("a\\") < 0);
        CHECK(line_check_actor("a\nb") < 0 && line_check_actor("a b") < 0 && line_check_actor("\x7f") < 0);
}

static void kinds_have_names(void) {
        for (unsigned i = 0; i < LEDGER_KIND_COUNT; i++) {
                const char *name = ledger_kind_name((enum ledger_kind)i);

                CHECK(name && strchr(name, '.') && strlen(name) <= LINE_KIND_MAX);
                for (unsigned k = 0; k < i; k++)
                        CHECK(!str_eq(name, ledger_kind_name((enum ledger_kind)k)));
                char text[1024];
                struct line l;
                struct line_clock clock = {0};
                uint8_t hash[HASH_SIZE];
                struct line_new n = {.seq = 1,
                                     .actor = {"x", 1},
                                     .sandbox = {"", 0},
                                     .kind = {name, strlen(name)},
                                     .data = {"{}", 2}};
                static const char prev[LINE_HEX + 1] =
                        "0000000000000000000000000000000000000000000000000000000000000000";
                CHECK(line_parse(text, line_write(&n, &clock, prev, text, hash) - 1, &l) == 0);
        }
        CHECK(!ledger_kind_name(LEDGER_KIND_COUNT) && ledger_kind_durable(LEDGER_KIND_COUNT));
        /* section 11: lifecycle, secret, grant and auth events are durable before the act */
        CHECK(ledger_kind_durable(LEDGER_SANDBOX_CREATE) && ledger_kind_durable(LEDGER_SECRET_SET) &&
              ledger_kind_durable(LEDGER_GRANT_GIVE) && ledger_kind_durable(LEDGER_AUTH_REFUSED));
        CHECK(!ledger_kind_durable(LEDGER_NET_USE) && !ledger_kind_kept(LEDGER_SANDBOX_CREATE));
        CHECK(ledger_kind_kept(LEDGER_SANDBOX_PAUSE) && ledger_kind_kept(LEDGER_RUN_END));
        CHECK(ledger_kind_kept(LEDGER_SANDBOX_DELETE) && ledger_kind_kept(LEDGER_SNAPSHOT_DELETE) &&
              ledger_kind_kept(LEDGER_IMAGE_REMOVE)); /* they make room */
}

static void our_hash_is_blake2b(void) {
        uint8_t data[700], ours[HASH_SIZE], theirs[HASH_SIZE];
        struct hash h;

        CHECK(sodium_init() >= 0);
        randombytes_buf(data, sizeof data);
        for (size_t size = 0; size <= sizeof data; size++) {
                size_t cut = size / 3;

                hash_init(&h);
                hash_add(&h, data, cut);
                hash_add(&h, data + cut, size - cut);
                hash_done(&h, ours);
                (void)crypto_generichash(theirs, sizeof theirs, data, size, NULL, 0);
                CHECK(memcmp(ours, theirs, sizeof ours) == 0);
        }
}

/* --- trees --- */

/* As RFC 6962 says it, written down once more. */
static void slow_root(const uint8_t (*leaves)[HASH_SIZE], size_t n, uint8_t ret[HASH_SIZE]) {
        uint8_t bytes[1 + 2 * HASH_SIZE] = {1};
        size_t k = 1;

        if (n == 1) {
                memcpy(ret, leaves[0], HASH_SIZE);
                return;
        }
        while (2 * k < n)
                k *= 2;
        slow_root(leaves, k, bytes + 1);
        slow_root(leaves + k, n - k, bytes + 1 + HASH_SIZE);
        (void)crypto_generichash(ret, HASH_SIZE, bytes, sizeof bytes, NULL, 0);
}

enum damage { NONE, LEAF, HASH, SHORT, LONG, OUTSIDE, TWICE, NOTHING_KNOWN, DAMAGES };

/* The root that a proof gives after some damage to it; -ENODATA where there is nothing to damage. */
static int prove_and_check(const uint8_t (*leaves)[HASH_SIZE], const bool *wanted, size_t n, enum damage damage,
                           uint8_t ret_root[HASH_SIZE]) {
        _cleanup_buf_ struct buf proof = {0};
        uint8_t known[80][HASH_SIZE];
        uint64_t places[80];
        size_t count = 0;

        for (size_t i = 0; i < n; i++)
                if (wanted[i]) {
                        memcpy(known[count], leaves[i], HASH_SIZE);
                        places[count++] = i;
                }
        merkle_prove(leaves, wanted, n, &proof);
        size_t hashes = proof.size / HASH_SIZE;
        if (((damage == HASH || damage == SHORT) && hashes == 0) || (damage == TWICE && count < 2))
                return -ENODATA;
        if (damage == LEAF)
                known[count / 2][3] ^= 1;
        else if (damage == HASH)
                proof.data[proof.size - 1] ^= 1;
        else if (damage == SHORT)
                hashes--;
        else if (damage == LONG) {
                buf_add(&proof, leaves[0], HASH_SIZE);
                hashes++;
        } else if (damage == OUTSIDE)
                places[count - 1] = n;
        else if (damage == TWICE)
                places[1] = places[0];
        else if (damage == NOTHING_KNOWN)
                count = 0;
        return merkle_check(n, places, (const uint8_t(*)[HASH_SIZE])known, count, (const void *)proof.data, hashes,
                            ret_root);
}

static void trees_prove_what_is_in_them(void) {
        uint8_t leaves[70][HASH_SIZE], root[HASH_SIZE], again[HASH_SIZE];
        const uint8_t(*all)[HASH_SIZE] = (const uint8_t(*)[HASH_SIZE])leaves;
        struct merkle m = {0};

        randombytes_buf(leaves, sizeof leaves);
        for (size_t n = 1; n <= ELEMENTSOF(leaves); n++) {
                merkle_add(&m, leaves[n - 1]);
                merkle_root(&m, root);
                slow_root(all, n, again);
                CHECK(memcmp(root, again, sizeof root) == 0);
                for (unsigned round = 0; round < 6; round++) {
                        bool wanted[70] = {0};

                        for (size_t i = 0; i < n; i++)
                                wanted[i] = round == 0 || randombytes_uniform(1u << round) == 0;
                        wanted[randombytes_uniform((uint32_t)n)] = true;
                        CHECK(prove_and_check(all, wanted, n, NONE, again) == 0 &&
                              memcmp(root, again, sizeof root) == 0);
                        for (unsigned d = LEAF; d < DAMAGES; d++) {
                                int r = prove_and_check(all, wanted, n, (enum damage)d, again);

                                if (r == -ENODATA)
                                        continue;
                                if (d == LEAF || d == HASH)
                                        CHECK(r == 0 && memcmp(root, again, sizeof root) != 0);
                                else
                                        CHECK(r == ERR_CORRUPT);
                        }
                }
        }
}

/* --- keys and checkpoints --- */

static struct keys *open_keys(struct test_folder *f, bool make) {
        struct keys *k = NULL;

        (void)keys_open(&k, f->fd, make, NULL);
        return k;
}

static void keys_sign_and_stay_private(void) {
        _cleanup_folder_ struct test_folder f;
        struct keys_signature s, bad;
        struct err err = {0};
        struct stat st;
        char one[LEDGER_KEY_TEXT], two[LEDGER_KEY_TEXT];

        test_folder_make(&f);
        CHECK(!open_keys(&f, false)); /* not made where nobody asked */
        struct keys *k = open_keys(&f, true), *again = open_keys(&f, true);
        assert(k && again);
        CHECK(fstatat(f.fd, KEYS_FILE, &st, 0) == 0 && (st.st_mode & 07777) == 0600);
        keys_fingerprint(keys_public(k), one);
        keys_fingerprint(keys_public(again), two);
        CHECK_STR(one, two);

        CHECK(keys_sign(k, "hello", 5, &s) == 0 && keys_verify(keys_public(again), "hello", 5, &s));
        CHECK(!keys_verify(keys_public(k), "hallo", 5, &s) && !keys_verify(keys_public(k), "hell", 4, &s));
        for (size_t i = 0; i < sizeof s; i++) { /* both signatures count */
                bad = s;
                ((uint8_t *)&bad)[i] ^= 1;
                CHECK(!keys_verify(keys_public(k), "hello", 5, &bad));
        }
        /* the other form of the same signature, which anybody can make: n - s, and the other recovery number */
        static const uint8_t order[32] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                          0xff, 0xff, 0xff, 0xff, 0xfe, 0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48,
                                          0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41};
        bad = s;
        int borrow = 0;
        for (int i = 31; i >= 0; i--) {
                int d = order[i] - s.secp256k1[32 + i] - borrow;
                borrow = d < 0;
                bad.secp256k1[32 + i] = (uint8_t)(d + 256 * borrow);
        }
        bad.secp256k1[64] ^= 1;
        CHECK(!keys_verify(keys_public(k), "hello", 5, &bad));

        struct test_folder other;
        test_folder_make(&other);
        struct keys *stranger = open_keys(&other, true);
        CHECK(stranger && !keys_verify(keys_public(stranger), "hello", 5, &s));
        keys_fingerprint(keys_public(stranger), two);
        CHECK(!str_eq(one, two));
        keys_close(stranger);
        test_folder_remove(&other);
        keys_close(k);
        keys_close(again);

        CHECK(fchmodat(f.fd, KEYS_FILE, 0640, 0) == 0 && keys_open(&k, f.fd, true, &err) == ERR_REFUSED);
        CHECK(fd_replace_file(f.fd, KEYS_FILE, 0600, "stockade-ledger-keys 1\n", 23) == 0);
        CHECK(keys_open(&k, f.fd, true, &err) == ERR_CORRUPT && err.hint[0]);
}

static void checkpoints_hold_what_they_say(void) {
        _cleanup_folder_ struct test_folder f;
        char data[CHECKPOINT_DATA_MAX], text[CHECKPOINT_TEXT_MAX], line[2048];
        struct line_clock clock = {0};
        struct checkpoint c = {.seq = 12, .from = 3, .to = 11, .root = {1, 2, 3}}, got;
        struct line l;
        uint8_t hash[HASH_SIZE];

        test_folder_make(&f);
        struct keys *k = open_keys(&f, true);
        assert(k);
        memset(c.head, 'a', sizeof c.head);
        line_time(&clock, 1767323045678901, c.time);
        size_t n = checkpoint_text(&c, text);
        CHECK(n == strlen(text));
        CHECK_STR(text, "stockade ledger checkpoint 1\nseq 12\ntime 2026-01-02T03:04:05.678901Z\nfrom 3\nto 11\nroot "
                        "0102030000000000000000000000000000000000000000000000000000000000\nhead "
                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
        int size = checkpoint_write(&c, k, data);
        CHECK(size > 0 && line_check_data(data, (size_t)size) == 0);
        struct line_new form = {.seq = 12,
                                .time_us = 1767323045678901,
                                .sandbox = {"", 0},
                                .actor = {"ledger", 6},
                                .kind = {"ledger.checkpoint", 17},
                                .data = {data, (size_t)size}};
        CHECK(line_size(&form) <= CHECKPOINT_LINE_MAX);
        n = line_write(&form, &clock, c.head, line, hash) - 1;
        CHECK(line_parse(line, n, &l) == 0 && checkpoint_read(&l, &got) == 0 && checkpoint_holds(&got));
        CHECK(memcmp(&got, &c, sizeof c) == 0);
        for (unsigned what = 0; what < 6; what++) {
                got = c;
                if (what == 0)
                        got.seq++;
                else if (what == 1)
                        got.from++;
                else if (what == 2)
                        got.to++;
                else if (what == 3)
                        got.root[31] ^= 1;
                else if (what == 4)
                        got.head[0] = 'b';
                else
                        got.time[0] = '3';
                CHECK(!checkpoint_holds(&got));
        }
        keys_close(k);
}

/* --- files --- */

static void the_head_is_whole(void) {
        _cleanup_folder_ struct test_folder f;
        _cleanup_fd_ int fd = -EBADF, reader = -EBADF, second = -EBADF;
        struct head h = {.count = 2, .seq = UINT64_MAX, .segment = 17, .size = 1ULL << 40, .hash = {9, 8, 7}},
                    got = {0};
        struct err err = {0};
        char *text;
        size_t size;

        test_folder_make(&f);
        CHECK(head_open(f.fd, false, &reader, &err) == -ENOENT);
        CHECK(head_open(f.fd, true, &fd, &err) == 0 && head_read(fd, &got, &err) == 0 && got.seq == 0 &&
              got.count == 1);
        CHECK(head_open(f.fd, true, &second, &err) == -EBUSY && strstr(err.hint, "one writer"));
        CHECK(head_open(f.fd, false, &reader, &err) == 0);
        CHECK(head_write(fd, &h) == 0 && head_read(reader, &got, &err) == 0 && memcmp(&h, &got, sizeof h) == 0);
        h.count++;
        h.seq--;
        CHECK(head_write(fd, &h) == 0 && head_read(reader, &got, &err) == 0 && memcmp(&h, &got, sizeof h) == 0);

        /* half of the last one: the one before counts; half of both: nothing does */
        CHECK(fd_read_file(f.fd, HEAD_FILE, 4096, true, &text, &size, NULL) == 0);
        for (size_t i = 0; i < size - 512; i += 13) {
                text[512 + i] ^= 1;
                CHECK(pwrite(fd, text, size, 0) == (ssize_t)size && head_read(reader, &got, &err) == 0 &&
                      got.count == 2);
                text[i] ^= 1;
                CHECK(pwrite(fd, text, size, 0) == (ssize_t)size && head_read(reader, &got, &err) == ERR_CORRUPT);
                text[512 + i] ^= 1;
                CHECK(pwrite(fd, text, size, 0) == (ssize_t)size && head_read(reader, &got, &err) == 0 &&
                      got.count == 3);
                text[i] ^= 1;
        }
        CHECK(ftruncate(fd, 20) == 0 && head_read(reader, &got, &err) == ERR_CORRUPT);
        free(text);
}

static void segments_are_named_and_searched(void) {
        _cleanup_folder_ struct test_folder f;
        _cleanup_buf_ struct buf all = {.max = 8 << 20};
        char name[SEGMENT_NAME], text[2048];
        uint64_t number, offsets[600], at;

        segment_name(42, name);
        CHECK_STR(name, "00000000000000000042.jsonl");
        CHECK(segment_number(name, &number) && number == 42);
        CHECK(!segment_number("42.jsonl", &number) && !segment_number("00000000000000000042.jsonl~", &number));
        CHECK(!segment_number("99999999999999999999.jsonl", &number) && !segment_number("keys", &number));

        test_folder_make(&f);
        for (uint64_t i = 0; i < ELEMENTSOF(offsets); i++) { /* lines of very different sizes */
                char data[1200];
                size_t pad = i * 7919 % 1100;

                (void)snprintf(data, sizeof data, "{\"x\":\"%0*d\"}", (int)pad + 1, 0);
                offsets[i] = all.size;
                size_t size = make_line(i + 100, data, text);
                buf_add(&all, text, size + 1);
        }
        CHECK(buf_ok(&all) && fd_replace_file(f.fd, name, 0600, all.data, all.size) == 0);
        _cleanup_fd_ int fd = segment_open(f.fd, 42, NULL);
        CHECK(fd >= 0);
        for (uint64_t i = 0; i < ELEMENTSOF(offsets); i++)
                CHECK(segment_seek(fd, all.size, i + 100, &at) == 0 && at == offsets[i]);
        CHECK(segment_seek(fd, all.size, 100 + ELEMENTSOF(offsets), &at) == 0 && at == all.size);
        CHECK(segment_seek(fd, all.size, 5, &at) == ERR_CORRUPT); /* it should be here and is not */
        CHECK(segment_open(f.fd, 43, NULL) == -ENOENT);
        CHECK(symlinkat("/etc/passwd", f.fd, "00000000000000000043.jsonl") == 0 && segment_open(f.fd, 43, NULL) < 0);
}

TEST_MAIN(TEST(lines_have_one_form), TEST(lines_are_strict), TEST(times_are_right), TEST(data_is_guarded),
          TEST(kinds_have_names), TEST(our_hash_is_blake2b), TEST(trees_prove_what_is_in_them),
          TEST(keys_sign_and_stay_private), TEST(checkpoints_hold_what_they_say), TEST(the_head_is_whole),
          TEST(segments_are_named_and_searched))
