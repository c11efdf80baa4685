/* Long work, done by children: copying, packing, unpacking. A child is a fork of ours that does one thing, writes how
 * it went to a pipe, and ends; it dies with us, and what it left half-made is removed by whoever comes next. A few of
 * each lane at a time; the others wait. What waits for a client's stream never keeps a copy waiting, for which a
 * sandbox stands still. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/log.h"
#include "warden/warden.h"
#include "wire/packet.h"

#define WAITING_MAX 256
#define KILL_MS     2000
#define LOOK_MS     500   /* whoever wants to know how full a disk is has a last number */
#define PAPER_MS    60000 /* more than its child takes, unless the host's disk keeps that */
#define PATIENCE_MS (24ULL * 3600 * 1000)

struct work {
        struct work *next;
        const struct work_how *how;
        struct work_job job;
        char text[WARDEN_TEXT_SIZE];
        uint32_t serial; /* 0: nobody waits */
        pid_t pid;
        int pidfd, result;
        struct loop_watch exit;
        struct loop_timer deadline;
        const char *spoilt; /* why what it copies is worth nothing: it is being changed; NULL: it is not */
};

static void close_job(struct work_job *j) {
        packet_close(j->fds, j->fd_count);
        packet_close(j->trees, ELEMENTSOF(j->trees));
        fd_close(&j->user_ns);
        fd_close(&j->ids);
        j->fd_count = 0;
}

static void work_free(struct work *k) {
        if (k->exit.on)
                loop_unwatch(k->job.w->loop, &k->exit);
        loop_timer_clear(k->job.w->loop, &k->deadline);
        fd_close(&k->pidfd);
        fd_close(&k->result);
        close_job(&k->job);
        fd_close(&k->job.out);
        free(k);
}

static void start_waiting(struct warden *w);

/* How it went, as the child says. */
static void take_result(struct work *k, struct work_result *ret) {
        int status = 0;

        bool whole = fd_read_full(k->result, ret, sizeof *ret) == (ssize_t)sizeof *ret;
        (void)waitpid(k->pid, &status, WNOHANG);
        if (!whole) {
                *ret = (struct work_result){.code = -EIO};
                (void)snprintf(ret->text, sizeof ret->text, "the work was ended before it was done (status 0x%x)",
                               (unsigned)status);
        }
        ret->text[sizeof ret->text - 1] = ret->hint[sizeof ret->hint - 1] = '\0';
}

static void say(struct work *k, const struct work_result *result) {
        struct warden_message m = {.error = result->code, .text = result->text, .hint = result->hint};

        memcpy(m.numbers, result->numbers, sizeof m.numbers);
        if (k->serial != 0)
                link_answer(k->job.w, k->serial, &m, &k->job.out, k->job.out >= 0 && result->code >= 0);
        else if (result->code < 0 && !k->spoilt)
                log_line(LOG_LEVEL_WARNING, NULL, "%s: %s", warden_kind_name(k->job.m.kind), result->text);
}

static void set_failure(struct work_result *r, int code, const struct err *err) {
        r->code = code;
        (void)snprintf(r->text, sizeof r->text, "%s", err->text[0] ? err->text : err_name(code));
        (void)snprintf(r->hint, sizeof r->hint, "%s", err->hint);
}

/* What the child made is completed, or removed, here. */
static void conclude(struct work *k, struct work_result *result) {
        struct err err = {0};

        close_job(&k->job); /* nothing is mounted any more */
        if (!k->how->finish)
                return;
        int r = k->how->finish(&k->job, result, &err);
        if (r < 0 && result->code >= 0)
                set_failure(result, r, &err);
}

static void take_out(struct work *k) {
        struct warden *w = k->job.w;

        for (struct work **p = &w->working; *p; p = &(*p)->next)
                if (*p == k) {
                        *p = k->next;
                        break;
                }
        w->working_count[k->how->lane]--;
}

static void queue(struct work *k) {
        struct work **end = &k->job.w->waiting;

        while (*end)
                end = &(*end)->next;
        *end = k;
        k->next = NULL;
        k->job.w->waiting_count[k->how->lane]++;
}

/* One half is done: the other is begun as if it had been asked for now. */
static void go_on(struct work *k) {
        loop_unwatch(k->job.w->loop, &k->exit);
        fd_close(&k->pidfd);
        fd_close(&k->result);
        k->how = k->how->then;
        queue(k);
        start_waiting(k->job.w);
}

static void finished(struct loop_watch *watch, uint32_t events) {
        struct work *k = LOOP_OWNER(watch, struct work, exit);
        struct warden *w = k->job.w;
        struct work_result result;

        (void)events;
        take_out(k);
        take_result(k, &result);
        if (k->spoilt) {
                struct err err;
                set_failure(&result, err_set(&err, -ECANCELED, "%s while its disk was copied", k->spoilt), &err);
        }
        if (result.code >= 0 && k->how->then) {
                go_on(k);
                return;
        }
        conclude(k, &result);
        say(k, &result);
        work_free(k);
        start_waiting(w);
}

_noreturn_ static void child(struct work *k, int result, pid_t parent) {
        struct work_result r = {0};
        struct err err = {0};
        sigset_t none;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(1); /* another warden may be at work already */
        (void)prctl(PR_SET_NAME, "stockaded-work");
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)signal(SIGCHLD, SIG_DFL);
        warm_close_mounts(k->job.w);
        fd_close(&k->job.w->operator_lock); /* an operator, or a warden, is started while the host's disk keeps us */
        fd_close(&k->job.w->lock);
        fd_close(&k->job.w->link);
        r.code = k->how->run(&k->job, &r, &err);
        if (r.code < 0)
                set_failure(&r, r.code, &err);
        _exit(fd_write_full(result, &r, sizeof r) < 0);
}

static int start(struct work *k, struct err *err) {
        struct warden *w = k->job.w;
        int ends[2];

        if (k->spoilt)
                return err_set(err, -ECANCELED, "%s before its disk was copied", k->spoilt);
        int r = k->how->prepare ? k->how->prepare(&k->job, err) : 0;
        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC) < 0) /* a result is smaller than a pipe: nobody waits for it to be read */
                return err_set(err, -errno, "could not make a pipe");
        pid_t self = getpid();
        k->pid = fork();
        if (k->pid == 0) {
                (void)close(ends[0]);
                child(k, ends[1], self);
        }
        int error = errno;
        (void)close(ends[1]);
        k->result = ends[0];
        if (k->pid < 0)
                return err_set(err, -error, "could not start a child");
        k->pidfd = (int)kernel_result(syscall(SYS_pidfd_open, k->pid, 0));
        k->exit.ready = finished;
        r = k->pidfd < 0 ? k->pidfd : loop_watch(w->loop, &k->exit, k->pidfd, EPOLLIN);
        if (r < 0) {
                (void)kill(k->pid, SIGKILL);
                (void)waitpid(k->pid, NULL, 0);
                return err_set(err, r, "could not watch a child");
        }
        if (!k->how->then) {
                packet_close(k->job.fds, k->job.fd_count); /* the child has its own */
                k->job.fd_count = 0;
        }
        k->next = w->working;
        w->working = k;
        w->working_count[k->how->lane]++;
        return 0;
}

/* What it makes counts for nothing any more. */
static void spoil(struct work *k, const char *why) {
        if (!k->spoilt)
                k->spoilt = why;
        if (k->pidfd >= 0)
                (void)kernel_pidfd_send_signal(k->pidfd, SIGKILL, NULL);
}

/* One that waits for a slot is not begun any more. */
static void withdraw(struct work *k) {
        struct warden *w = k->job.w;

        for (struct work **p = &w->waiting; *p; p = &(*p)->next)
                if (*p == k) {
                        *p = k->next;
                        break;
                }
        w->waiting_count[k->how->lane]--;
        work_free(k);
}

static void say_late(const struct work *k, struct err *err) {
        if (k->how->lane == WORK_LOOKING)
                (void)err_set(err, -ETIMEDOUT, "the disk '%s' does not answer", k->job.m.id);
        else if (k->how->lane == WORK_PAPERS) {
                (void)err_set(err, -ETIMEDOUT, "it could not be had within %d seconds", PAPER_MS / 1000);
                (void)err_hint(err, "try again when this host is less busy");
        } else {
                (void)err_set(err, -ETIMEDOUT, "copying its disk takes longer than a sandbox may stand still (%llu ms)",
                              (unsigned long long)k->job.m.numbers[0]);
                (void)err_hint(err, "stop it first, then nothing is copied; or raise snapshot_pause in stockade.conf");
        }
}

/* A sandbox stands still, and for too long: it may go on now. The child is killed; it may be one that nothing ends at
 * once, because the host's disk does not answer, so that nobody waits for it: what it leaves is removed when it ends.
 */
static void too_late(struct loop_timer *t) {
        struct work *k = LOOP_OWNER(t, struct work, deadline);
        struct work_result result = {0};
        struct err err = {0};

        say_late(k, &err);
        set_failure(&result, -ETIMEDOUT, &err);
        say(k, &result);
        k->serial = 0;
        if (k->pidfd >= 0)
                spoil(k, "the sandbox had to go on");
        else
                withdraw(k);
}

static void set_deadline(struct work *k) {
        struct warden *w = k->job.w;

        k->deadline.fire = too_late;
        if (k->how->lane == WORK_LOOKING)
                loop_timer_set(w->loop, &k->deadline, loop_now(w->loop) + LOOK_MS);
        if (k->how->lane == WORK_PAPERS)
                loop_timer_set(w->loop, &k->deadline, loop_now(w->loop) + PAPER_MS);
        if (k->job.m.kind == WARDEN_DISK_CLONE && k->job.m.numbers[0] > 0)
                loop_timer_set(w->loop, &k->deadline, loop_now(w->loop) + MIN(k->job.m.numbers[0], PATIENCE_MS));
}

/* One that a sandbox keeps busy takes no slot from the others. */
static bool looked_at(const struct warden *w, const struct work *k) {
        for (const struct work *o = w->working; o; o = o->next)
                if (o->how->lane == WORK_LOOKING && str_eq(o->job.m.id, k->job.m.id))
                        return true;
        return false;
}

/* The first of those that have a slot. */
static struct work *take_waiting(struct warden *w) {
        static const size_t most[WORK_LANES] = {WARDEN_WORK_MAX, WARDEN_WORK_MAX, 4 * WARDEN_WORK_MAX, WARDEN_WORK_MAX,
                                                WARDEN_PAPER_COUNT};

        for (struct work **p = &w->waiting; *p; p = &(*p)->next) {
                struct work *k = *p;

                if (w->working_count[k->how->lane] >= most[k->how->lane] ||
                    (k->how->lane == WORK_LOOKING && looked_at(w, k)))
                        continue;
                *p = k->next;
                w->waiting_count[k->how->lane]--;
                return k;
        }
        return NULL;
}

static void start_waiting(struct warden *w) {
        struct work *k;

        while ((k = take_waiting(w))) {
                struct err err = {0};
                int r = start(k, &err);

                if (r < 0) {
                        struct work_result failed = {.code = r};

                        set_failure(&failed, r, &err);
                        conclude(k, &failed);
                        say(k, &failed);
                        work_free(k);
                }
        }
}

static int add(struct warden *w, const struct work_how *how, const struct warden_message *m, uint32_t serial, int *fds,
               size_t fd_count, struct err *err) {
        if (w->waiting_count[how->lane] >= WAITING_MAX)
                return err_set(err, -EBUSY, "%d requests that take long are waiting already", WAITING_MAX);
        struct work *k = calloc(1, sizeof *k);
        if (!k)
                return err_set(err, -ENOMEM, "could not begin");
        *k = (struct work){.how = how, .job = {.w = w, .m = *m}, .serial = serial, .pidfd = -EBADF, .result = -EBADF};
        (void)snprintf(k->text, sizeof k->text, "%s", m->text ? m->text : "");
        k->job.m.text = k->text;
        k->job.m.hint = "";
        k->job.user_ns = k->job.ids = k->job.out = -EBADF;
        for (size_t i = 0; i < ELEMENTSOF(k->job.trees); i++)
                k->job.trees[i] = -EBADF;
        for (; k->job.fd_count < fd_count; k->job.fd_count++)
                k->job.fds[k->job.fd_count] = TAKE_FD(fds[k->job.fd_count]);
        set_deadline(k);
        queue(k);
        start_waiting(w);
        return 0;
}

int work_begin(struct request *q, const struct work_how *how) {
        int r = add(q->w, how, q->m, q->m->serial, q->fds, q->fd_count, &q->err);

        return r < 0 ? r : REQUEST_LATER;
}

int work_quietly(struct warden *w, const struct work_how *how, const struct warden_message *m) {
        struct err err = {0};

        return add(w, how, m, 0, NULL, 0, &err);
}

/* --- who uses what --- */

static bool uses_disk(const struct work *k, const char *disk) {
        if (str_eq(k->job.m.id, disk) || str_eq(k->job.m.target, disk))
                return true;
        for (uint32_t i = 0; i < k->job.m.layer_count; i++)
                if (str_eq(k->job.m.layers[i], disk))
                        return true;
        return false;
}

static bool writes_disk(const struct work *k, const char *disk) {
        const struct warden_message *m = &k->job.m;

        return str_eq(m->target, disk) ||
               ((m->kind == WARDEN_IMPORT || m->kind == WARDEN_DISK_MAKE) && str_eq(m->id, disk));
}

static bool copies_disk(const struct work *k, const char *disk) {
        return k->job.m.kind == WARDEN_DISK_CLONE && !k->spoilt && str_eq(k->job.m.id, disk);
}

static bool uses_image(const struct work *k, const char *image) {
        return str_eq(k->job.m.image, image) || str_eq(k->job.m.id, image);
}

static bool any(const struct warden *w, bool (*test)(const struct work *k, const char *id), const char *id) {
        for (const struct work *k = w->working; k; k = k->next)
                if (test(k, id))
                        return true;
        for (const struct work *k = w->waiting; k; k = k->next)
                if (test(k, id))
                        return true;
        return false;
}

bool work_uses_disk(const struct warden *w, const char *disk) {
        return any(w, uses_disk, disk) || warm_makes(w, disk);
}

bool work_writes_disk(const struct warden *w, const char *disk) {
        return any(w, writes_disk, disk) || warm_makes(w, disk);
}

bool work_copies_disk(const struct warden *w, const char *disk) {
        return any(w, copies_disk, disk);
}

bool work_uses_image(const struct warden *w, const char *image) {
        return any(w, uses_image, image);
}

bool work_gets_paper(const struct warden *w, uint32_t paper) {
        for (const struct work *k = w->working; k; k = k->next)
                if (k->how->lane == WORK_PAPERS && k->job.m.paper == paper)
                        return true;
        return false; /* none waits: each has a slot */
}

/* --- ends --- */

/* The child is killed and waited for; not for one that the host's disk keeps, whose leavings the next start removes. */
static void cut_short(struct work *k, int code) {
        struct pollfd ended = {.fd = k->pidfd, .events = POLLIN};
        struct err err;
        struct work_result result = {.code = code};

        (void)kernel_pidfd_send_signal(k->pidfd, SIGKILL, NULL);
        bool gone = poll(&ended, 1, KILL_MS) > 0 && waitpid(k->pid, NULL, WNOHANG) == k->pid;
        take_out(k);
        set_failure(&result, err_set(&err, code, "the work was ended before it was done"), &err);
        if (gone)
                conclude(k, &result);
        work_free(k);
}

void work_spoil_copies(struct warden *w, const char *disk) {
        for (struct work *k = w->waiting; k; k = k->next)
                if (copies_disk(k, disk))
                        spoil(k, "the sandbox ended");
        for (struct work *k = w->working; k; k = k->next)
                if (copies_disk(k, disk))
                        spoil(k, "the sandbox ended");
}

/* Copies end: a sandbox stands still for each, and whoever comes wants to let it go on. So do papers, which he may want
 * to ask for himself. Nothing else that is under way harms anybody. */
void work_forget(struct warden *w) {
        for (struct work *k = w->working; k; k = k->next) {
                k->serial = 0;
                if (k->job.m.kind == WARDEN_DISK_CLONE || k->how->lane == WORK_PAPERS)
                        spoil(k, "the operator ended");
        }
        for (struct work **p = &w->waiting; *p;) { /* nobody wants to know any more: not even begun */
                struct work *k = *p;

                if (k->serial == 0) { /* nobody ever did: it is our own */
                        p = &k->next;
                        continue;
                }
                *p = k->next;
                w->waiting_count[k->how->lane]--;
                work_free(k);
        }
}

void work_end_all(struct warden *w) {
        for (struct work *k = w->waiting; k; k = k->next)
                k->serial = UINT32_MAX; /* ours, too */
        work_forget(w);
        while (w->working)
                cut_short(w->working, -ECANCELED);
}
