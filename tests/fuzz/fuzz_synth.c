/* Fuzz target: the table of synthetic addresses that a gate, captured perhaps, left behind for the next. The input is
 * how many names it says there are, where each ends (two bytes each, as many as the first byte says), and the names. A
 * table that is taken over holds canonical names, each once, each found by its name and by both of its addresses; and
 * it still takes a new one. What is refused is refused without looking outside the table. */
#include <sys/mman.h>

#include "gate/synth.h"
#include "tests/fuzz/fuzz.h"

/* The layout, as synth.c has it: what a hostile gate would write. */
struct table {
        uint64_t magic;
        uint32_t count, unused;
        uint8_t seed[16];
        uint16_t slots[2 * SYNTH_NAMES];
        uint32_t ends[SYNTH_NAMES];
        char names[];
};

static void check(struct synth *s, unsigned count) {
        char again[HOSTNAME_SIZE];
        struct address a;

        for (unsigned i = 0; i < count; i++)
                for (int v6 = 0; v6 < 2; v6++) {
                        synth_address(i, v6, &a);
                        const char *name = synth_name(s, &a);
                        assert(name && synth_covers(&a));
                        assert(hostname_canonical(name, strlen(name), again) > 0 && str_eq(again, name));
                        assert(synth_index(s, name) == (int)i);
                }
        synth_address(count, false, &a);
        assert(!synth_name(s, &a));
        int made = synth_index(s, "a-name-that-is-new.example");
        assert(made == (int)count || (made >= 0 && made < (int)count) || made == -ENOSPC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct table *t;

        if (!t) {
                t = mmap(NULL, SYNTH_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                assert(t != MAP_FAILED);
                assert(synth_attach(t, SYNTH_MEMORY)); /* writes its magic */
        }
        if (size < 3)
                return 0;
        size_t ends = data[0];
        t->count = (uint32_t)data[1] | (data[2] & 0x80 ? 0xffff0000u : 0u);
        data += 3, size -= 3;
        memset(t->ends, 0, 256 * sizeof t->ends[0]);
        for (size_t i = 0; i < ends && size >= 2; i++, data += 2, size -= 2)
                t->ends[i] = (uint32_t)(data[0] << 8 | data[1]) | (data[0] == 0xff ? 0xff000000u : 0u);
        size_t n = MIN(size, (size_t)65536);
        memset(t->names, 0, 65536);
        memcpy(t->names, data, n);
        struct synth *s = synth_attach(t, SYNTH_MEMORY);
        if (s)
                check(s, t->count);
        return 0;
}
