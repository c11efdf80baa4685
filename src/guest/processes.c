/* The processes that are here, as /proc shows them, a bounded number at a time. One that ends meanwhile is left out. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/request.h"

#define PROCESSES_ONCE 32 /* of one step */
#define COMMAND_SIZE   1024

struct looking {
        struct request request;
        DIR *proc;
        uint64_t boot_ms; /* when the machine's clock began, in ms since 1970 */
        uint64_t ticks;   /* of a second */
        uint64_t page;
};

static int processes_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct looking *l = (struct looking *)r;
        struct timespec real, boot;

        (void)m;
        l->proc = opendir("/proc");
        if (!l->proc)
                return -errno;
        (void)clock_gettime(CLOCK_REALTIME, &real);
        (void)clock_gettime(CLOCK_BOOTTIME, &boot);
        l->boot_ms = (uint64_t)(real.tv_sec - boot.tv_sec) * 1000 + (uint64_t)((real.tv_nsec - boot.tv_nsec) / 1000000);
        l->ticks = (uint64_t)sysconf(_SC_CLK_TCK);
        l->page = (uint64_t)sysconf(_SC_PAGESIZE);
        request_wake(g, r);
        return 0;
}

/* The numbers of /proc/PID/stat, behind the name, which may have anything in it. */
static bool read_numbers(const struct looking *l, int dir, struct guest_message *m, char *name, size_t name_size) {
        char text[1024];
        unsigned long long n[22] = {0}; /* from the parent on */

        if (fd_read_at(dir, "stat", text, sizeof text) <= 0)
                return false;
        char *open = strchr(text, '('), *p = strrchr(text, ')');
        if (!open || !p || p < open || p[1] != ' ' || !p[2])
                return false;
        *p = '\0';
        (void)snprintf(name, name_size, "%s", open + 1);
        m->mode = (uint8_t)p[2];
        p += 3;
        for (size_t i = 0; i < ELEMENTSOF(n); i++)
                n[i] = strtoull(p, &p, 10);
        m->parent = (int32_t)n[0];
        m->rusage.user_us = n[10] * 1000000 / l->ticks;
        m->rusage.system_us = n[11] * 1000000 / l->ticks;
        m->time_ms = l->boot_ms + n[18] * 1000 / l->ticks;
        m->size = n[20] * l->page;
        return true;
}

/* The command line with blanks between its words; of a kernel's or a dead one, its name in brackets. */
static void read_command(int dir, const char *name, char *text, size_t size) {
        ssize_t n = -1;
        _cleanup_fd_ int fd = openat(dir, "cmdline", O_RDONLY | O_CLOEXEC);

        if (fd >= 0)
                n = fd_read_full(fd, text, size - 1);
        if (n <= 0)
                n = snprintf(text, size, "[%s]", name);
        text[MIN((size_t)n, size - 1)] = '\0';
        for (ssize_t i = 0; i < n; i++)
                if (text[i] == '\0')
                        text[i] = ' ';
                else if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
                        text[i] = '?';
        while (n > 0 && text[n - 1] == ' ')
                text[--n] = '\0';
}

static void say_process(struct guest *g, struct looking *l, const char *number) {
        struct guest_message m = {.kind = GUEST_PROCESS};
        char name[64], command[COMMAND_SIZE];
        struct stat st;
        char *end;
        unsigned long pid = strtoul(number, &end, 10);
        _cleanup_fd_ int dir = -EBADF;

        if (*end || pid == 0 || pid > INT32_MAX)
                return;
        dir = openat(dirfd(l->proc), number, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || fstat(dir, &st) < 0 || !read_numbers(l, dir, &m, name, sizeof name))
                return;
        read_command(dir, name, command, sizeof command);
        m.number = (int32_t)pid;
        m.uid = st.st_uid;
        m.text = command;
        l->request.entries++;
        request_say(g, &l->request, &m);
}

static void processes_step(struct guest *g, struct request *r) {
        struct looking *l = (struct looking *)r;

        for (unsigned n = 0; n < PROCESSES_ONCE && link_has_room(&g->link);) {
                errno = 0;
                struct dirent *e = readdir(l->proc);

                if (!e)
                        return request_end(g, r, -errno, "could not read /proc");
                if (e->d_name[0] < '0' || e->d_name[0] > '9')
                        continue;
                say_process(g, l, e->d_name);
                n++;
        }
}

static void processes_free(struct guest *g, struct request *r) {
        struct looking *l = (struct looking *)r;

        (void)g;
        if (l->proc)
                (void)closedir(l->proc);
}
const struct request_kind processes_kind = {
        .size = sizeof(struct looking), .begin = processes_begin, .step = processes_step, .free = processes_free};
