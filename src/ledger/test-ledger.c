/* The ledger as a whole: what is appended is there, in order and durable, for readers and verifiers, after crashes and
 * full disks. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "ledger/test-ledger.h"

static int refused(const struct test_folder *f, struct err *err) {
        struct ledger_options o = {.dir = f->fd};
        struct ledger *l = NULL;
        int r = ledger_open(&l, &o, err);

        CHECK(r < 0);
        if (r == 0)
                ledger_close(l);
        return r;
}

/* --- appending and reading -------------------------------------------------------------------------------------- */

static void events_become_durable_in_order(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_reader *r = NULL;
        const char *text;
        size_t size;
        struct line line;
        uint8_t hash[HASH_SIZE];
        uint64_t seq;
        char hex[LINE_HEX];

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, 0);
        for (unsigned i = 1; i <= 100; i++)
                CHECK(add(l, A, i) == i);
        int64_t last = ledger_append(l, LEDGER_SANDBOX_STOP, B, "uid:7", "{\"why\":\"idle\"}");
        CHECK(last == 101);
        wait_for(l, last);
        CHECK(ledger_health(l) == 0);

        CHECK(ledger_reader_open(&r, f.fd, 0, NULL) == 0);
        for (uint64_t i = 1; i <= 101; i++)
                CHECK(ledger_reader_next(r, &text, &size, NULL) == 1 && line_parse(text, size, &line) == 0 &&
                      line.seq == i);
        CHECK(line_is(&line.kind, "sandbox.stop") && line_is(&line.data, "{\"why\":\"idle\"}") &&
              line_is(&line.sandbox, B));
        ledger_position(l, &seq, hash);
        line_hex(hash, sizeof hash, hex);
        CHECK(seq == 101 && memcmp(hex, line.hash, LINE_HEX) == 0);
        CHECK(ledger_reader_next(r, &text, &size, NULL) == 0);
        wait_for(l, add(l, A, 102));
        CHECK(ledger_reader_next(r, &text, &size, NULL) == 1 && line_parse(text, size, &line) == 0 && line.seq == 102);
        ledger_reader_close(r);
        ledger_close(l);

        struct ledger_verdict v;
        CHECK(verify(&f, &v) == 0 && v.events == 103 && v.checkpoints == 1 && v.unsigned_events == 0 && v.key[0]);
        l = OPEN(&f, 0); /* goes on where it was */
        CHECK(add(l, A, 1) == 104);
        ledger_close(l);
        check_good(&f, 105);
}

static void bad_events_are_refused(void) {
        _cleanup_folder_ struct test_folder f;
        _cleanup_free_ char *large = malloc(LEDGER_DATA_MAX + 100);

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, 0);
        assert(large);
        CHECK(ledger_append(l, LEDGER_EXEC, A, "x", "{\"a\":\"\n\"}") == -EINVAL);
        CHECK(ledger_append(l, LEDGER_EXEC, A, "x", "{}\n{\"seq\":9}") == -EINVAL);
        CHECK(ledger_append(l, LEDGER_EXEC, A, "x\"y", "{}") == -EINVAL);
        CHECK(ledger_append(l, LEDGER_EXEC, "a\",\"x\":\"", "x", "{}") == -EINVAL);
        CHECK(ledger_append(l, LEDGER_CHECKPOINT, "", "x", "{}") == -EINVAL);
        CHECK(ledger_append(l, LEDGER_KIND_COUNT, "", "x", "{}") == -EINVAL);
        memset(large, ' ', LEDGER_DATA_MAX + 99);
        large[LEDGER_DATA_MAX + 99] = '\0';
        CHECK(ledger_append(l, LEDGER_EXEC, A, "x", large) == -E2BIG);
        memcpy(large, "{\"a\":\"", 6);
        memcpy(large + LEDGER_DATA_MAX - 2, "\"}", 3);
        CHECK(ledger_append(l, LEDGER_EXEC, A, "x", large) == 1); /* the largest that there may be */
        ledger_close(l);
        check_good(&f, 2);
}

static void segments_end_with_checkpoints(void) {
        _cleanup_folder_ struct test_folder f;
        _cleanup_(segment_list_free) struct segment_list list = {0};
        struct ledger_verdict v;

        test_folder_make(&f);
        make_ledger(&f, 600);
        CHECK(segment_list(f.fd, &list, NULL) == 0 && list.count > 5);
        CHECK(verify(&f, &v) == 0 && v.checkpoints >= 600 / 20 && v.events == 600 + v.checkpoints);
        for (size_t i = 0; i < list.count; i++) {
                _cleanup_fd_ int fd = segment_open(f.fd, list.first[i], NULL);
                struct ledger_verdict one;
                struct stat st;

                CHECK(fstat(fd, &st) == 0 && st.st_size <= 16384 + 2048);
                CHECK(st.st_blocks * 512 <= st.st_size + 8192); /* what was taken ahead was given back */
                CHECK(ledger_verify_segment(fd, "alone", NULL, &one, NULL) == 0);
                CHECK(one.first_seq == list.first[i] && one.unsigned_events == 0 && one.beyond == 0);
        }
        for (uint64_t from = 1; from <= v.events; from += 7) { /* from anywhere, across all that follow */
                struct ledger_reader *r = NULL;
                const char *text;
                size_t size;
                uint64_t next = from;
                struct line line;

                CHECK(ledger_reader_open(&r, f.fd, from, NULL) == 0);
                while (ledger_reader_next(r, &text, &size, NULL) == 1)
                        CHECK(line_parse(text, size, &line) == 0 && line.seq == next++);
                CHECK(next == v.events + 1);
                ledger_reader_close(r);
        }
}

static void readers_follow_a_writer(void) {
        _cleanup_folder_ struct test_folder f;
        enum { READERS = 8, EVENTS = 3000 };
        struct ledger_reader *r[READERS];
        uint64_t next[READERS];

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, .segment_bytes = 20000, .delay_ms = 1);
        for (uint64_t i = 0; i < READERS; i++) {
                next[i] = 1 + i * 100;
                CHECK(ledger_reader_open(&r[i], f.fd, next[i], NULL) == 0);
        }
        int64_t last = 0;
        for (unsigned i = 0; i < EVENTS; i++) {
                last = add(l, A, i);
                if (i % 50 != 0)
                        continue;
                for (unsigned k = 0; k < READERS; k++) {
                        const char *text;
                        size_t size;
                        struct line line;
                        struct err err = {0};
                        int e;

                        while ((e = ledger_reader_next(r[k], &text, &size, &err)) == 1)
                                CHECK(line_parse(text, size, &line) == 0 && line.seq == next[k]++);
                        CHECK(e == 0);
                }
                if (i % 300 == 0)
                        wait_for(l, last);
        }
        wait_for(l, last);
        for (unsigned k = 0; k < READERS; k++) {
                const char *text;
                size_t size;

                while (ledger_reader_next(r[k], &text, &size, NULL) == 1)
                        next[k]++;
                CHECK(next[k] >= (uint64_t)last + 1);
                ledger_reader_close(r[k]);
        }
        ledger_close(l);
}

static void a_reader_waits_for_the_disk(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_reader *r = NULL;
        const char *text;
        size_t size;

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, .slow_fsync_ms = 1000);
        CHECK(ledger_reader_open(&r, f.fd, 1, NULL) == 0);
        uint64_t start = now_ms();
        int64_t seq = ledger_append(l, LEDGER_SANDBOX_CREATE, A, "uid:1", "{}");
        CHECK(now_ms() - start < 1000); /* append did not wait */
        struct stat st;
        for (unsigned i = 0; i < 100 && (fstatat(f.fd, "00000000000000000001.jsonl", &st, 0) < 0 || st.st_size == 0);
             i++)
                (void)usleep(2000);
        /* written, and not synced yet; unless this machine was busy for so long that it is */
        int seen = ledger_reader_next(r, &text, &size, NULL);
        CHECK(seen == 0 || ledger_durable(l) >= (uint64_t)seq);
        wait_for(l, seq);
        CHECK(now_ms() - start >= 1000);
        CHECK(seen == 1 || ledger_reader_next(r, &text, &size, NULL) == 1);
        ledger_reader_close(r);

        start = now_ms(); /* a thousand cost two syncs, not a thousand */
        for (unsigned i = 0; i < 1000; i++)
                seq = add(l, A, i);
        wait_for(l, seq);
        CHECK(now_ms() - start < 100000);
        ledger_close(l);
}

static void the_backlog_is_bounded(void) {
        _cleanup_folder_ struct test_folder f;
        int64_t r;
        unsigned taken = 0, kept = 0;

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, .slow_fsync_ms = 500, .backlog_bytes = 64 << 10);
        while ((r = ledger_append(l, LEDGER_FILE_READ, A, "x", "{\"path\":\"/etc/hosts\"}")) > 0)
                taken++;
        CHECK(r == -EAGAIN && taken > 300 && taken < 64 << 10);
        while ((r = ledger_append(l, LEDGER_RUN_END, A, "x", "{}")) > 0) /* room that is left for what has happened */
                kept++;
        CHECK(r == -EAGAIN && kept > 20);
        struct ledger_verdict v;
        ledger_close(l);
        CHECK(verify(&f, &v) == 0 && v.events - v.checkpoints == taken + kept);
}

static void checkpoints_come_by_themselves(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_verdict v;

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, .checkpoint_ms = 1000);
        wait_for(l, add(l, A, 1));
        CHECK(verify(&f, &v) == 0 && v.unsigned_events == 1 && v.checkpoints == 0);
        for (unsigned i = 0; i < 6000 && ledger_durable(l) < 2; i++)
                (void)usleep(10000);
        CHECK(verify(&f, &v) == 0 && v.unsigned_events == 0 && v.checkpoints == 1 && v.events == 2);
        (void)usleep(1500000);
        CHECK(ledger_durable(l) == 2); /* and not again and again */
        (void)add(l, A, 2);
        int64_t seq = ledger_checkpoint(l);
        CHECK(seq == 4 && ledger_checkpoint(l) == 4);
        wait_for(l, seq);
        CHECK(verify(&f, &v) == 0 && v.checkpoints == 2 && v.unsigned_events == 0);
        ledger_close(l);
        CHECK(verify(&f, &v) == 0 && v.events == 4); /* nothing to add */
}

/* --- after a crash ---------------------------------------------------------------------------------------------- */

static void append_bytes(const struct test_folder *f, const char *name, const void *bytes, size_t size) {
        _cleanup_fd_ int fd = openat(f->fd, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

        assert(fd >= 0 && fd_write_full(fd, bytes, size) == 0);
}

/* Opens, expects that so much was cut off and noted, adds an event and verifies. */
static void reopen_cut(const struct test_folder *f, uint64_t events, size_t cut) {
        struct ledger_reader *r = NULL;
        const char *text;
        size_t size;
        char want[80];
        struct line line = {0};

        struct ledger *l = OPEN(f, .segment_bytes = 16384);
        wait_for(l, add(l, A, 1));
        CHECK(ledger_reader_open(&r, f->fd, events + 1, NULL) == 0);
        CHECK(ledger_reader_next(r, &text, &size, NULL) == 1 && line_parse(text, size, &line) == 0);
        (void)snprintf(want, sizeof want, "{\"cut_bytes\":%zu,\"after\":%llu}", cut, (unsigned long long)events);
        if (cut > 0)
                CHECK(line_is(&line.kind, "ledger.repair") && line_is(&line.data, want));
        else
                CHECK(line_is(&line.kind, "net.use"));
        ledger_reader_close(r);
        ledger_close(l);
        check_good(f, events + 1 + (cut > 0));
}

static void torn_ends_are_cut_and_noted(void) {
        _cleanup_folder_ struct test_folder f, good;
        struct ledger_verdict v;
        char name[SEGMENT_NAME], zeros[5000] = {0};

        test_folder_make(&f);
        test_folder_make(&good);
        make_ledger(&good, 130);
        CHECK(verify(&good, &v) == 0);
        last_segment(&good, name);

        test_folder_copy(&good, &f);
        append_bytes(&f, name, "{\"seq\":", 7);
        reopen_cut(&f, v.events, 7);

        test_folder_empty(&f);
        test_folder_copy(&good, &f);
        append_bytes(&f, name, zeros, sizeof zeros); /* blocks that never got their bytes */
        reopen_cut(&f, v.events, sizeof zeros);

        test_folder_empty(&f);
        test_folder_copy(&good, &f);
        append_bytes(&f, name, "nonsense\n{\"seq\":2}\n", 19);
        reopen_cut(&f, v.events, 19);

        test_folder_empty(&f); /* the next segment was begun and has nothing whole */
        test_folder_copy(&good, &f);
        segment_name(v.events + 1, name);
        append_bytes(&f, name, "{\"se", 4);
        reopen_cut(&f, v.events, 4);

        test_folder_empty(&f);
        test_folder_copy(&good, &f);
        append_bytes(&f, name, "", 0);
        reopen_cut(&f, v.events, 0);

        test_folder_empty(&f); /* the very first line */
        struct ledger *l = OPEN(&f, 0);
        ledger_close(l);
        append_bytes(&f, "00000000000000000001.jsonl", "{\"seq\":1,", 9);
        reopen_cut(&f, 0, 9);
}

/* Whole lines behind the head were written and not acknowledged: they stay. */
static void whole_lines_are_kept(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_verdict v;
        struct head h;

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, .checkpoint_events = 1000);
        for (unsigned i = 0; i < 10; i++)
                (void)add(l, A, i);
        ledger_close(l);
        CHECK(verify(&f, &v) == 0 && v.events == 11);
        _cleanup_fd_ int fd = -EBADF;
        CHECK(head_open(f.fd, true, &fd, NULL) == 0 && head_read(fd, &h, NULL) == 0);
        struct ledger_reader *r = NULL;
        const char *text = NULL;
        size_t size = 0;
        struct line line;
        CHECK(ledger_reader_open(&r, f.fd, 4, NULL) == 0 && ledger_reader_next(r, &text, &size, NULL) == 1);
        CHECK(line_parse(text, size, &line) == 0);
        /* the head as it was after event 4 */
        struct head before = {.count = h.count + 1, .seq = 4, .segment = 1};
        CHECK(line_unhex(line.hash, HASH_SIZE, before.hash));
        _cleanup_fd_ int segment = segment_open(f.fd, 1, NULL);
        CHECK(segment_seek(segment, h.size, 5, &before.size) == 0 && head_write(fd, &before) == 0);
        ledger_reader_close(r);
        CHECK(verify(&f, &v) == 0 && v.events == 4 && v.beyond > 0);
        fd_close(&fd); /* and with it the lock */
        l = OPEN(&f, 0);
        CHECK(ledger_durable(l) == 11);
        ledger_close(l);
        check_good(&f, 11);
}

static void what_was_durable_must_be_there(void) {
        _cleanup_folder_ struct test_folder f, good;
        struct err err = {0};
        char name[SEGMENT_NAME];
        struct stat st;

        test_folder_make(&f);
        test_folder_make(&good);
        make_ledger(&good, 130);
        last_segment(&good, name);

        test_folder_copy(&good, &f);
        _cleanup_fd_ int fd = openat(f.fd, name, O_RDWR | O_CLOEXEC);
        CHECK(fstat(fd, &st) == 0 && ftruncate(fd, st.st_size - 1) == 0); /* one byte of what was acknowledged */
        CHECK(refused(&f, &err) == ERR_CORRUPT && strstr(err.text, "lost") &&
              strstr(err.hint, "stockade ledger verify"));
        CHECK(fstat(fd, &st) == 0 && st.st_size > 0); /* and it was not touched */
        CHECK(ftruncate(fd, 0) == 0 && refused(&f, &err) == ERR_CORRUPT);
        CHECK(unlinkat(f.fd, name, 0) == 0 && refused(&f, &err) == ERR_CORRUPT);

        test_folder_empty(&f);
        test_folder_copy(&good, &f);
        fd_close(&fd);
        fd = openat(f.fd, name, O_RDWR | O_CLOEXEC);
        CHECK(pwrite(fd, "X", 1, 300) == 1 && refused(&f, &err) == ERR_CORRUPT);

        test_folder_empty(&f);
        test_folder_copy(&good, &f);
        CHECK(unlinkat(f.fd, "keys", 0) == 0 && refused(&f, &err) == -ENOENT && err.hint[0]);
        test_folder_empty(&f);
        test_folder_copy(&good, &f);
        struct test_folder other;
        test_folder_make(&other);
        ledger_close(OPEN(&other, 0));
        char *keys;
        size_t size;
        CHECK(fd_read_file(other.fd, "keys", 4096, true, &keys, &size, NULL) == 0);
        CHECK(fd_replace_file(f.fd, "keys", 0600, keys, size) == 0);
        CHECK(refused(&f, &err) == ERR_CORRUPT && strstr(err.text, "other keys"));
        free(keys);
        test_folder_remove(&other);

        struct ledger *l = OPEN(&good, 0);
        CHECK(refused(&good, &err) == -EBUSY);
        ledger_close(l);
}

/* --- a disk that does not take it ------------------------------------------------------------------------------- */

static void limit_files(rlim_t size) {
        struct rlimit l;

        (void)signal(SIGXFSZ, SIG_IGN);
        assert(getrlimit(RLIMIT_FSIZE, &l) == 0);
        l.rlim_cur = size == RLIM_INFINITY ? l.rlim_max : size;
        assert(setrlimit(RLIMIT_FSIZE, &l) == 0);
}

static void wait_for_health(struct ledger *l, bool good) {
        for (unsigned i = 0; i < 300 && (ledger_health(l) == 0) != good; i++) {
                struct pollfd p = {.fd = ledger_fd(l), .events = POLLIN};
                uint64_t n;

                (void)poll(&p, 1, 100);
                (void)!read(ledger_fd(l), &n, sizeof n);
        }
        CHECK((ledger_health(l) == 0) == good);
}

static void a_full_disk_leaves_no_gap(void) {
        _cleanup_folder_ struct test_folder f;
        struct ledger_verdict v;
        int64_t last = 0;

        test_folder_make(&f);
        struct ledger *l = OPEN(&f, 0);
        wait_for(l, add(l, A, 0));
        for (unsigned round = 0; round < 5; round++) {
                struct stat st;

                CHECK(fstatat(f.fd, "00000000000000000001.jsonl", &st, 0) == 0);
                limit_files((rlim_t)st.st_size + 500 + 77 * round); /* ends in the middle of a line */
                for (unsigned i = 0; i < 10; i++)
                        last = add(l, A, i);
                CHECK(last > 0);
                ledger_hurry(l);
                wait_for_health(l, false);
                CHECK(ledger_health(l) == -EFBIG && ledger_durable(l) < (uint64_t)last);
                CHECK(ledger_append(l, LEDGER_SANDBOX_CREATE, B, "uid:1", "{}") ==
                      -EFBIG); /* not done, so not recorded */
                CHECK(ledger_append(l, LEDGER_SANDBOX_PAUSE, A, "operator", "{}") == last + 1);
                CHECK(verify(&f, &v) == 0 && v.last_seq == ledger_durable(l));
                limit_files(RLIM_INFINITY);
                wait_for_health(l, true);
                wait_for(l, last + 1);
                CHECK(ledger_append(l, LEDGER_SANDBOX_CREATE, B, "uid:1", "{}") == last + 2);
        }
        ledger_close(l);
        CHECK(verify(&f, &v) == 0 && v.events == 1 + 5 * 12 + v.checkpoints);

        /* and one that stays full: closing comes to an end, the file to the end of a line */
        l = OPEN(&f, 0);
        limit_files(1);
        (void)add(l, A, 1);
        wait_for_health(l, false);
        ledger_close(l);
        limit_files(RLIM_INFINITY);
        uint64_t events = v.events;
        CHECK(verify(&f, &v) == 0 && v.events == events && v.beyond == 0);
}

TEST_MAIN(TEST(events_become_durable_in_order), TEST(bad_events_are_refused), TEST(segments_end_with_checkpoints),
          TEST(readers_follow_a_writer), TEST(a_reader_waits_for_the_disk), TEST(the_backlog_is_bounded),
          TEST(checkpoints_come_by_themselves), TEST(torn_ends_are_cut_and_noted), TEST(whole_lines_are_kept),
          TEST(what_was_durable_must_be_there), TEST(a_full_disk_leaves_no_gap))
