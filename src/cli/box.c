/* `stockade run --driver D`: one command in a sandbox of the daemon, and nothing left behind.
 *
 * The sandbox is made for the command and removed after it. Should we be killed, the minder removes it: a fork of ours
 * in a session of its own, which waits for our end on a pipe. It knows the sandbox by its name, which was chosen before
 * anything was asked for; what was asked for is made even if nobody waits for it, so the minder looks a while longer.
 * Nothing here knows what a driver is: the daemon does. */
#include "cli/box.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/kernel.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/exec.h"
#include "cli/tell.h"
#include "wire/driver.h"

enum {
        YOUNG_MS = 3000,   /* how long a sandbox that is not there may still come */
        REMOVE_MS = 90000, /* how long one may be too busy to be removed: a machine has a minute to start */
        PATIENCE_MS = 30000,
};

struct box {
        const struct run_options *o;
        char name[48], id[32];
        int minder; /* our end of the pipe */
        int record; /* where the record goes; opened before the command runs */
};

static_assert(RUN_LIST_MAX == ARGS_LIST_MAX, "what fits into one list fits into the other");

bool box_wanted(const struct run_options *o) {
        return o->driver && !str_eq(o->driver, driver_name(DRIVER_NATIVE));
}

int box_check(const struct run_options *o, struct err *err) {
        const struct {
                bool asked;
                const char *option, *hint;
        } rows[] = {
                {o->share_count > 0, "--ro or --rw",
                 "a path that the daemon may show is named by the policy: --set files.read=/usr,PATH; "
                 "`stockade cp` brings files in and out of a sandbox that stays"},
                {o->workspace, "--workspace", "make one that stays, and copy: stockade create, then stockade cp"},
                {o->root, "--root", "import the tree as an image: stockade image, then stockade create --image"},
                {o->learn, "--learn", "learn with driver native, and use the profile with this one"},
                {o->live, "--live", "stockade policy changes the rules of a sandbox that stays"},
                {o->accept_count > 0, "--accept-missing", "the daemon starts nothing that is weaker than asked"},
                {o->plan, "--plan", "leave --driver out: the plan is the same under every driver"},
        };

        if (driver_find(o->driver) < 0) {
                (void)err_set(err, ERR_INPUT, "there is no driver '%.40s'", o->driver);
                return err_hint(err, "one of native, docker, gvisor, microvm, firecracker");
        }
        for (size_t i = 0; box_wanted(o) && i < ELEMENTSOF(rows); i++)
                if (rows[i].asked) {
                        (void)err_set(err, ERR_INPUT, "a sandbox of driver %s is the daemon's and has no %s", o->driver,
                                      rows[i].option);
                        return err_hint(err, "%s", rows[i].hint);
                }
        return 0;
}

/* --- the minder --- */

static int ask_removal(const char *name, struct talk *t, struct err *err) {
        static const struct args_common common = {0};
        _cleanup_request_ struct talk_request q;
        const char *result;

        talk_begin(&q, "delete");
        talk_str(&q, "sandbox", name);
        json_bool(&q.json, "force", true);
        return talk_ask(t, &common, &q, &result, err);
}

static void remove_late(const char *name) {
        for (uint64_t begun = tell_clock();;) {
                _cleanup_talk_ struct talk t = {.fd = -EBADF, .patience = PATIENCE_MS};
                struct err err;

                if (ask_removal(name, &t, &err) == 0 || str_eq(t.code, "no_daemon"))
                        return;
                if (tell_clock() - begun > (str_eq(t.code, "not_found") ? YOUNG_MS : REMOVE_MS))
                        return;
                (void)poll(NULL, 0, 20);
        }
}

_noreturn_ static void mind(const struct box *b, int pipe) {
        char byte;
        ssize_t n;

        while ((n = read(pipe, &byte, 1)) < 0 && errno == EINTR)
                ;
        if (n == 0)
                remove_late(b->name);
        _exit(0);
}

/* Only what it waits on stays open in it: a copy of a stream would keep its reader waiting. */
static void leave_caller(int pipe) {
        sigset_t all;

        (void)setsid();
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        (void)prctl(PR_SET_NAME, "stockade-minder");
        (void)chdir("/");
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int i = 0; i < 3; i++)
                (void)dup2(null, i);
        if (dup2(pipe, 3) == 3)
                (void)kernel_close_range(4, ~0U, 0);
}

static int start_minder(struct box *b, struct err *err) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        pid_t pid = fork();
        if (pid == 0) {
                (void)close(ends[1]);
                leave_caller(ends[0]);
                mind(b, 3);
        }
        (void)close(ends[0]);
        if (pid < 0) {
                int r = err_set(err, -errno, "could not start who removes the sandbox");
                (void)close(ends[1]);
                return r;
        }
        b->minder = ends[1];
        return 0;
}

/* Nothing is left for it to do. */
static void tell_minder(const struct box *b) {
        (void)!write(b->minder, "d", 1);
}

/* --- the sandbox --- */

static int choose_name(struct box *b, struct err *err) {
        uint64_t number;

        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
                return err_set(err, -errno, "could not choose a name");
        (void)snprintf(b->name, sizeof b->name, "run-%016llx", (unsigned long long)number);
        return 0;
}

static struct args_list list_of(const char *const *items, size_t count) {
        struct args_list list = {.count = count};

        for (size_t i = 0; i < count; i++)
                list.items[i] = items[i];
        return list;
}

static int make_sandbox(struct box *b, struct err *err) {
        static const struct args_common common = {0};
        const struct run_options *o = b->o;
        struct args_list set = list_of(o->set, o->set_count), secrets = list_of(o->secret, o->secret_count);
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        const char *result;

        talk_begin(&q, "create");
        int r = client_profile(&q, o->profile, err);
        talk_str(&q, "name", b->name);
        talk_str(&q, "driver", o->driver);
        talk_list(&q, "allow", o->allow, o->allow_count);
        if (r == 0)
                r = client_pairs(&q, "set", "set", &set, false, err);
        if (r == 0)
                r = client_secrets(&q, "secrets", "--secret", &secrets, err);
        if (r == 0)
                r = talk_ask(&t, &common, &q, &result, err);
        if (r < 0 && t.code[0]) /* an answer: there is nothing to remove */
                tell_minder(b);
        if (r < 0 && str_eq(t.code, "no_daemon"))
                return err_prefix(err, r, "a sandbox of driver %s is the daemon's", o->driver);
        if (r == 0 && !json_find_str(result, "id", b->id, sizeof b->id))
                r = err_set(err, ERR_CORRUPT, "the daemon's answer has no id");
        return r;
}

static int run_command(const struct box *b) {
        const struct run_options *o = b->o;
        bool terminals = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        const struct exec_options e = {
                .interactive = true,
                .tty = o->tty == TTY_YES || (o->tty == TTY_AUTO && terminals),
                .ends = true,
                .quiet = o->quiet || o->json,
                .cwd = o->cwd,
                .env = list_of(o->env, o->env_count),
        };
        size_t count = 0;

        while (o->argv[count])
                count++;
        return exec_command(&e, b->id, (const char *const *)o->argv, count);
}

static int open_record(struct box *b, struct err *err) {
        struct stat st;

        if (!b->o->record)
                return 0;
        b->record = open(b->o->record, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
        if (b->record < 0 || fstat(b->record, &st) < 0 || (S_ISREG(st.st_mode) && ftruncate(b->record, 0) < 0))
                return err_set(err, -errno, "cannot write the record '%s'", b->o->record);
        return 0;
}

/* What is left to do after the command; the exit status, which a failure of ours takes the place of. */
static int settle(struct box *b, int status) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF, .patience = PATIENCE_MS};
        struct err err = {0};

        if ((b->record >= 0 || b->o->json) && box_record(b->o, b->id, status, b->record, &err) < 0) {
                err_print(&err);
                status = EXIT_FAILED;
        }
        int r = ask_removal(b->id, &t, &err);
        if (r < 0 && !str_eq(t.code, "not_found")) {
                (void)err_prefix(&err, r, "the sandbox %s could not be removed", b->id);
                err_print(&err);
                return EXIT_FAILED;
        }
        tell_minder(b);
        return status;
}

int box_run(const struct run_options *o) {
        struct box b = {.o = o, .minder = -EBADF, .record = -EBADF};
        struct err err = {0};
        int r = open_record(&b, &err);

        if (r == 0)
                r = choose_name(&b, &err);
        if (r == 0)
                r = start_minder(&b, &err);
        if (r == 0)
                r = make_sandbox(&b, &err);
        if (r == 0)
                return settle(&b, run_command(&b));
        err_print(&err);
        return EXIT_FAILED;
}
