/* Fuzz target: what a machine's kernel asks of its file server. A message that is read has names that are one part of a
 * path, and all that it points to is within it. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "driver/fuse-message.h"
#include "tests/fuzz/fuzz.h"

static void check_name(const char *name, const uint8_t *data, size_t size) {
        const uint8_t *at = (const uint8_t *)name;

        assert(at >= data && at < data + size && memchr(at, '\0', (size_t)(data + size - at)));
        assert(name[0] && strlen(name) <= NAME_MAX && !strchr(name, '/') && strcmp(name, ".") != 0 &&
               strcmp(name, "..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct fuse_message m;
        int r = fuse_message_read(data, size, &m);

        assert(r == 0 || r == -EPROTO || r == -ENOSYS || r == -ENAMETOOLONG);
        if (r < 0)
                return 0;
        assert(m.head.len == size);
        if (m.name)
                check_name(m.name, data, size);
        if (m.second && m.head.opcode != FUSE_SYMLINK)
                check_name(m.second, data, size);
        if (m.second)
                assert(strlen(m.second) <= FUSE_LINK_MAX);
        if (m.data)
                assert(m.data >= data && m.size <= size - (size_t)(m.data - data) && m.size <= FUSE_IO_MAX);
        if (m.head.opcode == FUSE_BATCH_FORGET)
                for (size_t i = 0; i < m.in.forgets.count; i++)
                        (void)fuse_message_forget(&m, i);
        return 0;
}
