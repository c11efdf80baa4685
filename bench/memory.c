/* Finds the launcher's family by parent links and adds up what each holds alone.
 *
 * The bench is a subreaper while it looks, so that a keeper that lost its parent is still found below us. A process in
 * another pid namespace than ours is inside the sandbox and not counted. Other people's stockades are not ours. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/memory.h"
#include "bench/peers.h"

#define MEMORY_PROCESSES 4096
#define MEMORY_PATIENCE  300 /* tries of 10 ms until sleep runs */

struct memory_process {
        pid_t pid, parent;
        char name[20];
};

static struct memory_process memory_table[MEMORY_PROCESSES];

static void memory_pause(void) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* "123 (name) S 1 ...": the name may hold spaces and parentheses, so it ends at the last one. */
static bool memory_parse(const char *stat, struct memory_process *ret) {
        const char *open = strchr(stat, '('), *close = strrchr(stat, ')');
        if (!open || !close || close < open || strlen(close) < 4)
                return false;
        (void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(close - open - 1), open + 1);
        ret->pid = (pid_t)strtol(stat, NULL, 10);
        ret->parent = (pid_t)strtol(close + 4, NULL, 10);
        return ret->pid > 0;
}

static size_t memory_list(int proc) {
        size_t count = 0;
        int fd = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                fd_close(&fd);
                return 0;
        }
        for (struct dirent *e; count < MEMORY_PROCESSES && (e = readdir(d));) {
                char path[300], stat[512];
                if (e->d_name[0] < '1' || e->d_name[0] > '9')
                        continue;
                (void)snprintf(path, sizeof(path), "%s/stat", e->d_name);
                if (fd_read_at(proc, path, stat, sizeof(stat)) > 0 && memory_parse(stat, &memory_table[count]))
                        count++;
        }
        (void)closedir(d);
        return count;
}

static bool memory_is_below(size_t count, pid_t pid, pid_t top) {
        for (unsigned depth = 0; depth < 64 && pid > 1; depth++) {
                if (pid == top)
                        return true;
                size_t i = 0;
                while (i < count && memory_table[i].pid != pid)
                        i++;
                if (i == count)
                        return false;
                pid = memory_table[i].parent;
        }
        return false;
}

static ino_t memory_pid_namespace(int proc, const char *process) {
        char path[48];
        struct stat st = {0};
        (void)snprintf(path, sizeof(path), "%s/ns/pid", process);
        return fstatat(proc, path, &st, 0) < 0 ? 0 : st.st_ino;
}

static uint64_t memory_field(const char *text, const char *name) {
        const char *at = strstr(text, name);
        return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Adds up what is outside; says whether the command is running inside. */
static bool memory_look(int proc, struct memory *ret) {
        bool running = false;
        size_t count = memory_list(proc);
        ino_t ours = memory_pid_namespace(proc, "self");
        *ret = (struct memory){0};
        for (size_t i = 0; i < count; i++) {
                const struct memory_process *p = &memory_table[i];
                char id[16], path[48], rollup[2048];
                if (p->pid == getpid() || !memory_is_below(count, p->pid, getpid()))
                        continue;
                running |= str_eq(p->name, "sleep");
                (void)snprintf(id, sizeof(id), "%d", (int)p->pid);
                (void)snprintf(path, sizeof(path), "%s/smaps_rollup", id);
                if (memory_pid_namespace(proc, id) != ours || fd_read_at(proc, path, rollup, sizeof(rollup)) <= 0)
                        continue;
                ret->processes++;
                ret->private_kib += memory_field(rollup, "Private_Clean:") + memory_field(rollup, "Private_Dirty:");
        }
        return running;
}

static void memory_kill_all(int proc) {
        size_t count = memory_list(proc);
        for (size_t i = 0; i < count; i++)
                if (memory_table[i].pid != getpid() && memory_is_below(count, memory_table[i].pid, getpid()))
                        (void)kill(memory_table[i].pid, SIGKILL);
}

/* Ends the launcher politely, then waits for it and for everything it left to us; what does not go is killed. */
static void memory_end(int proc, pid_t launcher) {
        (void)kill(launcher, SIGTERM);
        for (unsigned i = 0; i < MEMORY_PATIENCE; i++) {
                pid_t pid = waitpid(-1, NULL, WNOHANG);
                if (pid < 0 && errno == ECHILD)
                        return;
                if (i == MEMORY_PATIENCE / 2)
                        memory_kill_all(proc);
                if (pid == 0)
                        memory_pause();
        }
}

int memory_measure(const char *stockade, struct memory *ret, struct err *err) {
        static const char *const argv[] = {"stockade", "run", "--profile", "low", "--", "/usr/bin/sleep", "10", NULL};
        struct memory found = {0};
        bool running = false;
        pid_t launcher = -1;
        _cleanup_fd_ int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (proc < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return err_set(err, -errno, "cannot look for processes in /proc");
        int r = peers_spawn(stockade, argv, &launcher);
        if (r < 0)
                return err_set(err, r, "could not start '%s'", stockade);
        for (unsigned i = 0; i < MEMORY_PATIENCE && !running; i++) {
                memory_pause();
                running = memory_look(proc, &found);
        }
        memory_pause(); /* let the launcher settle into waiting */
        running = running && memory_look(proc, &found);
        memory_end(proc, launcher);
        (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
        if (!running)
                return err_set(err, -ETIME, "the command of '%s run' was not seen running within 3 s", stockade);
        *ret = found;
        return 0;
}
