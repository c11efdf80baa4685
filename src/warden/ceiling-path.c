/* Host paths: what a plan names (ceiling.c asks), and where that led to (the cell asks, in the child, about a
 * descriptor: a link could lead out of what is allowed, and could have been put there since).
 *
 * Nothing here allocates or changes anything: the child shares our memory. */
#include "warden/ceiling-path.h"

#include <stdio.h>
#include <unistd.h>

#include "base/paths.h"
#include "cell/cell.h"

static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/tty"};

bool ceiling_path_below(const char *path, const char *parent) {
        size_t n = strlen(parent);

        if (str_eq(parent, "/"))
                return true;
        return strncmp(path, parent, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool listed(const struct conf_list *l, const char *path) {
        for (size_t i = 0; i < l->count; i++)
                if (ceiling_path_below(path, l->items[i]))
                        return true;
        return false;
}

/* A folder of ours, something in one, or something that has one in it. */
static bool is_own(const struct ceiling *c, const char *path) {
        for (size_t i = 0; i < c->own_count; i++)
                if (ceiling_path_below(path, c->own[i]) || ceiling_path_below(c->own[i], path))
                        return true;
        return false;
}

bool ceiling_path_readable(const struct ceiling *c, const char *path) {
        for (size_t i = 0; i < c->own_count; i++)
                if (ceiling_path_below(path, c->own[i]))
                        return false;
        return listed(&c->conf->ceiling_read, path) || ceiling_path_writable(c, path);
}

bool ceiling_path_writable(const struct ceiling *c, const char *path) {
        return listed(&c->conf->ceiling_write, path) && !is_own(c, path);
}

bool ceiling_path_device(const struct ceiling *c, const char *path) {
        for (size_t i = 0; i < ELEMENTSOF(devices); i++)
                if (str_eq(devices[i], path))
                        return true;
        for (size_t i = 0; i < c->conf->ceiling_devices.count; i++)
                if (str_eq(c->conf->ceiling_devices.items[i], path))
                        return true;
        return false;
}

bool ceiling_permits(const void *data, const struct plan_step *s, int source) {
        const struct ceiling *c = data;
        char link[40], path[PATH_MAX];

        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", source);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n <= 0 || (size_t)n >= sizeof path - 1 || path[0] != '/')
                return false;
        path[n] = '\0';
        switch ((int)s->op) {
        case OP_ROOT_OVERLAY:
                return str_eq(path, "/");
        case OP_OVERLAY:
                return ceiling_path_writable(c, path);
        case OP_BIND:
                if (str_eq(s->text[1], CELL_GUEST_PATH))
                        return str_eq(path, c->guest);
                if (s->flags & STEP_DEVICE)
                        return ceiling_path_device(c, path);
                if (s->flags & STEP_WRITE)
                        return ceiling_path_writable(c, path);
                return ceiling_path_readable(c, path);
        case OP_COPY:
        case OP_LIKE_HOST:
        case OP_PROGRAM:
                return ceiling_path_readable(c, path);
        default:
                return false;
        }
}

static int add_own(struct ceiling *c, const char *path, struct err *err) {
        char real[PATH_MAX];

        if (!path[0] || !realpath(path, real))
                return 0; /* what is not there cannot be seen; and what we make later, we make in one that is */
        if (c->own_count >= CEILING_OWN_MAX)
                return err_set(err, ERR_LIMIT, "more than %d folders of our own", CEILING_OWN_MAX);
        char *copy = strdup(real);
        if (!copy)
                return err_set(err, -ENOMEM, "could not keep a path");
        c->own[c->own_count++] = copy;
        return 0;
}

int ceiling_open(struct ceiling *c, const struct conf *conf, const char *state, const char *run, struct err *err) {
        char path[PATH_MAX];

        *c = (struct ceiling){.conf = conf, .rootless = geteuid() != 0};
        int r = paths_helper("stockade-guest", path, sizeof path, err);
        if (r < 0)
                return r;
        if (!realpath(path, c->guest))
                return err_set(err, -errno, "cannot find '%s'", path);
        r = add_own(c, state, err);
        if (r == 0)
                r = add_own(c, run, err);
        for (size_t i = 0; r == 0 && paths_own(i, path, sizeof path); i++)
                r = add_own(c, path, err);
        return r;
}
