/* Unit tests of synthetic addresses: stable, exact, and no table that a captured gate left is believed. */
#include <sys/mman.h>

#include "base/test.h"
#include "gate/synth.h"

/* Offsets in a table, for breaking one. They are the layout in synth.c. */
#define AT_COUNT 8
#define AT_ENDS  (32 + 2 * SYNTH_NAMES * 2)
#define AT_NAMES (AT_ENDS + SYNTH_NAMES * 4)

static uint8_t *fresh(void) {
        void *p = mmap(NULL, SYNTH_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        assert(p != MAP_FAILED);
        return p;
}

static void done(uint8_t *memory) {
        (void)munmap(memory, SYNTH_MEMORY);
}

static const char *text_of(unsigned index, bool v6, char text[ADDRESS_TEXT_MAX]) {
        struct address a;

        synth_address(index, v6, &a);
        address_print(&a, text);
        return text;
}

static const char *name_of(const struct synth *s, const char *text) {
        struct address a;

        if (!address_parse(text, strlen(text), false, &a))
                return "(not an address)";
        const char *name = synth_name(s, &a);
        return name ? name : "";
}

static bool covers(const char *text) {
        struct address a;

        return address_parse(text, strlen(text), false, &a) && synth_covers(&a);
}

static void a_name_keeps_its_address(void) {
        uint8_t *memory = fresh();
        struct synth *s = synth_attach(memory, SYNTH_MEMORY);
        char text[ADDRESS_TEXT_MAX];

        CHECK(s != NULL);
        CHECK(synth_index(s, "a.example") == 0);
        CHECK(synth_index(s, "b.example") == 1);
        CHECK(synth_index(s, "a.example") == 0);
        CHECK(synth_index(s, "a.exampl") == 2);
        CHECK_STR(text_of(0, false, text), "198.18.1.0");
        CHECK_STR(text_of(1, false, text), "198.18.1.1");
        CHECK_STR(text_of(256, false, text), "198.18.2.0");
        CHECK_STR(text_of(SYNTH_NAMES - 1, false, text), "198.18.64.255");
        CHECK_STR(text_of(0, true, text), "fd53:746f:636b::1:0");
        CHECK_STR(text_of(SYNTH_NAMES - 1, true, text), "fd53:746f:636b::1:3fff");
        CHECK_STR(name_of(s, "198.18.1.1"), "b.example");
        CHECK_STR(name_of(s, "fd53:746f:636b::1:1"), "b.example");

        /* and after the gate that gave them out is gone */
        s = synth_attach(memory, SYNTH_MEMORY);
        CHECK(s != NULL);
        CHECK(s && synth_index(s, "b.example") == 1 && synth_index(s, "c.example") == 3);
        CHECK_STR(name_of(s, "198.18.1.2"), "a.exampl");
        done(memory);
}

static void other_addresses_stand_for_nobody(void) {
        uint8_t *memory = fresh();
        struct synth *s = synth_attach(memory, SYNTH_MEMORY);

        CHECK(synth_index(s, "a.example") == 0);
        CHECK_STR(name_of(s, "198.18.1.0"), "a.example");
        static const char *const none[] = {
                "198.18.1.1",
                SYNTH_OWN_V4,
                SYNTH_OWN_V6,
                "198.18.0.255",
                "198.19.255.255",
                "198.20.1.0",
                "8.8.8.8",
                "::1:0",
                "::",
                "fd53:746f:636b::1:1",
                "fd53:746f:636b::0:0",
                "fd53:746f:636b:1::1:0",
                "fd53:746f:636c::1:0",
                "fd53:746f:636b::1:1:0",
                "fd53:746f:636b:8000::1:0",
                "::198.18.1.0",
        };
        for (size_t i = 0; i < ELEMENTSOF(none); i++)
                CHECK_STR(name_of(s, none[i]), "");
        CHECK(covers("198.18.0.0") && covers("198.19.255.255") && covers("198.18.1.0") && covers(SYNTH_OWN_V4));
        CHECK(!covers("198.17.255.255") && !covers("198.20.0.0") && !covers("::198.18.1.0"));
        CHECK(covers("::ffff:198.18.1.0") && covers(SYNTH_OWN_V6) && covers("fd53:746f:636b:ffff::"));
        CHECK(!covers("fd53:746f:636c::1") && !covers("fd53:746f:636a:ffff::1"));
        done(memory);
}

static void a_full_table_refuses(void) {
        uint8_t *memory = fresh();
        struct synth *s = synth_attach(memory, SYNTH_MEMORY);
        char name[HOSTNAME_SIZE];

        for (int i = 0; i < SYNTH_NAMES; i++) {
                (void)snprintf(name, sizeof name, "n%d.example", i);
                CHECK(synth_index(s, name) == i);
        }
        CHECK(synth_index(s, "one.more") == -ENOSPC);
        CHECK(synth_index(s, "n16383.example") == SYNTH_NAMES - 1);
        CHECK_STR(name_of(s, "198.18.64.255"), "n16383.example");
        s = synth_attach(memory, SYNTH_MEMORY);
        CHECK(s && synth_index(s, "n0.example") == 0 && synth_index(s, "one.more") == -ENOSPC);
        memory[AT_COUNT]++; /* what comes after the last entry is not one */
        CHECK(synth_attach(memory, SYNTH_MEMORY) == NULL);
        done(memory);
}

/* Names of full length: the bytes are used up first. */
static void long_names_run_out_of_bytes(void) {
        uint8_t *memory = fresh();
        struct synth *s = synth_attach(memory, SYNTH_MEMORY);
        char name[HOSTNAME_SIZE];
        int i, r = 0;

        for (i = 0; i < SYNTH_NAMES && r >= 0; i++) {
                (void)snprintf(name, sizeof name, "n%05d.", i);
                memset(name + 7, 'x', 253 - 7);
                for (size_t dot = 63; dot < 253; dot += 64)
                        name[dot] = '.';
                name[253] = '\0';
                r = synth_index(s, name);
                CHECK(r == i || r == -ENOSPC);
        }
        CHECK(r == -ENOSPC && i > 5000 && i < 6000);
        CHECK(synth_index(s, "short") >= 0); /* still fits */
        CHECK(synth_attach(memory, SYNTH_MEMORY) == s);
        done(memory);
}

static void too_small_or_crooked_memory_is_refused(void) {
        uint8_t *memory = fresh();

        CHECK(synth_attach(memory, SYNTH_MEMORY - 1) == NULL);
        CHECK(synth_attach(memory + 1, SYNTH_MEMORY) == NULL);
        CHECK(synth_attach(NULL, SYNTH_MEMORY) == NULL);
        done(memory);
}

/* A table with three names, and one thing wrong with it. */
static bool refused(size_t at, const void *bytes, size_t size) {
        uint8_t *memory = fresh();
        struct synth *s = synth_attach(memory, SYNTH_MEMORY);

        CHECK(synth_index(s, "aa.example") == 0 && synth_index(s, "bb.example") == 1);
        CHECK(synth_index(s, "cc.example") == 2);
        CHECK(memcmp(memory + AT_NAMES, "aa.example\0bb.example", 22) == 0);
        memcpy(memory + at, bytes, size);
        s = synth_attach(memory, SYNTH_MEMORY);
        done(memory);
        return s == NULL;
}

static bool refused_u32(size_t at, uint32_t v) {
        return refused(at, &v, sizeof v);
}

static void a_hostile_table_is_refused(void) {
        CHECK(!refused_u32(AT_COUNT, 3));
        CHECK(!refused_u32(AT_COUNT, 2)); /* one less is a table, too: as it was before */
        CHECK(!refused(AT_NAMES, "dd", 2));
        CHECK(refused(0, "\1", 1)); /* magic */
        CHECK(refused(0, "\0\0\0\0\0\0\0\0", 8));
        CHECK(refused_u32(AT_COUNT, 4)); /* an entry of nothing */
        CHECK(refused_u32(AT_COUNT, SYNTH_NAMES + 1));
        CHECK(refused_u32(AT_COUNT, UINT32_MAX));
        CHECK(refused_u32(AT_ENDS, 0));
        CHECK(refused_u32(AT_ENDS, 12));
        CHECK(refused_u32(AT_ENDS + 4, 11));
        CHECK(refused_u32(AT_ENDS + 8, SYNTH_MEMORY));
        CHECK(refused_u32(AT_ENDS + 8, UINT32_MAX));
        CHECK(refused_u32(AT_ENDS + 8, 34)); /* a NUL inside */
        CHECK(refused(AT_NAMES, "A", 1));
        CHECK(refused(AT_NAMES + 2, "\0", 1));
        CHECK(refused(AT_NAMES + 2, "\n", 1));
        CHECK(refused(AT_NAMES + 10, ".", 1));
        CHECK(refused(AT_NAMES, "aa.example.", 11)); /* not ended */
        CHECK(refused(AT_NAMES + 9, ".", 1));        /* "aa.exampl.": not canonical */
        CHECK(refused(AT_NAMES, "bb", 2));           /* the same name twice */
        CHECK(refused(AT_NAMES, "-a", 2));
        CHECK(refused(AT_NAMES, "1.2.3.4567", 10));
}

/* Slots that lie are made anew: they are never what a name is found by. */
static void lying_slots_do_nothing(void) {
        uint8_t *memory = fresh();
        struct synth *s = synth_attach(memory, SYNTH_MEMORY);

        CHECK(synth_index(s, "a.example") == 0 && synth_index(s, "b.example") == 1);
        memset(memory + 32, 0xff, 2 * SYNTH_NAMES * 2);
        s = synth_attach(memory, SYNTH_MEMORY);
        CHECK(s && synth_index(s, "b.example") == 1 && synth_index(s, "c.example") == 2);

        memset(memory, 0, 16); /* and under a table that pretends to be new */
        s = synth_attach(memory, SYNTH_MEMORY);
        CHECK(s && synth_index(s, "c.example") == 0);
        CHECK_STR(name_of(s, "198.18.1.1"), "");
        done(memory);
}

TEST_MAIN(TEST(a_name_keeps_its_address), TEST(other_addresses_stand_for_nobody), TEST(a_full_table_refuses),
          TEST(long_names_run_out_of_bytes), TEST(too_small_or_crooked_memory_is_refused),
          TEST(a_hostile_table_is_refused), TEST(lying_slots_do_nothing))
