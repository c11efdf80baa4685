/* The calls that a container's processes may make, as the engine wants to be told: made at build time by
 * src/policy/filter-names.c, from the same table as plans' filters are. */
#pragma once

extern const char profile_text[];
