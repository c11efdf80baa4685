/* Fuzz target: stockade.conf. What is accepted must print to a file that is accepted and means the same; what is
 * refused must name its line and change nothing. */
#include "base/buf.h"
#include "base/conf.h"
#include "tests/fuzz/fuzz.h"

static struct conf before, once, twice;

static void keep(void *data, const char *text) {
        assert(!strchr(text, '\n'));
        buf_printf(data, "%s\n", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = size < 8192 ? strndup((const char *)data, size) : NULL;
        _cleanup_buf_ struct buf printed = {0};
        struct err err = {0};

        if (!text)
                return 0;
        conf_defaults(&before);
        once = before;
        if (conf_parse("f", text, &once, &err) < 0) {
                assert(strncmp(err.text, "f:", 2) == 0 && memcmp(&once, &before, sizeof once) == 0);
                return 0;
        }
        conf_print(&once, keep, &printed);
        conf_defaults(&twice);
        int r = conf_parse("again", printed.data, &twice, &err);
        assert(buf_ok(&printed) && r == 0 && memcmp(&once, &twice, sizeof once) == 0);
        return 0;
}
