/* Locking ourselves in, step by step. Each step has a name that its failure is reported with. */
#include "operator/confine.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/lockdown.h"
#include "base/log.h"
#include "policy/search.h"

#define PLACES_MAX 16

/* A guest, its sockets and its spare leaf are a dozen descriptors of each sandbox. */
static int step_limits(void) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return -errno;
        files.rlim_cur = files.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

/* The folder, or the one above it where that is ours too, so that profiles can be put there later. */
static int open_folder(const char *path) {
        char above[PATH_MAX];
        int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0 || errno != ENOENT || snprintf(above, sizeof above, "%s", path) >= (int)sizeof above)
                return fd;
        char *parent = dirname(above);
        size_t length = strlen(parent);
        bool ours = length > 9 && str_eq(parent + length - 9, "/stockade");
        return ours ? open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC) : -EBADF;
}

static int step_files(int state) {
        struct lockdown_place places[PLACES_MAX] = {{state, LOCKDOWN_WRITE}};
        struct search_store store;
        struct profile_search search = search_default(&store);
        char folder[PATH_MAX];
        const char *path;
        size_t count = 1;

        for (size_t i = 0; count < PLACES_MAX && (path = search_folder(&search, i, folder, sizeof folder)); i++) {
                int fd = open_folder(path);

                if (fd >= 0)
                        places[count++] = (struct lockdown_place){fd, LOCKDOWN_READ};
        }
        int r = lockdown_files(places, count);
        while (count-- > 1)
                fd_close(&places[count].dir);
        if (r == 1)
                log_line(LOG_LEVEL_WARNING, NULL,
                         "this kernel has no Landlock: only the operator's user id keeps it from other files");
        return MIN(r, 0);
}

static int step_user(void) {
        return getuid() == 0 || geteuid() == 0 ? -EPERM : 0;
}

int confine(int state, struct err *err) {
        static const struct {
                int (*step)(void);
                const char *name;
        } steps[] = {
                {step_limits, "raise the limit of open files"},
                {lockdown_bounding, "empty the bounding set of capabilities"},
                {lockdown_capabilities, "give up capabilities"},
                {step_user, "be another user than root"},
                {lockdown_no_new_privileges, "refuse new privileges"},
                {lockdown_private, "keep others from looking into it"},
        };
        const char *failed = NULL;
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(steps) && r == 0; i++)
                if ((r = steps[i].step()) < 0)
                        failed = steps[i].name;
        if (r == 0 && (r = step_files(state)) < 0)
                failed = "give up its rights to files";
        if (r == 0 && (r = confine_calls()) < 0)
                failed = "limit its system calls";
        return r < 0 ? err_set(err, r, "the operator cannot confine itself: could not %s", failed) : 0;
}
