/* A compiled plan with everything that it depends on: what stockade-policy writes and the plan cache keeps.
 *
 *   magic, number of sources, then for each: path, absent (u16), hash of its bytes; then the plan as a blob. */
#pragma once

#include "wire/plan.h"

#define PLAN_FILE_MAGIC       "STOCKC01"
#define PLAN_FILE_MAX         (PLAN_MAX_SIZE + 64 * 1024)
#define PLAN_FILE_SOURCES_MAX 64
