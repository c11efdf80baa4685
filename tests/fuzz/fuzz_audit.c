/* Fuzz target: records of the kernel's audit stream, with paths that a sandbox chose. One record a line: 'd' before one
 * about a domain, anything else before one about an access. Only denials of our own domain count, every text ends, and
 * there are never more of them than there is room for. */
#include "cli/audit.h"
#include "tests/fuzz/fuzz.h"

static void check_text(const char *text, size_t room) {
        assert(text[0] != '\0' && strnlen(text, room) < room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = strndup((const char *)data, size);
        static struct run_outcome o;
        struct audit a = {0};
        uint64_t lines = 0, counted = 0;

        assert(text);
        memset(&o, 0, sizeof o);
        for (char *line = text, *end; line && *line; line = end) {
                end = strchr(line, '\n');
                if (end)
                        *end++ = '\0';
                if (*line == '\0')
                        continue;
                audit_take(&a, line + 1, *line == 'd' ? AUDIT_RECORD_DOMAIN : AUDIT_RECORD_ACCESS, 77, &o);
                lines++;
                assert(strnlen(a.domain, sizeof a.domain) < sizeof a.domain);
                assert(!a.domain[0] || a.waiting_count == 0);
                assert(a.domain[0] || o.denial_count == 0); /* whose it is is not known yet */
        }
        assert(o.denial_count <= RUN_DENIALS_MAX);
        for (size_t i = 0; i < o.denial_count; i++) {
                const struct run_denial *d = &o.denials[i];

                check_text(d->what, sizeof d->what);
                check_text(d->text, sizeof d->text);
                check_text(d->remedy, sizeof d->remedy);
                assert(str_eq(d->source, "landlock audit"));
                assert(str_eq(d->rule, "tools.exec") || str_eq(d->rule, "files.read") ||
                       str_eq(d->rule, "files.write"));
                counted += d->count;
        }
        assert(counted + o.denials_left_out <= lines);
        return 0;
}
