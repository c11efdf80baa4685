/* Unit tests of the compiler from policy to plan: where the sandbox's disk appears, and what it is not for. */
#include "base/test.h"
#include "policy/compile.h"
#include "policy/profile.h"

#define P "profile: 1\n"

static const uint8_t hash[HASH_SIZE] = {7};

/* The plan of this profile as text, one step a line. */
static int compiled(const char *text, const struct compile_options *options, struct buf *out, struct err *err) {
        _cleanup_policy_ struct policy p = {0};
        _cleanup_buf_ struct buf bytes = {0};
        struct compile_options o = *options;
        struct plan plan;
        struct plan_walk walk = {0};
        struct plan_step s;

        o.guest = "/guest";
        CHECK(profile_parse("test", text, strlen(text), &p, NULL) == 0);
        CHECK(policy_check(&p, NULL) == 0);
        int r = compile_plan(&p, hash, &o, &bytes, err);
        if (r < 0)
                return r;
        CHECK(plan_check(bytes.data, bytes.size, &plan, NULL) == 0);
        while (plan_next(&plan, &walk, &s)) {
                s.index = 0;
                plan_print_step(&s, out);
        }
        return 0;
}

static bool has(const struct buf *out, const char *op, const char *rest) {
        char line[200];

        (void)snprintf(line, sizeof line, "   0 %-15s %s\n", op, rest);
        return out->data && strstr(out->data, line);
}

#define HOME                                                                                                           \
        "files: {read: [/usr], workspace: {path: /home/agent, size: 1GiB, inodes: 200k}, write: [/home/agent, "        \
        "/tmp]}\n"

static void the_workspace_is_on_the_disk(void) {
        _cleanup_buf_ struct buf memory = {0}, disk = {0}, listed = {0};
        struct compile_options o = {0};

        CHECK(compiled(P HOME, &o, &memory, NULL) == 0);
        CHECK(has(&memory, "tmpfs", "/home/agent 1073741824 200000 0755 [watched]"));
        CHECK(!strstr(memory.data, " disk "));
        o.disk = true;
        CHECK(compiled(P HOME, &o, &disk, NULL) == 0);
        CHECK(has(&disk, "disk", "/home/agent 1073741824 200000 [watched]"));
        CHECK(!strstr(disk.data, "tmpfs           /home/agent"));
        CHECK(strstr(disk.data, "tmpfs           /tmp ")); /* other places stay in memory */
        CHECK(has(&disk, "readonly", "/"));
        CHECK(compiled(P HOME "tools: {exec: [/usr]}\n", &o, &listed, NULL) == 0);
        CHECK(has(&listed, "disk", "/home/agent 1073741824 200000 [noexec] [watched]"));
}

static void the_root_is_the_disk_over_an_image(void) {
        _cleanup_buf_ struct buf image = {0}, whole = {0}, bare = {0};
        struct compile_options o = {.disk = true, .image = true, .cwd = "/srv"};

        CHECK(compiled(P "image: debian-12\n" HOME, &o, &image, NULL) == 0);
        CHECK(has(&image, "root-disk", "1073741824 200000 [watched]"));
        CHECK(has(&image, "dir", "/home/agent 0755 [owner is the user]"));
        CHECK(has(&image, "readonly", "/dev") && has(&image, "readonly", "/run") && !has(&image, "readonly", "/"));
        CHECK(has(&image, "cwd", "/srv"));
        CHECK(strstr(image.data, "tmpfs           /dev ") && strstr(image.data, "tmpfs           /run "));
        CHECK(!strstr(image.data, "bind            /usr ") && !strstr(image.data, "/etc/passwd"));
        CHECK(!strstr(image.data, "   0 disk ") && !strstr(image.data, "tmpfs           /home/agent"));
        CHECK(strstr(image.data, "landlock-rule   / 0x")); /* read, written and executed as a whole */

        CHECK(compiled(P "image: debian-12\nfiles: {read: [/], write: [{path: /, size: 3GiB, inodes: 9k}]}\n", &o,
                       &whole, NULL) == 0);
        CHECK(has(&whole, "root-disk", "3221225472 9000 [watched]"));
        CHECK(!strstr(whole.data, "root-overlay"));
        CHECK(compiled(P "image: debian-12\n", &o, &bare, NULL) == 0);
        CHECK(strstr(bare.data, "root-disk "));
}

static void sizes_are_told(void) {
        _cleanup_policy_ struct policy home = {0}, none = {0};
        struct compile_options o = {0};
        uint64_t size = 0, inodes = 0;

        CHECK(profile_parse("test", P HOME, strlen(P HOME), &home, NULL) == 0);
        CHECK(profile_parse("test", P, strlen(P), &none, NULL) == 0);
        CHECK(!compile_disk(&home, &o, &size, &inodes));
        o.disk = true;
        CHECK(compile_disk(&home, &o, &size, &inodes) && size == 1 << 30 && inodes == 200000);
        CHECK(!compile_disk(&none, &o, &size, &inodes)); /* there is nothing to put on it */
        o.image = true;
        CHECK(compile_disk(&none, &o, &size, &inodes) && size > 0 && inodes > 0);
}

static void times_of_what_lives_are_in_the_plan(void) {
        static const char text[] = P "time: {run: 10m, idle: 2m, lifetime: 20m}\n", only[] = P "time: {lifetime: 5m}\n";
        _cleanup_buf_ struct buf run = {0}, lives = {0}, short_run = {0}, long_life = {0};
        struct compile_options o = {0};

        CHECK(compiled(text, &o, &run, NULL) == 0);
        CHECK(has(&run, "limit", "time.run 600000") && !strstr(run.data, "time.idle"));
        CHECK(compiled(only, &o, &short_run, NULL) == 0);
        CHECK(has(&short_run, "limit", "time.run 300000")); /* one command is all of its life */
        o.lives = true;
        CHECK(compiled(text, &o, &lives, NULL) == 0);
        CHECK(has(&lives, "limit", "time.run 600000") && has(&lives, "limit", "time.idle 120000") &&
              has(&lives, "limit", "time.lifetime 1200000"));
        CHECK(compiled(only, &o, &long_life, NULL) == 0);
        CHECK(!strstr(long_life.data, "time.run") && has(&long_life, "limit", "time.lifetime 300000"));
}

static void what_cannot_be_is_refused(void) {
        _cleanup_buf_ struct buf out = {0};
        struct compile_options o = {.disk = true, .rootless = true};
        struct err err = {0};

        CHECK(compiled(P HOME, &o, &out, &err) == ERR_UNENFORCED);
        CHECK_STR(err.text, "a disk with a quota of its own cannot be had without root");
        CHECK(err.hint[0]);
        o = (struct compile_options){.image = true, .rootless = true};
        CHECK(compiled(P HOME, &o, &out, &err) == ERR_UNENFORCED);
        o = (struct compile_options){.image = true, .root = "/srv"};
        CHECK(compiled(P HOME, &o, &out, &err) == ERR_INPUT);
        o = (struct compile_options){.image = true};
        CHECK(compiled(P HOME "tools: {exec: [/usr]}\n", &o, &out, &err) == ERR_UNENFORCED);
        CHECK(str_starts(err.text, "tools.exec"));
}

TEST_MAIN(TEST(the_workspace_is_on_the_disk), TEST(the_root_is_the_disk_over_an_image), TEST(sizes_are_told),
          TEST(times_of_what_lives_are_in_the_plan), TEST(what_cannot_be_is_refused))
