/* A plan as a microVM executes it.
 *
 * The machine has a kernel of its own and executes the sandbox's plan in it, step by step, with the same code as a cell
 * on the host. What the plan takes from the host comes from the tree that the host's cell has built, which the machine
 * sees as its "host": so a source is the place that the first walk gave it. */
#pragma once

#include "wire/plan.h"

/* In what the machine sees as its host: the tree once more, as it is at every moment. The other view is believed to
 * stay as it is. */
#define VM_LIVE "/.live"

/* Writes the machine's plan into out. own_disk: the machine has a disk of its own for OP_DISK; otherwise that place is
 * in the tree too. A root that is no empty one is the tree itself, as OP_ROOT_DISK. */
int vm_plan(const struct plan *p, bool own_disk, struct buf *out, struct err *err);

/* Has the plan places that others change while the sandbox runs? */
bool vm_plan_is_live(const struct plan *p);
