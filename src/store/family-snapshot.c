/* Snapshots. The sandbox that one was taken of may be gone. */
#include "store/family.h"

static const struct family_column columns[] = {
        COLUMN(TEXT, store_snapshot, id),           COLUMN(TEXT, store_snapshot, sandbox),
        COLUMN(TEXT, store_snapshot, owner),        COLUMN(TEXT, store_snapshot, name),
        COLUMN(TEXT, store_snapshot, state),        COLUMN(TEXT, store_snapshot, image),
        COLUMN(TEXT, store_snapshot, layers),       COLUMN(TEXT, store_snapshot, profile),
        COLUMN(NUMBER, store_snapshot, created_ms), COLUMN(NUMBER, store_snapshot, ledger_seq),
        COLUMN(NUMBER, store_snapshot, bytes),      COLUMN(NUMBER, store_snapshot, pause_us),
        COLUMN_BLOB(store_snapshot, policy),        COLUMN_BLOB(store_snapshot, plan),
};

#define SNAPSHOT_COLUMNS                                                                                               \
        "id, sandbox, owner, name, state, image, layers, profile, created_ms, ledger_seq, bytes, pause_us, policy, "   \
        "plan"

const struct family family_snapshot = {
        .name = "snapshot",
        .row_size = sizeof(struct store_snapshot),
        .columns = columns,
        .column_count = ELEMENTSOF(columns),
        .put = {"INSERT INTO snapshot (" SNAPSHOT_COLUMNS ")"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
                " ON CONFLICT (id) DO UPDATE SET sandbox = ?2, owner = ?3, name = ?4, state = ?5, image = ?6,"
                "  layers = ?7, profile = ?8, created_ms = ?9, ledger_seq = ?10, bytes = ?11, pause_us = ?12,"
                "  policy = coalesce(?13, policy), plan = coalesce(?14, plan)"},
        .remove = "DELETE FROM snapshot WHERE id = ?1",
        .load = "SELECT " SNAPSHOT_COLUMNS " FROM snapshot ORDER BY created_ms, id",
};
