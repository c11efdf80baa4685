/* Unit tests of the archive codec: what is written comes back in any pieces, and what is no archive is refused. */
#include "base/pax.h"

#include "base/test.h"

static struct pax_reader reader;

static void add(struct buf *b, const struct pax_member *m, const char *contents) {
        static const char zeros[PAX_BLOCK];

        pax_put(b, m);
        if (m->size > 0)
                buf_add(b, contents, (size_t)m->size);
        buf_add(b, zeros, pax_padding(m->size));
}

static void end(struct buf *b) {
        static const char zeros[PAX_END_SIZE];

        buf_add(b, zeros, sizeof zeros);
}

/* What a reader says that gets piece bytes at a time: "name:type:size:link=contents;" for each, then "END" or a number.
 */
static void tell(const char *bytes, size_t size, size_t piece, struct buf *ret) {
        memset(&reader, 0, sizeof reader);
        for (size_t at = 0; at < size;) {
                const uint8_t *p = (const uint8_t *)bytes + at;
                size_t n = MIN(piece, size - at), given = n;

                for (;;) {
                        int item = pax_next(&reader, &p, &n);

                        if (item == PAX_MEMBER)
                                buf_printf(ret, "%s:%c:%llu:%s=", reader.member.name, reader.member.type,
                                           (unsigned long long)reader.member.size,
                                           reader.member.link ? reader.member.link : "");
                        else if (item == PAX_DATA)
                                buf_add(ret, reader.data, reader.size);
                        else if (item == PAX_DONE)
                                buf_str(ret, ";");
                        else if (item == PAX_MORE) {
                                CHECK(n == 0);
                                break;
                        } else {
                                if (item == PAX_END)
                                        buf_str(ret, "END");
                                else
                                        buf_printf(ret, "%s", err_name(item));
                                return;
                        }
                }
                at += given;
        }
}

static const char *said(const struct buf *b, size_t piece) {
        static struct buf text;

        text.size = 0;
        buf_str(&text, "");
        tell(b->data, b->size, piece, &text);
        return text.data;
}

static void members_come_back_in_any_pieces(void) {
        _cleanup_buf_ struct buf b = {0}, expected = {0};
        char name[301], contents[1025];

        memset(name, 'n', sizeof name - 1);
        name[300] = '\0';
        memset(contents, 'c', sizeof contents - 1);
        contents[1024] = '\0';
        add(&b, &(struct pax_member){.name = "a", .type = '0', .size = 5, .mode = 0644}, "hello");
        add(&b, &(struct pax_member){.name = "dir/", .type = '5', .mode = 0755}, NULL);
        add(&b, &(struct pax_member){.name = "dir/link", .type = '2', .link = "../a"}, NULL);
        add(&b, &(struct pax_member){.name = "dir/same", .type = '1', .link = "a"}, NULL);
        add(&b, &(struct pax_member){.name = name, .type = '0', .size = 1024}, contents);
        add(&b, &(struct pax_member){.name = "l", .type = '2', .link = name}, NULL);
        add(&b, &(struct pax_member){.name = "empty", .type = '0'}, NULL);
        end(&b);
        CHECK(buf_ok(&b) && b.size % PAX_BLOCK == 0);
        buf_printf(&expected,
                   "a:0:5:=hello;dir/:5:0:=;dir/link:2:0:../a=;dir/same:1:0:a=;%s:0:1024:=%s;l:2:0:%s=;empty:0:0:=;END",
                   name, contents, name);
        static const size_t pieces[] = {1, 7, 511, 512, 513, 100000};
        for (size_t i = 0; i < ELEMENTSOF(pieces); i++)
                CHECK_STR(said(&b, pieces[i]), expected.data);
        CHECK(reader.entries == 7 && reader.bytes == 1029);
}

static void fields_come_back(void) {
        static const struct pax_member rows[] = {
                {.name = "a", .type = '0', .mode = 07777, .mtime = 1700000000, .uid = 1000, .gid = 100},
                {.name = "b", .type = '0', .mtime = 1700000000, .mtime_ns = 123456789},
                {.name = "c", .type = '0', .mtime = -2, .mtime_ns = 500000000},
                {.name = "d", .type = '0', .mtime = -1, .mtime_ns = 999999999},
                {.name = "e", .type = '0', .mtime = 1LL << 40},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_buf_ struct buf b = {0};

                add(&b, &rows[i], NULL);
                const uint8_t *p = (const uint8_t *)b.data;
                size_t n = b.size;
                memset(&reader, 0, sizeof reader);
                CHECK(pax_next(&reader, &p, &n) == PAX_MEMBER);
                const struct pax_member *m = &reader.member;
                CHECK_STR(m->name, rows[i].name);
                CHECK(m->mode == rows[i].mode && m->uid == rows[i].uid && m->gid == rows[i].gid);
                CHECK(m->mtime == rows[i].mtime && m->mtime_ns == rows[i].mtime_ns);
        }
}

static void large_members_are_announced(void) {
        _cleanup_buf_ struct buf b = {0};

        pax_put(&b, &(struct pax_member){.name = "x", .type = '0', .size = 1ULL << 40});
        const uint8_t *p = (const uint8_t *)b.data;
        size_t n = b.size;
        memset(&reader, 0, sizeof reader);
        CHECK(pax_next(&reader, &p, &n) == PAX_MEMBER && reader.member.size == 1ULL << 40);
        CHECK(pax_next(&reader, &p, &n) == PAX_MORE && n == 0);
}

/* A header that somebody else wrote, made from one of ours; its sum is made right again. */
static void change(struct buf *b, size_t at, const char *bytes, size_t size) {
        unsigned sum = 8 * ' ';

        memcpy(b->data + at, bytes, size);
        for (size_t i = 0; i < PAX_BLOCK; i++)
                if (i < 148 || i >= 156)
                        sum += (unsigned char)b->data[i];
        (void)snprintf(b->data + 148, 8, "%06o", sum);
}

static const char *changed(size_t at, const char *bytes, size_t size) {
        static struct buf b;

        b.size = 0;
        add(&b, &(struct pax_member){.name = "a", .type = '0', .size = 3}, "abc");
        end(&b);
        change(&b, at, bytes, size);
        return said(&b, 100000);
}

static void headers_of_others(void) {
        CHECK_STR(changed(156, "", 1), "a:0:3:=abc;END");  /* type NUL */
        CHECK_STR(changed(156, "7", 1), "a:0:3:=abc;END"); /* contiguous */
        CHECK_STR(changed(124, "   3        ", 12), "a:0:3:=abc;END");
        CHECK_STR(changed(124, "3\0 00", 5), "Bad message"); /* something behind its end */
        CHECK_STR(changed(124, "\200\0\0\0\0\0\0\0\0\0\0\3", 12), "a:0:3:=abc;END");
        CHECK_STR(changed(345, "pre/fix", 8), "pre/fix/a:0:3:=abc;END");
        CHECK_STR(changed(257, "ustar  ", 8), "a:0:3:=abc;END"); /* GNU's */
        CHECK_STR(changed(156, "5", 1), "a:5:0:=;Bad message");  /* contents of a folder are no header */
        CHECK_STR(changed(156, "3", 1), "a:3:0:=;Bad message");
        CHECK_STR(changed(0, "a/", 3), "Bad message"); /* a folder with contents */
        CHECK_STR(changed(156, "S", 1), "Operation not supported");
        CHECK_STR(changed(156, "Z", 1), "Operation not supported");
        CHECK_STR(changed(0, "", 1), "Bad message"); /* no name */
        CHECK_STR(changed(124, "9", 1), "Bad message");
        CHECK_STR(changed(124, "\377\377\377\377\377\377\377\377\377\377\377\377", 12), "File too large");
        CHECK_STR(changed(124, "\200\0\0\0\377\377\377\377\377\377\377\377", 12), "File too large");
        CHECK_STR(changed(257, "tar", 4), "Bad message");
        CHECK_STR(changed(156, "x", 1), "Bad message"); /* "abc" is no record */
        CHECK_STR(changed(156, "g", 1), "END");
}

static const char *extended(const char *records, size_t size) {
        static struct buf b;

        b.size = 0;
        add(&b, &(struct pax_member){.name = "h", .type = 'x', .size = size}, records);
        add(&b, &(struct pax_member){.name = "a", .type = '0', .size = 1}, "A");
        add(&b, &(struct pax_member){.name = "b", .type = '0', .size = 1}, "B");
        end(&b);
        return said(&b, 100000);
}
#define RECORDS(s) extended(s, sizeof(s) - 1)

static void extended_headers_are_for_one_member(void) {
        CHECK_STR(RECORDS("12 path=xyz\n"), "xyz:0:1:=A;b:0:1:=B;END");
        CHECK_STR(RECORDS("8 path=\n"), "Bad message");
        CHECK_STR(RECORDS("9 a=bcde\n12 path=xyz\n"), "xyz:0:1:=A;b:0:1:=B;END");
        CHECK_STR(RECORDS("10 size=1\n"), "a:0:1:=A;b:0:1:=B;END");
        CHECK_STR(RECORDS(""), "a:0:1:=A;b:0:1:=B;END");
        CHECK_STR(RECORDS("11 path=xyz\n"), "Bad message");
        CHECK_STR(RECORDS("13 path=xyz\n"), "Bad message");
        CHECK_STR(RECORDS("99999999999999999999 path=xyz\n"), "File too large");
        CHECK_STR(RECORDS("3 \n"), "Bad message");
        CHECK_STR(RECORDS("0 path=xyz\n"), "Bad message");
        CHECK_STR(RECORDS("path=xyz\n"), "Bad message");
        CHECK_STR(RECORDS("12 path=x\0z\n"), "Bad message");
        CHECK_STR(RECORDS("12 pa\0h=xyz\n"), "Bad message");
        CHECK_STR(RECORDS("11 size=-1\n"), "Bad message");
        CHECK_STR(RECORDS("28 size=9999999999999999999\n"), "File too large");
        CHECK_STR(RECORDS("22 GNU.sparse.major=1\n"), "Operation not supported");
        CHECK_STR(RECORDS("10 mtime=\n"), "Bad message");
        CHECK_STR(RECORDS("16 mtime=1.5.5x\n"), "Bad message");
}

static void long_things_are_capped(void) {
        _cleanup_buf_ struct buf b = {0};
        static char name[PAX_NAME_SIZE + 1];

        memset(name, 'n', PAX_NAME_SIZE);
        add(&b, &(struct pax_member){.name = "@", .type = 'L', .size = PAX_NAME_SIZE - 1}, name);
        add(&b, &(struct pax_member){.name = "cut", .type = '0'}, NULL);
        CHECK(strlen(said(&b, 4096)) == PAX_NAME_SIZE - 1 + strlen(":0:0:=;"));
        b.size = 0;
        add(&b, &(struct pax_member){.name = "@", .type = 'L', .size = PAX_NAME_SIZE}, name);
        CHECK_STR(said(&b, 4096), "File name too long");
        b.size = 0;
        pax_put(&b, &(struct pax_member){.name = "@", .type = 'x', .size = PAX_HEADER_MAX + 1});
        CHECK_STR(said(&b, 4096), "File too large");
}

static void a_cut_archive_has_no_end(void) {
        _cleanup_buf_ struct buf b = {0};

        add(&b, &(struct pax_member){.name = "a", .type = '0', .size = 600}, (const char[600]){0});
        end(&b);
        size_t whole = b.size;
        for (b.size = 0; b.size < whole; b.size += 100)
                CHECK(!strstr(said(&b, 64), "END") || b.size >= 3 * PAX_BLOCK + PAX_BLOCK);
}

static void names_become_plain(void) {
        static const struct {
                const char *name, *plain;
        } rows[] = {
                {"a", "a"},
                {"a/b", "a/b"},
                {"./a", "a"},
                {"a/", "a"},
                {"./a//b/./c/", "a/b/c"},
                {".", ""},
                {"./", ""},
                {"...", "..."},
                {"..a/b", "..a/b"},
                {"a/b..", "a/b.."},
                {"/a", NULL},
                {"..", NULL},
                {"a/..", NULL},
                {"a/../b", NULL},
                {"../a", NULL},
                {"./../a", NULL},
                {"", NULL},
                {"//", NULL},
                {"a/b/../../..", NULL},
        };
        char buf[PAX_NAME_SIZE];

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r = pax_plain(rows[i].name, buf);

                CHECK(r == (rows[i].plain ? 0 : -EBADMSG));
                if (r == 0 && rows[i].plain)
                        CHECK_STR(buf, rows[i].plain);
        }
}

TEST_MAIN(TEST(members_come_back_in_any_pieces), TEST(fields_come_back), TEST(large_members_are_announced),
          TEST(headers_of_others), TEST(extended_headers_are_for_one_member), TEST(long_things_are_capped),
          TEST(a_cut_archive_has_no_end), TEST(names_become_plain))
