/* One request after the other, with the code that the warden has for leaves on a host. Nothing here waits for what is
 * inside: a leaf whose processes are dying is asked for again. */
#include "driver/vm-leaves.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cell.h"
#include "cell/cgroup-nest.h"
#include "wire/leaf.h"
#include "wire/packet.h"

#define LEAVES_MAX 1024

struct leaves {
        const struct cgroup *sandbox;
        struct cgroup_owner owner;
        unsigned count;
};

static int open_leaf(struct leaves *l, uint32_t run, int fds[CGROUP_RUN_FILES]) {
        struct cgroup leaf;

        if (l->count >= LEAVES_MAX)
                return -EAGAIN;
        int r = cgroup_run_open(l->sandbox, run, true, &leaf);
        if (r < 0)
                return r;
        r = cgroup_run_files(l->sandbox, &leaf, &l->owner, fds);
        if (r < 0)
                (void)cgroup_run_remove(l->sandbox, &leaf);
        else
                l->count++;
        cgroup_close(&leaf);
        return r;
}

static int end_leaf(struct leaves *l, uint32_t run, bool kill, struct leaf_count *ret) {
        struct cgroup leaf;
        struct cgroup_usage u;

        int r = cgroup_run_open(l->sandbox, run, false, &leaf);
        if (r < 0)
                return r;
        if (kill)
                (void)cgroup_kill_pass(&leaf);
        (void)cgroup_usage(&leaf, &u);
        *ret = (struct leaf_count){u.cpu_us, u.memory_peak, u.oom_kills, u.fork_refusals};
        r = cgroup_run_remove(l->sandbox, &leaf);
        if (r == 0)
                l->count -= l->count > 0;
        cgroup_close(&leaf);
        return r;
}

static void answer(struct leaves *l, int socket, const struct leaf_request *q) {
        struct leaf_answer a = {.run = q->run};
        struct iovec part = {&a, sizeof a};
        int fds[CGROUP_RUN_FILES], r;

        memset(&a.count, 0xff, sizeof a.count);
        if (q->ask == LEAF_OPEN)
                r = open_leaf(l, q->run, fds);
        else if (q->ask == LEAF_END || q->ask == LEAF_KILL)
                r = end_leaf(l, q->run, q->ask == LEAF_KILL, &a.count);
        else
                r = -EBADMSG;
        a.error = MIN(r, 0);
        size_t count = q->ask == LEAF_OPEN && r > 0 ? (size_t)r : 0;
        (void)packet_send(socket, &part, 1, fds, count);
        packet_close(fds, count);
}

_noreturn_ static void serve(struct leaves *l, int socket) {
        struct leaf_request q;
        ssize_t n;

        for (;;) {
                n = recv(socket, &q, sizeof q, 0);
                if (n == 0 || (n < 0 && errno != EINTR))
                        _exit(0);
                if (n == (ssize_t)sizeof q && q.run > 0)
                        answer(l, socket, &q);
        }
}

int vm_leaves_serve(int socket, const struct cgroup *sandbox, uid_t user) {
        struct leaves l = {.sandbox = sandbox, .owner = {.count = CELL_ID_RANGE + 1, .user = user}};
        pid_t pid = fork();

        if (pid == 0) {
                (void)prctl(PR_SET_NAME, "vm-leaves");
                (void)fd_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "-1000"); /* without it nothing begins */
                serve(&l, socket);
        }
        return pid < 0 ? -errno : pid;
}
