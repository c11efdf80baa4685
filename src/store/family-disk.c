/* Disks and layers: what exists, whose it is, how large it may become. */
#include "store/family.h"

static const struct family_column columns[] = {
        COLUMN(TEXT, store_disk, id),       COLUMN(TEXT, store_disk, owner),  COLUMN(NUMBER, store_disk, size),
        COLUMN(NUMBER, store_disk, inodes), COLUMN(BOOL, store_disk, sealed), COLUMN(NUMBER, store_disk, created_ms),
};

const struct family family_disk = {
        .name = "disk",
        .row_size = sizeof(struct store_disk),
        .columns = columns,
        .column_count = ELEMENTSOF(columns),
        .put = {"INSERT INTO disk (id, owner, size, inodes, sealed, created_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                " ON CONFLICT (id) DO UPDATE SET owner = ?2, size = ?3, inodes = ?4, sealed = ?5, created_ms = ?6"},
        .remove = "DELETE FROM disk WHERE id = ?1",
        .load = "SELECT id, owner, size, inodes, sealed, created_ms FROM disk ORDER BY created_ms, id",
};
