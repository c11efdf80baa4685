/* The system call filter in the kernel that runs this test, allowed calls included, and nothing is ever done.
 *
 * Each return of the program is replaced by an errno that no call has: one for "allowed", one for each errno. So the
 * kernel decides every call as it would for a sandbox, and executes none. Every number is tried, with all arguments
 * that reach a clause of its rule, through the native entry, as x32 and through the 32-bit entry.
 *
 * What the kernel answered is compared with the table, call by call, and then with a list of answers that is kept in a
 * file: the table cannot lose a row or change an errno unnoticed. STOCKADE_WRITE_EXPECTED=1 writes that file anew. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "policy/test-filter-walk.h"

enum {
        MARK_ALLOWED = 3999, /* the kernel keeps errnos up to 4095 */
        MARK_REFUSED = 3000, /* and the errno */
        ERRNOS = 256,
        WRONG_MAX = 10,
};

/* What the child found, in memory that it shares with its parent: it cannot say it in any other way. */
struct answers {
        bool finished;
        unsigned long made, wrong;
        struct {
                struct seccomp_data data;
                uint32_t expected;
                int answer;
        } examples[WRONG_MAX];
        walk_hits hits[SYSCALL_NUMBERS];
        unsigned by_errno[SYSCALL_NUMBERS][ERRNOS]; /* 0: allowed */
        uint64_t fingerprint[SYSCALL_NUMBERS];      /* of arguments and answers */
};

static struct walk walk;
static struct answers *answers;

static bool share_answers(void) {
        if (answers)
                return true;
        void *p = mmap(NULL, sizeof(*answers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
                return false;
        answers = p;
        return true;
}

/* The errno by which the kernel shall say that it came to this action. */
static int mark(uint32_t action) {
        uint32_t value = action & SECCOMP_RET_DATA;

        if (action == SYSCALL_ALLOW)
                return MARK_ALLOWED;
        if ((action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO && value > 0 && value < ERRNOS)
                return MARK_REFUSED + (int)value;
        return -1;
}

/* Marks every return. False: there is one that is neither, so the program must not be installed. */
static bool mark_program(void) {
        for (size_t i = 0; i < walk.program_size; i++) {
                struct sock_filter *s = &walk.program[i];
                int value;

                if (BPF_CLASS(s->code) != BPF_RET)
                        continue;
                value = mark(s->k);
                if (s->code != (BPF_RET | BPF_K) || value < 0)
                        return false;
                s->k = SECCOMP_RET_ERRNO | (uint32_t)value;
        }
        return true;
}

/* ---- in the child, under the filter: no system call has an effect ---- */

static void note(const struct seccomp_data *data, int answer) {
        size_t clause;
        uint32_t expected = walk_table(&walk, data, &clause);

        answers->made++;
        if (answer != mark(expected)) {
                if (answers->wrong < WRONG_MAX) {
                        answers->examples[answers->wrong].data = *data;
                        answers->examples[answers->wrong].expected = expected;
                        answers->examples[answers->wrong].answer = answer;
                }
                answers->wrong++;
                return;
        }
        if (data->arch != NATIVE || data->nr < 0 || data->nr >= SYSCALL_NUMBERS)
                return;
        answers->hits[data->nr][clause]++;
        answers->by_errno[data->nr][answer == MARK_ALLOWED ? 0 : answer - MARK_REFUSED]++;
        uint64_t *print = &answers->fingerprint[data->nr];
        for (unsigned i = 0; i < 6; i++)
                *print = (*print ^ data->args[i]) * 0x100000001b3;
        *print = (*print ^ (uint64_t)answer) * 0x100000001b3;
}

static void call(const struct seccomp_data *data) {
        const __u64 *a = data->args;
        long r = syscall((long)(unsigned)data->nr, a[0], a[1], a[2], a[3], a[4], a[5]);

        note(data, r == -1 ? errno : 0);
}

static void call_plainly(uint32_t nr) {
        struct seccomp_data data = {.nr = (int)nr, .arch = NATIVE};

        call(&data);
        memset(data.args, 0xff, sizeof(data.args));
        call(&data);
}

static void call_everything(void) {
        for (uint32_t nr = 0; nr < SYSCALL_NUMBERS; nr++) {
                const struct syscall_entry *e = walk.by_number[nr];

                if (walk_kernels_own((int)nr))
                        continue;
                call_plainly(nr);
                if (e && e->rule)
                        walk_vectors(e, call);
#ifdef X32_BIT
                call_plainly(nr | X32_BIT);
#endif
                call_plainly(nr | 0x80000000U);
        }
}

#ifdef __x86_64__
static void call_foreign(void) {
        for (int nr = 0; nr < SYSCALL_NUMBERS; nr++) {
                struct seccomp_data data = {.nr = nr, .arch = FOREIGN};
                long r = nr;

                __asm__ volatile("int $0x80"
                                 : "+a"(r)
                                 : "b"(0), "c"(0), "d"(0), "S"(0), "D"(0)
                                 : "memory", "r8", "r9", "r10", "r11");
                note(&data, r < 0 ? (int)-r : 0);
        }
}
#endif

/* ---- in the parent ---- */

/* Runs body under the marked filter. Under it no process can end itself but by an instruction that does not exist. */
static int in_marked_filter(void (*body)(void)) {
        struct sock_fprog fprog = {.len = (unsigned short)walk.program_size, .filter = walk.program};
        int status = -1;
        pid_t pid;

        if (!share_answers() || !mark_program())
                return -1;
        memset(answers, 0, sizeof(*answers));
        (void)fflush(stdout);
        pid = fork();
        if (pid == 0) {
                (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
                (void)signal(SIGILL, SIG_DFL);
                (void)signal(SIGSEGV, SIG_DFL);
                (void)alarm(120);
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) < 0)
                        _exit(99);
                body();
                answers->finished = true;
                __asm__ volatile("ud2"); /* no library may be asked: every call of it would be refused */
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -1;
        return status;
}

static void print_wrong(void) {
        for (size_t i = 0; i < MIN(answers->wrong, (unsigned long)WRONG_MAX); i++) {
                const struct seccomp_data *d = &answers->examples[i].data;

                (void)printf("# call %d (%#jx, %#jx, %#jx): the kernel answers %d, the table %d\n", d->nr,
                             (uintmax_t)d->args[0], (uintmax_t)d->args[1], (uintmax_t)d->args[2],
                             answers->examples[i].answer, mark(answers->examples[i].expected));
        }
}

static void print_coverage(void) {
        unsigned calls = 0, clauses = 0, allowed = 0, refused = 0;

        for (size_t i = 0; i < walk.entry_count; i++) {
                const struct syscall_entry *e = &walk.entries[i];

                if (e->number < 0 || walk_kernels_own(e->number))
                        continue;
                calls++;
                for (size_t k = 0; k < walk_clauses(e); k++) {
                        uint32_t action = !e->rule             ? e->action
                                          : k < e->rule->count ? e->rule->clauses[k].action
                                                               : e->rule->otherwise;

                        clauses += e->rule != NULL;
                        *(action == SYSCALL_ALLOW ? &allowed : &refused) += answers->hits[e->number][k] > 0;
                }
        }
        (void)printf("# %u calls, %u clauses, all reached: %u allowed, %u refused (%lu calls made)\n", calls, clauses,
                     allowed, refused, answers->made);
}

/* One line per call: how often it was allowed, and refused with which errno. */
static void print_call(const struct syscall_entry *e, struct buf *out) {
        const unsigned *by_errno = answers->by_errno[e->number];

        buf_printf(out, "%s", e->name);
        for (int i = 0; i < ERRNOS; i++)
                if (by_errno[i] > 0 && e->rule)
                        buf_printf(out, " %s:%u", i == 0 ? "allow" : strerrorname_np(i), by_errno[i]);
                else if (by_errno[i] > 0)
                        buf_printf(out, " %s", i == 0 ? "allow" : strerrorname_np(i));
        if (e->rule)
                buf_printf(out, " #%08x", (unsigned)(answers->fingerprint[e->number] >> 32));
        buf_str(out, "\n");
}

/* Every line of text that is not in the other. The texts are small. */
static unsigned missing_lines(const char *text, const char *other, const char *what) {
        unsigned count = 0;

        for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
                size_t n = (size_t)(end - line) + 1;
                bool found = false;

                for (const char *o = other, *stop; !found && (stop = strchr(o, '\n')); o = stop + 1)
                        found = (size_t)(stop - o) + 1 == n && memcmp(o, line, n) == 0;
                if (!found && count++ < 20)
                        (void)printf("# %s: %.*s\n", what, (int)n - 1, line);
        }
        return count;
}

static void compare_expected(const struct buf *text) {
        _cleanup_free_ char *expected = NULL;
        struct err err = {0};
        size_t size;

        if (getenv("STOCKADE_WRITE_EXPECTED")) {
                FILE *file = fopen(EXPECTED, "we");

                CHECK(file && fwrite(text->data, 1, text->size, file) == text->size);
                CHECK(file && fclose(file) == 0);
        }
        if (fd_read_file(AT_FDCWD, EXPECTED, 1 << 20, false, &expected, &size, &err) < 0) {
                (void)printf("# %s\n", err.text);
                CHECK(false);
                return;
        }
        CHECK(missing_lines(expected, text->data, "expected, but not so") == 0);
        CHECK(missing_lines(text->data, expected, "not expected") == 0);
}

static void test_every_rule(void) {
        _cleanup_buf_ struct buf text = {0};

        for (size_t o = 0; o < WALK_OPTIONS; o++) {
                const struct filter_options *options = &walk_options[o];
                int status;

                CHECK(walk_load(&walk, options));
                status = in_marked_filter(call_everything);
                CHECK(status >= 0);
                if (status < 0)
                        return;
                CHECK(answers->finished && WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
                print_wrong();
                CHECK(answers->wrong == 0 && walk_unreached(&walk, answers->hits) == 0);
                if (test_failures > 0)
                        return;
                print_coverage();
                buf_printf(&text, "%smemfd %sptrace:\n", options->no_memfd ? "no " : "",
                           options->no_ptrace ? "no " : "");
                for (size_t i = 0; i < walk.entry_count; i++)
                        if (walk.entries[i].number >= 0 && (o == 0 || walk.entries[i].when != SYSCALL_ALWAYS))
                                print_call(&walk.entries[i], &text);
        }
        CHECK(buf_ok(&text));
#ifdef __x86_64__
        if (buf_ok(&text))
                compare_expected(&text);
#endif
}

static void test_foreign_entry(void) {
#ifdef __x86_64__
        int status;

        CHECK(walk_load(&walk, &walk_options[0]));
        status = in_marked_filter(call_foreign);
        CHECK(status >= 0);
        if (status < 0)
                return;
        if (answers->made == 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) {
                (void)printf("# this kernel has no 32-bit entry\n");
                return;
        }
        print_wrong();
        CHECK(answers->finished && answers->wrong == 0 && answers->made == SYSCALL_NUMBERS);
        (void)printf("# 32-bit entry: %lu calls refused\n", answers->made);
#endif
}

TEST_MAIN(TEST(test_every_rule), TEST(test_foreign_entry))
