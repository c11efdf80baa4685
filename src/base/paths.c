#include "base/paths.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = {"cli",    "gate", "verify", "probe",  "warden", "operator",
                                      "ledger", "pack", "ssh",    "remote", "driver"};

/* Is this a folder of a build, which has one for each folder of the source? Anywhere else the folders beside ours are
 * none of our business: a sandbox may be allowed to write there. */
static bool in_build(const char *self) {
        const char *last = strrchr(self, '/');

        if (!last || last - self < 4 || memcmp(last - 4, "/src", 4) != 0)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(folders); i++)
                if (str_eq(last + 1, folders[i]))
                        return true;
        return false;
}

static bool is_program(char *path, size_t size, const char *folder, const char *more, const char *name) {
        int n = snprintf(path, size, "%s%s%s/%s", folder, more[0] ? "/../" : "", more, name);

        return n > 0 && (size_t)n < size && access(path, X_OK) == 0;
}

/* Beside this program; in a build, in the folder of its source; else where it was installed. */
int paths_helper(const char *name, char *ret, size_t size, struct err *err) {
        static char self[PATH_MAX];

        if (self[0] == '\0') {
                ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
                if (n < 0)
                        return err_set(err, -errno, "cannot read /proc/self/exe");
                self[n] = '\0';
                char *slash = strrchr(self, '/');
                if (slash)
                        *slash = '\0';
        }
        if (is_program(ret, size, self, "", name))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(folders) && in_build(self); i++)
                if (is_program(ret, size, self, folders[i], name))
                        return 0;
        if (is_program(ret, size, STOCKADE_LIBEXECDIR, "", name) || is_program(ret, size, STOCKADE_BINDIR, "", name))
                return 0;
        (void)err_set(err, -ENOENT, "cannot find our program '%s' beside this one or in " STOCKADE_LIBEXECDIR, name);
        return err_hint(err, "reinstall Stockade, or run it from its build folder");
}

/* The part of a colon list with this index, or false. */
static bool part_of(const char *list, size_t i, char *ret, size_t size) {
        for (; list; list = strchr(list, ':') ? strchr(list, ':') + 1 : NULL)
                if (i-- == 0) {
                        (void)snprintf(ret, size, "%.*s", (int)strcspn(list, ":"), list);
                        return true;
                }
        return false;
}

bool paths_own(size_t i, char *ret, size_t size) {
        const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        static const char *const fixed[] = {"/etc/stockade", "/run/stockade", "/var/cache/stockade",
                                            "/var/lib/stockade", STOCKADE_LIBEXECDIR};
        enum { CACHE = ELEMENTSOF(fixed), STATE, CONFIG, PROGRAM, LISTED };

        ret[0] = '\0';
        if (i < ELEMENTSOF(fixed))
                (void)snprintf(ret, size, "%s", fixed[i]);
        else if (i == CACHE || i == STATE) {
                if (paths_state_name("", i == CACHE, ret, size) == 0)
                        ret[strlen(ret) - 1] = '\0'; /* the slash before the empty name */
        } else if (i == CONFIG && xdg && xdg[0] == '/')
                (void)snprintf(ret, size, "%s/stockade", xdg);
        else if (i == CONFIG && home && home[0] == '/')
                (void)snprintf(ret, size, "%s/.config/stockade", home);
        else if (i == PROGRAM) {
                ssize_t n = readlink("/proc/self/exe", ret, size - 1);
                ret[n > 0 ? n : 0] = '\0';
        } else if (i >= LISTED)
                return part_of(getenv("STOCKADE_PROFILES"), i - LISTED, ret, size);
        return true;
}

int paths_make_parents(char *path) {
        for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
                *s = '\0';
                int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
                *s = '/';
                if (r < 0)
                        return r;
        }
        return 0;
}

/* mkdir -p below dir, every part 0700 and ours. Returns a descriptor of the last. */
static int make_dirs(int dir, char *path) {
        for (char *part = path; part && *part;) {
                char *slash = strchr(part, '/');

                if (slash)
                        *slash = '\0';
                if (mkdirat(dir, part, 0700) < 0 && errno != EEXIST) {
                        int r = -errno;
                        (void)close(dir);
                        return r;
                }
                int next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                int r = -errno;
                (void)close(dir);
                if (next < 0)
                        return r;
                dir = next;
                part = slash ? slash + 1 : NULL;
        }
        struct stat st;
        if (fstat(dir, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
                (void)close(dir);
                return -EPERM;
        }
        return dir;
}

int paths_state_name(const char *name, bool cache, char *ret, size_t size) {
        const char *xdg = getenv(cache ? "XDG_CACHE_HOME" : "XDG_STATE_HOME"), *home = getenv("HOME");
        int n;

        if (geteuid() == 0)
                n = snprintf(ret, size, "/var/%s/stockade/%s", cache ? "cache" : "lib", name);
        else if (xdg && xdg[0] == '/')
                n = snprintf(ret, size, "%s/stockade/%s", xdg, name);
        else if (home && home[0] == '/')
                n = snprintf(ret, size, "%s/%s/stockade/%s", home, cache ? ".cache" : ".local/state", name);
        else
                return -ENOENT;
        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int paths_state_dir(const char *name, bool cache, struct err *err) {
        char path[PATH_MAX];

        int r = paths_state_name(name, cache, path, sizeof path);
        if (r < 0) {
                (void)err_set(err, r, "cannot tell where to keep '%s'", name);
                return err_hint(err, "set HOME or XDG_%s_HOME", cache ? "CACHE" : "STATE");
        }
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;
        if (fd >= 0) {
                if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022))
                        return fd;
                (void)close(fd);
                return err_set(err, -EPERM, "'%s' belongs to somebody else or others can write to it", path);
        }
        int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return err_set(err, -errno, "cannot open '/'");
        char parts[PATH_MAX];
        (void)snprintf(parts, sizeof parts, "%s", path + 1);
        fd = make_dirs(root, parts);
        return fd < 0 ? err_set(err, fd, "cannot make '%s'", path) : fd;
}
