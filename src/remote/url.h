/* Where a server is: http://HOST[:PORT] or https://HOST[:PORT], and nothing behind it. */
#pragma once

#include "base/err.h"

#define URL_TEXT 300

struct url {
        bool tls;
        char host[256];      /* a name or an address, without brackets, in lower case */
        char port[6];        /* always there */
        char text[URL_TEXT]; /* "https://example.org": in lower case, a usual port left out */
        const char *domain;  /* of it: what stands in Host, and in the text that a wallet signs */
        bool is_address;     /* and not a name */
};

/* ERR_INPUT: with what would be right. */
int url_parse(const char *text, struct url *ret, struct err *err);

/* The link that `stockade sign-in` prints: its server, and what stands behind "/#link=" (inside text). */
int url_parse_link(const char *text, struct url *ret, const char **ret_link, struct err *err);

/* A file name that no other server has. */
void url_file(const struct url *u, char *ret, size_t size);
