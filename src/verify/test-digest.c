/* Each part of a digest notices what it is for, says so, and sees nothing where nothing happened.
 *
 * Everything is done in namespaces of this program's own; what needs more than it has is left out with a word. */
#include <fcntl.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "verify/digest.h"

static char folder[64];
static const char *watched[] = {folder, NULL};

/* The lines by which two digests differ, freed by the caller. */
static char *changes(const struct digest *before) {
        struct digest now;
        struct buf out = {0};

        CHECK(digest_take(&now, watched, NULL, NULL) == 0);
        CHECK((digest_difference(before, &now, &out) == 0) == digest_same(before, &now));
        digest_free(&now);
        return out.data ? out.data : strdup("");
}

static void expect(const struct digest *before, const char *line) {
        _cleanup_free_ char *text = changes(before);

        if (!strstr(text, line))
                (void)printf("# no '%s' in:\n# %s\n", line, text);
        CHECK(strstr(text, line) != NULL);
}

/* What was changed back is no difference. */
static void expect_nothing(const struct digest *before) {
        struct digest now = {0};
        struct buf out = {0};

        bool same = digest_settle(before, &now, watched, NULL, 2000);
        if (!same && digest_difference(before, &now, &out) > 0)
                (void)printf("# %s\n", out.data);
        CHECK(same);
        buf_free(&out);
        digest_free(&now);
}

static void take(struct digest *d) {
        struct err err = {0};

        CHECK(digest_take(d, watched, NULL, &err) == 0);
        CHECK_STR(err.text, "");
}

static void nothing(void) {
        struct digest d;

        take(&d);
        expect_nothing(&d);
        for (size_t i = 0; i < DIGEST_COUNT; i++)
                CHECK(strlen(d.hash[i]) == 64);
        CHECK(d.parts[DIGEST_SETTINGS].size > 1000 && d.parts[DIGEST_MOUNTS].size > 0);
        digest_free(&d);
}

static void a_mount(void) {
        struct digest d;

        take(&d);
        CHECK(mount("test", folder, "tmpfs", 0, NULL) == 0);
        expect(&d, "+ mounts: ");
        struct digest once;
        take(&once);
        CHECK(mount(folder, folder, NULL, MS_BIND, NULL) == 0 && mount(folder, folder, NULL, MS_BIND, NULL) == 0);
        expect(&once, "+ mounts: "); /* twice the same line counts twice */
        for (int i = 0; i < 3; i++)
                CHECK(umount(folder) == 0);
        digest_free(&once);
        expect_nothing(&d);
        digest_free(&d);
}

/* A grandchild whose parent is gone, in a namespace of its own: still below us, because we are its reaper. */
static void a_process(void) {
        struct digest d;
        int ends[2], pid = 0;

        take(&d);
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        pid_t child = fork();
        if (child == 0) {
                pid_t grandchild = fork();
                if (grandchild == 0) {
                        (void)unshare(CLONE_NEWUTS);
                        (void)prctl(PR_SET_NAME, "left (behind)");
                        pid = getpid();
                        (void)!write(ends[1], &pid, sizeof pid);
                        for (;;)
                                (void)pause();
                }
                _exit(0);
        }
        CHECK(read(ends[0], &pid, sizeof pid) == (ssize_t)sizeof pid);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)waitpid(child, NULL, 0);
        expect(&d, "left (behind) alive");
        expect(&d, "+ namespaces: uts:[");
        struct digest own = {0};
        CHECK(digest_settle(&d, &own, watched, (const int[]){pid, 0}, 2000)); /* one that the judge names as its own */
        digest_free(&own);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        expect_nothing(&d);
        digest_free(&d);
}

/* A leaf that nobody holds, in a group where no sweep comes by. */
/* The folder of this process's own group: of v1 pids, or of v2. */
static bool own_group(char *ret, size_t size) {
        char text[8192];

        if (fd_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0)
                return false;
        const char *v1 = strstr(text, ":pids:"), *v2 = strstr(text, "0::");
        const char *own = v1 ? v1 + 6 : v2 ? v2 + 3 : NULL;
        if (!own)
                return false;
        int n = (int)strcspn(own, "\n");
        (void)snprintf(ret, size, "/sys/fs/cgroup%s%.*s", v1 ? "/pids" : "", n == 1 ? 0 : n, own);
        return access(ret, W_OK) == 0;
}

/* A leaf where the launcher would make it counts; the same in a group of somebody else does not. */
static void a_group(void) {
        char own[4096], leaf[4200], other[4200], inner[4300];
        struct digest d;

        take(&d);
        if (!own_group(own, sizeof own))
                (void)printf("# groups cannot be made here\n");
        else {
                (void)snprintf(leaf, sizeof leaf, "%s/stockade-left%d", own, getpid());
                CHECK(mkdir(leaf, 0755) == 0);
                expect(&d, "/stockade-left");
                CHECK(rmdir(leaf) == 0);
                (void)snprintf(other, sizeof other, "/sys/fs/cgroup/pids/test-digest-%d", getpid());
                (void)snprintf(inner, sizeof inner, "%s/stockade-left", other);
                if (str_eq(own, "/sys/fs/cgroup/pids") && mkdir(other, 0755) == 0) {
                        CHECK(mkdir(inner, 0755) == 0);
                        expect_nothing(&d);
                        CHECK(rmdir(inner) == 0 && rmdir(other) == 0);
                }
                expect_nothing(&d);
        }
        digest_free(&d);
}

static void a_setting(void) {
        struct digest d;
        char old[16];

        CHECK(fd_read_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_default_ttl", old, sizeof old) > 0);
        take(&d);
        if (fd_write_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_default_ttl", "77") < 0) {
                (void)printf("# settings cannot be written here\n");
                digest_free(&d);
                return;
        }
        expect(&d, "+ settings: /proc/sys/net/ipv4/ip_default_ttl 0644 77");
        expect(&d, "- settings: /proc/sys/net/ipv4/ip_default_ttl");
        CHECK(fd_write_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_default_ttl", old) == 0);
        expect_nothing(&d);
        digest_free(&d);
}

static void a_key(void) {
        struct digest d;

        CHECK(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) > 0);
        take(&d);
        long key = syscall(SYS_add_key, "user", "digest-test", "x", 1, KEY_SPEC_SESSION_KEYRING);
        CHECK(key > 0);
        expect(&d, "digest-test");
        CHECK(syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_SESSION_KEYRING) == 0);
        expect_nothing(&d);
        digest_free(&d);
}

static void shared_memory(void) {
        struct digest d;

        take(&d);
        int id = shmget(0x5354, 4096, IPC_CREAT | 0640);
        CHECK(id >= 0);
        expect(&d, "+ ipc: shm key=21332 ");
        CHECK(shmctl(id, IPC_RMID, NULL) == 0);
        expect_nothing(&d);
        digest_free(&d);
}

static void an_interface(void) {
        struct digest d;
        struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        take(&d);
        CHECK(ioctl(fd, SIOCSIFFLAGS, &up) == 0);
        expect(&d, "+ network: interface 1 lo flags ");
        digest_free(&d);
}

/* What an attacker may have put into a watched folder. */
static void files(void) {
        struct digest d, empty;
        _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        take(&empty);
        CHECK(fd_replace_file(dir, "file", 0644, "one", 3) == 0 && mkdirat(dir, "below", 0700) == 0);
        CHECK(symlinkat("/etc", dir, "below/link") == 0 && mkfifoat(dir, "below/pipe", 0600) == 0);
        CHECK(fd_replace_file(dir, "a\nb + mounts: x", 0600, "", 0) == 0);
        expect(&empty, "below/link l 0777");
        expect(&empty, "below/pipe p 0600");
        expect(&empty, "/a\\x0ab + mounts: x f 0600");
        take(&d);
        CHECK(strstr(d.parts[DIGEST_FILES].data, "passwd") == NULL); /* links are not followed */
        CHECK(fd_replace_file(dir, "file", 0644, "two", 3) == 0);
        expect(&d, "+ files: ");
        CHECK(fd_replace_file(dir, "file", 0644, "one", 3) == 0);
        expect_nothing(&d);
        CHECK(fchmodat(dir, "file", 04755, 0) == 0);
        expect(&d, "/file f 4755");
        CHECK(fchmodat(dir, "file", 0644, 0) == 0 && linkat(dir, "file", dir, "below/other", 0) == 0);
        expect(&d, "/file f 0644");
        static const char *const names[] = {"below/other", "below/link", "below/pipe", "file", "a\nb + mounts: x"};
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                CHECK(unlinkat(dir, names[i], 0) == 0);
        CHECK(unlinkat(dir, "below", AT_REMOVEDIR) == 0);
        digest_free(&d);
        digest_free(&empty);
}

static void too_many_files(void) {
        struct digest d;
        struct err err = {0};
        bool made = true;
        char name[32];

        CHECK(mount("test", folder, "tmpfs", 0, NULL) == 0);
        _cleanup_fd_ int inside = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (unsigned i = 0; i < 50001 && made; i++) {
                (void)snprintf(name, sizeof name, "%u", i);
                made = mkdirat(inside, name, 0700) == 0;
        }
        CHECK(made);
        CHECK(digest_take(&d, watched, NULL, &err) == ERR_LIMIT);
        fd_close(&inside);
        CHECK(umount2(folder, MNT_DETACH) == 0);
}

static void a_descriptor(void) {
        struct digest d;

        take(&d);
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        expect(&d, "/dev/null");
        (void)close(fd);
        expect_nothing(&d);
        digest_free(&d);
}

static void a_name(void) {
        struct digest d;

        take(&d);
        CHECK(sethostname("evil", 4) == 0);
        expect(&d, "+ identity: name evil");
        digest_free(&d);
}

static void differences_fit(void) {
        struct digest a, b;
        struct buf small = {.max = 100};

        take(&a);
        for (int i = 0; i < 20; i++)
                CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
        take(&b);
        CHECK(digest_difference(&a, &b, &small) >= 20); /* others may have begun a sandbox */
        CHECK(buf_ok(&small) && small.size <= 100 && small.data[small.size - 1] == '\n');
        buf_free(&small);
        digest_free(&a);
        digest_free(&b);
}

static void host(void) {
        struct digest d;
        struct digest_counts c;
        struct buf json = {.max = 64 << 20};

        CHECK(digest_take_host(&d, NULL, NULL) == 0);
        digest_write(&d, &json);
        CHECK(buf_ok(&json) && str_starts(json.data, "{\"mounts\":{\"hash\":\""));
        digest_count(&c);
        CHECK(c.files > 0 && c.inodes > 0 && c.slab_kib > 0 && c.tables_kib > 0);
        buf_free(&json);
        digest_free(&d);
}

/* Namespaces of our own, so that nothing here touches the machine. */
static bool prepare(void) {
        uid_t uid = geteuid();
        gid_t gid = getegid();
        int more = uid == 0 ? 0 : CLONE_NEWUSER;
        char users[32], groups[32];

        (void)snprintf(users, sizeof users, "%u %u 1", uid, uid);
        (void)snprintf(groups, sizeof groups, "%u %u 1", gid, gid);
        (void)snprintf(folder, sizeof folder, "/tmp/test-digest-XXXXXX");
        return mkdtemp(folder) && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 &&
               unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | more) == 0 &&
               (uid == 0 || (fd_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0 &&
                             fd_write_at(AT_FDCWD, "/proc/self/uid_map", users) == 0 &&
                             fd_write_at(AT_FDCWD, "/proc/self/gid_map", groups) == 0)) &&
               mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void own_host(void) {
        CHECK(prepare());
}

static void remove_folder(void) {
        CHECK(rmdir(folder) == 0);
}

TEST_MAIN(TEST(own_host), TEST(nothing), TEST(a_mount), TEST(a_process), TEST(a_group), TEST(a_setting), TEST(a_key),
          TEST(shared_memory), TEST(an_interface), TEST(files), TEST(too_many_files), TEST(a_descriptor), TEST(a_name),
          TEST(differences_fit), TEST(host), TEST(remove_folder))
