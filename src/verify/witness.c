#include "verify/witness.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "verify/call-names.h"

#include <linux/audit.h>
#include <linux/ptrace.h>

enum {
        ATTEMPTS_MAX = 512,
        ERRORS_MAX = 134,  /* errnos end there */
        TRACEES_MAX = 256, /* at one time; more are let go */
        NAME_MAX_HERE = 48,
        FOREIGN_CALL = -1, /* its number means something else there */
};

static const char mark[] = "attempt:";

struct testimony {
        volatile bool ready;
        size_t count;
        struct {
                char name[NAME_MAX_HERE];
                int16_t call[ERRORS_MAX]; /* the first call that returned this error, plus one; 0: none */
        } attempts[ATTEMPTS_MAX];
};

/* A process or thread that is traced, and the attempt that it belongs to. */
struct tracee {
        pid_t pid;
        size_t attempt; /* index plus one; 0: none yet */
        int16_t call;   /* it is in this one, plus one */
};

static struct tracee tracees[TRACEES_MAX];
static size_t latest; /* the attempt that was named last, plus one: what starts then belongs to it */

static struct tracee *find(pid_t pid, bool add) {
        struct tracee *free_place = NULL;

        for (size_t i = 0; i < TRACEES_MAX; i++) {
                if (tracees[i].pid == pid)
                        return &tracees[i];
                if (tracees[i].pid == 0 && !free_place)
                        free_place = &tracees[i];
        }
        if (add && free_place)
                *free_place = (struct tracee){.pid = pid, .attempt = latest};
        return add ? free_place : NULL;
}

/* The probe names an attempt: write(-1, "attempt:NAME", …). */
static void note_name(struct testimony *t, pid_t pid, uint64_t address, uint64_t size) {
        char text[sizeof mark + NAME_MAX_HERE] = "";
        size_t n = MIN(size, sizeof text - 1);
        struct iovec here = {text, n}, there = {(void *)(uintptr_t)address, n};

        if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)n || !str_starts(text, mark) ||
            t->count >= ATTEMPTS_MAX)
                return;
        memcpy(t->attempts[t->count].name, text + sizeof mark - 1, NAME_MAX_HERE - 1);
        latest = ++t->count;
}

/* A stop at the begin or the end of a system call. */
static void note_call(struct testimony *t, struct tracee *who) {
        struct ptrace_syscall_info info = {0};

        if (ptrace(PTRACE_GET_SYSCALL_INFO, who->pid, sizeof info, &info) < 0)
                return;
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                who->call = info.arch != AUDIT_ARCH_X86_64 ? FOREIGN_CALL
                            : info.entry.nr < INT16_MAX    ? (int16_t)(info.entry.nr + 1)
                                                           : 0;
                if (info.entry.nr == SYS_write && info.entry.args[0] == (uint64_t)-1)
                        note_name(t, who->pid, info.entry.args[1], info.entry.args[2]);
        } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.is_error && who->attempt && who->call) {
                int64_t error = -info.exit.rval;
                if (error > 0 && error < ERRORS_MAX && t->attempts[who->attempt - 1].call[error] == 0)
                        t->attempts[who->attempt - 1].call[error] = who->call;
        }
}

/* One report of waitpid: what to do with the process, which goes on. */
static void handle(struct testimony *t, pid_t pid, int status) {
        struct tracee *who = find(pid, WIFSTOPPED(status));
        int signal = 0;

        if (!WIFSTOPPED(status)) {
                if (who)
                        who->pid = 0;
                return;
        }
        if (!who) {
                (void)ptrace(PTRACE_DETACH, pid, 0, 0);
                return;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
                note_call(t, who);
        else if (status >> 16 == PTRACE_EVENT_STOP) {
                if (WSTOPSIG(status) != SIGTRAP) { /* stopped by a signal: it stays so */
                        (void)ptrace(PTRACE_LISTEN, pid, 0, 0);
                        return;
                }
        } else if (status >> 16 == 0)
                signal = WSTOPSIG(status);
        (void)ptrace(PTRACE_SYSCALL, pid, 0, signal);
}

_noreturn_ static void trace(struct testimony *t, pid_t probe) {
        const unsigned long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                                      PTRACE_O_TRACECLONE;
        int status;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_SEIZE, probe, 0, options) < 0 || ptrace(PTRACE_INTERRUPT, probe, 0, 0) < 0)
                _exit(1);
        (void)find(probe, true);
        t->ready = true;
        for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;)
                if (pid > 0)
                        handle(t, pid, status);
        _exit(0);
}

static void nap(void) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int witness_begin(struct witness *w, pid_t probe, struct err *err) {
        struct testimony *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int status;

        if (t == MAP_FAILED)
                return err_set(err, -errno, "cannot map memory");
        *w = (struct witness){.seen = t, .pid = fork()};
        if (w->pid == 0)
                trace(t, probe);
        for (int i = 0; w->pid > 0 && i < 2000 && !t->ready; i++) {
                if (waitpid(w->pid, &status, WNOHANG) == w->pid)
                        w->pid = 0;
                else
                        nap();
        }
        if (w->pid > 0 && t->ready)
                return 0;
        witness_end(w, 0);
        witness_free(w);
        return err_set(err, ERR_REFUSED, "this host does not let the judge trace what is inside");
}

void witness_end(struct witness *w, unsigned ms) {
        int status;

        for (unsigned i = 0; w->pid > 0 && i <= ms; i++) {
                if (waitpid(w->pid, &status, WNOHANG) == w->pid)
                        w->pid = 0;
                else
                        nap();
        }
        if (w->pid > 0) {
                (void)kill(w->pid, SIGKILL); /* what it traced goes on by itself */
                (void)waitpid(w->pid, &status, 0);
        }
        w->pid = 0;
}

bool witness_saw(const struct witness *w, const char *attempt, int error, char *call, size_t size) {
        if (!w->seen || error <= 0 || error >= ERRORS_MAX)
                return false;
        for (size_t i = 0; i < w->seen->count; i++) {
                int nr = w->seen->attempts[i].call[error] - 1;

                if (nr == FOREIGN_CALL - 1 && str_eq(w->seen->attempts[i].name, attempt)) {
                        (void)snprintf(call, size, "a call of another architecture");
                        return true;
                }
                if (nr < 0 || !str_eq(w->seen->attempts[i].name, attempt))
                        continue;
                if ((size_t)nr < ELEMENTSOF(call_names) && call_names[nr])
                        (void)snprintf(call, size, "%s", call_names[nr]);
                else
                        (void)snprintf(call, size, "system call %d", nr);
                return true;
        }
        return false;
}

void witness_free(struct witness *w) {
        if (w->seen)
                (void)munmap(w->seen, sizeof *w->seen);
        w->seen = NULL;
}
