/* Requests with an idempotency key, and what was answered to them. */
#include "store/family.h"

static const struct family_column columns[] = {
        COLUMN(TEXT, store_request, owner),      COLUMN(TEXT, store_request, key),
        COLUMN(BYTES, store_request, body_hash), COLUMN(NUMBER, store_request, created_ms),
        COLUMN_BLOB(store_request, answer),
};

const struct family family_request = {
        .name = "request",
        .row_size = sizeof(struct store_request),
        .columns = columns,
        .column_count = ELEMENTSOF(columns),
        .put = {"INSERT INTO request (owner, key, body_hash, created_ms, answer) VALUES (?1, ?2, ?3, ?4, ?5)"
                " ON CONFLICT (owner, key) DO UPDATE SET body_hash = ?3, created_ms = ?4, answer = ?5"},
        .remove = "DELETE FROM request WHERE owner = ?1 AND key = ?2",
        .load = "SELECT owner, key, body_hash, created_ms, answer FROM request ORDER BY created_ms, owner, key",
};
