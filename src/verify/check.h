/* A check: one thing that is tried against a sandbox, what must stop it, and what came of it.
 *
 * The table of checks (table*.c) is the one place that says what is tried, by which mechanism it must be stopped, with
 * which errnos, and where the same attempt works. The probe (src/probe) only tries; it has the names and no opinions.
 */
#pragma once

#include "base/err.h"

struct judge;

enum group { GROUP_FILES, GROUP_NETWORK, GROUP_PROCESSES, GROUP_EXHAUSTION, GROUP_STATE, GROUP_COUNT };

/* What a sandbox is made of. A check names every layer that stops it on its own: with all of them off it must be open,
 * and with one of several off it may not be (covered twice). The test build's knock-out switch uses the same names. */
enum layer {
        LAYER_SECCOMP,  /* the system call filter */
        LAYER_IDS,      /* ids of its own on the host */
        LAYER_MOUNTS,   /* a tree of its own, pivot_root, read-only mounts */
        LAYER_FLAGS,    /* nosuid, nodev and noexec on them */
        LAYER_PROC,     /* /proc read-only and partly covered */
        LAYER_NETNS,    /* network namespace */
        LAYER_GATE,     /* the gate's decision */
        LAYER_PIDNS,    /* pid namespace */
        LAYER_IPCNS,    /* ipc namespace */
        LAYER_CGROUP,   /* cgroup limits */
        LAYER_RLIMITS,  /* resource limits of processes */
        LAYER_FDS,      /* descriptors closed */
        LAYER_STREAMS,  /* only plain pipes or a terminal of its own as streams */
        LAYER_LANDLOCK, /* Landlock */
        LAYER_NNP,      /* no new privileges */
        LAYER_CAPS,     /* no capabilities */
        LAYER_INIT,     /* PID 1 cannot be looked into */
        LAYER_KEYRING,  /* a session keyring of its own */
        LAYER_ENV,      /* an environment of its own */
        LAYER_LAUNCHER, /* the launcher counts, watches the clock, and tidies up */
        LAYER_KERNEL,   /* the kernel itself: nothing of ours to take away */
        LAYER_COUNT,
};

#define L(name) (1u << LAYER_##name)

/* Where the same attempt works, so that a refusal means something. */
enum control {
        CONTROL_NONE,  /* nowhere on an ordinary host: note says why */
        CONTROL_USER,  /* an ordinary process without a sandbox, as the caller */
        CONTROL_ROOT,  /* host root in a mount namespace of its own; only a judge that is root can show it */
        CONTROL_INIT,  /* a pid namespace whose PID 1 is an ordinary process */
        CONTROL_SCENE, /* the check's own scene shows both sides */
        CONTROL_OTHER, /* another check shows it: note names it */
};

/* What makes a profile different for a check. */
enum needs {
        NEEDS_NOTHING,
        NEEDS_EXEC_LIST, /* is refused only where tools.exec lists what may be executed, else permitted */
        NEEDS_OWN_TREE,  /* is refused only where the profile does not show the host's tree */
        NEEDS_NO_RULES,  /* is refused only without network rules: with them every address is local inside, up to the
                            gate */
        NEEDS_RULES,     /* the scene adds network rules of its own */
};

enum {
        CHECK_FAST = 1,     /* part of the self-test that a driver has to pass before it is offered */
        CHECK_QUICK = 2,    /* part of --quick; every attempt without a scene is */
        CHECK_TERMINAL = 4, /* means something only with a terminal */
        CHECK_VICTIM = 8,   /* would be noticed by the victim outside */
        CHECK_ALONE = 16,   /* a tracer beside it would be in its way: never witnessed */
};

enum verdict {
        VERDICT_PENDING,      /* not judged yet */
        VERDICT_PROMISED,     /* refused as promised */
        VERDICT_OTHERWISE,    /* refused by another layer than the one that is promised */
        VERDICT_OPEN,         /* it worked */
        VERDICT_UNTRIED,      /* could not be tried: the finding says why */
        VERDICT_PERMITTED,    /* the profile allows it, and it works: not counted as a check */
        VERDICT_INAPPLICABLE, /* means nothing under this driver, or what it reached there is the box's own and nothing
                               * of the host's (exempt.c): not counted either, and listed with its reason */
};

enum shown { SHOWN_NOT, SHOWN_YES, SHOWN_NO, SHOWN_ELSEWHERE }; /* did the positive control work? */

struct finding {
        enum verdict verdict;
        char error[24]; /* name of the errno, "" if none */
        char said[768]; /* what the probe reported, escaped when printed */
        char seen[512]; /* what the host saw; anything here that is a sign of success makes it OPEN */
        char why[256];  /* of UNTRIED, OTHERWISE and INAPPLICABLE */
        bool witnessed; /* the errno was read from the kernel by the judge, not from the probe's words */
        enum shown control;
        char control_said[256];
        unsigned ms;
};

struct check {
        const char *name;
        enum group group;
        const char *does;   /* one line for people: what is tried */
        uint32_t layers;    /* L(…) | L(…) */
        const char *errors; /* errnos that the layers give, separated by blanks; NULL if the scene decides */
        enum control control;
        const char *note; /* of CONTROL_NONE and CONTROL_OTHER: why, or which; else may be NULL */
        enum needs needs;
        unsigned flags;
        /* NULL: the attempt of this name in the common run of quick attempts. Else judges the check alone and fills the
         * finding completely (verdict, words, control). */
        void (*scene)(struct judge *j, const struct check *c, struct finding *f);
};

/* All of them, in the order of groups. */
size_t check_count(void);
const struct check *check_at(size_t i);
const struct check *check_find(const char *name, size_t *ret_index); /* NULL: none */

extern const char *const check_group_titles[GROUP_COUNT]; /* for people: "outside files" */
extern const char *const check_group_names[GROUP_COUNT];  /* for programs: "files" */
extern const char *const check_layer_names[LAYER_COUNT];  /* as the knock-out switch has them: "seccomp" */
extern const char *const check_layer_words[LAYER_COUNT];  /* for people: "system call filter" */
extern const char *const check_verdict_names[];           /* for programs: "promised", "otherwise", "open", … */
extern const char *const check_verdict_words[];           /* for people: "refused as promised", … */

/* "system call filter, no capabilities" */
const char *check_mechanism(const struct check *c, char *buf, size_t size);
/* Is this name among the check's errnos? */
bool check_expects(const struct check *c, const char *error);

/* How a finding is filled. They only ever make it worse: OPEN stays OPEN. */
void finding_worsen(struct finding *f, enum verdict v);
void finding_open(struct finding *f, const char *format, ...) _printf_(2, 3);     /* the host saw it happen */
void finding_promised(struct finding *f, const char *format, ...) _printf_(2, 3); /* words go to seen */
void finding_otherwise(struct finding *f, const char *format, ...) _printf_(2, 3);
void finding_untried(struct finding *f, const char *format, ...) _printf_(2, 3);
void finding_inapplicable(struct finding *f, const char *format, ...) _printf_(2, 3);
void finding_control(struct finding *f, bool worked, const char *format, ...) _printf_(3, 4);
