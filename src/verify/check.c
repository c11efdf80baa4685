/* Puts the parts of the table together, and the words for groups, layers and verdicts. Decides nothing about a sandbox.
 */
#include "verify/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "verify/table.h"

const char *const check_group_titles[GROUP_COUNT] = {
        [GROUP_FILES] = "Files outside",
        [GROUP_NETWORK] = "Network",
        [GROUP_PROCESSES] = "Processes and system calls",
        [GROUP_EXHAUSTION] = "Exhaustion and limits",
        [GROUP_STATE] = "State across runs",
};

const char *const check_group_names[GROUP_COUNT] = {
        [GROUP_FILES] = "files",           [GROUP_NETWORK] = "network", [GROUP_PROCESSES] = "processes",
        [GROUP_EXHAUSTION] = "exhaustion", [GROUP_STATE] = "state",
};

const char *const check_layer_names[LAYER_COUNT] = {
        [LAYER_SECCOMP] = "seccomp", [LAYER_IDS] = "ids",           [LAYER_MOUNTS] = "mounts",
        [LAYER_FLAGS] = "flags",     [LAYER_PROC] = "proc",         [LAYER_NETNS] = "netns",
        [LAYER_GATE] = "gate",       [LAYER_PIDNS] = "pidns",       [LAYER_IPCNS] = "ipcns",
        [LAYER_CGROUP] = "cgroup",   [LAYER_RLIMITS] = "rlimits",   [LAYER_FDS] = "fds",
        [LAYER_STREAMS] = "streams", [LAYER_LANDLOCK] = "landlock", [LAYER_NNP] = "nnp",
        [LAYER_CAPS] = "caps",       [LAYER_INIT] = "init",         [LAYER_KEYRING] = "keyring",
        [LAYER_ENV] = "env",         [LAYER_LAUNCHER] = "launcher", [LAYER_KERNEL] = "kernel",
};

const char *const check_layer_words[LAYER_COUNT] = {
        [LAYER_SECCOMP] = "system call filter",
        [LAYER_IDS] = "ids of its own on the host",
        [LAYER_MOUNTS] = "a file tree of its own",
        [LAYER_FLAGS] = "nosuid, nodev, noexec mounts",
        [LAYER_PROC] = "read-only and masked /proc",
        [LAYER_NETNS] = "network namespace",
        [LAYER_GATE] = "the gate's decision",
        [LAYER_PIDNS] = "pid namespace",
        [LAYER_IPCNS] = "ipc namespace",
        [LAYER_CGROUP] = "cgroup limits",
        [LAYER_RLIMITS] = "resource limits",
        [LAYER_FDS] = "descriptors closed",
        [LAYER_STREAMS] = "streams of its own",
        [LAYER_LANDLOCK] = "Landlock",
        [LAYER_NNP] = "no new privileges",
        [LAYER_CAPS] = "no capabilities",
        [LAYER_INIT] = "PID 1 that cannot be looked into",
        [LAYER_KEYRING] = "keyring of its own",
        [LAYER_ENV] = "environment of its own",
        [LAYER_LAUNCHER] = "the launcher, outside",
        [LAYER_KERNEL] = "the kernel itself",
};

const char *const check_verdict_names[] = {
        [VERDICT_PENDING] = "pending",           [VERDICT_PROMISED] = "promised",
        [VERDICT_OTHERWISE] = "otherwise",       [VERDICT_OPEN] = "open",
        [VERDICT_UNTRIED] = "untried",           [VERDICT_PERMITTED] = "permitted",
        [VERDICT_INAPPLICABLE] = "inapplicable",
};

const char *const check_verdict_words[] = {
        [VERDICT_PENDING] = "not asked for",
        [VERDICT_PROMISED] = "refused as promised",
        [VERDICT_OTHERWISE] = "refused by another layer",
        [VERDICT_OPEN] = "OPEN",
        [VERDICT_UNTRIED] = "could not be tried",
        [VERDICT_PERMITTED] = "permitted by the profile",
        [VERDICT_INAPPLICABLE] = "not applicable",
};

static const struct part {
        const struct check *rows;
        const size_t *count;
} parts[] = {
        {table_files, &table_files_count},
        {table_network, &table_network_count},
        {table_gate, &table_gate_count},
        {table_processes, &table_processes_count},
        {table_exhaustion, &table_exhaustion_count},
        {table_state, &table_state_count},
};

size_t check_count(void) {
        size_t sum = 0;

        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                sum += *parts[i].count;
        return sum;
}

/* Rows are in the file of the person who looks after them; what counts for a reader is their group. */
const struct check *check_at(size_t i) {
        static const struct check *sorted[1024];
        static size_t count;

        if (count == 0)
                for (enum group g = 0; g < GROUP_COUNT; g++)
                        for (size_t p = 0; p < ELEMENTSOF(parts); p++)
                                for (size_t k = 0; k < *parts[p].count; k++)
                                        if (parts[p].rows[k].group == g && count < ELEMENTSOF(sorted))
                                                sorted[count++] = &parts[p].rows[k];
        return i < count ? sorted[i] : NULL;
}

const struct check *check_find(const char *name, size_t *ret_index) {
        size_t count = check_count();

        for (size_t i = 0; i < count; i++)
                if (str_eq(check_at(i)->name, name)) {
                        if (ret_index)
                                *ret_index = i;
                        return check_at(i);
                }
        return NULL;
}

const char *check_mechanism(const struct check *c, char *buf, size_t size) {
        size_t used = 0;

        buf[0] = '\0';
        for (unsigned l = 0; l < LAYER_COUNT; l++)
                if (c->layers & (1u << l) && used < size) {
                        int n = snprintf(buf + used, size - used, "%s%s", used ? "; " : "", check_layer_words[l]);
                        used += n > 0 ? (size_t)n : 0;
                }
        return buf;
}

bool check_expects(const struct check *c, const char *error) {
        size_t n = strlen(error);

        if (n == 0)
                error = "none", n = 4;
        for (const char *at = c->errors; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
                if (strcspn(at, " ") == n && strncmp(at, error, n) == 0)
                        return true;
        return false;
}

/* Appends to one of the finding's texts what it does not say already: an attempt may be made twice. */
_printf_(3, 0) static void add(char *text, size_t size, const char *format, va_list args) {
        char more[512];
        size_t used = strlen(text);

        (void)vsnprintf(more, sizeof more, format, args);
        if (used == 0 || !str_eq(text, more))
                (void)snprintf(text + used, size - used, "%s%s", used > 0 ? "; " : "", more);
}

/* The worse of two verdicts stays: a check that was open once is open. */
void finding_worsen(struct finding *f, enum verdict v) {
        static const int badness[] = {
                [VERDICT_PENDING] = 0,      [VERDICT_PERMITTED] = 1, [VERDICT_PROMISED] = 2, [VERDICT_OTHERWISE] = 3,
                [VERDICT_INAPPLICABLE] = 4, [VERDICT_UNTRIED] = 5,   [VERDICT_OPEN] = 6,
        };

        if (badness[v] > badness[f->verdict])
                f->verdict = v;
}

#define FINDING(name, field, v)                                                                                        \
        void finding_##name(struct finding *f, const char *format, ...) {                                              \
                va_list args;                                                                                          \
                                                                                                                       \
                finding_worsen(f, v);                                                                                  \
                va_start(args, format);                                                                                \
                add(f->field, sizeof f->field, format, args);                                                          \
                va_end(args);                                                                                          \
        }

FINDING(open, seen, VERDICT_OPEN)
FINDING(promised, seen, VERDICT_PROMISED)
FINDING(otherwise, why, VERDICT_OTHERWISE)
FINDING(untried, why, VERDICT_UNTRIED)
FINDING(inapplicable, why, VERDICT_INAPPLICABLE)

void finding_control(struct finding *f, bool worked, const char *format, ...) {
        va_list args;

        f->control = worked ? SHOWN_YES : SHOWN_NO;
        va_start(args, format);
        add(f->control_said, sizeof f->control_said, format, args);
        va_end(args);
}
