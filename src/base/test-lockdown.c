/* What a process can still do after it gave something up: each step is tried in a child of its own. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/lockdown.h"
#include "base/test.h"

/* The line of the first thing that was not as expected; 0: all was. */
#define EXPECT(condition)                                                                                              \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        return __LINE__;                                                                               \
        } while (0)

static int in_child(int (*fn)(void)) {
        int pipes[2], line = -1;

        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                line = fn();
                (void)!write(pipes[1], &line, sizeof line);
                (void)syscall(SYS_exit_group, 0); /* what a library does at the end may be refused now */
        }
        (void)close(pipes[1]);
        (void)!read(pipes[0], &line, sizeof line);
        (void)close(pipes[0]);
        (void)waitpid(pid, NULL, 0);
        return line;
}

static char folder[] = "/tmp/stockade-test-XXXXXX";

static int files_child(void) {
        int own = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct lockdown_place places[] = {{own, LOCKDOWN_WRITE}, {etc, LOCKDOWN_READ}};

        EXPECT(lockdown_no_new_privileges() == 0);
        int r = lockdown_files(places, ELEMENTSOF(places));
        EXPECT(r >= 0);
        if (r == 1) /* no Landlock here */
                return 0;
        EXPECT(open("/etc/passwd", O_RDONLY) >= 0);
        EXPECT(open("/etc/passwd", O_WRONLY) < 0 && errno == EACCES);
        EXPECT(open("/usr", O_RDONLY | O_DIRECTORY) < 0 && errno == EACCES);
        EXPECT(openat(own, "made", O_RDWR | O_CREAT, 0600) >= 0 && renameat(own, "made", own, "moved") == 0);
        EXPECT(mkdirat(own, "sub", 0700) == 0 && unlinkat(own, "sub", AT_REMOVEDIR) == 0);
        EXPECT(symlinkat("/etc", own, "link") < 0 && errno == EACCES);
        EXPECT(unlinkat(own, "moved", 0) == 0);
        return 0;
}

static int tree_child(void) {
        int own = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct lockdown_place place = {own, LOCKDOWN_TREE};

        EXPECT(lockdown_no_new_privileges() == 0 && lockdown_files(&place, 1) >= 0);
        EXPECT(symlinkat("/etc", own, "link") == 0 && mkfifoat(own, "fifo", 0600) == 0);
        EXPECT(unlinkat(own, "link", 0) == 0 && unlinkat(own, "fifo", 0) == 0);
        return 0;
}

/* 0: it may connect (and nobody is there); else it may not, or this kernel cannot say. */
static int connect_with(enum lockdown_right right) {
        struct lockdown_place place = {-EBADF, right};
        struct sockaddr_in nowhere = {
                .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (lockdown_no_new_privileges() < 0 || lockdown_files(&place, right == LOCKDOWN_CONNECT) < 0)
                return -1;
        return connect(fd, (struct sockaddr *)&nowhere, sizeof nowhere) == 0 || errno == ECONNREFUSED ? 0 : errno;
}

static int connect_child(void) {
        EXPECT(connect_with(LOCKDOWN_CONNECT) == 0);
        EXPECT(open("/etc/passwd", O_RDONLY) < 0 || kernel_landlock_abi() < 0); /* and nothing else */
        return 0;
}

static int no_connect_child(void) {
        int abi = kernel_landlock_abi(), r = connect_with(LOCKDOWN_READ);

        EXPECT(r == (abi >= 4 ? EACCES : 0));
        return 0;
}

static void connections(void) {
        CHECK(in_child(connect_child) == 0);
        CHECK(in_child(no_connect_child) == 0);
}

static void files(void) {
        CHECK(mkdtemp(folder) != NULL);
        CHECK(in_child(files_child) == 0);
        CHECK(in_child(tree_child) == 0);
        CHECK(rmdir(folder) == 0);
}

static int calls_child(void) {
        static const int plain[] = {SYS_write, SYS_exit_group, SYS_getpid, SYS_munmap};
        static const struct lockdown_call tested[] = {
                {SYS_mmap, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},
                {SYS_fcntl, 1, LOCKDOWN_ANY_OF, {F_GETFD, F_GETFL}, 2},
                {SYS_madvise, 2, LOCKDOWN_ALL_OF, {0x3}, 1},
                {SYS_uname, 0, LOCKDOWN_ABSENT, {0}, 0},
                {SYS_socket, 0, LOCKDOWN_ANY_OF, {AF_INET, AF_INET6}, 2, .more = true},
                {SYS_socket, 1, LOCKDOWN_ANY_OF, {SOCK_STREAM, SOCK_STREAM | SOCK_CLOEXEC}, 2, .more = true},
                {SYS_socket, 2, LOCKDOWN_NONE_OF, {0xff00}, 1},
                {SYS_dup, 0, LOCKDOWN_ANY_OF, {1}, 1},
        };

        EXPECT(lockdown_no_new_privileges() == 0);
        EXPECT(lockdown_calls(plain, ELEMENTSOF(plain), tested, ELEMENTSOF(tested)) == 0);
        EXPECT(syscall(SYS_getpid) > 0);
        EXPECT(syscall(SYS_getppid) == -1 && errno == EPERM);
        EXPECT(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EPERM);
        EXPECT(syscall(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) > 0);
        EXPECT(syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -1 &&
               errno == EPERM);
        EXPECT(syscall(SYS_fcntl, 0, F_GETFL) >= 0 && syscall(SYS_fcntl, 0, F_GETFD) >= 0);
        EXPECT(syscall(SYS_fcntl, 0, F_DUPFD, 0) == -1 && errno == EPERM);
        EXPECT(syscall(SYS_madvise, 0, 0, 0x7) == -1 && errno == EINVAL); /* let through, and nonsense */
        EXPECT(syscall(SYS_madvise, 0, 0, 0x2) == -1 && errno == EPERM);
        EXPECT(syscall(SYS_uname, 0) == -1 && errno == ENOSYS);
        EXPECT(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0) >= 0);
        EXPECT(syscall(SYS_socket, AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || errno == EAFNOSUPPORT);
        EXPECT(syscall(SYS_socket, AF_NETLINK, SOCK_STREAM, 0) == -1 && errno == EPERM);  /* the first does not hold */
        EXPECT(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0) == -1 && errno == EPERM);      /* the second */
        EXPECT(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0x100) == -1 && errno == EPERM); /* the third */
        EXPECT(syscall(SYS_dup, 1) >= 0 && syscall(SYS_dup, 0) == -1 && errno == EPERM);  /* and what comes after it */
        return 0;
}

static void calls(void) {
        CHECK(in_child(calls_child) == 0);
}

static int capabilities_child(void) {
        EXPECT(lockdown_bounding() == 0 && lockdown_capabilities() == 0 && lockdown_private() == 0);
        EXPECT(prctl(PR_GET_DUMPABLE) == 0);
        EXPECT(chroot("/") < 0 && errno == EPERM);
        return 0;
}

static int keep_child(void) {
        uint64_t mask = 1ULL << 18; /* CAP_SYS_CHROOT */

        if (geteuid() != 0)
                return 0;
        EXPECT(lockdown_keep_capabilities(mask) == 0);
        EXPECT(chroot("/") == 0);
        EXPECT(setresuid(1, 1, 1) < 0 && errno == EPERM);
        EXPECT(lockdown_keep_capabilities(mask | 1) < 0); /* none comes back */
        return 0;
}

static void capabilities(void) {
        CHECK(in_child(capabilities_child) == 0);
        CHECK(in_child(keep_child) == 0);
}

TEST_MAIN(TEST(files), TEST(connections), TEST(calls), TEST(capabilities))
