/* The probe: see the header. The box is started as a sandbox's is, in namespaces of its own, and is gone with its
 * PID 1, whatever happens in it. */
#include "driver/gvisor-probe.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/kernel.h"
#include "base/lockdown.h"
#include "cell/cell.h"
#include "cell/ids.h"
#include "driver/runsc.h"
#include "driver/stage.h"
#include "wire/box.h"
#include "wire/driver.h"

#define PROBE_MS 10000
#define NOEXEC   "/noexec"

/* What is tried inside; each is one letter of what hello says. */
enum trial {
        TRIAL_RAN,
        TRIAL_FILTER,    /* a seccomp program can be loaded, and refuses */
        TRIAL_NOEXEC,    /* a program on a noexec mount is not executed */
        TRIAL_AUTOMOUNT, /* AT_NO_AUTOMOUNT is known, which `ls` of newer systems names */
        TRIAL_COUNT,
};
static const char letters[] = "hfna";
static_assert(sizeof letters == TRIAL_COUNT + 1, "every trial has a letter");

struct findings {
        bool held[TRIAL_COUNT];
        char version[64];
        struct err err; /* why it is not offered */
};

/* --- inside --- */

static bool try_filter(void) {
        struct sock_filter instructions[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(instructions), .filter = instructions};

        if (lockdown_no_new_privileges() < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                return false;
        return syscall(SYS_getpgid, 0) < 0 && errno == EXDEV;
}

static bool try_noexec(void) {
        char path[] = NOEXEC "/" STAGE_ENTER;
        char *const words[] = {path, NULL};

        (void)execve(path, words, words + 1);
        return errno == EACCES;
}

static bool try_automount(void) {
        struct stat st;

        return fstatat(AT_FDCWD, "/", &st, AT_NO_AUTOMOUNT) == 0;
}

int gvisor_hello(void) {
        bool (*const trials[])(void) = {NULL, try_filter, try_noexec, try_automount};

        static_assert(ELEMENTSOF(trials) == TRIAL_COUNT, "every trial is tried");
        for (size_t i = 0; i < TRIAL_COUNT; i++)
                if (!trials[i] || trials[i]())
                        (void)!write(STDOUT_FILENO, &letters[i], 1);
        return 0;
}

/* --- the box --- */

#define ENTER BOX_PLACE "/" STAGE_ENTER
static const char config[] =
        "{\"ociVersion\": \"1.0.2\", \"root\": {\"path\": \"" STAGE_TREE "\", \"readonly\": true},"
        " \"process\": {\"args\": [\"" ENTER "\", \"hello\"], \"cwd\": \"/\", \"user\": {\"uid\": 1000, \"gid\": 1000},"
        "  \"noNewPrivileges\": true},"
        " \"mounts\": [{\"destination\": \"" NOEXEC "\", \"type\": \"bind\", \"source\": \"" STAGE_TREE BOX_PLACE "\","
        "  \"options\": [\"rbind\", \"ro\", \"nosuid\", \"nodev\", \"noexec\"]}],"
        " \"linux\": {\"namespaces\": [{\"type\": \"pid\"}, {\"type\": \"ipc\"}, {\"type\": \"uts\"},"
        "   {\"type\": \"mount\"}, {\"type\": \"user\"}],"
        "  \"uidMappings\": [{\"containerID\": 0, \"hostID\": 0, \"size\": 65536}],"
        "  \"gidMappings\": [{\"containerID\": 0, \"hostID\": 0, \"size\": 65536}]}}";

static int make_tree(struct err *err) {
        static const char *const folders[] = {"/run", "/run/stockade", BOX_PLACE, "/proc",
                                              "/dev", "/sys",          "/tmp",    NOEXEC};
        char path[64];

        if (mount("none", STAGE_TREE, "tmpfs", 0, "size=64k,nr_inodes=32,mode=755") < 0)
                return err_set(err, -errno, "could not make a tree to try runsc with");
        for (size_t i = 0; i < ELEMENTSOF(folders); i++) {
                (void)snprintf(path, sizeof path, "%s%s", STAGE_TREE, folders[i]);
                if (mkdir(path, 0755) < 0)
                        return err_set(err, -errno, "could not make '%s' to try runsc with", folders[i]);
        }
        return 0;
}

static int make_box(uint32_t id_base, struct err *err) {
        if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
                return err_set(err, -errno, "could not leave the host's mounts");
        int r = stage_make(id_base, err);
        if (r == 0)
                r = make_tree(err);
        if (r < 0)
                return r;
        _cleanup_fd_ int place = stage_place(err), folder = open(STAGE_BUNDLE, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (place < 0)
                return place;
        r = folder < 0 ? -errno : fd_replace_file(folder, "config.json", 0644, config, strlen(config));
        return r < 0 ? err_set(err, r, "could not write a bundle to try runsc with") : 0;
}

static int run_box(const char *program, uint32_t id_base, struct findings *f) {
        char said[400];
        int ends[2];
        pid_t pid;

        int r = make_box(id_base, &f->err);
        if (r < 0)
                return r;
        _cleanup_fd_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (null < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return err_set(&f->err, -errno, "could not make a pipe");
        _cleanup_fd_ int words = ends[0], output = ends[1];
        const struct runsc_start s = {.program = program,
                                      .id_base = id_base,
                                      .ids = CELL_ID_RANGE,
                                      .attached = true,
                                      .input = null,
                                      .output = output};
        r = runsc_start(&s, &pid, &f->err);
        if (r < 0)
                return r;
        int status = runsc_wait(pid, PROBE_MS);
        runsc_last_words(words, said, sizeof said);
        if (status != 0)
                return err_set(&f->err, ERR_UNENFORCED, "runsc cannot run a box here%s%s", said[0] ? ": " : "", said);
        for (size_t i = 0; i < TRIAL_COUNT; i++)
                f->held[i] = strchr(said, letters[i]);
        return 0;
}

/* In a child, as PID 1 of its namespaces; what it found comes back through a pipe. */
static int try_box(const char *program, uint32_t id_base, struct findings *f) {
        struct clone_args args = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
                                  .exit_signal = SIGCHLD};
        struct findings found = *f;
        int ends[2], status;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(&f->err, -errno, "could not make a pipe");
        _cleanup_fd_ int from = ends[0], to = ends[1];
        pid_t pid = kernel_clone3(&args);
        if (pid < 0)
                return err_set(&f->err, pid, "could not make namespaces to try runsc in");
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)run_box(program, id_base, &found);
                _exit(fd_write_full(to, &found, sizeof found) < 0);
        }
        fd_close(&to);
        ssize_t n = fd_read_full(from, &found, sizeof found);
        (void)waitpid(pid, &status, 0);
        if (n != (ssize_t)sizeof found)
                return err_set(&f->err, -EPIPE, "the trial of runsc ended early");
        *f = found;
        return f->err.code;
}

static int look(struct findings *f) {
        char program[PATH_MAX];
        uint32_t slot;

        int r = runsc_find(program, &f->err);
        if (r < 0)
                return r;
        if (geteuid() != 0)
                return err_set(&f->err, ERR_UNENFORCED, "gvisor boxes need root");
        _cleanup_fd_ int ids = ids_open(&f->err);
        if (ids < 0)
                return ids;
        r = ids_take(ids, false, &slot, &f->err);
        if (r < 0)
                return r;
        (void)runsc_version(program, f->version, sizeof f->version);
        r = try_box(program, CELL_ID_FIRST + slot * CELL_ID_RANGE, f);
        ids_release(ids, slot);
        if (r == 0 && !f->held[TRIAL_FILTER])
                r = err_set(&f->err, ERR_UNENFORCED, "this runsc does not load seccomp programs inside");
        return r;
}

/* --- saying it --- */

static const char *sentence(const struct findings *f, enum guarantee g) {
        if (g == GUARANTEE_EXEC && !f->held[TRIAL_NOEXEC])
                return "this runsc executes programs on noexec mounts, so tools.exec cannot be kept";
        return "kept";
}

#define NO_CHECKPOINTS                                                                                                 \
        "checkpoint: not used, since runsc's ends a sandbox whose guest is connected and restores no faster than it "  \
        "starts"

static const char *note(const struct findings *f) {
        if (f->held[TRIAL_AUTOMOUNT])
                return NO_CHECKPOINTS;
        return "this runsc does not know AT_NO_AUTOMOUNT: a library that leaves it out is loaded into every program "
               "inside; "
               "static programs that name it fail; a newer runsc has it. " NO_CHECKPOINTS;
}

int gvisor_probe(void) {
        struct findings f = {0};
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        int r = look(&f);

        if (r < 0 && !f.err.hint[0])
                (void)err_hint(&f.err, "install a runsc that 'runsc --platform=ptrace do true' works with");
        json_open(&j, NULL, '{');
        json_str(&j, "driver", driver_name(DRIVER_GVISOR));
        json_bool(&j, "offered", r == 0);
        json_str(&j, "version", f.version);
        json_str(&j, "why", f.err.text);
        json_str(&j, "fix", f.err.hint);
        json_str(&j, "note", r < 0 ? "" : note(&f));
        json_open(&j, "guarantees", '{');
        for (unsigned i = 0; i < GUARANTEE_COUNT; i++)
                json_str(&j, guarantee_name(i), r < 0 ? "the driver is not to be had here" : sentence(&f, i));
        json_close(&j, '}');
        json_close(&j, '}');
        if (!buf_ok(&out))
                return 1;
        return puts(out.data) < 0 ? 1 : 0;
}
