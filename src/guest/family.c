/* Found in /proc, held before it is killed: a process that stands still starts no other, so that after a few rounds
 * nothing new appears. Rounds are bounded, and so is what one sees: somebody may fork faster than we look. */
#include "guest/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

#define ROUNDS 16
#define PASSES 64
#define SEEN   8192 /* processes */

struct seen {
        pid_t pid, parent, session;
        bool mine;
};

static bool read_one(int proc, const char *number, struct seen *ret) {
        char path[64], text[512];
        int parent, group, session;

        (void)snprintf(path, sizeof path, "%.20s/stat", number);
        if (number[0] < '1' || number[0] > '9' || fd_read_at(proc, path, text, sizeof text) <= 0)
                return false;
        const char *p = strrchr(text, ')'); /* the name may have anything in it */
        if (!p || sscanf(p, ") %*c %d %d %d", &parent, &group, &session) != 3)
                return false;
        *ret = (struct seen){.pid = (pid_t)strtol(number, NULL, 10), .parent = parent, .session = session};
        return true;
}

static int by_pid(const void *a, const void *b) {
        const struct seen *x = a, *y = b;

        return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static size_t look(struct seen *all) {
        DIR *d = opendir("/proc");
        struct dirent *e;
        size_t n = 0;

        while (d && n < SEEN && (e = readdir(d)))
                n += read_one(dirfd(d), e->d_name, &all[n]);
        if (d)
                (void)closedir(d);
        qsort(all, n, sizeof *all, by_pid);
        return n;
}

static bool has(const struct seen *all, size_t count, pid_t pid) {
        struct seen wanted = {.pid = pid};
        const struct seen *found = bsearch(&wanted, all, count, sizeof *all, by_pid);

        return found && found->mine;
}

/* Numbers mostly grow from parent to child, so that few passes find all. */
static void mark(struct seen *all, size_t count, pid_t root) {
        bool more = true;

        for (size_t i = 0; i < count; i++)
                all[i].mine = all[i].pid == root || all[i].session == root;
        for (unsigned pass = 0; more && pass < PASSES; pass++) {
                more = false;
                for (size_t i = 0; i < count; i++)
                        if (!all[i].mine && all[i].parent > 1 && has(all, count, all[i].parent))
                                more = all[i].mine = true;
        }
}

static size_t send_all(const struct seen *all, size_t count, int number) {
        size_t sent = 0;

        for (size_t i = 0; i < count; i++)
                if (all[i].mine && all[i].pid > 1 && kill(all[i].pid, number) == 0)
                        sent++;
        return sent;
}

void family_kill(pid_t root) {
        _cleanup_free_ struct seen *all = calloc(SEEN, sizeof *all);
        size_t count = 0, before = 0;

        for (unsigned i = 0; all && i < ROUNDS; i++) {
                count = look(all);
                mark(all, count, root);
                size_t held = send_all(all, count, SIGSTOP);
                if (held == before)
                        break;
                before = held;
        }
        if (all)
                (void)send_all(all, count, SIGKILL);
        (void)kill(-root, SIGKILL);
}
