/* What Firecracker is asked, in which order it may be, and what its answers are taken for. A child plays it.
 * tests/driver/test_firecracker.py holds the same questions against its published description. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "driver/fc-api.h"

#define HELLO                                                                                                          \
        "HTTP/1.1 200 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"     \
        "Content-Length: 88\r\n\r\n"                                                                                   \
        "{\"id\":\"anonymous\",\"state\":\"Not started\",\"vmm_version\":\"1.16.1\",\"app_name\":\"Firecracker\"}"
#define DONE "HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n"

struct play {
        char path[64];
        pid_t pid;
        int from; /* what it was asked: each question, then a NUL */
};

/* Answers one connection after the other with these, and all further ones with the last. Like Firecracker, it does not
 * close a connection by itself. */
_noreturn_ static void answer(int door, int to, const char *const *answers) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
                char asked[4096] = "";
                int fd = accept(door, NULL, NULL);
                ssize_t n = recv(fd, asked, sizeof asked - 1, 0);

                if (n > 0 && !strchr(asked, '}') && strstr(asked, "Content-Type")) /* its body comes by itself */
                        (void)!recv(fd, asked + n, sizeof asked - 1 - (size_t)n, 0);
                (void)!write(to, asked, strlen(asked) + 1);
                (void)send(fd, *answers, strlen(*answers), MSG_NOSIGNAL);
                answers += answers[1] != NULL;
                (void)recv(fd, asked, 1, 0);
                (void)close(fd);
        }
}

static bool play(struct play *p, const char *const *answers) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int ends[2], door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)snprintf(p->path, sizeof p->path, "/tmp/stockade-test-fc-%d", (int)getpid());
        (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", p->path);
        (void)unlink(p->path);
        if (door < 0 || bind(door, (struct sockaddr *)&at, sizeof at) < 0 || listen(door, 4) < 0 || pipe(ends) < 0)
                return false;
        p->pid = fork();
        if (p->pid == 0)
                answer(door, ends[1], answers);
        (void)close(door);
        (void)close(ends[1]);
        p->from = ends[0];
        return p->pid > 0;
}

static void stop(struct play *p) {
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
        (void)close(p->from);
        (void)unlink(p->path);
}

/* The next question: its line, a space, and its body. */
static const char *asked(const struct play *p) {
        static char text[4096], line[4096];
        size_t n = 0;

        while (n < sizeof text - 1 && read(p->from, text + n, 1) == 1 && text[n] != '\0')
                n++;
        text[n] = '\0';
        const char *body = strstr(text, "\r\n\r\n");
        (void)snprintf(line, sizeof line, "%.*s %s", (int)strcspn(text, "\r"), text, body ? body + 4 : "?");
        return line;
}

static const char *const willing[] = {HELLO, DONE, NULL};

static void a_whole_life(void) {
        const struct fc_boot boot = {"/kernel", "/initrd", "quiet \"x\""};
        const struct fc_drive drive = {"disk", "/disk", false};
        const struct fc_files files = {"/state", "/memory"};
        struct play p;
        struct fc f;
        struct err err = {0};

        CHECK(play(&p, willing));
        CHECK(fc_open(&f, p.path, &err) == 0 && f.state == FC_FRESH);
        CHECK_STR(f.release, "1.16.1");
        CHECK_STR(asked(&p), "GET / HTTP/1.1 ");
        CHECK(fc_set_machine(&f, 256, 2, &err) == 0 && f.state == FC_DESCRIBED);
        CHECK_STR(asked(&p), "PUT /machine-config HTTP/1.1 {\"vcpu_count\":2,\"mem_size_mib\":256,\"smt\":false}");
        CHECK(fc_set_boot(&f, &boot, &err) == 0);
        CHECK_STR(asked(&p), "PUT /boot-source HTTP/1.1 {\"kernel_image_path\":\"/kernel\","
                             "\"initrd_path\":\"/initrd\",\"boot_args\":\"quiet \\\"x\\\"\"}");
        CHECK(fc_set_drive(&f, &drive, &err) == 0);
        CHECK_STR(asked(&p), "PUT /drives/disk HTTP/1.1 {\"drive_id\":\"disk\",\"path_on_host\":\"/disk\","
                             "\"is_root_device\":false,\"is_read_only\":false,\"cache_type\":\"Writeback\"}");
        CHECK(fc_set_link(&f, "link", "box", &err) == 0);
        CHECK_STR(asked(&p), "PUT /network-interfaces/link HTTP/1.1 {\"iface_id\":\"link\",\"host_dev_name\":\"box\"}");
        CHECK(fc_set_vsock(&f, "/v.sock", &err) == 0);
        CHECK_STR(asked(&p), "PUT /vsock HTTP/1.1 {\"guest_cid\":3,\"uds_path\":\"/v.sock\"}");
        CHECK(fc_set_entropy(&f, &err) == 0);
        CHECK_STR(asked(&p), "PUT /entropy HTTP/1.1 {}");
        CHECK(fc_start(&f, &err) == 0 && f.state == FC_RUNNING);
        CHECK_STR(asked(&p), "PUT /actions HTTP/1.1 {\"action_type\":\"InstanceStart\"}");
        CHECK(fc_pause(&f, &err) == 0 && f.state == FC_PAUSED);
        CHECK_STR(asked(&p), "PATCH /vm HTTP/1.1 {\"state\":\"Paused\"}");
        CHECK(fc_save(&f, &files, &err) == 0 && f.state == FC_PAUSED);
        CHECK_STR(asked(&p), "PUT /snapshot/create HTTP/1.1 {\"snapshot_type\":\"Full\",\"snapshot_path\":\"/state\","
                             "\"mem_file_path\":\"/memory\"}");
        CHECK(fc_resume(&f, &err) == 0 && f.state == FC_RUNNING);
        CHECK_STR(asked(&p), "PATCH /vm HTTP/1.1 {\"state\":\"Resumed\"}");
        stop(&p);
}

static void a_life_brought_back(void) {
        const struct fc_files files = {"/state", "/memory"};
        struct play p;
        struct fc f;

        CHECK(play(&p, willing));
        CHECK(fc_open(&f, p.path, NULL) == 0);
        (void)asked(&p);
        CHECK(fc_load(&f, &files, false, NULL) == 0 && f.state == FC_PAUSED);
        CHECK_STR(asked(&p), "PUT /snapshot/load HTTP/1.1 {\"snapshot_path\":\"/state\",\"mem_backend\":"
                             "{\"backend_type\":\"File\",\"backend_path\":\"/memory\"},\"resume_vm\":false}");
        CHECK(fc_resume(&f, NULL) == 0 && f.state == FC_RUNNING);
        stop(&p);
}

/* Nobody listens: had it been asked, the error would be another. */
static void nothing_out_of_turn(void) {
        const struct fc_boot boot = {"/kernel", "/initrd", ""};
        const struct fc_drive drive = {"disk", "/disk", true};
        const struct fc_files files = {"/state", "/memory"};

        for (int s = 0; s < FC_STATE_COUNT; s++) {
                struct fc f = {.socket = "/nowhere/sock", .state = (enum fc_state)s, .bootable = true};
                int before = s == FC_FRESH || s == FC_DESCRIBED ? -ENOENT : -EBUSY;

                CHECK(fc_set_machine(&f, 128, 1, NULL) == before && fc_set_boot(&f, &boot, NULL) == before);
                CHECK(fc_set_drive(&f, &drive, NULL) == before && fc_set_link(&f, "a", "b", NULL) == before);
                CHECK(fc_set_vsock(&f, "/v", NULL) == before && fc_set_entropy(&f, NULL) == before);
                CHECK(fc_start(&f, NULL) == (s == FC_DESCRIBED ? -ENOENT : -EBUSY));
                CHECK(fc_pause(&f, NULL) == (s == FC_RUNNING ? -ENOENT : -EBUSY));
                CHECK(fc_resume(&f, NULL) == (s == FC_PAUSED ? -ENOENT : -EBUSY));
                CHECK(fc_save(&f, &files, NULL) == (s == FC_PAUSED ? -ENOENT : -EBUSY));
                CHECK(fc_load(&f, &files, true, NULL) == (s == FC_FRESH ? -ENOENT : -EBUSY));
                CHECK(f.state == (enum fc_state)s);
        }
        struct fc f = {.socket = "/nowhere/sock", .state = FC_DESCRIBED};
        struct err err = {0};
        CHECK(fc_start(&f, &err) == -EBUSY && strstr(err.text, "what to boot"));
}

static void nothing_that_cannot_be_meant(void) {
        struct fc f = {.socket = "/nowhere/sock"};
        char words[4096] = "";

        CHECK(fc_set_machine(&f, 128, 0, NULL) == ERR_INPUT && fc_set_machine(&f, 128, 33, NULL) == ERR_INPUT);
        CHECK(fc_set_machine(&f, 0, 1, NULL) == ERR_INPUT && fc_set_machine(&f, UINT64_MAX, 1, NULL) == ERR_INPUT);
        CHECK(fc_set_link(&f, "a/../vm", "box", NULL) == ERR_INPUT && fc_set_link(&f, "", "box", NULL) == ERR_INPUT);
        CHECK(fc_set_link(&f, "a", "b?c", NULL) == ERR_INPUT);
        CHECK(fc_set_vsock(&f, "v.sock", NULL) == ERR_INPUT);
        memset(words, 'a', sizeof words - 1);
        CHECK(fc_set_boot(&f, &(struct fc_boot){"/kernel", "/initrd", words}, NULL) == ERR_INPUT);
        CHECK(fc_set_boot(&f, &(struct fc_boot){"kernel", "/initrd", ""}, NULL) == ERR_INPUT);
        CHECK(f.state == FC_FRESH);
}

static void a_refusal_is_quoted(void) {
        static const char *const answers[] = {
                HELLO,
                "HTTP/1.1 400 \r\nServer: Firecracker API\r\nContent-Type: application/json\r\nContent-Length: "
                "47\r\n\r\n"
                "{\"fault_message\":\"no \\u001b[31m\\nmemory\\u0000\"}",
                "HTTP/1.1 400 \r\nContent-Length: 28\r\n\r\n{\"fault_message\":\"a\\u001bb\"}",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
                "nonsense\r\n\r\n",
                NULL};
        struct play p;
        struct fc f;
        struct err err = {0};

        CHECK(play(&p, answers));
        CHECK(fc_open(&f, p.path, &err) == 0);
        CHECK(fc_set_machine(&f, 128, 1, &err) == -EIO); /* a NUL inside: not quoted at all */
        CHECK_STR(err.text, "could not size the machine: Firecracker says (400) 'nothing'");
        CHECK(fc_set_machine(&f, 128, 1, &err) == -EIO);
        CHECK_STR(err.text, "could not size the machine: Firecracker says (400) 'a\\x1bb'");
        CHECK(fc_set_machine(&f, 128, 1, &err) == -EIO); /* success is 204, and nothing else */
        CHECK(fc_set_machine(&f, 128, 1, &err) == ERR_CORRUPT && f.state == FC_FRESH);
        CHECK(str_starts(err.text, "could not size the machine: "));
        stop(&p);
}

static int open_with(const char *body, struct err *err) {
        char text[512];
        const char *const answers[] = {text, NULL};
        struct play p;
        struct fc f;

        (void)snprintf(text, sizeof text, "HTTP/1.1 200 \r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
        CHECK(play(&p, answers));
        int r = fc_open(&f, p.path, err);
        stop(&p);
        return r;
}

static void another_is_not_taken_for_it(void) {
        struct err err = {0};

        CHECK(open_with("{\"state\":\"Running\",\"vmm_version\":\"1.16.1\"}", &err) == -EBUSY);
        CHECK(open_with("{\"state\":\"Not started\",\"vmm_version\":\"1.7.0\"}", &err) == ERR_UNENFORCED &&
              err.hint[0]);
        CHECK(open_with("{\"state\":\"Not started\",\"vmm_version\":\"2.0.0\"}", &err) == ERR_UNENFORCED);
        CHECK(open_with("{\"state\":\"Not started\",\"vmm_version\":\"1.-16.0\"}", &err) == ERR_UNENFORCED);
        CHECK(open_with("{\"state\":\"Not started\",\"vmm_version\":\"1.17.0-dev\"}", &err) == 0);
        CHECK(open_with("{\"state\":\"Not started\"}", &err) == ERR_CORRUPT);
        CHECK(open_with("[]", &err) == ERR_CORRUPT);
        CHECK(open_with("{", &err) == ERR_CORRUPT);
}

TEST_MAIN(TEST(a_whole_life), TEST(a_life_brought_back), TEST(nothing_out_of_turn), TEST(nothing_that_cannot_be_meant),
          TEST(a_refusal_is_quoted), TEST(another_is_not_taken_for_it))
