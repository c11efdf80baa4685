/* Says why a limit cannot be enforced here, and what would change that. Only runs when a start is refused anyway, so it
 * may look around; it changes nothing. */
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cgroup-make.h"

/* The fourth column of /proc/cgroups: 1 enabled, 0 disabled at boot, -1 not in this kernel. */
static int kernel_has(const char *name) {
        _cleanup_free_ char *text = NULL;
        size_t size = strlen(name);

        if (fd_read_file(AT_FDCWD, "/proc/cgroups", 1 << 16, false, &text, NULL, NULL) < 0)
                return -1;
        for (char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, name, size) == 0 && line[size] == '\t') {
                        size_t length = strcspn(line, "\n");
                        return length > 0 && line[length - 1] == '1';
                }
        }
        return -1;
}

/* Does a cgroup.controllers file name this controller? */
static bool controllers_have(const char *dir, const char *name) {
        char path[PATH_MAX], text[512], word[32];

        int n = snprintf(path, sizeof path, "%s/cgroup.controllers", dir);
        if (n < 0 || (size_t)n >= sizeof path || fd_read_at(AT_FDCWD, path, text + 1, sizeof text - 2) < 0)
                return false;
        text[0] = ' ';
        size_t size = strlen(text);
        text[size] = ' ';
        text[size + 1] = '\0';
        (void)snprintf(word, sizeof word, " %s ", name);
        return strstr(text, word) != NULL;
}

struct reason {
        char cause[256];
        char remedy[256];
};

static void _printf_(2, 3) set_cause(struct reason *why, const char *format, ...) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(why->cause, sizeof why->cause, format, args);
        va_end(args);
}

static void _printf_(2, 3) set_remedy(struct reason *why, const char *format, ...) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(why->remedy, sizeof why->remedy, format, args);
        va_end(args);
}

static void not_in_kernel(struct reason *why, const char *v1_name, const char *name) {
        int state = kernel_has(v1_name);

        if (state == 0) {
                set_cause(why, "the %s controller is disabled", name);
                set_remedy(why, "boot with cgroup_enable=%s", v1_name);
        } else if (state == 1) {
                set_cause(why, "the %s controller is in no cgroup tree that is mounted here", name);
                set_remedy(why,
                           "mount it: 'mkdir -p /sys/fs/cgroup/%s && mount -t cgroup -o %s cgroup /sys/fs/cgroup/%s'",
                           v1_name, v1_name, v1_name);
        } else {
                set_cause(why, "this kernel has no %s controller", name);
                set_remedy(why, "use a kernel that is built with it");
        }
}

static void not_allowed(struct reason *why, const struct cgroup_make *m, bool v2) {
        uid_t uid = geteuid();

        if (uid == 0) {
                set_cause(why, "this root may not create cgroups (it is root of a container)");
                set_remedy(why, "give the container its own writable cgroup tree");
        } else if (!v2) {
                set_cause(why, "user %u may not create cgroups", uid);
                set_remedy(why, "run 'stockade setup --user %u' once as root", uid);
        } else {
                set_cause(why, "user %u may not write the cgroup that it was started in (%s/)", uid,
                          m->place->hierarchies[m->place->v2].own);
                if (access("/run/systemd/system", F_OK) == 0)
                        set_remedy(why, "start it with 'systemd-run --user --scope -p Delegate=yes stockade run ...'");
                else
                        set_remedy(why, "run 'stockade setup --user %u --enter %d' as root", uid, (int)getppid());
        }
}

static void not_found(struct reason *why, const struct cgroup_make *m, enum cgroup_controller k, bool v2) {
        const char *v1_name = cgroup_place_controller(k, false);
        const char *name = v2 && cgroup_place_controller(k, true) ? cgroup_place_controller(k, true) : v1_name;
        char root[PATH_MAX];

        if (!v2 && m->place->v1[k] < 0)
                not_in_kernel(why, v1_name, name);
        else if (!v2 && m->c->home[k] < 0) {
                set_cause(why, "the %s controller is not mounted here", name);
                set_remedy(why, "mount it below /sys/fs/cgroup");
        } else if (!v2 || controllers_have(m->top, name)) {
                set_cause(why, "this kernel's %s controller has no such limit", name);
                set_remedy(why, "use a kernel that is built with it");
        } else if (cgroup_place_path(m->place, m->place->v2, "", root) < 0 || !controllers_have(root, name))
                not_in_kernel(why, v1_name, name);
        else {
                set_cause(why, "the %s controller is not passed down to cgroup %s", name, m->top);
                set_remedy(why, "run 'stockade setup --user %u' once as root, then log in again", geteuid());
        }
}

int cgroup_why(const struct cgroup_make *m, const struct cgroup_limit *limit, int r, struct err *err) {
        enum cgroup_controller k = limit->controller;
        bool v2 = m->place->v1[k] < 0 && m->place->v2 >= 0;
        struct reason why = {0};

        if (m->cause[0]) {
                set_cause(&why, "%s", m->cause);
                set_remedy(&why, "%s", m->remedy);
        } else if (r == -EACCES || r == -EPERM)
                not_allowed(&why, m, v2);
        else if (r == -ENOENT || (r == -EINVAL && v2))
                not_found(&why, m, k, v2);
        else if (r == -EROFS) {
                set_cause(&why, "the cgroup file system is mounted read-only here");
                set_remedy(&why, "mount it writable (for a container: its own cgroup tree)");
        } else if (r == -EBUSY) {
                set_cause(&why, "other processes live in cgroup %s, so it cannot pass controllers down", m->top);
                if (geteuid() == 0)
                        set_remedy(&why, "move them into a child cgroup of their own");
                else
                        set_remedy(&why, "start it with 'systemd-run --user --scope -p Delegate=yes stockade run ...'");
        } else {
                set_cause(&why, "%s", err_name(r));
                set_remedy(&why, "see 'stockade doctor'");
        }

        (void)err_set(err, ERR_UNENFORCED, "%s cannot be enforced: %s", limit->key, why.cause);
        (void)err_hint(err, "%s, or do without: --accept-missing %s", why.remedy, limit->key);
        return ERR_UNENFORCED;
}
