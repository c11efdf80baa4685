/* Tests of the diff, its listing and its archive, on real overlays. */
#include "disk/test-workspace.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "disk/risk.h"
#include "disk/tar.h"

#define CHECK_OK(call, err)                                                                                            \
        do {                                                                                                           \
                int _r = (call);                                                                                       \
                CHECK(_r == 0);                                                                                        \
                if (_r != 0)                                                                                           \
                        (void)printf("# %d: %s\n", _r, (err).text);                                                    \
        } while (0)

/* Makes a workspace and compares the verbose or short listing with what is expected. */
/* How many forms of overlay this kernel has: the second needs user attributes on tmpfs, which came with Linux 6.6. */
static int forms(void) {
        int fd = memfd_create("form", MFD_CLOEXEC), two = fd >= 0 && fsetxattr(fd, "user.test", "y", 1, 0) == 0;

        if (!two)
                (void)printf("# no user attributes on tmpfs: only the form of root's sandboxes is tried\n");
        (void)close(fd);
        return two ? 2 : 1;
}

static void expect_listing(const char *before, const char *inside, bool userxattr, bool verbose, const char *expected) {
        _cleanup_workspace_ struct workspace w = {.userxattr = userxattr};
        _cleanup_(diff_free) struct diff d = {0};
        _cleanup_buf_ struct buf out = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, before, inside), err);
        CHECK_OK(workspace_diff(&w, &d, &err), err);
        CHECK(show_text(&d, verbose, &out) == 0);
        CHECK_STR(out.data, expected);
}

static void finds_each_kind(void) {
        for (int userxattr = 0; userxattr < forms(); userxattr++)
                expect_listing("mkdir d e; echo a >same; echo b >content; echo c >mode; echo d >gone; ln -s x link; "
                               "echo 1 >d/1; echo 2 >d/2; echo f >file2dir; mkdir dir2file; echo x >dir2file/x; "
                               "echo y >untouched; echo z >file2link; mkdir -p gonedir/sub; echo q >gonedir/sub/q",
                               "echo new >added; echo a >same; echo B >content; chmod 600 mode; rm gone; "
                               "ln -sfn y link; rm d/1; rm file2dir; mkdir file2dir; echo in >file2dir/in; "
                               "rm -r dir2file; echo f >dir2file; chmod 700 e; ln -sf same file2link; rm -r gonedir; "
                               "touch untouched; mkdir newdir; echo 1 >newdir/1",
                               userxattr == 1, true,
                               "A added (4 B)\n"
                               "M content (2 B)\n"
                               "D d/1\n"
                               "T dir2file (dir -> file)\n"
                               "D dir2file/x\n"
                               "P e/ (0755 -> 0700)\n"
                               "T file2dir/ (file -> dir)\n"
                               "A file2dir/in (3 B)\n"
                               "T file2link (file -> symlink)\n"
                               "D gone\n"
                               "D gonedir/\n"
                               "D gonedir/sub/\n"
                               "D gonedir/sub/q\n"
                               "M link\n"
                               "P mode (0644 -> 0600)\n"
                               "A newdir/\n"
                               "A newdir/1 (2 B)\n"
                               "4 added, 7 changed, 6 removed\n");
}

static void sees_through_opaque_directories(void) {
        for (int userxattr = 0; userxattr < forms(); userxattr++)
                expect_listing(
                        "mkdir -p d/e/f; echo 1 >d/1; echo 2 >d/2; echo 3 >d/e/3; echo 4 >d/e/f/4; echo 5 >d/e/5",
                        "rm -r d; mkdir d; echo 1 >d/1; mkdir d/e; echo 5 >d/e/5; echo n >d/e/n", userxattr == 1, true,
                        "D d/2\n"
                        "D d/e/3\n"
                        "D d/e/f/\n"
                        "D d/e/f/4\n"
                        "A d/e/n (2 B)\n"
                        "1 added, 0 changed, 4 removed\n");
}

static void sees_renames_as_copies(void) {
        expect_listing("mkdir d; echo 1 >d/1; echo 2 >f", "mv f g; cp -a d d2; rm -r d", false, true,
                       "D d/\n"
                       "D d/1\n"
                       "A d2/\n"
                       "A d2/1 (2 B)\n"
                       "D f\n"
                       "A g (2 B)\n"
                       "3 added, 0 changed, 3 removed\n");
}

static void collapses_directories_but_not_warnings(void) {
        expect_listing("mkdir old; touch old/1 old/2",
                       "rm -r old; mkdir -p new/.git/hooks new/sub; i=0; while [ $i -lt 500 ]; do echo x >new/sub/$i; "
                       "i=$((i+1)); done; echo x >new/.git/hooks/post-checkout; ln -s /etc/passwd new/out",
                       false, false,
                       "A new/ (502 files, 3 directories, 1002 B)\n"
                       "A new/.git/hooks/post-checkout (2 B)  ! git runs hooks\n"
                       "A new/out  ! the link leads out of the workspace, or may\n"
                       "D old/ (2 files)\n"
                       "506 added, 0 changed, 3 removed, 2 that the host's tools would execute or obey\n");
}

static void prints_hostile_names_inert(void) {
        expect_listing("true",
                       "n=$(printf '\\033[2Jx\\ny'); echo 1 >\"$n\"; n=$(printf 'bad\\377'); echo 2 >\"$n\"; "
                       "n=$(printf '%255s' '' | tr ' ' k); echo 3 >\"$n\"; rm \"$n\"",
                       false, true,
                       "A \\x1b[2Jx\\x0ay (2 B)\n"
                       "A bad\\xff (2 B)\n"
                       "2 added, 0 changed, 0 removed\n");
}

static void writes_json(void) {
        _cleanup_workspace_ struct workspace w = {0};
        _cleanup_(diff_free) struct diff d = {0};
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, "echo 1 >f; chmod 644 f", "n=$(printf 'b\\377'); echo 1 >\"$n\"; chmod 755 f"),
                 err);
        CHECK_OK(workspace_diff(&w, &d, &err), err);
        CHECK(show_json(&d, &j, NULL) == 0);
        CHECK_STR(out.data, "{\"added\":1,\"changed\":1,\"removed\":0,\"risky\":0,\"conflicts\":0,\"entries\":["
                            "{\"path\":\"b\xef\xbf\xbd\",\"path_hex\":\"62ff\",\"kind\":\"added\",\"type\":\"file\","
                            "\"size\":2,\"old_mode\":null,\"new_mode\":\"0644\",\"risk\":null,\"warnings\":[]},"
                            "{\"path\":\"f\",\"kind\":\"mode-changed\",\"type\":\"file\",\"size\":2,\"old_mode\":"
                            "\"0644\",\"new_mode\":\"0755\",\"risk\":null,\"warnings\":[]}]}");
}

static void flags_what_must_not_pass(void) {
        expect_listing("mkdir s; chmod 2775 s; echo 1 >f",
                       "cp /bin/true suid; chmod 4755 suid; mkfifo fifo; mkdir s/inherits; mkdir own; chmod g+s own; "
                       "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; : >suid; "
                       "chmod 4755 suid",
                       false, true,
                       "A fifo  ! a device, socket or fifo\n"
                       "A own/  ! setuid or setgid bit\n"
                       "A s/inherits/\n"
                       "A sock  ! a device, socket or fifo\n"
                       "A suid (0 B)  ! setuid or setgid bit\n"
                       "5 added, 0 changed, 0 removed\n");
}

static void finds_conflicts(void) {
        expect_listing("mkdir d e; for f in a b c d/x e/y e/z; do echo 1 >$f; done",
                       "echo 2 >a; echo 2 >b; rm c; echo 2 >d/x; rm -r e; sleep 0.02; cd ../lower; "
                       "echo 3 >a; chmod 600 c; rm d/x; echo 3 >e/z",
                       false, true,
                       "M a (2 B)  ! changed outside the sandbox since the run began\n"
                       "M b (2 B)\n"
                       "D c  ! changed outside the sandbox since the run began\n"
                       "A d/x (2 B)  ! changed outside the sandbox since the run began\n"
                       "D e/\n"
                       "D e/y\n"
                       "D e/z  ! changed outside the sandbox since the run began\n"
                       "1 added, 2 changed, 4 removed, 4 in conflict\n");
}

/* What the sandbox itself sets must not be taken for the overlay's own marks. */
static void ignores_forged_marks(void) {
        for (int userxattr = 0; userxattr < forms(); userxattr++)
                expect_listing(
                        "mkdir d; echo 1 >d/1; echo 2 >d/2",
                        "touch d/new; : >d/2; cat >../forge <<END\n"
                        "import os\n"
                        "for n, k, v in (('d', 'opaque', b'y'), ('d/2', 'whiteout', b''), ('.', 'opaque', b'x'),\n"
                        "                ('d/new', 'metacopy', b''), ('d', 'redirect', b'/x')):\n"
                        "    for s in ('user', 'trusted'):\n"
                        "        try: os.setxattr(n, s + '.overlay.' + k, v)\n"
                        "        except OSError: pass\n"
                        "END\n"
                        "/usr/bin/python3 ../forge; mknod wh c 0 0 2>/dev/null || :",
                        userxattr == 1, true,
                        "M d/2 (0 B)\n"
                        "A d/new (0 B)\n"
                        "1 added, 1 changed, 0 removed\n");
}

static void does_not_see_mounts_of_the_host(void) {
        _cleanup_workspace_ struct workspace w = {0};
        _cleanup_(diff_free) struct diff d = {0};
        struct err err = {0};

        CHECK_OK(
                workspace_open(&w, "mkdir m", "echo 1 >m/f; mount -t tmpfs none ../lower/m; echo secret >../lower/m/f"),
                err);
        CHECK_OK(workspace_diff(&w, &d, &err), err);
        CHECK(d.count == 2);
        for (size_t i = 0; i < d.count; i++)
                CHECK(d.entry[i].flags & DIFF_MOUNT);
        CHECK(sh(&w, "umount lower/m") == 0);
}

static void compares_sparse_files_without_reading_holes(void) {
        _cleanup_workspace_ struct workspace w = {0};
        _cleanup_(diff_free) struct diff d = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w,
                                "truncate -s 1T big; echo x | dd of=big seek=1000000 bs=4096 conv=notrunc status=none",
                                "true"),
                 err);
        workspace_unmount_view(&w);
        CHECK(sh(&w, "truncate -s 1T t/upper/big; echo x | dd of=t/upper/big seek=1000000 bs=4096 conv=notrunc "
                     "status=none") == 0);
        CHECK_OK(workspace_diff(&w, &d, &err), err);
        CHECK(d.count == 0);
        CHECK(sh(&w, "echo y | dd of=t/upper/big seek=2000000 bs=4096 conv=notrunc status=none") == 0);
        CHECK_OK(workspace_diff(&w, &d, &err), err);
        CHECK(d.count == 1 && d.entry[0].kind == DIFF_CHANGED);
}

static void caps_hold(void) {
        _cleanup_workspace_ struct workspace w = {0};
        _cleanup_(diff_free) struct diff d = {0};
        struct err err = {0};
        struct diff_options o = {.max_entries = 50};

        CHECK_OK(workspace_open(&w, "true",
                                "/usr/bin/python3 -c '\nimport os\nfor i in range(3000):\n os.mkdir(\"dd\"); "
                                "os.chdir(\"dd\")'"),
                 err);
        o.start = w.start;
        CHECK(diff_compute(w.upper, w.lower, &o, &d, &err) == ERR_LIMIT);
        CHECK_STR(err.text, "the workspace has more than 50 changes");
        o.max_entries = 0;
        CHECK(diff_compute(w.upper, w.lower, &o, &d, &err) == ERR_LIMIT);
        CHECK_STR(err.text, "the workspace has more than 2000 nested directories");
        o.max_depth = 5000;
        o.max_path_bytes = 1000;
        CHECK(diff_compute(w.upper, w.lower, &o, &d, &err) == ERR_LIMIT);
        CHECK_STR(err.text, "the workspace has more than 1000 bytes of changed names");
        CHECK(d.count == 0);
        o.max_path_bytes = 0;
        CHECK_OK(diff_compute(w.upper, w.lower, &o, &d, &err), err);
        CHECK(d.count == 3000 && strlen(d.entry[2999].path) == 8999);
}

static void refuses_features_that_it_cannot_read(void) {
        _cleanup_workspace_ struct workspace w = {0};
        _cleanup_(diff_free) struct diff d = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, "echo 1 >f", "echo 2 >f; mkdir d"), err);
        _cleanup_fd_ int f = openat(w.upper, "f", O_RDONLY | O_CLOEXEC);
        _cleanup_fd_ int dir = openat(w.upper, "d", O_RDONLY | O_CLOEXEC);
        CHECK(fsetxattr(f, "trusted.overlay.metacopy", "", 0, 0) == 0);
        CHECK(workspace_diff(&w, &d, &err) == ERR_CORRUPT);
        CHECK(fremovexattr(f, "trusted.overlay.metacopy") == 0);
        CHECK(fsetxattr(dir, "trusted.overlay.redirect", "/f", 2, 0) == 0);
        CHECK(workspace_diff(&w, &d, &err) == ERR_CORRUPT);
}

/* Filters one system call to ENOSYS, for good. */
static int take_away(long number) {
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(code), .filter = code};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

static void works_without_openat2(void) {
        int status = -1;

        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                test_failures = 0;
                CHECK(take_away(SYS_openat2) == 0);
                finds_each_kind();
                sees_through_opaque_directories();
                does_not_see_mounts_of_the_host();
                (void)fflush(stdout);
                _exit(test_failures > 0);
        }
        (void)waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Without root, a sandbox could hide what it made from us by taking our own permissions away. */
static void reads_what_was_made_unreadable(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct err err = {0};
        int status = -1;

        CHECK_OK(workspace_open(&w, "echo 1 >f", "echo 2 >f; mkdir -p d/e; echo 1 >d/e/x; chmod 0 d/e/x d/e d f"), err);
        CHECK(sh(&w, "chown -R 65534:65534 lower t/upper") == 0);
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                _cleanup_(diff_free) struct diff d = {0};
                _cleanup_buf_ struct buf out = {0};

                test_failures = 0;
                w.start.tv_sec += 10; /* chown above counts as a change of the host's */
                CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
                CHECK_OK(workspace_diff(&w, &d, &err), err);
                CHECK(show_text(&d, true, &out) == 0);
                CHECK_STR(out.data, "A d/\nA d/e/\nA d/e/x (2 B)\nM f (2 B) (0644 -> 0000)\n"
                                    "3 added, 1 changed, 0 removed\n");
                CHECK(d.count == 4 && (d.entry[0].mode & 07777) == 0 && (d.entry[2].mode & 07777) == 0);
                (void)fflush(stdout);
                _exit(test_failures > 0);
        }
        (void)waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void never_opens_through_links(void) {
        _cleanup_workspace_ struct workspace w = {0};
        struct err err = {0};
        const char *name;

        CHECK_OK(workspace_open(&w, "ln -s /etc out; mkdir d; ln -s ../d/../../.. d/up; ln -s hostname f", "true"),
                 err);
        CHECK(tree_open(w.lower, "out/passwd", O_RDONLY) == -ELOOP);
        CHECK(tree_open(w.lower, "f", O_RDONLY) == -ELOOP);
        CHECK(tree_open(w.lower, "d/up/etc", O_RDONLY) == -ELOOP);
        CHECK(tree_open(w.lower, "..", O_PATH) < 0);
        CHECK(tree_open(w.lower, "d/../../x", O_PATH) < 0);
        CHECK(tree_open(w.lower, "/etc/passwd", O_RDONLY) < 0);
        CHECK(tree_open_parent(w.lower, "d/..", &name) < 0);
}

static void knows_risky_names(void) {
        static const char *const risky[] = {".git/hooks/pre-commit",
                                            "sub/.git/config",
                                            ".GIT/Config",
                                            ".envrc",
                                            "a/b/.env",
                                            ".env.local",
                                            ".vscode/tasks.json",
                                            ".idea/x/y.xml",
                                            ".git/modules/a/b/config",
                                            ".git",
                                            "vendor/.git",
                                            ".husky/pre-push",
                                            ".claude/settings.json",
                                            "lib/sitecustomize.py",
                                            ".github/workflows/ci.yml",
                                            "x/evil.pth",
                                            ".git/modules/a/hooks/x"};
        static const char *const fine[] = {"Makefile",     "src/main.c", ".git/index",       ".git/objects/ab/cd",
                                           ".gitignore",   "env",        ".git/refs/config", ".git/hooks/x.sample",
                                           "git/hooks/x",  "envrc",      "x.envrc",          ".github/README",
                                           "package.json", ".pth/x"};

        for (size_t i = 0; i < ELEMENTSOF(risky); i++)
                if (!risk_of_path(risky[i], false)) {
                        (void)printf("# '%s' is not risky\n", risky[i]);
                        CHECK(false);
                }
        for (size_t i = 0; i < ELEMENTSOF(fine); i++)
                if (risk_of_path(fine[i], false)) {
                        (void)printf("# '%s' is risky\n", fine[i]);
                        CHECK(false);
                }
        /* a link in the place of a directory that would hold risky files */
        CHECK(risk_of_path(".git/hooks", true) && risk_of_path(".github", true) && !risk_of_path("src", true));
        CHECK(risk_of_path(".git/modules/x", true) && risk_of_path(".git/hooks", false));

        CHECK(risk_of_link("a", "/etc") && risk_of_link("a", "..") && risk_of_link("d/a", "../../x"));
        CHECK(risk_of_link("d/a", "b/../c"));
        CHECK(!risk_of_link("a", "b/c") && !risk_of_link("d/a", "../x") && !risk_of_link("d/a", "./x//y"));
}

static void archives_are_complete(void) {
        _cleanup_workspace_ struct workspace w = {0};
        _cleanup_(diff_free) struct diff d = {0};
        struct err err = {0};

        CHECK_OK(workspace_open(&w, "echo 1 >gone; mkdir gd; echo 2 >gd/x; echo 3 >changed",
                                "rm -r gone gd; echo 33 >changed; chmod 750 changed; mkdir -p new/dir; ln -s t new/l; "
                                "long=$(printf '%200s' '' | tr ' ' n); echo long >new/$long; "
                                "raw=$(printf '%150s\\377' '' | tr ' ' r); echo raw >\"new/$raw\"; "
                                "ln -s \"$long/$long\" new/longlink; mkfifo new/fifo; "
                                "cp new/$long hard; ln hard hard2; nl=$(printf 'a\\nb'); echo nl >\"new/$nl\"; "
                                "truncate -s 1T sparse; echo mid | dd of=sparse seek=100000000 bs=4096 conv=notrunc "
                                "status=none; head -c 300000 /dev/urandom >random; touch -d '1960-01-01 00:00:00.5' "
                                "random; chmod 4711 random"),
                 err);
        CHECK_OK(workspace_diff(&w, &d, &err), err);
        _cleanup_fd_ int out = openat(w.base_fd, "a.tar", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK_OK(tar_write(&d, w.upper, out, &err), err);

        CHECK(sh(&w, "tar tf a.tar >/dev/null; mkdir x; tar xpf a.tar -C x") == 0);
        CHECK(sh(&w, "test $(stat -c %s a.tar) -lt 2000000") == 0);
        CHECK(sh(&w, "tar tf a.tar | head -1 | grep -qx .stockade/removed") == 0);
        CHECK(sh(&w, "printf 'gd\\0gd/x\\0gone\\0' | cmp - x/.stockade/removed") == 0);
        CHECK(sh(&w, "printf 'new/fifo\\0' | cmp - x/.stockade/skipped") == 0);
        CHECK(sh(&w, "rm -r x/.stockade; rm view/new/fifo; test $(stat -c %a x/random) = 711; chmod 4711 x/random") ==
              0);
        CHECK(sh(&w, "test $(du -k x/sparse | cut -f1) -lt 100; test $(stat -c %s x/sparse) = $((1<<40)); "
                     "dd if=x/sparse bs=4096 skip=100000000 count=1 status=none | head -c 3 | grep -q mid; "
                     "rm x/sparse view/sparse") == 0);
        CHECK(sh(&w, "diff -r --no-dereference x view") == 0);
        CHECK(sh(&w, "(cd x; find . -type f -printf '%p %m %T@\\n' | sort) >1; "
                     "(cd view; find . -type f -printf '%p %m %T@\\n' | sort) >2; cmp 1 2") == 0);
        CHECK(sh(&w,
                 "/usr/bin/python3 -c 'import tarfile; t=tarfile.open(\"a.tar\"); assert len(t.getmembers())>10'") ==
              0);
}

TEST_MAIN(TEST(finds_each_kind), TEST(sees_through_opaque_directories), TEST(sees_renames_as_copies),
          TEST(collapses_directories_but_not_warnings), TEST(prints_hostile_names_inert), TEST(writes_json),
          TEST(flags_what_must_not_pass), TEST(finds_conflicts), TEST(ignores_forged_marks),
          TEST(does_not_see_mounts_of_the_host), TEST(compares_sparse_files_without_reading_holes), TEST(caps_hold),
          TEST(refuses_features_that_it_cannot_read), TEST(works_without_openat2), TEST(reads_what_was_made_unreadable),
          TEST(never_opens_through_links), TEST(knows_risky_names), TEST(archives_are_complete))
