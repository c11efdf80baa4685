/* Error text. Holds no state; never allocates, so it can be used on the way out of anything. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

const char *err_name(int code) {
        switch (code) {
        case ERR_REFUSED:
                return "refused";
        case ERR_UNENFORCED:
                return "not enforceable";
        case ERR_INPUT:
                return "invalid input";
        case ERR_CORRUPT:
                return "malformed data";
        case ERR_LIMIT:
                return "too large";
        default:
                return strerror(code < 0 ? -code : code);
        }
}

int err_set(struct err *err, int code, const char *format, ...) {
        if (!err)
                return code;

        va_list args;
        va_start(args, format);
        int n = vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);

        if (code < 0 && code > -1000 && n >= 0 && (size_t)n < sizeof err->text)
                (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", err_name(code));
        err->code = code;
        err->hint[0] = '\0';
        return code;
}

int err_hint(struct err *err, const char *format, ...) {
        if (!err)
                return -EINVAL;

        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->hint, sizeof err->hint, format, args);
        va_end(args);
        return err->code;
}

int err_prefix(struct err *err, int code, const char *format, ...) {
        if (!err)
                return code;

        char old[sizeof err->text];
        memcpy(old, err->text, sizeof old);

        va_list args;
        va_start(args, format);
        int n = vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);

        if (n >= 0 && (size_t)n < sizeof err->text)
                (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", old);
        return code;
}

void err_print(const struct err *err) {
        char line[2 * sizeof err->text];

        text_escape(line, sizeof line, err->text);
        (void)fprintf(stderr, "stockade: %s\n", line);
        if (err->hint[0]) {
                text_escape(line, sizeof line, err->hint);
                (void)fprintf(stderr, "  hint: %s\n", line);
        }
}
