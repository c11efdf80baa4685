/* Fuzz target: the notes of --learn, full of names that a sandbox chose, and written by a process that read its memory.
 * Whatever they say: what is written is a profile that is accepted, in printable lines; nothing sensitive is allowed in
 * it, the devices and Stockade's own folders neither; a sealed parent stays as it was. The first byte chooses the
 * parent; LEARN_MAGIC is put in front of the rest. */
#include "base/text.h"
#include "cli/lesson.h"
#include "tests/fuzz/fuzz.h"

static void check_lines(const struct buf *text) {
        for (size_t i = 0; i < text->size;) {
                size_t n = text_utf8_length((const unsigned char *)text->data + i);

                assert(n > 0 && ((unsigned char)text->data[i] >= 0x20 || text->data[i] == '\n') &&
                       text->data[i] != 0x7f);
                i += n;
        }
}

/* What is newly allowed is neither sensitive nor everything. */
static void check_added(const struct policy_strings *before, const struct policy_strings *after) {
        for (size_t i = before->count; i < after->count; i++) {
                assert(!wish_sensitive(after->items[i]) && !str_eq(after->items[i], "/"));
                assert(wish_plain(after->items[i]));
        }
}

static void check_profile(const struct lesson *l, const struct buf *text) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        check_lines(text);
        int r = profile_parse("learned", text->data, text->size, &p, &err);
        if (r < 0) {
                (void)fprintf(stderr, "%s\n%s", err.text, text->data);
                abort();
        }
        r = policy_check(&p, &err);
        if (r < 0) {
                (void)fprintf(stderr, "%s\n%s", err.text, text->data);
                abort();
        }
        check_added(&l->before.files.read, &p.files.read);
        check_added(&l->before.tools.exec, &p.tools.exec);
        if (l->before.sealed) {
                assert(p.files.read.count == l->before.files.read.count);
                assert(p.network.allow_count == l->before.network.allow_count);
                assert(p.files.write_count == l->before.files.write_count);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const parents[] = {"builtin:low", "builtin:medium", "builtin:high"};
        static struct lesson l;
        _cleanup_buf_ struct buf notes = {.max = LEARN_FILE_MAX}, text = {.max = LEARN_FILE_MAX};
        struct err err = {0};

        if (size < 1)
                return 0;
        memset(&l, 0, sizeof l);
        l.profile = parents[data[0] % ELEMENTSOF(parents)];
        l.home = "/home/user";
        l.whole.max = l.command.max = LEARN_FILE_MAX;
        assert(lesson_resolve(&l, &err) == 0);
        l.before.sealed = data[0] & 0x80;
        buf_str(&notes, LEARN_MAGIC);
        buf_add(&notes, data + 1, size - 1);
        if (buf_ok(&notes) && lesson_read(&l, notes.data, notes.size) == 0) {
                int r = lesson_write(&l, &text, &err);

                assert(r == 0 || r == ERR_LIMIT);
                if (r == 0)
                        check_profile(&l, &text);
        }
        lesson_free(&l);
        return 0;
}
