/* Fuzz target: requests of the sftp subsystem. Whatever is read lies within the packet, texts end, and a path that was
 * made plain is absolute, has no "." and ".." parts, and stays as it is when it is made plain again. */
#include "ssh/sftp-request.h"
#include "tests/fuzz/fuzz.h"

static void plain(const char *path) {
        char once[SFTP_PATH_MAX], twice[SFTP_PATH_MAX];

        if (!sftp_plain_path("/home/agent", path, once))
                return;
        assert(once[0] == '/' && strlen(once) < sizeof once && !strstr(once, "//") && !strstr(once, "/../") &&
               !strstr(once, "/./"));
        assert(sftp_plain_path("/", once, twice) && strcmp(once, twice) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct sftp_request q;
        int r = sftp_request_read(data, size, &q);

        assert(r == 0 || r == -EBADMSG || r == -EOPNOTSUPP);
        if (r < 0)
                return 0;
        assert(memchr(q.path, '\0', sizeof q.path) && memchr(q.to, '\0', sizeof q.to) &&
               memchr(q.name, '\0', sizeof q.name));
        if (q.data)
                assert(q.data >= data && q.data_size <= size && q.data + q.data_size <= data + size);
        plain(q.path);
        plain(q.to);
        return 0;
}
