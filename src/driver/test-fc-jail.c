/* The jailer's command line, and the root that it gets; the latter as root, in a mount namespace of its own. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "driver/fc-jail.h"

static const struct jail jail = {.jailer = "/usr/local/bin/jailer",
                                 .program = "/opt/firecracker-v1.16.1-x86_64",
                                 .base = "/sys",
                                 .id = "0123456789abcdef",
                                 .id_base = 0x40010000,
                                 .network = "/proc/1/fd/9"};

static void the_words(void) {
        _cleanup_words_ struct words w = {0};
        char text[1024] = "";
        size_t n = 0;

        CHECK(jail_words(&jail, &w) == 0);
        for (char **word = w.argv; word && *word; word++)
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", *word);
        CHECK_STR(text, "/usr/local/bin/jailer --id 0123456789abcdef --exec-file /opt/firecracker-v1.16.1-x86_64 "
                        "--uid 1073807361 --gid 1073807361 --chroot-base-dir /sys --netns /proc/1/fd/9 "
                        "--resource-limit no-file=256 -- --api-sock /run/firecracker.socket");
}

static void the_paths(void) {
        char path[108], long_id[80] = "";
        struct jail j = jail;

        CHECK(jail_path(&jail, JAIL_SOCKET, path, NULL) == 0);
        CHECK_STR(path, "/sys/firecracker-v1.16.1-x86_64/0123456789abcdef/root/run/firecracker.socket");
        memset(long_id, 'a', sizeof long_id - 1);
        j.id = long_id;
        CHECK(jail_path(&j, JAIL_SOCKET, path, NULL) == ERR_LIMIT);
}

static void what_is_not_there(void) {
        char path[PATH_MAX];
        struct err err = {0};

        CHECK(jail_find("no-such-program", path, &err) == ERR_UNENFORCED && strstr(err.hint, "/usr/local/bin"));
        CHECK(jail_find("env", path, &err) == 0 && path[0] == '/');
}

/* --- the root --- */

static void write_text(const char *folder, const char *name) {
        char path[64];

        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        CHECK(fd >= 0 && fd_write_full(fd, name, strlen(name)) == 0);
}

static void check_file(const struct jail *j, const char *inside, const char *text) {
        char path[108], got[32] = "";

        CHECK(jail_path(j, inside, path, NULL) == 0);
        CHECK(fd_read_at(AT_FDCWD, path, got, sizeof got) >= 0);
        CHECK_STR(got, text);
        CHECK(open(path, O_WRONLY | O_CLOEXEC) < 0 && errno == EROFS);
}

static void check_socket(const struct jail *j) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        _cleanup_fd_ int door = jail_listen(j, 2, NULL), fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct stat st;

        CHECK(door >= 0 && jail_path(j, "/v.sock_2", at.sun_path, NULL) == 0);
        CHECK(lstat(at.sun_path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0600 &&
              st.st_uid == j->id_base + 1);
        CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
        CHECK(jail_listen(j, 2, NULL) == -EADDRINUSE);
}

/* Everything in it is seen by the jailer's own recursive bind, and by no other mount namespace. */
static void build(const char *image) {
        struct jail j = jail;
        struct err err = {0};
        struct statvfs fs;

        j.program = "/bin/true";
        CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        int r = jail_build(&j, image, &err);
        CHECK(r == 0);
        if (r < 0)
                (void)printf("# %s\n", err.text);
        check_file(&j, JAIL_KERNEL, "kernel");
        check_file(&j, JAIL_INITRD, "initrd");
        check_socket(&j);
        CHECK(statvfs("/sys", &fs) == 0 && fs.f_bsize * fs.f_blocks < 16 << 20);
        CHECK(!(fs.f_flag & (ST_NODEV | ST_NOEXEC)));
        CHECK(mount("/sys/true/0123456789abcdef/root", "/mnt", NULL, MS_BIND | MS_REC, NULL) == 0);
        CHECK(access("/mnt/kernel", R_OK) == 0 && access("/mnt/v.sock_2", F_OK) == 0);
        char got[32] = "";
        CHECK(fd_read_at(AT_FDCWD, "/mnt/kernel", got, sizeof got) == 6);
        j.program = "/nowhere";
        CHECK(jail_build(&j, image, &err) == -ENOENT);
}

static void the_root(void) {
        char image[] = "/tmp/stockade-test-jail-XXXXXX", path[64];
        int status = -1;

        if (geteuid() != 0) {
                (void)printf("# not root: not tried\n");
                return;
        }
        CHECK(mkdtemp(image) != NULL);
        write_text(image, "kernel");
        write_text(image, "initrd");
        (void)fflush(stdout); /* or the child says it again */
        pid_t pid = fork();
        if (pid == 0) {
                build(image);
                (void)fflush(stdout);
                _exit(test_failures > 0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK(access("/sys/true", F_OK) < 0);
        for (int i = 0; i < 2; i++) {
                (void)snprintf(path, sizeof path, "%s/%s", image, i ? "kernel" : "initrd");
                (void)unlink(path);
        }
        (void)rmdir(image);
}

TEST_MAIN(TEST(the_words), TEST(the_paths), TEST(what_is_not_there), TEST(the_root))
