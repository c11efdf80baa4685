/* Fuzz target: what a browser's head says about a file of the web app. The input is an Accept-Encoding and an
 * If-None-Match, with a zero between them. Nothing beyond their ends is read; a refusal of everything holds, a tag is
 * found if it is there in quotes, and the table is searched with whatever comes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/web-asset.h"
#include "base/macro.h"
#include "tests/fuzz/fuzz.h"

const struct web_asset web_assets[] = {{"/assets/a.js", "text/javascript", "1", 0, 1, 1, 0},
                                       {"/index.html", "text/html", "2", 1, 1, 2, 0}};
const size_t web_asset_count = ELEMENTSOF(web_assets);
const uint8_t web_bytes[] = {1, 2};

static bool has(const char *text, const char *part) {
        return strstr(text, part) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t length = strnlen((const char *)data, size);
        _cleanup_free_ char *accept = strndup((const char *)data, length);
        _cleanup_free_ char *match = strndup((const char *)data + MIN(length + 1, size), size - MIN(length + 1, size));

        assert(accept && match);
        bool takes = web_takes_gzip(accept);
        assert(!takes || strcasestr(accept, "gzip") || has(accept, "*"));
        bool found = web_has_tag(match, "abc");
        assert(!found || has(match, "\"abc\"") || has(match, "*"));
        const struct web_asset *a = web_asset_find(accept);
        assert(!a || str_eq(a->path, accept));
        return 0;
}
