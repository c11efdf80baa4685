/* Fuzz target: the journal of an apply, as a crash or a disk may have left it. The input is the journal from behind its
 * id on; magic, id and sum are put around it, for nobody guesses a sum. What is accepted has one form, and none of its
 * parts says more than it may; without the right sum, for the wrong id, or cut short it is refused. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "disk/journal.h"
#include "disk/tree.h"
#include "tests/fuzz/fuzz.h"

#define ID "0123456789abcdef0123456789abcdef"

static int read_it(const char *id, const struct buf *bytes, size_t size, struct journal *ret) {
        *ret = (struct journal){.file = -EBADF};
        memcpy(ret->id, id, sizeof ret->id);
        return journal_unpack(ret, bytes->data, size);
}

static void refuse(const char *id, const struct buf *bytes, size_t size) {
        _cleanup_(journal_free) struct journal j;

        assert(read_it(id, bytes, size, &j) == ERR_CORRUPT);
}

/* No path leads out of the workspace, which is /usr here: its folder is found there or not at all. */
static void check_path(const char *path) {
        static int root = -1;
        const char *name = NULL;
        char link[40], found[4096];

        if (root < 0)
                root = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_fd_ int parent = tree_open_parent(root, path, &name);
        if (parent < 0)
                return;
        assert(name[0] && !strchr(name, '/') && !str_eq(name, ".") && !str_eq(name, ".."));
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", parent);
        ssize_t n = readlink(link, found, sizeof found - 1);
        assert(n > 0);
        found[n] = '\0';
        assert(str_eq(found, "/usr") || str_starts(found, "/usr/"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(journal_free) struct journal j = {.file = -EBADF};
        _cleanup_buf_ struct buf bytes = {.max = 64 << 20}, again = {.max = 64 << 20};
        uint8_t sum[HASH_SIZE];
        struct hash hash;

        buf_str(&bytes, "STKJRNL1" ID);
        buf_add(&bytes, data, size);
        hash_init(&hash);
        hash_add(&hash, bytes.data, bytes.size);
        hash_done(&hash, sum);
        buf_add(&bytes, sum, sizeof sum);
        assert(buf_ok(&bytes));

        int r = read_it(ID, &bytes, bytes.size, &j);
        assert(r == 0 || r == ERR_CORRUPT);
        if (r < 0)
                return 0;
        assert(j.root && j.root[0] == '/' && j.file < 0);
        for (size_t i = 0; i < j.count; i++) {
                const struct journal_op *op = &j.op[i];

                assert(op->kind >= JOURNAL_REMOVE && op->kind <= JOURNAL_MODE);
                assert((op->mode & ~03777u) == 0); /* never set-user-ID, never a type */
                assert(op->path && op->path[0] != '\0');
                check_path(op->path);
                _cleanup_free_ char *beside = journal_stage_path(&j, op->path, op->n);
                assert(beside && strstr(beside, ".stockade-" ID));
        }
        journal_pack(&j, &again);
        assert(buf_ok(&again) && again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0);

        refuse("f123456789abcdef0123456789abcdef", &bytes, bytes.size);
        refuse(ID, &bytes, bytes.size - 1);
        bytes.data[size % bytes.size] ^= 1;
        refuse(ID, &bytes, bytes.size);
        return 0;
}
