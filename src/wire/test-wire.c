/* Unit tests of messages and plans: what was written reads back, and nothing malformed passes. */
#include "base/test.h"
#include "wire/plan.h"

static const uint8_t hash[HASH_SIZE] = {1, 2, 3};

/* The smallest plan that passes; `without` leaves one operation out. */
static void small_plan(struct buf *b, int without) {
        static const uint8_t program[16];

        plan_begin(b, hash);
        for (int op = 0; op < OP_COUNT; op++) {
                if (op == without)
                        continue;
                switch (op) {
                case OP_PROFILE:
                case OP_HOSTNAME:
                        plan_add(b, (enum plan_op)op, 0, "name");
                        break;
                case OP_CWD:
                case OP_PROC:
                case OP_DEVPTS:
                        plan_add(b, (enum plan_op)op, 0, "/here");
                        break;
                case OP_ROOT_TMPFS:
                case OP_USER:
                case OP_IDS:
                        plan_add(b, (enum plan_op)op, 0, (uint64_t)1000, (uint64_t)1000);
                        break;
                case OP_BIND:
                        plan_add(b, OP_BIND, STEP_NOEXEC, "/usr", "/usr");
                        break;
                case OP_PIVOT:
                case OP_SESSION:
                case OP_CAPS:
                case OP_NO_NEW_PRIVS:
                case OP_EXEC:
                        plan_add(b, (enum plan_op)op, 0);
                        break;
                case OP_SECCOMP:
                        plan_add(b, OP_SECCOMP, 0, (const void *)program, sizeof program);
                        break;
                default:
                        break;
                }
        }
}

static void a_plan_reads_back(void) {
        _cleanup_buf_ struct buf b = {0}, text = {0};
        struct plan p;
        struct plan_walk walk = {0};
        struct plan_step s;
        unsigned n = 0;

        small_plan(&b, -1);
        CHECK(plan_end(&b, NULL) == 0);
        CHECK(plan_check(b.data, b.size, &p, NULL) == 0);
        CHECK(memcmp(p.policy_hash, hash, HASH_SIZE) == 0);
        while (plan_next(&p, &walk, &s)) {
                CHECK(s.index == n);
                n++;
                if (s.op == OP_BIND) {
                        CHECK_STR(s.text[0], "/usr");
                        CHECK(s.flags == STEP_NOEXEC);
                        plan_print_step(&s, &text);
                }
                if (s.op == OP_SECCOMP)
                        CHECK(s.blob_size == 16 && (uintptr_t)s.blob % 8 == (uintptr_t)b.data % 8);
        }
        CHECK(n > 10 && s.op == OP_EXEC);
        CHECK(text.data && strstr(text.data, "bind") && strstr(text.data, "[noexec]"));
}

static void mandatory_steps_are_mandatory(void) {
        static const enum plan_op needed[] = {OP_PROFILE, OP_CWD,          OP_USER,    OP_HOSTNAME, OP_ROOT_TMPFS,
                                              OP_PROC,    OP_DEVPTS,       OP_PIVOT,   OP_SESSION,  OP_IDS,
                                              OP_CAPS,    OP_NO_NEW_PRIVS, OP_SECCOMP, OP_EXEC};
        for (size_t i = 0; i < ELEMENTSOF(needed); i++) {
                _cleanup_buf_ struct buf b = {0};
                small_plan(&b, (int)needed[i]);
                CHECK(plan_end(&b, NULL) == ERR_CORRUPT);
        }
}

/* A plan whose root is a disk, or that has one at a path: `ops` are added in the place of the empty root. */
static int disk_plan(unsigned roots, unsigned disks, unsigned flags, struct buf *text) {
        _cleanup_buf_ struct buf b = {0}, rest = {0};
        struct plan p;
        struct plan_walk walk = {0};
        struct plan_step s;

        small_plan(&rest, -1);
        CHECK(plan_end(&rest, NULL) == 0);
        CHECK(plan_check(rest.data, rest.size, &p, NULL) == 0);
        plan_begin(&b, hash);
        while (plan_next(&p, &walk, &s)) {
                if (s.op != OP_ROOT_TMPFS) {
                        /* steps of the small plan have at most two texts, two numbers or one blob */
                        if (s.blob)
                                plan_add(&b, s.op, s.flags, s.blob, s.blob_size);
                        else if (s.text[0])
                                plan_add(&b, s.op, s.flags, s.text[0], s.text[1]);
                        else
                                plan_add(&b, s.op, s.flags, s.number[0], s.number[1]);
                        continue;
                }
                if (roots == 0)
                        plan_add(&b, OP_ROOT_TMPFS, 0, (uint64_t)4096, (uint64_t)16);
                for (unsigned i = 0; i < roots; i++)
                        plan_add(&b, OP_ROOT_DISK, flags, (uint64_t)(1 << 30), (uint64_t)4096);
                for (unsigned i = 0; i < disks; i++)
                        plan_add(&b, OP_DISK, flags, "/home/agent", (uint64_t)(1 << 30), (uint64_t)4096);
        }
        int r = plan_end(&b, NULL);
        if (r < 0)
                return r;
        CHECK(plan_check(b.data, b.size, &p, NULL) == 0);
        walk = (struct plan_walk){0};
        while (plan_next(&p, &walk, &s))
                if (s.op == OP_DISK || s.op == OP_ROOT_DISK) {
                        CHECK(s.number[0] == 1 << 30 && s.number[1] == 4096 && s.flags == flags);
                        plan_print_step(&s, text);
                }
        return 0;
}

static void a_plan_has_one_disk_at_most(void) {
        _cleanup_buf_ struct buf text = {0};

        CHECK(disk_plan(0, 1, STEP_NOEXEC | STEP_WATCH, &text) == 0);
        CHECK(text.data && strstr(text.data, "disk            /home/agent 1073741824 4096 [noexec] [watched]"));
        CHECK(disk_plan(1, 0, STEP_WATCH, &text) == 0);
        CHECK(text.data && strstr(text.data, "root-disk       1073741824 4096 [watched]"));
        CHECK(disk_plan(0, 0, 0, &text) == 0);
        CHECK(disk_plan(0, 2, 0, &text) == ERR_CORRUPT);
        CHECK(disk_plan(2, 0, 0, &text) == ERR_CORRUPT);
        CHECK(disk_plan(1, 1, 0, &text) == ERR_CORRUPT);
        CHECK(disk_plan(0, 1, STEP_WRITE, &text) == ERR_CORRUPT);
        CHECK(disk_plan(1, 0, STEP_NOEXEC, &text) == ERR_CORRUPT);
}

static void order_flags_and_paths_are_checked(void) {
        _cleanup_buf_ struct buf late = {0}, flags = {0}, path = {0}, rule = {0};

        small_plan(&late, -1);
        plan_add(&late, OP_HOSTNAME, 0, "again");
        CHECK(plan_end(&late, NULL) == ERR_CORRUPT);

        plan_begin(&flags, hash);
        plan_add(&flags, OP_PROFILE, STEP_WRITE, "x");
        CHECK(plan_end(&flags, NULL) == ERR_CORRUPT);

        plan_begin(&path, hash);
        plan_add(&path, OP_CWD, 0, "/a/../b");
        CHECK(plan_end(&path, NULL) == ERR_CORRUPT);

        plan_begin(&rule, hash);
        plan_add(&rule, OP_LANDLOCK_RULE, 0, "/", (uint64_t)1);
        CHECK(plan_end(&rule, NULL) == ERR_CORRUPT);
}

/* Every prefix and every single changed byte must be refused or still be walkable to its end without a crash. */
static void damage_is_survived(void) {
        _cleanup_buf_ struct buf b = {0};
        struct plan p;

        small_plan(&b, -1);
        CHECK(plan_end(&b, NULL) == 0);
        for (size_t n = 0; n < b.size; n++)
                CHECK(plan_check(b.data, n, &p, NULL) < 0);
        for (size_t i = 0; i < b.size; i++)
                for (unsigned bit = 0; bit < 8; bit++) {
                        struct plan_walk walk = {0};
                        struct plan_step s;

                        b.data[i] = (char)(b.data[i] ^ (1 << bit));
                        if (plan_check(b.data, b.size, &p, NULL) == 0)
                                while (plan_next(&p, &walk, &s))
                                        ;
                        b.data[i] = (char)(b.data[i] ^ (1 << bit));
                }
}

static void strings_with_nul_are_refused(void) {
        static const uint8_t bytes[] = {3, 0, 0, 0, 'a', 0, 'b', 0};
        struct wire w = {.start = bytes, .size = sizeof bytes};

        CHECK_STR(wire_str(&w), "");
        CHECK(!wire_ok(&w));

        static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 'a', 0};
        struct wire h = {.start = huge, .size = sizeof huge};
        CHECK_STR(wire_str(&h), "");
        CHECK(!wire_ok(&h) && wire_u64(&h) == 0);
}

TEST_MAIN(TEST(a_plan_reads_back), TEST(mandatory_steps_are_mandatory), TEST(a_plan_has_one_disk_at_most),
          TEST(order_flags_and_paths_are_checked), TEST(damage_is_survived), TEST(strings_with_nul_are_refused))
