/* Runs, by sandbox and number. One whose sandbox is gone is nothing to keep. */
#include "store/family.h"

static const struct family_column columns[] = {
        COLUMN(TEXT, store_run, sandbox),       COLUMN(NUMBER, store_run, number),
        COLUMN(NUMBER, store_run, generation),  COLUMN(TEXT, store_run, state),
        COLUMN(TEXT, store_run, reason),        COLUMN(NUMBER, store_run, status),
        COLUMN(BOOL, store_run, terminal),      COLUMN(NUMBER, store_run, started_ms),
        COLUMN(NUMBER, store_run, ended_ms),    COLUMN(NUMBER, store_run, cpu_us),
        COLUMN(NUMBER, store_run, memory_peak), COLUMN(NUMBER, store_run, out_bytes),
        COLUMN(NUMBER, store_run, err_bytes),   COLUMN(NUMBER, store_run, timeout_ms),
        COLUMN_BLOB(store_run, command),
};

#define RUN_COLUMNS                                                                                                    \
        "sandbox, number, generation, state, reason, status, terminal, started_ms, ended_ms, cpu_us, memory_peak,"     \
        " out_bytes, err_bytes, timeout_ms, command"

const char family_run_recent[] = "SELECT " RUN_COLUMNS
                                 " FROM run WHERE sandbox = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3";

const struct family family_run = {
        .name = "run",
        .row_size = sizeof(struct store_run),
        .columns = columns,
        .column_count = ELEMENTSOF(columns),
        .put = {"INSERT INTO run (" RUN_COLUMNS ")"
                " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15"
                "  WHERE EXISTS (SELECT 1 FROM sandbox WHERE id = ?1)"
                " ON CONFLICT (sandbox, number) DO UPDATE SET generation = ?3, state = ?4, reason = ?5, status = ?6,"
                "  terminal = ?7, started_ms = ?8, ended_ms = ?9, cpu_us = ?10, memory_peak = ?11, out_bytes = ?12,"
                "  err_bytes = ?13, timeout_ms = ?14, command = coalesce(?15, command)"},
        .remove = "DELETE FROM run WHERE sandbox = ?1 AND number = ?2",
        .load = "SELECT " RUN_COLUMNS " FROM run ORDER BY started_ms, sandbox, number",
};
