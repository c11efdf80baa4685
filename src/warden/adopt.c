/* What a predecessor left: sandboxes that run are adopted, what it was making or removing when it ended is removed.
 *
 * A sandbox is believed in if its info is whole, its PID 1 is the process that the info names (number and start time,
 * and in the sandbox's cgroup), and its folder is of this boot. Everything else that carries one of our names is an
 * orphan: folders without info, cgroups without a sandbox, half-made trees. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "cell/ids.h"
#include "warden/warden.h"

#define NEST_MAX (8 * PATH_MAX)

/* --- nests --- */

static void name_nest(const char *text, char ret[WARDEN_ID_SIZE]) {
        uint8_t digest[HASH_SIZE];
        char hex[HASH_TEXT_SIZE];
        struct hash h;

        hash_init(&h);
        hash_add_str(&h, text);
        hash_done(&h, digest);
        hash_text(digest, hex);
        memcpy(ret, hex, WARDEN_ID_SIZE - 1);
        ret[WARDEN_ID_SIZE - 1] = '\0';
}

static int open_nests(struct warden *w) {
        if (mkdirat(w->run, "nests", 0700) < 0 && errno != EEXIST)
                return -errno;
        int fd = openat(w->run, "nests", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* Where new sandboxes go. */
static int own_nest(struct warden *w, int folder, struct err *err) {
        _cleanup_buf_ struct buf text = {.max = NEST_MAX};
        struct cgroup_nest *n = calloc(1, sizeof *n);

        if (!n)
                return err_set(err, -ENOMEM, "could not look for cgroups");
        int r = cgroup_nest_open(n, w->token, err);
        if (r < 0) {
                free(n);
                return r;
        }
        w->nests[0] = n;
        w->nest_count = 1;
        cgroup_nest_text(n, &text);
        name_nest(text.data ? text.data : "", w->nest_names[0]);
        r = fd_replace_file(folder, w->nest_names[0], 0600, text.data ? text.data : "", text.size);
        return r < 0 ? err_set(err, r, "could not write down where cgroups are") : 0;
}

/* Where earlier daemons of this state folder had theirs, if they were started elsewhere. */
static void other_nests(struct warden *w, int folder) {
        int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *e;

        if (!d)
                fd_close(&copy);
        while (d && w->nest_count < WARDEN_NESTS && (e = readdir(d))) {
                _cleanup_free_ char *text = NULL;
                struct cgroup_nest *n;

                if (!warden_is_id(e->d_name) || str_eq(e->d_name, w->nest_names[0]) ||
                    fd_read_file(folder, e->d_name, NEST_MAX, true, &text, NULL, NULL) < 0)
                        continue;
                n = calloc(1, sizeof *n);
                if (!n || cgroup_nest_again(n, text) < 0) {
                        free(n);
                        continue;
                }
                memcpy(w->nest_names[w->nest_count], e->d_name, WARDEN_ID_SIZE);
                w->nests[w->nest_count++] = n;
        }
        if (d)
                (void)closedir(d);
}

static bool is_known(void *data, const char *id) {
        return sandbox_find(data, id) != NULL;
}

static void sweep_nests(struct warden *w, int folder) {
        for (size_t i = w->nest_count; i-- > 0;) {
                struct cgroup_nest *n = w->nests[i];
                bool done = i > 0 && n->users == 0;
                int removed = cgroup_nest_sweep(n, is_known, w, done);

                if (removed > 0)
                        log_line(LOG_LEVEL_WARNING, NULL, "%d sandboxes that nobody knew of were removed", removed);
                if (!done || i + 1 != w->nest_count)
                        continue;
                (void)unlinkat(folder, w->nest_names[i], 0);
                cgroup_nest_close(n);
                free(n);
                w->nest_count--;
        }
}

/* --- sandboxes --- */

/* Is this still the process that the info names? Then s->pidfd is it. */
static bool lives(struct sandbox *s) {
        struct cgroup c = CGROUP_INIT;
        int fd = ids_open_process(s->pid, s->start_time);

        if (fd < 0)
                return false;
        s->pidfd = high_fd(fd);
        bool has = sandbox_cgroup(s, &c) < 0 ? s->nest == NULL : cgroup_has(&c, s->id, s->pid);
        cgroup_close(&c);
        return has;
}

static void count_leaf(void *data, uint32_t run) {
        (void)run;
        ++*(uint32_t *)data;
}

static void adopt(struct sandbox *s) {
        struct warden_usage before;
        struct cgroup c;

        s->state = SANDBOX_RUNNING;
        if (sandbox_cgroup(s, &c) == 0) {
                (void)cgroup_run_each(&c, count_leaf, &s->leaves);
                if (!sandbox_is_on_host(s)) /* was said of runs that ended before, or is nobody's */
                        sandbox_refusals_new(s, &c, &before);
                cgroup_close(&c);
        }
        if (s->slot >= 0)
                (void)ids_again(s->w->ids, (uint32_t)s->slot);
        trees_adopt(s);
        sandbox_add(s);
        if (s->disk[0])
                disks_order_soon(s->w);
        sandbox_watch_exit(s);
        log_line(LOG_LEVEL_DEBUG, s->id, "adopted");
}

/* It ended while nobody watched. What it used is told with its end. */
static void bury(struct sandbox *s) {
        struct cgroup c;

        memset(&s->usage, 0xff, sizeof s->usage);
        if (sandbox_cgroup(s, &c) == 0) {
                sandbox_measure(s, &c, &s->usage);
                cgroup_close(&c);
        }
        (void)state_remove_tree(s->w->sandboxes, s->id);
        fd_close(&s->pidfd);
        s->next = s->w->gone;
        s->w->gone = s;
        log_line(LOG_LEVEL_INFO, s->id, "it ended while there was no warden");
}

/* The same, and its driver has something to remove, which takes a while: it ends as one that we had watched. */
static void end_left(struct sandbox *s) {
        fd_close(&s->pidfd);
        if (s->slot >= 0)
                (void)ids_again(s->w->ids, (uint32_t)s->slot);
        sandbox_add(s);
        end_found_dead(s);
}

/* Of those that ended while nobody watched: nobody gets their ids before their cgroups are gone. */
static void release_slots(struct warden *w) {
        for (struct sandbox *s = w->gone; s; s = s->next) {
                struct cgroup c;

                if (s->slot < 0)
                        continue;
                if (sandbox_cgroup(s, &c) == 0) {
                        cgroup_close(&c);
                        ids_keep(w->ids, (uint32_t)s->slot);
                } else
                        ids_release(w->ids, (uint32_t)s->slot);
                s->slot = -1;
        }
}

static void look_at(struct warden *w, const char *id) {
        _cleanup_fd_ int folder = openat(w->sandboxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct sandbox *s = folder < 0 ? NULL : sandbox_new(w, id);

        if (!s)
                return;
        int r = sandbox_read_info(s, folder);
        if (r < 0) { /* it was being made, or removed: its cgroups, if there are any, go with the sweep */
                log_line(LOG_LEVEL_INFO, id, "it was half made, or half removed, and is removed now");
                (void)state_remove_tree(w->sandboxes, id);
                sandbox_free(s);
        } else if (lives(s))
                adopt(s);
        else if (box_is_elsewhere(s))
                end_left(s);
        else
                bury(s);
}

static int look_at_all(struct warden *w) {
        int copy = openat(w->sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *e;

        if (!d) {
                fd_close(&copy);
                return -errno;
        }
        while ((e = readdir(d)))
                if (warden_is_id(e->d_name))
                        look_at(w, e->d_name);
        (void)closedir(d);
        return 0;
}

int adopt_all(struct warden *w, struct err *err) {
        _cleanup_fd_ int folder = open_nests(w);

        if (folder < 0)
                return err_set(err, folder, "cannot open '%s/nests'", w->run_path);
        int r = own_nest(w, folder, err);
        if (r < 0)
                return r;
        other_nests(w, folder);
        r = look_at_all(w);
        if (r < 0)
                return err_set(err, r, "cannot list '%s/sandboxes'", w->run_path);
        sweep_nests(w, folder);
        (void)cgroup_nest_sweep_others(w->nests[0]);
        release_slots(w);
        skeleton_forget(w->trees, "");
        return 0;
}

/* With the last sandbox our directories in the cgroup trees go too. */
void adopt_leave(struct warden *w) {
        _cleanup_fd_ int folder = open_nests(w);

        if (w->sandbox_count > 0 || folder < 0)
                return;
        for (size_t i = 0; i < w->nest_count; i++) {
                (void)cgroup_nest_sweep(w->nests[i], is_known, w, true);
                (void)unlinkat(folder, w->nest_names[i], 0);
        }
}

void adopt_tell(struct warden *w) {
        while (w->gone) {
                struct sandbox *s = w->gone;

                w->gone = s->next;
                end_tell_gone(s);
                sandbox_free(s);
        }
}
