/* Fuzz target: the archive reader. The same bytes in one piece and in small pieces must say the same; every member
 * keeps the caps; a name that is plain is relative and has no "..". */
#include "base/pax.h"
#include "tests/fuzz/fuzz.h"

static struct pax_reader reader;

static uint64_t mix(uint64_t h, const void *bytes, size_t size) {
        const uint8_t *p = bytes;

        for (size_t i = 0; i < size; i++)
                h = (h ^ p[i]) * 1099511628211ULL;
        return h;
}

static uint64_t walk(const uint8_t *data, size_t size, size_t piece) {
        uint64_t h = 14695981039346656037ULL, contents = 0;
        char plain[PAX_NAME_SIZE];

        memset(&reader, 0, sizeof reader);
        for (size_t at = 0; at < size;) {
                const uint8_t *p = data + at;
                size_t n = MIN(piece, size - at);

                at += n;
                for (;;) {
                        int item = pax_next(&reader, &p, &n);

                        if (item == PAX_DATA) {
                                assert(reader.size > 0 && reader.data >= data &&
                                       reader.data + reader.size <= data + size);
                                h = mix(h, reader.data, reader.size);
                                contents += reader.size;
                                assert(contents <= reader.bytes);
                                continue;
                        }
                        if (item == PAX_MORE) {
                                assert(n == 0);
                                break;
                        }
                        h = mix(h, &item, sizeof item);
                        if (item == PAX_MEMBER) {
                                const struct pax_member *m = &reader.member;

                                assert(m->name[0] && strlen(m->name) < PAX_NAME_SIZE && m->mode <= 07777);
                                assert((m->type == '1' || m->type == '2') == (m->link != NULL));
                                assert(m->type == '0' || m->size == 0);
                                h = mix(mix(h, m->name, strlen(m->name)), &m->size, sizeof m->size);
                                if (pax_plain(m->name, plain) == 0)
                                        assert(plain[0] != '/' && !strstr(plain, "//") && !strstr(plain, "/../") &&
                                               strncmp(plain, "../", 3) != 0 && !str_eq(plain, ".."));
                        } else if (item != PAX_DONE)
                                return h; /* the end, or an error: and it stays so */
                }
        }
        return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint64_t whole = walk(data, size, SIZE_MAX);

        assert(walk(data, size, 100) == whole);
        assert(walk(data, size, 1 + size / 3) == whole);
        return 0;
}
