/* Disks that are mounted before they are needed. Attaching and mounting one takes milliseconds of waiting for the
 * kernel, during which we would hear nobody: so children do it, a few at a time, each for as long as there is work and
 * a moment longer. A few blank ones of each kind in use are kept in stock; when there are none left, whoever asks for a
 * disk waits for a child, and many wait for several at once.
 *
 * Always holds: a mount is kept from DISK_MAKE to the START that uses it, and no longer: every other request that names
 * the disk lets it go first, and then it is a disk like any other. A successor of ours knows nothing of all this:
 * mounts and children die with us, and what was in stock is removed when the disks are opened. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/log.h"
#include "warden/step.h"
#include "warden/warden.h"
#include "wire/packet.h"

#define CHILDREN    4
#define CHILD_MS    1000 /* without work a child ends */
#define KINDS       4
#define STOCK       4   /* of a kind */
#define FRESH_MAX   256 /* made, and not started yet: beyond, the oldest is let go */
#define WAITING_MAX 4096
#define REFILL_MS   40              /* after one was taken: whoever took it is ready by then */
#define FORGET_MS   (600 * 1000ULL) /* a kind that nobody asked for */
#define BACK_OFF_MS 10000
#define GONE_MS     20

/* Mounted: in stock without an id, fresh with one. */
struct warm_disk {
        struct warm_disk *next;
        uint64_t size, inodes;
        char name[WARDEN_ID_SIZE], id[WARDEN_ID_SIZE];
        int mount;
        uint64_t until; /* leaving: then it is not waited for any more */
};

/* A DISK_MAKE that waits for a child. */
struct warm_wish {
        struct warm_wish *next;
        uint64_t size, inodes;
        uint32_t serial; /* 0: nobody waits any more */
        char id[WARDEN_ID_SIZE];
};

struct warm_child {
        struct warden *w;
        pid_t pid; /* 0: none */
        int pidfd, socket;
        struct loop_watch exit, said;
        bool busy;
        struct warm_wish *wish; /* NULL: for the stock */
        uint64_t size, inodes;
        char name[WARDEN_ID_SIZE];
};

struct warm {
        struct warm_disk *stock, *fresh;
        struct warm_disk *leaving; /* let go, and waited for: some kernels take the device apart a moment later */
        struct warm_wish *first, **last;
        size_t waiting;
        struct warm_child children[CHILDREN];
        struct {
                uint64_t size, inodes, used; /* size 0: none */
        } kinds[KINDS];
        struct loop_timer timer;
        struct warden *w;
};

struct order {
        uint64_t size, inodes;
        bool settled; /* nobody waits for it: it may wait for the host's disk */
        char name[WARDEN_ID_SIZE];
};

struct outcome {
        int32_t code;
        char text[WARDEN_TEXT_SIZE], hint[WARDEN_TEXT_SIZE];
};

static void dispatch(struct warm *k);

static struct warm *get(struct warden *w) {
        if (!w->warm) {
                w->warm = calloc(1, sizeof *w->warm);
                if (w->warm) {
                        w->warm->w = w;
                        w->warm->last = &w->warm->first;
                }
        }
        return w->warm;
}

/* --- the child --- */

static void do_order(struct volumes *v, int socket, const struct order *o) {
        struct outcome result = {0};
        struct err err = {0};
        int mount = -EBADF;

        result.code = volume_warm(v, o->name, o->size, o->inodes, o->settled, &mount, &err);
        if (result.code < 0) {
                (void)snprintf(result.text, sizeof result.text, "%s", err.text);
                (void)snprintf(result.hint, sizeof result.hint, "%s", err.hint);
        }
        if (packet_send(socket, &(struct iovec){&result, sizeof result}, 1, &mount, mount < 0 ? 0 : 1) < 0)
                _exit(1);
        fd_close(&mount);
}

_noreturn_ static void serve(struct volumes *v, int socket, pid_t parent) {
        struct order o;
        size_t count;
        sigset_t none;
        int fd;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(0);
        (void)prctl(PR_SET_NAME, "stockaded-work");
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        volumes_alone(v, socket);
        for (;;) {
                struct pollfd p = {.fd = socket, .events = POLLIN};

                int r = poll(&p, 1, CHILD_MS);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0 || packet_receive(socket, &o, sizeof o, &fd, 1, &count) != (ssize_t)sizeof o || count > 0)
                        _exit(0);
                do_order(v, socket, &o);
        }
}

/* --- children --- */

static void child_free(struct warm_child *c) {
        struct loop *l = c->w->loop;

        if (c->exit.on)
                loop_unwatch(l, &c->exit);
        if (c->said.on)
                loop_unwatch(l, &c->said);
        fd_close(&c->pidfd);
        fd_close(&c->socket);
        c->pid = 0;
        c->busy = false;
}

static bool is_known(const struct warm *k, uint64_t size, uint64_t inodes) {
        for (size_t i = 0; i < KINDS; i++)
                if (k->kinds[i].size == size && k->kinds[i].inodes == inodes)
                        return true;
        return false;
}

/* wanted: somebody takes it at once. */
static void put_stock(struct warm *k, const struct warm_child *c, int mount, bool wanted) {
        struct warm_disk *d = wanted || is_known(k, c->size, c->inodes) ? calloc(1, sizeof *d) : NULL;

        if (!d) {
                (void)close(mount);
                volume_warm_drop(k->w->volumes, c->name);
                return;
        }
        *d = (struct warm_disk){.next = k->stock, .size = c->size, .inodes = c->inodes, .mount = mount};
        memcpy(d->name, c->name, sizeof d->name);
        k->stock = d;
}

static void disk_free(struct warm_disk *d) {
        fd_close(&d->mount);
        free(d);
}

/* The disk of this id is made of it. */
static int give(struct warm *k, struct warm_disk *d, const char *id, struct err *err) {
        int r = volume_make_warm(k->w->volumes, id, d->name, err);
        size_t count = 0;

        if (r < 0) {
                fd_close(&d->mount);
                volume_warm_drop(k->w->volumes, d->name);
                free(d);
                return r;
        }
        memcpy(d->id, id, sizeof d->id);
        d->next = k->fresh;
        k->fresh = d;
        for (struct warm_disk **p = &k->fresh; *p; p = &(*p)->next)
                if (++count > FRESH_MAX) {
                        disk_free(*p);
                        *p = NULL;
                        break;
                }
        return 0;
}

static struct warm_disk *take_stock(struct warm *k, uint64_t size, uint64_t inodes) {
        for (struct warm_disk **p = &k->stock; *p; p = &(*p)->next)
                if ((*p)->size == size && (*p)->inodes == inodes) {
                        struct warm_disk *d = *p;
                        *p = d->next;
                        return d;
                }
        return NULL;
}

static void answer(struct warm *k, struct warm_wish *wish, int r, const struct err *err) {
        if (r < 0)
                link_fail(k->w, wish->serial, r, err);
        else
                link_answer(k->w, wish->serial, &(struct warden_message){0}, NULL, 0);
        step("disk-made");
        free(wish);
}

/* A child died with it, or there is none: it is made here, and mounted when it is needed. */
static void make_plainly(struct warm *k, struct warm_wish *wish) {
        struct err err = {0};
        int r = wish->serial == 0 ? 0 : volume_make(k->w->volumes, wish->id, wish->size, wish->inodes, &err);

        answer(k, wish, r, &err);
}

static void refill_in(struct warm *k, uint64_t ms);

static void done(struct warm *k, struct warm_child *c, const struct outcome *o, int mount) {
        struct warm_wish *wish = TAKE_PTR(c->wish);
        struct err err = {.code = o->code};

        c->busy = false;
        if (o->code < 0) {
                (void)snprintf(err.text, sizeof err.text, "%.*s", (int)sizeof o->text - 1, o->text);
                (void)snprintf(err.hint, sizeof err.hint, "%.*s", (int)sizeof o->hint - 1, o->hint);
                if (wish)
                        make_plainly(k, wish); /* or that fails, too, and says why */
                else {
                        log_err(LOG_LEVEL_WARNING, NULL, &err);
                        refill_in(k, BACK_OFF_MS);
                }
                return;
        }
        put_stock(k, c, high_fd(mount), wish && wish->serial != 0);
        if (!wish) {
                refill_in(k, 0);
                return;
        }
        struct warm_disk *d = wish->serial == 0 ? NULL : take_stock(k, wish->size, wish->inodes);
        if (!d)
                make_plainly(k, wish);
        else
                answer(k, wish, give(k, d, wish->id, &err), &err);
}

static void said(struct loop_watch *watch, uint32_t events) {
        struct warm_child *c = LOOP_OWNER(watch, struct warm_child, said);
        struct warm *k = c->w->warm;
        struct outcome o;
        size_t count = 0;
        int mount = -EBADF;

        (void)events;
        ssize_t n = packet_receive(c->socket, &o, sizeof o, &mount, 1, &count);
        if (n == (ssize_t)sizeof o && c->busy && (o.code < 0 || count == 1))
                done(k, c, &o, mount);
        else if (n != -EAGAIN) {
                packet_close(&mount, count);
                loop_unwatch(c->w->loop, &c->said); /* it ends */
        }
        dispatch(k);
}

static void exited(struct loop_watch *watch, uint32_t events) {
        struct warm_child *c = LOOP_OWNER(watch, struct warm_child, exit);
        struct warm *k = c->w->warm;
        struct warm_wish *wish = TAKE_PTR(c->wish);

        (void)events;
        (void)waitpid(c->pid, NULL, WNOHANG);
        if (c->busy)
                volume_warm_drop(c->w->volumes, c->name);
        child_free(c);
        if (wish)
                make_plainly(k, wish);
        dispatch(k);
}

static int child_start(struct warden *w, struct warm_child *c) {
        pid_t parent = getpid();
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0)
                serve(w->volumes, ends[1], parent);
        int error = errno;
        (void)close(ends[1]);
        if (pid < 0) {
                (void)close(ends[0]);
                return -error;
        }
        *c = (struct warm_child){.w = w,
                                 .pid = pid,
                                 .pidfd = high_fd((int)kernel_result(syscall(SYS_pidfd_open, pid, 0))),
                                 .socket = high_fd(ends[0]),
                                 .exit.ready = exited,
                                 .said.ready = said};
        int r = c->pidfd < 0 ? c->pidfd : loop_watch(w->loop, &c->exit, c->pidfd, EPOLLIN);
        if (r == 0)
                r = loop_watch(w->loop, &c->said, c->socket, EPOLLIN);
        if (r < 0) {
                (void)kill(pid, SIGKILL);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                child_free(c);
        }
        return r;
}

static struct warm_child *idle_child(struct warm *k) {
        struct warm_child *none = NULL;

        for (size_t i = 0; i < CHILDREN; i++) {
                struct warm_child *c = &k->children[i];

                if (c->pid > 0 && !c->busy && c->said.on)
                        return c;
                if (c->pid == 0)
                        none = c;
        }
        return none && child_start(k->w, none) == 0 ? none : NULL;
}

static int order(struct warm_child *c, uint64_t size, uint64_t inodes, struct warm_wish *wish) {
        struct order o = {.size = size, .inodes = inodes, .settled = !wish};
        uint64_t random;

        if (getrandom(&random, sizeof random, 0) != sizeof random)
                return -EAGAIN;
        (void)snprintf(o.name, sizeof o.name, "%016llx", (unsigned long long)random);
        int r = packet_send(c->socket, &(struct iovec){&o, sizeof o}, 1, NULL, 0);
        if (r < 0)
                return r;
        c->busy = true;
        c->wish = wish;
        c->size = size;
        c->inodes = inodes;
        memcpy(c->name, o.name, sizeof c->name);
        return 0;
}

static bool any_busy(const struct warm *k) {
        for (size_t i = 0; i < CHILDREN; i++)
                if (k->children[i].busy)
                        return true;
        return false;
}

static void dispatch(struct warm *k) {
        while (k->first) {
                struct warm_wish *wish = k->first;
                struct warm_child *c = idle_child(k);

                if (!c && any_busy(k))
                        return; /* when it is done */
                k->first = wish->next;
                if (!k->first)
                        k->last = &k->first;
                k->waiting--;
                if (!c || order(c, wish->size, wish->inodes, wish) < 0)
                        make_plainly(k, wish);
        }
}

/* --- the stock --- */

static void forget_kind(struct warm *k, size_t i) {
        struct warm_disk *d;

        while ((d = take_stock(k, k->kinds[i].size, k->kinds[i].inodes))) {
                fd_close(&d->mount);
                volume_warm_drop(k->w->volumes, d->name);
                free(d);
        }
        k->kinds[i].size = k->kinds[i].used = 0;
}

static size_t count_stock(const struct warm *k, size_t i) {
        size_t n = 0;

        for (const struct warm_disk *d = k->stock; d; d = d->next)
                n += d->size == k->kinds[i].size && d->inodes == k->kinds[i].inodes;
        return n;
}

static void refill(struct loop_timer *t) {
        struct warm *k = LOOP_OWNER(t, struct warm, timer);
        struct warden *w = k->w;
        uint64_t now = loop_now(w->loop), next = UINT64_MAX;

        if (w->ending)
                return;
        if (any_busy(k) || w->low_on_space) {
                refill_in(k, w->low_on_space ? BACK_OFF_MS : REFILL_MS);
                return;
        }
        for (size_t i = 0; i < KINDS; i++) {
                if (k->kinds[i].size == 0)
                        continue;
                if (k->kinds[i].used + FORGET_MS <= now) {
                        forget_kind(k, i);
                        continue;
                }
                next = MIN(next, k->kinds[i].used + FORGET_MS);
                if (count_stock(k, i) >= STOCK)
                        continue;
                struct warm_child *c = idle_child(k);
                if (!c || order(c, k->kinds[i].size, k->kinds[i].inodes, NULL) < 0)
                        refill_in(k, BACK_OFF_MS);
                return;
        }
        if (next != UINT64_MAX)
                loop_timer_set(w->loop, &k->timer, next);
}

static void refill_in(struct warm *k, uint64_t ms) {
        uint64_t when = loop_now(k->w->loop) + ms;

        if (k->timer.place != 0 && k->timer.when <= when)
                return;
        k->timer.fire = refill;
        loop_timer_set(k->w->loop, &k->timer, when);
}

static void note_kind(struct warm *k, uint64_t size, uint64_t inodes) {
        size_t at = 0;

        for (size_t i = 0; i < KINDS; i++) {
                if (k->kinds[i].size == size && k->kinds[i].inodes == inodes) {
                        at = i;
                        break;
                }
                if (k->kinds[i].size == 0 || k->kinds[i].used < k->kinds[at].used)
                        at = i;
        }
        if (k->kinds[at].size != size || k->kinds[at].inodes != inodes)
                forget_kind(k, at);
        k->kinds[at].size = size;
        k->kinds[at].inodes = inodes;
        k->kinds[at].used = loop_now(k->w->loop);
        refill_in(k, REFILL_MS);
}

/* --- requests --- */

int warm_make(struct request *q) {
        struct warm *k = get(q->w);
        const struct warden_message *m = q->m;

        if (!k)
                return err_set(&q->err, -ENOMEM, "could not begin");
        note_kind(k, m->size, m->inodes);
        struct warm_disk *d = k->first ? NULL : take_stock(k, m->size, m->inodes);
        if (d)
                return give(k, d, m->id, &q->err);
        if (k->waiting >= WAITING_MAX)
                return err_set(&q->err, -EBUSY, "%d disks are being made already", WAITING_MAX);
        struct warm_wish *wish = calloc(1, sizeof *wish);
        if (!wish)
                return err_set(&q->err, -ENOMEM, "could not begin");
        *wish = (struct warm_wish){.size = m->size, .inodes = m->inodes, .serial = m->serial};
        memcpy(wish->id, m->id, sizeof wish->id);
        *k->last = wish;
        k->last = &wish->next;
        k->waiting++;
        dispatch(k);
        return REQUEST_LATER;
}

bool warm_makes(const struct warden *w, const char *disk) {
        const struct warm *k = w->warm;

        for (const struct warm_wish *wish = k ? k->first : NULL; wish; wish = wish->next)
                if (str_eq(wish->id, disk))
                        return true;
        for (size_t i = 0; k && i < CHILDREN; i++)
                if (k->children[i].wish && str_eq(k->children[i].wish->id, disk))
                        return true;
        return false;
}

int warm_take(struct warden *w, const char *disk) {
        for (struct warm_disk **p = w->warm ? &w->warm->fresh : NULL; p && *p; p = &(*p)->next)
                if (str_eq((*p)->id, disk)) {
                        struct warm_disk *d = *p;
                        int mount = TAKE_FD(d->mount);

                        *p = d->next;
                        disk_free(d);
                        return mount;
                }
        return -EBADF;
}

static bool names(const struct warden_message *m, const char *disk) {
        if (m->kind != WARDEN_START && (str_eq(m->id, disk) || str_eq(m->target, disk) || str_eq(m->disk, disk)))
                return true;
        for (uint32_t i = 0; i < m->layer_count; i++)
                if (str_eq(m->layers[i], disk))
                        return true;
        return false;
}

bool warm_let_go(struct warden *w, const struct warden_message *m) {
        struct warm *k = w->warm;
        bool wait = false;

        for (struct warm_disk **p = k ? &k->fresh : NULL; p && *p;) {
                struct warm_disk *d = *p;

                if (!names(m, d->id)) {
                        p = &d->next;
                        continue;
                }
                *p = d->next;
                fd_close(&d->mount);
                d->until = loop_now(w->loop) + GONE_MS;
                d->next = k->leaving;
                k->leaving = d;
        }
        for (struct warm_disk **p = k ? &k->leaving : NULL; p && *p;) {
                struct warm_disk *d = *p;

                if (loop_now(w->loop) < d->until && volume_busy(w->volumes, d->id) == 1) {
                        wait |= names(m, d->id);
                        p = &d->next;
                        continue;
                }
                *p = d->next;
                disk_free(d);
        }
        return wait;
}

void warm_close_mounts(const struct warden *w) {
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (const struct sandbox *s = w->buckets[i]; s; s = s->next)
                        if (s->disk_root >= 0)
                                (void)close(s->disk_root);
        for (const struct warm_disk *d = w->warm ? w->warm->stock : NULL; d; d = d->next)
                (void)close(d->mount);
        for (const struct warm_disk *d = w->warm ? w->warm->fresh : NULL; d; d = d->next)
                (void)close(d->mount);
}

void warm_forget(struct warden *w) {
        struct warm *k = w->warm;

        for (size_t i = 0; k && i < CHILDREN; i++)
                if (k->children[i].wish)
                        k->children[i].wish->serial = 0;
        while (k && k->first) {
                struct warm_wish *wish = k->first;
                k->first = wish->next;
                free(wish);
        }
        if (k) {
                k->last = &k->first;
                k->waiting = 0;
        }
}

static void free_all(struct warm_disk **list) {
        while (*list) {
                struct warm_disk *d = *list;
                *list = d->next;
                disk_free(d);
        }
}

void warm_end(struct warden *w) {
        struct warm *k = w->warm;

        warm_forget(w);
        for (size_t i = 0; k && i < CHILDREN; i++) {
                struct warm_child *c = &k->children[i];

                if (c->pid == 0)
                        continue;
                (void)kernel_pidfd_send_signal(c->pidfd, SIGKILL, NULL);
                while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                if (c->busy)
                        volume_warm_drop(w->volumes, c->name);
                free(TAKE_PTR(c->wish));
                child_free(c);
        }
        if (!k)
                return;
        loop_timer_clear(w->loop, &k->timer);
        for (size_t i = 0; i < KINDS; i++)
                forget_kind(k, i);
        free_all(&k->fresh);
        free_all(&k->leaving);
}
