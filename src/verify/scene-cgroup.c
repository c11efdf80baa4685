/* Reads the cgroups of a process from outside, on cgroup v2, on v1 and on hybrid hosts: /proc/PID/cgroup says which,
 * /proc/self/mountinfo where they are. Changes nothing. */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/scene.h"

enum { LEVELS = 8 }; /* of groups in groups that are looked at */

/* Is word one of the comma-separated words of list (of n bytes)? */
static bool has_word(const char *list, size_t n, const char *word) {
        size_t size = strlen(word);

        for (const char *s = list; s < list + n;) {
                size_t part = strcspn(s, ",");

                part = MIN(part, (size_t)(list + n - s));
                if (part == size && strncmp(s, word, size) == 0)
                        return true;
                s += part + 1;
        }
        return false;
}

/* The mount point of this hierarchy ("" is v2) and the part of the tree that it shows. */
static bool find_mount(const char *controller, char *where, size_t size, char *root, size_t root_size) {
        _cleanup_free_ char *text = NULL;
        size_t n = 0;
        bool found = false;

        if (fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 4 << 20, false, &text, &n, NULL) < 0)
                return false;
        for (char *line = text, *next; line && *line; line = next) {
                char r[PATH_MAX], w[PATH_MAX], type[32], super[1024];
                const char *right;

                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                right = strstr(line, " - ");
                if (!right || sscanf(line, "%*s %*s %*s %4095s %4095s", r, w) != 2 ||
                    sscanf(right, " - %31s %*s %1023s", type, super) != 2)
                        continue;
                if (controller[0] ? !str_eq(type, "cgroup") || !has_word(super, strlen(super), controller)
                                  : !str_eq(type, "cgroup2"))
                        continue;
                (void)snprintf(where, size, "%s", w);
                (void)snprintf(root, root_size, "%s", r);
                found = true;
        }
        return found;
}

/* Where this line of /proc/PID/cgroup is in our tree. */
static bool folder_of(const char *controller, const char *path, char *ret, size_t size) {
        char where[PATH_MAX], root[PATH_MAX];

        if (!find_mount(controller, where, sizeof where, root, sizeof root))
                return false;
        size_t n = str_eq(root, "/") ? 0 : strlen(root);
        if (strncmp(path, root, n) != 0 || str_starts(path, "/.."))
                return false;
        int used = snprintf(ret, size, "%s%s", where, str_eq(path + n, "/") ? "" : path + n);
        return used > 0 && (size_t)used < size;
}

/* Calls fn for every line, with its list of controllers ("" for v2) and its path; stops when fn says true. */
static bool each_line(pid_t pid, bool (*fn)(const char *list, size_t n, const char *path, void *data), void *data) {
        char name[64], text[8192];

        (void)snprintf(name, sizeof name, "/proc/%d/cgroup", (int)pid);
        if (fd_read_at(AT_FDCWD, name, text, sizeof text) <= 0)
                return false;
        for (char *line = text, *next; line && *line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
                if (path && fn(list + 1, (size_t)(path - list - 1), path + 1, data))
                        return true;
        }
        return false;
}

struct wanted {
        const char *controller, *name2, *name1;
        char *buf;
        size_t size;
};

/* "max", "-1", or as much as v1 says for no limit. */
static bool is_unlimited(const char *text) {
        return str_starts(text, "max") || text[0] == '-' || strtoull(text, NULL, 10) >= 1ULL << 62;
}

/* A run of a sandbox that lives is in a group of its own, and the limits are those of the group above it. */
static bool read_from(const char *list, size_t n, const char *path, void *data) {
        struct wanted *w = data;
        char place[PATH_MAX], folder[PATH_MAX], file[PATH_MAX + 64];
        bool v2 = n == 0, found = false;

        if (!v2 && !has_word(list, n, w->controller))
                return false;
        (void)snprintf(place, sizeof place, "%s", path);
        for (unsigned up = 0; up < LEVELS && folder_of(v2 ? "" : w->controller, place, folder, sizeof folder); up++) {
                char text[128];

                (void)snprintf(file, sizeof file, "%s/%s", folder, v2 ? w->name2 : w->name1);
                if (fd_read_at(AT_FDCWD, file, text, sizeof text) >= 0) {
                        (void)snprintf(w->buf, w->size, "%s", text);
                        found = true;
                        if (!is_unlimited(text))
                                break;
                }
                char *slash = strrchr(place, '/');
                if (!slash || slash == place)
                        break;
                *slash = '\0';
        }
        return found;
}

bool scene_cgroup(pid_t pid, const char *controller, const char *name2, const char *name1, char *buf, size_t size) {
        struct wanted w = {controller, name2, name1, buf, size};

        return each_line(pid, read_from, &w);
}

static bool add_folder(const char *list, size_t n, const char *path, void *data) {
        char folder[PATH_MAX], first[64];

        if (n > 0 && strncmp(list, "name=", 5) == 0)
                return false;
        (void)snprintf(first, sizeof first, "%.*s", (int)MIN(strcspn(list, ","), n), list);
        if (folder_of(first, path, folder, sizeof folder))
                buf_printf(data, "%s\n", folder);
        return false;
}

void scene_cgroup_folders(pid_t pid, struct buf *ret) {
        (void)each_line(pid, add_folder, ret);
}
