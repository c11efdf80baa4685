/* Finds this process's cgroups: parses /proc/self/cgroup and, when it must, /proc/self/mountinfo. */
#include "cell/cgroup-place.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/fd.h"

enum { MOUNTINFO_MAX = 16 << 20 };

static const struct {
        const char *v1, *v2;
} controller_names[] = {
        [CGROUP_CPU] = {"cpu", "cpu"},    [CGROUP_CPUACCT] = {"cpuacct", NULL}, [CGROUP_MEMORY] = {"memory", "memory"},
        [CGROUP_PIDS] = {"pids", "pids"}, [CGROUP_IO] = {"blkio", "io"},
};
static_assert(ELEMENTSOF(controller_names) == CGROUP_CONTROLLERS, "every controller has a name");

const char *cgroup_place_controller(enum cgroup_controller k, bool v2) {
        return v2 ? controller_names[k].v2 : controller_names[k].v1;
}

void cgroup_place_free(struct cgroup_place *p) {
        free(p->mountinfo);
        p->mountinfo = NULL;
}

/* Is word one of the comma-separated words of list? */
static bool list_has(const char *list, const char *word) {
        size_t size = strlen(word);

        for (const char *s = list; s; s = strchr(s, ',')) {
                if (*s == ',')
                        s++;
                if (strncmp(s, word, size) == 0 && (s[size] == ',' || s[size] == '\0'))
                        return true;
        }
        return false;
}

/* Cuts the next part off *s at the separator; NULL when nothing is left. */
static char *cut(char **s, char separator) {
        char *part = *s;

        if (!part)
                return NULL;
        char *end = strchr(part, separator);
        if (end)
                *end++ = '\0';
        *s = end;
        return part;
}

void cgroup_place_parse(struct cgroup_place *p) {
        p->count = 0;
        p->v2 = -1;
        for (size_t k = 0; k < CGROUP_CONTROLLERS; k++)
                p->v1[k] = -1;

        char *rest = p->text;
        for (char *line; (line = cut(&rest, '\n')) && p->count < CGROUP_HIERARCHIES;) {
                (void)cut(&line, ':');
                const char *list = cut(&line, ':');
                if (!list || !line || line[0] != '/')
                        continue;

                /* outside our cgroup namespace, or removed under us: the mount's root is all that is left to use */
                size_t size = strlen(line);
                const char *deleted = " (deleted)";
                if (str_starts(line, "/..") || str_eq(line, "/") ||
                    (size > strlen(deleted) && str_eq(line + size - strlen(deleted), deleted)))
                        line += size;

                int h = (int)p->count++;
                p->hierarchies[h] = (struct cgroup_hierarchy){.list = list, .self = line, .own = line, .visible = true};
                if (list[0] == '\0')
                        p->v2 = h;
                for (size_t k = 0; k < CGROUP_CONTROLLERS; k++)
                        if (list[0] != '\0' && list_has(list, controller_names[k].v1))
                                p->v1[k] = h;
        }
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *s) {
        char *out = s;

        for (; *s; s++) {
                if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
                    s[3] <= '7') {
                        *out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
                        s += 3;
                } else
                        *out++ = *s;
        }
        *out = '\0';
}

/* A mount of hierarchy h whose root is `root`: usable if our own cgroup lies below it. A later mount covers or equals
 * an earlier one, so it wins, unless it is read-only. */
static void offer_mount(struct cgroup_place *p, size_t h, const char *root, const char *where, bool writable) {
        struct cgroup_hierarchy *hierarchy = &p->hierarchies[h];
        const char *own = hierarchy->self;

        if (hierarchy->mount && !writable)
                return;
        if (!str_eq(root, "/") && own[0] != '\0') {
                size_t size = strlen(root);
                if (strncmp(own, root, size) != 0 || (own[size] != '/' && own[size] != '\0'))
                        return;
                own += size;
        }
        hierarchy->own = own;
        hierarchy->mount = where;
        hierarchy->visible = true;
}

void cgroup_place_parse_mounts(struct cgroup_place *p, char *mountinfo) {
        for (size_t h = 0; h < p->count; h++)
                p->hierarchies[h].visible = false;
        p->mounts_known = true;

        for (char *line; (line = cut(&mountinfo, '\n'));) {
                char *field[6] = {NULL}; /* id, parent, device, root, mount point, options */
                char *right = strstr(line, " - ");
                if (!right)
                        continue;
                *right = '\0';
                right += 3;
                for (size_t i = 0; i < ELEMENTSOF(field); i++)
                        field[i] = cut(&line, ' ');
                char *type = cut(&right, ' ');
                (void)cut(&right, ' '); /* source */
                if (!field[5] || !type || !right || !str_starts(type, "cgroup"))
                        continue;

                unescape(field[3]);
                unescape(field[4]);
                bool v2 = str_eq(type, "cgroup2");
                for (size_t h = 0; h < p->count; h++) {
                        char first[64];
                        (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(p->hierarchies[h].list, ","),
                                       p->hierarchies[h].list);
                        if (v2 ? (int)h == p->v2 : first[0] != '\0' && list_has(right, first))
                                offer_mount(p, h, field[3], field[4],
                                            list_has(field[5], "rw") && list_has(right, "rw"));
                }
        }
}

int cgroup_place_find(struct cgroup_place *p, struct err *err) {
        ssize_t n = fd_read_at(AT_FDCWD, "/proc/self/cgroup", p->text, sizeof p->text);
        if (n < 0)
                return err_set(err, (int)n, "cannot read /proc/self/cgroup");
        if ((size_t)n >= sizeof p->text - 1)
                return err_set(err, ERR_LIMIT, "/proc/self/cgroup is larger than %zu bytes", sizeof p->text);
        cgroup_place_parse(p);
        return 0;
}

int cgroup_place_find_mounts(struct cgroup_place *p) {
        if (p->mounts_known)
                return 0;
        int r = fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, false, &p->mountinfo, NULL, NULL);
        if (r < 0)
                return r;
        cgroup_place_parse_mounts(p, p->mountinfo);
        return 0;
}

int cgroup_place_path(const struct cgroup_place *p, int h, const char *below, char *path) {
        if (h < 0 || !p->hierarchies[h].visible)
                return -ENOENT;

        const struct cgroup_hierarchy *hierarchy = &p->hierarchies[h];
        int n;
        if (hierarchy->mount)
                n = snprintf(path, PATH_MAX, "%s%s", hierarchy->mount, below);
        else if (h != p->v2)
                n = snprintf(path, PATH_MAX, "/sys/fs/cgroup/%s%s", hierarchy->list, below);
        else
                n = snprintf(path, PATH_MAX, "/sys/fs/cgroup%s%s", p->count > 1 ? "/unified" : "", below);
        return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int cgroup_place_v1(const struct cgroup_place *p, int h, unsigned n, char *path) {
        uid_t uid = geteuid();

        if (uid != 0 && n == 0) {
                char below[64];
                (void)snprintf(below, sizeof below, CGROUP_PARENT "/%u", uid);
                return cgroup_place_path(p, h, below, path);
        }
        return n > (uid != 0) || h < 0 ? -ENOENT : cgroup_place_path(p, h, p->hierarchies[h].own, path);
}

int cgroup_place_top(const struct cgroup_place *p, char *path) {
        int r = cgroup_place_path(p, p->v2, "", path);
        if (r < 0)
                return r;

        /* from the mount's root down: cut the path after one more part each time */
        const char *own = p->hierarchies[p->v2].own;
        size_t base = strlen(path);
        int denied = -EACCES;
        for (size_t size = 0;; size += 1 + strcspn(own + size + 1, "/")) {
                static const char procs[] = "/cgroup.procs";
                if (base + size + sizeof procs > PATH_MAX)
                        return -ENAMETOOLONG;
                memcpy(path + base, own, size);
                memcpy(path + base + size, procs, sizeof procs);
                bool found = access(path, W_OK) == 0;
                path[base + size] = '\0';
                if (found)
                        return own[size] == '\0';
                if (errno == EROFS || errno == ENOENT)
                        denied = -errno;
                if (own[size] == '\0')
                        return denied;
        }
}
