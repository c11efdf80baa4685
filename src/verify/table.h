/* The parts of the table of checks, one per file; check.c puts them together. */
#pragma once

#include "verify/check.h"

extern const struct check table_files[], table_network[], table_gate[], table_processes[], table_exhaustion[],
        table_state[];
extern const size_t table_files_count, table_network_count, table_gate_count, table_processes_count,
        table_exhaustion_count, table_state_count;
