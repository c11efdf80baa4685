/* WARDEN_START: from a plan to a sandbox that serves.
 *
 * Everything is checked before anything is made. What is made is made in an order in which a successor of ours, should
 * we be killed in between, finds it: first the folder, then cgroups of the same name, then the process in them, then
 * the info that says who it is. Only after that the guest gets the word to go; without it, it ends by itself. The
 * answer comes when the guest says that it serves. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/log.h"
#include "cell/base-filter.h"
#include "cell/ids.h"
#include "cell/prepare.h"
#include "warden/step.h"
#include "warden/warden.h"

#define SERVE_MS      15000 /* a guest that does not serve by then never will */
#define BOX_MS        20000 /* one in a box */
#define LISTEN_QUEUE  16
#define AUTHORITY_MAX (2 << 20)
#define ENV_MAX       512

static uint8_t plan_bytes[PLAN_MAX_SIZE]; /* ours: whoever sent the plan cannot change it any more */

/* One start as it goes on. What it made is undone by finish_failed. */
struct start {
        struct request *q;
        struct warden *w;
        struct sandbox *s;
        struct plan plan;
        struct ceiling_plan asks;
        struct cell_context cell;
        struct cell_base base;
        struct cgroup cgroup;
        bool folder, cgroups;
        int skeleton_lock;
        char skeleton[PATH_MAX];
        char *argv[4];
        char *env[ENV_MAX + 1];
        struct cell_box box; /* of a driver that has one */
        char box_program[PATH_MAX], box_folder[PATH_MAX], box_ids[16];
        char *box_argv[5 + BOX_OPTIONS + 1];
        struct box_options box_options;
};

/* --- before anything is made --- */

static int read_plan(struct start *t) {
        struct err *err = &t->q->err;
        int fd = t->q->fds[0], seals = fcntl(fd, F_GET_SEALS);
        const int needed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
        struct stat st;

        if (seals < 0 || (seals & needed) != needed)
                return err_set(err, ERR_REFUSED, "the plan is not in a sealed memory file");
        if (fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot look at the plan");
        if (st.st_size <= 0 || st.st_size > PLAN_MAX_SIZE)
                return err_set(err, ERR_LIMIT, "the plan has %lld bytes; it may have %d", (long long)st.st_size,
                               PLAN_MAX_SIZE);
        for (off_t at = 0; at < st.st_size;) {
                ssize_t n = pread(fd, plan_bytes + at, (size_t)(st.st_size - at), at);
                if (n <= 0)
                        return err_set(err, n < 0 ? -errno : -EIO, "cannot read the plan");
                at += n;
        }
        int r = plan_check(plan_bytes, (size_t)st.st_size, &t->plan, err);
        return r < 0 ? r : ceiling_check(&t->w->ceiling, &t->plan, &t->asks, err);
}

/* Files of an authority come from memory too: nobody can make whoever reads them wait. */
static int check_authority(struct start *t) {
        struct err *err = &t->q->err;
        bool given = t->q->m->flags & WARDEN_AUTHORITY;
        struct stat st;

        if (t->asks.trust && !given)
                return err_set(err, ERR_REFUSED, "the plan trusts an authority that did not come along");
        for (size_t i = 1; i < t->q->fd_count; i++)
                if (fcntl(t->q->fds[i], F_GET_SEALS) < 0 || fstat(t->q->fds[i], &st) < 0 || st.st_size > AUTHORITY_MAX)
                        return err_set(err, ERR_REFUSED, "descriptor %zu is no memory file of an authority", i);
        return 0;
}

static int check_disks(struct start *t) {
        const struct warden_message *m = t->q->m;
        struct err *err = &t->q->err;

        if (t->asks.disk != (m->disk[0] != '\0'))
                return err_set(err, ERR_REFUSED,
                               t->asks.disk ? "the plan has a disk, and none is named"
                                            : "a disk is named that the plan does not have");
        if (t->asks.root_disk != (m->image[0] != '\0'))
                return err_set(err, ERR_REFUSED,
                               t->asks.root_disk ? "the plan has an image, and none is named"
                                                 : "an image is named that the plan does not have");
        if (m->disk[0] && (sandbox_uses_disk(t->w, m->disk, false) || work_writes_disk(t->w, m->disk) ||
                           work_copies_disk(t->w, m->disk)))
                return err_set(err, -EBUSY, "disk '%s' is in use", m->disk);
        for (uint32_t i = 0; i < m->layer_count; i++) {
                if (str_eq(m->layers[i], m->disk) || sandbox_uses_disk(t->w, m->layers[i], true) ||
                    work_writes_disk(t->w, m->layers[i]))
                        return err_set(err, -EBUSY, "disk '%s' is in use, and cannot be a layer", m->layers[i]);
                for (uint32_t k = 0; k < i; k++)
                        if (str_eq(m->layers[i], m->layers[k]))
                                return err_set(err, ERR_REFUSED, "disk '%s' is a layer twice", m->layers[i]);
        }
        return 0;
}

static bool is_offered(const struct warden *w, const char *driver) {
        for (size_t i = 0; i < w->conf.drivers.count; i++)
                if (str_eq(w->conf.drivers.items[i], driver))
                        return true;
        return false;
}

static int check_driver(struct start *t) {
        const char *name = driver_name((enum driver)t->q->m->driver);
        struct err *err = &t->q->err;

        if (!is_offered(t->w, name)) {
                (void)err_set(err, ERR_UNENFORCED, "no sandbox may be run by the driver '%s' here", name);
                return err_hint(err, "stockade.conf: drivers would have to name it");
        }
        if (t->q->m->driver == DRIVER_NATIVE)
                return 0;
        if (t->w->rootless) {
                (void)err_set(err, ERR_UNENFORCED, "the driver '%s' needs root", name);
                return err_hint(err, "use the driver native, or a daemon that root started");
        }
        return box_find(t->w, (enum driver)t->q->m->driver, t->box_program, err);
}

static int check_all(struct start *t) {
        struct warden *w = t->w;
        struct err *err = &t->q->err;

        if (w->ending)
                return err_set(err, -ESHUTDOWN, "the warden is ending");
        const struct sandbox *other = sandbox_find(w, t->q->m->id);
        if (other)
                return err_set(err, other->state == SANDBOX_ENDING ? -EBUSY : -EEXIST,
                               "there is a sandbox '%s' already", t->q->m->id);
        if (w->sandbox_count >= WARDEN_SANDBOXES_MAX)
                return err_set(err, ERR_LIMIT, "there are %d sandboxes already", WARDEN_SANDBOXES_MAX);
        int r = prepare_core_handler(err);
        if (r == 0)
                r = check_driver(t);
        if (r == 0)
                r = read_plan(t);
        if (r == 0)
                r = check_authority(t);
        if (r == 0)
                r = check_disks(t);
        if (r == 0)
                r = prepare_submounts(&t->plan, err);
        if (r == 0 && t->asks.env_count > ENV_MAX)
                r = err_set(err, ERR_LIMIT, "the plan sets more than %d variables", ENV_MAX);
        return r;
}

/* --- making --- */

static int make_folder(struct start *t) {
        struct warden *w = t->w;

        if (mkdirat(w->sandboxes, t->s->id, 0700) < 0)
                return err_set(&t->q->err, -errno, "cannot make the folder of sandbox '%s'", t->s->id);
        t->folder = true;
        step("folder");
        return 0;
}

/* Bound by descriptor: its path may be longer than such an address. Nothing of it is visible inside. */
static int make_listener(struct start *t) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        _cleanup_fd_ int folder = sandbox_folder(t->s), fd = -EBADF;

        if (folder < 0)
                return err_set(&t->q->err, folder, "cannot open the folder of sandbox '%s'", t->s->id);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/guest.sock", folder);
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, LISTEN_QUEUE) < 0)
                return err_set(&t->q->err, -errno, "could not make the guest's socket");
        t->cell.listener = TAKE_FD(fd);
        return 0;
}

static int take_ids(struct start *t) {
        struct cell_context *c = &t->cell;
        uint32_t slot;

        c->rootless = t->w->rootless;
        c->host_uid = geteuid();
        c->host_gid = getegid();
        c->tree_uid = (uid_t)t->asks.uid;
        c->tree_gid = (gid_t)t->asks.gid;
        if (c->rootless)
                return 0;
        int r = ids_take(t->w->ids, true, &slot, &t->q->err);
        if (r < 0)
                return r;
        t->s->slot = slot;
        c->id_base = CELL_ID_FIRST + slot * CELL_ID_RANGE;
        c->tree_uid += c->id_base;
        c->tree_gid += c->id_base;
        t->s->user = c->tree_uid;
        return 0;
}

static bool is_machine(enum driver d) {
        return d == DRIVER_MICROVM || d == DRIVER_FIRECRACKER;
}

/* What the cgroup may hold so that so many processes can run inside. The kernel of a gvisor box counts those itself
 * (RLIMIT_NPROC); out here each of them is eight processes and threads at rest and dozens in a crowd, and the kernel
 * some sixty more. It ends, and the sandbox with it, when it cannot have another: that is so for a crowd of hundreds,
 * since the host has to be left with enough. */
static uint64_t host_processes(enum driver d, uint64_t inside) {
        const uint64_t kernel = 256, at_rest = 8, in_a_crowd = 64, crowd = 4096, machine = 512;

        if (is_machine(d)) /* its own kernel counts those inside: out here are the threads of what runs it */
                return machine;
        if (d != DRIVER_GVISOR || inside >= UINT32_MAX)
                return inside;
        return kernel + MAX(at_rest * inside, MIN(in_a_crowd * inside, crowd));
}

/* What the cgroup may hold so that so much memory can be used inside. A machine's own kernel limits what is inside;
 * that kernel, and what runs the machine and serves its files, have to live too. */
static uint64_t host_memory(enum driver d, uint64_t inside) {
        const uint64_t machine = 320ULL << 20;

        return is_machine(d) && inside < UINT64_MAX - machine ? inside + machine : inside;
}

static int make_cgroups(struct start *t) {
        const struct ceiling_plan *asks = &t->asks;
        struct cgroup_limits l = CGROUP_LIMITS_NONE;

        if (t->w->nest_count == 0)
                return err_set(&t->q->err, ERR_UNENFORCED, "this host gives us no cgroups");
        l.cpus = asks->cpus;
        l.memory = host_memory(t->s->driver, asks->memory);
        l.processes = host_processes(t->s->driver, asks->processes);
        l.disk_read = asks->disk_read;
        l.disk_write = asks->disk_write;
        l.want_cpu_usage = true;
        l.need_cpu_usage = asks->cpu_time != UINT64_MAX;
        int r = prepare_devices(&t->plan, &l, &t->q->err);
        if (r == 0 && asks->disk && cgroup_limits_add(&l, t->w->state, true) < 0)
                r = err_set(&t->q->err, ERR_LIMIT, "the plan is about too many disks");
        if (r == 0)
                r = cgroup_nest_make(t->w->nests[0], &t->cgroup, t->s->id, &l, asks->accepted, asks->accepted_count,
                                     &t->q->err);
        if (r < 0)
                return r;
        t->cgroups = true;
        if (t->cgroup.into >= 0 || t->cgroup.task_count > 0)
                t->s->nest = t->w->nests[0];
        t->cell.cgroup = &t->cgroup;
        step("cgroups");
        return 0;
}

static int mount_disk(struct start *t) {
        const struct warden_message *m = t->q->m;
        const char *layers[WARDEN_LAYERS_MAX];
        struct volume_view view = {.disk = m->disk,
                                   .layers = layers,
                                   .layer_count = m->layer_count,
                                   .image = m->image,
                                   .id_base = t->cell.id_base,
                                   .user_ns = t->cell.user_ns};

        if (!t->asks.disk)
                return 0;
        for (uint32_t i = 0; i < m->layer_count; i++)
                layers[i] = m->layers[i];
        t->s->disk_root = warm_take(t->w, m->disk);
        if (t->s->disk_root >= 0)
                view.warm = &t->s->disk_root;
        int r = volume_mount(t->w->volumes, &view, &t->cell.disk, &t->q->err);
        if (r < 0 && volume_lost(t->w->volumes, m->disk, r))
                return err_set(&t->q->err, -ENODATA, "there is no disk '%s', or none that survived a loss of power",
                               m->disk);
        if (r < 0)
                return r;
        memcpy(t->s->disk, m->disk, sizeof t->s->disk);
        memcpy(t->s->image, m->image, sizeof t->s->image);
        t->s->layers = calloc(MAX(m->layer_count, 1U), sizeof *t->s->layers);
        if (!t->s->layers)
                return err_set(&t->q->err, -ENOMEM, "could not note the layers");
        memcpy(t->s->layers, m->layers, m->layer_count * sizeof m->layers[0]);
        t->s->layer_count = m->layer_count;
        step("disk");
        return 0;
}

static bool tree_in_use(void *data, const char *name) {
        const struct warden *w = data;

        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (const struct sandbox *s = w->buckets[i]; s; s = s->next)
                        if (str_eq(s->skeleton, name))
                                return true;
        return false;
}

/* A prepared root for exactly these bytes of plan: what the operator says about them does not count. */
static void find_skeleton(struct start *t) {
        uint8_t digest[HASH_SIZE];
        char key[HASH_TEXT_SIZE];
        struct hash h;

        hash_init(&h);
        hash_add(&h, t->plan.bytes, t->plan.size);
        hash_done(&h, digest);
        hash_text(digest, key);
        t->skeleton_lock = skeleton_get(t->w->trees, key, t->s->id, &t->plan, &t->base, tree_in_use, t->w,
                                        t->s->skeleton);
        if (t->skeleton_lock < 0) {
                t->s->skeleton[0] = '\0';
                return;
        }
        int n = snprintf(t->skeleton, sizeof t->skeleton, "%s/trees/%s", t->w->state_path, t->s->skeleton);
        if (n > 0 && (size_t)n < sizeof t->skeleton)
                t->cell.skeleton = t->skeleton;
        trees_hold(t->s, &t->skeleton_lock);
}

static int find_overlay(struct start *t) {
        struct stat st;

        if (!t->asks.overlay)
                return 0;
        _cleanup_fd_ int fd = prepare_open_exact(t->asks.overlay, O_PATH | O_DIRECTORY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_set(&t->q->err, fd < 0 ? fd : -errno, "cannot open '%s'", t->asks.overlay);
        t->cell.overlay = true;
        t->cell.overlay_dev = st.st_dev;
        t->cell.overlay_ino = st.st_ino;
        return 0;
}

static void make_arguments(struct start *t) {
        struct plan_walk walk = {0};
        struct plan_step s;
        size_t n = 0;

        t->argv[0] = (char *)(uintptr_t) "stockade-guest";
        t->argv[1] = (char *)(uintptr_t) "serve";
        t->argv[2] = (char *)(uintptr_t)t->asks.cwd;
        while (plan_next(&t->plan, &walk, &s))
                if (s.op == OP_ENV && n < ENV_MAX)
                        t->env[n++] = (char *)(uintptr_t)s.text[0];
        t->cell.argv = t->argv;
        t->cell.envp = t->env;
}

static int make_box(struct start *t) {
        struct sandbox *s = t->s;

        if (s->driver == DRIVER_NATIVE)
                return 0;
        int n = snprintf(t->box_folder, sizeof t->box_folder, "%s/sandboxes/%s", t->w->run_path, s->id);
        if (n < 0 || (size_t)n >= sizeof t->box_folder)
                return err_set(&t->q->err, -ENAMETOOLONG, "cannot name the folder of sandbox '%s'", s->id);
        (void)snprintf(t->box_ids, sizeof t->box_ids, "%u", t->cell.id_base);
        char *const words[] = {t->box_program, (char *)(uintptr_t) "start", s->id, t->box_ids,
                               (char *)(uintptr_t)CELL_GUEST_PATH};
        memcpy(t->box_argv, words, sizeof words);
        box_options(t->w, s->driver, &t->box_options, t->box_argv + ELEMENTSOF(words));
        t->box = (struct cell_box){
                .program = t->box_program, .argv = t->box_argv, .folder = t->box_folder, .plan = t->q->fds[0]};
        t->cell.box = &t->box;
        return 0;
}

static bool does_without(const struct ceiling_plan *asks, const char *key) {
        for (size_t i = 0; i < asks->accepted_count; i++)
                if (str_eq(asks->accepted[i], key))
                        return true;
        return false;
}

static void prepare_base(struct start *t) {
        t->base = (struct cell_base){.filter = base_filter,
                                     .filter_size = base_filter_size,
                                     .landlock = !does_without(&t->asks, "landlock"),
                                     .permits = ceiling_permits,
                                     .data = &t->w->ceiling};
        if (t->asks.filter_size == base_filter_size && memcmp(t->asks.filter, base_filter, base_filter_size) == 0)
                t->base.filter = NULL; /* the plan's own is the same */
        t->cell.base = &t->base;
}

static int make_all(struct start *t) {
        int r;

        prepare_base(t);
        r = make_folder(t);
        if (r == 0)
                r = make_listener(t);
        if (r == 0)
                r = take_ids(t);
        if (r == 0)
                r = make_cgroups(t);
        if (r == 0)
                r = prepare_namespaces(&t->cell, &t->plan, &t->q->err);
        if (r == 0)
                r = mount_disk(t);
        if (r == 0)
                r = find_overlay(t);
        if (r == 0)
                r = make_box(t);
        if (r < 0)
                return r;
        if (!t->cell.box) /* what a driver changes in the tree must not be others' */
                find_skeleton(t);
        make_arguments(t);
        if (t->asks.networked) {
                int memory = network_memory(t->s, true);
                if (memory < 0)
                        return err_set(&t->q->err, memory, "could not make the file for names");
                (void)close(memory);
        }
        return 0;
}

/* --- the process --- */

/* What its keeper said, which nobody has to believe: a code of ours, and a sentence that does not end with an errno. */
static int explain_box(const struct sandbox *s, const struct report *r, const struct report_words *words,
                       struct err *err) {
        bool known = r->error >= ERR_LIMIT && r->error <= ERR_REFUSED;

        (void)err_set(err, known ? r->error : ERR_UNENFORCED, "the driver '%s' could not start the sandbox: %s",
                      driver_name(s->driver), words->text);
        if (words->hint[0])
                (void)err_hint(err, "%s", words->hint);
        return err->code;
}

/* What the cell has to say before its exec. 0, 1 when the guest serves, or the error of a step. */
static int take_reports(struct sandbox *s, const struct plan *plan, struct err *err) {
        struct report r;
        struct report_words words;
        int fds[CELL_REPORT_FDS];
        size_t count = 0;
        int n;

        while ((n = cell_receive(s->report, &r, &words, fds, &count)) == 1) {
                if (r.kind == REPORT_NETWORK && count == NET_FDS && s->sockets[0] < 0 && s->networked)
                        for (; count > 0; count--)
                                s->sockets[count - 1] = high_fd(fds[count - 1]);
                while (count > 0)
                        (void)close(fds[--count]);
                if (r.kind == REPORT_STEP_FAILED && plan->bytes)
                        return cell_explain(plan, &r, err);
                if (r.kind == REPORT_BOX_FAILED && s->driver != DRIVER_NATIVE)
                        return explain_box(s, &r, &words, err);
                if (r.kind == REPORT_SERVING)
                        return 1;
        }
        if (n == -EAGAIN)
                return 0;
        return err_set(err, n == 0 ? -EPIPE : n, "the guest ended before it served");
}

/* It will not start: why is kept until it is gone. */
static void give_up(struct sandbox *s, const struct err *err) {
        s->failure = malloc(sizeof *s->failure);
        if (s->failure)
                *s->failure = *err;
        end_begin(s);
}

/* One answer: if it cannot be given, the sandbox ends, and that is the answer. */
static void answer_started(struct sandbox *s) {
        struct warden_message m = {.pid = (uint64_t)s->pid, .start_time = s->start_time};
        int fds[1 + GATE_MEMORY + 1], memory = -EBADF;
        size_t count = 0;
        struct err err = {0};

        if (s->start_serial == 0)
                return; /* a successor of the operator that asked will find it */
        int guest = use_dial(s);
        if (guest < 0) {
                (void)err_set(&err, guest, "could not connect to the guest");
                give_up(s, &err);
                return;
        }
        fds[count++] = guest;
        if (s->networked) {
                memory = network_memory(s, false);
                for (size_t i = 0; i < NET_FDS; i++)
                        fds[count++] = s->sockets[i];
                fds[count++] = memory;
                m.flags = WARDEN_NETWORKED;
        }
        if (s->networked && (s->sockets[0] < 0 || memory < 0)) {
                (void)err_set(&err, -EIO, "the sandbox has no sockets for its gate");
                give_up(s, &err);
        } else {
                link_answer(s->w, s->start_serial, &m, fds, count);
                s->start_serial = 0;
        }
        (void)close(guest);
        fd_close(&memory);
}

static void serves(struct sandbox *s) {
        struct warden *w = s->w;

        if (s->reports.on)
                loop_unwatch(w->loop, &s->reports);
        fd_close(&s->report);
        loop_timer_clear(w->loop, &s->timer);
        free(TAKE_PTR(s->plan_bytes));
        s->state = SANDBOX_RUNNING;
        s->served = true;
        step("serving");
        if (s->disk[0])
                disks_order_soon(w);
        answer_started(s);
        step("answered");
}

static unsigned serve_ms(const struct sandbox *s) {
        switch (s->driver) {
        case DRIVER_NATIVE:
                return SERVE_MS;
        case DRIVER_MICROVM:
        case DRIVER_FIRECRACKER:
                return DRIVER_MACHINE_MS;
        case DRIVER_DOCKER:
        case DRIVER_GVISOR:
        case DRIVER_COUNT:
        default:
                return BOX_MS;
        }
}

static void too_long(struct loop_timer *t) {
        struct sandbox *s = LOOP_OWNER(t, struct sandbox, timer);
        struct err err = {0};

        if (s->driver == DRIVER_NATIVE)
                (void)err_set(&err, -ETIMEDOUT, "the guest did not serve within %u s", serve_ms(s) / 1000);
        else {
                (void)err_set(&err, ERR_UNENFORCED, "the driver '%s' had no guest that serves within %u s",
                              driver_name(s->driver), serve_ms(s) / 1000);
                (void)err_hint(&err, "try again when this host is less busy; 'stockade doctor' says whether it works");
        }
        give_up(s, &err);
}

static void reported(struct loop_watch *watch, uint32_t events) {
        struct sandbox *s = LOOP_OWNER(watch, struct sandbox, reports);
        struct err err = {0};

        (void)events;
        int r = take_reports(s, &s->plan, &err);
        if (r == 1)
                serves(s);
        else if (r < 0)
                give_up(s, &err);
}

/* A cell that is waited for costs less, one that is not leaves us free to begin the next on another processor. */
static bool others_wait(const struct warden *w) {
        struct pollfd p = {.fd = w->link, .events = POLLIN};

        return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static int launch(struct start *t) {
        struct sandbox *s = t->s;
        struct err *err = &t->q->err;
        int ends[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
                int r = -errno;
                fd_close(&null);
                return err_set(err, r, "could not make a socket pair");
        }
        for (size_t i = 0; i < 3; i++)
                t->cell.stdio[i] = null;
        t->cell.plan = &t->plan;
        t->cell.report = ends[1];
        t->cell.report_outside = s->report = ends[0];
        t->cell.lives = true;
        t->cell.spare_fds = WARDEN_HIGH_FD;
        t->cell.apart = others_wait(t->w);
        int r = cell_start(&t->cell, &s->pid, &s->pidfd, err);
        (void)close(null);
        (void)close(ends[1]);
        if (r < 0)
                return r;
        step("cloned");
        s->child = true;
        s->pidfd = high_fd(s->pidfd);
        s->networked = t->asks.networked;
        r = ids_start_time(s->pid, &s->start_time);
        if (r < 0)
                (void)err_set(err, r, "the cell ended at once");
        int said = take_reports(s, &t->plan, err);
        return said < 0 ? said : r;
}

/* Whatever the cell says from here on is about steps that we do not have at hand any more. */
static int keep_plan(struct start *t) {
        struct sandbox *s = t->s;

        if (CELL_WAITS && !t->cell.apart)
                return 0; /* there are no more steps */
        s->plan_bytes = malloc(t->plan.size);
        if (!s->plan_bytes)
                return err_set(&t->q->err, -ENOMEM, "could not keep the plan");
        memcpy(s->plan_bytes, t->plan.bytes, t->plan.size);
        return plan_check(s->plan_bytes, t->plan.size, &s->plan, &t->q->err);
}

/* It is written down who it is; now it may begin. */
static int let_go(struct start *t) {
        struct sandbox *s = t->s;
        int r = s->slot < 0 ? 0 : ids_note(t->w->ids, (uint32_t)s->slot, s->pid, s->start_time);

        if (r == 0)
                r = sandbox_write_info(s);
        if (r < 0)
                return err_set(&t->q->err, r, "could not write down what sandbox '%s' is", s->id);
        step("info");
        if (send(s->report, "g", 1, MSG_NOSIGNAL) != 1)
                return err_set(&t->q->err, -errno, "the guest ended before it served");
        step("gone");
        return 0;
}

static void undo(struct start *t) {
        struct sandbox *s = t->s;

        if (s->pid > 0) {
                (void)kernel_pidfd_send_signal(s->pidfd, SIGKILL, NULL);
                while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        int r = t->cgroups ? -EBUSY : 0;
        for (unsigned i = 0; r == -EBUSY && i < 1000; i++) {
                if (i > 0)
                        (void)usleep(1000);
                r = cgroup_nest_remove(t->w->nests[0], &t->cgroup);
        }
        if (s->slot >= 0 && r != -EBUSY)
                ids_release(t->w->ids, (uint32_t)s->slot);
        else if (s->slot >= 0)
                ids_keep(t->w->ids, (uint32_t)s->slot);
        if (t->folder)
                (void)state_remove_tree(t->w->sandboxes, s->id);
        sandbox_free(s);
}

static void close_all(struct start *t) {
        fd_close(&t->cell.listener);
        fd_close(&t->cell.disk);
        fd_close(&t->skeleton_lock);
        prepare_done(&t->cell);
        cell_user_namespace_reap();
        cgroup_close(&t->cgroup);
}

int start_request(struct request *q) {
        static struct start t; /* large, and one at a time */

        t = (struct start){.q = q, .w = q->w, .cgroup = CGROUP_INIT, .skeleton_lock = -EBADF};
        t.cell.listener = t.cell.disk = t.cell.user_ns = t.cell.watcher = -EBADF;
        for (size_t i = 0; i < ELEMENTSOF(t.cell.authority); i++)
                t.cell.authority[i] = i + 1 < q->fd_count ? q->fds[i + 1] : -EBADF;
        int r = check_all(&t);
        if (r < 0)
                return r;
        t.s = sandbox_new(q->w, q->m->id);
        if (!t.s)
                return err_set(&q->err, -ENOMEM, "could not make a sandbox");
        t.s->driver = (enum driver)q->m->driver;
        r = make_all(&t);
        if (r == 0)
                r = launch(&t);
        if (r == 0)
                r = keep_plan(&t);
        if (r == 0)
                r = let_go(&t);
        if (r < 0)
                undo(&t);
        close_all(&t);
        if (r < 0)
                return r;

        struct sandbox *s = t.s;
        s->start_serial = q->m->serial;
        sandbox_add(s);
        s->timer.fire = too_long;
        loop_timer_set(q->w->loop, &s->timer, loop_now(q->w->loop) + serve_ms(s));
        s->report = high_fd(s->report);
        s->reports.ready = reported;
        sandbox_watch_exit(s);
        if (loop_watch(q->w->loop, &s->reports, s->report, EPOLLIN) < 0)
                end_begin(s);
        return REQUEST_LATER;
}
