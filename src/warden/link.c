/* The link to the operator: one table of what may be asked, one place where it is answered.
 *
 * Always holds: a request is handled only if its row is met: hello was said, the host has what it needs, the sandbox
 * that it names is there and runs. Every request gets one answer. What the operator does not read waits here, and as
 * long as something waits, nothing more is read from it: it can fill no memory of ours. Descriptors that nobody took
 * are closed when the handler returns. We never sleep: what has to wait for a moment waits in the loop. */
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "warden/warden.h"
#include "wire/packet.h"

#define PACKETS  16 /* of one turn: others want to be heard too */
#define HELD_MS  1
#define STUCK_MS 60000 /* an operator that reads nothing for so long is started again */

/* One that found no room in the socket. */
struct link_packet {
        struct link_packet *next;
        int fds[WARDEN_FDS_MAX];
        size_t fd_count, size;
        uint8_t bytes[];
};

static void ready(struct loop_watch *watch, uint32_t events);

/* --- sending --- */

static void want(struct warden *w) {
        uint32_t events = w->first ? EPOLLOUT : w->held.on ? 0 : EPOLLIN;

        if (w->link >= 0 && (!w->link_watch.on || w->link_watch.events != events))
                (void)loop_watch(w->loop, &w->link_watch, w->link, events);
}

static void packet_free(struct link_packet *p) {
        packet_close(p->fds, p->fd_count);
        free(p);
}

static void stuck(struct loop_timer *t) {
        struct warden *w = LOOP_OWNER(t, struct warden, stuck);

        log_line(LOG_LEVEL_ERROR, NULL, "the operator does not read what it is told: it is started again");
        operator_failed(w);
}

static void queue(struct warden *w, const uint8_t *bytes, size_t size, const int *fds, size_t fd_count) {
        struct link_packet *p = calloc(1, sizeof *p + size);

        if (!p) {
                operator_failed(w); /* with an answer missing there is no going on; a new one asks for all */
                return;
        }
        p->size = size;
        memcpy(p->bytes, bytes, size);
        for (; p->fd_count < fd_count; p->fd_count++) {
                p->fds[p->fd_count] = fcntl(fds[p->fd_count], F_DUPFD_CLOEXEC, WARDEN_HIGH_FD);
                if (p->fds[p->fd_count] < 0) {
                        packet_free(p);
                        operator_failed(w);
                        return;
                }
        }
        if (w->last)
                w->last->next = p;
        else {
                w->first = p;
                w->stuck.fire = stuck;
                loop_timer_set(w->loop, &w->stuck, loop_now(w->loop) + STUCK_MS);
        }
        w->last = p;
        w->queued++;
        want(w);
}

static int send_now(struct warden *w, uint8_t *bytes, size_t size, const int *fds, size_t fd_count) {
        return packet_send(w->link, &(struct iovec){bytes, size}, 1, fds, fd_count);
}

static void put(struct warden *w, const struct warden_message *m, const int *fds, size_t fd_count) {
        uint8_t bytes[WARDEN_PACKED_MAX];

        if (w->link < 0)
                return;
        ssize_t n = warden_pack(m, fd_count, bytes);
        int r = n < 0 ? (int)n : w->first ? -EAGAIN : send_now(w, bytes, (size_t)n, fds, fd_count);
        if (r == -EAGAIN)
                queue(w, bytes, (size_t)n, fds, fd_count);
        else if (r < 0) {
                log_line(LOG_LEVEL_ERROR, NULL, "could not tell the operator '%s': %s", warden_kind_name(m->kind),
                         err_name(r));
                operator_failed(w);
        }
}

static void drain(struct warden *w) {
        while (w->first) {
                struct link_packet *p = w->first;
                int r = send_now(w, p->bytes, p->size, p->fds, p->fd_count);

                if (r == -EAGAIN)
                        return;
                w->first = p->next;
                if (!w->first)
                        w->last = NULL;
                w->queued--;
                packet_free(p);
                if (r < 0) {
                        operator_failed(w);
                        return;
                }
                loop_timer_set(w->loop, &w->stuck, loop_now(w->loop) + STUCK_MS);
        }
        loop_timer_clear(w->loop, &w->stuck);
        want(w);
}

void link_answer(struct warden *w, uint32_t serial, struct warden_message *m, const int *fds, size_t fd_count) {
        if (serial == 0)
                return; /* whoever asked is not there any more */
        m->kind = WARDEN_ANSWER;
        m->serial = serial;
        put(w, m, fds, fd_count);
}

void link_fail(struct warden *w, uint32_t serial, int code, const struct err *err) {
        struct warden_message m = {.error = code, .text = err ? err->text : "", .hint = err ? err->hint : ""};

        if (!m.text[0])
                m.text = err_name(code);
        link_answer(w, serial, &m, NULL, 0);
}

void link_tell(struct warden *w, const struct warden_message *m) {
        if (w->hello)
                put(w, m, NULL, 0);
}

void link_item(struct request *q, const struct warden_message *m) {
        struct warden_message item = *m;

        item.kind = WARDEN_ITEM;
        item.serial = q->m->serial;
        put(q->w, &item, NULL, 0);
}

/* --- what may be asked --- */

static int take_hello(struct request *q) {
        struct warden *w = q->w;
        struct warden_message *a = &q->answer;
        struct sysinfo info = {0};
        struct statvfs fs = {0};
        cpu_set_t cpus;

        if (q->m->version != WARDEN_VERSION)
                return err_set(&q->err, ERR_INPUT, "operator and warden speak versions %u and %u", q->m->version,
                               WARDEN_VERSION);
        if (sysinfo(&info) == 0)
                a->numbers[WARDEN_FACT_MEMORY] = (uint64_t)info.totalram * info.mem_unit;
        CPU_ZERO(&cpus);
        if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
                a->numbers[WARDEN_FACT_CPUS] = 1000 * (uint64_t)CPU_COUNT(&cpus);
        if (fstatvfs(w->state, &fs) == 0) {
                a->numbers[WARDEN_FACT_DISK] = (uint64_t)fs.f_blocks * fs.f_frsize;
                a->numbers[WARDEN_FACT_FREE] = (uint64_t)fs.f_bavail * fs.f_frsize;
        }
        a->numbers[WARDEN_FACT_SSH] = ssh_ports(w);
        a->version = WARDEN_VERSION;
        a->flags = (w->rootless ? WARDEN_ROOTLESS : 0U) |
                   (w->nest_count == 0 || w->nests[0]->dirs[CGROUP_V2] < 0 ? WARDEN_NO_FREEZE : 0U);
        a->text = w->ceiling.guest;
        return 0;
}

static int take_down(struct request *q) {
        operator_end(q->w, q->m->flags & WARDEN_KILL);
        return 0;
}

enum {
        FIRST = 1,   /* before hello */
        ROOT = 2,    /* not without root */
        SANDBOX = 4, /* names a sandbox that is there, and is not ending */
};

static const struct {
        int (*handle)(struct request *q);
        unsigned needs;
} rows[] = {
        [WARDEN_HELLO] = {take_hello, FIRST},
        [WARDEN_LIST] = {use_list, 0},
        [WARDEN_START] = {start_request, 0},
        [WARDEN_CONNECT] = {use_connect, SANDBOX},
        [WARDEN_NETWORK] = {network_request, SANDBOX},
        [WARDEN_KEEP_KEY] = {network_keep_key, SANDBOX},
        [WARDEN_LEAF] = {use_leaf, SANDBOX},
        [WARDEN_LEAF_END] = {use_leaf_end, SANDBOX},
        [WARDEN_USAGE] = {use_usage, SANDBOX},
        [WARDEN_FREEZE] = {use_freeze, SANDBOX},
        [WARDEN_THAW] = {use_freeze, SANDBOX},
        [WARDEN_STOP] = {end_request, 0},
        [WARDEN_CUT] = {network_cut, SANDBOX},
        [WARDEN_GATE] = {network_gate, 0},
        [WARDEN_DISK_MAKE] = {disks_make, ROOT},
        [WARDEN_DISK_DROP] = {disks_drop, ROOT},
        [WARDEN_DISK_CLONE] = {disks_clone, ROOT},
        [WARDEN_DISK_SPACE] = {disks_space, ROOT},
        [WARDEN_DIFF] = {pack_request, ROOT},
        [WARDEN_EXPORT] = {pack_request, ROOT},
        [WARDEN_IMPORT] = {pack_request, ROOT},
        [WARDEN_FLATTEN] = {pack_request, ROOT},
        [WARDEN_IMAGE] = {pack_request, ROOT},
        [WARDEN_IMAGE_DROP] = {disks_image_drop, ROOT},
        [WARDEN_POOL] = {disks_pool, ROOT},
        [WARDEN_DOWN] = {take_down, 0},
        [WARDEN_READ] = {pack_request, ROOT},
        [WARDEN_PAPER] = {paper_request, 0},
};
static_assert(ELEMENTSOF(rows) == WARDEN_KIND_COUNT, "every request has a row");

static int handle(struct request *q) {
        struct warden *w = q->w;
        unsigned needs;

        if (!warden_is_request(q->m->kind) || !rows[q->m->kind].handle)
                return err_set(&q->err, -EBADMSG, "'%s' is not for an operator to say", warden_kind_name(q->m->kind));
        needs = rows[q->m->kind].needs;
        if (!(needs & FIRST) && !w->hello)
                return err_set(&q->err, -EPROTO, "the operator has not said hello");
        if (needs & ROOT && w->rootless) {
                (void)err_set(&q->err, ERR_UNENFORCED, "disks, snapshots and images need root");
                return err_hint(&q->err, "run the daemon as root, or keep the sandbox in memory");
        }
        if (needs & SANDBOX) {
                q->s = sandbox_find(w, q->m->id);
                if (!q->s)
                        return err_set(&q->err, -ENOENT, "there is no sandbox '%s'", q->m->id);
                if (q->s->state == SANDBOX_ENDING)
                        return err_set(&q->err, -ENOENT, "sandbox '%s' is ending", q->m->id);
        }
        return rows[q->m->kind].handle(q);
}

static void take(struct warden *w, const struct warden_message *m, int *fds, size_t fd_count) {
        struct request q = {.w = w, .m = m, .fds = fds, .fd_count = fd_count};
        uint32_t serial = m->serial;
        bool hello = m->kind == WARDEN_HELLO;

        int r = handle(&q);
        packet_close(fds, fd_count);
        if (r == 0)
                link_answer(w, serial, &q.answer, q.out, q.out_count);
        else if (r < 0)
                link_fail(w, serial, r, &q.err);
        for (size_t i = 0; i < q.out_count; i++)
                if (q.out_mine & 1U << i)
                        fd_close(&q.out[i]);
        if (hello && r == 0) {
                w->hello = true;
                operator_hello(w);
        }
}

/* Disks that it names are let go first, which may take a moment of the kernel's. Sandboxes that end, timers and
 * children are looked after meanwhile; the operator's other requests wait behind this one, as they always do. */
static void look_again(struct loop_timer *t) {
        struct warden *w = LOOP_OWNER(t, struct warden, held.timer);

        if (warm_let_go(w, &w->held.m)) {
                loop_timer_set(w->loop, t, loop_now(w->loop) + HELD_MS);
                return;
        }
        w->held.on = false;
        take(w, &w->held.m, w->held.fds, w->held.fd_count);
        want(w);
}

static void take_or_hold(struct warden *w, const struct warden_message *m, int *fds, size_t fd_count) {
        if (!w->hello || !warm_let_go(w, m)) {
                take(w, m, fds, fd_count);
                return;
        }
        w->held.on = true;
        w->held.m = *m;
        w->held.fd_count = fd_count;
        memcpy(w->held.fds, fds, fd_count * sizeof *fds);
        w->held.timer.fire = look_again;
        loop_timer_set(w->loop, &w->held.timer, loop_now(w->loop) + HELD_MS);
        want(w);
}

/* A message that says nothing we know: who sent it is told, if it said which one it is. */
static void take_bad(struct warden *w) {
        struct wire head = {.start = w->packet, .size = 8};
        struct err err;

        (void)wire_u32(&head);
        uint32_t serial = wire_u32(&head);
        log_line(LOG_LEVEL_WARNING, NULL, "the operator sent a message that is none");
        link_fail(w, serial, err_set(&err, -EBADMSG, "the request is malformed"), &err);
}

static void ready(struct loop_watch *watch, uint32_t events) {
        struct warden *w = LOOP_OWNER(watch, struct warden, link_watch);
        struct warden_message m;
        int fds[WARDEN_FDS_MAX];

        if (w->first && events & EPOLLOUT)
                drain(w);
        for (unsigned i = 0; i < PACKETS && w->link >= 0 && !w->first && !w->held.on; i++) {
                size_t count = 0;

                memset(w->packet, 0, 8);
                int r = warden_receive(w->link, w->packet, &m, fds, &count);
                if (r == -EAGAIN)
                        return;
                if (r == -EBADMSG)
                        take_bad(w);
                else if (r <= 0) {
                        operator_failed(w);
                        return;
                } else
                        take_or_hold(w, &m, fds, count);
        }
        if ((w->first || w->held.on) && events & (EPOLLHUP | EPOLLERR) && w->link >= 0)
                operator_failed(w);
}

void link_open(struct warden *w, int fd) {
        w->link = fd;
        w->hello = false;
        w->link_watch.ready = ready;
        want(w);
}

/* Whoever waits for an answer waits in vain: a new operator asks what there is. */
static void forget_serials(struct warden *w) {
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (struct sandbox *s = w->buckets[i]; s; s = s->next) {
                        s->start_serial = s->stop_serial = 0;
                        /* the new one hears of its end, unless it asks for it, too */
                        s->asked = s->asked && w->ending;
                }
}

void link_close(struct warden *w) {
        if (w->link_watch.on)
                loop_unwatch(w->loop, &w->link_watch);
        fd_close(&w->link);
        w->hello = false;
        while (w->first) {
                struct link_packet *p = w->first;
                w->first = p->next;
                packet_free(p);
        }
        w->last = NULL;
        w->queued = 0;
        loop_timer_clear(w->loop, &w->stuck);
        if (w->held.on)
                packet_close(w->held.fds, w->held.fd_count);
        w->held.on = false;
        loop_timer_clear(w->loop, &w->held.timer);
        forget_serials(w);
        work_forget(w);
        warm_forget(w);
        use_forget(w);
}
