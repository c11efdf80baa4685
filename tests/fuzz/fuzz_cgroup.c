/* Fuzz target: /proc/self/cgroup and /proc/self/mountinfo. The input is the one, a NUL, and the other. Every hierarchy
 * that is found lies within what was read, every index is one, and a path that comes out of it is absolute. */
#include <limits.h>

#include "cell/cgroup-place.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct cgroup_place *p) {
        char path[PATH_MAX];

        assert(p->count <= CGROUP_HIERARCHIES && p->v2 >= -1 && p->v2 < (int)p->count);
        for (size_t k = 0; k < CGROUP_CONTROLLERS; k++)
                assert(p->v1[k] >= -1 && p->v1[k] < (int)p->count);
        for (int h = 0; h < (int)p->count; h++) {
                const struct cgroup_hierarchy *c = &p->hierarchies[h];

                assert(c->list >= p->text && c->list < p->text + sizeof p->text);
                assert(c->self >= p->text && c->self < p->text + sizeof p->text);
                assert(c->own >= c->self && c->own <= c->self + strlen(c->self));
                assert(c->own[0] == '\0' || c->own[0] == '/');
                assert(!str_starts(c->self, "/.."));
                if (cgroup_place_path(p, h, c->own, path) == 0)
                        assert(c->visible && strlen(path) < sizeof path && (c->mount || path[0] == '/'));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct cgroup_place p;
        const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
        size_t first = nul ? (size_t)(nul - data) : size;

        if (first >= sizeof p.text)
                return 0;
        memset(&p, 0, sizeof p);
        memcpy(p.text, data, first);
        cgroup_place_parse(&p);
        check(&p);
        if (!nul)
                return 0;
        p.mountinfo = strndup((const char *)nul + 1, size - first - 1);
        assert(p.mountinfo);
        cgroup_place_parse_mounts(&p, p.mountinfo);
        check(&p);
        cgroup_place_free(&p);
        return 0;
}
