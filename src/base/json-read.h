/* Reads JSON: checks a whole text strictly, then finds values in it by path.
 *
 * json_check accepts exactly RFC 8259: one value, no duplicate keys in an object, UTF-8 without surrogates, no control
 * characters in strings, numbers of at most 40 bytes, depth and size below caps. The other functions may only be given
 * text that it accepted, with a NUL behind it. A path is keys and array indices separated by dots: "usage.cpu_us",
 * "denials.0.reason"; "" is the whole text. Nothing is allocated; each look-up walks the text. */
#pragma once

#include "base/err.h"

enum { JSON_DEPTH_MAX = 32, JSON_KEYS_MAX = 256, JSON_NUMBER_MAX = 40, JSON_SIZE_MAX = 16 << 20 };

/* The text may come from anybody: time and stack are bounded by its size and by the caps. ERR_INPUT if it is not JSON,
 * ERR_LIMIT if it is larger or deeper than the caps; the sentence names the byte where it stopped. */
int json_check(const char *text, size_t size, struct err *err);

/* False if there is nothing at this path, or if it is of another kind, or does not fit. *ret is untouched then. */
bool json_find_str(const char *text, const char *path, char *buf, size_t size); /* decoded; a NUL inside does not fit */
bool json_find_u64(const char *text, const char *path, uint64_t *ret);          /* whole, not negative, no exponent */
bool json_find_bool(const char *text, const char *path, bool *ret);
bool json_find_null(const char *text, const char *path);
bool json_find_count(const char *text, const char *path, size_t *ret); /* elements of an array or keys of an object */

/* The members of an object, or elements of an array, one after the other: start with json_walk_begin (false if there is
 * neither at the path). value points into the text and can be given to the json_find functions as a text of its own,
 * with the path "". json_walk_key is false where there is no key, or where it does not fit. */
struct json_walk {
        const char *member; /* the next one */
        const char *value;
        const char *key;
        bool object;
};
bool json_walk_begin(struct json_walk *w, const char *text, const char *path);
bool json_walk_next(struct json_walk *w);
bool json_walk_key(const struct json_walk *w, char *buf, size_t size);

/* What is at the path: one of {["0tfn (an object, an array, a string, a number, true, false, null), or '\0'. */
char json_find_kind(const char *text, const char *path);

/* The value at a path, which serves as the text of further look-ups (each looks at one value and no farther), and how
 * many bytes of text it is; NULL if there is none. */
const char *json_at(const char *text, const char *path, size_t *ret_size);
