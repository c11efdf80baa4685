/* Errors: a number for programs, a sentence for people.
 *
 * Functions return 0 or more on success and a negative number on failure: -errno, or one of the codes below -1000.
 * A struct err, when the caller passes one, holds the sentence; it lives on the caller's stack and needs no freeing.
 * Wording: "could not" may work later, "cannot" never will. The hint says what to do next and may be empty. */
#pragma once

#include <errno.h>

#include "base/macro.h"

enum {
        ERR_REFUSED = -1001,    /* the policy or the host does not permit it; nothing was started */
        ERR_UNENFORCED = -1002, /* asked for something that cannot be enforced here */
        ERR_INPUT = -1003,      /* what a person wrote is wrong: profile, option, argument */
        ERR_CORRUPT = -1004,    /* bytes that should be ours are not well-formed */
        ERR_LIMIT = -1005,      /* larger than we accept */
};

struct err {
        int code;
        char text[512];
        char hint[512];
};

/* Sets the sentence and returns code, so that callers can `return err_set(err, -errno, "...")`. err may be NULL.
 * For a -errno code the errno's own text is appended: "cannot open 'x': No such file or directory". */
int err_set(struct err *err, int code, const char *format, ...) _printf_(3, 4);

/* Adds the next step. Returns err->code (or -EINVAL when err is NULL). */
int err_hint(struct err *err, const char *format, ...) _printf_(2, 3);

/* Puts "what: " before the existing sentence. Returns code unchanged. */
int err_prefix(struct err *err, int code, const char *format, ...) _printf_(3, 4);

/* The text for an error number of either kind. */
const char *err_name(int code);

/* "stockade: text" and, if there is one, "hint: ..." on stderr, control characters escaped. */
void err_print(const struct err *err);
