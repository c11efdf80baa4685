/* A box for tests: the guest in a chroot of the tree, in the keeper's own namespaces but the network's. It isolates
 * nothing; what is tested with it is everything around a box. A plan that sets BOX_TEST makes it fail in the ways that
 * boxes do. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "driver/keeper.h"
#include "driver/link.h"
#include "wire/box.h"

#define SOCKET "guest"

static const char *wish(const struct keeper_task *t) {
        for (size_t i = 0; t->env[i]; i++)
                if (str_starts(t->env[i], "BOX_TEST="))
                        return t->env[i] + strlen("BOX_TEST=");
        return "";
}

/* A file system of its own at a path of the tree: a descriptor of it. */
static int mount_inside(int tree, const char *kind, const char *path) {
        _cleanup_fd_ int fs = kernel_fsopen(kind), mount = -EBADF;
        int r = fs < 0 ? fs : kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);

        if (r < 0)
                return r;
        mount = kernel_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (mount < 0)
                return mount;
        if (str_eq(kind, "tmpfs") && fchmodat(mount, ".", 0755, 0) < 0)
                return -errno;
        r = kernel_move_mount(mount, "", tree, path + 1, MOVE_MOUNT_F_EMPTY_PATH);
        return r < 0 ? r : TAKE_FD(mount);
}

/* The box's network: loopback, and where the plan has one the link to the gate. */
static int make_network(const struct keeper_task *t, struct err *err) {
        _cleanup_fd_ int network = link_namespace(err);

        if (network >= 0 && t->networked && link_veth("gate", "eth0", network, err) < 0)
                return err->code;
        return TAKE_FD(network);
}

_noreturn_ static void become(const struct keeper_task *t, int network, int words) {
        char *const argv[] = {(char *)(uintptr_t)t->guest, (char *)(uintptr_t) "dial",
                              (char *)(uintptr_t)BOX_PLACE "/" SOCKET, (char *)(uintptr_t)t->cwd, NULL};
        uint32_t uid = t->id_base + t->uid, gid = t->id_base + t->gid;

        (void)dup2(words, STDERR_FILENO);
        if (str_eq(wish(t), "die")) {
                (void)dprintf(STDERR_FILENO, "first line\nthere is no kernel in this box\n\n");
                _exit(3);
        }
        while (str_eq(wish(t), "silent"))
                (void)pause();
        if (setns(network, CLONE_NEWNET) < 0 || fchdir(t->tree) < 0 || chroot(".") < 0 ||
            syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
            syscall(SYS_setresuid, uid, uid, uid) < 0)
                _exit(125);
        (void)execve(t->guest, argv, t->env);
        _exit(126);
}

/* Something outside of the sandbox's namespaces that only destroy removes. */
static const char *left(const char *id) {
        static char path[64];

        (void)snprintf(path, sizeof path, "/dev/shm/box-plain-%s", id);
        return path;
}

static int leave(const char *id) {
        _cleanup_fd_ int fd = open(left(id), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        return fd < 0 ? -errno : 0;
}

static int destroy(const char *id, struct err *err) {
        return unlink(left(id)) < 0 && errno != ENOENT ? err_set(err, -errno, "cannot remove '%s'", left(id)) : 0;
}

static int start(const struct keeper_task *t, struct keeper_box *ret, struct err *err) {
        int pair[2];

        if (str_eq(wish(t), "fail")) {
                (void)err_set(err, ERR_UNENFORCED, "this box never starts\t(a test)");
                return err_hint(err, "take another one");
        }
        _cleanup_fd_ int place = mount_inside(t->tree, "tmpfs", BOX_PLACE),
                         proc = mount_inside(t->tree, "proc", "/proc");
        if (place < 0 || proc < 0)
                return err_set(err, place < 0 ? place : proc, "cannot mount in the tree");
        _cleanup_fd_ int network = make_network(t, err);
        if (network < 0)
                return network;
        if (str_eq(wish(t), "leave") && leave(t->id) < 0)
                return err_set(err, -errno, "could not leave something behind");
        int door = keeper_listen(place, SOCKET, err);
        if (door < 0)
                return door;
        if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "could not make a pipe");
        pid_t pid = fork();
        if (pid == 0)
                become(t, network, pair[1]);
        (void)close(pair[1]);
        if (pid < 0)
                return err_set(err, -errno, "could not start a process");
        *ret = (struct keeper_box){.pid = pid, .door = door, .words = pair[0]};
        return 0;
}

static int probe(void) {
        (void)puts("{\"driver\": \"plain\", \"offered\": false, \"version\": \"\", \"why\": \"a test\", \"fix\": \"\", "
                   "\"guarantees\": {}}");
        return 0;
}

int main(int argc, char **argv) {
        static const struct keeper_driver plain = {.probe = probe, .start = start, .destroy = destroy};

        return keeper_main(&plain, argc, argv);
}
