/* Unit tests of the ceiling: a plan as the compiler writes it fits, and loses its fit with every single thing that is
 * taken from it or put into it. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/test.h"
#include "cell/cell.h"
#include "warden/ceiling.h"
#include "wire/masks.h"
#include "wire/rules.h"

#define GUEST "/usr/libexec/stockade/stockade-guest"
#define ALL   ((LANDLOCK_ACCESS_FS_REFER << 1) - 1)

static struct conf conf;
static struct ceiling ceiling;

/* What is different from a good plan. */
enum {
        ADD_MOUNT = 1,
        NO_LIMIT,
        NO_NESTING,
        NO_MASK,
        NO_READONLY,
        NO_LANDLOCK,
        NO_RLIMIT,
        UID,
        IDS,
        LATE_MOUNT,
        NETWORK
};

struct variant {
        int kind;
        void (*add)(struct buf *b); /* ADD_MOUNT, LATE_MOUNT */
        uint64_t number;
};

static void add_outside(struct buf *b, const struct variant *v) {
        uint64_t uid = v->kind == UID ? v->number : 1000;

        plan_add(b, OP_PROFILE, 0, "low");
        plan_add(b, OP_LIMIT, 0, "limits.cpus", (uint64_t)1000);
        if (v->kind != NO_LIMIT)
                plan_add(b, OP_LIMIT, 0, "limits.memory", (uint64_t)64 << 20);
        else if (v->number)
                plan_add(b, OP_LIMIT, 0, "limits.memory", v->number);
        plan_add(b, OP_LIMIT, 0, "limits.processes", (uint64_t)64);
        plan_add(b, OP_ENV, 0, "PATH=/usr/bin");
        plan_add(b, OP_CWD, 0, "/tmp");
        plan_add(b, OP_USER, 0, uid, uid);
        if (v->kind == NETWORK) {
                _cleanup_buf_ struct buf rules = {0};
                rules_begin(&rules);
                plan_add(b, OP_REACH, 0, (const void *)rules.data, rules.size);
        }
}

static void add_tree(struct buf *b, const struct variant *v) {
        static const char *const masks[] = {PLAN_MASKS};

        plan_add(b, OP_HOSTNAME, 0, "stockade");
        plan_add(b, OP_ROOT_TMPFS, 0, (uint64_t)4 << 20, (uint64_t)2048);
        plan_add(b, OP_BIND, 0, "/usr", "/usr");
        plan_add(b, OP_LIKE_HOST, 0, "/bin");
        plan_add(b, OP_COPY, 0, "/etc/services");
        plan_add(b, OP_BIND, STEP_DEVICE | STEP_NOEXEC, "/dev/null", "/dev/null");
        plan_add(b, OP_TMPFS, STEP_WATCH, "/tmp", (uint64_t)1 << 20, (uint64_t)100, (uint64_t)01777);
        if (v->kind == ADD_MOUNT)
                v->add(b);
        plan_add(b, OP_DEVPTS, 0, "/dev/pts");
        plan_add(b, OP_PROC, 0, "/proc");
        for (size_t i = v->kind == NO_MASK; i < ELEMENTSOF(masks); i++)
                plan_add(b, OP_MASK, 0, masks[i]);
        plan_add(b, OP_BIND, 0, GUEST, CELL_GUEST_PATH);
        if (v->kind == LATE_MOUNT)
                v->add(b);
        if (v->kind == NETWORK)
                plan_add(b, OP_NETWORK, 0, "/run/stockade/net");
        else
                plan_add(b, OP_LOOPBACK, 0);
}

static void add_confine(struct buf *b, const struct variant *v) {
        struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = 0x7fff0000};
        uint64_t uid = v->kind == UID || v->kind == IDS ? v->number : 1000;

        plan_add(b, OP_PIVOT, 0);
        if (v->kind != NO_READONLY)
                plan_add(b, OP_READONLY, 0, "/");
        plan_add(b, OP_SESSION, 0);
        plan_add(b, OP_IDS, 0, uid, v->kind == UID ? uid : (uint64_t)1000);
        if (v->kind != NO_NESTING)
                plan_add(b, OP_NO_NESTING, 0);
        plan_add(b, OP_CAPS, 0);
        plan_add(b, OP_NO_NEW_PRIVS, 0);
        if (v->kind != NO_LANDLOCK) {
                plan_add(b, OP_LANDLOCK, 0, (uint64_t)ALL, (uint64_t)2);
                plan_add(b, OP_LANDLOCK_RULE, 0, "/", (uint64_t)LANDLOCK_ACCESS_FS_READ_DIR);
                plan_add(b, OP_LANDLOCK_END, 0);
        }
        plan_add(b, OP_RLIMIT, 0, (uint64_t)RLIMIT_CORE, v->kind == NO_RLIMIT ? v->number : (uint64_t)1);
        plan_add(b, OP_RLIMIT, 0, (uint64_t)RLIMIT_MEMLOCK, (uint64_t)(8 << 20));
        plan_add(b, OP_RLIMIT, 0, (uint64_t)RLIMIT_SIGPENDING, (uint64_t)1024);
        plan_add(b, OP_SECCOMP, 0, (const void *)&allow, sizeof allow);
        plan_add(b, OP_EXEC, 0);
}

static int check(const struct variant *v, struct ceiling_plan *ret, struct err *err) {
        static const uint8_t hash[HASH_SIZE];
        static struct buf b;
        struct plan p;

        buf_free(&b);
        b.max = PLAN_MAX_SIZE;
        plan_begin(&b, hash);
        add_outside(&b, v);
        add_tree(&b, v);
        add_confine(&b, v);
        int r = plan_end(&b, err);
        if (r == 0)
                r = plan_check(b.data, b.size, &p, err);
        return r < 0 ? r : ceiling_check(&ceiling, &p, ret, err);
}

static int judge(struct variant v) {
        struct ceiling_plan found;
        struct err err = {0};
        int r = check(&v, &found, &err);

        CHECK(r == 0 || err.text[0]); /* whatever it refuses, it says why */
        if (r < 0)
                (void)printf("# %s\n", err.text);
        return r;
}

static void begin(void) {
        conf_defaults(&conf);
        ceiling = (struct ceiling){.conf = &conf, .guest = GUEST};
        ceiling.own[ceiling.own_count++] = (char *)(uintptr_t) "/srv/state";
}

static void a_good_plan_fits(void) {
        struct ceiling_plan found;
        struct err err = {0};

        begin();
        CHECK(check(&(struct variant){0}, &found, &err) == 0);
        CHECK(found.memory == 64 << 20 && found.cpus == 1000 && found.processes == 64 && found.uid == 1000);
        CHECK(!found.disk && !found.networked && !found.overlay && found.env_count == 1);
        CHECK_STR(found.cwd, "/tmp");
        CHECK(check(&(struct variant){.kind = NETWORK}, &found, &err) == 0 && found.networked && !found.trust);
        conf.ceiling_network = false;
        CHECK(judge((struct variant){.kind = NETWORK}) == ERR_REFUSED);
}

static void what_is_missing(void) {
        static const int kinds[] = {NO_LIMIT, NO_NESTING, NO_MASK, NO_READONLY, NO_LANDLOCK};

        begin();
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                CHECK(judge((struct variant){.kind = kinds[i]}) == ERR_REFUSED);
        CHECK(judge((struct variant){.kind = NO_RLIMIT, .number = 2}) == ERR_REFUSED);
        CHECK(judge((struct variant){.kind = NO_LIMIT, .number = 1ULL << 50}) == ERR_REFUSED);
        CHECK(judge((struct variant){.kind = NO_LIMIT, .number = 1ULL << 30}) == 0);
        conf.ceiling_memory = CONF_UNLIMITED;
        CHECK(judge((struct variant){.kind = NO_LIMIT, .number = 1ULL << 50}) == 0);
}

static void who_it_is(void) {
        begin();
        CHECK(judge((struct variant){.kind = UID, .number = 33}) == 0);
        CHECK(judge((struct variant){.kind = UID, .number = 0}) == ERR_REFUSED);
        CHECK(judge((struct variant){.kind = UID, .number = 65536}) == ERR_REFUSED);
        CHECK(judge((struct variant){.kind = UID, .number = 1ULL << 32}) == ERR_REFUSED);
        CHECK(judge((struct variant){.kind = IDS, .number = 1001}) == ERR_REFUSED);
}

static const char *source, *target;
static unsigned flags;

static void add_bind(struct buf *b) {
        plan_add(b, OP_BIND, flags, source, target);
}

static int judge_bind(const char *from, const char *to, unsigned with) {
        source = from;
        target = to;
        flags = with;
        return judge((struct variant){.kind = ADD_MOUNT, .add = add_bind});
}

static void host_paths(void) {
        const unsigned share = STEP_WRITE | STEP_OWNED | STEP_EXACT;

        begin();
        CHECK(judge_bind("/usr/share", "/mnt", 0) == 0);
        CHECK(judge_bind("/usrx", "/mnt", 0) == ERR_REFUSED);
        CHECK(judge_bind("/etc/shadow", "/mnt", 0) == ERR_REFUSED);
        CHECK(judge_bind("/", "/mnt", 0) == ERR_REFUSED);
        CHECK(judge_bind("/usr", "/mnt", STEP_OWNED) == ERR_REFUSED);
        CHECK(judge_bind("/usr", "/mnt", share) == ERR_REFUSED);
        CHECK(judge_bind("/dev/zero", "/dev/zero", STEP_DEVICE) == 0);
        CHECK(judge_bind("/dev/sda", "/dev/sda", STEP_DEVICE) == ERR_REFUSED);
        CHECK(judge_bind("/dev/zero", "/dev/zero", 0) == ERR_REFUSED);

        (void)snprintf(conf.ceiling_write.items[conf.ceiling_write.count++], CONF_TEXT, "/srv");
        CHECK(judge_bind("/srv/x", "/mnt", share) == 0);
        CHECK(judge_bind("/srv/x", "/mnt", 0) == 0); /* what may be written may be read */
        CHECK(judge_bind("/srv/x", "/mnt", STEP_WRITE) == ERR_REFUSED);
        CHECK(judge_bind("/srv/x", "/mnt", STEP_WRITE | STEP_OWNED) == ERR_REFUSED);
        /* our own folder, in it, and above it */
        CHECK(judge_bind("/srv/state", "/mnt", share) == ERR_REFUSED);
        CHECK(judge_bind("/srv/state/disks", "/mnt", share) == ERR_REFUSED);
        CHECK(judge_bind("/srv", "/mnt", share) == ERR_REFUSED);
        CHECK(judge_bind("/srv/state/disks", "/mnt", 0) == ERR_REFUSED);
        CHECK(judge_bind("/srv/statex", "/mnt", share) == 0);
}

static void add_file_in_share(struct buf *b) {
        plan_add(b, OP_BIND, STEP_WRITE | STEP_OWNED | STEP_EXACT, "/srv/x", "/share");
        plan_add(b, OP_FILE, 0, "/share/file", (const void *)"x", (size_t)1);
}

static void add_mask_in_share(struct buf *b) {
        plan_add(b, OP_BIND, STEP_WRITE | STEP_OWNED | STEP_EXACT, "/srv/x", "/share");
        plan_add(b, OP_MASK, 0, "/share/file");
}

static void add_tmpfs(struct buf *b) {
        plan_add(b, OP_TMPFS, 0, "/run/stockade", (uint64_t)1 << 20, (uint64_t)10, (uint64_t)0755);
}

static void add_disk(struct buf *b) {
        plan_add(b, OP_DISK, 0, "/home/agent", (uint64_t)1 << 30, (uint64_t)1000);
}

static void other_mounts(void) {
        struct ceiling_plan found;
        struct err err = {0};

        begin();
        (void)snprintf(conf.ceiling_write.items[conf.ceiling_write.count++], CONF_TEXT, "/srv");
        CHECK(judge((struct variant){.kind = ADD_MOUNT, .add = add_file_in_share}) == ERR_REFUSED);
        CHECK(judge((struct variant){.kind = ADD_MOUNT, .add = add_mask_in_share}) == 0);
        CHECK(judge((struct variant){.kind = LATE_MOUNT, .add = add_tmpfs}) == ERR_REFUSED);
        CHECK(check(&(struct variant){.kind = ADD_MOUNT, .add = add_disk}, &found, &err) == 0);
        CHECK(found.disk && !found.root_disk && found.disk_size == 1 << 30 && found.disk_inodes == 1000);
        ceiling.rootless = true;
        CHECK(judge((struct variant){.kind = ADD_MOUNT, .add = add_disk}) == ERR_REFUSED);
        ceiling.rootless = false;
        conf.ceiling_disk = 1 << 20;
        CHECK(judge((struct variant){.kind = ADD_MOUNT, .add = add_disk}) == ERR_REFUSED);
}

/* Where a path led to, as the cell asks. */
static bool permits(enum plan_op op, unsigned with, const char *from, const char *to, const char *opened) {
        int fd = open(opened, O_PATH | O_CLOEXEC);
        struct plan_step s = {.op = op, .flags = (uint16_t)with, .text = {from, to}};
        bool yes = fd >= 0 && ceiling_permits(&ceiling, &s, fd);

        (void)close(fd);
        return yes;
}

static void where_paths_lead(void) {
        begin();
        CHECK(permits(OP_BIND, 0, "/usr", "/usr", "/usr"));
        CHECK(!permits(OP_BIND, 0, "/usr", "/usr", "/root"));
        CHECK(!permits(OP_BIND, STEP_WRITE, "/usr", "/usr", "/usr"));
        CHECK(permits(OP_BIND, STEP_DEVICE, "/dev/null", "/dev/null", "/dev/null"));
        CHECK(!permits(OP_BIND, STEP_DEVICE, "/dev/null", "/dev/null", "/etc/passwd"));
        CHECK(!permits(OP_BIND, 0, GUEST, CELL_GUEST_PATH, "/usr/bin/env"));
        CHECK(!permits(OP_COPY, 0, "/etc/services", NULL, "/etc/passwd"));
        CHECK(!permits(OP_ROOT_OVERLAY, 0, "/", NULL, "/usr"));
        CHECK(permits(OP_ROOT_OVERLAY, 0, "/", NULL, "/"));
        CHECK(!permits(OP_TMPFS, 0, "/tmp", NULL, "/usr")); /* what has no host path */
}

TEST_MAIN(TEST(a_good_plan_fits), TEST(what_is_missing), TEST(who_it_is), TEST(host_paths), TEST(other_mounts),
          TEST(where_paths_lead))
