/* Fuzz target: the kernel's table of sockets as a sandbox shows it. Whatever the text, the ports are in order, each
 * once, and no more than fit; a table cut in two lines gives what the whole gives. */
#include <assert.h>
#include <string.h>

#include "api/port-table.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint16_t whole[PORT_TABLE_MAX], parts[PORT_TABLE_MAX];
        size_t whole_count = 0, parts_count = 0;
        const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
        size_t cut = line ? (size_t)(line + 1 - data) : 0;

        port_table_read((const char *)data, size, whole, &whole_count);
        assert(whole_count <= PORT_TABLE_MAX);
        for (size_t i = 0; i < whole_count; i++)
                assert(whole[i] > 0 && (i == 0 || whole[i - 1] < whole[i]));
        port_table_read((const char *)data, cut, parts, &parts_count);
        port_table_read((const char *)data + cut, size - cut, parts, &parts_count);
        assert(parts_count == whole_count && memcmp(whole, parts, whole_count * sizeof *whole) == 0);
        return 0;
}
