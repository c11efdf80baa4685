/* The shared part of the filter's tests; see test-filter-walk.h. It shares nothing with the compiler but the table. */
#include "policy/test-filter-walk.h"

#include <stdio.h>

const struct filter_options walk_options[WALK_OPTIONS] = {{false, false}, {true, false}, {false, true}, {true, true}};

static bool test_holds(const struct syscall_test *t, const struct seccomp_data *data) {
        uint64_t argument = data->args[t->argument];
        uint32_t half = (uint32_t)(t->high ? argument >> 32 : argument), part = t->mask ? half & t->mask : half;

        switch ((enum syscall_compare)t->compare) {
        case COMPARE_EQUAL:
                return part == t->value;
        case COMPARE_OTHER:
                return part != t->value;
        case COMPARE_AT_MOST:
                return part <= t->value;
        case COMPARE_ANY_BIT:
                return (half & t->value) != 0;
        case COMPARE_END:
                break;
        }
        return true;
}

static uint32_t walk_rule(const struct syscall_rule *rule, const struct seccomp_data *data, size_t *ret_clause) {
        for (size_t i = 0; i < rule->count; i++) {
                bool holds = true;

                for (size_t k = 0; k < SYSCALL_TESTS; k++)
                        holds = holds && test_holds(&rule->clauses[i].tests[k], data);
                if (holds) {
                        *ret_clause = i;
                        return rule->clauses[i].action;
                }
        }
        *ret_clause = rule->count;
        return rule->otherwise;
}

uint32_t walk_table(const struct walk *w, const struct seccomp_data *data, size_t *ret_clause) {
        const struct syscall_entry *e = NULL;
        size_t ignored;

        if (!ret_clause)
                ret_clause = &ignored;
        *ret_clause = 0;
        if (data->arch == NATIVE && data->nr >= 0 && data->nr < SYSCALL_NUMBERS)
                e = w->by_number[data->nr];
        if (!e)
                return SYSCALL_REFUSE(ENOSYS);
        return e->rule ? walk_rule(e->rule, data, ret_clause) : e->action;
}

bool walk_load(struct walk *w, const struct filter_options *options) {
        struct syscalls_walk walk = {0};
        struct syscall_entry e;
        struct err err = {0};
        int r;

        memset(w, 0, sizeof(*w));
        while ((r = syscalls_next(&walk, &e, &err)) > 0)
                if (e.when == SYSCALL_ALWAYS ||
                    e.when == (options->no_memfd ? SYSCALL_IF_NO_MEMFD : SYSCALL_IF_MEMFD) ||
                    e.when == (options->no_ptrace ? SYSCALL_IF_NO_PTRACE : SYSCALL_IF_PTRACE))
                        w->entries[w->entry_count++] = e;
        for (size_t i = w->entry_count; i-- > 0;) { /* the topmost wins */
                assert(!w->entries[i].rule || w->entries[i].rule->count < WALK_CLAUSES);
                if (w->entries[i].number >= 0)
                        w->by_number[w->entries[i].number] = &w->entries[i];
        }
        if (r == 0)
                r = filter_compile(options, w->program, ELEMENTSOF(w->program), &err);
        if (r <= 0)
                (void)printf("# %s\n", err.text);
        w->program_size = r > 0 ? (size_t)r : 0;
        return r > 0;
}

size_t walk_clauses(const struct syscall_entry *e) {
        return e && e->rule ? e->rule->count + 1 : 1;
}

unsigned walk_unreached(const struct walk *w, const walk_hits *hits) {
        unsigned missing = 0;

        for (size_t i = 0; i < w->entry_count; i++) {
                const struct syscall_entry *e = &w->entries[i];

                for (size_t k = 0; e->number >= 0 && k < walk_clauses(e); k++)
                        if (hits[e->number][k] == 0 && !walk_kernels_own(e->number) && missing++ < 20)
                                (void)printf("# clause %zu of %s never decided\n", k, e->name);
        }
        return missing;
}

unsigned walk_idle(const struct walk *w, const struct walk_step *steps) {
        unsigned idle = 0;

        for (size_t pc = 0; pc < w->program_size; pc++) {
                const struct sock_filter *i = &w->program[pc];
                bool jump = BPF_CLASS(i->code) == BPF_JMP && BPF_OP(i->code) != BPF_JA;

                if ((!steps[pc].executed || (jump && !(steps[pc].yes && steps[pc].no))) && idle++ < 20)
                        (void)printf("# instruction %zu (code %#x, k %#x): %s\n", pc, i->code, i->k,
                                     !steps[pc].executed ? "never executed"
                                     : steps[pc].yes     ? "always jumps"
                                                         : "never jumps");
        }
        return idle;
}

/* Where a conditional jump goes on. */
static size_t branch(const struct sock_filter *i, bool yes, struct walk_step *step) {
        if (step) {
                step->yes |= yes;
                step->no |= !yes;
        }
        return yes ? i->jt : i->jf;
}

uint32_t walk_program(const struct sock_filter *code, size_t size, const struct seccomp_data *data,
                      struct walk_step *steps) {
        uint32_t a = 0, word;

        for (size_t pc = 0; pc < size; pc++) {
                const struct sock_filter *i = &code[pc];
                struct walk_step *step = steps ? &steps[pc] : NULL;

                if (step)
                        step->executed = true;
                switch (i->code) {
                case BPF_LD | BPF_W | BPF_ABS:
                        if (i->k % 4 != 0 || i->k >= sizeof(*data))
                                return UINT32_MAX;
                        memcpy(&word, (const char *)data + i->k, sizeof(word));
                        a = word;
                        break;
                case BPF_ALU | BPF_AND | BPF_K:
                        a &= i->k;
                        break;
                case BPF_JMP | BPF_JA:
                        pc += i->k;
                        break;
                case BPF_JMP | BPF_JEQ | BPF_K:
                        pc += branch(i, a == i->k, step);
                        break;
                case BPF_JMP | BPF_JGE | BPF_K:
                        pc += branch(i, a >= i->k, step);
                        break;
                case BPF_JMP | BPF_JGT | BPF_K:
                        pc += branch(i, a > i->k, step);
                        break;
                case BPF_JMP | BPF_JSET | BPF_K:
                        pc += branch(i, (a & i->k) != 0, step);
                        break;
                case BPF_RET | BPF_K:
                        return i->k;
                default:
                        return UINT32_MAX;
                }
        }
        return UINT32_MAX;
}

/* Values of one argument around everything that a rule compares it with. */
static size_t interesting(const struct syscall_rule *rule, unsigned argument, uint64_t *out, size_t room) {
        size_t n = 0;

        out[n++] = 0;
        for (size_t i = 0; i < rule->count; i++)
                for (size_t k = 0; k < SYSCALL_TESTS; k++) {
                        const struct syscall_test *t = &rule->clauses[i].tests[k];
                        const uint32_t around[] = {t->value,     t->value - 1,        t->value + 1,
                                                   ~t->value,    t->value | ~t->mask, t->value & (0U - t->value),
                                                   t->value / 2, UINT32_MAX};

                        if (t->compare == COMPARE_END || t->argument != argument)
                                continue;
                        for (size_t m = 0; m < ELEMENTSOF(around) && n < room; m++) {
                                bool seen = false;

                                for (size_t s = 0; s < n; s++)
                                        seen = seen || out[s] == around[m];
                                if (!seen)
                                        out[n++] = around[m];
                        }
                }
        return n;
}

static const uint64_t high_halves[] = {0, 1ULL << 32, 0xffffffffULL << 32};

void walk_vectors(const struct syscall_entry *e, void (*visit)(const struct seccomp_data *)) {
        static uint64_t values[6][512];
        size_t counts[6], at[6] = {0};
        unsigned used = 0;
        struct seccomp_data data = {.nr = e->number, .arch = NATIVE};

        for (unsigned i = 0; i < 6; i++) {
                counts[i] = interesting(e->rule, i, values[i], ELEMENTSOF(values[i]));
                used += counts[i] > 1;
        }
        assert(used > 0 && used <= 3);
        for (;;) {
                unsigned carry = 0;

                for (size_t h = 0; h < ELEMENTSOF(high_halves); h++) {
                        for (unsigned i = 0; i < 6; i++)
                                data.args[i] = values[i][at[i]] | high_halves[(h + (h ? i : 0)) % 3];
                        visit(&data);
                }
                while (carry < 6 && ++at[carry] == counts[carry])
                        at[carry++] = 0;
                if (carry == 6)
                        return;
        }
}

bool walk_kernels_own(int nr) {
#ifdef __x86_64__
        return nr == 335 || nr == 336;
#else
        (void)nr;
        return false;
#endif
}
