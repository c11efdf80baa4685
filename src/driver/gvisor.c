/* stockade-box-gvisor: the tree of the plan in a box of gVisor's, whose kernel is a program (runsc) that answers the
 * system calls of everything inside.
 *
 * The host's walls stay: namespaces, cgroup, ids of its own, the tree's mounts. To get out, code inside first has to
 * take over the sentry, and is then a process without rights under a seccomp filter that runsc makes for itself. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cell.h"
#include "driver/enter.h"
#include "driver/gvisor-probe.h"
#include "driver/keeper.h"
#include "driver/link.h"
#include "driver/oci.h"
#include "driver/runsc.h"
#include "driver/stage.h"
#include "wire/box.h"

#define START_MS   15000
#define MEMORY_MIN 24 /* MiB: sentry, gofer and keeper before anything runs; with 16 runsc fails, with 20 it starts */

static int write_config(const struct keeper_task *t, struct oci_bundle *ret_bundle, struct err *err) {
        static char enter[] = BOX_PLACE "/" STAGE_ENTER, verb[] = "enter", dial[] = "dial",
                    door[] = BOX_PLACE "/" STAGE_DOOR;
        char *const args[] = {enter, verb, (char *)(uintptr_t)t->guest, dial, door, (char *)(uintptr_t)t->cwd, NULL};
        struct oci_options o = {
                .tree = t->tree, .tree_path = STAGE_TREE, .network = RUNSC_NETWORK, .args = args, .ids = CELL_ID_RANGE};
        _cleanup_buf_ struct buf config = {.max = OCI_CONFIG_MAX};

        int r = oci_config(&t->plan, &o, &config, ret_bundle, err);
        if (r < 0)
                return r;
        _cleanup_fd_ int folder = open(STAGE_BUNDLE, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = folder < 0 ? -errno : fd_replace_file(folder, "config.json", 0644, config.data, config.size);
        return r < 0 ? err_set(err, r, "could not write the box's bundle") : 0;
}

static int check_memory(const struct plan *p, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s)) {
                if (s.op != OP_LIMIT || !str_eq(s.text[0], "limits.memory") ||
                    s.number[0] >= (uint64_t)MEMORY_MIN << 20)
                        continue;
                (void)err_set(err, ERR_UNENFORCED,
                              "limits.memory: a gvisor box needs %d MiB, which its own kernel is counted in",
                              MEMORY_MIN);
                return err_hint(err, "give it at least %dMiB in the profile's limits.memory, or use the native driver",
                                MEMORY_MIN);
        }
        return 0;
}

/* What is read inside before the guest (enter.h): the secret, then the plan's filter. */
static int open_input(const struct keeper_task *t, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;
        _cleanup_fd_ int fd = memfd_create("input", MFD_CLOEXEC);

        int r = fd < 0 ? -errno : fd_write_full(fd, t->secret, BOX_SECRET_SIZE);
        while (r == 0 && plan_next(&t->plan, &walk, &s))
                if (s.op == OP_SECCOMP)
                        r = fd_write_full(fd, s.blob, s.blob_size);
        if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
                r = -errno;
        return r < 0 ? err_set(err, r, "could not write the box's filter") : TAKE_FD(fd);
}

static bool has_own_root(const struct plan *p) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s))
                if (s.op == OP_ROOT_TMPFS || s.op == OP_ROOT_OVERLAY || s.op == OP_ROOT_DISK)
                        return true;
        return false;
}

/* Everything that runsc finds, and what there is to know of it for starting it. */
static int prepare(const struct keeper_task *t, struct runsc_start *s, int *ret_door, struct err *err) {
        struct oci_bundle bundle = {0};

        int r = stage_make(t->id_base, err);
        if (r == 0)
                r = write_config(t, &bundle, err);
        if (r < 0)
                return r;
        s->writable_root = bundle.writable_root;
        s->mounts = bundle.binds;
        s->parts = runsc_by_parts(s->program, bundle.binds);
        r = stage_tree(t->tree, !s->parts && !s->writable_root, err);
        if (r < 0)
                return r;
        _cleanup_fd_ int place = stage_place(err), door = -EBADF;
        if (place < 0)
                return place;
        door = keeper_listen(place, STAGE_DOOR, err);
        if (door < 0)
                return door;
        (void)stage_preload(place, has_own_root(&t->plan), t->id_base); /* no guarantee: `ls` works, or it does not */
        r = stage_seal(place, err);
        if (r == 0)
                *ret_door = TAKE_FD(door);
        return r;
}

/* The sentry: runsc was its parent, and now we are. */
static int read_pid(pid_t *ret, struct err *err) {
        char text[24];
        ssize_t n = fd_read_at(AT_FDCWD, STAGE_PID, text, sizeof text);
        long pid = n > 0 ? strtol(text, NULL, 10) : 0;

        if (pid <= 1 || pid > INT_MAX)
                return err_set(err, n < 0 ? (int)n : -EPROTO, "runsc did not say which process the box is");
        *ret = (pid_t)pid;
        return 0;
}

static int wait_started(pid_t runsc, int words, struct err *err) {
        char said[400];
        int status = runsc_wait(runsc, START_MS);

        if (status == 0)
                return 0;
        runsc_last_words(words, said, sizeof said);
        if (status == -ETIMEDOUT)
                (void)err_set(err, status, "runsc did not start the box within %d seconds%s%s", START_MS / 1000,
                              said[0] ? ": " : "", said);
        else
                (void)err_set(err, ERR_UNENFORCED, "runsc could not start the box%s%s", said[0] ? ": " : "", said);
        return err_hint(err, "as root, 'stockade-box-gvisor probe' tries runsc with a box of its own");
}

/* The box's link. runsc takes its addresses over, and drives the device from inside. */
static int make_link(pid_t pid, struct err *err) {
        char path[40];

        (void)snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
        _cleanup_fd_ int namespace = open(path, O_RDONLY | O_CLOEXEC);
        if (namespace < 0)
                return err_set(err, -errno, "cannot open the box's network namespace");
        return link_veth("box", RUNSC_DEVICE, namespace, err);
}

static int start(const struct keeper_task *t, struct keeper_box *ret, struct err *err) {
        char program[PATH_MAX];
        int ends[2];
        pid_t pid;
        _cleanup_fd_ int door = -EBADF, input = -EBADF;
        struct runsc_start s = {.program = program,
                                .id_base = t->id_base,
                                .ids = CELL_ID_RANGE,
                                .networked = t->networked,
                                .link = t->networked ? make_link : NULL};

        int r = runsc_find(program, err);
        if (r == 0)
                r = check_memory(&t->plan, err);
        if (r == 0)
                r = prepare(t, &s, &door, err);
        if (r < 0)
                return r;
        input = open_input(t, err);
        if (input < 0)
                return input;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "could not make a pipe");
        _cleanup_fd_ int words = ends[0], output = ends[1];
        s.input = input;
        s.output = output;
        r = runsc_start(&s, &pid, err);
        if (r == 0)
                r = wait_started(pid, words, err);
        if (r == 0)
                r = read_pid(&pid, err);
        if (r == 0)
                *ret = (struct keeper_box){.pid = pid, .door = TAKE_FD(door), .secret = true, .words = TAKE_FD(words)};
        return r;
}

int main(int argc, char **argv) {
        static const struct keeper_driver driver = {.probe = gvisor_probe, .start = start};

        if (argc >= 3 && str_eq(argv[1], "enter"))
                return enter_main(argv + 2);
        if (argc == 2 && str_eq(argv[1], "hello"))
                return gvisor_hello();
        return keeper_main(&driver, argc, argv);
}
