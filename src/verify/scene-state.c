/* State across invocations: what one run leaves is found by no later run, by no sibling, and in none of our folders. */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/paths.h"
#include "verify/scene.h"

/* The verdict of an attempt "find", and what shows that it could have found something. */
static void judge_find(const struct outcome *o, struct finding *f) {
        struct said said = {0};
        bool spoke = scene_said(&o->out, "find", &said, f);

        if (spoke && str_eq(said.result, "done"))
                finding_open(f, "it found %.300s", said.evidence);
        else if (spoke && str_eq(said.result, "refused"))
                finding_promised(f, "it found %.100s", said.evidence);
        else
                finding_untried(f, "%s: %.200s", spoke ? said.result : "it said nothing", said.evidence);
}

static void control_find(struct judge *j, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        struct said said = {0};

        if (scene_inside(j, f, NULL, WORDS("{probe}", "leave,find"), &o))
                finding_control(f, said_find(&o.out, "find", &said) && str_eq(said.result, "done"),
                                "before the end of its run it is found: %.150s", said.evidence);
}

void scene_find_later(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome left = {0}, found = {0};
        struct said said = {0};

        (void)c;
        if (!scene_inside(j, f, NULL, WORDS("{probe}", "leave"), &left))
                return;
        if (!said_find(&left.out, "leave", &said) || !str_eq(said.result, "done")) {
                finding_untried(f, "nothing could be left: %s %.150s", said.result, said.evidence);
                return;
        }
        if (!scene_inside(j, f, NULL, WORDS("{probe}", "find"), &found))
                return;
        judge_find(&found, f);
        control_find(j, f);
}

/* The same at the same time, in another sandbox of the same caller. */
void scene_find_sibling(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome found = {0};
        struct running r = {0};
        char mark[SCENE_MARK];

        (void)c;
        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE, .argv = WORDS("{probe}", "leave,stay", mark), .facts = true};
        if (!scene_start(j, f, &l, &r))
                return;
        bool up = launch_expect(&r, "here", 5000);
        bool ran = up && scene_inside(j, f, NULL, WORDS("{probe}", "find"), &found);
        launch_kill(&r);
        scene_end(mark);
        if (!up)
                finding_untried(f, "the other sandbox did not come up");
        if (!ran)
                return;
        judge_find(&found, f);
        control_find(j, f);
}

/* --- files that hold something */

static const char *sought;
static char found_in[PATH_MAX];

static int look_into(const char *path, const struct stat *st, int kind, struct FTW *at) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;

        (void)at;
        if (strstr(path, sought))
                (void)snprintf(found_in, sizeof found_in, "%s", path);
        if (kind == FTW_F && S_ISREG(st->st_mode) &&
            fd_read_file(AT_FDCWD, path, 8 << 20, true, &text, &size, NULL) >= 0 &&
            memmem(text, size, sought, strlen(sought)))
                (void)snprintf(found_in, sizeof found_in, "%s", path);
        return 0;
}

/* The first file of ours, by name or content, with this in it; NULL if there is none. */
static const char *kept(const char *what) {
        static const char *const more[] = {"/run/stockade", "/var/cache/stockade", "/var/lib/stockade"};
        char folder[PATH_MAX];

        sought = what;
        found_in[0] = '\0';
        for (size_t i = 0; paths_own(i, folder, sizeof folder); i++)
                if (folder[0] && strstr(folder, "stockade") && !strstr(folder, "bin"))
                        (void)nftw(folder, look_into, 16, FTW_PHYS | FTW_MOUNT);
        for (size_t i = 0; i < ELEMENTSOF(more); i++)
                (void)nftw(more[i], look_into, 16, FTW_PHYS | FTW_MOUNT);
        return found_in[0] ? found_in : NULL;
}

/* A value given by --env, and the caller's own environment, are in no record, message, cache or state afterwards, and a
 * crash leaves no core file. */
void scene_secret(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        char secret[80], given[100];

        (void)c;
        if (!scene_options(j, f))
                return;
        (void)snprintf(secret, sizeof secret, "GIVEN-%s-%d", j->world.nonce, (int)getpid());
        (void)snprintf(given, sizeof given, "GIVEN=%s", secret);
        if (!scene_inside(j, f, WORDS("--env", given), WORDS("/bin/sh", "-c", "echo $GIVEN; kill -SEGV $$"), &o))
                return;
        finding_control(f, o.out.data && strstr(o.out.data, secret), "inside it was there");
        if (o.err.data && strstr(o.err.data, secret))
                finding_open(f, "it is in the launcher's messages");
        if (!o.record)
                finding_untried(f, "there is no record");
        else if (strstr(o.record, secret) || strstr(o.record, j->world.tokens[CANARY_ENV]))
                finding_open(f, "it is in the record");
        if (kept(secret) || kept(j->world.tokens[CANARY_ENV]))
                finding_open(f, "it is in %.200s", found_in);
        if (access("core", F_OK) == 0)
                finding_open(f, "a core file was left");
        finding_promised(f, "in no record, message, cache or state");
}

/* A shared folder has no mount points, dotfiles or masks of ours in it, and files belong to its owner. */
void scene_share_clean(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        char folder[512], share[600], file[600];
        unsigned others = 0;
        struct stat st;

        (void)c;
        if (!scene_share(j, f) || !scene_folder(j, f, "clean", folder, sizeof folder))
                return;
        (void)snprintf(share, sizeof share, "%s:/mnt/clean", folder);
        (void)snprintf(file, sizeof file, "%s/file", folder);
        if (!scene_inside(j, f, WORDS("--rw", share), WORDS("/bin/sh", "-c", "echo x >/mnt/clean/file"), &o)) {
                scene_remove(folder);
                return;
        }
        DIR *dir = opendir(folder);
        for (struct dirent *e; dir && (e = readdir(dir));)
                others += !str_eq(e->d_name, ".") && !str_eq(e->d_name, "..") && !str_eq(e->d_name, "file");
        if (dir)
                (void)closedir(dir);
        bool made = stat(file, &st) == 0;
        if (others > 0)
                finding_open(f, "%u other things are in it", others);
        else if (made && st.st_uid != j->uid)
                finding_open(f, "what was made belongs to id %u", st.st_uid);
        else if (!made)
                finding_untried(f, "it could not write there: status %d %.150s", o.status,
                                o.err.data ? o.err.data : "");
        else
                finding_promised(f, "only the file that it made, which belongs to the caller");
        finding_control(f, made, "what it wrote there is on the host");
        scene_remove(folder);
}

/* The host's name, as this host (a namespace of the judge's own) sees it. */
void scene_host_name(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        struct utsname before, after;

        (void)c;
        (void)uname(&before);
        if (!scene_inside(j, f, NULL, WORDS("/bin/sh", "-c", "hostname evil 2>/dev/null; uname -n"), &o))
                return;
        (void)uname(&after);
        bool kept_name = str_eq(before.nodename, after.nodename);
        (void)snprintf(f->said, sizeof f->said, "inside it is %.60s", o.out.data ? o.out.data : "?");
        if (!kept_name) {
                finding_open(f, "the host is called %.60s now", after.nodename);
                (void)sethostname(before.nodename, strlen(before.nodename));
        } else if (o.status != 0 || o.out.size == 0)
                finding_untried(f, "it said nothing: status %d", o.status);
        else
                finding_promised(f, "the host is still called %.60s", after.nodename);
}

/* What is prepared and kept for later sandboxes cannot be written from inside, and the next one is as the first. */
void scene_cache(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome first = {0}, next = {0};
        static const char script[] =
                "exec 2>/dev/null; for d in / /etc /etc/ssl/certs /usr /usr/bin /run /run/stockade /dev /var /mnt; do "
                "(echo evil >$d/$0) && echo made $d; (mkdir $d/$0.d) && echo made $d; done; for f in /etc/passwd "
                "/etc/hosts /etc/resolv.conf /etc/ld.so.cache /run/stockade/guest; do (echo evil >>$f) && echo changed "
                "$f; (chmod 777 $f) && echo changed $f; done; (echo x >\"$1\"/$0) && echo control; exit 0";
        static const char look[] = "ls -a / /etc /run /mnt 2>/dev/null | grep -F -- $0; cat /etc/passwd /etc/hosts "
                                   "2>/dev/null | grep -F evil; exit 0";
        char mark[SCENE_MARK];

        (void)c;
        scene_mark(j, mark);
        if (!scene_options(j, f) ||
            !scene_inside(j, f, NULL, WORDS("/bin/sh", "-c", script, mark, scene_workspace(j)), &first) ||
            !scene_inside(j, f, NULL, WORDS("/bin/sh", "-c", look, mark), &next))
                return;
        const char *out = first.out.data ? first.out.data : "";
        finding_control(f, strstr(out, "control") != NULL, "the same write works in its workspace");
        if (!strstr(out, "control"))
                finding_untried(f, "it did not get so far: status %d", first.status);
        if (next.out.size > 0)
                finding_open(f, "the next run finds %.200s", next.out.data);
        if (kept(mark))
                finding_open(f, "it is in %.200s", found_in);
        if (strstr(out, "made ") || strstr(out, "changed "))
                finding_open(f, "it could write: %.200s", out);
        finding_promised(f, "nothing could be written, and the next run found nothing");
}

/* The host as a whole, after everything that was tried before this check. */
void scene_unchanged(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_buf_ struct buf lines = {0};

        (void)c;
        if (scene_same(j, &j->before, j->watched, j->ours, false, 4000, &lines))
                finding_promised(f, "%d parts of the host's state are as they were", DIGEST_COUNT);
        else
                finding_open(f, "%.400s", lines.data ? lines.data : "it cannot be told");
}
