/* Text from people: numbers with units, durations, safe printing. One parser for profiles and options alike. */
#pragma once

#include "base/err.h"

/* What a number in a profile or option means, and so which units it takes. */
enum text_unit {
        TEXT_COUNT, /* 128, 200k, 3M: decimal multiples */
        TEXT_BYTES, /* 512, 64KiB, 1GiB, 500MB */
        TEXT_RATE,  /* 50MiB/s: bytes a second */
        TEXT_TIME,  /* 500ms, 30s, 10m, 24h, 7d: milliseconds */
        TEXT_CPUS,  /* 0.5, 2: thousandths of a processor */
        TEXT_MONEY, /* 5, 2.50: hundredths */
};

/* Parses the whole of s. Negative numbers, empty strings, unknown units, and overflow are errors whose sentence says
 * which forms are right. *ret is untouched on failure. */
int text_parse(const char *s, enum text_unit unit, uint64_t *ret, struct err *err);

/* The shortest exact form with a unit: 1073741824 as "1GiB", 600000 as "10m". Returns buf. */
const char *text_format(char *buf, size_t size, enum text_unit unit, uint64_t value);

/* Copies s so that it prints as one inert line: control bytes, bytes that are not UTF-8, and characters that change the
 * direction of text or cannot be seen become \xNN. */
void text_escape(char *buf, size_t size, const char *s);

/* 0 if s is an absolute path in canonical form: no "", ".", ".." parts, no control bytes, shorter than PATH_MAX.
 * "/" is canonical. */
int text_check_path(const char *s, struct err *err);

/* Length of the UTF-8 sequence at s (NUL-terminated), or 0 if it is not one. Overlong forms and surrogates are not. */
size_t text_utf8_length(const unsigned char *s);
bool text_is_utf8(const char *s);

/* Edits to get from a to b, swaps of neighbours counting as one; for "did you mean". Words above 63 bytes: 64. */
unsigned text_distance(const char *a, const char *b);

/* Whether a secret has so few different bytes that it was typed rather than drawn. */
bool text_is_guessable(const void *secret, size_t size);
