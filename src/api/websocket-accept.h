/* The one computation of a WebSocket's opening (RFC 6455, 4.2.2): it proves nothing but that we read the key. */
#pragma once

#include "base/macro.h"

#define WEBSOCKET_ACCEPT 29 /* 28 characters, NUL */

/* False: this is no key (16 bytes in base64). */
bool websocket_accept(const char *key, char ret[WEBSOCKET_ACCEPT]);
