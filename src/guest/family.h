/* Everything that a process started, as far as it can be found: for boxes, where runs have no cgroups. */
#pragma once

#include <sys/types.h>

/* Kills root, its descendants, and whoever is in its session. Who left the session and was orphaned is not found. */
void family_kill(pid_t root);
