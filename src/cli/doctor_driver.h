/* The drivers that boxes are made with, as doctor sees them. */
#pragma once

#include "cell/host.h"

/* Puts what each driver's own program says in the place of what the host has for it; returns how many facts there are.
 */
size_t doctor_drivers(struct host_fact *facts, size_t count, size_t room);
