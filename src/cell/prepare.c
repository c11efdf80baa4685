/* Before the clone: namespaces for ids, and looks at the host. See the header. */
#include "cell/prepare.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/kernel.h"
#include "base/knockout.h"

static int make_namespace(uint32_t inside, uint32_t outside, uint32_t count, uint32_t inside_gid, uint32_t outside_gid,
                          struct err *err) {
        char uids[48], gids[48];

        (void)snprintf(uids, sizeof uids, "%u %u %u", inside, outside, count);
        (void)snprintf(gids, sizeof gids, "%u %u %u", inside_gid, outside_gid, count);
        return cell_user_namespace(uids, gids, err);
}

int prepare_open_exact(const char *path, uint64_t flags) {
        return kernel_openat2(AT_FDCWD, path, flags | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Root: for every owner of a writable share, a namespace that shows that owner as the user inside. */
static int map_owners(struct cell_context *c, const struct plan *p, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s)) {
                struct stat st;
                size_t i;

                if (!(s.flags & STEP_OWNED) || s.op == OP_DIR)
                        continue;
                _cleanup_fd_ int path = prepare_open_exact(s.text[0], O_PATH);
                if (path < 0 || fstat(path, &st) < 0)
                        return err_set(err, path < 0 ? path : -errno, "cannot look at '%s'", s.text[0]);
                for (i = 0; i < c->owner_count; i++)
                        if (c->owners[i].uid == st.st_uid && c->owners[i].gid == st.st_gid)
                                break;
                if (i < c->owner_count)
                        continue;
                if (i >= CELL_OWNER_MAX)
                        return err_set(err, ERR_LIMIT, "writable paths have more than %d different owners",
                                       CELL_OWNER_MAX);
                int fd = make_namespace(st.st_uid, c->tree_uid, 1, st.st_gid, c->tree_gid, err);
                if (fd < 0)
                        return fd;
                c->owners[c->owner_count++] = (struct cell_owner){st.st_uid, st.st_gid, fd};
        }
        return 0;
}

int prepare_namespaces(struct cell_context *c, const struct plan *p, struct err *err) {
        if (c->rootless)
                return 0;
        if (knockout_off(KNOCKOUT_IDS))
                return map_owners(c, p, err);
        c->user_ns = make_namespace(0, c->id_base, CELL_ID_RANGE, 0, c->id_base, err);
        return c->user_ns < 0 ? c->user_ns : map_owners(c, p, err);
}

void prepare_done(struct cell_context *c) {
        fd_close(&c->user_ns);
        for (size_t i = 0; i < c->owner_count; i++)
                fd_close(&c->owners[i].user_ns);
        c->owner_count = 0;
}

/* A share is bound with what is mounted below it. */
int prepare_submounts(const struct plan *p, struct err *err) {
        static const char kinds[] =
                " proc sysfs cgroup cgroup2 devtmpfs devpts debugfs tracefs securityfs bpf configfs efivarfs mqueue "
                "binfmt_misc pstore nsfs ";
        _cleanup_free_ char *text = NULL;
        struct plan_walk walk = {0};
        struct plan_step s;
        char point[4096], kind[64], pattern[80];

        while (plan_next(p, &walk, &s)) {
                if (!(s.flags & STEP_EXACT) || s.op != OP_BIND)
                        continue;
                if (!text && fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 4 << 20, false, &text, NULL, err) < 0)
                        return err->code;
                size_t n = strlen(s.text[0]);
                for (const char *line = text; *line; line = strchrnul(line, '\n') + (*strchrnul(line, '\n') == '\n')) {
                        const char *dash = strstr(line, " - ");

                        if (!dash || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1 ||
                            sscanf(dash, " - %63s", kind) != 1)
                                continue;
                        (void)snprintf(pattern, sizeof pattern, " %s ", kind);
                        if (strncmp(point, s.text[0], n) == 0 && point[n] == '/' && strstr(kinds, pattern)) {
                                (void)err_set(err, ERR_REFUSED, "'%s' has a %s file system mounted at '%s'", s.text[0],
                                              kind, point);
                                return err_hint(err, "it shows the host's kernel, not files: unmount it, or share the "
                                                     "folders beside it");
                        }
                }
        }
        return 0;
}

int prepare_devices(const struct plan *p, struct cgroup_limits *l, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        if (l->disk_read == CGROUP_UNSET && l->disk_write == CGROUP_UNSET)
                return 0;
        while (plan_next(p, &walk, &s)) {
                if ((s.op != OP_BIND && s.op != OP_ROOT_OVERLAY && s.op != OP_OVERLAY) || (s.flags & STEP_DEVICE))
                        continue;
                _cleanup_fd_ int fd = open(s.text[0], O_PATH | O_CLOEXEC);
                if (fd < 0)
                        continue; /* the cell says what is missing */
                int result = cgroup_limits_add(l, fd, s.flags & STEP_WRITE);
                if (result < 0)
                        return err_set(err, result, "cannot tell which disk '%s' is on", s.text[0]);
        }
        return 0;
}

/* A hard limit of 0 on cores cannot be raised to the 1 that stops a handler of the host's (see compile-confine.c). */
int prepare_core_handler(struct err *err) {
        struct rlimit limit;
        char pattern[2] = "";

        if (getrlimit(RLIMIT_CORE, &limit) < 0 || limit.rlim_max > 0)
                return 0;
        limit = (struct rlimit){1, 1};
        if (setrlimit(RLIMIT_CORE, &limit) == 0 ||
            fd_read_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern) < 0)
                return 0;
        if (pattern[0] != '|' && pattern[0] != '@')
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "a crash inside would be handed to the host's core handler");
        return err_hint(err,
                        "this shell has a hard limit of 0 on cores: start from one without it ('ulimit -H -c' says)");
}
