/* What the files of the gate's scenes share. */
#pragma once

#include "verify/scene.h"

/* The rules that the judge gives a sandbox that it attacks through its gate. */
#define GATE_RULES                                                                                                     \
        "network:\n"                                                                                                   \
        "  allow:\n"                                                                                                   \
        "    - {host: good.test}\n"

/* Writes a profile that extends the judge's with these lines, and says where it is. False, and "could not be tried", if
 * that cannot be done here. */
bool gate_profile(struct judge *j, struct finding *f, const char *name, const char *lines, char *path, size_t size);
/* What was heard since world_forget, for the caller to free; "could not be tried" if it cannot be all of it. */
struct world_event *gate_heard(const struct judge *j, struct finding *f, size_t *ret_count);
/* Makes a run, and returns what was heard of it, even if it did not come to its end. */
struct world_event *gate_listen(struct judge *j, struct finding *f, const struct launch *l, struct outcome *ret,
                                size_t *ret_count);
/* How often this attempt was heard at a server (not in questions), and where the first time, in words. */
unsigned gate_count(const struct world_event *events, size_t count, const char *attempt, const char *address,
                    char *words, size_t size);
/* A fact of the world; "" if there is none. */
const char *gate_fact(const struct judge *j, const char *key);

/* scene-gate.c: the attempts that share one run. scene-gate-runs.c: those that need one of their own. */
scene_function scene_gate, scene_gate_rebind, scene_gate_empty, scene_gate_killed, scene_gate_live,
        scene_gate_connections, scene_gate_egress, scene_gate_inbound, scene_gate_secret;
