/* All quick attempts of the probe, made in one sandbox, and their verdicts.
 *
 * The order of belief: what the host noticed (a listener, the victim, a canary in the output, a file with set-id bits),
 * then what the kernel answered, as the judge saw it or as the probe reports it. An attempt of which nothing is known
 * was not tried. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errno-name.h"
#include "base/fd.h"
#include "verify/scene.h"
#include "verify/witness.h"

#define SHARE_INSIDE "/mnt/share"

/* Another maker's sandbox shares the folder if its command says {share}, at the path that it has outside. */
static bool shares_folder(const struct judge *j) {
        return j->options.against ? strstr(j->options.against, "{share}") != NULL
                                  : j->world.shareable && !launch_in_box(j);
}

/* These attempts are about what the host finds in the shared folder. */
static bool is_about_share(const struct check *c) {
        return str_starts(c->name, "setid-") && !str_eq(c->name, "setid-program");
}

/* Set-id bits on what an attempt left in the shared folder: the host would honour them. */
static void look_at_share(const struct judge *j, const struct check *c, struct finding *f) {
        struct stat st;
        char path[512];

        (void)snprintf(path, sizeof path, "%s/%s", j->world.share, c->name);
        if (lstat(path, &st) == 0 && st.st_mode & (S_ISUID | S_ISGID))
                finding_open(f, "the host has a file with mode %04o now", (unsigned)st.st_mode & 07777);
}

void attempts_tidy(const struct judge *j) {
        _cleanup_fd_ int fd = open(j->world.share, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir)
                return;
        fd = -EBADF; /* closedir closes it */
        for (struct dirent *e; (e = readdir(dir));)
                if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, "..") && unlinkat(dirfd(dir), e->d_name, 0) < 0)
                        (void)unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
        (void)closedir(dir);
}

/* Does the profile mean to allow this? */
static bool permitted(const struct judge *j, const struct check *c) {
        if (j->options.against)
                return false;
        switch (c->needs) {
        case NEEDS_EXEC_LIST:
                return !j->profile.exec_list;
        case NEEDS_OWN_TREE:
                return j->profile.shows_host;
        case NEEDS_NO_RULES:
                return j->profile.network;
        case NEEDS_NOTHING:
        case NEEDS_RULES:
        default:
                return false;
        }
}

static void what_the_host_saw(const struct judge *j, const struct check *c, const struct said *s, struct finding *f) {
        char text[256];
        int canary = world_leaked(&j->world, s->evidence, strlen(s->evidence));

        if (canary >= 0)
                finding_open(f, "a secret of the host came out in what it reports");
        if (world_heard(&j->world, c->name, text, sizeof text))
                finding_open(f, "a listener outside was reached: %s", text);
        if (c->flags & CHECK_VICTIM && world_victim_changed(&j->world, text, sizeof text))
                finding_open(f, "a process outside noticed it: %s", text);
        look_at_share(j, c, f);
}

/* The kernel's own answer, as the judge read it from outside. */
static void what_the_kernel_said(const struct check *c, const struct said *s, const struct witness *w,
                                 struct finding *f) {
        char call[64];

        if (s->error[0] && witness_saw(w, c->name, errno_find(s->error), call, sizeof call)) {
                f->witnessed = true;
                finding_promised(f, "the kernel answered %s with %s", call, s->error);
        }
}

/* A filter that kills is a refusal too. Any other end says nothing: it may have hung because it got through. */
static void judge_killed(const struct said *s, struct finding *f) {
        char filtered[32];

        (void)snprintf(filtered, sizeof filtered, "by signal %d", SIGSYS);
        if (strstr(s->evidence, filtered))
                finding_otherwise(f, "the process was ended: %.150s", s->evidence);
        else
                finding_untried(f, "it did not come to its end: %.150s", s->evidence);
}

static void judge_one(const struct judge *j, const struct check *c, const struct outcome *o, const struct witness *w,
                      struct finding *f) {
        struct said s = {0};
        bool spoke = said_find(&o->out, c->name, &s), meant = permitted(j, c);

        if (!meant)
                what_the_host_saw(j, c, &s, f);
        if (!spoke) {
                finding_untried(f, "the probe said nothing of it (status %d)", o->status);
                return;
        }
        if (f->verdict == VERDICT_PENDING || !str_eq(s.result, "refused")) { /* of two looks the worse, or the first */
                (void)snprintf(f->said, sizeof f->said, "%s", s.evidence);
                (void)snprintf(f->error, sizeof f->error, "%s", s.error);
        }
        if (meant) {
                if (str_eq(s.result, "done"))
                        finding_worsen(f, VERDICT_PERMITTED);
                else
                        finding_otherwise(f, "the profile permits it, but it was refused");
                return;
        }
        if (f->verdict == VERDICT_OPEN)
                return;
        if (is_about_share(c) && !shares_folder(j) && !launch_in_box(j) &&
            (j->options.against || !str_eq(s.result, "done")))
                finding_untried(f, "%s",
                                j->options.against ? "nothing is shared with the host: no {share} in the command"
                                                   : WORLD_UNSHAREABLE);
        else if (is_about_share(c) && str_eq(s.result, "done") && j->options.against)
                finding_otherwise(f, "it has such a file, but the host does not");
        else if (str_eq(s.result, "done") && str_starts(c->name, "tcp-") && j->profile.network)
                finding_otherwise(f, "the gate took the connection, and nobody outside heard of it");
        else if (str_eq(s.result, "done"))
                scene_worked(j, c, f, "it worked: %.300s", s.evidence);
        else if (str_eq(s.result, "guarded") || str_eq(s.result, "not tried"))
                finding_untried(f, "%.200s", s.evidence[0] ? s.evidence : s.result);
        else if (str_eq(s.result, "killed"))
                judge_killed(&s, f);
        else if (str_eq(s.result, "refused") && check_expects(c, s.error)) {
                finding_worsen(f, VERDICT_PROMISED);
                what_the_kernel_said(c, &s, w, f);
        } else
                finding_otherwise(f, "refused with %s, promised was %s", s.error[0] ? s.error : "no error", c->errors);
}

static bool belongs(const struct judge *j, size_t i, enum attempts_pass pass) {
        const struct check *c = check_at(i);

        if (!judge_tries(j, i) || c->scene)
                return false;
        switch (pass) {
        case ATTEMPTS_WITNESSED:
                return !(c->flags & (CHECK_TERMINAL | CHECK_ALONE));
        case ATTEMPTS_ALONE:
                return !(c->flags & CHECK_TERMINAL) && c->flags & CHECK_ALONE;
        case ATTEMPTS_TERMINAL:
        default:
                return true;
        }
}

/* Runs it with a witness beside it, where this host permits that: starts, waits until the probe is ready, begins to
 * trace it, and lets it go. */
static int run_witnessed(struct judge *j, const struct launch *l, struct witness *w, struct outcome *o,
                         struct err *err) {
        struct running r = {0};
        struct err ignored;

        int result = launch_start(j, l, &r, err);
        if (result < 0)
                return result;
        if (launch_expect(&r, "ready", 20000)) {
                pid_t probe = process_find(j, l->argv[1], j->world.nonce);
                if (probe > 0)
                        (void)witness_begin(w, probe, &ignored);
        }
        (void)fd_write_full(r.in, "\n", 1);
        result = launch_wait(j, &r, o, err);
        witness_end(w, 1000);
        return result;
}

int attempts_make(struct judge *j, enum attempts_pass pass, struct err *err) {
        _cleanup_outcome_ struct outcome o = {0};
        _cleanup_buf_ struct buf names = {0};
        _cleanup_fd_ int leak = open("/", O_RDONLY | O_DIRECTORY); /* without CLOEXEC: it must not get in */
        bool terminal = pass == ATTEMPTS_TERMINAL, witnessed = pass == ATTEMPTS_WITNESSED;
        char share[300];

        for (size_t i = 0; i < j->count; i++)
                if (belongs(j, i, pass))
                        buf_printf(&names, "%s%s", names.size ? "," : "", check_at(i)->name);
        if (names.size == 0)
                return 0;
        if (!buf_ok(&names))
                return err_set(err, -ENOMEM, "cannot list the attempts");
        (void)snprintf(share, sizeof share, "%s:" SHARE_INSIDE, j->world.share);
        const char *const options[] = {"--rw", share, NULL};
        const char *const argv[] = {"{probe}", names.data, "control=yes",
                                    terminal    ? "use-stdin=1"
                                    : witnessed ? "witness=yes"
                                                : NULL,
                                    NULL};
        const struct launch l = {
                .where = LAUNCH_INSIDE,
                .options = launch_has_options(j) && shares_folder(j) ? options : NULL,
                .argv = argv,
                .facts = true,
                .terminal = terminal,
                .leak = terminal ? 0 : leak,
                .input = witnessed ? "" : NULL,
                .timeout_ms = 60000,
        };
        struct witness w = {0};

        if (j->options.against || shares_folder(j)) /* else these files go where it works */
                world_fact(&j->world, "share", "%s", j->options.against ? j->world.share : SHARE_INSIDE);
        world_fact(&j->world, "folder", "%s", j->options.against ? "/tmp" : j->profile.workspace);
        world_forget(&j->world);
        int r = witnessed ? run_witnessed(j, &l, &w, &o, err) : launch_run(j, &l, &o, err);
        if (r < 0)
                return r;
        size_t first = j->count;
        bool noticed = false;
        for (size_t i = j->count; i-- > 0;)
                if (belongs(j, i, pass)) {
                        struct said s;

                        judge_one(j, check_at(i), &o, &w, &j->findings[i]);
                        j->broken = j->broken || !said_find(&o.out, check_at(i)->name, &s);
                        noticed = noticed || j->findings[i].verdict == VERDICT_OPEN;
                        first = i;
                }
        j->broken = j->broken || o.status != 0 || o.late;
        /* what no check accounts for is one check's at least */
        if (first < j->count && !noticed && !j->profile.shows_host &&
            (world_leaked(&j->world, o.out.data, o.out.size) >= 0 ||
             world_leaked(&j->world, o.err.data, o.err.size) >= 0))
                finding_open(&j->findings[first], "a secret of the host is somewhere in what came out");
        witness_free(&w);
        attempts_tidy(j);
        if (o.status != 0 && o.status != -1) {
                bool all_untried = true;
                for (size_t i = 0; i < j->count; i++)
                        all_untried = all_untried &&
                                      (!belongs(j, i, pass) || j->findings[i].verdict == VERDICT_UNTRIED);
                if (all_untried)
                        return judge_does_not_start(j, &o, err);
        }
        return 0;
}
