/* Where runsc works: a part of the keeper's own mount namespace that its user namespace can reach, in the place of the
 * host's /run. Nothing of it is visible on the host, and all of it goes with the keeper. */
#pragma once

#include "base/err.h"

#define STAGE        "/run"
#define STAGE_TREE   STAGE "/tree"   /* the plan's tree, or what stands for it */
#define STAGE_BUNDLE STAGE "/bundle" /* config.json */
#define STAGE_STATE  STAGE "/state"  /* what runsc keeps */
#define STAGE_ROOT   STAGE "/root"   /* where a part of runsc's gets a root of its own (runsc-parts.h) */

#define STAGE_PID_NAME "pid"
#define STAGE_PID      STAGE_STATE "/" STAGE_PID_NAME

/* In the tree, of BOX_PLACE: */
#define STAGE_DOOR  "door"  /* the socket that the guest dials */
#define STAGE_ENTER "enter" /* our own program, which confines itself and becomes the guest (enter.h) */

/* Makes the stage, for a user namespace whose root is this host id, with a /proc of this pid namespace. */
int stage_make(uint32_t id_base, struct err *err);

/* Shows the tree at STAGE_TREE. loosen: its root is made read-only by `runsc run` once more, which names no other flag
 * then, and a user namespace may not lose those that it was given: so the root itself is not nosuid and nodev. */
int stage_tree(int tree, bool loosen, struct err *err);

/* Puts the enter program into the tree, and a folder around it, which is returned: a socket may be made there. */
int stage_place(struct err *err);

/* Puts a library into that folder and has it loaded into every program inside (stage-preload.c). own_root: the tree's
 * root is this sandbox's alone, and a file may be made in it. An error says that programs do without. */
int stage_preload(int place, bool own_root, uint32_t id_base);

/* From here on nothing can be made in that folder. */
int stage_seal(int place, struct err *err);
