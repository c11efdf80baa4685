/* A machine that knows too many files. Whoever serves them outside has a descriptor for each file that the machine's
 * kernel remembers, and a kernel remembers whatever it has seen as long as there is memory: so it is made to forget. */
#pragma once

#include "base/err.h"

#define VM_FILES_WORD "stockade.files=" /* on the kernel's command line: how many descriptors its server has */

/* Before the machine's tree is another: the others below need what is opened here. */
int vm_forget_open(struct err *err);

/* Lets the kernel forget what it does not use: names and attributes, and contents too where that is not enough. Not for
 * a process that carries what the kernel asks: it may be what the kernel waits for. */
void vm_forget(void);

/* For a server that cannot say when: a process of its own counts from now on, and forgets in time. Nothing happens
 * without VM_FILES_WORD. */
int vm_forget_watch(struct err *err);
