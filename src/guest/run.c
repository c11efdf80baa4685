/* The table of runs: starting them, what the operator says to them, how they end.
 *
 * What always holds: a number stands for one run from its EXEC to its FORGET; EXITED comes once on each connection that
 * is attached to all of a run's streams, behind the output that had been read; what a run's background processes write
 * later is kept like the rest. Orphans of any kind are reaped. No child is waited for: one that something inside keeps
 * from executing is continued again and again, and given up in the end. */
#include "guest/run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "guest/request.h"
#include "guest/spawn.h"
#include "wire/packet.h"

#define PATIENCE_MS 50  /* that output may stay open behind a run's end before the end is told */
#define REAP_ONCE   256 /* children of one turn */
#define NUDGE_MS    100
#define NUDGES      100 /* then a start is given up. Turns are counted, so that a sandbox may be frozen meanwhile */

static struct run *find(struct guest *g, uint32_t number) {
        for (struct run *r = g->runs; r; r = r->next)
                if (r->number == number && !r->lost)
                        return r;
        return NULL;
}

static void append(struct guest *g, struct run *r) {
        r->next = NULL;
        *(g->last_run ? &g->last_run->next : &g->runs) = r;
        g->last_run = r;
}

static void free_run(struct run *r) {
        for (size_t i = 0; i < r->stream_count; i++)
                stream_close(&r->streams[i]);
        input_close(&r->input);
        free(r->why);
        free(r);
}

static struct stream *stream_of(struct run *r, enum guest_stream kind) {
        for (size_t i = 0; i < r->stream_count; i++)
                if (r->streams[i].kind == kind)
                        return &r->streams[i];
        return NULL;
}

/* --- starting --- */

static void open_streams(struct guest *g, struct run *r, const struct spawned *s) {
        bool terminal = s->terminal >= 0;

        if (terminal) {
                stream_open(&r->streams[r->stream_count++], g, r, s->terminal, GUEST_TTY);
        } else {
                stream_open(&r->streams[r->stream_count++], g, r, s->out, GUEST_OUT);
                stream_open(&r->streams[r->stream_count++], g, r, s->err, GUEST_ERR);
        }
        input_open(&r->input, g, r, terminal ? fcntl(s->terminal, F_DUPFD_CLOEXEC, 0) : s->in, terminal);
}

static void say_failed(struct guest *g, uint32_t number, int error, const char *text) {
        link_say(g, &(struct guest_message){.kind = GUEST_EXITED, .channel = number, .error = error, .text = text});
}

static bool is_starting(const struct run *r) {
        return r->start.fd >= 0;
}

static void start_known(struct run *r) {
        loop_unwatch(r->start.guest->loop, &r->start.watch);
        fd_close(&r->start.fd);
        serve_wake(r->start.guest);
}

/* It never began. run_settle tells it. */
static void failed(struct run *r, const struct err *err) {
        char text[sizeof err->text];

        start_known(r);
        while (r->stream_count > 0)
                stream_close(&r->streams[--r->stream_count]);
        input_close(&r->input);
        text_escape(text, sizeof text, err->text);
        r->pid = 0; /* whoever that was is reaped like any orphan */
        r->ended = true;
        r->error = err->code;
        r->why = strdup(text);
}

static void send_signal(const struct run *r, int number, bool to_group) {
        (void)kill(to_group ? -r->pid : r->pid, number);
}

static void began(struct run *r) {
        start_known(r);
        if (r->start.asked)
                link_say(r->start.guest,
                         &(struct guest_message){.kind = GUEST_STARTED, .channel = r->number, .number = r->pid});
        for (int n = 1; n <= 64; n++)
                for (size_t to_group = 0; to_group < 2; to_group++)
                        if (r->start.signals[to_group] >> (n - 1) & 1)
                                send_signal(r, n, to_group);
}

static void look(struct run *r) {
        struct err err;
        int outcome = spawn_outcome(r->start.fd, &err);

        if (outcome < 0)
                failed(r, &err);
        else if (outcome == SPAWN_EXECUTES)
                began(r);
}

static void outcome_known(struct loop_watch *w, uint32_t events) {
        (void)events;
        look(LOOP_OWNER(w, struct run, start.watch));
}

static void nudge_later(struct guest *g) {
        if (g->nudge.place == 0)
                loop_timer_set(g->loop, &g->nudge, loop_now(g->loop) + NUDGE_MS);
}

static void give_up(struct run *r) {
        struct err err;

        (void)kill(r->pid, SIGKILL); /* whatever it does: it comes no more to execute anything */
        (void)err_set(&err, -ETIMEDOUT, "could not start: something in the sandbox keeps stopping the process");
        failed(r, &err);
}

void run_nudge(struct guest *g) {
        for (struct run *r = g->runs; r; r = r->next) {
                if (is_starting(r))
                        look(r);
                if (!is_starting(r))
                        continue;
                if (++r->start.turns > NUDGES) {
                        give_up(r);
                        continue;
                }
                if (r->start.turns > 1) /* the first may come early */
                        (void)kill(r->pid, SIGCONT);
                nudge_later(g);
        }
}

static void start(struct guest *g, struct run *r, const struct guest_message *m, const int *leaves, size_t count) {
        struct spawned s;
        struct err err;

        if (spawn(m, leaves, count, count == 0 && g->leaves.families, &s, &err) < 0) {
                failed(r, &err);
                return;
        }
        r->pid = s.pid;
        r->start.fd = s.outcome;
        open_streams(g, r, &s);
        (void)loop_watch(g->loop, &r->start.watch, r->start.fd, EPOLLIN); /* the nudge looks too */
        nudge_later(g);
}

static void exec(struct guest *g, const struct guest_message *m, const int *leaves, size_t count) {
        if (g->run_count >= GUEST_RUNS_MAX) {
                say_failed(g, m->channel, -EAGAIN, "there are too many runs: forget some that have ended");
                return;
        }
        struct run *r = calloc(1, sizeof *r);
        if (!r) {
                say_failed(g, m->channel, -ENOMEM, "the guest has no memory for another run");
                return;
        }
        *r = (struct run){.number = m->channel,
                          .flags = m->flags,
                          .known = true,
                          .input = {.guest = g, .run = r, .fd = -EBADF},
                          .start = {.guest = g, .watch = {.ready = outcome_known}, .fd = -EBADF, .asked = true}};
        append(g, r);
        g->run_count++;
        start(g, r, m, leaves, count);
}

int run_exec(struct guest *g, const struct guest_message *m) {
        int leaves[GUEST_FDS_MAX], r = 0;
        size_t count = m->fds;

        if (find(g, m->channel) || link_claim_fds(&g->link, leaves, m->fds) < 0)
                return -EBADMSG;
        if (count == 0)
                r = leaf_open(&g->leaves, m->channel, leaves, &count);
        if (r < 0)
                say_failed(g, m->channel, r, "could not make a cgroup for the run");
        else
                exec(g, m, leaves, count);
        packet_close(leaves, count);
        serve_wake(g);
        return 0;
}

/* --- what is said to a run. Of one that is not there (any more) nothing is said back --- */

int run_input(struct guest *g, const struct guest_message *m) {
        struct run *r = find(g, m->channel);

        return r ? input_add(&r->input, m->data, m->data_size) : 0;
}

int run_input_end(struct guest *g, const struct guest_message *m) {
        struct run *r = find(g, m->channel);

        if (r)
                input_end(&r->input);
        return 0;
}

int run_signal(struct guest *g, const struct guest_message *m) {
        struct run *r = find(g, m->channel);

        bool to_group = m->flags & GUEST_TO_GROUP;

        if (!r || r->ended)
                return 0;
        if (!is_starting(r))
                send_signal(r, m->number, to_group);
        else if (m->number == SIGKILL)
                send_signal(r, SIGKILL, false); /* it has no group yet */
        else
                r->start.signals[to_group] |= UINT64_C(1) << (m->number - 1);
        return 0;
}

int run_resize(struct guest *g, const struct guest_message *m) {
        struct run *r = find(g, m->channel);
        struct stream *s = r ? stream_of(r, GUEST_TTY) : NULL;
        struct winsize size = {.ws_row = m->rows, .ws_col = m->cols};

        if (s && s->fd >= 0)
                (void)ioctl(s->fd, TIOCSWINSZ, &size);
        return 0;
}

int run_attach(struct guest *g, const struct guest_message *m) {
        struct run *r = find(g, m->channel);
        struct stream *s = r ? stream_of(r, m->stream) : NULL;

        if (s)
                stream_attach(s, m->offset);
        if (r) {
                r->known = true; /* also one that never began and has no streams */
                serve_wake(g);
        }
        return 0;
}

int run_credit(struct guest *g, const struct guest_message *m) {
        if (m->stream == GUEST_OF_REQUEST)
                return request_credit(g, m);
        if (m->stream == GUEST_IN)
                return -EBADMSG;
        struct run *r = find(g, m->channel);
        struct stream *s = r ? stream_of(r, m->stream) : NULL;
        return s ? stream_credit(s, m->offset) : 0;
}

/* Its output may still be held by processes in the background, which would die of a closed pipe: it is read and dropped
 * until they have closed it. */
int run_forget(struct guest *g, const struct guest_message *m) {
        struct run *r = find(g, m->channel);

        if (!r || !r->ended)
                return 0;
        r->lost = true;
        input_close(&r->input);
        for (size_t i = 0; i < r->stream_count; i++) {
                ring_free(&r->streams[i].ring);
                stream_read(&r->streams[i]);
        }
        serve_wake(g);
        return 0;
}

void run_detach_all(struct guest *g) {
        for (struct run *r = g->runs; r; r = r->next) {
                r->known = r->told = r->start.asked = false;
                for (size_t i = 0; i < r->stream_count; i++)
                        stream_detach(&r->streams[i]);
        }
}

/* --- listing --- */

static void say_run(struct guest *g, const struct request *request, struct run *r) {
        struct guest_message m = {
                .kind = GUEST_RUN,
                .run = r->number,
                .flags = r->flags | (r->ended ? GUEST_ENDED : 0),
                .number = r->ended ? r->status : r->pid,
                .error = r->error,
                .offset = r->input.received,
                .length = r->input.taken,
                .rusage = r->rusage,
        };

        r->input.thanks = r->input.taken; /* the window of a new peer begins here */
        for (size_t i = 0; i < r->stream_count; i++) {
                const struct stream *s = &r->streams[i];

                m.oldest[s->kind] = s->ring.oldest;
                m.newest[s->kind] = s->ring.newest;
                m.flags |= s->fd >= 0 ? GUEST_OPEN : 0;
        }
        request_say(g, request, &m);
}

static int runs_begin(struct guest *g, struct request *request, const struct guest_message *m) {
        (void)m;
        for (struct run *r = g->runs; r; r = r->next)
                if (!r->lost) {
                        say_run(g, request, r);
                        request->entries++;
                }
        request_end(g, request, 0, NULL);
        return 0;
}
const struct request_kind runs_kind = {.size = sizeof(struct request), .begin = runs_begin};

/* --- ending --- */

static void ended(struct guest *g, struct run *r, int status, const struct rusage *u) {
        r->ended = true;
        r->status = status;
        r->rusage = (struct guest_rusage){
                .user_us = (uint64_t)u->ru_utime.tv_sec * 1000000 + (uint64_t)u->ru_utime.tv_usec,
                .system_us = (uint64_t)u->ru_stime.tv_sec * 1000000 + (uint64_t)u->ru_stime.tv_usec,
                .memory_peak = (uint64_t)u->ru_maxrss * 1024,
        };
        r->patience = loop_now(g->loop) + PATIENCE_MS;
        for (size_t i = 0; i < r->stream_count; i++)
                stream_read(&r->streams[i]); /* to its end, or to where it is drained */
        input_settle(&r->input);
}

bool run_reap(struct guest *g) {
        struct rusage usage;
        unsigned n = 0;
        int status;
        pid_t pid;

        for (; n < REAP_ONCE && (pid = wait4(-1, &status, WNOHANG, &usage)) > 0; n++)
                for (struct run *r = g->runs; r; r = r->next)
                        if (r->pid == pid && !r->ended) {
                                if (is_starting(r))
                                        look(r);
                                if (!r->ended)
                                        ended(g, r, status, &usage);
                                break;
                        }
        serve_wake(g);
        return n == REAP_ONCE;
}

/* True when all that belongs before EXITED has been said. *ret_wait: it is only output that is still open. */
static bool is_ripe(const struct guest *g, const struct run *r, bool *ret_wait) {
        for (size_t i = 0; i < r->stream_count; i++) {
                const struct stream *s = &r->streams[i];

                if (!s->attached || !stream_is_told(s) || !s->drained)
                        return false;
                if (s->fd >= 0 && loop_now(g->loop) < r->patience) {
                        *ret_wait = true;
                        return false;
                }
        }
        return true;
}

static void say_exited(struct guest *g, struct run *r) {
        struct guest_message m = {.kind = GUEST_EXITED,
                                  .channel = r->number,
                                  .number = r->status,
                                  .error = r->error,
                                  .rusage = r->rusage,
                                  .text = r->why};

        for (size_t i = 0; i < r->stream_count; i++) {
                m.newest[r->streams[i].kind] = r->streams[i].ring.newest;
                m.flags |= r->streams[i].fd >= 0 ? GUEST_OPEN : 0;
        }
        r->told = true;
        link_say(g, &m);
}

static bool is_over(const struct run *r) {
        for (size_t i = 0; r->lost && i < r->stream_count; i++)
                if (r->streams[i].fd >= 0)
                        return false;
        return r->lost;
}

void run_settle(struct guest *g) {
        struct run **at = &g->runs, *last = NULL;
        bool wait = false;

        while (*at) {
                struct run *r = *at;

                if (is_over(r)) {
                        *at = r->next;
                        free_run(r);
                        g->run_count--;
                        continue;
                }
                if (r->ended && r->known && !r->told && !r->lost && link_has_room(&g->link) && is_ripe(g, r, &wait))
                        say_exited(g, r);
                last = r;
                at = &r->next;
        }
        g->last_run = last;
        if (wait && g->settle.place == 0)
                loop_timer_set(g->loop, &g->settle, loop_now(g->loop) + PATIENCE_MS / 2);
}

/* --- the pump --- */

bool run_pump(struct guest *g) {
        bool more = false;

        for (unsigned n = g->run_count; n > 0 && link_has_room(&g->link); n--) {
                struct run *r = g->runs;

                for (size_t i = 0; i < r->stream_count && !is_starting(r); i++)
                        more |= stream_pump(&r->streams[i]);
                if (r->next) { /* with little room they take turns */
                        g->runs = r->next;
                        append(g, r);
                }
        }
        return more;
}

void run_rest(struct guest *g) {
        for (struct run *r = g->runs; r; r = r->next) {
                ring_rest(&r->input.ring);
                for (size_t i = 0; i < r->stream_count; i++)
                        ring_rest(&r->streams[i].ring);
        }
}
