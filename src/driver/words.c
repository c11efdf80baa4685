/* See words.h. They are split at the end, when they no longer move. */
#include "driver/words.h"

void words_add(struct buf *b, const char *word) {
        buf_add(b, word, strlen(word) + 1);
}

void words_end(struct buf *b) {
        buf_add(b, "", 1);
}

int words_take(struct buf *b, struct words *ret) {
        size_t n = 0;

        if (!buf_ok(b))
                return -ENOMEM;
        char **argv = calloc(WORDS_MAX + 1, sizeof *argv);
        if (!argv)
                return -ENOMEM;
        for (size_t at = 0; at < b->size; at += strlen(b->data + at) + 1) {
                if (n == WORDS_MAX) {
                        free(argv);
                        return -E2BIG;
                }
                argv[n++] = b->data + at;
        }
        *ret = (struct words){.argv = argv, .text = *b};
        *b = (struct buf){0};
        return 0;
}

void words_free(struct words *w) {
        free(w->argv);
        buf_free(&w->text);
        w->argv = NULL;
}
