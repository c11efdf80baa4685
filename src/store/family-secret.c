/* Secrets of sandboxes, sealed, by sandbox and name; and the wrapped keys that they are sealed with. */
#include "store/family.h"

static const struct family_column data_key[] = {
        COLUMN(TEXT, store_data_key, id),
        COLUMN(NUMBER, store_data_key, created_ms),
        COLUMN_BLOB(store_data_key, wrapped),
};

const struct family family_data_key = {
        .name = "data_key",
        .row_size = sizeof(struct store_data_key),
        .columns = data_key,
        .column_count = ELEMENTSOF(data_key),
        .put = {"INSERT INTO data_key (id, created_ms, wrapped) VALUES (?1, ?2, ?3)"
                " ON CONFLICT (id) DO UPDATE SET wrapped = ?3"},
        .remove = "DELETE FROM data_key WHERE id = ?1",
        .load = "SELECT id, created_ms, wrapped FROM data_key ORDER BY created_ms, id",
        .wipe = true,
};

static const struct family_column secret[] = {
        COLUMN(TEXT, store_secret, sandbox),
        COLUMN(TEXT, store_secret, name),
        COLUMN(NUMBER, store_secret, set_ms),
        COLUMN_BLOB(store_secret, sealed),
};

/* A row with a name that none can have is left out, so that the others are not lost with it. */
const struct family family_secret = {
        .name = "secret",
        .row_size = sizeof(struct store_secret),
        .columns = secret,
        .column_count = ELEMENTSOF(secret),
        .put = {"INSERT INTO secret (sandbox, name, set_ms, sealed)"
                " SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM sandbox WHERE id = ?1)"
                " ON CONFLICT (sandbox, name) DO UPDATE SET set_ms = ?3, sealed = ?4"},
        .remove = "DELETE FROM secret WHERE sandbox = ?1 AND (name = ?2 OR ?2 = '')",
        .load = "SELECT sandbox, name, set_ms, sealed FROM secret"
                " WHERE length(CAST(name AS BLOB)) < 129 AND instr(CAST(name AS BLOB), x'00') = 0"
                " ORDER BY set_ms, sandbox, name",
        .wipe = true,
};
