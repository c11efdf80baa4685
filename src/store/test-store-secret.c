/* What was sealed and removed is nowhere any more: not in the file, not in its log, not in a copy. */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test-folder.h"
#include "base/test.h"
#include "store/store.h"

#define _cleanup_folder_ _cleanup_(test_folder_remove)
#define A                "aaaaaaaaaaaaaaaa"
#define B                "bbbbbbbbbbbbbbbb"

static struct store *open_store(const struct test_folder *f) {
        struct store *s = NULL;

        assert(store_open(&s, f->path, NULL) == 0);
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

static void put_sandbox(struct store *s, const char *id) {
        struct store_sandbox box = {.created_ms = 1};

        (void)snprintf(box.id, sizeof box.id, "%s", id);
        (void)store_put(s, STORE_SANDBOX, &box);
}

static struct store_secret secret(const char *sandbox, const char *name, const char *sealed) {
        struct store_secret r = {.set_ms = 1, .sealed = sealed, .sealed_size = strlen(sealed)};

        (void)snprintf(r.sandbox, sizeof r.sandbox, "%s", sandbox);
        (void)snprintf(r.name, sizeof r.name, "%s", name);
        return r;
}

static uint64_t put(struct store *s, const char *sandbox, const char *name, const char *sealed) {
        struct store_secret row = secret(sandbox, name, sealed);

        return store_put(s, STORE_SECRET, &row);
}

static uint64_t drop(struct store *s, const char *sandbox, const char *name) {
        struct store_secret row = secret(sandbox, name, "");

        return store_remove(s, STORE_SECRET, &row);
}

static int add_name(void *data, const void *row) {
        const struct store_secret *r = row;
        char *text = data;
        size_t n = strlen(text);

        (void)snprintf(text + n, 200 - n, "%c%s=%.*s ", r->sandbox[0], r->name, (int)r->sealed_size,
                       (const char *)r->sealed);
        return 0;
}

static const char *all(struct store *s) {
        static char text[200];

        text[0] = '\0';
        CHECK(store_load(s, STORE_SECRET, add_name, text, NULL) == 0);
        return text;
}

static int one_more(void *data, const void *row) {
        (void)row;
        ++*(unsigned *)data;
        return 0;
}

static unsigned count(struct store *s, enum store_family f) {
        unsigned n = 0;

        CHECK(store_load(s, f, one_more, &n, NULL) == 0);
        return n;
}

/* Whether any file of the folder has these bytes. */
static bool is_in(const struct test_folder *f, const char *name, const char *bytes) {
        _cleanup_fd_ int fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC);
        static char text[4 << 20];

        if (fd < 0)
                return false;
        ssize_t n = read(fd, text, sizeof text);
        assert(n >= 0 && (size_t)n < sizeof text);
        return memmem(text, (size_t)n, bytes, strlen(bytes));
}

static void by_name_and_with_the_sandbox(void) {
        _cleanup_folder_ struct test_folder f;

        test_folder_make(&f);
        struct store *s = open_store(&f);
        put_sandbox(s, A);
        put_sandbox(s, B);
        (void)put(s, A, "ONE", "1");
        (void)put(s, A, "TWO", "2");
        (void)put(s, B, "ONE", "3");
        wait_for(s, put(s, A, "ONE", "4"));
        CHECK_STR(all(s), "aONE=4 aTWO=2 bONE=3 ");
        wait_for(s, drop(s, A, "ONE"));
        CHECK_STR(all(s), "aTWO=2 bONE=3 ");
        (void)put(s, A, "ONE", "5");
        wait_for(s, drop(s, A, "")); /* all of it */
        CHECK_STR(all(s), "bONE=3 ");
        struct store_sandbox box = {.id = B};
        (void)store_remove(s, STORE_SANDBOX, &box);
        wait_for(s, put(s, B, "LATE", "6")); /* it is gone: this is not kept */
        CHECK_STR(all(s), "");
        CHECK(store_health(s) == 0);
        store_close(s);
}

#define MARK "sealed-bytes-that-are-easy-to-find-again"

static void nothing_stays(void) {
        _cleanup_folder_ struct test_folder f;
        static char large[20000]; /* on pages of its own */

        test_folder_make(&f);
        for (size_t i = 0; i + sizeof MARK < sizeof large; i += sizeof MARK - 1)
                memcpy(large + i, MARK, sizeof MARK - 1);
        struct store *s = open_store(&f);
        put_sandbox(s, A);
        (void)put(s, A, "LARGE", large);
        wait_for(s, put(s, A, "SMALL", MARK));
        CHECK(is_in(&f, "store.db", MARK) || is_in(&f, "store.db-wal", MARK)); /* the look itself works */
        wait_for(s, drop(s, A, "LARGE"));
        CHECK(is_in(&f, "store.db", MARK)); /* the small one */
        wait_for(s, drop(s, A, ""));
        CHECK(!is_in(&f, "store.db", MARK) && !is_in(&f, "store.db-wal", MARK));
        store_close(s);
        CHECK(!is_in(&f, "store.db", MARK) && !is_in(&f, "store.db-wal", MARK));
}

static void copies_have_none(void) {
        _cleanup_folder_ struct test_folder f;
        struct store_data_key key = {.id = A, .wrapped = "w" MARK, .wrapped_size = sizeof MARK};

        test_folder_make(&f);
        struct store *s = open_store(&f);
        put_sandbox(s, A);
        (void)store_put(s, STORE_DATA_KEY, &key);
        wait_for(s, put(s, A, "NAME", MARK));
        store_close(s);
        CHECK(is_in(&f, "store.db", MARK));
        s = open_store(&f); /* makes the copy */
        CHECK_STR(all(s), "aNAME=" MARK " ");
        CHECK(count(s, STORE_DATA_KEY) == 1);
        store_close(s);
        CHECK(faccessat(f.fd, "store.db.bak", F_OK, 0) == 0 && !is_in(&f, "store.db.bak", MARK));

        (void)unlinkat(f.fd, "store.db", 0);
        CHECK(renameat(f.fd, "store.db.bak", f.fd, "store.db") == 0);
        s = open_store(&f);
        CHECK(count(s, STORE_SANDBOX) == 1 && count(s, STORE_SECRET) == 0 && count(s, STORE_DATA_KEY) == 0);
        store_close(s);
}

TEST_MAIN(TEST(by_name_and_with_the_sandbox), TEST(nothing_stays), TEST(copies_have_none))
