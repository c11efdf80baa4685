/* Bytes of a sandbox as text for JSON and for server-sent events. */
#pragma once

#include "base/json.h"

void encode_base64(struct buf *b, const void *data, size_t size); /* RFC 4648, with padding */

/* How many of these bytes are whole characters, so that a cut does not go through one: size, or up to three less. */
size_t encode_whole(const uint8_t *data, size_t size);

/* A member with these bytes: as text if they are UTF-8 without NUL, otherwise as KEY_base64. */
void encode_member(struct json *j, const char *key, const uint8_t *data, size_t size);

/* One event: "id: …" if id is not NULL, "event: name", "data: json". The JSON has no line breaks. */
void encode_event(struct buf *b, const char *id, const char *name, const char *json);
