/* Attempts on processes that need a run of their own: PID 1, everybody, and a port that is listened on inside. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/scene.h"

enum { NOT_HERE = 2 }; /* exit status of a probe that tries nothing, because it is in no sandbox */

/* Runs the attempt of this name; the victim outside must not notice it. */
static bool attempt(struct judge *j, const struct check *c, struct finding *f, struct outcome *o, struct said *said) {
        char changed[200];

        world_forget(&j->world); /* what the victim noticed before was another check's */
        if (!scene_inside(j, f, NULL, WORDS("{probe}", c->name), o))
                return false;
        if (world_victim_changed(&j->world, changed, sizeof changed))
                finding_open(f, "the victim outside noticed: %s", changed);
        bool spoke = scene_said(&o->out, c->name, said, f);
        if (!spoke && o->status == NOT_HERE) {
                const char *why = o->err.data ? strstr(o->err.data, "nothing is tried") : NULL;
                why = why ? why : "nothing was tried";
                finding_untried(f, "%.*s", (int)strcspn(why, "\n"), why);
                return false;
        }
        if (spoke && (str_eq(said->result, "guarded") || str_eq(said->result, "not tried"))) {
                finding_untried(f, "%s: %.200s", said->result, said->evidence);
                return false;
        }
        return true;
}

/* PID 1 must survive, or the run would not end in an orderly way. */
void scene_kill_init(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        struct said said = {0};

        if (!attempt(j, c, f, &o, &said))
                return;
        if (o.status == 0 && str_eq(said.result, "refused"))
                finding_promised(f, "PID 1 is still there, and the run ended in an orderly way");
        else
                scene_worked(j, c, f, "PID 1 was ended: status %d", o.status);
        /* an ordinary process dies of the same signal */
        if (scene_inside(j, f, NULL, WORDS("/bin/sh", "-c", "sh -c 'sleep 5' & kill -9 $!; wait $!; exit $?"),
                         &control))
                finding_control(f, control.status == 137, "another process dies of it: status %d", control.status);
}

void scene_kill_all(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        struct said said = {0};

        if (!attempt(j, c, f, &o, &said))
                return;
        if (o.status == 0 && str_eq(said.result, "refused"))
                finding_promised(f, "nobody outside noticed");
        else
                finding_otherwise(f, "it ended with status %d", o.status);
}

static bool connects(int family, const void *address, socklen_t size) {
        _cleanup_fd_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int error = 0;
        socklen_t n = sizeof error;

        if (fd < 0)
                return false;
        if (connect(fd, address, size) == 0)
                return true;
        return errno == EINPROGRESS && poll(&p, 1, 150) > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 &&
               error == 0;
}

/* The address of ours at which the port answers, or NULL. */
static const char *reached(uint16_t port) {
        static const char *const v4[] = {"127.0.0.1", "198.51.100.1"};
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};

        for (size_t i = 0; i < ELEMENTSOF(v4); i++) {
                struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

                if (inet_pton(AF_INET, v4[i], &a.sin_addr) == 1 && connects(AF_INET, &a, sizeof a))
                        return v4[i];
        }
        return connects(AF_INET6, &six, sizeof six) ? "::1" : NULL;
}

/* A port that is listened on inside is not there outside. */
void scene_inbound(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        struct running r = {0};
        struct said said = {0};
        struct err err = {0};
        uint16_t port = (uint16_t)(20000 + getpid() % 20000);
        char fact[48];

        (void)snprintf(fact, sizeof fact, "listen-port=%u", port);
        if (reached(port)) {
                finding_untried(f, "port %u is in use here", port);
                return;
        }
        struct launch l = {
                .where = LAUNCH_INSIDE, .argv = WORDS("{probe}", c->name, fact, "wait-ms=700"), .facts = true};
        if (!scene_start(j, f, &l, &r))
                return;
        bool up = launch_expect(&r, "listening", 10000);
        const char *at = up ? reached(port) : NULL;
        if (at)
                finding_open(f, "it was reached at %s", at);
        if (launch_wait(j, &r, &o, &err) < 0 || !up) {
                finding_untried(f, "it does not listen");
                return;
        }
        if (said_find(&o.out, c->name, &said) && str_eq(said.result, "done"))
                finding_open(f, "somebody reached it");
        else
                finding_promised(f, "not reached at 127.0.0.1, ::1 and the host's own address");

        struct launch outside = {.where = LAUNCH_OUTSIDE,
                                 .argv = WORDS("{probe}", c->name, fact, "wait-ms=2000", "control=yes"),
                                 .facts = true};
        if (!scene_start(j, f, &outside, &r))
                return;
        up = launch_expect(&r, "listening", 10000);
        at = up ? reached(port) : NULL;
        (void)launch_wait(j, &r, &control, &err);
        /* it goes as soon as somebody has come, which may look like a refusal from here */
        bool came = said_find(&control.out, c->name, &said) && str_eq(said.result, "done");
        finding_control(f, at || came, "without a sandbox it is reached%s%s",
                        at     ? " at "
                        : came ? ""
                               : ": no",
                        at ? at : "");
}
