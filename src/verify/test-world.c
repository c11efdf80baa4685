/* Tests of the judge's world: that it hears what reaches it, sees what happens to its victim, finds its secrets in any
 * form, and leaves nothing. The world is a real one, made in a child, as the caller and (from root) without root. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "verify/world-own.h"

enum { NOBODY = 65534 };

/* --- the parts without I/O --- */

static size_t ask(const char *name, uint8_t type, uint8_t ret[512], char asked[256], _Atomic uint32_t *rebinds) {
        uint8_t question[300] = {0x12, 0x34, 1, 0, 0, 1};
        size_t n = 12;
        unsigned kind;

        for (const char *p = name; *p;) {
                size_t size = strcspn(p, ".");

                question[n++] = (uint8_t)size;
                memcpy(question + n, p, size);
                n += size;
                p += size + (p[size] == '.');
        }
        n++;
        question[n + 1] = type;
        question[n + 3] = 1;
        return world_dns_answer(question, n + 4, ret, 512, asked, &kind, rebinds);
}

static void names(void) {
        _Atomic uint32_t rebinds = 0;
        uint8_t a[512];
        char name[256];
        static const uint8_t good[] = {198, 51, 100, 10}, own[] = {127, 0, 0, 1};

        size_t n = ask("Some.GOOD.test", 1, a, name, &rebinds);
        CHECK(n > 4 && a[7] == 1 && memcmp(a + n - 4, good, 4) == 0);
        CHECK_STR(name, "some.good.test");
        n = ask("private.test", 1, a, name, &rebinds);
        CHECK(n > 0 && a[7] == 3);
        n = ask("mapped.test", 1, a, name, &rebinds);
        CHECK(n > 0 && a[7] == 0 && (a[3] & 15) == 0);
        n = ask("notgood.test", 1, a, name, &rebinds);
        CHECK(n > 0 && a[7] == 0 && (a[3] & 15) == 3);
        n = ask("x.rebind.test", 1, a, name, &rebinds);
        CHECK(n > 4 && memcmp(a + n - 4, good, 4) == 0);
        n = ask("x.rebind.test", 1, a, name, &rebinds);
        CHECK(n > 4 && memcmp(a + n - 4, own, 4) == 0);
        unsigned type;
        CHECK(world_dns_answer((const uint8_t *)"short", 5, a, sizeof a, name, &type, &rebinds) == 0);
        static const uint8_t loop[] = {1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1};
        CHECK(world_dns_answer(loop, sizeof loop, a, sizeof a, name, &type, &rebinds) == 0);
}

static void attempts(void) {
        char name[48];
        static const struct {
                const char *said, *attempt;
        } cases[] = {
                {"nonce tcp-v4\n", "tcp-v4"},
                {"stranger tcp-v4\n", ""},
                {"GET /?attempt=one HTTP/1.1\r\nHost: two.good.test\r\n\r\n", "one"},
                {"GET / HTTP/1.1\r\nHost: two.good.test:80\r\n\r\n", "two"},
                {"GET / HTTP/1.1\r\nHost: x.two.EVIL.test\r\n\r\n", "two"},
                {"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", ""},
                {"GET / HTTP/1.1\r\nHost: two.elsewhere\r\n\r\n", ""},
                {"attempt=", ""},
                {"", ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                world_serve_attempt("nonce", cases[i].said, strlen(cases[i].said), name, sizeof name);
                CHECK_STR(name, cases[i].attempt);
        }
}

/* A hello with this name, in records of at most `piece` bytes. Returns its size. */
static size_t make_hello(const char *name, size_t piece, uint8_t *ret) {
        uint8_t hello[256] = {1, 0, 0, 0, 3, 3};
        size_t n = 6 + 32, used = 0, length = strlen(name);

        hello[n++] = 0;
        memcpy(hello + n, "\0\2\x13\1\1\0", 6);
        n += 6;
        const uint8_t head[] = {0, (uint8_t)(length + 9), 0, 0, 0, (uint8_t)(length + 5), 0, (uint8_t)(length + 3), 0,
                                0, (uint8_t)length};
        memcpy(hello + n, head, sizeof head);
        n += sizeof head;
        memcpy(hello + n, name, length);
        n += length;
        hello[3] = (uint8_t)(n - 4);
        for (size_t at = 0; at < n; at += piece) {
                size_t size = MIN(piece, n - at);

                memcpy(ret + used, "\x16\3\1\0", 4);
                ret[used + 4] = (uint8_t)size;
                memcpy(ret + used + 5, hello + at, size);
                used += size + 5;
        }
        return used;
}

static void hellos(void) {
        uint8_t data[1024];
        char name[256] = "";

        for (size_t piece = 7; piece < 200; piece += 50) {
                size_t n = make_hello("one.TLS.test", piece, data);

                CHECK(world_serve_hello(data, n, name, sizeof name) == 0);
                CHECK_STR(name, "one.tls.test");
                for (size_t i = 1; i < n; i++)
                        CHECK(world_serve_hello(data, i, name, sizeof name) == -EAGAIN);
        }
        CHECK(world_serve_hello((const uint8_t *)"GET /", 5, name, sizeof name) == -EINVAL);
}

static void requests(void) {
        static const char two[] = "POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n";
        char out[1024];
        bool last;

        size_t head = world_serve_head(two, sizeof two - 1);
        CHECK(head == strlen("POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\n"));
        CHECK(world_serve_head(two, head - 1) == 0);
        CHECK(world_serve_body(two, head, &last) == 5 && !last);
        CHECK(world_serve_body("GET / HTTP/1.0\r\n\r\n", 18, &last) == 0 && last);
        size_t n = world_serve_http(out, sizeof out, "here:80", "one", two, head, true);
        CHECK(n > 0 && memmem(out, n, "Location: http://169.254.169.254/", 33) && memmem(out, n, "attempt=one\n", 12));
        CHECK(world_serve_http(out, 64, "here:80", "one", two, head, false) == 0);
}

static void leaks(void) {
        struct world own = {0};
        char text[256];
        /* the random end of token 5: reversed, base64 with none, one and two bytes before it, hex */
        static const char *const forms[] = {"554535251505f5e5d5c5b5a5",
                                            "NWE1YjVjNWQ1ZTVmNTA1MTUyNTM1NDU1",
                                            "eDVhNWI1YzVkNWU1ZjUwNTE1MjUzNTQ1NQ==",
                                            "eHg1YTViNWM1ZDVlNWY1MDUxNTI1MzU0NTU=",
                                            "356135623563356435653566353035313532353335343535",
                                            "356135623563356435653566353035313532353335343535"};

        for (int i = 0; i < CANARY_COUNT; i++) {
                int n = snprintf(own.tokens[i], sizeof own.tokens[i], "canary-x-");

                for (int k = 0; k < 12; k++)
                        n += snprintf(own.tokens[i] + n, sizeof own.tokens[i] - (size_t)n, "%d%x", i, (k + 10) % 16);
        }
        CHECK_STR(own.tokens[5], "canary-x-5a5b5c5d5e5f505152535455");
        CHECK(world_leaked(&own, "canary-x-", 9) == -1);
        (void)snprintf(text, sizeof text, "before %s after", own.tokens[5]);
        CHECK(world_leaked(&own, text, strlen(text)) == 5);
        CHECK(world_leaked(&own, text, strlen(text) - 7) == -1);
        for (size_t i = 0; i < ELEMENTSOF(forms); i++)
                CHECK(world_leaked(&own, forms[i], strlen(forms[i])) == 5);
        CHECK(world_leaked(&own, forms[0], strlen(forms[0]) - 1) == -1);
        CHECK(world_leaked(&own, forms[1], strlen(forms[1]) - 5) == -1);
}

/* --- a world --- */

static struct world w;

static int reach(const char *address, uint16_t port, const char *say) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        struct timeval limit = {.tv_sec = 5};
        char answer[64];
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (inet_pton(AF_INET, address, &in.sin_addr) != 1 || connect(fd, (struct sockaddr *)&in, sizeof in) < 0)
                return -errno;
        if (say && (send(fd, say, strlen(say), MSG_NOSIGNAL) < 0 || recv(fd, answer, sizeof answer, 0) <= 0))
                return -errno;
        return 0;
}

static void hear_all(void) {
        static const char *const addresses[] = {"127.0.0.1",    WORLD_NEAR,     WORLD_FAR,     WORLD_GOOD, WORLD_EVIL,
                                                WORLD_METADATA, WORLD_REDIRECT, WORLD_PRIVATE, "8.8.8.8"};
        char text[512], token[128];

        CHECK(!world_heard(&w, "nobody", text, sizeof text));
        for (size_t i = 0; i < ELEMENTSOF(addresses); i++) {
                char name[32], request[128];

                (void)snprintf(name, sizeof name, "http-%zu", i);
                (void)snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s.good.test\r\n\r\n", name);
                CHECK(reach(addresses[i], 80, request) == 0);
                CHECK(world_heard(&w, name, text, sizeof text) && strstr(text, addresses[i]));
        }
        CHECK(!world_heard(&w, "nobody", text, sizeof text));
        (void)snprintf(token, sizeof token, "%s raw\n", w.nonce);
        CHECK(reach("127.0.0.1", w.ports.tcp, token) == 0 && world_heard(&w, "raw", text, sizeof text));
        CHECK(reach(WORLD_FAR, w.ports.far_tcp, token) == 0);
        CHECK(world_most(&w) == 1);
        world_forget(&w);
        CHECK(!world_heard(&w, "raw", text, sizeof text));
        CHECK(reach(WORLD_EVIL, 443, NULL) == 0 && world_heard(&w, "whoever", text, sizeof text)); /* without a word */
        world_forget(&w);
}

static void disturb(void) {
        struct rlimit limit = {50, 50};
        char text[256];

        CHECK(!world_victim_changed(&w, text, sizeof text));
        CHECK(kill(w.victim, SIGUSR1) == 0);
        for (int i = 0; i < 6000 && !world_victim_changed(&w, text, sizeof text); i++)
                (void)usleep(10000);
        CHECK(world_victim_changed(&w, text, sizeof text) && strstr(text, "signal 10"));
        world_forget(&w);
        CHECK(!world_victim_changed(&w, text, sizeof text));
        CHECK(syscall(SYS_prlimit64, w.victim, RLIMIT_NOFILE, &limit, NULL) == 0);
        CHECK(world_victim_changed(&w, text, sizeof text) && strstr(text, "limit"));
        world_forget(&w);
        CHECK(!world_victim_changed(&w, text, sizeof text));
        CHECK(kill(w.victim, SIGKILL) == 0);
        for (int i = 0; i < 6000 && !(world_victim_changed(&w, text, sizeof text) && strstr(text, "dead")); i++)
                (void)usleep(10000);
        CHECK_STR(text, "it is dead");
}

/* Where nobody listens, silence means nothing. */
static void go_deaf(void) {
        struct world_event e;
        char text[256];

        CHECK(world_events(&w, &e, 1) == 0);
        CHECK(kill(w.listener, SIGKILL) == 0);
        CHECK(world_heard(&w, "nobody", text, sizeof text) && strstr(text, "does not answer"));
        CHECK(world_events(&w, &e, 1) == 1);
        CHECK_STR(e.kind, "lost");
}

static bool has_capabilities(void) {
        char text[4096];
        ssize_t n = fd_read_at(AT_FDCWD, "/proc/self/status", text, sizeof text);
        const char *at = n > 0 ? strstr(text, "CapPrm:") : NULL;

        return !at || strtoull(at + 7, NULL, 16) != 0;
}

/* What is planted is there, and then it is not. */
static void inhabit(void) {
        struct err err;
        struct stat st;
        char paths[CANARY_COUNT][256], folder[256];

        int r = world_make(&w, "/proc/self/exe", &err);
        CHECK(r == 0);
        if (r < 0) {
                (void)printf("# %s\n", err.text);
                return;
        }
        CHECK(geteuid() == 0 || !has_capabilities());
        CHECK(w.shareable == world_share_can(w.folder));
        CHECK(stat(w.setid, &st) == 0 && (st.st_mode & 07777) == 04755);
        memcpy(paths, w.paths, sizeof paths);
        memcpy(folder, w.folder, sizeof folder);
        for (int i = 0; i < CANARY_COUNT; i++)
                CHECK(!paths[i][0] || access(paths[i], R_OK) == 0);
        hear_all();
        disturb();
        go_deaf();
        world_remove(&w);
        for (int i = 0; i < CANARY_COUNT; i++)
                CHECK(!paths[i][0] || access(paths[i], F_OK) < 0);
        CHECK(access(folder, F_OK) < 0);
        CHECK(waitpid(-1, NULL, WNOHANG) < 0);
}

/* True when the process has ended, which was handed to us because its parent had. */
static bool ends(pid_t pid) {
        for (int i = 0; i < 6000; i++) {
                if (waitpid(pid, NULL, WNOHANG) == pid)
                        return true;
                (void)usleep(10000);
        }
        return false;
}

/* A judge that is killed takes its processes with it, and leaves only files that the next one of its user removes. */
static void killed(void) {
        struct world other = {0};
        struct err err;
        int pipes[2];

        CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 && pipe2(pipes, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                if (world_make(&w, "/proc/self/exe", &err) < 0 || fd_write_full(pipes[1], &w, sizeof w) < 0)
                        _exit(1);
                for (;;)
                        (void)pause();
        }
        (void)close(pipes[1]);
        CHECK(fd_read_full(pipes[0], &other, sizeof other) == (ssize_t)sizeof other);
        (void)close(pipes[0]);
        world_files_sweep();
        CHECK(other.folder[0] && access(other.folder, F_OK) == 0); /* it lives */
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        CHECK(ends(other.victim) && ends(other.listener));
        world_files_sweep();
        CHECK(access(other.folder, F_OK) < 0);
        for (int i = 0; i < CANARY_COUNT; i++)
                CHECK(!other.paths[i][0] || access(other.paths[i], F_OK) < 0);
}

/* In a child, because there is no way back from namespaces. True: nothing failed. */
static bool apart(void (*run)(void), bool drop) {
        int status = 0;

        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                if (drop && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                             setresuid(NOBODY, NOBODY, NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0))
                        _exit(1); /* dumpable, as after an exec: /proc/self is ours again */
                run();
                (void)fflush(stdout);
                _exit(test_failures > 0);
        }
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ramfs knows no other ids. Whether the next place does depends on the host. */
static bool cover_tmp(void) {
        bool covered = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                       mount("ramfs", "/tmp", "ramfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;

        CHECK(covered && !world_share_can("/tmp"));
        return covered;
}

static void inhabit_elsewhere(void) {
        struct err err;
        char folder[256];

        if (!cover_tmp() || world_make(&w, "/proc/self/exe", &err) < 0) {
                CHECK(false);
                return;
        }
        memcpy(folder, w.folder, sizeof folder);
        CHECK(w.shareable == world_share_can(w.share));
        CHECK(w.shareable != str_starts(folder, "/tmp/")); /* it went on, or there was nowhere to go */
        CHECK(str_starts(w.paths[CANARY_TMP], "/tmp/"));
        world_remove(&w);
        CHECK(access(folder, F_OK) < 0);
}

static void killed_elsewhere(void) {
        if (cover_tmp())
                killed();
}

static void elsewhere(void) {
        if (geteuid() != 0) /* nobody else's ids change */
                return;
        CHECK(apart(inhabit_elsewhere, false));
        CHECK(apart(killed_elsewhere, false));
}

static void as_caller(void) {
        CHECK(apart(inhabit, false));
        CHECK(apart(killed, false));
}

static void without_root(void) {
        if (geteuid() != 0) /* the test before was that */
                return;
        CHECK(apart(inhabit, true));
        CHECK(apart(killed, true));
}

TEST_MAIN(TEST(names), TEST(attempts), TEST(hellos), TEST(requests), TEST(leaks), TEST(as_caller), TEST(without_root),
          TEST(elsewhere))
