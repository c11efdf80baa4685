/* A microVM without a warden: builds the tree of a plan as the cell does, starts a machine on it and carries
 * connections to its guest. For tests, as root:
 *
 *     vm-run IMAGE PLAN ID-BASE SOCKET [DISK]
 *     vm-run IMAGE PLAN ID-BASE SOCKET JAILER FIRECRACKER FILES
 *
 * Says "serving" on its standard output, "qemu PID" and "files PID" before; ends with its standard input. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel.h"
#include "cell/cell.h"
#include "cell/prepare.h"
#include "driver/fc-machine.h"
#include "driver/vm-carry.h"
#include "driver/vm-machine.h"
#include "driver/vm-plan.h"
#include "driver/vm-qemu.h"

#define BEGIN_MS 120000

static int read_plan(const char *path, struct plan *ret, struct err *err) {
        char *bytes;
        size_t size;
        int r = fd_read_file(AT_FDCWD, path, PLAN_MAX_SIZE, false, &bytes, &size, err);

        return r < 0 ? r : plan_check(bytes, size, ret, err);
}

/* The mount phase. The disk's place is a folder: the machine has the disk. A network is another test's matter. */
static int build_tree(struct cell_context *c, const struct plan *p, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return err_set(err, -errno, "cannot make namespaces");
        c->host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        while (plan_next(p, &walk, &s)) {
                struct plan_step folder = {.op = OP_DIR, .text = {s.text[0]}, .number = {0755}};

                if (plan_op_phase(s.op) != PHASE_MOUNT)
                        continue;
                int r = tree_step(c, s.op == OP_DISK ? &folder : &s);
                if (r < 0)
                        return err_set(err, r, "step %u, %s", s.index, plan_op_name(s.op));
        }
        return 0;
}

static int listen_at(const char *path, struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 8) < 0)
                return err_set(err, -errno, "cannot listen at '%s'", path);
        return fd;
}

static int start(const struct machine_facts *f, char **argv, struct machine *ret, struct err *err) {
        if (!argv[5] || !argv[6])
                return machine_start(f, ret, err);
        const struct fc_facts fc = {
                .jailer = argv[5], .program = argv[6], .files = argv[7], .id = "0123456789abcdef", .base = "/srv"};
        return fc_machine_start(f, &fc, ret, NULL, BEGIN_MS, err);
}

static int run(char **argv, struct err *err) {
        static struct carry carry;
        struct plan plan;
        struct machine m = MACHINE_NONE;
        struct cell_context c = {.id_base = (uint32_t)strtoul(argv[3], NULL, 10), .disk = -EBADF};

        c.host = c.root = c.proc = c.ruleset = c.upper = c.anchor = c.empty = c.null = -EBADF;
        c.tree_uid = c.tree_gid = c.id_base + 1000;
        int listener = listen_at(argv[4], err), r = read_plan(argv[2], &plan, err);
        if (r < 0 || listener < 0)
                return r < 0 ? r : listener;
        struct machine_facts f = {.image = argv[1],
                                  .id_base = c.id_base,
                                  .fs = VM_FS_PROGRAM,
                                  .disk = -EBADF,
                                  .tap = -EBADF,
                                  .errors = 2};
        if (argv[5] && !argv[6])
                f.disk = open(argv[5], O_RDWR | O_CLOEXEC);
        r = prepare_namespaces(&c, &plan, err);
        cell_user_namespace_reap();
        if (r == 0)
                r = build_tree(&c, &plan, err);
        if (r < 0)
                return r;
        f.tree = c.root;
        f.live = vm_plan_is_live(&plan);
        machine_limits(&plan, &f);
        r = start(&f, argv, &m, err);
        if (r < 0)
                return r;
        (void)printf("qemu %d\nfiles %d\n", m.qemu, m.fs);
        (void)fflush(stdout);
        r = machine_begin(&m, &plan, BEGIN_MS, err);
        if (r == 0) {
                (void)printf("serving\n");
                (void)fflush(stdout);
                carry = (struct carry){.line = m.line, .listener = listener};
                r = carry_run(&carry, STDIN_FILENO);
                if (r < 0)
                        (void)err_set(err, r, "the line broke");
        }
        machine_end(&m);
        return r;
}

int main(int argc, char **argv) {
        struct err err = {0};

        (void)signal(SIGPIPE, SIG_IGN);
        if (argc != 5 && argc != 6 && argc != 8) {
                (void)err_set(&err, ERR_INPUT,
                              "vm-run takes an image, a plan, an id, a socket and perhaps a disk, or "
                              "what Firecracker is started with");
        } else if (run(argv, &err) == 0)
                return 0;
        err_print(&err);
        return 1;
}
