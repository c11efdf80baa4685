/* Ranges of host ids, one for each sandbox that root starts: CELL_ID_SLOTS of them, from CELL_ID_FIRST on.
 *
 * A lock on one byte of /run/stockade/ids stands for a slot. It goes with the last process that holds the descriptor,
 * which is right for a sandbox that does so too. One that outlives its daemon has a note in the file besides: who its
 * PID 1 is. A slot whose note names a living process is taken, whether it is locked or not. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* The file, made if needed. One descriptor can hold many slots. */
int ids_open(struct err *err);

/* Takes a slot that nobody has. noted: for a sandbox that may outlive us; the slot stays taken for a minute even if we
 * end before ids_note says for whom. */
int ids_take(int fd, bool noted, uint32_t *ret_slot, struct err *err);

/* PID 1 of the sandbox that has the slot. */
int ids_note(int fd, uint32_t slot, pid_t pid, uint64_t start_time);

/* Takes a noted slot again, after a restart. */
int ids_again(int fd, uint32_t slot);

/* Only when every process of the sandbox is gone. */
void ids_release(int fd, uint32_t slot);

/* One of them would not go: nobody gets these ids before the next boot. */
void ids_keep(int fd, uint32_t slot);

/* When a process began, in clock ticks since boot: with its number, who it is. 0, or -ESRCH. */
int ids_start_time(pid_t pid, uint64_t *ret);

/* Is it still that process, and has it not ended? A descriptor of it, or -ESRCH. */
int ids_open_process(pid_t pid, uint64_t start_time);
