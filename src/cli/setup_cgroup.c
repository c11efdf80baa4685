/* setup's cgroups: what lets a user create cgroups of its own.
 *
 * v1: a directory per hierarchy that belongs to the user, <mount>/stockade/<uid>; a user may move its own processes
 * there from anywhere. v2: processes can only be born below a cgroup that the user may write and that they already
 * are below, so systemd's user manager gets the controllers (a drop-in); without systemd the user gets a subtree with a
 * `shell` leaf that root moves the user's shell into. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cell/cgroup-place.h"
#include "cli/setup.h"

#define DROP_IN "/etc/systemd/system/user@.service.d/stockade-delegate.conf"

/* What a v2 cgroup's owner has to own, besides the directory. */
static const char *const v2_files[] = {"cgroup.procs", "cgroup.subtree_control", "cgroup.threads"};

static bool owned(const char *path, unsigned uid) {
        struct stat st;

        return stat(path, &st) == 0 && st.st_uid == uid;
}

static int give(const struct setup *s, const char *path) {
        return lchown(path, s->uid, s->gid) < 0 ? -errno : 0;
}

/* One directory for the user below an existing hierarchy; files are given too. */
static void give_directory(struct setup *s, const char *path, const char *const *files, size_t count) {
        char file[PATH_MAX + 64];
        bool already = owned(path, s->uid);

        for (size_t i = 0; i < count; i++) {
                (void)snprintf(file, sizeof file, "%s/%s", path, files[i]);
                already = already && owned(file, s->uid);
        }
        setup_step(s, "make %s, owned by %s", path, s->name);
        if (!setup_wanted(s, already))
                return;
        int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : give(s, path);
        for (size_t i = 0; i < count && r == 0; i++) {
                (void)snprintf(file, sizeof file, "%s/%s", path, files[i]);
                r = give(s, file);
        }
        setup_done(s, r);
}

/* Removes a directory that setup made, and first the empty ones that launchers leave inside. */
static void take_directory(struct setup *s, const char *path) {
        static const char *const inside[] = {CGROUP_PARENT "/" CGROUP_LAUNCHER, CGROUP_PARENT, "/shell"};
        char child[PATH_MAX + 64];

        setup_step(s, "remove %s", path);
        if (!setup_wanted(s, access(path, F_OK) < 0))
                return;
        for (size_t i = 0; i < ELEMENTSOF(inside); i++) {
                (void)snprintf(child, sizeof child, "%s%s", path, inside[i]);
                (void)rmdir(child);
        }
        int r = rmdir(path) < 0 ? -errno : 0;
        setup_done(s, r);
        if (r == -EBUSY)
                setup_note("sandboxes or processes still live in %s: end them and run this again", path);
}

/* <mount>/stockade/<uid> of a hierarchy. The parent stays root's; it goes when its last user does. */
static int user_directory(const struct setup *s, const struct cgroup_place *p, int h, char path[static PATH_MAX]) {
        char below[64];

        (void)snprintf(below, sizeof below, CGROUP_PARENT "/%u", s->uid);
        return cgroup_place_path(p, h, below, path);
}

static int make_parent(const struct setup *s, const struct cgroup_place *p, int h) {
        char parent[PATH_MAX];

        int r = cgroup_place_path(p, h, CGROUP_PARENT, parent);
        if (r < 0 || s->dry || s->remove)
                return r;
        return mkdir(parent, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static void remove_parent(const struct setup *s, const struct cgroup_place *p, int h) {
        char parent[PATH_MAX];

        if (!s->dry && cgroup_place_path(p, h, CGROUP_PARENT, parent) == 0)
                (void)rmdir(parent);
}

static void setup_v1(struct setup *s, const struct cgroup_place *p, struct buf *boot) {
        char path[PATH_MAX];

        for (int k = 0; k < CGROUP_CONTROLLERS; k++) {
                int h = p->v1[k];
                bool seen = h < 0;
                for (int other = 0; other < k; other++)
                        seen |= p->v1[other] == h;
                if (seen || user_directory(s, p, h, path) < 0)
                        continue;
                if (s->remove) {
                        take_directory(s, path);
                        remove_parent(s, p, h);
                        continue;
                }
                (void)make_parent(s, p, h);
                give_directory(s, path, NULL, 0);
                buf_printf(boot, "d %s 0755 %u %u -\n", path, s->uid, s->gid);
        }
}

/* Controllers for everything below dir. */
static void pass_down(struct setup *s, const char *dir) {
        static const char *const names[] = {"cpu", "memory", "pids", "io"};
        char file[PATH_MAX + 64], now[256] = "";

        (void)snprintf(file, sizeof file, "%s/cgroup.subtree_control", dir);
        (void)fd_read_at(AT_FDCWD, file, now, sizeof now);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char text[16];
                setup_step(s, "pass the %s controller down from %s", names[i], dir);
                (void)snprintf(text, sizeof text, "+%s", names[i]);
                if (setup_wanted(s, strstr(now, names[i]) != NULL))
                        setup_done(s, fd_write_at(AT_FDCWD, file, text));
        }
}

static void enter(struct setup *s, const char *shell) {
        char path[PATH_MAX + 64], text[32];
        struct stat st;

        setup_step(s, "move process %ld into %s", s->enter, shell);
        if (!setup_wanted(s, false))
                return;
        (void)snprintf(path, sizeof path, "/proc/%ld", s->enter);
        int r = stat(path, &st) < 0 ? -ESRCH : st.st_uid != s->uid ? -EPERM : 0;
        (void)snprintf(path, sizeof path, "%s/cgroup.procs", shell);
        (void)snprintf(text, sizeof text, "%ld", s->enter);
        setup_done(s, r < 0 ? r : fd_write_at(AT_FDCWD, path, text));
        if (r == -EPERM)
                setup_note("process %ld belongs to user %u, not to %s", s->enter, st.st_uid, s->name);
}

/* A v2 subtree for the user. controllers: it is to have limits too (on hybrid hosts those are v1's). */
static void setup_v2_tree(struct setup *s, const struct cgroup_place *p, bool controllers, struct buf *boot) {
        char root[PATH_MAX], parent[PATH_MAX], path[PATH_MAX], shell[PATH_MAX + 16];

        if (cgroup_place_path(p, p->v2, "", root) < 0 || cgroup_place_path(p, p->v2, CGROUP_PARENT, parent) < 0 ||
            user_directory(s, p, p->v2, path) < 0)
                return;
        if (s->remove) {
                take_directory(s, path);
                remove_parent(s, p, p->v2);
                return;
        }
        (void)make_parent(s, p, p->v2);
        if (controllers) {
                pass_down(s, root);
                pass_down(s, parent);
        }
        give_directory(s, path, v2_files, ELEMENTSOF(v2_files));
        (void)snprintf(shell, sizeof shell, "%s/shell", path);
        give_directory(s, shell, v2_files, 1);
        buf_printf(boot, "d %s 0755 %u %u -\nd %s 0755 %u %u -\n", path, s->uid, s->gid, shell, s->uid, s->gid);
        for (size_t i = 0; i < ELEMENTSOF(v2_files); i++)
                buf_printf(boot, "z %s/%s 0644 %u %u -\n", path, v2_files[i], s->uid, s->gid);
        buf_printf(boot, "z %s/cgroup.procs 0644 %u %u -\n", shell, s->uid, s->gid);
        if (s->enter)
                enter(s, shell);
        else if (controllers)
                setup_note("a shell of %s can use this once it is in there: stockade setup --user %s --enter PID",
                           s->name, s->name);
}

/* The same directories at the next boot: cgroup trees are made anew by every boot. */
static void setup_boot(struct setup *s, const struct buf *boot) {
        char path[128];

        (void)snprintf(path, sizeof path, "/etc/tmpfiles.d/stockade-%u.conf", s->uid);
        if (s->remove || setup_has_systemd())
                (void)setup_file(s, path, boot->data ? boot->data : "", "the same cgroups after a reboot");
        else
                setup_note("cgroups vanish at reboot: have your boot scripts run 'stockade setup --user %s'", s->name);
}

static void setup_systemd(struct setup *s) {
        static const char text[] = "# Written by `stockade setup`: the controllers that sandboxes without root need.\n"
                                   "[Service]\n"
                                   "Delegate=cpu cpuset io memory pids\n";

        if (s->remove && !setup_is_last(s)) {
                setup_note("%s stays: it serves other users who were set up", DROP_IN);
                return;
        }
        if (setup_file(s, DROP_IN, text, "controllers for users' own cgroups") == 1) {
                static const char *const reload[] = {"systemctl", "daemon-reload", NULL};
                setup_step(s, "systemctl daemon-reload");
                setup_done(s, setup_spawn(reload));
                setup_note("this takes effect when %s has logged out everywhere and in again", s->name);
        }
        if (s->enter)
                setup_note("--enter is not needed under systemd: systemd-run --user --scope -p Delegate=yes stockade "
                           "run ...");
}

void setup_cgroups(struct setup *s) {
        _cleanup_cgroup_place_ struct cgroup_place place = {0};
        _cleanup_buf_ struct buf boot = {0};
        struct err err;
        bool v1 = false;

        int r = cgroup_place_find(&place, &err);
        if (r == 0)
                r = cgroup_place_find_mounts(&place);
        if (r < 0) {
                setup_step(s, "find this host's cgroups");
                setup_done(s, r);
                return;
        }
        for (size_t k = 0; k < CGROUP_CONTROLLERS; k++)
                v1 |= place.v1[k] >= 0;
        if (!v1 && place.v2 < 0)
                setup_note("no cgroup tree is mounted: mount -t cgroup2 cgroup2 /sys/fs/cgroup, then run this again");
        else if (!v1 && setup_has_systemd())
                setup_systemd(s);
        else {
                buf_str(&boot, "# Written by `stockade setup`: cgroups of a user for sandboxes without root.\n");
                setup_v1(s, &place, &boot);
                if (place.v2 >= 0)
                        setup_v2_tree(s, &place, !v1, &boot);
                setup_boot(s, &boot);
        }
}
