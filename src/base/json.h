/* Writes JSON into a buf, one call per value. Output only: nothing here parses.
 *
 * Commas are placed by the writer. Strings are escaped; bytes that are not UTF-8 become U+FFFD, so that what a sandbox
 * named a file can never break a record. key is NULL inside arrays. */
#pragma once

#include "base/buf.h"

struct json {
        struct buf *out;
        bool comma;
};

void json_open(struct json *j, const char *key, char bracket);     /* '{' or '[' */
void json_close(struct json *j, char bracket);                     /* '}' or ']' */
void json_str(struct json *j, const char *key, const char *value); /* NULL value writes null */
void json_u64(struct json *j, const char *key, uint64_t value);
void json_u64_or_null(struct json *j, const char *key, uint64_t value); /* UINT64_MAX: there is none */
void json_i64(struct json *j, const char *key, int64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
