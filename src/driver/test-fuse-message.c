/* Messages of a machine's kernel, right and wrong; nodes and handles that it names. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "driver/fuse-handles.h"
#include "driver/fuse-message.h"
#include "driver/fuse-nodes.h"

/* A message under construction. */
struct draft {
        unsigned char bytes[2048];
        size_t size;
};

static void add(struct draft *d, const void *bytes, size_t size) {
        memcpy(d->bytes + d->size, bytes, size);
        d->size += size;
}

static void begin(struct draft *d, unsigned opcode) {
        const struct fuse_in_header h = {.opcode = opcode, .unique = 7, .nodeid = 1, .uid = 1000, .gid = 1000};

        d->size = 0;
        add(d, &h, sizeof h);
}

static int read_draft(struct draft *d, struct fuse_message *ret) {
        uint32_t size = (uint32_t)d->size;

        memcpy(d->bytes, &size, sizeof size);
        return fuse_message_read(d->bytes, d->size, ret);
}

static int lookup(const char *name, size_t size) {
        struct draft d;
        struct fuse_message m;

        begin(&d, FUSE_LOOKUP);
        add(&d, name, size);
        return read_draft(&d, &m);
}

static void names(void) {
        char long_name[300];

        CHECK(lookup("a", 2) == 0 && lookup("...", 4) == 0 && lookup("a\n\x80", 4) == 0);
        CHECK(lookup("", 1) == -EPROTO && lookup("", 0) == -EPROTO);
        CHECK(lookup(".", 2) == -EPROTO && lookup("..", 3) == -EPROTO);
        CHECK(lookup("a/b", 4) == -EPROTO && lookup("/", 2) == -EPROTO);
        CHECK(lookup("ab", 2) == -EPROTO);   /* no end */
        CHECK(lookup("a\0b", 4) == -EPROTO); /* more behind it */
        memset(long_name, 'a', sizeof long_name);
        long_name[255] = '\0';
        CHECK(lookup(long_name, 256) == 0);
        long_name[255] = 'a';
        long_name[256] = '\0';
        CHECK(lookup(long_name, 257) == -ENAMETOOLONG); /* what kernels leave to their server */
}

static void two_names(void) {
        const struct fuse_rename2_in in = {.newdir = 5, .flags = 1};
        struct draft d;
        struct fuse_message m;

        begin(&d, FUSE_RENAME2);
        add(&d, &in, sizeof in);
        add(&d, "old\0new", 8);
        CHECK(read_draft(&d, &m) == 0 && m.in.rename2.newdir == 5 && m.in.rename2.flags == 1);
        CHECK_STR(m.name, "old");
        CHECK_STR(m.second, "new");
        d.size -= 4;
        CHECK(read_draft(&d, &m) == -EPROTO);
        begin(&d, FUSE_SYMLINK);
        add(&d, "link\0../../etc/passwd", 22); /* where it leads is the machine's matter: nobody follows it here */
        CHECK(read_draft(&d, &m) == 0);
        CHECK_STR(m.second, "../../etc/passwd");
        begin(&d, FUSE_SYMLINK);
        add(&d, "link\0", 6);
        CHECK(read_draft(&d, &m) == -EPROTO);
}

static void sizes(void) {
        struct fuse_write_in in = {.fh = 3, .offset = 9, .size = 4};
        struct fuse_in_header h = {.len = FUSE_MESSAGE_MAX};
        struct draft d;
        struct fuse_message m;

        begin(&d, FUSE_WRITE);
        add(&d, &in, sizeof in);
        add(&d, "data", 4);
        CHECK(read_draft(&d, &m) == 0 && m.size == 4 && memcmp(m.data, "data", 4) == 0 && m.head.unique == 7);
        d.size--;
        CHECK(read_draft(&d, &m) == -EPROTO);
        d.size += 2;
        CHECK(read_draft(&d, &m) == -EPROTO);
        CHECK(fuse_message_read(d.bytes, 39, &m) == -EPROTO);
        CHECK(fuse_message_read(d.bytes, d.size - 1, &m) == -EPROTO); /* not the size that it says */
        CHECK(fuse_message_size(&h) == FUSE_MESSAGE_MAX);
        h.len++;
        CHECK(fuse_message_size(&h) == -EPROTO);
        h.len = sizeof h - 1;
        CHECK(fuse_message_size(&h) == -EPROTO);
        begin(&d, FUSE_GETATTR);
        CHECK(read_draft(&d, &m) == -EPROTO);
}

static void forgets(void) {
        struct fuse_batch_forget_in in = {.count = 2};
        const struct fuse_forget_one ones[] = {{5, 1}, {6, 2}};
        struct draft d;
        struct fuse_message m;

        begin(&d, FUSE_BATCH_FORGET);
        add(&d, &in, sizeof in);
        add(&d, ones, sizeof ones);
        CHECK(read_draft(&d, &m) == 0 && fuse_message_is_mute(&m) && fuse_message_forget(&m, 1).nodeid == 6);
        in.count = 0x10000001; /* times 16 is more than 32 bits */
        memcpy(d.bytes + sizeof(struct fuse_in_header), &in, sizeof in);
        CHECK(read_draft(&d, &m) == -EPROTO);
}

static void other_kinds(void) {
        const struct fuse_init_in init = {.major = 7, .minor = 38};
        struct draft d;
        struct fuse_message m;

        begin(&d, FUSE_IOCTL);
        add(&d, "anything", 8);
        CHECK(read_draft(&d, &m) == -ENOSYS && m.head.unique == 7 && !fuse_message_is_mute(&m));
        begin(&d, 77777);
        CHECK(read_draft(&d, &m) == -ENOSYS);
        begin(&d, FUSE_INIT);
        add(&d, &init, sizeof init);
        CHECK(read_draft(&d, &m) == 0 && m.in.init.minor == 38);
        d.size -= sizeof init - 16; /* as kernels before 5.17 say it */
        CHECK(read_draft(&d, &m) == 0 && m.in.init.flags2 == 0);
        d.size--;
        CHECK(read_draft(&d, &m) == -EPROTO);
}

static void nodes(void) {
        char folder[] = "/tmp/stockade-test-fuse-XXXXXX";
        struct fuse_nodes n;
        struct stat st;

        CHECK(mkdtemp(folder) != NULL);
        int root = open(folder, O_PATH | O_CLOEXEC);
        CHECK(mkdirat(root, "a", 0755) == 0 && symlinkat("/", root, "up") == 0);
        CHECK(fuse_nodes_begin(&n, root, 2) == 0);
        CHECK(fuse_nodes_find(&n, 1)->fd == root && !fuse_nodes_find(&n, 0) && !fuse_nodes_find(&n, 2));
        CHECK(!fuse_nodes_find(&n, UINT64_MAX) && !fuse_nodes_find(&n, FUSE_NODES_MAX + 1));
        int64_t a = fuse_nodes_look(&n, root, "a", &st);
        CHECK(a == 2 && S_ISDIR(st.st_mode) && fuse_nodes_look(&n, root, "a", &st) == a);
        CHECK(fuse_nodes_look(&n, root, "b", &st) == -ENOENT);
        int64_t up = fuse_nodes_look(&n, root, "up", &st);
        CHECK(up == 3 && S_ISLNK(st.st_mode));                 /* the link itself: there is no way through it */
        CHECK(fuse_nodes_look(&n, root, ".", &st) == -ENFILE); /* there are two */
        CHECK(fuse_nodes_look(&n, fuse_nodes_find(&n, 3)->fd, "etc", &st) == -ENOTDIR);
        fuse_nodes_forget(&n, 2, 1);
        CHECK(fuse_nodes_find(&n, 2) && fuse_nodes_find(&n, 2)->generation == 1);
        fuse_nodes_forget(&n, 2, 100);
        CHECK(!fuse_nodes_find(&n, 2));
        fuse_nodes_forget(&n, 2, 1);
        fuse_nodes_forget(&n, 1, UINT64_MAX);
        CHECK(fuse_nodes_find(&n, 1));
        CHECK(fuse_nodes_look(&n, root, "a", &st) == 2 && fuse_nodes_find(&n, 2)->generation == 2);
        CHECK(unlinkat(root, "a", AT_REMOVEDIR) == 0 && unlinkat(root, "up", 0) == 0);
        fuse_nodes_end(&n);
        CHECK(rmdir(folder) == 0);
}

static void handles(void) {
        static struct fuse_handles h;

        fuse_handles_begin(&h);
        CHECK(fuse_handles_find(&h, 0) == -EBADF && fuse_handles_find(&h, 1) == -EBADF);
        int fd = dup(0), other = dup(0);
        CHECK(fuse_handles_again(&h, 7, 0) == -ENOENT);
        CHECK(fuse_handles_add(&h, 7, 0, fd) == 1 && fuse_handles_add(&h, 7, 2, other) == 2);
        CHECK(fuse_handles_find(&h, 1) == fd && fuse_handles_find(&h, UINT64_MAX) == -EBADF);
        CHECK(fuse_handles_drop(&h, 1) == 0 && fuse_handles_drop(&h, 1) == -EBADF && fcntl(fd, F_GETFD) < 0);
        CHECK(fuse_handles_again(&h, 7, 0) == -ENOENT && fuse_handles_again(&h, 7, 2) == 2);
        CHECK(fuse_handles_drop(&h, 2) == 0 && fuse_handles_find(&h, 2) == other); /* it was opened twice */
        CHECK(fuse_handles_add(&h, 7, 0, dup(0)) == 1);
        for (int i = 3; i <= (int)FUSE_HANDLES_MAX; i++)
                CHECK(fuse_handles_add(&h, 100 + (uint64_t)i, 0, -EBADF) == i);
        CHECK(fuse_handles_add(&h, 8, 0, 0) == -ENFILE && fuse_handles_again(&h, 7, 0) == 1);
        fuse_handles_end(&h);
        CHECK(fcntl(other, F_GETFD) < 0);
}

TEST_MAIN(TEST(names), TEST(two_names), TEST(sizes), TEST(forgets), TEST(other_kinds), TEST(nodes), TEST(handles))
