/* The page of `stockade verify`, for a browser's tab. What attacked sandboxes said is quoted in it; the judge escaped
 * all of it, and yet it is shown like a stranger's: without scripts, without an origin of ours, in nobody's frame. */
#include "api/views.h"
#include "base/json-read.h"

#define POLICY                                                                                                         \
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "                \
        "frame-ancestors 'none'"

static void page(struct exchange *x, const char *result) {
        struct buf b = {0};
        size_t size = 0;

        if (!json_at(result, "page", &size) || !(b.data = malloc(size + 1)) ||
            !json_find_str(result, "page", b.data, size + 1)) {
                free(b.data);
                reply_error(x, "failed", "run 'stockade verify' on the host again", "the page cannot be shown");
                return;
        }
        b.size = strlen(b.data);
        b.room = size + 1;
        reply_text(x, 200, "text/html; charset=utf-8", &b);
        const char *old = x->status == 200 && x->response
                                  ? MHD_get_response_header(x->response, "Content-Security-Policy")
                                  : NULL;
        if (old && MHD_del_response_header(x->response, "Content-Security-Policy", old) == MHD_YES)
                reply_header(x, "Content-Security-Policy", POLICY);
}

const struct view view_report_page = {.answer = page};
