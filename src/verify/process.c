/* Finds a process of a sandbox in the host's /proc. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/judge.h"

enum { WORDS_MAX = 16384 };

/* Its words begin with a program, then first; and the nonce is somewhere among them. */
static bool fits(int fd, const char *first, const char *nonce) {
        static char text[WORDS_MAX];
        ssize_t n = fd_read_full(fd, text, sizeof text - 1);

        if (n <= 0)
                return false;
        text[n] = '\0';
        const char *second = text + strlen(text) + 1;
        return second < text + n && str_eq(second, first) && memmem(text, (size_t)n, nonce, strlen(nonce));
}

/* The parent of a process; 0 if there is none, or it cannot be told. */
static pid_t parent_of(pid_t pid) {
        char path[64], text[512];
        pid_t parent = 0;

        (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
                return 0;
        const char *end = strrchr(text, ')'); /* a process can call itself anything */
        return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

bool process_is_ours(pid_t pid) {
        for (unsigned steps = 0; pid > 1 && steps < 1000; steps++, pid = parent_of(pid))
                if (pid == getpid())
                        return steps > 0;
        return false;
}

pid_t process_find(const struct judge *j, const char *first, const char *nonce) {
        DIR *proc = opendir("/proc");
        char path[300];
        pid_t found = 0;

        for (struct dirent *e; proc && !found && (e = readdir(proc));) {
                if (e->d_name[0] < '1' || e->d_name[0] > '9')
                        continue;
                (void)snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
                _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
                if (fd >= 0 && fits(fd, first, nonce) && (judge_starts_elsewhere(j) || process_is_ours(pid)))
                        found = pid;
        }
        if (proc)
                (void)closedir(proc);
        return found;
}
