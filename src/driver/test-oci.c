/* Unit tests of bundles: which places become mounts, with which rights, and what is refused. */
#include "base/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/test-folder.h"
#include "driver/oci.h"

static const uint8_t hash[HASH_SIZE] = {7};
static char *const args[] = {(char[]){"/enter"}, (char[]){"/guest"}, NULL};

/* A plan with what every plan has, and more steps between its root and its end. */
static void begin(struct buf *b, enum plan_op root) {
        plan_begin(b, hash);
        plan_add(b, OP_PROFILE, 0, "test");
        plan_add(b, OP_LIMIT, 0, "limits.processes", (uint64_t)64);
        plan_add(b, OP_ENV, 0, "HOME=/home \"agent\"");
        plan_add(b, OP_CWD, 0, "/home");
        plan_add(b, OP_USER, 0, (uint64_t)1000, (uint64_t)1001);
        plan_add(b, OP_HOSTNAME, 0, "stockade");
        if (root == OP_ROOT_TMPFS)
                plan_add(b, OP_ROOT_TMPFS, 0, (uint64_t)4096, (uint64_t)16);
        else
                plan_add(b, OP_ROOT_DISK, 0, (uint64_t)4096, (uint64_t)16);
}

static void end(struct buf *b, bool readonly, uint64_t resource) {
        plan_add(b, OP_PROC, 0, "/proc");
        plan_add(b, OP_LOOPBACK, 0);
        plan_add(b, OP_DEVPTS, 0, "/dev/pts");
        plan_add(b, OP_PIVOT, 0);
        if (readonly)
                plan_add(b, OP_READONLY, 0, "/");
        plan_add(b, OP_READONLY, 0, "/run");
        plan_add(b, OP_SESSION, 0);
        plan_add(b, OP_IDS, 0, (uint64_t)1000, (uint64_t)1001);
        plan_add(b, OP_NO_NESTING, 0);
        plan_add(b, OP_CAPS, 0);
        plan_add(b, OP_NO_NEW_PRIVS, 0);
        plan_add(b, OP_RLIMIT, 0, resource, (uint64_t)1024);
        plan_add(b, OP_SECCOMP, 0, (const void *)"12345678", (size_t)8);
        plan_add(b, OP_EXEC, 0);
}

/* A tree with these folders, and a link at /link. */
static const char *const folders[] = {"dev",  "dev/shm", "etc", "etc/fonts", "etc/ssl",
                                      "home", "proc",    "run", "tmp",       "usr"};

static void make_tree(struct test_folder *t) {
        test_folder_make(t);
        for (size_t i = 0; i < ELEMENTSOF(folders); i++)
                CHECK(mkdirat(t->fd, folders[i], 0755) == 0);
        CHECK(symlinkat("usr", t->fd, "link") == 0);
}

static void remove_tree(struct test_folder *t) {
        for (size_t i = ELEMENTSOF(folders); i > 0; i--)
                (void)unlinkat(t->fd, folders[i - 1], AT_REMOVEDIR);
        test_folder_remove(t);
}

static unsigned count_binds(const struct buf *config) {
        char type[16];
        struct json_walk mounts;
        unsigned n = 0;

        CHECK(json_walk_begin(&mounts, config->data, "mounts"));
        while (json_walk_next(&mounts))
                n += json_find_str(mounts.value, "type", type, sizeof type) && str_eq(type, "bind");
        return n;
}

/* The bundle of a plan, in a tree. */
static int bundle(struct buf *bytes, const char *network, struct buf *out, struct err *err) {
        struct test_folder tree;
        struct plan plan;
        struct oci_bundle made = {0};

        CHECK(plan_end(bytes, err) == 0);
        CHECK(plan_check(bytes->data, bytes->size, &plan, err) == 0);
        make_tree(&tree);
        struct oci_options o = {.tree = tree.fd, .tree_path = "/t", .network = network, .args = args, .ids = 65536};
        int r = oci_config(&plan, &o, out, &made, err);
        remove_tree(&tree);
        if (r < 0)
                return r;
        CHECK(json_check(out->data, out->size, err) == 0);
        CHECK(made.binds == count_binds(out));
        return made.writable_root;
}

/* How a path is mounted: "bind rw noexec", or "" if it is not. Every mount is nosuid and nodev. */
static const char *mounted(const struct buf *config, const char *path) {
        static char said[160];
        char text[64];
        struct json_walk mounts, options;

        CHECK(json_walk_begin(&mounts, config->data, "mounts"));
        while (json_walk_next(&mounts)) {
                unsigned guards = 0;

                if (!json_find_str(mounts.value, "destination", text, sizeof text) || !str_eq(text, path))
                        continue;
                CHECK(json_find_str(mounts.value, "type", said, sizeof said));
                CHECK(json_walk_begin(&options, mounts.value, "options"));
                while (json_walk_next(&options)) {
                        CHECK(json_find_str(options.value, "", text, sizeof text));
                        guards += str_eq(text, "nosuid") || str_eq(text, "nodev");
                        if (str_eq(text, "rw") || str_eq(text, "ro") || str_eq(text, "noexec")) {
                                size_t n = strlen(said);
                                (void)snprintf(said + n, sizeof said - n, " %s", text);
                        }
                }
                CHECK(guards == 2);
                return said;
        }
        return "";
}

static void places_with_rights_of_their_own_are_mounts(void) {
        _cleanup_buf_ struct buf b = {0}, out = {0};

        begin(&b, OP_ROOT_TMPFS);
        plan_add(&b, OP_BIND, 0, "/usr", "/usr");
        plan_add(&b, OP_BIND, STEP_NOEXEC | STEP_OPTIONAL, "/etc/fonts", "/etc/fonts");
        plan_add(&b, OP_BIND, STEP_NOEXEC | STEP_OPTIONAL, "/etc/none", "/etc/none");
        plan_add(&b, OP_LIKE_HOST, STEP_NOEXEC, "/link");
        plan_add(&b, OP_BIND, STEP_DEVICE | STEP_NOEXEC, "/dev/null", "/dev/null");
        plan_add(&b, OP_TMPFS, STEP_NOEXEC, "/dev/shm", (uint64_t)1, (uint64_t)1, (uint64_t)01777);
        plan_add(&b, OP_TMPFS, STEP_NOEXEC, "/tmp", (uint64_t)1, (uint64_t)1, (uint64_t)01777);
        plan_add(&b, OP_TMPFS, 0, "/run", (uint64_t)1, (uint64_t)1, (uint64_t)0755);
        plan_add(&b, OP_DISK, 0, "/home", (uint64_t)1, (uint64_t)1);
        end(&b, true, RLIMIT_NOFILE);
        CHECK(bundle(&b, NULL, &out, NULL) == 0);
        CHECK_STR(mounted(&out, "/proc"), "proc ro noexec");
        CHECK_STR(mounted(&out, "/sys"), "sysfs ro noexec");
        CHECK_STR(mounted(&out, "/dev/net"), "tmpfs ro noexec");
        CHECK_STR(mounted(&out, "/dev/fuse"), "tmpfs ro noexec");
        CHECK_STR(mounted(&out, "/tmp"), "bind rw noexec");
        CHECK_STR(mounted(&out, "/dev/shm"), "bind rw noexec");
        CHECK_STR(mounted(&out, "/home"), "bind rw");
        CHECK_STR(mounted(&out, "/etc/fonts"), "bind ro noexec");
        static const char *const none[] = {"/usr", "/etc/none", "/link", "/dev", "/dev/null", "/run"};
        for (size_t i = 0; i < ELEMENTSOF(none); i++)
                CHECK_STR(mounted(&out, none[i]), "");
        bool readonly = false;
        CHECK(json_find_bool(out.data, "root.readonly", &readonly) && readonly);
}

/* Unless one of them may be written to or executed, or the folder is somebody else's. */
static void data_of_one_folder_is_one_mount(void) {
        static const struct {
                enum plan_op root;
                unsigned flags;
                const char *folder, *place;
        } cases[] = {{OP_ROOT_TMPFS, STEP_NOEXEC, "bind ro noexec", ""},
                     {OP_ROOT_TMPFS, 0, "", "bind ro noexec"},
                     {OP_ROOT_TMPFS, STEP_NOEXEC | STEP_WRITE, "", "bind ro noexec"},
                     {OP_ROOT_DISK, STEP_NOEXEC, "", "bind ro noexec"}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_buf_ struct buf b = {0}, out = {0};

                begin(&b, cases[i].root);
                plan_add(&b, OP_BIND, STEP_NOEXEC, "/etc/fonts", "/etc/fonts");
                plan_add(&b, OP_BIND, cases[i].flags, "/etc/ssl", "/etc/ssl");
                end(&b, true, RLIMIT_NOFILE);
                CHECK(bundle(&b, NULL, &out, NULL) >= 0);
                CHECK_STR(mounted(&out, "/etc"), cases[i].folder);
                CHECK_STR(mounted(&out, "/etc/fonts"), cases[i].place);
        }
}

static void a_writable_root_leaves_what_is_not(void) {
        _cleanup_buf_ struct buf b = {0}, out = {0};
        bool readonly = true;

        begin(&b, OP_ROOT_DISK);
        plan_add(&b, OP_BIND, 0, "/usr", "/usr");
        plan_add(&b, OP_TMPFS, 0, "/run", (uint64_t)1, (uint64_t)1, (uint64_t)0755);
        end(&b, false, RLIMIT_NOFILE);
        CHECK(bundle(&b, NULL, &out, NULL) == 1);
        CHECK(json_find_bool(out.data, "root.readonly", &readonly) && !readonly);
        CHECK_STR(mounted(&out, "/usr"), "bind ro");
        CHECK_STR(mounted(&out, "/run"), "bind ro");
        CHECK_STR(mounted(&out, "/tmp"), "bind rw"); /* or runsc would put memory there */
}

/* One that others filled is the host's to keep read-only. */
static void a_root_of_others_is_not_touched(void) {
        _cleanup_buf_ struct buf b = {0}, out = {0};

        begin(&b, OP_ROOT_DISK);
        plan_add(&b, OP_BIND, 0, "/usr", "/usr");
        end(&b, true, RLIMIT_NOFILE);
        CHECK(bundle(&b, NULL, &out, NULL) == 1);
        CHECK_STR(mounted(&out, "/usr"), "bind ro");
}

static bool says(const struct buf *config, const char *path, const char *expected) {
        char text[128];

        return json_find_str(config->data, path, text, sizeof text) && str_eq(text, expected);
}

static void the_process_has_what_the_plan_says(void) {
        _cleanup_buf_ struct buf b = {0}, out = {0};
        uint64_t number = 0;
        bool privileges = false;
        size_t count = 9;

        begin(&b, OP_ROOT_TMPFS);
        end(&b, true, RLIMIT_NOFILE);
        CHECK(bundle(&b, "/proc/self/ns/net", &out, NULL) == 0);
        CHECK(says(&out, "process.args.1", "/guest") && says(&out, "process.cwd", "/home"));
        CHECK(says(&out, "process.env.0", "HOME=/home \"agent\"") && says(&out, "hostname", "stockade"));
        CHECK(json_find_u64(out.data, "process.user.uid", &number) && number == 1000);
        CHECK(json_find_u64(out.data, "process.user.gid", &number) && number == 1001);
        CHECK(json_find_bool(out.data, "process.noNewPrivileges", &privileges) && privileges);
        static const char *const sets[] = {"bounding", "effective", "inheritable", "permitted", "ambient"};
        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                char path[64];
                (void)snprintf(path, sizeof path, "process.capabilities.%s", sets[i]);
                CHECK(json_find_count(out.data, path, &count) && count == 0);
        }
        CHECK(says(&out, "process.rlimits.0.type", "RLIMIT_NPROC") &&
              says(&out, "process.rlimits.1.type", "RLIMIT_NOFILE"));
        CHECK(json_find_u64(out.data, "process.rlimits.0.hard", &number) && number == 64);
        CHECK(json_find_u64(out.data, "process.rlimits.1.soft", &number) && number == 1024);
        CHECK(json_find_u64(out.data, "linux.uidMappings.0.size", &number) && number == 65536);
        CHECK(says(&out, "linux.namespaces.5.path", "/proc/self/ns/net"));
}

static void what_a_box_cannot_do_is_refused(void) {
        static const struct {
                const char *from, *to, *word;
                unsigned flags;
                uint64_t resource;
        } cases[] = {{"/dev/kvm", "/dev/kvm", "devices", STEP_DEVICE, RLIMIT_NOFILE},
                     {"/srv", "/home", "as writable", STEP_WRITE | STEP_OWNED, RLIMIT_NOFILE},
                     {"/srv", "/proc/srv", "files", 0, RLIMIT_NOFILE},
                     {"/srv", "/dev/srv", "files", 0, RLIMIT_NOFILE},
                     {"/usr", "/usr", "limits", 0, 99}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_buf_ struct buf b = {0}, out = {0};
                struct err err = {0};

                begin(&b, OP_ROOT_TMPFS);
                plan_add(&b, OP_BIND, cases[i].flags, cases[i].from, cases[i].to);
                end(&b, true, cases[i].resource);
                CHECK(bundle(&b, NULL, &out, &err) == ERR_UNENFORCED);
                CHECK(strstr(err.text, cases[i].word));
        }
}

TEST_MAIN(TEST(places_with_rights_of_their_own_are_mounts), TEST(data_of_one_folder_is_one_mount),
          TEST(a_writable_root_leaves_what_is_not), TEST(a_root_of_others_is_not_touched),
          TEST(the_process_has_what_the_plan_says), TEST(what_a_box_cannot_do_is_refused))
