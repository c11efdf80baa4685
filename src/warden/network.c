/* Gates, and the sockets of sandboxes that lead to them.
 *
 * We keep a copy of each sandbox's sockets, so that connections wait while there is no gate instead of being refused. A
 * successor of ours has none: a child of it enters the sandbox's namespaces and makes them again. The table of names
 * and the authority's key are files in the sandbox's folder: they outlive all of us. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/log.h"
#include "cell/again.h"
#include "cell/spawn.h"
#include "warden/warden.h"

#define KEY_MAX   (64 * 1024)
#define GATE_BASE (SPAWN_GATE_FIRST + CELL_ID_SLOTS) /* beyond those of single runs */

int network_memory(const struct sandbox *s, bool make) {
        struct stat st;
        _cleanup_fd_ int folder = sandbox_folder(s), fd = -EBADF;

        if (folder < 0)
                return folder;
        fd = openat(folder, "names", O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT | O_EXCL : 0), 0600);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        /* a gate that went wrong could have cut it: the next one must not fall into the hole */
        if (st.st_size != WARD_MEMORY && ftruncate(fd, WARD_MEMORY) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Sockets, memory, and the key if there is one. */
static int give(struct request *q, const struct sandbox *s) {
        int memory = network_memory(s, false);

        if (memory < 0)
                return err_set(&q->err, memory, "cannot open the names of sandbox '%s'", s->id);
        for (size_t i = 0; i < NET_FDS; i++)
                q->out[q->out_count++] = s->sockets[i];
        q->out_mine |= 1U << q->out_count;
        q->out[q->out_count++] = memory;
        _cleanup_fd_ int folder = sandbox_folder(s);
        int key = folder < 0 ? -EBADF : openat(folder, "key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (key >= 0) {
                q->out_mine |= 1U << q->out_count;
                q->out[q->out_count++] = key;
                q->answer.flags |= WARDEN_AUTHORITY;
        }
        return 0;
}

/* Where the tree is, as the sandbox's PID 1 names it: with a box it is not its root (cell/box.c). */
static int tree_of(const struct sandbox *s, char *ret, size_t size) {
        int n = s->driver == DRIVER_NATIVE ? snprintf(ret, size, "/")
                                           : snprintf(ret, size, "%s/sandboxes/%s", s->w->run_path, s->id);

        return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

int network_request(struct request *q) {
        struct sandbox *s = q->s;

        if (!s->networked || s->cut)
                return err_set(&q->err, -ENONET, "sandbox '%s' has no network", s->id);
        if (s->sockets[0] < 0) {
                int fds[NET_FDS];
                char tree[PATH_MAX];
                int r = tree_of(s, tree, sizeof tree);

                if (r == 0)
                        r = again_network(s->pidfd, s->w->rootless, tree, fds);
                if (r < 0)
                        return err_set(&q->err, r, "could not make the sockets of sandbox '%s' again", s->id);
                for (size_t i = 0; i < NET_FDS; i++)
                        s->sockets[i] = high_fd(fds[i]);
        }
        return give(q, s);
}

int network_keep_key(struct request *q) {
        _cleanup_fd_ int folder = sandbox_folder(q->s);
        _cleanup_free_ uint8_t *bytes = NULL;
        struct stat st;

        if (fcntl(q->fds[0], F_GET_SEALS) < 0 || fstat(q->fds[0], &st) < 0 || st.st_size <= 0 || st.st_size > KEY_MAX)
                return err_set(&q->err, ERR_REFUSED, "the key is not in a small memory file");
        bytes = malloc((size_t)st.st_size);
        if (!bytes || folder < 0)
                return err_set(&q->err, folder < 0 ? folder : -ENOMEM, "could not keep the key");
        ssize_t n = pread(q->fds[0], bytes, (size_t)st.st_size, 0);
        int r = n == st.st_size ? fd_replace_file(folder, "key", 0600, bytes, (size_t)n) : n < 0 ? -errno : -EIO;
        explicit_bzero(bytes, (size_t)st.st_size);
        return r < 0 ? err_set(&q->err, r, "could not keep the key") : 0;
}

int network_cut(struct request *q) {
        struct sandbox *s = q->s;

        if (!s->networked || s->cut)
                return 0;
        s->cut = true;
        for (size_t i = 0; i < ELEMENTSOF(s->sockets); i++)
                fd_close(&s->sockets[i]);
        int r = sandbox_write_info(s); /* a successor does not open them again */
        return r < 0 ? err_set(&q->err, r, "could not write down that sandbox '%s' is cut off", s->id) : 0;
}

/* --- gates --- */

static void gate_free(struct gate *g) {
        if (g->exit.on)
                loop_unwatch(g->w->loop, &g->exit);
        fd_close(&g->pidfd);
        g->pid = 0;
}

static void gate_exited(struct loop_watch *watch, uint32_t events) {
        struct gate *g = LOOP_OWNER(watch, struct gate, exit);
        struct warden *w = g->w;

        (void)events;
        (void)waitpid(g->pid, NULL, WNOHANG);
        gate_free(g);
        link_tell(w, &(struct warden_message){.kind = WARDEN_GATE_GONE, .slot = g->slot});
        operator_look(w);
}

static void gate_kill(struct gate *g) {
        if (g->pid <= 0)
                return;
        (void)kernel_pidfd_send_signal(g->pidfd, SIGKILL, NULL);
        while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        gate_free(g);
}

/* Each gate has a host id of its own, and gates of other daemons have others. */
static uid_t gate_id(const struct warden *w, uint32_t slot) {
        if (w->rootless)
                return 0;
        if (w->gate_uid != 0)
                return w->gate_uid;
        return GATE_BASE + (uid_t)(strtoul(w->token + 12, NULL, 16) * WARDEN_GATES_MAX) + slot;
}

int network_gate(struct request *q) {
        struct warden *w = q->w;
        struct gate *g = &w->gates[q->m->slot];
        int control = -EBADF;

        if (w->ending)
                return err_set(&q->err, -ESHUTDOWN, "the warden is ending");
        gate_kill(g);
        *g = (struct gate){.w = w, .slot = q->m->slot, .pidfd = -EBADF, .exit.ready = gate_exited};
        int r = spawn_gate(gate_id(w, q->m->slot), q->m->flags & WARDEN_AUTHORITY, &g->pid, &g->pidfd, &control,
                           &q->err);
        if (r < 0) {
                g->pid = 0;
                return r;
        }
        q->out[q->out_count] = control;
        q->out_mine |= 1U << q->out_count++;
        q->answer.pid = (uint64_t)g->pid;
        g->pidfd = high_fd(g->pidfd);
        r = loop_watch(w->loop, &g->exit, g->pidfd, EPOLLIN);
        if (r < 0) {
                gate_kill(g);
                return err_set(&q->err, r, "could not watch the gate");
        }
        return 0;
}

void network_end_gates(struct warden *w) {
        for (size_t i = 0; i < WARDEN_GATES_MAX; i++)
                gate_kill(&w->gates[i]);
}
