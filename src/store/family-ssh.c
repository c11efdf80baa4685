/* Keys that may come in by SSH, by sandbox and fingerprint. They go with their sandbox; one that comes after it is not
 * kept. */
#include "store/family.h"

static const struct family_column columns[] = {
        COLUMN(TEXT, store_ssh_key, sandbox),    COLUMN(TEXT, store_ssh_key, fingerprint),
        COLUMN(TEXT, store_ssh_key, username),   COLUMN(TEXT, store_ssh_key, type),
        COLUMN(TEXT, store_ssh_key, comment),    COLUMN(NUMBER, store_ssh_key, created_ms),
        COLUMN(TEXT, store_ssh_key, capability), COLUMN(NUMBER, store_ssh_key, expires_ms),
};

const struct family family_ssh_key = {
        .name = "ssh_key",
        .row_size = sizeof(struct store_ssh_key),
        .columns = columns,
        .column_count = ELEMENTSOF(columns),
        .put = {"INSERT INTO ssh_key (sandbox, fingerprint, username, type, comment, created_ms, capability, "
                "expires_ms)"
                " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE EXISTS (SELECT 1 FROM sandbox WHERE id = ?1)"
                " ON CONFLICT (sandbox, fingerprint) DO UPDATE SET username = ?3, comment = ?5,"
                " expires_ms = CASE WHEN capability = '' THEN 0 ELSE ?8 END,"
                " capability = CASE WHEN capability = '' THEN '' ELSE ?7 END"},
        .remove = "DELETE FROM ssh_key WHERE sandbox = ?1 AND fingerprint = ?2 AND (?7 = '' OR capability = ?7)",
        .load = "SELECT sandbox, fingerprint, username, type, comment, created_ms, capability, expires_ms FROM ssh_key"
                " ORDER BY created_ms, sandbox, fingerprint",
};
