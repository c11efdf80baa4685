/* Prepared roots. The files, links and mount points that every sandbox of one plan starts with are the same each time;
 * they are made once in a folder and then bound read-only as the root.
 *
 * The name is a hash of what the plan was made from and of what was looked up on the host for it (which optional paths
 * exist, where links point), so a change makes a new skeleton. Whoever uses one holds a shared lock on it; old ones are
 * removed only under an exclusive lock: removing a directory that a sandbox has something mounted on would unmount it.
 */
#pragma once

#include "cell/cell.h"

#define SKELETON_NAME_SIZE 40
#define SKELETONS_MAX      64

/* Finds or makes the skeleton of a plan in a folder of ours. key: of everything that the plan was made from but the
 * policy, or "" where the caller names the plan's own bytes in it. id: of whoever asks, sixteen digits. keep() says
 * which ones must stay although nobody has locked them (NULL: none). Returns the lock, or -errno: do without. */
int skeleton_get(int folder, const char *key, const char *id, const struct plan *plan, const struct cell_base *base,
                 bool (*keep)(void *data, const char *name), void *data, char ret_name[SKELETON_NAME_SIZE]);

/* Removes what the caller of this id was making when it was killed, and what others were that are gone. */
void skeleton_forget(int folder, const char *id);
