/* A workspace for tests: a lower directory on disk, and a real overlay over it whose upper layer is on a tmpfs, in a
 * mount namespace of the test's own. Needs root. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"
#include "disk/diff.h"
#include "disk/show.h"
#include "disk/tree.h"

struct workspace {
        char base[64];
        int base_fd, lower, upper, state;
        struct timespec start;
        bool userxattr;
};

/* Runs a script in base, which holds lower/, upper/ (t/upper), view/ and state/. Returns its exit status. */
static int sh(const struct workspace *w, const char *script) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                if (chdir(w->base) == 0)
                        (void)execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
                _exit(125);
        }
        (void)waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

static int mount_view(struct workspace *w) {
        char options[400], view[80], tmpfs[80];

        (void)snprintf(view, sizeof view, "%s/view", w->base);
        (void)snprintf(tmpfs, sizeof tmpfs, "%s/t", w->base);
        if (mount("tmpfs", tmpfs, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,nr_inodes=200k") < 0)
                return -errno;
        if (sh(w, "mkdir t/upper t/work") != 0)
                return -EIO;
        (void)snprintf(options, sizeof options,
                       "lowerdir=%s/lower,upperdir=%s/t/upper,workdir=%s/t/work,metacopy=off,redirect_dir=off%s",
                       w->base, w->base, w->base, w->userxattr ? ",userxattr" : "");
        /* userxattr and redirect_dir exclude each other, whatever the value is */
        if (w->userxattr)
                (void)snprintf(options, sizeof options,
                               "lowerdir=%s/lower,upperdir=%s/t/upper,workdir=%s/t/work,userxattr", w->base, w->base,
                               w->base);
        return mount("overlay", view, "overlay", 0, options) < 0 ? -errno : 0;
}

/* Makes lower with the first script (in lower/), then runs the second in the view, as a sandbox would. */
static int workspace_open(struct workspace *w, const char *before, const char *inside) {
        static bool private_mounts;
        _cleanup_free_ char *script = NULL;

        if (!private_mounts && (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
                return -errno;
        private_mounts = true;
        w->base_fd = w->lower = w->upper = w->state = -EBADF;
        (void)snprintf(w->base, sizeof w->base, "/tmp/stockade-test-XXXXXX");
        if (!mkdtemp(w->base))
                return -errno;
        w->base_fd = open(w->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (sh(w, "umask 022; mkdir lower t view state") != 0 ||
            asprintf(&script, "umask 022; cd lower; %s", before) < 0)
                return -EIO;
        if (sh(w, script) != 0)
                return -EIO;
        (void)clock_gettime(CLOCK_REALTIME, &w->start);
        int r = mount_view(w);
        if (r < 0)
                return r;
        free(TAKE_PTR(script));
        if (asprintf(&script, "umask 022; cd view; %s", inside) < 0)
                return -EIO;
        r = sh(w, script);
        w->lower = openat(w->base_fd, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->upper = openat(w->base_fd, "t/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->state = openat(w->base_fd, "state", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return r == 0 ? 0 : -EIO;
}

static void workspace_unmount_view(struct workspace *w) {
        char view[80];

        (void)snprintf(view, sizeof view, "%s/view", w->base);
        (void)umount2(view, MNT_DETACH);
}

static void workspace_close(struct workspace *w) {
        char tmpfs[80];
        struct err err = {0};

        workspace_unmount_view(w);
        fd_close(&w->upper);
        fd_close(&w->lower);
        fd_close(&w->state);
        (void)snprintf(tmpfs, sizeof tmpfs, "%s/t", w->base);
        (void)umount2(tmpfs, MNT_DETACH);
        fd_close(&w->base_fd);
        if (w->base[0] == '/') {
                int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
                int r = tree_remove(tmp, w->base + strlen("/tmp/"));
                if (r < 0)
                        (void)printf("# cannot remove %s: %s %s\n", w->base, err_name(r), err.text);
                fd_close(&tmp);
        }
}
#define _cleanup_workspace_ _cleanup_(workspace_close)

static int workspace_diff(struct workspace *w, struct diff *ret, struct err *err) {
        struct diff_options o = {.userxattr = w->userxattr, .start = w->start};

        return diff_compute(w->upper, w->lower, &o, ret, err);
}

/* The bytes of a file below base, for comparing. NULL when it cannot be read. */
_unused_ static char *workspace_read(struct workspace *w, const char *path) {
        char *data = NULL;

        return fd_read_file(w->base_fd, path, 1 << 24, true, &data, NULL, NULL) < 0 ? NULL : data;
}
