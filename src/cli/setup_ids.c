/* setup's ids: a range of subordinate user and group ids, so that a sandbox without root can have more than one user
 * inside; and an AppArmor profile where the distribution forbids user namespaces to programs without one.
 *
 * /etc/subuid and /etc/subgid are changed under the locks that useradd takes, and replaced whole. A range never
 * overlaps another line, an existing user, or the ids that Stockade itself gives to root's sandboxes. */
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cli/setup.h"

enum { RANGE_SIZE = 65536 };
#define RANGE_FIRST UINT64_C(100000)
#define OURS_FIRST  UINT64_C(1073741824) /* 0x40000000: sandboxes, then gates, then the operator */
#define OURS_END    UINT64_C(1879048192) /* 0x70000000 */

static const char *const files[] = {"/etc/subuid", "/etc/subgid"};

/* One line "name:first:count". Returns its length with the newline, and count 0 if it is not one. */
static size_t read_line(const char *line, size_t *ret_name, uint64_t *ret_first, uint64_t *ret_count) {
        size_t size = strcspn(line, "\n");

        *ret_count = 0;
        *ret_name = strcspn(line, ":\n");
        if (line[*ret_name] == ':') {
                char *end;
                *ret_first = strtoull(line + *ret_name + 1, &end, 10);
                if (*end == ':')
                        *ret_count = strtoull(end + 1, NULL, 10);
        }
        return size + (line[size] == '\n');
}

static bool is_user(const struct setup *s, const char *name, size_t size) {
        char number[16];

        (void)snprintf(number, sizeof number, "%u", s->uid);
        return (size == strlen(s->name) && strncmp(name, s->name, size) == 0) ||
               (size == strlen(number) && strncmp(name, number, size) == 0);
}

/* The user's line in a file's text, or NULL. */
static const char *find_line(const struct setup *s, const char *text) {
        size_t size, name;
        uint64_t first, count;

        for (const char *line = text; *line; line += size) {
                size = read_line(line, &name, &first, &count);
                if (count > 0 && is_user(s, line, name))
                        return line;
        }
        return NULL;
}

/* Moves *start behind any range of text that it would overlap. True if it moved. */
static bool step_over(const char *text, uint64_t *start) {
        size_t size, name;
        uint64_t first, count;

        for (const char *line = text; *line; line += size) {
                size = read_line(line, &name, &first, &count);
                if (count > 0 && first < *start + RANGE_SIZE && *start < first + count) {
                        *start = first + count;
                        return true;
                }
        }
        return false;
}

static bool step_over_users(uint64_t *start) {
        bool moved = false;

        setpwent();
        for (const struct passwd *user; (user = getpwent());)
                if (user->pw_uid >= *start && user->pw_uid < *start + RANGE_SIZE && user->pw_uid != (uid_t)-1) {
                        *start = (uint64_t)user->pw_uid + 1;
                        moved = true;
                }
        endpwent();
        return moved;
}

/* The lowest free range, the same in both files. 0 when there is none. */
static uint64_t find_free(char *const texts[2]) {
        uint64_t start = RANGE_FIRST;

        for (bool moved = true; moved;) {
                moved = step_over(texts[0], &start) || step_over(texts[1], &start) || step_over_users(&start);
                if (start + RANGE_SIZE > OURS_FIRST && start < OURS_END) {
                        start = OURS_END;
                        moved = true;
                }
                if (start + RANGE_SIZE >= UINT32_MAX)
                        return 0;
        }
        return start;
}

/* The .lock file that useradd and usermod respect, held from before the file is read until after it is replaced. */
static int take_lock(const char *path) {
        char lock[PATH_MAX + 8], pid[32];

        (void)snprintf(lock, sizeof lock, "%s.lock", path);
        _cleanup_fd_ int fd = open(lock, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        int size = snprintf(pid, sizeof pid, "%d", (int)getpid());
        return fd_write_full(fd, pid, (size_t)size);
}

static void drop_lock(const char *path) {
        char lock[PATH_MAX + 8];

        (void)snprintf(lock, sizeof lock, "%s.lock", path);
        (void)unlink(lock);
}

/* Replaces path with text, keeping its mode. */
static int replace(const char *path, const char *text) {
        char dir_name[PATH_MAX];
        struct stat st;

        (void)snprintf(dir_name, sizeof dir_name, "%s", path);
        char *name = strrchr(dir_name, '/');
        *name++ = '\0';
        _cleanup_fd_ int dir = open(dir_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return -errno;
        mode_t mode = stat(path, &st) == 0 ? st.st_mode & 0777 : 0644;
        return fd_replace_file(dir, name, mode, text, strlen(text));
}

/* What setup added for this user, so that --remove takes back that and nothing else. */
static void note_path(const struct setup *s, char path[static PATH_MAX]) {
        (void)snprintf(path, PATH_MAX, "%s" SETUP_NOTES "/%u", s->root, s->uid);
}

static void add_range(struct setup *s, const char *path, const char *text, uint64_t start) {
        _cleanup_buf_ struct buf out = {0};
        size_t size = strlen(text);

        setup_step(s, "give %s ids %llu to %llu in %s", s->name, (unsigned long long)start,
                   (unsigned long long)(start + RANGE_SIZE - 1), path);
        if (!setup_wanted(s, false))
                return;
        buf_add(&out, text, size);
        if (size > 0 && text[size - 1] != '\n')
                buf_str(&out, "\n");
        buf_printf(&out, "%s:%llu:%d\n", s->name, (unsigned long long)start, RANGE_SIZE);
        setup_done(s, buf_ok(&out) ? replace(path, out.data) : -ENOMEM);
}

static void remove_range(struct setup *s, const char *path, const char *text, const char *ours) {
        const char *line = find_line(s, text);
        size_t size = line ? strcspn(line, "\n") : 0;

        setup_step(s, "take %s's ids out of %s", s->name, path);
        if (!line || strncmp(line, ours, size) != 0 || (ours[size] != '\n' && ours[size] != '\0')) {
                if (line)
                        setup_note("the range of %s in %s was there before: it stays", s->name, path);
                else
                        (void)setup_wanted(s, true);
                return;
        }
        if (!setup_wanted(s, false))
                return;
        _cleanup_buf_ struct buf out = {0};
        buf_add(&out, text, (size_t)(line - text));
        buf_str(&out, line + size + (line[size] == '\n'));
        setup_done(s, buf_ok(&out) ? replace(path, out.data ? out.data : "") : -ENOMEM);
}

/* Both files are locked and read. */
static void change_ids(struct setup *s, char paths[2][PATH_MAX], char *const texts[2]) {
        _cleanup_free_ char *ours = NULL;
        char note[PATH_MAX], text[128];

        note_path(s, note);
        (void)fd_read_file(AT_FDCWD, note, 4096, true, &ours, NULL, NULL);
        if (s->remove) {
                for (size_t i = 0; i < ELEMENTSOF(files); i++)
                        remove_range(s, paths[i], texts[i], ours ? ours : "");
                (void)setup_file(s, note + strlen(s->root), "", "what setup had given");
                return;
        }

        uint64_t start = find_free(texts);
        bool added = false;
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                setup_step(s, "give %s a range of ids in %s", s->name, paths[i]);
                if (find_line(s, texts[i]))
                        (void)setup_wanted(s, true);
                else if (start == 0)
                        setup_done(s, -ENOSPC);
                else {
                        add_range(s, paths[i], texts[i], start);
                        added = true;
                }
        }
        (void)snprintf(text, sizeof text, "%s:%llu:%d\n", s->name, (unsigned long long)start, RANGE_SIZE);
        (void)setup_file(s, note + strlen(s->root), added ? text : ours ? ours : "", "what to take back with --remove");
}

void setup_ids(struct setup *s) {
        _cleanup_free_ char *users = NULL, *groups = NULL;
        char paths[2][PATH_MAX];
        size_t locked = 0;
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                (void)snprintf(paths[i], sizeof paths[i], "%s%s", s->root, files[i]);
        for (; !s->dry && locked < ELEMENTSOF(files); locked++) {
                r = take_lock(paths[locked]);
                if (r < 0)
                        break;
        }
        if (r < 0) {
                setup_step(s, "lock %s", paths[locked]);
                setup_done(s, r);
                if (r == -EEXIST)
                        setup_note("another program is changing it; if none is, delete %s.lock", paths[locked]);
        } else {
                if (fd_read_file(AT_FDCWD, paths[0], 1 << 22, false, &users, NULL, NULL) < 0)
                        users = calloc(1, 1);
                if (fd_read_file(AT_FDCWD, paths[1], 1 << 22, false, &groups, NULL, NULL) < 0)
                        groups = calloc(1, 1);
                if (users && groups)
                        change_ids(s, paths, (char *const[]){users, groups});
        }
        while (locked > 0)
                drop_lock(paths[--locked]);
}

/* Every line of a file whose range meets ours. */
static void check_ranges(struct setup *s, const char *path, const char *text) {
        size_t size, name;
        uint64_t first, count;

        for (const char *line = text; *line; line += size) {
                size = read_line(line, &name, &first, &count);
                if (count == 0 || first >= OURS_END || first + count <= OURS_FIRST)
                        continue;
                setup_step(s, "%s gives %.*s ids %llu to %llu, and sandboxes have %llu to %llu", path,
                           (int)MIN(name, (size_t)64), line, (unsigned long long)first,
                           (unsigned long long)(first + count - 1), (unsigned long long)OURS_FIRST,
                           (unsigned long long)OURS_END - 1);
                setup_done(s, -EEXIST);
        }
}

void setup_check_ids(struct setup *s) {
        char path[PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_free_ char *text = NULL;

                (void)snprintf(path, sizeof path, "%s%s", s->root, files[i]);
                if (fd_read_file(AT_FDCWD, path, 1 << 22, false, &text, NULL, NULL) == 0)
                        check_ranges(s, path, text);
        }
        if (s->root[0] == '\0') {
                setpwent();
                for (const struct passwd *user; (user = getpwent());)
                        if (user->pw_uid >= OURS_FIRST && user->pw_uid < OURS_END) {
                                setup_step(s, "the user %.64s has id %u, which is a sandbox's", user->pw_name,
                                           user->pw_uid);
                                setup_done(s, -EEXIST);
                        }
                endpwent();
        }
        setup_step(s, "ids %llu to %llu are nobody else's", (unsigned long long)OURS_FIRST,
                   (unsigned long long)OURS_END - 1);
        if (s->failures == 0)
                (void)setup_wanted(s, true);
}

void setup_apparmor(struct setup *s) {
        static const char path[] = "/etc/apparmor.d/stockade";
        char program[PATH_MAX], text[PATH_MAX + 512], now[8] = "0";

        (void)fd_read_at(AT_FDCWD, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", now, sizeof now);
        if (s->root[0] != '\0' || (s->remove ? access(path, F_OK) < 0 : !str_eq(now, "1")))
                return;
        if (s->remove) {
                static const char *const unload[] = {"apparmor_parser", "-R", path, NULL};
                if (!setup_is_last(s))
                        setup_note("%s stays: it serves other users who were set up", path);
                else {
                        setup_step(s, "apparmor_parser -R %s", path);
                        if (setup_wanted(s, false))
                                setup_done(s, setup_spawn(unload));
                        (void)setup_file(s, path, "", "user namespaces for Stockade");
                }
                return;
        }
        ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
        if (n <= 0)
                return;
        program[n] = '\0';
        (void)snprintf(
                text, sizeof text,
                "# Written by `stockade setup`: lets Stockade create user namespaces. It confines what it starts.\n"
                "abi <abi/4.0>,\n"
                "include <tunables/global>\n"
                "\n"
                "profile stockade \"%s\" flags=(unconfined) {\n"
                "  userns,\n"
                "  include if exists <local/stockade>\n"
                "}\n",
                program);
        if (setup_file(s, path, text, "user namespaces for Stockade") == 1) {
                static const char *const load[] = {"apparmor_parser", "-r", path, NULL};
                setup_step(s, "apparmor_parser -r %s", path);
                setup_done(s, setup_spawn(load));
        }
}
