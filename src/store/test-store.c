/* The store: what is put comes back, also after a crash, from older schemas, and when the disk was full for a while. */
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/test-folder.h"
#include "base/test.h"
#include "store/family.h"
#include "store/migrate.h"

#define _cleanup_folder_ _cleanup_(test_folder_remove)

static struct store *open_store(const struct test_folder *f) {
        struct err err = {0};
        struct store *s = NULL;

        if (store_open(&s, f->path, &err) < 0)
                (void)printf("# %s\n", err.text);
        assert(s);
        return s;
}

static void wait_for(struct store *s, uint64_t ticket) {
        store_hurry(s);
        while (store_committed(s) < ticket) {
                struct pollfd p = {.fd = store_fd(s), .events = POLLIN};
                uint64_t n;

                assert(poll(&p, 1, 60000) == 1);
                (void)!read(store_fd(s), &n, sizeof n);
        }
}

struct found {
        size_t count, size;
        char *rows; /* the structs, one after another, their blobs gone */
};

static int take(void *data, const void *row) {
        struct found *f = data;

        f->rows = realloc(f->rows, (f->count + 1) * f->size);
        assert(f->rows);
        memcpy(f->rows + f->count++ * f->size, row, f->size);
        return 0;
}

static void found_free(struct found *f) {
        free(f->rows);
}
#define _cleanup_found_ _cleanup_(found_free)

static void load(struct store *s, enum store_family family, size_t size, struct found *ret) {
        struct err err = {0};

        *ret = (struct found){.size = size};
        int r = store_load(s, family, take, ret, &err);
        if (r < 0)
                (void)printf("# %s\n", err.text);
        CHECK(r == 0);
}

static size_t count(struct store *s, enum store_family family, size_t size) {
        _cleanup_found_ struct found f;

        load(s, family, size, &f);
        return f.count;
}

static struct store_sandbox sandbox(const char *id, uint64_t created) {
        struct store_sandbox s = {.owner = "uid:1000",
                                  .name = "work",
                                  .state = "running",
                                  .reason = "",
                                  .profile = "medium",
                                  .driver = "native",
                                  .driver_why = "it was asked for",
                                  .image = "00000000000000aa",
                                  .disk = "00000000000000bb",
                                  .layers = "00000000000000cc 00000000000000dd",
                                  .origin = "00000000000000ee",
                                  .created_ms = created,
                                  .started_ms = 2,
                                  .ended_ms = 3,
                                  .used_ms = 4,
                                  .generation = 5,
                                  .next_run = 6,
                                  .cpu_us = UINT64_MAX,
                                  .policy = "name: x\n",
                                  .policy_size = 8,
                                  .plan = "p\0lan",
                                  .plan_size = 5};

        (void)snprintf(s.id, sizeof s.id, "%s", id);
        return s;
}

static struct store_run run(const char *id, uint64_t number) {
        struct store_run r = {.number = number,
                              .generation = 1,
                              .state = "ended",
                              .reason = "exited",
                              .status = -7,
                              .terminal = true,
                              .timeout_ms = UINT64_MAX,
                              .started_ms = number,
                              .ended_ms = 9,
                              .cpu_us = 10,
                              .memory_peak = 11,
                              .out_bytes = 12,
                              .err_bytes = 13,
                              .command = "[\"id\"]",
                              .command_size = 6};

        (void)snprintf(r.sandbox, sizeof r.sandbox, "%s", id);
        return r;
}

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbb"

/* --- rows --- */

/* Column by column: structs have gaps. */
static bool same_row(const struct family *f, const void *a, const void *b) {
        bool same = true;

        for (size_t i = 0; i < f->column_count; i++) {
                const struct family_column *c = &f->columns[i];
                const char *p = (const char *)a + c->offset, *q = (const char *)b + c->offset;

                if (c->kind == FAMILY_TEXT)
                        same &= str_eq(p, q);
                else if (c->kind != FAMILY_BLOB)
                        same &= memcmp(p, q, c->size) == 0;
                else {
                        size_t n = *(const size_t *)(const void *)((const char *)a + c->size_offset);
                        size_t m = *(const size_t *)(const void *)((const char *)b + c->size_offset);
                        const void *x = *(const void *const *)(const void *)p,
                                   *y = *(const void *const *)(const void *)q;

                        same &= n == m && !x == !y && (n == 0 || memcmp(x, y, n) == 0);
                }
        }
        return same;
}

struct expected {
        const struct family *family;
        const void *row;
        unsigned seen;
};

static int is_same(void *data, const void *row) {
        struct expected *x = data;

        x->seen++;
        CHECK(same_row(x->family, row, x->row));
        return 0;
}

static void rows_come_back(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_sandbox box = sandbox(A, 1);
        struct store_run one = run(A, 3);
        struct store_disk disk = {
                .id = A, .owner = "uid:1", .size = 1ULL << 40, .inodes = 7, .sealed = true, .created_ms = 1};
        struct store_snapshot shot = {.id = B,
                                      .sandbox = A,
                                      .owner = "uid:1",
                                      .name = "n",
                                      .state = "ready",
                                      .image = A,
                                      .layers = B,
                                      .profile = "low",
                                      .created_ms = 1,
                                      .ledger_seq = 2,
                                      .bytes = 3,
                                      .pause_us = 4,
                                      .policy = "",
                                      .policy_size = 0,
                                      .plan = "x",
                                      .plan_size = 1};
        struct store_image image = {.id = A,
                                    .owner = "uid:1",
                                    .name = "debian",
                                    .about = "a \"b\" ü",
                                    .created_ms = 1,
                                    .bytes = 2,
                                    .entries = 3};
        struct store_request request = {.owner = "uid:1",
                                        .key = "k'1",
                                        .body_hash = {1, 2, 0, 255},
                                        .created_ms = 5,
                                        .answer = "{}",
                                        .answer_size = 2};
        struct store_revoked gone = {
                .jti = "0123456789abcdef0123456789abcdef", .owner = "eth:0x1", .revoked_ms = 1, .expires_ms = 2};
        struct store_capability token = {.jti = "0123456789abcdef0123456789abcdef",
                                         .owner = "eth:0x1",
                                         .about = "ci",
                                         .created_ms = 1,
                                         .expires_ms = 2,
                                         .used_ms = 3,
                                         .revoked = true,
                                         .grant = "{}",
                                         .grant_size = 2};
        struct store_ssh_key key = {.sandbox = A,
                                    .fingerprint = "SHA256:x",
                                    .username = "agent",
                                    .type = "ssh-ed25519",
                                    .comment = "a \"b\" ü",
                                    .created_ms = 1,
                                    .capability = "0123456789abcdef0123456789abcdef",
                                    .expires_ms = 2};
        struct store_data_key data_key = {.id = A, .created_ms = 1, .wrapped = "\x01\0wrapped", .wrapped_size = 9};
        struct store_secret secret = {
                .sandbox = A, .name = "TOKEN", .set_ms = 1, .sealed = "\x01\0sealed", .sealed_size = 8};
        struct expected rows[] = {
                [STORE_SANDBOX] = {&family_sandbox, &box},  [STORE_RUN] = {&family_run, &one},
                [STORE_DISK] = {&family_disk, &disk},       [STORE_SNAPSHOT] = {&family_snapshot, &shot},
                [STORE_IMAGE] = {&family_image, &image},    [STORE_REQUEST] = {&family_request, &request},
                [STORE_REVOKED] = {&family_revoked, &gone}, [STORE_CAPABILITY] = {&family_capability, &token},
                [STORE_SSH_KEY] = {&family_ssh_key, &key},  [STORE_DATA_KEY] = {&family_data_key, &data_key},
                [STORE_SECRET] = {&family_secret, &secret}};
        static_assert(ELEMENTSOF(rows) == STORE_FAMILIES, "a family that is not tested");

        test_folder_make(&f);
        struct store *s = open_store(&f);
        uint64_t last = 0;
        for (size_t i = 0; i < STORE_FAMILIES; i++) {
                uint64_t ticket = store_put(s, (enum store_family)i, rows[i].row);
                CHECK(ticket == last + 1);
                last = ticket;
        }
        wait_for(s, last);
        CHECK(store_committed(s) == last);
        store_close(s);
        s = open_store(&f);
        for (size_t i = 0; i < STORE_FAMILIES; i++)
                CHECK(store_load(s, (enum store_family)i, is_same, &rows[i], NULL) == 0 && rows[i].seen == 1);
        store_close(s);
}

static int policy_of(void *data, const void *row) {
        const struct store_sandbox *s = row;

        (void)snprintf(data, 40, "%s:%.*s:%.*s", s->state, (int)s->policy_size, (const char *)s->policy,
                       (int)s->plan_size, (const char *)s->plan);
        return 0;
}

static int answer_of(void *data, const void *row) {
        const struct store_request *r = row;

        (void)snprintf(data, 40, "%.*s", (int)r->answer_size, r->answer ? (const char *)r->answer : "");
        return 0;
}

static void putting_again_replaces(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_sandbox box = sandbox(A, 1);
        struct store_run one = run(A, 1);
        struct store_request request = {.owner = "o", .key = "k", .answer = "old", .answer_size = 3};
        char text[40];

        test_folder_make(&f);
        struct store *s = open_store(&f);
        box.plan_size = 1;
        (void)store_put(s, STORE_SANDBOX, &box);
        (void)store_put(s, STORE_RUN, &one);
        (void)snprintf(box.state, sizeof box.state, "stopped");
        box.policy = box.plan = one.command = NULL;
        one.command_size = 0;
        (void)store_put(s, STORE_SANDBOX, &box);
        (void)store_put(s, STORE_RUN, &one);
        (void)store_put(s, STORE_REQUEST, &request);
        request.answer = NULL;
        wait_for(s, store_put(s, STORE_REQUEST, &request));
        CHECK(store_load(s, STORE_SANDBOX, policy_of, text, NULL) == 0);
        CHECK_STR(text, "stopped:name: x\n:p"); /* what was frozen stays */
        CHECK(store_load(s, STORE_REQUEST, answer_of, text, NULL) == 0);
        CHECK_STR(text, "");

        _cleanup_found_ struct found runs;
        load(s, STORE_RUN, sizeof one, &runs);
        CHECK(runs.count == 1); /* it did not go when its sandbox was written again */
        CHECK(((const struct store_run *)(const void *)runs.rows)->command_size == 6);

        box.policy = "";
        box.policy_size = 0;
        wait_for(s, store_put(s, STORE_SANDBOX, &box));
        CHECK(store_load(s, STORE_SANDBOX, policy_of, text, NULL) == 0);
        CHECK_STR(text, "stopped::p"); /* empty is not none */
        store_close(s);
}

static void runs_go_with_their_sandbox(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_sandbox box = sandbox(A, 1), other = sandbox(B, 2);
        struct store_run one = run(A, 1), two = run(B, 1);

        test_folder_make(&f);
        struct store *s = open_store(&f);
        (void)store_put(s, STORE_SANDBOX, &box);
        (void)store_put(s, STORE_SANDBOX, &other);
        (void)store_put(s, STORE_RUN, &one);
        (void)store_put(s, STORE_RUN, &two);
        (void)store_remove(s, STORE_SANDBOX, &box);
        wait_for(s, store_put(s, STORE_RUN, &one)); /* too late */
        CHECK(store_health(s) == 0);
        CHECK(count(s, STORE_SANDBOX, sizeof box) == 1);
        _cleanup_found_ struct found runs;
        load(s, STORE_RUN, sizeof one, &runs);
        CHECK(runs.count == 1);
        CHECK_STR(((const struct store_run *)(const void *)runs.rows)->sandbox, B);
        wait_for(s, store_remove(s, STORE_RUN, &two));
        CHECK(count(s, STORE_RUN, sizeof one) == 0);
        store_close(s);
}

static int numbers(void *data, const void *row) {
        char *text = data;
        size_t n = strlen(text);

        (void)snprintf(text + n, 100 - n, "%llu ", (unsigned long long)((const struct store_run *)row)->number);
        return 0;
}

static int stop(void *data, const void *row) {
        (void)data;
        (void)row;
        return -ECANCELED;
}

static void runs_newest_first(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_sandbox box = sandbox(A, 1), other = sandbox(B, 1);
        char text[100] = "";

        test_folder_make(&f);
        struct store *s = open_store(&f);
        (void)store_put(s, STORE_SANDBOX, &box);
        (void)store_put(s, STORE_SANDBOX, &other);
        uint64_t last = 0;
        for (uint64_t i = 1; i <= 20; i++) {
                struct store_run r = run(i % 5 == 0 ? B : A, i);
                last = store_put(s, STORE_RUN, &r);
        }
        wait_for(s, last);
        CHECK(store_runs(s, A, 0, 4, numbers, text, NULL) == 0);
        CHECK_STR(text, "19 18 17 16 ");
        text[0] = '\0';
        CHECK(store_runs(s, A, 4, 100, numbers, text, NULL) == 0);
        CHECK_STR(text, "3 2 1 ");
        CHECK(store_runs(s, "' OR 1 --", 0, 100, stop, NULL, NULL) == 0);
        CHECK(store_runs(s, A, 0, 1, stop, NULL, NULL) == -ECANCELED);
        store_close(s);
}

static void oldest_first_and_in_bulk(void) {
        _cleanup_folder_ struct test_folder f;
        enum { MANY = 10000 };
        uint64_t last = 0;

        test_folder_make(&f);
        struct store *s = open_store(&f);
        for (unsigned i = 0; i < MANY; i++) {
                struct store_disk d = {.created_ms = MANY - i};
                (void)snprintf(d.id, sizeof d.id, "%016x", i);
                uint64_t ticket = store_put(s, STORE_DISK, &d);
                CHECK(ticket == last + 1);
                last = ticket;
        }
        wait_for(s, last);
        _cleanup_found_ struct found disks;
        load(s, STORE_DISK, sizeof(struct store_disk), &disks);
        CHECK(disks.count == MANY);
        const struct store_disk *d = (const void *)disks.rows;
        bool sorted = true;
        for (size_t i = 1; i < disks.count; i++)
                sorted &= d[i].created_ms > d[i - 1].created_ms;
        CHECK(sorted);
        store_close(s);
}

static void groups_are_whole(void) {
        _cleanup_folder_ struct test_folder f;
        enum { MANY = 9000 }; /* more than a transaction has otherwise */
        struct store_disk d = {.created_ms = 1};

        test_folder_make(&f);
        struct store *s = open_store(&f);
        (void)snprintf(d.id, sizeof d.id, "before");
        uint64_t before = store_put(s, STORE_DISK, &d), last = 0;
        store_begin(s);
        for (unsigned i = 0; i < MANY; i++) {
                (void)snprintf(d.id, sizeof d.id, "%016x", i);
                last = store_put(s, STORE_DISK, &d);
                CHECK(last == before + i + 1);
        }
        wait_for(s, before); /* what came before is not held up */
        (void)usleep(50000);
        CHECK(store_committed(s) == before && count(s, STORE_DISK, sizeof d) == 1);
        store_end(s);
        size_t seen;
        store_hurry(s);
        do { /* all at once for everybody who looks */
                seen = count(s, STORE_DISK, sizeof d);
                CHECK(seen == 1 || seen == 1 + MANY);
        } while (store_committed(s) < last);
        CHECK(store_committed(s) == last && count(s, STORE_DISK, sizeof d) == 1 + MANY);
        store_begin(s); /* an empty one, and one that never ends */
        store_end(s);
        store_begin(s);
        CHECK(store_remove(s, STORE_DISK, &d) == last + 1);
        store_close(s);
        s = open_store(&f);
        CHECK(count(s, STORE_DISK, sizeof d) == 1 + MANY);
        store_close(s);
}

/* --- schemas --- */

static sqlite3 *raw(const struct test_folder *f) {
        char path[128];
        sqlite3 *db = NULL;

        (void)snprintf(path, sizeof path, "%s/store.db", f->path);
        _cleanup_fd_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert(fd >= 0 && db_open(&db, path, true, NULL) == 0);
        return db;
}

/* Keys for SSH go with their sandbox, and one that comes too late is not kept. */
static void keys_go_with_their_sandbox(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_sandbox box = sandbox(A, 1);
        struct store_ssh_key key = {.sandbox = A, .fingerprint = "SHA256:x"},
                             other = {.sandbox = A, .fingerprint = "y"};

        test_folder_make(&f);
        struct store *s = open_store(&f);
        (void)store_put(s, STORE_SANDBOX, &box);
        (void)store_put(s, STORE_SSH_KEY, &key);
        wait_for(s, store_put(s, STORE_SSH_KEY, &other));
        CHECK(count(s, STORE_SSH_KEY, sizeof key) == 2);
        wait_for(s, store_remove(s, STORE_SSH_KEY, &other));
        CHECK(count(s, STORE_SSH_KEY, sizeof key) == 1);
        (void)store_remove(s, STORE_SANDBOX, &box);
        wait_for(s, store_put(s, STORE_SSH_KEY, &other));
        CHECK(count(s, STORE_SSH_KEY, sizeof key) == 0);
        store_close(s);
}

static int whose_key(void *data, const void *row) {
        const struct store_ssh_key *k = row;

        buf_printf(data, "%s %llu;", k->capability, (unsigned long long)k->expires_ms);
        return 0;
}

static void check_whose(struct store *s, const char *expected) {
        _cleanup_buf_ struct buf b = {0};

        buf_str(&b, "");
        CHECK(store_load(s, STORE_SSH_KEY, whose_key, &b, NULL) == 0);
        CHECK_STR(b.data ? b.data : "", expected);
}

/* One that its owner let in stays the owner's; one of a capability is that of whoever let it in last. */
static void keys_of_capabilities(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_sandbox box = sandbox(A, 1);
        struct store_ssh_key mine = {.sandbox = A, .fingerprint = "x"},
                             first = {.sandbox = A, .fingerprint = "x", .capability = "c1", .expires_ms = 5},
                             second = {.sandbox = A, .fingerprint = "x", .capability = "c2", .expires_ms = 6};

        test_folder_make(&f);
        struct store *s = open_store(&f);
        (void)store_put(s, STORE_SANDBOX, &box);
        wait_for(s, store_put(s, STORE_SSH_KEY, &first));
        check_whose(s, "c1 5;");
        wait_for(s, store_put(s, STORE_SSH_KEY, &second));
        wait_for(s, store_remove(s, STORE_SSH_KEY, &first)); /* it is not the first one's any more */
        check_whose(s, "c2 6;");
        wait_for(s, store_remove(s, STORE_SSH_KEY, &second));
        check_whose(s, "");
        (void)store_put(s, STORE_SSH_KEY, &first);
        wait_for(s, store_put(s, STORE_SSH_KEY, &mine));
        wait_for(s, store_put(s, STORE_SSH_KEY, &first));
        wait_for(s, store_remove(s, STORE_SSH_KEY, &first));
        check_whose(s, " 0;");
        store_close(s);
}

static int is_revoked(void *data, const void *row) {
        const struct store_capability *t = row;

        *(bool *)data = t->revoked && t->used_ms == 9 && t->grant_size == 2;
        return 0;
}

/* A token that was used while it was revoked is not alive again because its last use is written down later. */
static void what_is_revoked_stays_revoked(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_capability token = {
                .jti = "x", .owner = "o", .expires_ms = 2, .revoked = true, .grant = "{}", .grant_size = 2};
        bool good = false;

        test_folder_make(&f);
        struct store *s = open_store(&f);
        (void)store_put(s, STORE_CAPABILITY, &token);
        token.revoked = false;
        token.used_ms = 9;
        token.grant = NULL;
        wait_for(s, store_put(s, STORE_CAPABILITY, &token));
        CHECK(store_load(s, STORE_CAPABILITY, is_revoked, &good, NULL) == 0 && good);
        store_close(s);
}

/* Of version 2; later ones added tables. */
#define ROWS_2                                                                                                         \
        "INSERT INTO sandbox VALUES ('" A "','uid:7','old','stopped','exited','low','native','','','','',"             \
        " 1,2,3,4,5,6,7);"                                                                                             \
        "INSERT INTO sandbox_frozen VALUES ('" A "', x'706f6c', x'706c');"                                             \
        "INSERT INTO run VALUES ('" A "', 4, 1, 'ended', 'exited', 0, 0, 1, 2, 3, 4, 5, 6, x'5b5d', -1);"              \
        "INSERT INTO snapshot VALUES ('" B "','" A "','uid:7','s','ready','','','low',1,2,3,NULL,NULL,9);"             \
        "INSERT INTO image VALUES ('" A "','uid:7','i','about',1,2,3);"                                                \
        "INSERT INTO disk VALUES ('" A "','uid:7',1,2,0,3);"                                                           \
        "INSERT INTO request VALUES ('uid:7','k',zeroblob(32),1,NULL);"

#define ROWS_3                                                                                                         \
        ROWS_2 "INSERT INTO revoked VALUES ('x','eth:0x1',1,2);"                                                       \
               "INSERT INTO capability VALUES ('y','eth:0x1','ci',1,2,3,0,x'7b7d');"

#define ROWS_5                                                                                                         \
        "INSERT INTO data_key VALUES ('" A "',1,x'01');"                                                               \
        "INSERT INTO secret VALUES ('" A "','N',1,x'02');"

#define ROWS_4 ROWS_3 "INSERT INTO ssh_key VALUES ('" A "','SHA256:x','agent','ssh-ed25519','',1);"

static void every_older_schema_comes_along(void) {
        /* rows as that version had them */
        static const char *const rows[] = {
                [1] = "INSERT INTO sandbox VALUES ('" A "','uid:7','old','stopped','exited','low','native','','','','',"
                      " 1,2,3,4,5,6,7, x'706f6c', x'706c');"
                      "INSERT INTO run VALUES ('" A "', 4, 1, 'ended', 'exited', 0, 0, 1, 2, 3, 4, 5, 6, x'5b5d');"
                      "INSERT INTO snapshot VALUES ('" B "','" A "','uid:7','s','ready','','','low',1,2,3,NULL,NULL);"
                      "INSERT INTO image VALUES ('" A "','uid:7','i','about',1,2,3);"
                      "INSERT INTO disk VALUES ('" A "','uid:7',1,2,0,3);"
                      "INSERT INTO request VALUES ('uid:7','k',zeroblob(32),1,NULL);",
                [2] = ROWS_2,
                [3] = ROWS_3,
                [4] = ROWS_4,
                [5] = ROWS_4 ROWS_5,
                [6] = ROWS_3 "INSERT INTO ssh_key VALUES ('" A "','SHA256:x','agent','ssh-ed25519','',1,'',0);" ROWS_5,
        };

        for (unsigned version = 1; version < migrate_newest(); version++) {
                _cleanup_folder_ struct test_folder f;
                char text[40], name[40];

                assert(version < ELEMENTSOF(rows)); /* a new version needs rows of the one before */
                test_folder_make(&f);
                sqlite3 *db = raw(&f);
                assert(migrate_to(db, "test", version, NULL) == 0);
                CHECK(db_exec(db, rows[version]) == 0);
                db_close(&db);

                struct store *s = open_store(&f);
                CHECK(store_load(s, STORE_SANDBOX, policy_of, text, NULL) == 0);
                CHECK_STR(text, "stopped:pol:pl");
                _cleanup_found_ struct found runs;
                load(s, STORE_RUN, sizeof(struct store_run), &runs);
                CHECK(runs.count == 1 && ((const struct store_run *)(const void *)runs.rows)->timeout_ms == UINT64_MAX);
                CHECK(count(s, STORE_SNAPSHOT, sizeof(struct store_snapshot)) == 1);
                CHECK(count(s, STORE_IMAGE, sizeof(struct store_image)) == 1);
                CHECK(count(s, STORE_DISK, sizeof(struct store_disk)) == 1);
                CHECK(count(s, STORE_REQUEST, sizeof(struct store_request)) == 1);
                CHECK(count(s, STORE_REVOKED, sizeof(struct store_revoked)) == (version >= 3));
                CHECK(count(s, STORE_CAPABILITY, sizeof(struct store_capability)) == (version >= 3));
                CHECK(count(s, STORE_SSH_KEY, sizeof(struct store_ssh_key)) == (version >= 4));
                CHECK(count(s, STORE_DATA_KEY, sizeof(struct store_data_key)) == (version >= 5));
                struct store_secret secret = {.sandbox = A, .name = "N", .sealed = "s", .sealed_size = 1};
                wait_for(s, store_put(s, STORE_SECRET, &secret));
                CHECK(count(s, STORE_SECRET, sizeof secret) == 1); /* the new table is whole */
                store_close(s);

                /* what it was before is kept beside it */
                char path[128];
                unsigned kept = 0;
                (void)snprintf(name, sizeof name, "store.db.before-%u", version + 1);
                (void)snprintf(path, sizeof path, "%s/%s", f.path, name);
                CHECK(db_open(&db, path, false, NULL) == 0 && migrate_version(db, path, &kept, NULL) == 0);
                CHECK(kept == version);
                db_close(&db);
                s = open_store(&f); /* and nothing is left to do */
                store_close(s);
        }
}

static int refused(const struct test_folder *f, struct err *err) {
        struct store *s = NULL;
        int r = store_open(&s, f->path, err);

        CHECK(r < 0 && !s);
        return r;
}

static void newer_and_foreign_are_refused(void) {
        _cleanup_folder_ struct test_folder f;
        struct err err = {0};
        char sql[100];

        test_folder_make(&f);
        store_close(open_store(&f));
        sqlite3 *db = raw(&f);
        (void)snprintf(sql, sizeof sql, "INSERT INTO schema_version VALUES (%u, 0, '9.9')", migrate_newest() + 1);
        CHECK(db_exec(db, sql) == 0);
        db_close(&db);
        CHECK(refused(&f, &err) == ERR_REFUSED);
        CHECK(strstr(err.text, "newer build") && err.hint[0]);

        test_folder_empty(&f);
        db = raw(&f);
        CHECK(db_exec(db, "CREATE TABLE t (x)") == 0);
        db_close(&db);
        CHECK(refused(&f, &err) == ERR_REFUSED);
        CHECK(strstr(err.text, "not a store"));
}

/* --- damage --- */

static void fill(struct store *s) {
        uint64_t last = 0;

        for (unsigned i = 0; i < 500; i++) {
                char id[17];
                (void)snprintf(id, sizeof id, "%016x", i);
                struct store_sandbox box = sandbox(id, i);
                last = store_put(s, STORE_SANDBOX, &box);
        }
        wait_for(s, last);
}

static void damage_is_named(void) {
        static const struct {
                off_t from;
                size_t size;
        } places[] = {{0, 100}, {100, 60}, {4096, 4096}, {8 * 4096, 4096}, {20 * 4096 + 10, 2000}};
        _cleanup_folder_ struct test_folder f, good;
        char noise[4096];

        memset(noise, 0xa5, sizeof noise);
        test_folder_make(&f);
        test_folder_make(&good);
        struct store *s = open_store(&good);
        fill(s);
        store_close(s);
        store_close(open_store(&good)); /* makes the copy */
        CHECK(faccessat(good.fd, "store.db.bak", F_OK, 0) == 0);
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                struct err err = {0};

                test_folder_empty(&f);
                test_folder_copy(&good, &f);
                _cleanup_fd_ int fd = openat(f.fd, "store.db", O_RDWR | O_CLOEXEC);
                CHECK(pwrite(fd, noise, places[i].size, places[i].from) == (ssize_t)places[i].size);
                CHECK(refused(&f, &err) == ERR_CORRUPT);
                CHECK(strstr(err.text, f.path) && strstr(err.hint, "store.db.bak") && strstr(err.hint, "aside"));

                /* what the hint says works */
                (void)unlinkat(f.fd, "store.db", 0);
                (void)unlinkat(f.fd, "store.db-wal", 0);
                (void)unlinkat(f.fd, "store.db-shm", 0);
                CHECK(renameat(f.fd, "store.db.bak", f.fd, "store.db") == 0);
                s = open_store(&f);
                CHECK(count(s, STORE_SANDBOX, sizeof(struct store_sandbox)) == 500);
                store_close(s);
        }
        test_folder_empty(&f);
        CHECK(fd_replace_file(f.fd, "store.db", 0600, "this is not a database at all, but text", 39) == 0);
        struct err err = {0};
        CHECK(refused(&f, &err) == ERR_CORRUPT);
}

static void copies_are_daily_and_private(void) {
        _cleanup_folder_ struct test_folder f;
        struct stat first, second;
        struct timespec old[2] = {{.tv_sec = time(NULL) - 100000}, {.tv_sec = time(NULL) - 100000}};

        test_folder_make(&f);
        store_close(open_store(&f));
        CHECK(faccessat(f.fd, "store.db.bak", F_OK, 0) < 0); /* nothing worth it yet */
        store_close(open_store(&f));
        CHECK(fstatat(f.fd, "store.db.bak", &first, 0) == 0 && (first.st_mode & 0777) == 0600);
        store_close(open_store(&f));
        CHECK(fstatat(f.fd, "store.db.bak", &second, 0) == 0 && first.st_ino == second.st_ino);
        CHECK(utimensat(f.fd, "store.db.bak", old, 0) == 0);
        store_close(open_store(&f));
        CHECK(fstatat(f.fd, "store.db.bak", &second, 0) == 0 && second.st_mtime > old[0].tv_sec);
        CHECK(fstatat(f.fd, "store.db", &first, 0) == 0 && (first.st_mode & 0777) == 0600);
        CHECK(faccessat(f.fd, "store.db.bak.new", F_OK, 0) < 0);
}

/* --- a disk that does not take it --- */

static void limit_files(rlim_t size) {
        struct rlimit l;

        (void)signal(SIGXFSZ, SIG_IGN);
        assert(getrlimit(RLIMIT_FSIZE, &l) == 0);
        l.rlim_cur = size == RLIM_INFINITY ? l.rlim_max : size;
        assert(setrlimit(RLIMIT_FSIZE, &l) == 0);
}

static void a_full_disk_loses_nothing(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_sandbox box = sandbox(A, 1);
        _cleanup_free_ char *large = calloc(1, 100000);

        test_folder_make(&f);
        struct store *s = open_store(&f);
        wait_for(s, store_put(s, STORE_SANDBOX, &box));
        limit_files(65536);
        uint64_t last = 0;
        for (uint64_t i = 1; i <= 20; i++) {
                struct store_run r = run(A, i);
                r.command = large;
                r.command_size = 100000;
                last = store_put(s, STORE_RUN, &r);
                CHECK(last != STORE_REFUSED);
        }
        store_hurry(s);
        for (unsigned i = 0; i < 3000 && store_health(s) == 0; i++)
                (void)usleep(20000);
        CHECK(store_health(s) < 0);
        CHECK(store_committed(s) < last);
        CHECK(count(s, STORE_RUN, sizeof(struct store_run)) == 0); /* a transaction is whole or not there */
        limit_files(RLIM_INFINITY);
        wait_for(s, last);
        CHECK(store_health(s) == 0 && count(s, STORE_RUN, sizeof(struct store_run)) == 20);

        /* and when it stays full: no more than there is room for, and an end comes to an end */
        limit_files(65536);
        uint64_t ticket;
        unsigned taken = 0;
        do {
                struct store_run r = run(A, 100 + taken);
                r.command = large;
                r.command_size = 100000;
                ticket = store_put(s, STORE_RUN, &r);
        } while (ticket != STORE_REFUSED && ++taken < 10000);
        CHECK(ticket == STORE_REFUSED && taken > 500 && taken < 700);
        store_close(s);
        limit_files(RLIM_INFINITY);
        s = open_store(&f);
        CHECK(count(s, STORE_RUN, sizeof(struct store_run)) == 20);
        store_close(s);
}

static void a_relative_folder_is_enough(void) {
        _cleanup_folder_ struct test_folder f;
        _cleanup_fd_ int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct store_sandbox box = sandbox(A, 1);
        struct store *s = NULL;
        struct err err = {0};

        test_folder_make(&f);
        assert(before >= 0 && fchdir(f.fd) == 0);
        CHECK(store_open(&s, ".", &err) == 0);
        wait_for(s, store_put(s, STORE_SANDBOX, &box));
        store_close(s);
        CHECK(store_open(&s, ".", &err) == 0 && count(s, STORE_SANDBOX, sizeof box) == 1);
        store_close(s);
        CHECK(faccessat(f.fd, "store.db.bak", F_OK, 0) == 0);
        assert(fchdir(before) == 0);
}

TEST_MAIN(TEST(rows_come_back), TEST(putting_again_replaces), TEST(runs_go_with_their_sandbox), TEST(runs_newest_first),
          TEST(oldest_first_and_in_bulk), TEST(groups_are_whole), TEST(every_older_schema_comes_along),
          TEST(what_is_revoked_stays_revoked), TEST(keys_go_with_their_sandbox), TEST(keys_of_capabilities),
          TEST(newer_and_foreign_are_refused), TEST(damage_is_named), TEST(copies_are_daily_and_private),
          TEST(a_full_disk_loses_nothing), TEST(a_relative_folder_is_enough))
