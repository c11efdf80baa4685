/* Who may not come in any more, and which machines may. */
#include "store/family.h"

static const struct family_column revoked[] = {
        COLUMN(TEXT, store_revoked, jti),
        COLUMN(TEXT, store_revoked, owner),
        COLUMN(NUMBER, store_revoked, revoked_ms),
        COLUMN(NUMBER, store_revoked, expires_ms),
};

const struct family family_revoked = {
        .name = "revoked",
        .row_size = sizeof(struct store_revoked),
        .columns = revoked,
        .column_count = ELEMENTSOF(revoked),
        .put = {"INSERT INTO revoked (jti, owner, revoked_ms, expires_ms) VALUES (?1, ?2, ?3, ?4)"
                " ON CONFLICT (jti) DO UPDATE SET expires_ms = max(expires_ms, ?4)"},
        .remove = "DELETE FROM revoked WHERE jti = ?1",
        .load = "SELECT jti, owner, revoked_ms, expires_ms FROM revoked ORDER BY revoked_ms, jti",
};

static const struct family_column capability[] = {
        COLUMN(TEXT, store_capability, jti),          COLUMN(TEXT, store_capability, owner),
        COLUMN(TEXT, store_capability, about),        COLUMN(NUMBER, store_capability, created_ms),
        COLUMN(NUMBER, store_capability, expires_ms), COLUMN(NUMBER, store_capability, used_ms),
        COLUMN(BOOL, store_capability, revoked),      COLUMN_BLOB(store_capability, grant),
};

/* Once revoked, always revoked: a row that was put before cannot undo it. */
const struct family family_capability = {
        .name = "capability",
        .row_size = sizeof(struct store_capability),
        .columns = capability,
        .column_count = ELEMENTSOF(capability),
        .put = {"INSERT INTO capability (jti, owner, about, created_ms, expires_ms, used_ms, revoked, grant)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (jti) DO UPDATE SET"
                " used_ms = ?6, revoked = max(revoked, ?7), grant = coalesce(?8, grant)"},
        .remove = "DELETE FROM capability WHERE jti = ?1",
        .load = "SELECT jti, owner, about, created_ms, expires_ms, used_ms, revoked, grant FROM capability"
                " ORDER BY created_ms, jti",
};
