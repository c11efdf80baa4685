/* Command lines of programs, made of numbers and of our own paths: nothing that a sandbox says gets into them. */
#pragma once

#include "base/buf.h"

#define WORDS_MAX 64

/* NULL-terminated, all in one allocation. */
struct words {
        char **argv;
        struct buf text;
};
void words_free(struct words *w);
#define _cleanup_words_ _cleanup_(words_free)

/* Words one after another into a buffer, each with its NUL: words_add a whole one, words_end after what was printed. */
void words_add(struct buf *b, const char *word);
void words_end(struct buf *b);

/* Splits the buffer, which is empty then. */
int words_take(struct buf *b, struct words *ret);
