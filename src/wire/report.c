/* The words of a report. Bytes above ASCII are let through: whoever prints them escapes what is not UTF-8. */
#include "wire/report.h"

#include <errno.h>

static bool belongs(char c) {
        return (unsigned char)c >= ' ' && c != 0x7f;
}

static int check(const char field[REPORT_WORDS_SIZE]) {
        size_t n = strnlen(field, REPORT_WORDS_SIZE);

        if (n == REPORT_WORDS_SIZE)
                return -EBADMSG;
        for (size_t i = 0; i < n; i++)
                if (!belongs(field[i]))
                        return -EBADMSG;
        for (size_t i = n; i < REPORT_WORDS_SIZE; i++)
                if (field[i])
                        return -EBADMSG;
        return 0;
}

int report_words_check(const struct report_words *w) {
        int r = check(w->text);

        return r < 0 ? r : check(w->hint);
}

static void set(char field[REPORT_WORDS_SIZE], const char *text) {
        size_t n = strnlen(text, REPORT_WORDS_SIZE - 1);

        memset(field, 0, REPORT_WORDS_SIZE);
        for (size_t i = 0; i < n; i++)
                field[i] = belongs(text[i]) ? text[i] : '?';
}

void report_words_set(struct report_words *w, const char *text, const char *hint) {
        set(w->text, text);
        set(w->hint, hint);
}
