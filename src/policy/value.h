/* What single words in a profile may look like, and which word covers which. Pure functions.
 *
 * A check fills err with a sentence about the word alone; the caller adds key and position. */
#pragma once

#include "base/err.h"

typedef int (*value_check)(const char *text, struct err *err);
typedef char *(*value_settle)(const char *text); /* of a text that passed its check; the caller's, NULL: no memory */

int value_check_name(const char *text, struct err *err);     /* a profile's name */
int value_check_extends(const char *text, struct err *err);  /* a name or a path */
int value_check_path(const char *text, struct err *err);     /* an absolute, plain path */
int value_check_device(const char *text, struct err *err);   /* a path below /dev */
int value_check_user(const char *text, struct err *err);     /* a login name, not root */
int value_check_image(const char *text, struct err *err);    /* an image's name */
int value_check_variable(const char *text, struct err *err); /* an environment variable's or a secret's name */
int value_check_tool(const char *text, struct err *err);     /* a brokered tool's name */
int value_check_host(const char *text, struct err *err);     /* a host name, "*.name" or "*" */
char *value_settle_host(const char *text);                   /* small letters, the xn-- form, no dot at the end */
int value_check_cidr(const char *text, struct err *err);     /* an address block without stray host bits */
int value_check_method(const char *text, struct err *err);   /* an HTTP method */
int value_check_url(const char *text, struct err *err);      /* an HTTP path; '*' only at its end */

/* Text from outside a file (an option): UTF-8 and without control bytes. */
int value_check_text(const char *text, struct err *err);

/* Whether everything that `narrow` stands for is also in `wide`. Both passed their check. */
bool value_path_covers(const char *wide, const char *narrow);
bool value_host_covers(const char *wide, const char *narrow);
bool value_cidr_covers(const char *wide, const char *narrow);
bool value_url_covers(const char *wide, const char *narrow);
