/* Fuzz target: text from people: numbers with units, paths, and what is printed of foreign text. A number that is
 * accepted is the same when it is printed and read again; escaped text is one inert line of printable UTF-8; a path
 * that is canonical has one form. */
#include "base/text.h"
#include "tests/fuzz/fuzz.h"

static void check_number(const char *s, enum text_unit unit) {
        struct err err = {0};
        uint64_t value = 42, again;
        char text[64];

        if (text_parse(s, unit, &value, &err) < 0) {
                assert(value == 42 && err.text[0] != '\0');
                return;
        }
        assert(text_format(text, sizeof text, unit, value) == text && text[0] != '\0' &&
               strlen(text) < sizeof text - 1);
        assert(text_parse(text, unit, &again, &err) == 0 && again == value);
}

static void check_escape(const char *s, size_t room) {
        char line[4096];

        memset(line, 'x', sizeof line);
        text_escape(line, room, s);
        size_t n = strnlen(line, room);
        assert(n < room);
        for (size_t i = 0; i < n;) {
                size_t length = text_utf8_length((const unsigned char *)line + i);

                assert(length > 0 && (unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
                if (length == 2) /* the other control characters */
                        assert((unsigned char)line[i] != 0xc2 || (unsigned char)line[i + 1] >= 0xa0);
                i += length;
        }
}

static void check_path(const char *s) {
        struct err err = {0};

        if (text_check_path(s, &err) < 0) {
                assert(err.text[0] != '\0');
                return;
        }
        assert(s[0] == '/' && strlen(s) < 4096 && !strstr(s, "//") && !strstr(s, "/./") && !strstr(s, "/../"));
        size_t n = strlen(s);
        assert(n == 1 || s[n - 1] != '/');
        assert(n < 2 || !str_eq(s + n - 2, "/."));
        assert(n < 3 || !str_eq(s + n - 3, "/.."));
        for (size_t i = 0; i < n; i++)
                assert((unsigned char)s[i] >= 0x20 && s[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *s = strndup((const char *)data, size);

        assert(s);
        for (enum text_unit unit = TEXT_COUNT; unit <= TEXT_MONEY; unit++)
                check_number(s, unit);
        check_escape(s, 4096);
        check_escape(s, 1 + size % 40);
        check_path(s);
        return 0;
}
