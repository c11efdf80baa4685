/* The table of risky names, and how a path is matched with it.
 *
 * Patterns match whole components at any depth, without regard to ASCII case (a file system may fold it). '*' stands
 * for any bytes of one component; a last component "**" for everything below, and for the directory itself when it is
 * not one. Knowingly left out: .gitattributes (names drivers, cannot define them), Makefile, package.json. */
#include "disk/risk.h"

#include <ctype.h>

static const struct {
        const char *pattern;
        const char *reason;
} table[] = {
        /* git */
        {".git", "git follows it to another repository"}, /* as a file or link; directories are never flagged */
        {".git/config", "git runs commands that its configuration names"},
        {".git/config.worktree", "git runs commands that its configuration names"},
        {".git/hooks/**", "git runs hooks"},
        {".git/info/attributes", "git attributes start filters and merge drivers"},
        {".git/commondir", "git reads configuration and hooks from there"},
        {".git/gitdir", "git follows it to another repository"},
        {".git/modules/**/config", "git runs commands that its configuration names"},
        {".git/modules/**/hooks/**", "git runs hooks"},
        {".git/worktrees/**/commondir", "git reads configuration and hooks from there"},
        {".git/worktrees/**/config.worktree", "git runs commands that its configuration names"},
        {".git/objects/info/alternates", "git reads objects from another repository"},
        {".gitmodules", "git fetches and runs what submodules name"},
        {".gitconfig", "git runs commands that its configuration names"},
        {".hg/hgrc", "Mercurial runs hooks and extensions"},
        {".husky/**", "husky installs these as git hooks"},
        {".githooks/**", "often set as git's hooks directory"},
        {".pre-commit-config.yaml", "pre-commit runs what it names at every commit"},
        {"lefthook.yml", "lefthook runs what it names at every commit"},
        {".lefthook.yml", "lefthook runs what it names at every commit"},
        /* shells and environments */
        {".envrc", "direnv runs it when a shell enters the directory"},
        {".env", "tools load it into their environment"},
        {".env.*", "tools load it into their environment"},
        {".direnv/**", "direnv runs it when a shell enters the directory"},
        {".mise.toml", "mise sets the environment and runs hooks from it"},
        {"mise.toml", "mise sets the environment and runs hooks from it"},
        {".tool-versions", "version managers choose the programs that run by it"},
        {".profile", "login shells run it"},
        {".bashrc", "bash runs it"},
        {".bash_profile", "bash runs it"},
        {".bash_login", "bash runs it"},
        {".bash_logout", "bash runs it"},
        {".bash_aliases", "bash runs it"},
        {".zshrc", "zsh runs it"},
        {".zshenv", "zsh runs it"},
        {".zprofile", "zsh runs it"},
        {".zlogin", "zsh runs it"},
        {".config/fish/**", "fish runs it"},
        {".config/autostart/**", "the desktop starts it at login"},
        {".config/systemd/**", "systemd starts it"},
        {"*.desktop", "the desktop starts programs by it"},
        {".ssh/**", "ssh trusts keys and runs commands that it names"},
        {".gnupg/**", "GnuPG trusts keys and runs programs that it names"},
        {".netrc", "programs send the credentials that it names"},
        /* editors and development environments */
        {".vscode/**", "the editor reads it when the folder is opened"},
        {"*.code-workspace", "the editor runs tasks and tools that it names"},
        {".idea/**", "the IDE runs configurations and tools that it names"},
        {".fleet/**", "the IDE runs configurations and tools that it names"},
        {".zed/**", "the editor runs tasks and tools that it names"},
        {".devcontainer/**", "the editor builds and runs the container that it names"},
        {".devcontainer.json", "the editor builds and runs the container that it names"},
        {".vimrc", "vim runs it"},
        {".exrc", "vi runs it"},
        {".nvimrc", "neovim runs it"},
        {".nvim.lua", "neovim runs it"},
        {".dir-locals.el", "Emacs evaluates it"},
        {".emacs", "Emacs evaluates it"},
        {".gdbinit", "gdb runs it"},
        {".lldbinit", "lldb runs it"},
        /* our own profiles, plans and journals decide what the next sandbox may do */
        {".config/stockade/**", "Stockade takes profiles from it"},
        {".cache/stockade/**", "Stockade takes plans from it"},
        {".local/state/stockade/**", "Stockade finishes what it says"},
        /* agents */
        {".mcp.json", "coding agents start the servers that it names"},
        {".claude/**", "coding agents take hooks and permissions from it"},
        {".cursor/**", "coding agents take servers and permissions from it"},
        {".codex/**", "coding agents take servers and permissions from it"},
        {".gemini/**", "coding agents take servers and permissions from it"},
        {".windsurf/**", "coding agents take servers and permissions from it"},
        {".continue/**", "coding agents take servers and permissions from it"},
        {".aider.conf.yml", "coding agents take commands from it"},
        /* package managers, build tools, interpreters */
        {".npmrc", "npm takes registries, scripts and shells from it"},
        {".yarnrc", "yarn runs the program that it names"},
        {".yarnrc.yml", "yarn runs the program and plugins that it names"},
        {".yarn/releases/**", "yarn runs it in its own place"},
        {".yarn/plugins/**", "yarn loads it"},
        {".pnpmfile.cjs", "pnpm runs it at install"},
        {".cargo/config", "cargo runs wrappers, linkers and runners that it names"},
        {".cargo/config.toml", "cargo runs wrappers, linkers and runners that it names"},
        {".mvn/**", "Maven loads extensions and options from it"},
        {".bazelrc", "Bazel takes options and programs from it"},
        {"pip.conf", "pip takes package sources from it"},
        {".pypirc", "uploads go where it says"},
        {"pyvenv.cfg", "python takes its libraries from where it says"},
        {"sitecustomize.py", "python runs it at every start"},
        {"usercustomize.py", "python runs it at every start"},
        {"*.pth", "python runs lines of it at every start"},
        /* continuous integration */
        {".github/workflows/**", "runs with the repository's rights after a push"},
        {".github/actions/**", "runs with the repository's rights after a push"},
        {".gitlab-ci.yml", "runs with the repository's rights after a push"},
};

struct span {
        const char *start;
        size_t length;
};

static struct span component(const char *path) {
        return (struct span){path, (size_t)(strchrnul(path, '/') - path)};
}

static const char *after(struct span s) {
        return s.start[s.length] == '/' ? s.start + s.length + 1 : NULL;
}

static bool same_byte(char a, char b) {
        return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* '*' in a component of a pattern; there is at most one in each. */
static bool component_matches(struct span p, struct span name) {
        const char *star = memchr(p.start, '*', p.length);
        size_t head = star ? (size_t)(star - p.start) : p.length, tail = star ? p.length - head - 1 : 0;

        if (star ? name.length < head + tail : name.length != head)
                return false;
        for (size_t i = 0; i < head; i++)
                if (!same_byte(p.start[i], name.start[i]))
                        return false;
        for (size_t i = 0; i < tail; i++)
                if (!same_byte(p.start[p.length - 1 - i], name.start[name.length - 1 - i]))
                        return false;
        return true;
}

/* pattern, from its first component, against path, from its first. */
static bool matches_here(const char *pattern, const char *path, bool link) {
        while (pattern && path) {
                struct span p = component(pattern), name = component(path);

                if (p.length == 2 && memcmp(p.start, "**", 2) == 0) {
                        pattern = after(p);
                        if (!pattern)
                                return true;
                        for (const char *rest = path; rest; rest = after(component(rest)))
                                if (matches_here(pattern, rest, link))
                                        return true;
                        return link;
                }
                if (!component_matches(p, name))
                        return false;
                pattern = after(p);
                path = after(name);
        }
        if (path)
                return false;
        /* the path ended first: a link there, or anything in the place of a directory all of which is risky */
        return !pattern || link || str_eq(pattern, "**");
}

static bool ends_in(const char *path, const char *end) {
        size_t n = strlen(path), m = strlen(end);

        return n >= m && str_eq(path + n - m, end);
}

const char *risk_of_path(const char *path, bool link) {
        for (const char *from = path; from; from = after(component(from)))
                for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                        /* git ships inert examples of its hooks */
                        if (!link && str_eq(table[i].pattern, ".git/hooks/**") && ends_in(path, ".sample"))
                                continue;
                        if (matches_here(table[i].pattern, from, link))
                                return table[i].reason;
                }
        return NULL;
}

const char *risk_of_link(const char *path, const char *target) {
        static const char reason[] = "the link leads out of the workspace, or may";
        size_t depth = 0;
        bool descended = false;

        if (target[0] == '/')
                return reason;
        for (const char *p = path; *p; p++)
                depth += *p == '/';
        for (const char *p = target; p; p = after(component(p))) {
                struct span s = component(p);

                if (s.length == 0 || (s.length == 1 && s.start[0] == '.'))
                        continue;
                if (s.length != 2 || memcmp(s.start, "..", 2) != 0) {
                        descended = true;
                        continue;
                }
                /* "name/.." may be anywhere, when name is a link too */
                if (descended || depth == 0)
                        return reason;
                depth--;
        }
        return NULL;
}
