/* The container's first process, until it is the guest. */
#pragma once

/* Waits for what join.c hands over, does the rest of the plan to itself, and executes the guest. */
int inside_main(void);
