/* Disks and stockade-pack together, as the warden uses them, one step per command. For test_*.py, as root.
 *
 *   driver STATE make ID SIZE INODES             driver STATE image ID FILE BYTES ENTRIES
 *   driver STATE shell|root|look VIEW COMMAND    driver STATE unpack ID FILE BYTES ENTRIES
 *   driver STATE pack VIEW FILE                  driver STATE diff VIEW VIEW FILE
 *   driver STATE flatten VIEW VIEW
 *
 * A VIEW is DISK,LAYER,…@IMAGE: '-' for no disk, image optional. stockade-pack is what STOCKADE_PACK names. FILE may be
 * '-': standard input or output. Prints what packer_result says: "ok BYTES ENTRIES SKIPPED TEXT", "error CODE TEXT". */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "disk/packer.h"
#include "disk/volume.h"

#define BASE (0x40000000U + 7010U * 65536U)

static struct volumes *v;
static int ns = -EBADF;
static struct err err;

static _noreturn_ void die(const char *what, int r) {
        (void)printf("error %d %s: %s\n", -r, what, err.text);
        exit(1);
}

static int make_ns(void) {
        char path[64], map[64], c = 'n';
        int ready[2];

        if (pipe2(ready, O_CLOEXEC) < 0)
                die("pipe", -errno);
        pid_t pid = fork();
        if (pid == 0) {
                c = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
                (void)!write(ready[1], &c, 1);
                (void)pause();
                _exit(0);
        }
        if (pid < 0 || read(ready[0], &c, 1) != 1 || c != 'y')
                die("user namespace", -EPERM);
        (void)snprintf(map, sizeof map, "0 %u 65536\n", BASE);
        (void)snprintf(path, sizeof path, "/proc/%d", pid);
        _cleanup_fd_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int fd = fd_write_at(proc, "uid_map", map) == 0 && fd_write_at(proc, "gid_map", map) == 0
                         ? openat(proc, "ns/user", O_RDONLY | O_CLOEXEC)
                         : -1;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return fd;
}

static int mount_view(char *text, bool readonly) {
        struct volume_view view = {.id_base = BASE, .user_ns = ns};
        const char *layers[VOLUME_LAYERS_MAX];
        char *image = strchr(text, '@');
        int m = -EBADF;

        if (image)
                *image++ = '\0';
        char *comma = strchr(text, ',');
        if (comma)
                *comma++ = '\0';
        while (comma && *comma && view.layer_count < VOLUME_LAYERS_MAX) {
                layers[view.layer_count++] = comma;
                comma = strchr(comma, ',');
                if (comma)
                        *comma++ = '\0';
        }
        view.disk = str_eq(text, "-") ? NULL : text;
        view.layers = layers;
        view.image = image;
        int r = readonly ? volume_mount_readonly(v, &view, &m, &err) : volume_mount(v, &view, &m, &err);
        if (r < 0)
                die("mount", r);
        return m;
}

static int run_shell(int dir, unsigned id, const char *command) {
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                char *const argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)command, NULL};
                if (setns(ns, CLONE_NEWUSER) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 ||
                    fchdir(dir) < 0)
                        _exit(126);
                (void)execv("/bin/sh", argv);
                _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return 125;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* As the warden's spawn does: descriptors from 3 on, nothing else. */
static int run_packer(struct packer_job *job, struct packer_result *ret) {
        struct packer_call call;
        int r = packer_prepare(job, &call, &err), status;
        const char *program = getenv("STOCKADE_PACK");

        if (r < 0 || !program)
                die("prepare", r);
        pid_t pid = fork();
        if (pid == 0) {
                char *const envp[] = {getenv("SANITIZER"), NULL}; /* "ASAN_OPTIONS=…" of a sanitized build */
                int high[PACKER_FDS];
                for (size_t i = 0; i < PACKER_FDS; i++)
                        high[i] = call.fds[i] < 0 ? -EBADF : fcntl(call.fds[i], F_DUPFD_CLOEXEC, 32);
                for (size_t i = 0; i < PACKER_FDS; i++) {
                        (void)close(3 + (int)i);
                        if (high[i] >= 0)
                                (void)dup2(high[i], 3 + (int)i);
                }
                (void)execve(program, call.argv, envp);
                _exit(127);
        }
        fd_close(&call.theirs);
        r = packer_result(call.ours, ret, &err);
        (void)waitpid(pid, &status, 0);
        if (WIFSIGNALED(status))
                (void)printf("signal %d\n", WTERMSIG(status));
        packer_call_end(&call);
        return r;
}

static uint64_t number(const char *text) {
        return strtoull(text, NULL, 10);
}

static int open_file(const char *path, bool out) {
        if (str_eq(path, "-"))
                return out ? 1 : 0;
        int fd = open(path, (out ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY) | O_CLOEXEC, 0600);
        if (fd < 0)
                die(path, -errno);
        return fd;
}

static int pack_job(int argc, char **argv) {
        struct packer_job job = {.fds = {-EBADF, -EBADF, -EBADF}, .user_ns = ns};
        struct packer_result result = {0};
        const char *verb = argv[0];

        if (str_eq(verb, "pack") && argc == 3) {
                job.verb = PACKER_PACK;
                job.fds[0] = mount_view(argv[1], true);
                job.fds[1] = open_file(argv[2], true);
        } else if (str_eq(verb, "diff") && argc == 4) {
                job.verb = PACKER_DIFF;
                job.fds[0] = mount_view(argv[1], true);
                job.fds[1] = mount_view(argv[2], true);
                job.fds[2] = open_file(argv[3], true);
        } else if (str_eq(verb, "flatten") && argc == 3) {
                job.verb = PACKER_FLATTEN;
                job.fds[0] = mount_view(argv[1], true);
                job.fds[1] = mount_view(argv[2], false);
        } else if (str_eq(verb, "unpack") && argc == 5) {
                job.verb = PACKER_UNPACK;
                job.fds[0] = open_file(argv[2], false);
                job.fds[1] = mount_view(argv[1], false);
        } else if (str_eq(verb, "image") && argc == 5) {
                job.verb = PACKER_IMAGE;
                job.fds[0] = open_file(argv[2], false);
                int r = image_begin(v, argv[1], ns, &job.fds[1], &err);
                if (r < 0)
                        die("image", r);
        } else
                return 2;
        if (argc == 5) {
                job.max_bytes = number(argv[3]);
                job.max_entries = number(argv[4]);
        }
        int r = run_packer(&job, &result);
        if (r == 0 && str_eq(verb, "image"))
                r = image_finish(v, argv[1], result.text, &err);
        else if (str_eq(verb, "image"))
                (void)image_drop(v, argv[1], NULL);
        FILE *out = argc >= 3 && str_eq(argv[argc - 1], "-") ? stderr : stdout;
        if (r < 0)
                (void)fprintf(out, "error %d %s\n", -r, err.text);
        else
                (void)fprintf(out, "ok %llu %llu %llu %s\n", (unsigned long long)result.bytes,
                              (unsigned long long)result.entries, (unsigned long long)result.skipped, result.text);
        return r < 0;
}

int main(int argc, char **argv) {
        int state = argc > 2 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -EBADF, r = 2;

        if (state < 0 || (r = volumes_open(&v, state, &err)) < 0) {
                (void)fprintf(stderr, "driver: %s\n", err.text);
                return 2;
        }
        ns = make_ns();
        argc -= 2;
        argv += 2;
        if (str_eq(argv[0], "make") && argc == 4) {
                r = volume_make(v, argv[1], number(argv[2]), number(argv[3]), &err);
                if (r < 0)
                        die("make", r);
        } else if ((str_eq(argv[0], "shell") || str_eq(argv[0], "root") || str_eq(argv[0], "look")) && argc == 3)
                r = run_shell(mount_view(argv[1], argv[0][0] == 'l'), argv[0][0] == 's' ? 1000 : 0, argv[2]);
        else
                r = pack_job(argc, argv);
        volumes_close(v);
        return r;
}
