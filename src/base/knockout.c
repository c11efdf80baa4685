/* The switch of a test build. Not part of a release build. */
#include "base/knockout.h"

#include <stdio.h>
#include <unistd.h>

static const char *const names[] = {
        [KNOCKOUT_SECCOMP] = "seccomp", [KNOCKOUT_IDS] = "ids",           [KNOCKOUT_MOUNTS] = "mounts",
        [KNOCKOUT_FLAGS] = "flags",     [KNOCKOUT_PROC] = "proc",         [KNOCKOUT_NETNS] = "netns",
        [KNOCKOUT_GATE] = "gate",       [KNOCKOUT_PIDNS] = "pidns",       [KNOCKOUT_IPCNS] = "ipcns",
        [KNOCKOUT_CGROUP] = "cgroup",   [KNOCKOUT_RLIMITS] = "rlimits",   [KNOCKOUT_FDS] = "fds",
        [KNOCKOUT_STREAMS] = "streams", [KNOCKOUT_LANDLOCK] = "landlock", [KNOCKOUT_NNP] = "nnp",
        [KNOCKOUT_CAPS] = "caps",       [KNOCKOUT_INIT] = "init",         [KNOCKOUT_KEYRING] = "keyring",
        [KNOCKOUT_ENV] = "env",         [KNOCKOUT_LAUNCHER] = "launcher",
};
static_assert(ELEMENTSOF(names) == KNOCKOUT_COUNT, "every layer has a name");

static uint32_t off;
static char pair[256] = KNOCKOUT_VARIABLE "=";

static bool switch_off(const char *word, size_t size) {
        for (size_t i = 0; i < KNOCKOUT_COUNT; i++)
                if (strlen(names[i]) == size && memcmp(names[i], word, size) == 0) {
                        off |= 1U << i;
                        return true;
                }
        return false;
}

void knockout_read(void) {
        const char *text = getenv(KNOCKOUT_VARIABLE);

        if (!text || !*text)
                return;
        (void)snprintf(pair, sizeof pair, "%s=%s", KNOCKOUT_VARIABLE, text);
        for (;;) {
                size_t n = strcspn(text, ",");

                if (!switch_off(text, n)) {
                        /* a name that is not understood would leave a layer on that a test takes for off */
                        (void)fprintf(stderr, "TEST BUILD: %s: there is no layer '%.*s'\n", KNOCKOUT_VARIABLE, (int)n,
                                      text);
                        _exit(125);
                }
                if (!text[n])
                        return;
                text += n + 1;
        }
}

void knockout_say(void) {
        if (!off)
                (void)fputs("TEST BUILD: every layer is on, and each can be switched off\n", stderr);
        for (size_t i = 0; i < KNOCKOUT_COUNT; i++)
                if (off & 1U << i)
                        (void)fprintf(stderr, "TEST BUILD: layer %s is off%s\n", names[i],
                                      i == KNOCKOUT_IDS && geteuid() != 0
                                              ? " (without root only its limits: the id is the caller's anyway)"
                                              : "");
}

bool knockout_off(enum knockout layer) {
        return off & 1U << layer;
}

char *knockout_pair(void) {
        return pair;
}

static bool is_variable(const char *setting) {
        return str_starts(setting, KNOCKOUT_VARIABLE "=");
}

char **knockout_environment(char **env) {
        size_t ours = 0, theirs = 0, count = 0;

        if (!knockout_off(KNOCKOUT_INIT))
                return env;
        while (environ[ours])
                ours++;
        while (env[theirs])
                theirs++;
        char **all = calloc(ours + theirs + 2, sizeof *all);
        if (!all)
                return env;
        for (size_t i = 0; i < ours; i++)
                if (!is_variable(environ[i]))
                        all[count++] = environ[i];
        all[count++] = pair;
        memcpy(all + count, env, theirs * sizeof *all);
        return all;
}

void knockout_skip_environment(void) {
        while (knockout_off(KNOCKOUT_INIT) && *environ && !is_variable(*environ++))
                ;
}
