/* Packets of SFTP: what is whole is read, what is cut or too long is refused, and paths stay below the root. */
#include "base/test.h"
#include "ssh/sftp-request.h"

static struct buf packet;

static int read_packet(struct sftp_request *q) {
        return sftp_request_read((const uint8_t *)packet.data + 4, packet.size - 4, q);
}

static void begin(enum sftp_kind kind, uint32_t id) {
        packet.max = 1 << 20;
        sftp_begin(&packet, kind, id);
}

static void requests_are_read(void) {
        static const struct sftp_attributes a = {
                .has = SFTP_HAS_SIZE | SFTP_HAS_IDS | SFTP_HAS_MODE | SFTP_HAS_TIMES, 7, 1, 2, 0100644, 3, 4};
        struct sftp_request q;

        begin(SFTP_OPEN, 9);
        sftp_put_string(&packet, "/a b", 4);
        sftp_put_u32(&packet, SFTP_OPEN_WRITE | SFTP_OPEN_CREATE);
        sftp_put_attributes(&packet, &a);
        CHECK(read_packet(&q) == 0 && q.kind == SFTP_OPEN && q.id == 9 && q.flags == 10);
        CHECK_STR(q.path, "/a b");
        CHECK(memcmp(&q.attributes, &a, sizeof a) == 0);

        begin(SFTP_WRITE, 10);
        sftp_put_handle(&packet, 77);
        sftp_put_u64(&packet, 1ULL << 40);
        sftp_put_string(&packet, "data", 4);
        CHECK(read_packet(&q) == 0 && q.handle == 77 && q.offset == 1ULL << 40 && q.data_size == 4 &&
              memcmp(q.data, "data", 4) == 0);

        begin(SFTP_EXTENDED, 11);
        sftp_put_string(&packet, "posix-rename@openssh.com", 24);
        sftp_put_string(&packet, "a", 1);
        sftp_put_string(&packet, "b", 1);
        CHECK(read_packet(&q) == 0);
        CHECK_STR(q.to, "b");
        begin(SFTP_EXTENDED, 12);
        sftp_put_string(&packet, "statvfs@openssh.com", 19);
        sftp_put_string(&packet, "/", 1);
        CHECK(read_packet(&q) == -EOPNOTSUPP && q.id == 12);
        begin((enum sftp_kind)99, 13);
        CHECK(read_packet(&q) == -EOPNOTSUPP && q.id == 13);
}

/* Every packet, cut at every byte, and with a byte too many. */
static void what_is_cut_is_refused(void) {
        struct sftp_request q;

        begin(SFTP_OPEN, 1);
        sftp_put_string(&packet, "/file", 5);
        sftp_put_u32(&packet, 1);
        sftp_put_u32(&packet, SFTP_HAS_MODE);
        sftp_put_u32(&packet, 0644);
        CHECK(read_packet(&q) == 0);
        for (size_t n = 0; n < packet.size - 4; n++)
                CHECK(sftp_request_read((const uint8_t *)packet.data + 4, n, &q) == -EBADMSG);
        buf_add(&packet, "", 1);
        CHECK(read_packet(&q) == -EBADMSG);
        /* lengths that lie */
        begin(SFTP_STAT, 1);
        sftp_put_u32(&packet, 0xffffffff);
        CHECK(read_packet(&q) == -EBADMSG);
        begin(SFTP_STAT, 1);
        sftp_put_string(&packet, "a\0b", 3);
        CHECK(read_packet(&q) == -EBADMSG);
        char path[SFTP_PATH_MAX];
        memset(path, 'x', sizeof path);
        begin(SFTP_STAT, 1);
        sftp_put_string(&packet, path, sizeof path);
        CHECK(read_packet(&q) == -EBADMSG);
        begin(SFTP_STAT, 1);
        sftp_put_string(&packet, path, sizeof path - 1);
        CHECK(read_packet(&q) == 0);
        /* attributes that promise more than there is */
        begin(SFTP_MKDIR, 1);
        sftp_put_string(&packet, "/d", 2);
        sftp_put_u32(&packet, SFTP_HAS_MORE);
        sftp_put_u32(&packet, 0xffffffff);
        CHECK(read_packet(&q) == -EBADMSG);
        /* a handle of another length is nobody's */
        begin(SFTP_CLOSE, 1);
        sftp_put_string(&packet, "abc", 3);
        CHECK(read_packet(&q) == 0 && q.handle == UINT64_MAX);
}

static void paths_become_plain(void) {
        static const struct {
                const char *path, *plain;
        } rows[] = {{"", "/home/x"}, {".", "/home/x"},     {"a", "/home/x/a"},           {"../y", "/home/y"},
                    {"/", "/"},      {"/..", "/"},         {"/../../etc", "/etc"},       {"/a//b/./c/", "/a/b/c"},
                    {"..", "/home"}, {"../../../..", "/"}, {"/a/..b/...", "/a/..b/..."}, {"/a/b/../../c", "/c"}};
        char plain[SFTP_PATH_MAX], deep[2 * SFTP_PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                CHECK(sftp_plain_path("/home/x", rows[i].path, plain));
                CHECK_STR(plain, rows[i].plain);
        }
        memset(deep, 'a', sizeof deep);
        deep[sizeof deep - 1] = '\0';
        CHECK(!sftp_plain_path("/", deep, plain));
}

TEST_MAIN(TEST(requests_are_read), TEST(what_is_cut_is_refused), TEST(paths_become_plain))
