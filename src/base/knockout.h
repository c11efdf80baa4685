/* Layer knock-out: a test build (meson -Dknockout=true) in which STOCKADE_KNOCKOUT=seccomp,ids,… switches single layers
 * of a sandbox off, to show that every check of `stockade verify` notices when what it relies on is gone.
 *
 * A release build has no such switch: knockout_off is then a constant, and everything behind it is not compiled in. A
 * test build says at every start what is off, says so in --version, and cannot be installed. The names are those of
 * `enum layer` in verify/check.h. What each means is in docs/knock-out.md. */
#pragma once

#include "base/macro.h"

enum knockout {
        KNOCKOUT_SECCOMP,
        KNOCKOUT_IDS,
        KNOCKOUT_MOUNTS,
        KNOCKOUT_FLAGS,
        KNOCKOUT_PROC,
        KNOCKOUT_NETNS,
        KNOCKOUT_GATE,
        KNOCKOUT_PIDNS,
        KNOCKOUT_IPCNS,
        KNOCKOUT_CGROUP,
        KNOCKOUT_RLIMITS,
        KNOCKOUT_FDS,
        KNOCKOUT_STREAMS,
        KNOCKOUT_LANDLOCK,
        KNOCKOUT_NNP,
        KNOCKOUT_CAPS,
        KNOCKOUT_INIT,
        KNOCKOUT_KEYRING,
        KNOCKOUT_ENV,
        KNOCKOUT_LAUNCHER,
        KNOCKOUT_COUNT,
};

#ifdef STOCKADE_TEST_BUILD

#define KNOCKOUT_VARIABLE "STOCKADE_KNOCKOUT"
#define KNOCKOUT_VERSION  " (TEST BUILD: its layers can be switched off; never use it for anything else)"

/* Reads the variable, once, at the start of a program; ends the program at a name that is no layer. */
void knockout_read(void);
void knockout_say(void); /* on standard error: what is off */
/* Safe between clone and exec. */
bool knockout_off(enum knockout layer);
/* The variable as it was read, "STOCKADE_KNOCKOUT=…", for a program that is started with another environment. */
char *knockout_pair(void);
/* Layer "init": what PID 1 is started with begins with the launcher's own environment, which anybody inside can then
 * read; the variable, and then env, follow. PID 1 skips what is not the command's. With the layer on: env as it is. */
char **knockout_environment(char **env);
void knockout_skip_environment(void);

#else

#define KNOCKOUT_VERSION ""

static inline void knockout_read(void) {
}
static inline void knockout_say(void) {
}
static inline bool knockout_off(enum knockout layer) {
        (void)layer;
        return false;
}
static inline char *knockout_pair(void) {
        return NULL;
}
static inline char **knockout_environment(char **env) {
        return env;
}
static inline void knockout_skip_environment(void) {
}

#endif
