/* What every fuzz target defines; replay.c calls it for files when there is no libFuzzer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
