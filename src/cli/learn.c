/* `stockade run --learn`, the launcher's part: starts the watcher, collects what the gate refused, and at the end has
 * `stockade-policy` write a profile from the notes.
 *
 * The file is never written over: it must not exist, and it is made, below a folder that was opened before the command
 * ran, when the command and everything that it started has ended. */
#include "cli/learn.h"
#include "base/paths.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/kernel.h"
#include "base/text.h"
#include "cli/run.h"
#include "wire/wire.h"

#define DEFAULT_NAME "stockade-learned"
#define ARGUMENTS    32 /* of the command, in a comment */

/* ---- before ---- */

static bool exists(int folder, const char *name) {
        struct stat st;

        return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The folder and the name in it; without a name from the caller, one that is free. */
static int choose_file(const struct run *r, struct learn *l, struct err *err) {
        const char *file = r->options.learn_file ? r->options.learn_file : DEFAULT_NAME ".yaml";
        const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
        char folder[PATH_MAX];

        (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) + 1 : 1, slash ? file : ".");
        if (name[0] == '\0' || strlen(name) >= sizeof l->name || strlen(file) >= sizeof folder)
                return err_set(err, ERR_INPUT, "--learn '%s' is not the name of a file", file);
        l->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (l->folder < 0)
                return err_set(err, -errno, "cannot write '%s'", file);
        if (syscall(SYS_faccessat, l->folder, ".", W_OK | X_OK) < 0) {
                (void)err_set(err, -errno, "--learn cannot write '%s'", file);
                return err_hint(err, "name a file somewhere else: --learn=FILE");
        }
        (void)snprintf(l->name, sizeof l->name, "%s", name);
        for (unsigned i = 2; !r->options.learn_file && exists(l->folder, l->name) && i < 1000; i++)
                (void)snprintf(l->name, sizeof l->name, DEFAULT_NAME "-%u.yaml", i);
        if (exists(l->folder, l->name)) {
                (void)err_set(err, -EEXIST, "--learn '%s'", file);
                return err_hint(err, "it is not written over: move it away, or name another file");
        }
        return 0;
}

/* The child: a process group of its own and no signals, so that what is meant for the command does not end it; none of
 * our descriptors, so that nobody waits for it; and it ends with us. */
_noreturn_ static void be_watcher(int socket, pid_t parent, struct learn_notes *notes) {
        sigset_t all;

        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        (void)setpgid(0, 0);
        if (dup3(socket, 0, O_CLOEXEC) < 0 || kernel_close_range(1, ~0U, 0) < 0 || chdir("/") < 0)
                _exit(1);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(1);
        learn_watch(0, notes);
}

static int start_watcher(struct run *r, struct learn *l, struct err *err) {
        pid_t parent = getpid();
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_set(err, -errno, "could not make a socket pair");
        _cleanup_fd_ int theirs = ends[0], ours = ends[1];
        /* out of the way of the descriptors that the cell puts into their places */
        r->cell.watcher = fcntl(ours, F_DUPFD_CLOEXEC, 16);
        if (r->cell.watcher < 0)
                return err_set(err, -errno, "could not move a descriptor");
        l->watcher = fork();
        if (l->watcher == 0) {
                network_secrets_wipe(&r->network); /* our copy: who reads hostile memory needs none */
                be_watcher(theirs, parent, l->notes);
        }
        if (l->watcher < 0)
                return err_set(err, -errno, "could not start a process that watches");
        r->cell.learn = true;
        return 0;
}

int learn_prepare(struct run *r, struct err *err) {
        if (!r->options.learn)
                return 0;
        struct learn *l = calloc(1, sizeof *l);
        if (!l)
                return err_set(err, -ENOMEM, "could not prepare --learn");
        r->learn = l;
        l->folder = -EBADF;
        void *notes = mmap(NULL, sizeof *l->notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (notes == MAP_FAILED)
                return err_set(err, -errno, "could not prepare --learn");
        l->notes = notes;
        int result = choose_file(r, l, err);
        return result < 0 ? result : start_watcher(r, l, err);
}

void learn_started(struct run *r) {
        if (r->cell.learn)
                fd_close(&r->cell.watcher);
}

/* ---- meanwhile ---- */

void learn_gate_event(struct run *r, const struct gate_event *e) {
        static const enum gate_reason kept[] = {GATE_NO_RULE,   GATE_NO_PORT, GATE_PRIVATE,
                                                GATE_NO_METHOD, GATE_NO_PATH, GATE_NO_UDP};
        struct learn *l = r->learn;
        bool wanted = false;

        for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                wanted = wanted || e->reason == kept[i];
        if (!l || !wanted || e->host[0] == '\0')
                return;
        for (size_t i = 0; i < l->host_count; i++) {
                struct learn_host *h = &l->hosts[i];

                if (h->reason == e->reason && h->port == e->port && str_eq(h->host, e->host) &&
                    str_eq(h->method, e->method) && str_eq(h->path, e->path)) {
                        h->count += e->count;
                        return;
                }
        }
        if (l->host_count >= LEARN_HOSTS_MAX) {
                l->more_hosts += e->count;
                return;
        }
        struct learn_host *h = &l->hosts[l->host_count++];
        h->port = e->port;
        h->reason = e->reason;
        h->count = e->count;
        (void)snprintf(h->host, sizeof h->host, "%s", e->host);
        (void)snprintf(h->method, sizeof h->method, "%s", e->method);
        (void)snprintf(h->path, sizeof h->path, "%s", e->path);
}

/* ---- afterwards ---- */

/* Everything under the filter is dead: the watcher judges what it heard last, and ends by itself. One that hangs in a
 * file system that does not answer is killed and left behind: its notes are here, and it ends with that call. */
static void end_watcher(struct learn *l) {
        struct timespec pause = {.tv_nsec = 1000000};

        if (l->watcher <= 0)
                return;
        for (unsigned i = 0; i < 1000; i++) {
                if (i == 500)
                        (void)kill(l->watcher, SIGKILL);
                pid_t r = waitpid(l->watcher, NULL, WNOHANG);
                if (r == l->watcher || (r < 0 && errno != EINTR))
                        break;
                (void)nanosleep(&pause, NULL);
        }
        l->watcher = 0;
}

static bool below(const char *path, const char *parent) {
        size_t n = strlen(parent);

        return str_eq(parent, "/") || (strncmp(path, parent, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

/* Our own folders decide what later sandboxes may do. */
static void mark_own(struct learn_notes *n) {
        char own[PATH_MAX];

        for (size_t k = 0; paths_own(k, own, sizeof own); k++) {
                _cleanup_free_ char *real = own[0] ? realpath(own, NULL) : NULL;

                for (uint32_t i = 0; own[0] && i < n->entry_count; i++) {
                        struct learn_entry *e = &n->entries[i];
                        const char *path = n->text + e->path, *leads = e->real ? n->text + e->real : path;

                        if (below(path, own) || below(leads, real ? real : own) ||
                            ((e->flags & LEARN_FOLDER) && (below(own, path) || below(real ? real : own, leads))))
                                e->flags |= LEARN_STOCKADE;
                }
        }
}

static void count_all(struct learn *l) {
        for (uint32_t i = 0; i < l->notes->entry_count; i++)
                if (l->notes->entries[i].kind == LEARN_EXEC)
                        l->programs++;
                else
                        l->files++;
        for (size_t i = 0; i < l->host_count; i++) {
                bool first = true;

                for (size_t k = 0; k < i; k++)
                        first = first && !str_eq(l->hosts[k].host, l->hosts[i].host);
                l->reached += first;
        }
}

void learn_pack(const struct learn *l, char *const *argv, struct buf *out) {
        const struct learn_notes *n = l->notes;
        size_t words = 0;

        buf_add(out, LEARN_MAGIC, strlen(LEARN_MAGIC));
        wire_put_u32(out, n->entry_count);
        for (uint32_t i = 0; i < n->entry_count; i++) {
                const struct learn_entry *e = &n->entries[i];

                wire_put_u16(out, e->kind);
                wire_put_u16(out, e->flags);
                wire_put_u64(out, e->count);
                wire_put_str(out, n->text + e->path);
                wire_put_str(out, n->text + e->real);
        }
        wire_put_u32(out, (uint32_t)l->host_count);
        for (size_t i = 0; i < l->host_count; i++) {
                const struct learn_host *h = &l->hosts[i];

                wire_put_u16(out, (uint16_t)h->reason);
                wire_put_u16(out, h->port);
                wire_put_u64(out, h->count);
                wire_put_str(out, h->host);
                wire_put_str(out, h->method);
                wire_put_str(out, h->path);
        }
        wire_put_u64(out, n->more);
        wire_put_u64(out, n->unread);
        wire_put_u64(out, l->more_hosts);
        while (argv[words] && words < ARGUMENTS)
                words++;
        wire_put_u32(out, (uint32_t)words);
        for (size_t i = 0; i < words; i++)
                wire_put_str(out, argv[i]);
}

/* The profile that was used, as the new file can name it from wherever it is. */
static const char *parent_name(const struct run *r, char **ret_real) {
        const char *name = r->options.profile;
        size_t n = strlen(name);

        if (!strchr(name, '/') && !(n > 5 && str_eq(name + n - 5, ".yaml")))
                return name;
        *ret_real = realpath(name, NULL);
        return *ret_real ? *ret_real : name;
}

static int write_profile(struct run *r, struct learn *l, int notes, int file, struct err *err) {
        const char *argv[10 + 4 * RUN_LIST_MAX];
        _cleanup_free_ char *real = NULL;
        char program[PATH_MAX];
        size_t n = 0;
        int status = -1;

        int result = paths_helper("stockade-policy", program, sizeof program, err);
        if (result < 0)
                return result;
        argv[n++] = "stockade-policy";
        argv[n++] = "learn";
        argv[n++] = "--profile";
        argv[n++] = parent_name(r, &real);
        for (size_t i = 0; i < r->options.set_count; i++) {
                argv[n++] = "--set";
                argv[n++] = r->options.set[i];
        }
        for (size_t i = 0; i < r->options.allow_count; i++) {
                argv[n++] = "--allow";
                argv[n++] = r->options.allow[i];
        }
        argv[n] = NULL;
        pid_t pid = fork();
        if (pid == 0) {
                sigset_t none;

                (void)sigemptyset(&none);
                (void)sigprocmask(SIG_SETMASK, &none, NULL);
                if (dup2(notes, STDIN_FILENO) == STDIN_FILENO && dup2(file, STDOUT_FILENO) == STDOUT_FILENO)
                        (void)execv(program, (char *const *)(uintptr_t)argv);
                _exit(127);
        }
        if (pid < 0)
                return err_set(err, -errno, "could not start '%s'", program);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        return err_set(err, ERR_REFUSED, "could not write the profile '%s'", l->name);
}

static int save(struct run *r, struct learn *l, struct err *err) {
        _cleanup_buf_ struct buf packed = {.max = LEARN_FILE_MAX};
        _cleanup_fd_ int notes = memfd_create("learned", MFD_CLOEXEC);

        learn_pack(l, r->options.argv, &packed);
        if (!buf_ok(&packed))
                return err_set(err, ERR_LIMIT, "too much was refused to be written down");
        int result = notes < 0 ? -errno : fd_write_full(notes, packed.data, packed.size);
        if (result < 0 || lseek(notes, 0, SEEK_SET) != 0)
                return err_set(err, result < 0 ? result : -errno, "could not keep what was refused");
        _cleanup_fd_ int file = openat(l->folder, l->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (file < 0)
                return err_set(err, -errno, "cannot write the profile '%s'", l->name);
        result = write_profile(r, l, notes, file, err);
        if (result < 0)
                (void)unlinkat(l->folder, l->name, 0);
        return result;
}

/* "3 files, 1 program and 2 hosts" */
static void say_counts(const struct learn *l, char *ret, size_t size) {
        const struct {
                uint64_t count;
                const char *one, *many;
        } parts[] = {{l->files, "file", "files"}, {l->programs, "program", "programs"}, {l->reached, "host", "hosts"}};
        size_t used = 0, left = 0, total = 0;

        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                left += parts[i].count > 0;
        ret[0] = '\0';
        for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
                if (parts[i].count == 0)
                        continue;
                int n = snprintf(ret + used, size - used, "%s%llu %s",
                                 total == 0  ? ""
                                 : left == 1 ? " and "
                                             : ", ",
                                 (unsigned long long)parts[i].count,
                                 parts[i].count == 1 ? parts[i].one : parts[i].many);
                used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
                total++;
                left--;
        }
}

static void tell(const struct run *r, const struct learn *l) {
        char counts[96], name[600], whole[PATH_MAX];
        const char *slash = r->options.learn_file ? strrchr(r->options.learn_file, '/') : NULL;

        if (r->options.quiet || r->options.json)
                return;
        if (l->notes->unread > 0)
                (void)fprintf(stderr,
                              "stockade: --learn: %llu calls could not be looked at: this host does not let us "
                              "read the memory of the sandbox's processes\n",
                              (unsigned long long)l->notes->unread);
        if (!l->written)
                return;
        (void)snprintf(whole, sizeof whole, "%.*s%s", slash ? (int)(slash - r->options.learn_file) + 1 : 2,
                       slash ? r->options.learn_file : "./", l->name);
        text_escape(name, sizeof name, whole);
        say_counts(l, counts, sizeof counts);
        bool one = l->files + l->programs + l->reached == 1;
        (void)fprintf(stderr, "stockade: %s %s refused; a profile that allows %s, for you to read first: %s\n", counts,
                      one ? "was" : "were", one ? "it" : "them", name);
}

int learn_finish(struct run *r, struct err *err) {
        struct learn *l = r->learn;
        int result = 0;

        if (!l)
                return 0;
        end_watcher(l);
        mark_own(l->notes);
        count_all(l);
        if (l->files + l->programs + l->reached > 0) {
                result = save(r, l, err);
                l->written = result == 0;
        }
        tell(r, l);
        return result;
}

void learn_record(const struct run *r, struct json *j) {
        const struct learn *l = r->learn;

        if (!l) {
                json_null(j, "learned");
                return;
        }
        json_open(j, "learned", '{');
        json_u64(j, "files", l->files);
        json_u64(j, "programs", l->programs);
        json_u64(j, "hosts", l->reached);
        json_u64(j, "not_listed", l->notes ? l->notes->more + l->more_hosts : 0);
        json_u64(j, "unread", l->notes ? l->notes->unread : 0);
        json_str(j, "profile", l->written ? l->name : NULL);
        json_close(j, '}');
}

void learn_end(struct run *r) {
        struct learn *l = r->learn;

        if (!l)
                return;
        learn_started(r);
        end_watcher(l);
        fd_close(&l->folder);
        if (l->notes)
                (void)munmap(l->notes, sizeof *l->notes);
        free(l);
        r->learn = NULL;
}
