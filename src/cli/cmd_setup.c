/* `stockade setup`: once, as root, gives an ordinary user what sandboxes without root need. Everything that it changes
 * is printed line by line, can be shown beforehand (--dry-run) and taken back (--remove). */
#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/setup.h"

static void usage(FILE *out) {
        (void)fputs("usage: stockade setup --user USER [--remove] [--dry-run] [--enter PID] [--root DIR]\n"
                    "       stockade setup --check [--root DIR]\n"
                    "\n"
                    "Gives USER, once and as root, what sandboxes without root need: cgroups of its own, a range of\n"
                    "user ids, and an AppArmor profile where user namespaces are restricted.\n"
                    "\n"
                    "  --user USER   a name or a number\n"
                    "  --remove      take it all back\n"
                    "  --dry-run     say what would be done, and do nothing\n"
                    "  --enter PID   move this process of USER (a shell) into USER's cgroup, where systemd does not\n"
                    "  --check       say whether anybody else was given the ids that root's sandboxes have; changes\n"
                    "                nothing, and ends with 1 if so\n"
                    "  --root DIR    change the files of a system below DIR instead; leaves cgroups alone\n",
                    out);
}

void setup_step(struct setup *s, const char *format, ...) {
        va_list args;

        va_start(args, format);
        (void)vsnprintf(s->what, sizeof s->what, format, args);
        va_end(args);
}

static void say(const struct setup *s, const char *how, const char *more) {
        char line[1024];

        text_escape(line, sizeof line, s->what);
        (void)printf("  %-8s %s%s%s\n", how, line, more[0] ? ": " : "", more);
}

bool setup_wanted(struct setup *s, bool already) {
        if (already)
                say(s, "already", "");
        else if (s->dry)
                say(s, "would", "");
        return !already && !s->dry;
}

void setup_done(struct setup *s, int r) {
        if (r < 0)
                s->failures++;
        say(s, r < 0 ? "failed" : "done", r < 0 ? err_name(r) : "");
}

void setup_note(const char *format, ...) {
        va_list args;

        (void)printf("  note     ");
        va_start(args, format);
        (void)vprintf(format, args);
        va_end(args);
        (void)printf("\n");
}

bool setup_has_systemd(void) {
        return access("/run/systemd/system", F_OK) == 0;
}

bool setup_is_last(const struct setup *s) {
        char path[1024], own[32];
        bool last = true;

        (void)snprintf(path, sizeof path, "%s" SETUP_NOTES, s->root);
        (void)snprintf(own, sizeof own, "%u", s->uid);
        DIR *dir = opendir(path);
        if (!dir)
                return true;
        for (const struct dirent *entry; (entry = readdir(dir));)
                last = last && (entry->d_name[0] == '.' || str_eq(entry->d_name, own));
        (void)closedir(dir);
        return last;
}

int setup_file(struct setup *s, const char *path, const char *text, const char *purpose) {
        _cleanup_free_ char *old = NULL;
        char full[1024];

        (void)snprintf(full, sizeof full, "%s%s", s->root, path);
        int r = fd_read_file(AT_FDCWD, full, 1 << 20, false, &old, NULL, NULL);
        setup_step(s, "%s %s (%s)", s->remove ? "delete" : "write", full, purpose);
        if (!setup_wanted(s, s->remove ? r == -ENOENT : r == 0 && str_eq(old, text)))
                return 0;
        if (s->remove)
                r = unlink(full) < 0 ? -errno : 0;
        else {
                r = paths_make_parents(full);
                char *name = strrchr(full, '/');
                *name++ = '\0';
                _cleanup_fd_ int dir = r < 0 ? r : open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (r == 0)
                        r = dir < 0 ? -errno : fd_replace_file(dir, name, 0644, text, strlen(text));
        }
        setup_done(s, r);
        return r == 0;
}

int setup_spawn(const char *const *argv) {
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
                _exit(127);
        }
        int status;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return !WIFEXITED(status) ? -EIO : WEXITSTATUS(status) == 127 ? -ENOENT : WEXITSTATUS(status) ? -EIO : 0;
}

/* A name or a number, as it stands in the user database. */
static int find_user(struct setup *s, const char *text, struct err *err) {
        char *end;

        assert(text);
        errno = 0;
        unsigned long number = strtoul(text, &end, 10);
        bool numeric = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number < UINT32_MAX;
        const struct passwd *user = numeric ? getpwuid((uid_t)number) : getpwnam(text);

        if (!user && !numeric) {
                (void)err_set(err, ERR_INPUT, "there is no user '%s'", text);
                return err_hint(err, "give a name from /etc/passwd, or a number");
        }
        s->uid = user ? user->pw_uid : (unsigned)number;
        s->gid = user ? user->pw_gid : (unsigned)number;
        (void)snprintf(s->name, sizeof s->name, "%s", user ? user->pw_name : text);
        if (s->uid == 0) {
                (void)err_set(err, ERR_INPUT, "root needs no setup");
                return err_hint(err, "name the ordinary user who is to start sandboxes");
        }
        return 0;
}

static int parse_options(struct setup *s, int argc, char **argv, const char **user, struct err *err) {
        for (int i = 1; i < argc; i++) {
                const char **value = str_eq(argv[i], "--user") ? user : str_eq(argv[i], "--root") ? &s->root : NULL;
                if (str_eq(argv[i], "--remove"))
                        s->remove = true;
                else if (str_eq(argv[i], "--dry-run"))
                        s->dry = true;
                else if (str_eq(argv[i], "--check"))
                        s->check = true;
                else if (i + 1 < argc && value)
                        *value = argv[++i];
                else if (i + 1 < argc && str_eq(argv[i], "--enter")) {
                        char *end;
                        s->enter = strtol(argv[++i], &end, 10);
                        if (s->enter <= 0 || *end != '\0')
                                return err_set(err, ERR_INPUT, "'%s' is not a process number", argv[i]);
                } else {
                        (void)err_set(err, ERR_INPUT,
                                      value || str_eq(argv[i], "--enter") ? "setup %s needs a value"
                                                                          : "setup does not know '%s'",
                                      argv[i]);
                        return err_hint(err, "stockade setup --help");
                }
        }
        if (!*user && !s->check) {
                (void)err_set(err, ERR_INPUT, "setup needs to know for whom");
                return err_hint(err, "stockade setup --user NAME");
        }
        if (s->root[0] != '\0' && text_check_path(s->root, err) < 0)
                return err_prefix(err, ERR_INPUT, "--root");
        return 0;
}

int cmd_setup(int argc, char **argv) {
        struct setup s = {.root = ""};
        struct err err = {0};
        const char *user = NULL;

        for (int i = 1; i < argc; i++)
                if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
                        usage(stdout);
                        return 0;
                }
        int r = parse_options(&s, argc, argv, &user, &err);
        if (r == 0 && !s.check)
                r = find_user(&s, user, &err);
        if (r == 0 && geteuid() != 0 && !s.dry && !s.check) {
                r = err_set(&err, ERR_REFUSED, "setup changes this host and has to be run as root");
                (void)err_hint(&err, "sudo stockade setup --user %s (add --dry-run to see what it would do)", s.name);
        }
        if (r < 0) {
                err_print(&err);
                return EXIT_FAILED;
        }
        if (str_eq(s.root, "/"))
                s.root = "";
        if (s.check) {
                setup_check_ids(&s);
                if (s.failures > 0)
                        setup_note("take those ranges away, or sandboxes and they have the same files");
                return s.failures > 0 ? EXIT_FOUND : 0;
        }

        (void)printf("%s user %s (%u)\n", s.remove ? "taking back from" : "setting up", s.name, s.uid);
        if (s.root[0] == '\0')
                setup_cgroups(&s);
        setup_ids(&s);
        setup_apparmor(&s);
        if (s.failures > 0)
                (void)printf("%u of these steps failed\n", s.failures);
        return s.failures > 0 ? EXIT_FAILED : 0;
}
