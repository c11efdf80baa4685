/* Creating a sandbox's cgroups, and the child's side of entering them.
 *
 * Order: find out where (cgroup-place), make the leaves (cgroup-leaf), write every limit (cgroup-limit). Whatever goes
 * wrong on the way, nothing stays behind. This is on the path of every start: no directory is listed, no file is read
 * twice, each limit is one open, write and close. */
#include "cell/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cgroup-make.h"

bool cgroup_is_id(const char *id) {
        return strspn(id, "0123456789abcdef") == 16 && id[16] == '\0';
}

/* Which controllers the limits need, and which of them v2 has to give. */
void cgroup_find_needs(struct cgroup_make *m) {
        for (size_t i = 0; i < CGROUP_LIMITS; i++)
                if (cgroup_limit_table[i].asked(m->limits) && cgroup_limit_table[i].controller != CGROUP_CPUACCT)
                        m->needed |= 1u << cgroup_limit_table[i].controller;
        if (m->limits->disk_write != CGROUP_UNSET && m->needed & 1u << CGROUP_IO && m->place->v1[CGROUP_MEMORY] < 0)
                m->needed |= 1u << CGROUP_MEMORY; /* knows whose pages are written back */

        for (int k = 0; k < CGROUP_CONTROLLERS; k++)
                if (m->needed & 1u << k && m->place->v1[k] < 0 && m->place->v2 >= 0)
                        m->on_v2 |= 1u << k;
}

static bool is_accepted(const char *key, const char *const *accepted, size_t count) {
        for (size_t i = 0; i < count; i++)
                if (str_eq(accepted[i], key))
                        return true;
        return false;
}

/* Writes every limit. The first that does not hold and is not accepted gives the sentence; the others are named in it,
 * so that nobody finds them one by one. */
int cgroup_apply_limits(struct cgroup_make *m, const char *const *accepted, size_t accepted_count, struct err *err) {
        int refused = 0;

        for (size_t i = 0; i < CGROUP_LIMITS; i++) {
                const struct cgroup_limit *limit = &cgroup_limit_table[i];
                if (!limit->asked(m->limits))
                        continue;
                m->cause[0] = m->remedy[0] = '\0';
                int r = limit->apply(m);
                if (r == 0)
                        continue;
                if (r == -ENODEV)
                        return r;
                if (is_accepted(limit->key, accepted, accepted_count))
                        m->c->missing[m->c->missing_count++] = limit->key;
                else if (refused == 0)
                        refused = cgroup_why(m, limit, r, err);
                else if (err) {
                        size_t used = strlen(err->text);
                        (void)snprintf(err->text + used, sizeof err->text - used, "; nor %s", limit->key);
                }
        }
        return refused;
}

static int create_once(struct cgroup *c, struct cgroup_place *place, const struct cgroup_limits *limits,
                       const char *const *accepted, size_t accepted_count, struct err *err) {
        struct cgroup_make m = {.c = c, .limits = limits, .place = place};

        cgroup_find_needs(&m);
        int r = cgroup_leaf_make(&m);
        if (r < 0)
                return r == -ENODEV ? r : err_set(err, r, "cannot create cgroup '%s'", c->name);
        return cgroup_apply_limits(&m, accepted, accepted_count, err);
}

int cgroup_create(struct cgroup *c, const char *id, const struct cgroup_limits *limits, const char *const *accepted,
                  size_t accepted_count, struct err *err) {
        _cleanup_cgroup_place_ struct cgroup_place place = {0};

        int r = cgroup_place_find(&place, err);
        return r < 0 ? r : cgroup_create_at(c, id, limits, accepted, accepted_count, &place, err);
}

int cgroup_create_at(struct cgroup *c, const char *id, const struct cgroup_limits *limits, const char *const *accepted,
                     size_t accepted_count, struct cgroup_place *place, struct err *err) {
        int r = 0;

        if (!cgroup_is_id(id))
                return err_set(err, ERR_INPUT, "'%s' is not a sandbox id: sixteen of 0-9 and a-f", id);
        for (unsigned attempt = 0; attempt < 4; attempt++) {
                struct cgroup new = CGROUP_INIT;
                (void)snprintf(new.name, sizeof new.name, CGROUP_PREFIX "%s", id);
                r = create_once(&new, place, limits, accepted, accepted_count, err);
                if (r >= 0) {
                        *c = new;
                        return 0;
                }
                (void)cgroup_destroy(&new);
                if (r != -ENODEV)
                        return r;
        }
        return err_set(err, r, "could not create cgroup '" CGROUP_PREFIX "%s', removed four times while it was made",
                       id);
}

int cgroup_enter_self(const struct cgroup *c, bool born) {
        if (!born && c->into >= 0) {
                int fd = openat(c->into, "cgroup.procs", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
                if (fd < 0)
                        return -errno;
                int r = write(fd, "0", 1) == 1 ? 0 : -errno;
                (void)close(fd);
                if (r < 0)
                        return r;
        }
        /* a thread that moves itself through `tasks` needs no lock over all of the system; cgroup.procs would */
        for (size_t i = 0; i < c->task_count; i++)
                if (write(c->tasks[i], "0", 1) != 1)
                        return -errno;
        return 0;
}

void cgroup_close(struct cgroup *c) {
        fd_close(&c->into);
        fd_close(&c->guest);
        for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
                fd_close(&c->leaves[i]);
                fd_close(&c->tasks[i]);
                c->home[i] = -EBADF;
        }
        c->task_count = 0;
}
