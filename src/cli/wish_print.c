/* Text of a learned profile. What a sandbox chose reaches it through these functions only: as a quoted scalar on one
 * line, or inside a comment with everything escaped that could end it. */
#include "base/text.h"
#include "cli/learn_wish.h"

void wish_quote(struct buf *out, const char *text) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-";

        if (text[0] && !strchr(".-", text[0]) && strspn(text, plain) == strlen(text)) {
                buf_str(out, text);
                return;
        }
        buf_str(out, "\"");
        for (const char *p = text; *p; p++) {
                if (*p == '"' || *p == '\\')
                        buf_str(out, "\\");
                buf_add(out, p, 1);
        }
        buf_str(out, "\"");
}

void wish_comment(struct buf *out, const char *text) {
        char line[2 * LEARN_PATH_SIZE];

        text_escape(line, sizeof line, text);
        buf_str(out, line);
}

static void times(struct buf *out, uint64_t count) {
        if (count == 1)
                buf_str(out, "once");
        else
                buf_printf(out, "%llu times", (unsigned long long)count);
}

void wish_tried(struct buf *out, const struct wish *w) {
        static const char *const verbs[LEARN_KIND_COUNT] = {[LEARN_READ] = "looked for",
                                                            [LEARN_MAKE] = "something was to be made there",
                                                            [LEARN_CHANGE] = "was to be changed",
                                                            [LEARN_EXEC] = "executed",
                                                            [LEARN_CONNECT] = "connected to"};

        if (w->key == WISH_ALLOW)
                buf_str(out, w->port_count > 0 ? "tried" : "asked for");
        else if (w->kind == LEARN_READ && (w->flags & LEARN_USED))
                buf_str(out, "opened");
        else
                buf_str(out, verbs[w->kind]);
        buf_str(out, " ");
        times(out, w->count > 0 ? w->count : w->asked);
        if (w->real[0]) {
                buf_str(out, ", leads to ");
                wish_comment(out, w->real);
        }
}
