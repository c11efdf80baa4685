/* Sandboxes: a row that changes with every state, and beside it what was frozen at the start. */
#include "store/family.h"

static const struct family_column columns[] = {
        COLUMN(TEXT, store_sandbox, id),           COLUMN(TEXT, store_sandbox, owner),
        COLUMN(TEXT, store_sandbox, name),         COLUMN(TEXT, store_sandbox, state),
        COLUMN(TEXT, store_sandbox, reason),       COLUMN(TEXT, store_sandbox, profile),
        COLUMN(TEXT, store_sandbox, driver),       COLUMN(TEXT, store_sandbox, image),
        COLUMN(TEXT, store_sandbox, disk),         COLUMN(TEXT, store_sandbox, layers),
        COLUMN(TEXT, store_sandbox, origin),       COLUMN(NUMBER, store_sandbox, created_ms),
        COLUMN(NUMBER, store_sandbox, started_ms), COLUMN(NUMBER, store_sandbox, ended_ms),
        COLUMN(NUMBER, store_sandbox, used_ms),    COLUMN(NUMBER, store_sandbox, generation),
        COLUMN(NUMBER, store_sandbox, next_run),   COLUMN(NUMBER, store_sandbox, cpu_us),
        COLUMN(TEXT, store_sandbox, driver_why),   COLUMN_BLOB(store_sandbox, policy),
        COLUMN_BLOB(store_sandbox, plan),
};

/* Not REPLACE: that removes the row first, and its runs with it. */
const struct family family_sandbox = {
        .name = "sandbox",
        .row_size = sizeof(struct store_sandbox),
        .columns = columns,
        .column_count = ELEMENTSOF(columns),
        .put = {"INSERT INTO sandbox (id, owner, name, state, reason, profile, driver, image, disk, layers, origin,"
                "  created_ms, started_ms, ended_ms, used_ms, generation, next_run, cpu_us, driver_why)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
                " ON CONFLICT (id) DO UPDATE SET owner = ?2, name = ?3, state = ?4, reason = ?5, profile = ?6,"
                "  driver = ?7, image = ?8, disk = ?9, layers = ?10, origin = ?11, created_ms = ?12, started_ms = ?13,"
                "  ended_ms = ?14, used_ms = ?15, generation = ?16, next_run = ?17, cpu_us = ?18,"
                "  driver_why = ?19",
                "INSERT INTO sandbox_frozen (sandbox, policy, plan)"
                " SELECT ?1, ?20, ?21 WHERE ?20 IS NOT NULL OR ?21 IS NOT NULL"
                " ON CONFLICT (sandbox) DO UPDATE SET policy = coalesce(?20, policy), plan = coalesce(?21, plan)"},
        .remove = "DELETE FROM sandbox WHERE id = ?1",
        .load = "SELECT id, owner, name, state, reason, profile, driver, image, disk, layers, origin, created_ms,"
                "  started_ms, ended_ms, used_ms, generation, next_run, cpu_us, driver_why, policy, plan"
                " FROM sandbox LEFT JOIN sandbox_frozen ON sandbox = id ORDER BY created_ms, id",
};
