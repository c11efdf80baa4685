/* %XX, strictly: two digits, no NUL, no control character (but in paths of files), UTF-8. Foreign bytes: no I/O,
 * nothing allocated. */
#include "api/percent.h"

#include "base/text.h"

static int hex(char c) {
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

static bool is_control(unsigned char c) {
        return c < ' ' || c == 0x7f;
}

static bool decode(const char *text, size_t size, char *buf, size_t room, bool controls) {
        size_t n = 0;

        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char)text[i];
                bool escaped = c == '%';

                if (escaped) {
                        int high = i + 2 < size ? hex(text[i + 1]) : -1, low = i + 2 < size ? hex(text[i + 2]) : -1;

                        if (high < 0 || low < 0)
                                return false;
                        c = (unsigned char)(high << 4 | low);
                        i += 2;
                }
                if (c == '\0' || (is_control(c) && !(controls && escaped)) || n + 1 >= room)
                        return false;
                buf[n++] = (char)c;
        }
        buf[n] = '\0';
        return text_is_utf8(buf);
}

bool percent_decode(const char *text, size_t size, char *buf, size_t room) {
        return decode(text, size, buf, room, false);
}

bool percent_decode_path(const char *text, size_t size, char *buf, size_t room) {
        return decode(text, size, buf, room, true);
}
