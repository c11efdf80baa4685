/* From the table of system calls to a program that the kernel runs.
 *
 * Three parts, written last to first as bpf.h asks: blocks for calls whose arguments matter, a binary tree over ranges
 * of numbers with the same fate, and the check of the architecture before it. The kernel remembers calls that are
 * always allowed in a bitmap, so the tree is walked for the others; a small program is what makes it quick to load.
 *
 * What always holds: a number or architecture that is not known gets SYSCALL_DEFAULT; a call that the table names twice
 * for the same sandbox is an error, not a choice. */
#include "policy/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>

#include "policy/bpf.h"
#include "policy/syscalls.h"

#if defined(__x86_64__)
#define NATIVE  AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000U
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "no system call filter for this architecture yet"
#endif
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of an argument comes first");

enum {
        FATES_MAX = 48,
        FATE_DEFAULT = 0,
        RANGES_MAX = SYSCALL_NUMBERS,
        ODD_MAX = 3, /* each is one comparison more at the end of a search; two more ranges would be two */
};

/* A fate: what becomes of a call. Two calls with equal fates may share a range and a block. */
struct fate {
        const struct syscall_rule *rule; /* NULL: action alone */
        uint32_t action;
        unsigned position; /* where the program does it */
};

/* Calls from first up to the next range have one fate, but for a few single numbers among them. */
struct range {
        unsigned first;
        unsigned fate;
        unsigned odd[ODD_MAX];
        unsigned odd_count;
};

struct compiler {
        struct bpf bpf;
        struct fate fates[FATES_MAX];
        unsigned fate_count;
        uint8_t by_number[SYSCALL_NUMBERS]; /* index of the fate */
        bool named[SYSCALL_NUMBERS];
        struct range ranges[RANGES_MAX];
        unsigned range_count;
};

static bool filter_applies(const struct filter_options *options, enum syscall_when when) {
        switch (when) {
        case SYSCALL_ALWAYS:
                return true;
        case SYSCALL_IF_MEMFD:
                return !options->no_memfd;
        case SYSCALL_IF_NO_MEMFD:
                return options->no_memfd;
        case SYSCALL_IF_PTRACE:
                return !options->no_ptrace;
        case SYSCALL_IF_NO_PTRACE:
                return options->no_ptrace;
        }
        return false;
}

static int fate_find(struct compiler *c, const struct syscall_rule *rule, uint32_t action, struct err *err) {
        for (unsigned i = 0; i < c->fate_count; i++)
                if (c->fates[i].rule == rule && (rule || c->fates[i].action == action))
                        return (int)i;
        if (c->fate_count == FATES_MAX)
                return err_set(err, ERR_LIMIT, "the table of system calls has more than %d different rules", FATES_MAX);
        c->fates[c->fate_count] = (struct fate){.rule = rule, .action = action};
        return (int)c->fate_count++;
}

/* Fills by_number from the table. */
static int compiler_read_table(struct compiler *c, const struct filter_options *options, struct err *err) {
        struct syscalls_walk walk = {0};
        struct syscall_entry entry;
        int r = fate_find(c, NULL, SYSCALL_DEFAULT, err);

        if (r < 0)
                return r;
        assert(r == FATE_DEFAULT);
        while ((r = syscalls_next(&walk, &entry, err)) > 0) {
                if (entry.number < 0 || !filter_applies(options, entry.when))
                        continue;
                if (c->named[entry.number])
                        return err_set(err, ERR_CORRUPT, "system call '%s' is in the table twice", entry.name);
                r = fate_find(c, entry.rule, entry.action, err);
                if (r < 0)
                        return r;
                c->named[entry.number] = true;
                c->by_number[entry.number] = (uint8_t)r;
        }
        if (r < 0)
                return r;
        return c->by_number[SYSCALL_NUMBERS - 1] == FATE_DEFAULT
                       ? 0
                       : err_set(err, ERR_CORRUPT, "system call number %d must stay free", SYSCALL_NUMBERS - 1);
}

/* Cuts the numbers into ranges. A single number between two of the range's fate stays inside it as an odd one. */
static void compiler_cut_ranges(struct compiler *c) {
        const uint8_t *fate = c->by_number;
        struct range *range = NULL;

        for (unsigned i = 0; i < SYSCALL_NUMBERS; i++) {
                if (range && fate[i] == range->fate)
                        continue;
                if (range && range->odd_count < ODD_MAX && i + 1 < SYSCALL_NUMBERS && fate[i + 1] == range->fate) {
                        range->odd[range->odd_count++] = i;
                        continue;
                }
                range = &c->ranges[c->range_count++];
                *range = (struct range){.first = i, .fate = fate[i]};
        }
}

/* Whether the accumulator holds the same after loading for either test. */
static bool test_same_load(const struct syscall_test *a, const struct syscall_test *b) {
        return a->argument == b->argument && a->high == b->high && a->mask == b->mask;
}

static size_t clause_length(const struct syscall_clause *clause) {
        size_t n = 0;

        while (n < SYSCALL_TESTS && clause->tests[n].compare != COMPARE_END)
                n++;
        return n;
}

/* Where a test begins: with its load, or behind it when the accumulator already holds the right thing. */
struct entry_points {
        const struct syscall_test *test; /* NULL: no test, goes to cold */
        unsigned cold;
        unsigned warm;
};

static unsigned entry_from(const struct entry_points *to, const struct syscall_test *from) {
        return to->test && from && test_same_load(to->test, from) ? to->warm : to->cold;
}

static unsigned test_branch(struct bpf *b, const struct syscall_test *t, unsigned yes, unsigned no) {
        switch ((enum syscall_compare)t->compare) {
        case COMPARE_EQUAL:
                return bpf_branch(b, BPF_JEQ, t->value, yes, no);
        case COMPARE_OTHER:
                return bpf_branch(b, BPF_JEQ, t->value, no, yes);
        case COMPARE_AT_MOST:
                return bpf_branch(b, BPF_JGT, t->value, no, yes);
        case COMPARE_ANY_BIT:
                return bpf_branch(b, BPF_JSET, t->value, yes, no);
        case COMPARE_END:
                break;
        }
        return bpf_return(b, SYSCALL_DEFAULT); /* no such comparison: refuse */
}

/* Writes one test; load says whether somebody arrives with something else in the accumulator. */
static struct entry_points test_write(struct bpf *b, const struct syscall_test *t, bool load, unsigned yes,
                                      unsigned no) {
        struct entry_points at = {.test = t};
        size_t offset = offsetof(struct seccomp_data, args) + t->argument * sizeof(uint64_t) + (t->high ? 4 : 0);

        at.warm = at.cold = test_branch(b, t, yes, no);
        if (load) {
                if (t->mask != 0)
                        (void)bpf_and(b, t->mask);
                at.cold = bpf_load(b, offset);
        }
        return at;
}

/* Writes the clauses from the last to the first. A clause is entered from every test of the one before it. */
static unsigned rule_write(struct bpf *b, const struct syscall_rule *rule) {
        unsigned otherwise = bpf_return(b, rule->otherwise);
        struct entry_points next = {.cold = otherwise};

        for (size_t i = rule->count; i-- > 0;) {
                const struct syscall_clause *clause = &rule->clauses[i], *before = i > 0 ? clause - 1 : NULL;
                struct entry_points entry = {.cold = bpf_return(b, clause->action)};

                for (size_t k = clause_length(clause); k-- > 0;) {
                        const struct syscall_test *t = &clause->tests[k];
                        bool load = !before;

                        if (k > 0)
                                load = !test_same_load(t, t - 1);
                        else
                                for (size_t n = 0; before && n < clause_length(before); n++)
                                        load = load || !test_same_load(t, &before->tests[n]);
                        entry = test_write(b, t, load, entry_from(&entry, t), entry_from(&next, t));
                }
                next = entry;
        }
        return next.cold;
}

/* Writes the search among n ranges. */
static unsigned tree_write(struct compiler *c, const struct range *ranges, unsigned n) {
        unsigned half = n / 2, low, high;

        if (n == 1) {
                unsigned position = c->fates[ranges[0].fate].position;

                for (unsigned i = 0; i < ranges[0].odd_count; i++) {
                        unsigned odd = ranges[0].odd[i];

                        position = bpf_branch(&c->bpf, BPF_JEQ, odd, c->fates[c->by_number[odd]].position, position);
                }
                return position;
        }
        high = tree_write(c, ranges + half, n - half);
        low = tree_write(c, ranges, half);
        return bpf_branch(&c->bpf, BPF_JGE, ranges[half].first, high, low);
}

static void compiler_write(struct compiler *c) {
        struct bpf *b = &c->bpf;
        unsigned refuse, tree;

        for (unsigned i = 0; i < c->fate_count; i++) /* returns first: they end the program and are shared */
                if (!c->fates[i].rule)
                        c->fates[i].position = bpf_return(b, c->fates[i].action);
        for (unsigned i = 0; i < c->fate_count; i++)
                if (c->fates[i].rule)
                        c->fates[i].position = rule_write(b, c->fates[i].rule);
        tree = tree_write(c, c->ranges, c->range_count);
        refuse = bpf_return(b, SYSCALL_DEFAULT);
#ifdef X32_BIT
        tree = bpf_branch(b, BPF_JGE, X32_BIT, refuse, tree);
#endif
        (void)bpf_goto(b, tree);
        tree = bpf_load(b, offsetof(struct seccomp_data, nr));
        (void)bpf_branch(b, BPF_JEQ, NATIVE, tree, refuse);
        (void)bpf_load(b, offsetof(struct seccomp_data, arch));
}

int filter_compile(const struct filter_options *options, struct sock_filter *out, size_t room, struct err *err) {
        _cleanup_free_ struct compiler *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return err_set(err, -ENOMEM, "could not compile the system call filter");
        r = compiler_read_table(c, options, err);
        if (r < 0)
                return r;
        compiler_cut_ranges(c);
        compiler_write(c);
        if (c->bpf.full || c->bpf.count > room)
                return err_set(err, ERR_LIMIT, "the system call filter has more instructions than the %zu that fit",
                               room);
        memcpy(out, bpf_start(&c->bpf), c->bpf.count * sizeof(*out));
        return (int)c->bpf.count;
}

static const char *action_name(uint32_t action, char *buf, size_t size) {
        const char *name = strerrorname_np((int)(action & SECCOMP_RET_DATA));

        if (action == SYSCALL_ALLOW)
                return "allow";
        (void)snprintf(buf, size, "refuse: %s", name ? name : "?");
        return buf;
}

int filter_describe(const struct filter_options *options, struct buf *out) {
        struct syscalls_walk walk = {0};
        struct syscall_entry entry;
        char text[64];
        int r;

        while ((r = syscalls_next(&walk, &entry, NULL)) > 0) {
                if (entry.number < 0 || !filter_applies(options, entry.when))
                        continue;
                buf_printf(out, "%-10s %-24s %s\n", entry.group, entry.name,
                           entry.rule ? entry.rule->text : action_name(entry.action, text, sizeof(text)));
        }
        if (r < 0)
                return r;
        buf_printf(out, "%-10s %-24s %s\n", "absent", "(any other)", action_name(SYSCALL_DEFAULT, text, sizeof(text)));
        buf_printf(out, "%-10s %-24s %s\n", "absent", "(other architectures)",
                   action_name(SYSCALL_DEFAULT, text, sizeof(text)));
        return buf_ok(out) ? 0 : -ENOMEM;
}
