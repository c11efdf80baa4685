/* The command lines of a machine, and the plan that it executes, as text. */
#include "base/test.h"
#include "driver/vm-plan.h"
#include "driver/vm-qemu.h"
#include "driver/vm-stream.h"

static void join(const struct words *w, char *ret, size_t size) {
        size_t n = 0;

        for (char **word = w->argv; *word; word++)
                n += (size_t)snprintf(ret + n, size - n, "%s%s", n ? "\n" : "", *word);
}

static void qemu(const struct vm_facts *f, char text[8192]) {
        struct words w;

        CHECK(vm_qemu_words(f, &w) == 0);
        join(&w, text, 8192);
        words_free(&w);
}

static bool has(const char *text, const char *words) {
        const char *at = strstr(text, words);

        if (!at)
                (void)printf("# not there: %s\n# in: %s\n", words, text);
        return at;
}

static void a_machine_with_everything(void) {
        const struct vm_facts f = {.files = 3000,
                                   .memory = (256ULL << 20) + 1,
                                   .cpus = 3,
                                   .tsc_khz = 2596132,
                                   .line = 3,
                                   .tree = 4,
                                   .live = 7,
                                   .disk = 5,
                                   .tap = 6};
        char text[8192];

        qemu(&f, text);
        CHECK(str_starts(text, VM_QEMU_PROGRAM "\n-nodefaults\n-no-user-config\n-no-reboot\n"));
        CHECK(has(text, "\n-sandbox\non,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny\n"));
        CHECK(has(text, "\n-accel\ntcg\n-cpu\nmax\n-smp\n3\n-m\n353M\n"));
        CHECK(has(text, "\nmemory-backend-memfd,id=ram,size=353M,share=on\n"));
        CHECK(has(text, " lsm=landlock "));
        CHECK(has(text, " init_on_alloc=1 "));
        CHECK(has(text, " stockade.files=3000 "));
        CHECK(has(text, " tsc_early_khz=2596132 tsc=reliable"));
        CHECK(has(text, "\nsocket,id=line,fd=3\n"));
        CHECK(has(text, "\nsocket,id=tree,fd=4\n-device\nvhost-user-fs-device,chardev=tree,tag=tree\n"));
        CHECK(has(text, "\nsocket,id=live,fd=7\n-device\nvhost-user-fs-device,chardev=live,tag=live\n"));
        CHECK(has(text, "\nfd=5,set=1\n"));
        CHECK(has(text, "file.locking=off"));
        CHECK(has(text, "\ntap,id=link,fd=6,vhost=off\n"));
}

static void a_machine_with_nothing(void) {
        const struct vm_facts f = {
                .kvm = true, .memory = 64U << 20, .line = 3, .tree = -1, .live = -1, .disk = -1, .tap = -1};
        char text[8192];

        qemu(&f, text);
        CHECK(has(text, "\n-accel\nkvm\n-cpu\nhost\n-smp\n1\n"));
        CHECK(!strstr(text, "-netdev") && !strstr(text, "-drive") && !strstr(text, "vhost-user") &&
              !strstr(text, "tsc_early"));
        CHECK(!strstr(text, "mitigations=off")); /* on a real processor they count */
}

static void the_file_server(void) {
        struct words w;
        char text[1024];

        CHECK(vm_fs_words(7, false, &w) == 0);
        join(&w, text, sizeof text);
        words_free(&w);
        CHECK(str_starts(text, VM_FS_PROGRAM "\n-f\n--fd=7\n"));
        CHECK(has(text, "source=" VM_TREE_INSIDE ",sandbox=chroot,cache=always,"));
}

/* What every plan has, around what is in question. */
static void add_whole(struct buf *b, void (*add)(struct buf *)) {
        static const uint8_t filter[8];

        plan_add(b, OP_PROFILE, 0, "name");
        plan_add(b, OP_CWD, 0, "/");
        plan_add(b, OP_USER, 0, (uint64_t)1000, (uint64_t)1000);
        plan_add(b, OP_REACH, 0, (const void *)filter, sizeof filter);
        plan_add(b, OP_HOSTNAME, 0, "name");
        add(b);
        plan_add(b, OP_NETWORK, STEP_TRUST, "/run/stockade/net");
        plan_add(b, OP_PROC, 0, "/proc");
        plan_add(b, OP_DEVPTS, 0, "/dev/pts");
        plan_add(b, OP_PIVOT, 0);
        plan_add(b, OP_SESSION, 0);
        plan_add(b, OP_IDS, 0, (uint64_t)1000, (uint64_t)1000);
        plan_add(b, OP_CAPS, 0);
        plan_add(b, OP_NO_NEW_PRIVS, 0);
        plan_add(b, OP_SECCOMP, 0, (const void *)filter, sizeof filter);
        plan_add(b, OP_EXEC, 0);
}

/* The machine's plan as one line for each step. */
static int translate(void (*add)(struct buf *), bool own_disk, char *ret, size_t size, struct err *err) {
        static const uint8_t hash[HASH_SIZE];
        _cleanup_buf_ struct buf given = {0}, made = {0}, text = {0};
        struct plan p = {0};
        struct plan_walk walk = {0};
        struct plan_step s;

        plan_begin(&given, hash);
        add_whole(&given, add);
        struct err wrong = {0};
        if (plan_end(&given, &wrong) < 0 || plan_check(given.data, given.size, &p, &wrong) < 0) {
                (void)printf("# no plan: %s\n", wrong.text);
                return -EINVAL;
        }
        int r = vm_plan(&p, own_disk, &made, err);
        if (r < 0)
                return r;
        CHECK(plan_check(made.data, made.size, &p, NULL) == 0);
        while (plan_next(&p, &walk, &s)) {
                plan_print_step(&s, &text);
                buf_str(&text, "\n");
        }
        (void)snprintf(ret, size, "%s", text.data ? text.data : "");
        return 0;
}

static void add_sources(struct buf *b) {
        plan_add(b, OP_ROOT_TMPFS, 0, (uint64_t)1, (uint64_t)1);
        plan_add(b, OP_BIND, 0, "/opt/guest", "/run/stockade/guest");
        plan_add(b, OP_BIND, STEP_WRITE | STEP_OWNED | STEP_EXACT, "/srv/work", "/work");
        plan_add(b, OP_BIND, STEP_DEVICE | STEP_NOEXEC, "/dev/null", "/dev/null");
        plan_add(b, OP_DISK, STEP_NOEXEC | STEP_WATCH, "/home/agent", (uint64_t)1, (uint64_t)2);
        plan_add(b, OP_TMPFS, STEP_NOEXEC, "/tmp", (uint64_t)1, (uint64_t)2, (uint64_t)01777);
}

static void sources_are_places_of_the_tree(void) {
        char text[4096];

        CHECK(translate(add_sources, false, text, sizeof text, NULL) == 0);
        CHECK(!strstr(text, "reach") && !strstr(text, "network"));
        CHECK(!strstr(text, "/opt/guest") && !strstr(text, "/srv/work") && !strstr(text, "owner"));
        CHECK(has(text, " /run/stockade/guest /run/stockade/guest"));
        CHECK(has(text, " /.live/work /work"));
        CHECK(has(text, " /dev/null /dev/null"));
        CHECK(has(text, " /home/agent /home/agent"));
        CHECK(has(text, "loopback"));
        CHECK(has(text, " /.live/run/stockade/net /run/stockade/net"));
        CHECK(has(text, "tmpfs"));
        CHECK(translate(add_sources, true, text, sizeof text, NULL) == 0);
        CHECK(has(text, "disk"));
        CHECK(!strstr(text, " /home/agent /home/agent"));
}

static void add_image(struct buf *b) {
        plan_add(b, OP_ROOT_OVERLAY, STEP_EXACT, "/srv/image", (uint64_t)1, (uint64_t)1);
        plan_add(b, OP_FILE, STEP_REPLACE, "/etc/hostname", (const void *)"name", (size_t)4);
        plan_add(b, OP_LIKE_HOST, STEP_NOEXEC, "/lib");
        plan_add(b, OP_BIND, 0, "/opt/guest", "/run/stockade/guest");
}

static void an_image_is_the_tree(void) {
        char text[4096];

        CHECK(translate(add_image, false, text, sizeof text, NULL) == 0);
        CHECK(has(text, "root-disk"));
        CHECK(!strstr(text, "/srv/image") && !strstr(text, "/etc/hostname"));
        CHECK(has(text, "like-host"));
        CHECK(has(text, "noexec"));
}

static void the_kind_of_streams(void) {
        enum vm_streams s = VM_STREAMS_VSOCK;
        struct err err = {0};

        CHECK(vm_streams_read("quiet panic=-1\n", &s, NULL) == 0 && s == VM_STREAMS_LINE);
        CHECK(vm_streams_read("quiet stockade.streams=ports\n", &s, NULL) == 0 && s == VM_STREAMS_PORTS);
        CHECK(vm_streams_read("stockade.streams=vsock quiet", &s, NULL) == 0 && s == VM_STREAMS_VSOCK);
        CHECK(vm_streams_read("stockade.streams=vsocks", &s, &err) == ERR_INPUT && err.text[0]);
        CHECK(vm_streams_read("stockade.streams=", &s, &err) == ERR_INPUT);
}

static void the_clock_is_measured(void) {
        unsigned khz = vm_tsc_khz();

#if defined(__x86_64__)
        CHECK(khz > 100000 && khz < 20000000);
#else
        CHECK(khz == 0);
#endif
}

TEST_MAIN(TEST(a_machine_with_everything), TEST(a_machine_with_nothing), TEST(the_file_server),
          TEST(sources_are_places_of_the_tree), TEST(an_image_is_the_tree), TEST(the_kind_of_streams),
          TEST(the_clock_is_measured))
