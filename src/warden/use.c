/* Requests about sandboxes that run: connections, leaves of runs, usage, freezing, and the list of everything.
 *
 * Cgroups are opened when they are needed and closed again: with a thousand sandboxes there are not enough descriptors
 * to keep them. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "warden/step.h"
#include "warden/warden.h"

#define KILL_LOOKS 400 /* at most 3 s in all */

/* --- connections --- */

int use_dial(const struct sandbox *s) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        _cleanup_fd_ int folder = sandbox_folder(s), fd = -EBADF;

        if (folder < 0)
                return folder;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        (void)snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/guest.sock", folder);
        return connect(fd, (struct sockaddr *)&at, sizeof at) < 0 ? -errno : TAKE_FD(fd);
}

int use_connect(struct request *q) {
        int fd = use_dial(q->s);

        if (fd < 0)
                return err_set(&q->err, fd, "could not connect to the guest of sandbox '%s'", q->s->id);
        q->out[q->out_count] = fd;
        q->out_mine |= 1U << q->out_count++;
        return 0;
}

/* --- leaves --- */

static int open_cgroup(struct request *q, bool for_runs, struct cgroup *ret) {
        int r = for_runs ? cgroup_nest_find_runs(q->s->nest, q->s->id, ret) : sandbox_cgroup(q->s, ret);

        return r < 0 ? err_set(&q->err, r, "cannot open the cgroups of sandbox '%s'", q->s->id) : 0;
}

/* In a kernel of their own, processes are in no cgroup of this one. */
static bool has_leaves(const struct sandbox *s) {
        return s->nest && sandbox_is_on_host(s);
}

int use_leaf(struct request *q) {
        struct sandbox *s = q->s;
        struct cgroup c, leaf;
        struct cgroup_owner owner;

        if (!has_leaves(s))
                return 0; /* no cgroups, no files to write to */
        int r = open_cgroup(q, true, &c);
        if (r < 0)
                return r;
        bool there = cgroup_run_open(&c, q->m->run, false, &leaf) == 0;
        if (there)
                cgroup_close(&leaf); /* perhaps not all of it */
        if (!there && s->leaves >= WARDEN_LEAVES_MAX)
                r = err_set(&q->err, ERR_LIMIT, "sandbox '%s' has %u runs with processes in them already", s->id,
                            s->leaves);
        else {
                r = cgroup_run_open(&c, q->m->run, true, &leaf);
                if (r < 0)
                        (void)err_set(&q->err, r, "could not make a cgroup for run %u", q->m->run);
                else
                        s->leaves += !there;
        }
        if (r == 0) {
                r = cgroup_run_files(&c, &leaf, sandbox_owner(s, &owner), q->out);
                if (r < 0)
                        (void)err_set(&q->err, r, "could not open the cgroup of run %u", q->m->run);
                else {
                        q->out_count = (size_t)r;
                        q->out_mine = (1U << r) - 1;
                        r = 0;
                }
                cgroup_close(&leaf);
        }
        cgroup_close(&c);
        return r;
}

/* Leaves that are being killed: looked at again until nothing lives in them. */
struct kill {
        struct kill *next;
        struct warden *w;
        char id[WARDEN_ID_SIZE];
        uint32_t run, serial;
        unsigned looks;
        struct loop_timer timer;
};

/* A box with a kernel of its own has none of our cgroups for each run. What was refused in the whole of it since it was
 * last asked is said of the run that ends now: with several at once it may be another's. */
static void count_in_box(struct sandbox *s, struct warden_usage *usage) {
        struct cgroup c;

        if (!s->nest || sandbox_cgroup(s, &c) < 0)
                return;
        sandbox_refusals_new(s, &c, usage);
        cgroup_close(&c);
}

/* One attempt: 0 and usage when the leaf is gone, -EBUSY, or another error. looks: how often it was tried before. */
static int end_leaf(struct sandbox *s, uint32_t run, bool kill, unsigned looks, struct warden_usage *usage) {
        struct cgroup c, leaf;

        memset(usage, 0xff, sizeof *usage);
        if (!has_leaves(s)) {
                count_in_box(s, usage);
                return kill || !sandbox_is_on_host(s) ? -EOPNOTSUPP : 0;
        }
        int r = cgroup_nest_find_runs(s->nest, s->id, &c);
        if (r < 0)
                return r;
        r = cgroup_run_open(&c, run, false, &leaf);
        if (r == 0) {
                if (kill && looks == 0 && !sandbox_evict(s, &leaf))
                        r = -EPERM;
                else if (kill)
                        (void)cgroup_kill_pass(&leaf);
                sandbox_usage(&leaf, usage);
                if (r == 0)
                        r = cgroup_run_remove(&c, &leaf);
                if (r == 0) {
                        s->leaves -= s->leaves > 0;
                        s->ended_ooms += usage->oom_kills == UINT64_MAX ? 0 : usage->oom_kills;
                        s->ended_refusals += usage->fork_refusals == UINT64_MAX ? 0 : usage->fork_refusals;
                }
                cgroup_close(&leaf);
        }
        cgroup_close(&c);
        return r;
}

static void say_ended(struct warden *w, uint32_t serial, uint32_t run, int r, const struct warden_usage *usage) {
        struct warden_message m = {.error = r, .usage = *usage};
        struct err err = {0};

        if (r == -EBUSY)
                (void)err_set(&err, r, "processes of run %u live on", run);
        else if (r < 0)
                (void)err_set(&err, r, "could not end the cgroup of run %u", run);
        m.text = err.text;
        link_answer(w, serial, &m, NULL, 0);
}

static void kill_free(struct kill *k) {
        for (struct kill **p = &k->w->kills; *p; p = &(*p)->next)
                if (*p == k) {
                        *p = k->next;
                        break;
                }
        loop_timer_clear(k->w->loop, &k->timer);
        free(k);
}

static void look_again(struct loop_timer *t) {
        struct kill *k = LOOP_OWNER(t, struct kill, timer);
        struct sandbox *s = sandbox_find(k->w, k->id);
        struct warden_usage usage;
        int r = 0;

        memset(&usage, 0xff, sizeof usage);
        if (s && s->state != SANDBOX_ENDING) /* otherwise all of it goes */
                r = end_leaf(s, k->run, true, ++k->looks, &usage);
        if (r == -EBUSY && k->looks < KILL_LOOKS) {
                loop_timer_set(k->w->loop, t, loop_now(k->w->loop) + MIN(1 + k->looks / 4, 10U));
                return;
        }
        say_ended(k->w, k->serial, k->run, r, &usage);
        kill_free(k);
}

void use_forget(struct warden *w) {
        for (struct kill *k = w->kills; k; k = k->next)
                k->serial = 0;
}

int use_leaf_end(struct request *q) {
        struct warden *w = q->w;
        struct warden_usage usage;
        bool kill = q->m->flags & WARDEN_KILL;

        int r = end_leaf(q->s, q->m->run, kill, 0, &usage);
        if (r != -EBUSY || !kill) {
                say_ended(w, q->m->serial, q->m->run, r, &usage);
                return REQUEST_LATER;
        }
        struct kill *k = calloc(1, sizeof *k);
        if (!k)
                return err_set(&q->err, -ENOMEM, "could not end run %u", q->m->run);
        *k = (struct kill){.next = w->kills, .w = w, .run = q->m->run, .serial = q->m->serial};
        memcpy(k->id, q->s->id, sizeof k->id);
        k->timer.fire = look_again;
        w->kills = k;
        loop_timer_set(w->loop, &k->timer, loop_now(w->loop) + 1);
        return REQUEST_LATER;
}

/* --- usage, freezing --- */

int use_usage(struct request *q) {
        struct cgroup c, leaf;

        memset(&q->answer.usage, 0xff, sizeof q->answer.usage);
        if (!q->s->nest || (q->m->run != 0 && !has_leaves(q->s)))
                return 0;
        int r = open_cgroup(q, q->m->run != 0, &c);
        if (r < 0)
                return r;
        if (q->m->run == 0)
                sandbox_measure(q->s, &c, &q->answer.usage);
        else {
                r = cgroup_run_open(&c, q->m->run, false, &leaf);
                if (r == 0) {
                        sandbox_usage(&leaf, &q->answer.usage);
                        cgroup_close(&leaf);
                } else
                        (void)err_set(&q->err, r, "run %u of sandbox '%s' has no cgroup", q->m->run, q->s->id);
        }
        cgroup_close(&c);
        return r;
}

int use_freeze(struct request *q) {
        bool on = q->m->kind == WARDEN_FREEZE;
        struct cgroup c;

        if (!on && q->s->disk[0] && work_copies_disk(q->w, q->s->disk))
                return err_set(&q->err, -EBUSY, "the disk of sandbox '%s' is being copied", q->s->id);
        int r = sandbox_cgroup(q->s, &c);
        if (r == 0) {
                r = cgroup_freeze(&c, on);
                cgroup_close(&c);
        }
        if (r == -EOPNOTSUPP) {
                (void)err_set(&q->err, ERR_UNENFORCED, "this host cannot pause a sandbox: that needs cgroup v2");
                return err_hint(&q->err, "stop and resume it instead; 'stockade doctor' shows what the host has");
        }
        if (r == -EBUSY)
                return err_set(&q->err, r, "a process of sandbox '%s' cannot be paused now", q->s->id);
        return r < 0 ? err_set(&q->err, r, "could not %s sandbox '%s'", on ? "pause" : "unpause", q->s->id) : 0;
}

/* --- the list --- */

static void list_sandbox(struct request *q, const struct sandbox *s) {
        struct warden_message m = {
                .item = WARDEN_ITEM_SANDBOX, .pid = (uint64_t)s->pid, .start_time = s->start_time, .driver = s->driver};
        struct cgroup c;

        memcpy(m.id, s->id, sizeof m.id);
        memcpy(m.disk, s->disk, sizeof m.disk);
        memcpy(m.image, s->image, sizeof m.image);
        m.layer_count = s->layer_count;
        if (s->layer_count > 0)
                memcpy(m.layers, s->layers, s->layer_count * sizeof m.layers[0]);
        m.flags = s->networked && !s->cut ? WARDEN_NETWORKED : 0;
        if (sandbox_cgroup(s, &c) == 0) {
                m.flags |= cgroup_is_frozen(&c) ? WARDEN_FROZEN : 0;
                cgroup_close(&c);
        }
        link_item(q, &m);
}

static int list_disk(void *data, const char *id) {
        struct request *q = data;
        struct warden_message m = {.item = WARDEN_ITEM_DISK};

        (void)snprintf(m.id, sizeof m.id, "%s", id);
        if (sandbox_uses_disk(q->w, id, false))
                m.flags = sandbox_uses_disk(q->w, id, true) ? WARDEN_IN_USE : WARDEN_IN_USE | WARDEN_READONLY;
        link_item(q, &m);
        return 0;
}

static int list_image(void *data, const char *id) {
        struct request *q = data;
        struct warden_message m = {.item = WARDEN_ITEM_IMAGE};

        (void)snprintf(m.id, sizeof m.id, "%s", id);
        m.flags = sandbox_uses_image(q->w, id) ? WARDEN_IN_USE : 0;
        link_item(q, &m);
        return 0;
}

int use_list(struct request *q) {
        struct warden *w = q->w;

        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (const struct sandbox *s = w->buckets[i]; s; s = s->next)
                        list_sandbox(q, s);
        if (w->volumes) {
                int r = volume_each(w->volumes, false, list_disk, q);
                if (r == 0)
                        r = volume_each(w->volumes, true, list_image, q);
                if (r < 0)
                        return err_set(&q->err, r, "cannot list the disks");
        }
        for (uint32_t i = 0; i < WARDEN_GATES_MAX; i++)
                if (w->gates[i].pid > 0)
                        link_item(q, &(struct warden_message){
                                             .item = WARDEN_ITEM_GATE, .slot = i, .pid = (uint64_t)w->gates[i].pid});
        return 0;
}
