/* What a sandbox plants in a workspace, and what of it comes back to the host by --apply: never a special file, a
 * set-id bit or a write through a link; what the host's tools would execute or obey only by --apply-risky. */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/scene.h"

struct place {
        char path[512];
};

/* Whatever became of it: what is left of ours would be taken for a sandbox's. */
static void place_remove(struct place *p) {
        scene_remove(p->path);
}

#define _cleanup_place_ _cleanup_(place_remove)

static bool make(struct judge *j, struct finding *f, const char *name, struct place *p) {
        return scene_share(j, f) && scene_folder(j, f, name, p->path, sizeof p->path);
}

static bool put(const struct place *p, const char *name, const char *text) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%s/%s", p->path, name);
        return scene_write(path, text, 0644);
}

static bool there(const struct place *p, const char *name) {
        char path[PATH_MAX];
        struct stat st;

        (void)snprintf(path, sizeof path, "%s/%s", p->path, name);
        return lstat(path, &st) == 0;
}

static bool run(struct judge *j, struct finding *f, const struct place *p, const char *how, const char *script,
                struct outcome *ret) {
        return scene_inside(j, f, WORDS("--workspace", p->path, how, "--cwd", p->path), WORDS("/bin/sh", "-c", script),
                            ret);
}

static const char *const poison[] = {
        ".git/hooks/pre-commit", ".envrc", ".vscode/tasks.json", ".claude/settings.json", ".mcp.json", ".npmrc",
};
static const char plant[] =
        "mkdir -p .git/hooks .vscode .claude; printf '#!/bin/sh\\nid\\n' >.git/hooks/pre-commit; "
        "chmod 755 .git/hooks/pre-commit; printf '[core]\\n\\tfsmonitor = id\\n\\thooksPath = x\\n' >>.git/config; "
        "for f in .envrc .vscode/tasks.json .claude/settings.json .mcp.json .npmrc; do echo evil >$f; done; "
        "echo '{\"scripts\":{\"install\":\"id\"}}' >package.json; echo good >good; exit 0";
static const char config[] = "[core]\n\tbare = false\n";

static bool make_repository(const struct place *p) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%s/.git", p->path);
        return mkdir(path, 0755) == 0 && put(p, ".git/config", config);
}

/* How many of the poisoned files are on the host. */
static unsigned poisoned(const struct place *p) {
        char path[PATH_MAX];
        unsigned count = 0;

        for (size_t i = 0; i < ELEMENTSOF(poison); i++)
                count += there(p, poison[i]);
        (void)snprintf(path, sizeof path, "%s/.git/config", p->path);
        return count + !scene_holds(path, config);
}

void scene_hooks(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome safe = {0}, risky = {0};
        _cleanup_place_ struct place p = {0}, q = {0};

        (void)c;
        if (!make(j, f, "poison", &p) || !make(j, f, "poison-risky", &q) || !make_repository(&p) ||
            !make_repository(&q) || !run(j, f, &p, "--apply", plant, &safe)) {
                finding_untried(f, "no workspace");
                return;
        }
        unsigned bad = poisoned(&p);
        if (bad > 0)
                finding_open(f, "%u files that the host's tools would obey came back", bad);
        else if (!there(&p, "good"))
                finding_untried(f, "nothing at all came back: status %d %.150s", safe.status,
                                safe.err.data ? safe.err.data : "");
        else if (safe.status != 125)
                finding_open(f, "that something was left out is not told: status %d", safe.status);
        else
                finding_promised(f, "hooks, git's configuration, .envrc, editor and agent settings were left out; what "
                                    "is ordinary, package.json among it, came back");
        if (run(j, f, &q, "--apply-risky", plant, &risky))
                finding_control(f, poisoned(&q) == ELEMENTSOF(poison) + 1, "asked for with --apply-risky, %u came back",
                                poisoned(&q));
}

void scene_discard(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome dropped = {0}, applied = {0};
        static const char script[] = "rm kept; echo x >new; exit 0";
        _cleanup_place_ struct place p = {0};

        (void)c;
        if (!make(j, f, "discard", &p) || !put(&p, "kept", "kept\n") || !run(j, f, &p, "--discard", script, &dropped))
                return;
        if (there(&p, "new") || !there(&p, "kept"))
                finding_open(f, "the workspace changed without being asked for");
        else if (dropped.status != 0)
                finding_untried(f, "status %d: %.150s", dropped.status, dropped.err.data ? dropped.err.data : "");
        else
                finding_promised(f, "nothing of it is on the host");
        if (run(j, f, &p, "--apply", script, &applied))
                finding_control(f, there(&p, "new") && !there(&p, "kept"), "with --apply it is");
}

/* A folder of the workspace becomes a link out: what is brought back does not follow it. */
void scene_symlink(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        _cleanup_place_ struct place work = {0}, outside = {0};
        char path[PATH_MAX], script[2048];

        (void)c;
        if (!make(j, f, "linked", &work) || !make(j, f, "outside", &outside))
                return;
        (void)snprintf(path, sizeof path, "%s/sub", work.path);
        if (mkdir(path, 0755) < 0 || !put(&work, "sub/file", "mine\n") || !put(&outside, "file", "theirs\n"))
                return;
        (void)chmod(outside.path, 0777);
        (void)snprintf(script, sizeof script,
                       "rm -r sub && ln -s '%s' sub && ln -s '%s/file' direct && ln -s '%s/made' dangling; echo x "
                       ">sub/file; echo x >direct; echo x >dangling; echo x >new; exit 0",
                       outside.path, outside.path, outside.path);
        if (!run(j, f, &work, "--apply", script, &o))
                return;
        (void)snprintf(path, sizeof path, "%s/file", outside.path);
        if (!scene_holds(path, "theirs\n") || there(&outside, "made"))
                finding_open(f, "it wrote through the link");
        else if (!there(&work, "new"))
                finding_untried(f, "nothing came back: status %d %.150s", o.status, o.err.data ? o.err.data : "");
        else
                finding_promised(f, "what is behind the links is as it was");
        if (run(j, f, &work, "--apply", "mkdir real && echo x >real/file; exit 0", &control))
                finding_control(f, there(&work, "real/file"), "a folder that is none comes back with its file");
}

static char special[256];

static int look_for_special(const char *path, const struct stat *st, int kind, struct FTW *at) {
        (void)kind;
        (void)at;
        if ((!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) || st->st_mode & (S_ISUID | S_ISGID))
                (void)snprintf(special, sizeof special, "%.180s has mode %o", path, st->st_mode);
        return 0;
}

/* Set-id bits, devices, fifos and sockets do not come back. */
void scene_special(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        static const char script[] = "echo x >a; chmod 4755 a; echo x >b; chmod 2755 b; mkfifo fifo; mknod dev c 1 3; "
                                     "mkdir d; chmod 2777 d; mknod white c 0 0; echo good >good; exit 0";
        _cleanup_place_ struct place p = {0};

        (void)c;
        if (!make(j, f, "special", &p) || !run(j, f, &p, "--apply-risky", script, &o))
                return;
        special[0] = '\0';
        (void)nftw(p.path, look_for_special, 16, FTW_PHYS);
        if (special[0])
                finding_open(f, "%s", special);
        else
                finding_promised(f, "nothing special and no set-id bit came back");
        finding_control(f, there(&p, "good"), "an ordinary file of the same run came back");
}

static bool raw_escape(const struct outcome *o) {
        return (o->err.size && memchr(o->err.data, '\033', o->err.size)) ||
               (o->out.size && memchr(o->out.data, '\033', o->out.size));
}

/* Names with escape sequences, in what the launcher itself says: only printable bytes. */
void scene_messages(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome listed = {0}, refused = {0}, control = {0};
        static const char script[] = "cd \"$PWD\"; n=$(printf 'x\\033]0;evil\\007\\033[2J'); echo x >\"$n\"; mkdir -p "
                                     ".git/hooks; echo x >\".git/hooks/$n\"; exit 0";
        _cleanup_place_ struct place p = {0};

        (void)c;
        if (!make(j, f, "names", &p) || !run(j, f, &p, "--apply", script, &listed) ||
            !scene_inside(j, f, NULL, WORDS("/usr/bin/\033[31mevil\033[0m"), &refused))
                return;
        if (raw_escape(&listed))
                finding_open(f, "the list of changes has an escape sequence in it");
        if (raw_escape(&refused))
                finding_open(f, "an error has an escape sequence in it");
        if (listed.err.size == 0 || refused.err.size == 0)
                finding_untried(f, "the launcher said nothing");
        finding_promised(f, "the list of changes and the error are printable");
        if (scene_inside(j, f, NULL, WORDS("/bin/sh", "-c", "printf '\\033[0m'"), &control))
                finding_control(f, raw_escape(&control), "the command's own output is byte-exact");
}
