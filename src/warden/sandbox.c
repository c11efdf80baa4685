/* The table of sandboxes, and what is written about each: <run>/sandboxes/<id>/info, one `key value` a line. A
 * successor reads it; it is written whole or not at all, and nothing in it is the guest's to change. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "cell/ids.h"
#include "warden/warden.h"

#define INFO_MAX 8192

static size_t bucket(const char *id) {
        return strtoul((const char[]){id[12], id[13], id[14], id[15], '\0'}, NULL, 16) % WARDEN_BUCKETS;
}

struct sandbox *sandbox_find(const struct warden *w, const char *id) {
        for (struct sandbox *s = w->buckets[bucket(id)]; s; s = s->next)
                if (str_eq(s->id, id))
                        return s;
        return NULL;
}

struct sandbox *sandbox_new(struct warden *w, const char *id) {
        struct sandbox *s = calloc(1, sizeof *s);

        if (!s)
                return NULL;
        s->w = w;
        memcpy(s->id, id, sizeof s->id);
        s->pidfd = s->report = s->disk_root = -EBADF;
        s->slot = -1;
        s->status = -1;
        for (size_t i = 0; i < ELEMENTSOF(s->sockets); i++)
                s->sockets[i] = -EBADF;
        return s;
}

void sandbox_add(struct sandbox *s) {
        struct sandbox **b = &s->w->buckets[bucket(s->id)];

        s->next = *b;
        *b = s;
        s->w->sandbox_count++;
        if (s->nest)
                s->nest->users++;
}

void sandbox_take_out(struct sandbox *s) {
        struct warden *w = s->w;

        for (struct sandbox **b = &w->buckets[bucket(s->id)]; *b; b = &(*b)->next)
                if (*b == s) {
                        *b = s->next;
                        w->sandbox_count--;
                        if (s->nest)
                                s->nest->users--;
                        break;
                }
}

void sandbox_free(struct sandbox *s) {
        struct warden *w = s->w;

        sandbox_take_out(s);
        if (s->exit.on)
                loop_unwatch(w->loop, &s->exit);
        if (s->reports.on)
                loop_unwatch(w->loop, &s->reports);
        loop_timer_clear(w->loop, &s->timer);
        trees_release(s);
        fd_close(&s->pidfd);
        fd_close(&s->report);
        fd_close(&s->disk_root);
        for (size_t i = 0; i < ELEMENTSOF(s->sockets); i++)
                fd_close(&s->sockets[i]);
        free(s->layers);
        free(s->failure);
        free(s->plan_bytes);
        free(s);
}

int sandbox_folder(const struct sandbox *s) {
        int fd = openat(s->w->sandboxes, s->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

static const char *nest_name(const struct sandbox *s) {
        for (size_t i = 0; i < s->w->nest_count; i++)
                if (s->w->nests[i] == s->nest)
                        return s->w->nest_names[i];
        return NULL;
}

int sandbox_write_info(struct sandbox *s) {
        _cleanup_buf_ struct buf b = {.max = INFO_MAX};
        _cleanup_fd_ int folder = sandbox_folder(s);
        const char *nest = nest_name(s);

        if (folder < 0)
                return folder;
        buf_printf(&b, "version 1\npid %d\nstart %" PRIu64 "\n", (int)s->pid, s->start_time);
        if (s->slot >= 0)
                buf_printf(&b, "slot %" PRId64 "\nuser %u\n", s->slot, s->user);
        if (nest)
                buf_printf(&b, "nest %s\n", nest);
        if (s->driver != DRIVER_NATIVE)
                buf_printf(&b, "driver %s\n", driver_name(s->driver));
        if (s->networked)
                buf_printf(&b, "network %s\n", s->cut ? "cut" : "gate");
        if (s->skeleton[0])
                buf_printf(&b, "tree %s\n", s->skeleton);
        if (s->disk[0])
                buf_printf(&b, "disk %s\n", s->disk);
        if (s->image[0])
                buf_printf(&b, "image %s\n", s->image);
        for (uint32_t i = 0; i < s->layer_count; i++)
                buf_printf(&b, "layer %s\n", s->layers[i]);
        buf_str(&b, "end 1\n"); /* without it, it is not whole */
        return buf_ok(&b) ? fd_replace_file(folder, "info", 0600, b.data, b.size) : -ENOMEM;
}

static int take_number(const char *value, uint64_t most, uint64_t *ret) {
        char *end;

        errno = 0;
        unsigned long long n = strtoull(value, &end, 10);
        if (end == value || *end || errno || n > most)
                return -EBADMSG;
        *ret = n;
        return 0;
}

static int take_id(const char *value, char ret[WARDEN_ID_SIZE]) {
        if (!warden_is_id(value))
                return -EBADMSG;
        memcpy(ret, value, WARDEN_ID_SIZE);
        return 0;
}

static int take_nest(struct sandbox *s, const char *name) {
        for (size_t i = 0; i < s->w->nest_count; i++)
                if (str_eq(s->w->nest_names[i], name)) {
                        s->nest = s->w->nests[i];
                        return 0;
                }
        return -ENOENT;
}

static int take_layer(struct sandbox *s, const char *value) {
        if (s->layer_count >= WARDEN_LAYERS_MAX)
                return -EBADMSG;
        char(*more)[WARDEN_ID_SIZE] = realloc(s->layers, (s->layer_count + 1) * sizeof *more);
        if (!more)
                return -ENOMEM;
        s->layers = more;
        int r = take_id(value, s->layers[s->layer_count]);
        s->layer_count += r == 0;
        return r;
}

static int take_pair(struct sandbox *s, const char *key, const char *value) {
        uint64_t n = 0;
        int r;

        if (str_eq(key, "version") || str_eq(key, "end"))
                return str_eq(value, "1") ? 0 : -EBADMSG;
        if (str_eq(key, "pid")) {
                r = take_number(value, INT32_MAX, &n);
                s->pid = (pid_t)n;
                return r;
        }
        if (str_eq(key, "start"))
                return take_number(value, UINT64_MAX, &s->start_time);
        if (str_eq(key, "slot")) {
                r = take_number(value, CELL_ID_SLOTS - 1, &n);
                s->slot = (int64_t)n;
                return r;
        }
        if (str_eq(key, "user")) {
                r = take_number(value, CELL_ID_FIRST + (uint64_t)CELL_ID_SLOTS * CELL_ID_RANGE - 1, &n);
                s->user = (uid_t)n;
                return r;
        }
        if (str_eq(key, "nest"))
                return take_nest(s, value);
        if (str_eq(key, "network")) {
                s->networked = true;
                s->cut = str_eq(value, "cut");
                return 0;
        }
        if (str_eq(key, "driver")) {
                r = driver_find(value);
                s->driver = r < 0 ? DRIVER_NATIVE : (enum driver)r;
                return r < 0 ? -EBADMSG : 0;
        }
        if (str_eq(key, "tree")) {
                (void)snprintf(s->skeleton, sizeof s->skeleton, "%s", value);
                return strlen(value) < sizeof s->skeleton ? 0 : -EBADMSG;
        }
        if (str_eq(key, "disk"))
                return take_id(value, s->disk);
        if (str_eq(key, "image"))
                return take_id(value, s->image);
        return str_eq(key, "layer") ? take_layer(s, value) : -EBADMSG;
}

static uid_t first_id(const struct sandbox *s) {
        return CELL_ID_FIRST + (uid_t)s->slot * CELL_ID_RANGE;
}

int sandbox_read_info(struct sandbox *s, int folder) {
        _cleanup_free_ char *text = NULL;

        int r = fd_read_file(folder, "info", INFO_MAX, true, &text, NULL, NULL);
        if (r < 0)
                return r;
        size_t size = strlen(text), last = strlen("\nend 1\n");
        if (size < last || !str_eq(text + size - last, "\nend 1\n"))
                return -EBADMSG;
        for (char *line = text; r == 0 && *line;) {
                char *end = strchr(line, '\n'), *space = strchr(line, ' ');

                if (!end || !space || space > end)
                        return -EBADMSG;
                *end = *space = '\0';
                r = take_pair(s, line, space + 1);
                line = end + 1;
        }
        if (r == 0 && s->slot >= 0 && s->user - first_id(s) >= CELL_ID_RANGE)
                return -EBADMSG;
        return r == 0 && s->pid <= 1 ? -EBADMSG : r;
}

bool sandbox_uses_disk(const struct warden *w, const char *disk, bool as_top) {
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (const struct sandbox *s = w->buckets[i]; s; s = s->next) {
                        if (str_eq(s->disk, disk))
                                return true;
                        for (uint32_t k = 0; !as_top && k < s->layer_count; k++)
                                if (str_eq(s->layers[k], disk))
                                        return true;
                }
        return false;
}

const struct sandbox *sandbox_of_disk(const struct warden *w, const char *disk) {
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (const struct sandbox *s = w->buckets[i]; s; s = s->next)
                        if (str_eq(s->disk, disk))
                                return s;
        return NULL;
}

bool sandbox_uses_image(const struct warden *w, const char *image) {
        for (size_t i = 0; i < WARDEN_BUCKETS; i++)
                for (const struct sandbox *s = w->buckets[i]; s; s = s->next)
                        if (str_eq(s->image, image))
                                return true;
        return false;
}

/* Why it did not start was said before it ended, and may not have been heard yet. */
static void exited(struct loop_watch *watch, uint32_t events) {
        struct sandbox *s = LOOP_OWNER(watch, struct sandbox, exit);

        if (s->reports.on)
                s->reports.ready(&s->reports, events);
        end_died(s);
}

void sandbox_watch_exit(struct sandbox *s) {
        s->exit.ready = exited;
        if (loop_watch(s->w->loop, &s->exit, s->pidfd, EPOLLIN) < 0)
                end_begin(s); /* one whose end nobody would hear of cannot stay */
}

int sandbox_cgroup(const struct sandbox *s, struct cgroup *ret) {
        return s->nest ? cgroup_nest_find(s->nest, s->id, ret) : -EOPNOTSUPP;
}

bool sandbox_is_on_host(const struct sandbox *s) {
        return s->driver == DRIVER_NATIVE || s->driver == DRIVER_DOCKER;
}

const struct cgroup_owner *sandbox_owner(const struct sandbox *s, struct cgroup_owner *ret) {
        if (s->slot < 0)
                return NULL;
        *ret = (struct cgroup_owner){.first = first_id(s), .count = CELL_ID_RANGE, .user = s->user};
        return ret;
}

bool sandbox_evict(const struct sandbox *s, const struct cgroup *leaf) {
        struct cgroup_owner ours;

        if (!sandbox_owner(s, &ours))
                return true;
        int n = cgroup_run_evict(leaf, &ours);
        if (n > 0)
                log_line(LOG_LEVEL_ERROR, s->id, "%d in the cgroup of a run: no process of this sandbox; put out", n);
        if (n < 0)
                log_line(LOG_LEVEL_ERROR, s->id,
                         "somebody in the cgroup of a run is no process of this sandbox and could not be put out: %s",
                         err_name(n));
        return n >= 0;
}

struct eviction {
        const struct sandbox *s;
        const struct cgroup *c;
        bool done;
};

static void evict_leaf(void *data, uint32_t run) {
        struct eviction *e = data;
        struct cgroup leaf;

        if (cgroup_run_open(e->c, run, false, &leaf) < 0)
                return;
        e->done &= sandbox_evict(e->s, &leaf);
        cgroup_close(&leaf);
}

bool sandbox_evict_all(const struct sandbox *s, const struct cgroup *c) {
        struct eviction e = {s, c, true};

        if (s->leaves > 0)
                (void)cgroup_run_each(c, evict_leaf, &e);
        return e.done;
}

void sandbox_usage(const struct cgroup *c, struct warden_usage *ret) {
        struct cgroup_usage u;

        (void)cgroup_usage(c, &u);
        *ret = (struct warden_usage){.cpu_us = u.cpu_us,
                                     .memory_now = u.memory_now,
                                     .memory_peak = u.memory_peak,
                                     .processes_now = u.processes_now,
                                     .processes_peak = u.processes_peak,
                                     .read_bytes = u.read_bytes,
                                     .write_bytes = u.write_bytes,
                                     .oom_kills = u.oom_kills,
                                     .fork_refusals = u.fork_refusals,
                                     .throttled_us = u.throttled_us};
}

/* Counted where they happen, and not above: on v1, and refused forks on v2 too before Linux 6.11. */
static void add_refusals(struct warden_usage *to, uint64_t oom_kills, uint64_t fork_refusals) {
        if (to->oom_kills != UINT64_MAX && oom_kills != UINT64_MAX)
                to->oom_kills += oom_kills;
        if (to->fork_refusals != UINT64_MAX && fork_refusals != UINT64_MAX)
                to->fork_refusals += fork_refusals;
}

struct sum {
        const struct cgroup *c;
        struct warden_usage *usage;
        bool ooms;
};

static void add_leaf(void *data, uint32_t run) {
        struct sum *sum = data;
        struct cgroup leaf;
        struct cgroup_usage u;

        if (cgroup_run_open(sum->c, run, false, &leaf) < 0)
                return;
        (void)cgroup_refusals(&leaf, &u);
        add_refusals(sum->usage, sum->ooms ? u.oom_kills : 0, u.fork_refusals);
        cgroup_close(&leaf);
}

void sandbox_usage_whole(const struct cgroup *c, struct warden_usage *ret) {
        struct cgroup guest;
        struct cgroup_usage u;

        sandbox_usage(c, ret);
        if (cgroup_nest_guest(c, &guest) == 0) { /* v2: it has a leaf of its own */
                (void)cgroup_refusals(&guest, &u);
                add_refusals(ret, 0, u.fork_refusals);
                cgroup_close(&guest);
        }
}

/* What is more than was counted before; nothing is said of what the host does not count. */
static void count_new(uint64_t now, uint64_t *counted, uint64_t *ret) {
        if (now == UINT64_MAX)
                return;
        *ret = now - MIN(*counted, now);
        *counted = now;
}

void sandbox_refusals_new(struct sandbox *s, const struct cgroup *c, struct warden_usage *ret) {
        struct warden_usage all;

        sandbox_usage_whole(c, &all);
        count_new(all.oom_kills, &s->ended_ooms, &ret->oom_kills);
        count_new(all.fork_refusals, &s->ended_refusals, &ret->fork_refusals);
}

void sandbox_measure(const struct sandbox *s, const struct cgroup *c, struct warden_usage *ret) {
        struct sum sum = {c, ret, c->home[CGROUP_MEMORY] != c->into};

        sandbox_usage_whole(c, ret);
        if (sandbox_is_on_host(s))
                add_refusals(ret, sum.ooms ? s->ended_ooms : 0, s->ended_refusals);
        if (s->leaves > 0)
                (void)cgroup_run_each(c, add_leaf, &sum);
}
