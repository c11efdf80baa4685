/* Finding a file of the web app, and what a browser's head says about it. Reads foreign headers; no I/O. */
#include "api/web-asset.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int compare(const void *path, const void *row) {
        return strcmp(path, ((const struct web_asset *)row)->path);
}

const struct web_asset *web_asset_find(const char *path) {
        return web_asset_count == 0 ? NULL : bsearch(path, web_assets, web_asset_count, sizeof web_assets[0], compare);
}

/* "q=0", "q=0.0", "q=0.000": not at all. */
static bool is_refused(const char *parameters, size_t size) {
        for (size_t i = 0; i + 3 <= size; i++)
                if (strncasecmp(parameters + i, "q=0", 3) == 0) {
                        size_t rest = i + 3, zeros = rest;

                        while (zeros < size && strchr(".0", parameters[zeros]))
                                zeros++;
                        return zeros == size || strchr(" \t;", parameters[zeros]);
                }
        return false;
}

bool web_takes_gzip(const char *accept) {
        bool any = false;

        for (const char *p = accept; p && *p; p += *p == ',') {
                p += strspn(p, " \t");
                size_t size = strcspn(p, ","), name = strcspn(p, ",; \t");
                bool refused = is_refused(p + name, size - name);

                if ((name == 4 && strncasecmp(p, "gzip", 4) == 0) || (name == 6 && strncasecmp(p, "x-gzip", 6) == 0))
                        return !refused;
                if (name == 1 && *p == '*')
                        any = !refused;
                p += size;
        }
        return any;
}

bool web_has_tag(const char *if_none_match, const char *tag) {
        size_t length = strlen(tag);

        for (const char *p = if_none_match; p && *p; p += *p == ',') {
                p += strspn(p, " \t");
                if (*p == '*')
                        return true;
                if (strncmp(p, "W/", 2) == 0)
                        p += 2;
                if (*p == '"' && strncmp(p + 1, tag, length) == 0 && p[1 + length] == '"')
                        return true;
                p += strcspn(p, ",");
        }
        return false;
}
