/* The web app in this binary: files as tools/web-pack put them there. Nothing is read from a disk, and nothing is
 * packed when somebody asks. A build without the app has an empty table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_INDEX "/index.html"
#define WEB_NONCE "@NONCE@" /* stands in the index where an answer's nonce goes */

struct web_asset {
        const char *path; /* of the URL: "/assets/index-1a2b3c.js" */
        const char *type;
        const char *tag;  /* of the content, without quotes */
        size_t at, size;  /* in web_bytes, as it is */
        size_t packed_at; /* likewise as gzip */
        size_t packed;    /* its size; 0: it is not there packed */
};

/* Made at build time; sorted by path. */
extern const struct web_asset web_assets[];
extern const size_t web_asset_count;
extern const uint8_t web_bytes[] __attribute__((visibility("hidden")));

const struct web_asset *web_asset_find(const char *path);     /* NULL: there is none */
bool web_takes_gzip(const char *accept);                      /* an Accept-Encoding, or NULL */
bool web_has_tag(const char *if_none_match, const char *tag); /* which is quoted there */
