/* Tests of apply: what it brings, what it refuses, and that a kill at any step leaves the old or the new. */
#include "disk/test-workspace.h"

#include <signal.h>
#include <sys/file.h>

#include "disk/apply.h"

#define CHECK_OK(call, err)                                                                                            \
        do {                                                                                                           \
                int _r = (call);                                                                                       \
                CHECK(_r == 0);                                                                                        \
                if (_r != 0)                                                                                           \
                        (void)printf("# %d: %s\n", _r, (err).text);                                                    \
        } while (0)

/* Everything that apply promises to bring, except the times of directories that were there before. */
#define MANIFEST                                                                                                       \
        "{ find . -mindepth 1 -type f -printf '%P %y %m %s %T@ %U:%G\\n' -o -mindepth 1 -printf '%P %y %m %l "         \
        "%U:%G\\n' | "                                                                                                 \
        "LC_ALL=C sort; find . -type f | LC_ALL=C sort | xargs md5sum; }"

static const char before[] =
        "mkdir -p keep/deep d2f gone/sub op ro; echo 1 >keep/same; echo 2 >keep/content; echo 3 >keep/deep/mode; "
        "echo 4 >d2f/a; echo 5 >d2f/b; echo 6 >f2d; echo 7 >gone/x; echo 8 >gone/sub/y; ln -s keep link; "
        "echo 9 >op/1; echo 10 >op/2; echo 11 >hard; ln hard hard2; echo 12 >f2l; echo 13 >bye";
static const char inside[] =
        "echo two >keep/content; chmod 755 keep/deep/mode; rm -r d2f; echo file >d2f; rm f2d; mkdir f2d; "
        "echo in >f2d/in; rm -r gone; ln -sfn keep/deep link; cp -p op/1 ../1; rm -r op; mkdir op; cp -p ../1 op/1; "
        "echo n >op/n; "
        "echo hh >hard; ln -sf hard f2l; rm bye; mkdir -p new/a/b; echo x >new/a/b/x; ln -s x new/a/b/l; chmod 555 "
        "new/a; "
        "chmod 700 ro; echo z >z; chmod 640 z; touch -d '2001-02-03 04:05:06.789' z new/a/b/x";

static void add_root(struct workspace *w, struct apply_options *o, char path[80]) {
        (void)snprintf(path, 80, "%s/lower", w->base);
        o->root = path;
}

/* Diff, check, apply. */
static int apply_now(struct workspace *w, struct apply_options *o, struct apply_decision *ret, struct err *err) {
        _cleanup_(diff_free) struct diff d = {0};
        _cleanup_(apply_decision_free) struct apply_decision v = {0};
        char root[80];

        add_root(w, o, root);
        int r = workspace_diff(w, &d, err);
        workspace_unmount_view(w);
        if (r == 0)
                r = apply_check(&d, w->lower, o, &v, err);
        if (r == 0)
                r = apply_run(&d, &v, w->upper, w->lower, w->state, o, err);
        if (ret) {
                *ret = v;
                v = (struct apply_decision){0};
        }
        return r;
}

static void brings_everything(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_options o = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, before, inside), err);
        CHECK(sh(&w, "cd view; " MANIFEST " >../expected") == 0);
        CHECK_OK(apply_now(&w, &o, NULL, &err), err);
        CHECK(sh(&w, "cd lower; " MANIFEST " >../actual; diff ../expected ../actual >&2") == 0);
        CHECK(sh(&w, "test -z \"$(ls -A state)\"") == 0);
        CHECK(sh(&w, "test \"$(cat lower/hard2)\" = 11") == 0);
}

static void nothing_to_do_is_fine(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_options o = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, "echo 1 >f", "touch f"), err);
        CHECK_OK(apply_now(&w, &o, NULL, &err), err);
}

struct countdown {
        unsigned left;
};

static void die_at_zero(void *data) {
        struct countdown *c = data;

        if (c->left-- == 0)
                (void)raise(SIGKILL);
}

/* Kills apply before its nth step, recovers, and compares. Returns false when it got through alive. */
static bool kill_at(unsigned n, unsigned *undone, unsigned *finished) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_recovery recovery = {0};
        struct err err = {0};
        int status = -1;

        CHECK_OK(workspace_open(&w, before, inside), err);
        CHECK(sh(&w, "(cd lower; " MANIFEST ") >old; (cd view; " MANIFEST ") >new") == 0);
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                struct countdown c = {n};
                struct apply_options o = {.step = die_at_zero, .data = &c};
                _exit(apply_now(&w, &o, NULL, &err) == 0 ? 0 : 1);
        }
        (void)waitpid(pid, &status, 0);
        CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        workspace_unmount_view(&w);

        CHECK_OK(apply_recover(w.state, &recovery, &err), err);
        CHECK(sh(&w, "(cd lower; " MANIFEST ") >now") == 0);
        bool is_old = sh(&w, "cmp -s old now") == 0, is_new = sh(&w, "cmp -s new now") == 0;
        if (!is_old && !is_new) {
                (void)printf("# killed at step %u: neither old nor new\n", n);
                (void)fflush(stdout);
                (void)sh(&w, "diff old now >&2");
        }
        CHECK(is_old != is_new);
        CHECK(recovery.undone == (WIFSIGNALED(status) && is_old) &&
              recovery.finished == (WIFSIGNALED(status) && is_new));
        CHECK(recovery.busy == 0);
        CHECK(sh(&w, "test -z \"$(ls -A state)\" -a -z \"$(find lower -name '.stockade-*')\"") == 0);
        *undone += (unsigned)recovery.undone;
        *finished += (unsigned)recovery.finished;
        return WIFSIGNALED(status);
}

static void survives_a_kill_at_every_step(void) {
        unsigned n = 0, undone = 0, finished = 0;

        while (n < 200 && kill_at(n, &undone, &finished) && test_failures == 0)
                n++;
        CHECK(n > 20 && n < 200);
        CHECK(undone > 10 && finished > 10);
}

static void recovery_leaves_the_living_alone(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_recovery recovery = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, "true", "true"), err);
        CHECK(sh(&w, "touch state/apply-0123456789abcdef0123456789abcdef.staging state/apply-nonsense") == 0);
        _cleanup_fd_ int fd = openat(w.state, "apply-0123456789abcdef0123456789abcdef.staging", O_RDWR | O_CLOEXEC);
        CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
        CHECK(sh(&w, "rm state/apply-nonsense") == 0);
        CHECK_OK(apply_recover(w.state, &recovery, &err), err);
        CHECK(recovery.busy == 1);
        fd_close(&fd);
        /* not well-formed: refused and kept */
        CHECK(apply_recover(w.state, &recovery, &err) == ERR_CORRUPT);
        CHECK(sh(&w, "chmod 666 state/*") == 0);
        CHECK(apply_recover(w.state, &recovery, &err) == ERR_REFUSED);
        /* being written when the process died: nothing was staged yet */
        CHECK(sh(&w, "cd state; chmod 600 *; mv * apply-0123456789abcdef0123456789abcdef.new") == 0);
        CHECK_OK(apply_recover(w.state, &recovery, &err), err);
        CHECK(recovery.undone == 1 && sh(&w, "test -z \"$(ls -A state)\"") == 0);
}

/* A person works in the directory between the crash and the recovery. */
static void recovery_keeps_newer_work(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct err err = {0};
        int status = -1;

        CHECK_OK(workspace_open(&w, "echo 1 >a; echo 1 >b", "echo two >a; rm b; echo new >c"), err);
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                struct countdown c = {4}; /* two files staged, synced, committed: before the first operation */
                struct apply_options o = {.step = die_at_zero, .data = &c};
                _exit(apply_now(&w, &o, NULL, &err) == 0 ? 0 : 1);
        }
        (void)waitpid(pid, &status, 0);
        CHECK(WIFSIGNALED(status) && sh(&w, "ls state | grep -q committed") == 0);
        CHECK(sh(&w, "echo mine >lower/a; echo mine >lower/b") == 0);
        CHECK(apply_recover(w.state, NULL, &err) == ERR_REFUSED);
        CHECK(sh(&w, "grep -q mine lower/a; grep -q mine lower/b; grep -q new lower/c") == 0);
        /* moved away, as the hint says, both can be finished */
        CHECK(sh(&w, "rm lower/b; mv lower/a mine; ls state | grep -q committed") == 0);
        CHECK_OK(apply_recover(w.state, NULL, &err), err);
        CHECK(sh(&w, "grep -q two lower/a; test ! -e lower/b; grep -q mine mine; test -z \"$(ls -A state)\"") == 0);
}

static const struct apply_decision *verdicts_of(struct workspace *w, struct apply_options *o, struct diff *d,
                                                struct apply_decision *v) {
        struct err err = {0};
        char root[80];

        add_root(w, o, root);
        CHECK_OK(workspace_diff(w, d, &err), err);
        workspace_unmount_view(w);
        CHECK_OK(apply_check(d, w->lower, o, v, &err), err);
        CHECK_OK(apply_run(d, v, w->upper, w->lower, w->state, o, &err), err);
        o->root = NULL;
        return v;
}

static enum apply_verdict verdict(const struct diff *d, const struct apply_decision *v, const char *path) {
        for (size_t i = 0; i < d->count; i++)
                if (str_eq(d->entry[i].path, path))
                        return v->verdict[i];
        (void)printf("# no entry '%s'\n", path);
        test_failures++;
        return APPLY_YES;
}

static void refuses_entry_by_entry(void) {
        _cleanup_workspace_ struct workspace w = {0};
        _cleanup_(diff_free) struct diff d = {0};
        _cleanup_(apply_decision_free) struct apply_decision v = {0};
        struct apply_options o = {.max_size = 1 << 20};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, "echo 1 >conflict; mkdir -p gone/in; echo 1 >gone/in/x; echo 1 >gone/y; echo 1 >ok",
                                "echo 2 >conflict; rm -r gone; mkdir new; mkfifo new/fifo; echo 1 >new/f; "
                                "echo 1 >new/suid; chmod 4755 new/suid; mkdir setgid; chmod g+s setgid; "
                                "echo 1 >setgid/f; truncate -s 2M big; echo 2 >ok; sleep 0.02; "
                                "echo 3 >../lower/conflict; echo 3 >../lower/gone/in/x"),
                 err);
        (void)verdicts_of(&w, &o, &d, &v);
        CHECK(verdict(&d, &v, "conflict") == APPLY_CONFLICT);
        CHECK(verdict(&d, &v, "gone") == APPLY_NOT_BELOW && verdict(&d, &v, "gone/in") == APPLY_NOT_BELOW);
        CHECK(verdict(&d, &v, "gone/in/x") == APPLY_CONFLICT && verdict(&d, &v, "gone/y") == APPLY_NOT_ABOVE);
        CHECK(verdict(&d, &v, "new") == APPLY_YES && verdict(&d, &v, "new/f") == APPLY_YES);
        CHECK(verdict(&d, &v, "new/fifo") == APPLY_SPECIAL && verdict(&d, &v, "new/suid") == APPLY_SETID);
        CHECK(verdict(&d, &v, "setgid") == APPLY_SETID && verdict(&d, &v, "setgid/f") == APPLY_NOT_ABOVE);
        CHECK(verdict(&d, &v, "big") == APPLY_TOO_LARGE && verdict(&d, &v, "ok") == APPLY_YES);
        CHECK(v.chosen == 3 && v.refused == 10);
        CHECK(sh(&w, "cd lower; test \"$(find . -mindepth 1 | sort | tr '\\n' ' ')\" = "
                     "'./conflict ./gone ./gone/in ./gone/in/x ./gone/y ./new ./new/f ./ok '; grep -q 3 conflict; "
                     "grep -q 2 ok; grep -q 3 gone/in/x") == 0);
}

static bool only_envrc(void *data, const struct diff_entry *e) {
        ++*(unsigned *)data;
        return str_eq(e->path, ".envrc");
}

static void asks_for_risky_files(void) {
        for (enum apply_risky mode = APPLY_RISKY_NONE; mode <= APPLY_RISKY_ALL; mode++) {
                _cleanup_workspace_ struct workspace w = {0};
                _cleanup_(diff_free) struct diff d = {0};
                _cleanup_(apply_decision_free) struct apply_decision v = {0};
                unsigned asked = 0;
                struct apply_options o = {.risky = mode, .ask = only_envrc, .data = &asked};
                struct err err = {0};

                CHECK_OK(workspace_open(&w, "mkdir -p .git/hooks; echo 1 >.git/config; echo 1 >.git/hooks/a",
                                        "echo 2 >.git/config; echo 1 >.envrc; echo 1 >f; rm -r .git/hooks; "
                                        "ln -s evil .git/hooks; mkdir evil; echo 1 >evil/pre-commit"),
                         err);
                (void)verdicts_of(&w, &o, &d, &v);
                CHECK(asked == (mode == APPLY_RISKY_ASK ? 3 : 0) && v.refused == 0);
                bool envrc = mode != APPLY_RISKY_NONE, rest = mode == APPLY_RISKY_ALL;
                CHECK((sh(&w, "test -e lower/.envrc") == 0) == envrc);
                CHECK((sh(&w, "grep -q 2 lower/.git/config") == 0) == rest);
                CHECK((sh(&w, "test -L lower/.git/hooks") == 0) == rest);
                CHECK((sh(&w, "test -f lower/.git/hooks/a -a ! -L lower/.git/hooks") == 0) == !rest);
                CHECK(sh(&w, "test -e lower/f -a -e lower/evil/pre-commit") == 0);
        }
}

/* Links are planted in the directory after the diff was made, where apply is going to write. */
static void never_follows_planted_links(void) {
        static const char *const plants[] = {
                "rm lower/f; ln -s ../outside/f lower/f",        "mv lower/d lower/d.old; ln -s ../outside lower/d",
                "rm -r lower/gone; ln -s ../outside lower/gone", "ln -s ../outside lower/new",
                "rm lower/mode; ln -s ../outside/f lower/mode",
        };
        for (size_t i = 0; i < ELEMENTSOF(plants); i++)
                for (int after_check = 0; after_check < 2; after_check++) {
                        _cleanup_workspace_ struct workspace w = {0};
                        _cleanup_(diff_free) struct diff d = {0};
                        _cleanup_(apply_decision_free) struct apply_decision v = {0};
                        struct apply_options o = {0};
                        struct err err = {0};
                        char root[80];

                        add_root(&w, &o, root);
                        CHECK_OK(workspace_open(&w,
                                                "mkdir d gone ../outside; echo 1 >d/x; echo 1 >f; echo 1 >gone/x; "
                                                "echo 1 >mode; chmod 600 mode; echo o >../outside/f; "
                                                "echo o >../outside/x; chmod 644 ../outside/*",
                                                "echo 2 >d/x; echo 2 >d/y; echo 2 >f; rm -r gone; mkdir new; "
                                                "echo 2 >new/f; chmod 777 mode"),
                                 err);
                        add_root(&w, &o, root);
                        CHECK_OK(workspace_diff(&w, &d, &err), err);
                        workspace_unmount_view(&w);
                        if (!after_check)
                                CHECK(sh(&w, plants[i]) == 0);
                        CHECK_OK(apply_check(&d, w.lower, &o, &v, &err), err);
                        if (after_check)
                                CHECK(sh(&w, plants[i]) == 0);
                        else
                                CHECK(v.refused > 0);
                        int r = apply_run(&d, &v, w.upper, w.lower, w.state, &o, &err);
                        CHECK(after_check ? r < 0 : r == 0);
                        CHECK(sh(&w, "cd outside; test \"$(ls -A | tr '\\n' ' ')\" = 'f x '; grep -qx o f; "
                                     "grep -qx o x; test \"$(stat -c %a f x | tr '\\n' ' ')\" = '644 644 '") == 0);
                        CHECK(sh(&w, "test -z \"$(ls -A state)\" -a -z \"$(find . -name '.stockade-*')\"") == 0);
                        if (after_check) /* all or nothing */
                                CHECK(sh(&w, "test ! -e lower/d/y; test -L lower/new || test ! -e lower/new") == 0);
                }
}

static void owners_come_from_the_directory(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_options o = {0};
        struct err err = {0};

        CHECK_OK(
                workspace_open(&w, "mkdir d; echo 1 >d/f; chown 1234:2345 d; chown 77:88 d/f",
                               "echo 2 >d/f; chown 5:5 d/f; mkdir d/n; echo 1 >d/n/f; ln -s f d/n/l; chown -R 9:9 d/n; "
                               "chown -h 9:9 d/n/l; echo t >t; chown 9:9 t"),
                err);
        CHECK_OK(apply_now(&w, &o, NULL, &err), err);
        CHECK(sh(&w, "cd lower; test \"$(stat -c %u:%g d d/f d/n d/n/f d/n/l t | tr '\\n' ' ')\" = "
                     "'1234:2345 77:88 1234:2345 1234:2345 1234:2345 0:0 '") == 0);
}

static void holes_stay_holes(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_options o = {.max_size = (uint64_t)1 << 41};
        struct err err = {0};

        CHECK_OK(workspace_open(
                         &w, "true",
                         "truncate -s 1T big; echo mid | dd of=big seek=100000000 bs=4096 conv=notrunc status=none"),
                 err);
        CHECK_OK(apply_now(&w, &o, NULL, &err), err);
        CHECK(sh(&w, "cd lower; test $(stat -c %s big) = $((1<<40)); test $(du -k big | cut -f1) -lt 100; "
                     "dd if=big bs=4096 skip=100000000 count=1 status=none | head -c 3 | grep -q mid") == 0);
}

static void deep_trees_come_through(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_options o = {0};
        struct err err = {0};
        static const char make[] = "/usr/bin/python3 -c '\nimport os\nfor i in range(1500):\n os.mkdir(\"dddd\"); "
                                   "os.chdir(\"dddd\")\nopen(\"end\", \"w\").write(\"x\")'";
        static const char look[] =
                "cd lower; /usr/bin/python3 -c '\nimport os\nfor i in range(1500): os.chdir(\"dddd\")\n"
                "assert open(\"end\").read() == \"x\"'";

        CHECK_OK(workspace_open(&w, "true", make), err);
        CHECK_OK(apply_now(&w, &o, NULL, &err), err);
        CHECK(sh(&w, look) == 0);
}

static void failing_leaves_nothing(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_options o = {0};
        struct err err = {0};

        /* the directory's file system is too small for the change */
        CHECK_OK(workspace_open(&w, "true", "mkdir n; head -c 3000000 /dev/zero | tr '\\0' x >n/big; echo s >small"),
                 err);
        CHECK(sh(&w, "mkdir tiny; mount -t tmpfs -o size=1m none tiny") == 0);
        fd_close(&w.lower);
        w.lower = openat(w.base_fd, "tiny", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(apply_now(&w, &o, NULL, &err) == -ENOSPC);
        CHECK(sh(&w, "test -z \"$(ls -A tiny state)\" || test -z \"$(ls -A tiny)\" -a -z \"$(ls -A state)\"") == 0);
        /* and so is its number of files: found only while staging */
        CHECK(sh(&w, "mount -o remount,size=64m,nr_inodes=3 tiny") == 0);
        CHECK(apply_now(&w, &o, NULL, &err) == -ENOSPC);
        CHECK(sh(&w, "test -z \"$(ls -A tiny)\" -a -z \"$(ls -A state)\"") == 0);
        fd_close(&w.lower);
        CHECK(sh(&w, "umount tiny") == 0);
}

static void one_apply_at_a_time(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct apply_options o = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, "true", "echo 1 >f"), err);
        _cleanup_fd_ int fd = openat(w.base_fd, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
        CHECK(apply_now(&w, &o, NULL, &err) == -EWOULDBLOCK);
        CHECK(sh(&w, "test -z \"$(ls -A lower)\"") == 0);
}

TEST_MAIN(TEST(brings_everything), TEST(nothing_to_do_is_fine), TEST(survives_a_kill_at_every_step),
          TEST(recovery_leaves_the_living_alone), TEST(recovery_keeps_newer_work), TEST(refuses_entry_by_entry),
          TEST(asks_for_risky_files), TEST(never_follows_planted_links), TEST(owners_come_from_the_directory),
          TEST(holes_stay_holes), TEST(deep_trees_come_through), TEST(failing_leaves_nothing),
          TEST(one_apply_at_a_time))
