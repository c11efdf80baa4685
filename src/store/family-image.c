/* Images that were imported. */
#include "store/family.h"

static const struct family_column columns[] = {
        COLUMN(TEXT, store_image, id),           COLUMN(TEXT, store_image, owner),
        COLUMN(TEXT, store_image, name),         COLUMN(TEXT, store_image, about),
        COLUMN(NUMBER, store_image, created_ms), COLUMN(NUMBER, store_image, bytes),
        COLUMN(NUMBER, store_image, entries),
};

const struct family family_image = {
        .name = "image",
        .row_size = sizeof(struct store_image),
        .columns = columns,
        .column_count = ELEMENTSOF(columns),
        .put = {"INSERT INTO image (id, owner, name, about, created_ms, bytes, entries)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                " ON CONFLICT (id) DO UPDATE SET owner = ?2, name = ?3, about = ?4, created_ms = ?5, bytes = ?6,"
                "  entries = ?7"},
        .remove = "DELETE FROM image WHERE id = ?1",
        .load = "SELECT id, owner, name, about, created_ms, bytes, entries FROM image ORDER BY created_ms, id",
};
