/* Helpers of all scenes; scene.h is the contract. Whatever cannot be done ends in "could not be tried" with the reason,
 * never in a good verdict. */
#include "verify/scene.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/kernel.h"
#include "verify/exempt.h"

const char *const *scene_words(const char *text, struct scene_words *room) {
        char *rest = room->text, *word;
        size_t count = 0;

        *room = (struct scene_words){0};
        (void)snprintf(room->text, sizeof room->text, "%s", text ? text : "");
        while ((word = strsep(&rest, " ")) && count + 1 < ELEMENTSOF(room->words))
                if (word[0])
                        room->words[count++] = word;
        return count > 0 ? room->words : NULL;
}

bool scene_options(const struct judge *j, struct finding *f) {
        if (launch_has_options(j))
                return true;
        finding_untried(f, "needs options of our own launcher");
        return false;
}

bool scene_share(const struct judge *j, struct finding *f) {
        if (!scene_options(j, f))
                return false;
        if (launch_in_box(j)) {
                finding_untried(f, "no folder of the host can be shared as writable with a sandbox of the daemon");
                return false;
        }
        if (!j->world.shareable)
                finding_untried(f, "%s", WORLD_UNSHAREABLE);
        return j->world.shareable;
}

void scene_worked(const struct judge *j, const struct check *c, struct finding *f, const char *format, ...) {
        const char *why = exempt_within(j->options.driver, c->name);
        char words[400];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(words, sizeof words, format, args);
        va_end(args);
        if (why)
                finding_inapplicable(f, "%s", why);
        else
                finding_open(f, "%s", words);
}

bool scene_run(struct judge *j, struct finding *f, const struct launch *l, struct outcome *ret) {
        struct err err = {0};

        if (launch_run(j, l, ret, &err) < 0) {
                finding_untried(f, "could not be started: %.200s", err.text);
                return false;
        }
        if (ret->late) {
                finding_untried(f, "did not end in time");
                return false;
        }
        if (l->record && ret->status == 125 && (!ret->record || scene_reason(ret, "failed"))) {
                finding_untried(f, "the sandbox did not start: %.180s", ret->err.data ? ret->err.data : "");
                return false;
        }
        if (ret->out.size > 0 && world_leaked(&j->world, ret->out.data, ret->out.size) >= 0)
                finding_open(f, "a canary is in its output");
        return true;
}

bool scene_inside(struct judge *j, struct finding *f, const char *const *options, const char *const *words,
                  struct outcome *ret) {
        const struct launch l = {
                .where = LAUNCH_INSIDE,
                .options = options,
                .argv = words,
                .facts = str_eq(words[0], "{probe}"),
                .record = launch_has_options(j),
        };

        return scene_run(j, f, &l, ret);
}

bool scene_start(struct judge *j, struct finding *f, const struct launch *l, struct running *ret) {
        struct err err = {0};

        if (launch_start(j, l, ret, &err) >= 0)
                return true;
        finding_untried(f, "could not be started: %.200s", err.text);
        return false;
}

const char *scene_workspace(const struct judge *j) {
        return launch_has_options(j) && j->profile.workspace[0] ? j->profile.workspace : "/tmp";
}

bool scene_said(const struct buf *out, const char *name, struct said *ret, struct finding *f) {
        if (!said_find(out, name, ret))
                return false;
        (void)snprintf(f->said, sizeof f->said, "%s: %.700s", ret->result, ret->evidence);
        (void)snprintf(f->error, sizeof f->error, "%s", ret->error);
        return true;
}

bool scene_reason(const struct outcome *o, const char *reason) {
        char is[32];

        return o->record && json_find_str(o->record, "reason", is, sizeof is) && str_eq(is, reason);
}

bool scene_hit(const struct outcome *o, const char *key) {
        char path[48], is[64];
        size_t count = 0;

        if (!o->record || !json_find_count(o->record, "limits_hit", &count))
                return false;
        for (size_t i = 0; i < count; i++) {
                (void)snprintf(path, sizeof path, "limits_hit.%zu", i);
                if (json_find_str(o->record, path, is, sizeof is) && str_eq(is, key))
                        return true;
        }
        return false;
}

uint64_t scene_number(const struct outcome *o, const char *path, uint64_t otherwise) {
        uint64_t value = otherwise;

        if (o->record)
                (void)json_find_u64(o->record, path, &value);
        return value;
}

const char *scene_ended(const struct outcome *o, char *buf, size_t size) {
        char reason[32] = "?", key[64], path[48];
        size_t count = 0, used;

        if (!o->record) {
                (void)snprintf(buf, size, "status %d", o->status);
                return buf;
        }
        (void)json_find_str(o->record, "reason", reason, sizeof reason);
        (void)json_find_count(o->record, "limits_hit", &count);
        (void)snprintf(buf, size, "reason %s, status %d", reason, o->status);
        for (size_t i = 0; i < count; i++) {
                (void)snprintf(path, sizeof path, "limits_hit.%zu", i);
                used = strlen(buf);
                if (json_find_str(o->record, path, key, sizeof key))
                        (void)snprintf(buf + used, size - used, "%s%s", i ? " " : ", limits hit: ", key);
        }
        return buf;
}

bool scene_folder(struct judge *j, struct finding *f, const char *name, char *path, size_t size) {
        (void)snprintf(path, size, "%s/%s", j->world.folder, name);
        scene_remove(path);
        if (mkdir(path, 0755) == 0 && chmod(path, 0755) == 0)
                return true;
        finding_untried(f, "cannot make a folder for it: %s", strerror(errno));
        return false;
}

bool scene_write(const char *path, const char *text, mode_t mode) {
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);

        return fd >= 0 && fd_write_full(fd, text, strlen(text)) >= 0 && fchmod(fd, mode) == 0;
}

bool scene_holds(const char *path, const char *text) {
        _cleanup_free_ char *is = NULL;
        size_t size = 0;

        return fd_read_file(AT_FDCWD, path, 1 << 20, true, &is, &size, NULL) >= 0 && size == strlen(text) &&
               memcmp(is, text, size) == 0;
}

void scene_remove(const char *path) {
        if (unlink(path) < 0)
                world_remove_tree(path);
}

static bool everybody; /* what is judged may be started by a daemon, and so not be below the judge */

void scene_mark(const struct judge *j, char mark[SCENE_MARK]) {
        static unsigned count;

        everybody = judge_starts_elsewhere(j);
        (void)snprintf(mark, SCENE_MARK, "scene-%s-%u", j->world.nonce, ++count);
}

/* Is the mark among the arguments of this process? */
static bool carries(const char *pid, const char *mark) {
        char path[64], text[16384];
        size_t size = strlen(mark);

        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof text);

        return n > 0 && memmem(text, (size_t)n, mark, size) != NULL;
}

size_t scene_find(const char *mark, pid_t *pids, size_t max) {
        DIR *dir = opendir("/proc");
        size_t count = 0;

        for (struct dirent *e; dir && (e = readdir(dir));)
                if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && carries(e->d_name, mark) && count < max) {
                        pids[count] = (pid_t)strtol(e->d_name, NULL, 10);
                        count += everybody || process_is_ours(pids[count]);
                }
        if (dir)
                (void)closedir(dir);
        return count;
}

void scene_end(const char *mark) {
        pid_t pids[SCENE_PIDS];
        char name[32];

        if (scene_gone(mark, 3000)) /* a keeper that tidies up after its launcher carries the mark too */
                return;
        size_t count = scene_find(mark, pids, ELEMENTSOF(pids));
        for (size_t i = 0; i < count; i++) {
                _cleanup_fd_ int pidfd = (int)syscall(SYS_pidfd_open, pids[i], 0);

                (void)snprintf(name, sizeof name, "%d", (int)pids[i]);
                /* still the one that was found, and started by us: what a daemon started is for its client to end */
                if (pidfd >= 0 && pids[i] != getpid() && carries(name, mark) && process_is_ours(pids[i]))
                        (void)kernel_pidfd_send_signal(pidfd, SIGKILL, NULL);
        }
}

static void clear_folder(const char *path, const char *mark) {
        DIR *dir = opendir(path);
        size_t n = strlen(mark);

        for (struct dirent *e; dir && (e = readdir(dir));)
                if (strlen(e->d_name) > n && str_eq(e->d_name + strlen(e->d_name) - n, mark))
                        (void)unlinkat(dirfd(dir), e->d_name, 0);
        if (dir)
                (void)closedir(dir);
}

void scene_litter(const char *mark) {
        clear_folder("/tmp", mark);
        clear_folder("/dev/shm", mark);
}

void scene_wait(unsigned ms) {
        struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

        while (nanosleep(&t, &t) < 0 && errno == EINTR)
                ;
}

uint64_t scene_clock(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool scene_gone(const char *mark, unsigned ms) {
        uint64_t until = scene_clock() + ms;
        pid_t pids[SCENE_PIDS];

        while (scene_find(mark, pids, ELEMENTSOF(pids)) > 0) {
                if (scene_clock() >= until)
                        return false;
                scene_wait(10);
        }
        return true;
}

/* Is it something that was left? Keys, routes and settings are compared once, for the whole host, at the end. */
static bool is_left(const char *line) {
        static const char *const others[] = {"+ keys:", "+ network:", "+ settings:", "+ identity:"};

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (str_starts(line, others[i]))
                        return false;
        return line[0] == '+';
}

/* The lines of what differs that count, and that were there in the last look too, if there was one. */
static size_t choose(const struct buf *lines, const struct buf *last, bool only_left, struct buf *ret) {
        size_t count = 0;

        for (const char *at = lines->data; at && *at;) {
                size_t size = strcspn(at, "\n");

                if ((!only_left || is_left(at)) &&
                    (!last || (last->size > 0 && memmem(last->data, last->size, at, size)))) {
                        buf_add(ret, at, size);
                        buf_str(ret, "\n");
                        count++;
                }
                at += size + (at[size] == '\n');
        }
        return count;
}

bool scene_same(struct judge *j, const struct digest *before, const char *const *watched, const int *ours,
                bool only_left, unsigned ms, struct buf *ret) {
        _cleanup_buf_ struct buf last = {0};

        for (uint64_t until = scene_clock() + ms;;) {
                _cleanup_(digest_free) struct digest now = {0};
                _cleanup_buf_ struct buf lines = {0}, chosen = {0};
                bool over = scene_clock() >= until;

                launch_reap(j);
                if (digest_take(&now, watched, ours, NULL) < 0)
                        return false;
                (void)digest_difference(before, &now, &lines);
                if (choose(&lines, over ? &last : NULL, only_left, &chosen) == 0)
                        return true;
                buf_free(over ? ret : &last);
                *(over ? ret : &last) = chosen;
                chosen = (struct buf){0};
                if (over)
                        return false;
                scene_wait(scene_clock() + 1000 >= until ? 1000 : 50);
        }
}

bool scene_nothing_left(struct judge *j, const struct digest *before, unsigned ms, struct buf *ret) {
        const char *const watched[] = {j->world.share, NULL};
        const int ours[] = {0};

        return scene_same(j, before, watched, ours, true, ms, ret);
}
