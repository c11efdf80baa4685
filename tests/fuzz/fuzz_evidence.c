/* Fuzz target: an evidence file from anybody. It holds or it does not, and what does not is named; what holds has
 * events under a checkpoint or says that they are under none, and holds no more when its end is missing. */
#include "ledger/evidence.h"
#include "ledger/line.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct ledger_verdict v = {0}, cut = {0};
        struct err err = {0};
        _cleanup_free_ char *exact = malloc(size + !size); /* no byte behind it may be read */

        if (!exact)
                return 0;
        memcpy(exact, data, size);
        int r = evidence_check(exact, size, &v, &err);
        assert(r == 0 || r == ERR_CORRUPT);
        if (r < 0) {
                assert(v.broken_seq > 0 && v.what[0] && err.text[0]);
                return 0;
        }
        assert(v.broken_seq == 0 && v.events > 0 && v.first_seq <= v.last_seq && v.unsigned_events <= v.events);
        assert(v.unsigned_events == v.events || (v.checkpoints > 0 && strlen(v.key) == LINE_HEX));
        assert(line_check_sandbox(v.sandbox) == 0);
        size_t end = size;
        while (end > 0 && strchr(" \t\r\n", exact[end - 1]))
                end--;
        assert(evidence_check(exact, end - 1, &cut, NULL) == ERR_CORRUPT);
        return 0;
}
