/* Migrations, in order. Version N is what step N leaves behind; table schema_version says which were taken and when.
 * A database that knows more steps than we do is a newer build's, and refused before anything is written. */
#include "store/migrate.h"

#include <time.h>

static const char *const steps[] = {
        [1] = "CREATE TABLE sandbox ("
              "  id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT "
              "NULL,"
              "  profile TEXT NOT NULL, driver TEXT NOT NULL, image TEXT NOT NULL, disk TEXT NOT NULL,"
              "  layers TEXT NOT NULL, origin TEXT NOT NULL, created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL,"
              "  ended_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, generation INTEGER NOT NULL,"
              "  next_run INTEGER NOT NULL, cpu_us INTEGER NOT NULL, policy BLOB, plan BLOB"
              ") STRICT;"
              "CREATE TABLE run ("
              "  sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE, number INTEGER NOT NULL,"
              "  generation INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, status INTEGER NOT NULL,"
              "  terminal INTEGER NOT NULL, started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,"
              "  cpu_us INTEGER NOT NULL, memory_peak INTEGER NOT NULL, out_bytes INTEGER NOT NULL,"
              "  err_bytes INTEGER NOT NULL, command BLOB, PRIMARY KEY (sandbox, number)"
              ") STRICT, WITHOUT ROWID;"
              "CREATE TABLE disk ("
              "  id TEXT PRIMARY KEY, owner TEXT NOT NULL, size INTEGER NOT NULL, inodes INTEGER NOT NULL,"
              "  sealed INTEGER NOT NULL, created_ms INTEGER NOT NULL"
              ") STRICT;"
              "CREATE TABLE snapshot ("
              "  id TEXT PRIMARY KEY, sandbox TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,"
              "  state TEXT NOT NULL, image TEXT NOT NULL, layers TEXT NOT NULL, profile TEXT NOT NULL,"
              "  created_ms INTEGER NOT NULL, ledger_seq INTEGER NOT NULL, bytes INTEGER NOT NULL, policy BLOB, plan "
              "BLOB"
              ") STRICT;"
              "CREATE TABLE image ("
              "  id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, about TEXT NOT NULL,"
              "  created_ms INTEGER NOT NULL, bytes INTEGER NOT NULL, entries INTEGER NOT NULL"
              ") STRICT;"
              "CREATE TABLE request ("
              "  owner TEXT NOT NULL, key TEXT NOT NULL, body_hash BLOB NOT NULL, created_ms INTEGER NOT NULL,"
              "  answer BLOB, PRIMARY KEY (owner, key)"
              ") STRICT, WITHOUT ROWID;",
        /* How long a snapshot paused its sandbox, and how long a run may take. What is frozen at the start has a table
         * of its own: it is large and does not change, while the sandbox's row is written with every change of state.
         */
        [2] = "ALTER TABLE snapshot ADD COLUMN pause_us INTEGER NOT NULL DEFAULT 0;"
              "ALTER TABLE run ADD COLUMN timeout_ms INTEGER NOT NULL DEFAULT -1;"
              "CREATE TABLE sandbox_frozen ("
              "  sandbox TEXT PRIMARY KEY REFERENCES sandbox (id) ON DELETE CASCADE, policy BLOB, plan BLOB"
              ") STRICT;"
              "INSERT INTO sandbox_frozen (sandbox, policy, plan)"
              "  SELECT id, policy, plan FROM sandbox WHERE policy IS NOT NULL OR plan IS NOT NULL;"
              "ALTER TABLE sandbox DROP COLUMN policy;"
              "ALTER TABLE sandbox DROP COLUMN plan;",
        /* The API: sessions that were revoked, and tokens for machines. */
        [3] = "CREATE TABLE revoked ("
              "  jti TEXT PRIMARY KEY, owner TEXT NOT NULL, revoked_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL"
              ") STRICT, WITHOUT ROWID;"
              "CREATE TABLE capability ("
              "  jti TEXT PRIMARY KEY, owner TEXT NOT NULL, about TEXT NOT NULL, created_ms INTEGER NOT NULL,"
              "  expires_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, revoked INTEGER NOT NULL, grant BLOB"
              ") STRICT;",
        /* Who may come in by SSH. */
        [4] = "CREATE TABLE ssh_key ("
              "  sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE, fingerprint TEXT NOT NULL,"
              "  username TEXT NOT NULL, type TEXT NOT NULL, comment TEXT NOT NULL, created_ms INTEGER NOT NULL,"
              "  PRIMARY KEY (sandbox, fingerprint)"
              ") STRICT, WITHOUT ROWID;",
        /* Secrets, sealed, and the wrapped keys that open them. */
        [5] = "CREATE TABLE data_key ("
              "  id TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, wrapped BLOB NOT NULL"
              ") STRICT, WITHOUT ROWID;"
              "CREATE TABLE secret ("
              "  sandbox TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE, name TEXT NOT NULL,"
              "  set_ms INTEGER NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (sandbox, name)"
              ") STRICT, WITHOUT ROWID;",
        /* Keys for SSH that a machine let in end with the token that it had. */
        [6] = "ALTER TABLE ssh_key ADD COLUMN capability TEXT NOT NULL DEFAULT '';"
              "ALTER TABLE ssh_key ADD COLUMN expires_ms INTEGER NOT NULL DEFAULT 0;",
        /* How a sandbox came to have its driver. */
        [7] = "ALTER TABLE sandbox ADD COLUMN driver_why TEXT NOT NULL DEFAULT '';",
};

unsigned migrate_newest(void) {
        return ELEMENTSOF(steps) - 1;
}

int migrate_version(sqlite3 *db, const char *path, unsigned *ret, struct err *err) {
        int64_t tables = 0, application = 0, version = 0;
        int r = db_number(db, "SELECT count(*) FROM sqlite_schema", &tables);

        if (r == 0)
                r = db_number(db, "PRAGMA application_id", &application);
        if (r == 0 && tables > 0 && application == MIGRATE_APPLICATION)
                r = db_number(db, "SELECT max(version) FROM schema_version", &version);
        if (r < 0)
                return db_fail(db, sqlite3_errcode(db), path, "read the schema", err);
        if (tables > 0 && application != MIGRATE_APPLICATION) {
                (void)err_set(err, ERR_REFUSED, "'%s' is a database, but not a store of Stockade's", path);
                return err_hint(err, "move it aside, or name another state folder");
        }
        if (tables > 0 && version < 1)
                return db_damaged(path, "no version of its schema is noted", err);
        if (version > (int64_t)migrate_newest()) {
                (void)err_set(err, ERR_REFUSED,
                              "the store '%s' was written by a newer build (schema %lld, this one knows %u)", path,
                              (long long)version, migrate_newest());
                return err_hint(err, "run that build again, or restore the copy '%s.before-%u' that it made", path,
                                migrate_newest() + 1);
        }
        *ret = (unsigned)version;
        return 0;
}

static int note(sqlite3 *db, unsigned version) {
        char sql[200];
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        (void)snprintf(sql, sizeof sql, "INSERT INTO schema_version VALUES (%u, %lld, '" STOCKADE_VERSION "')", version,
                       (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
        return db_exec(db, sql);
}

static int take_step(sqlite3 *db, unsigned version) {
        char begin[300];
        int64_t orphans = 0;

        (void)snprintf(begin, sizeof begin,
                       "BEGIN IMMEDIATE; PRAGMA application_id = %d;"
                       "CREATE TABLE IF NOT EXISTS schema_version"
                       " (version INTEGER PRIMARY KEY, applied_ms INTEGER NOT NULL, build TEXT NOT NULL) STRICT;",
                       MIGRATE_APPLICATION);
        int r = db_exec(db, begin);
        if (r == 0)
                r = db_exec(db, steps[version]);
        if (r == 0)
                r = db_number(db, "SELECT count(*) FROM pragma_foreign_key_check", &orphans);
        if (r == 0 && orphans > 0)
                r = ERR_CORRUPT;
        if (r == 0)
                r = note(db, version);
        if (r == 0)
                r = db_exec(db, "COMMIT");
        return r;
}

int migrate_to(sqlite3 *db, const char *path, unsigned version, struct err *err) {
        unsigned now = 0;
        int r = migrate_version(db, path, &now, err);

        while (r == 0 && now < version) {
                char what[60];

                r = take_step(db, ++now);
                if (r < 0) {
                        int result = r == ERR_CORRUPT ? SQLITE_CORRUPT : sqlite3_errcode(db);
                        (void)snprintf(what, sizeof what, "take the store to schema %u", now);
                        r = db_fail(db, result, path, what, err);
                        (void)db_exec(db, "ROLLBACK");
                }
        }
        return r;
}
