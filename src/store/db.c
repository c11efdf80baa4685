/* Connections and errors. Each connection belongs to one thread at a time, so SQLite needs no locks of its own. */
#include "store/db.h"

#include <fcntl.h>

enum { DB_BUSY_MS = 2000 };

void db_close(sqlite3 **db) {
        (void)sqlite3_close_v2(*db); /* NULL is fine */
        *db = NULL;
}

void db_finalize(sqlite3_stmt **s) {
        (void)sqlite3_finalize(*s);
        *s = NULL;
}

int db_code(sqlite3 *db, int result) {
        int number = db ? sqlite3_system_errno(db) : 0;

        switch (result & 0xff) {
        case SQLITE_OK:
        case SQLITE_ROW:
        case SQLITE_DONE:
                return 0;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                return ERR_CORRUPT;
        case SQLITE_FULL:
                return -ENOSPC;
        case SQLITE_IOERR:
                return number == ENOSPC || number == EDQUOT ? -ENOSPC : -EIO;
        case SQLITE_CANTOPEN:
                return number > 0 ? -number : -ENOENT;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return -EBUSY;
        case SQLITE_NOMEM:
                return -ENOMEM;
        case SQLITE_READONLY:
                return -EROFS;
        case SQLITE_PERM:
        case SQLITE_AUTH:
                return -EACCES;
        default: /* constraints, misuse: our fault */
                return -EINVAL;
        }
}

int db_damaged(const char *path, const char *says, struct err *err) {
        (void)err_set(err, ERR_CORRUPT, "the store '%s' is damaged: %.200s", path, says);
        return err_hint(
                err,
                "with the daemon stopped, move %s, -wal and -shm aside and copy %s.bak there; what happened since "
                "that copy was made is in the ledger, and sandboxes that still run are adopted",
                path, path);
}

int db_fail(sqlite3 *db, int result, const char *path, const char *what, struct err *err) {
        int code = db_code(db, result);

        if (code == ERR_CORRUPT)
                return db_damaged(path, db ? sqlite3_errmsg(db) : sqlite3_errstr(result), err);
        if (code == -ENOSPC) {
                (void)err_set(err, code, "could not %s in '%s'", what, path);
                return err_hint(err, "free some space on the file system of %s", path);
        }
        if (code == -EBUSY) {
                (void)err_set(err, code, "could not %s in '%s'", what, path);
                return err_hint(err, "another program holds the database: end it and try again");
        }
        return err_set(err, code, "could not %s in '%s' (%.100s)", what, path,
                       db ? sqlite3_errmsg(db) : sqlite3_errstr(result));
}

int db_exec(sqlite3 *db, const char *sql) {
        return db_code(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

int db_number(sqlite3 *db, const char *sql, int64_t *ret) {
        _cleanup_(db_finalize) sqlite3_stmt *s = NULL;
        int r = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

        if (r == SQLITE_OK)
                r = sqlite3_step(s);
        if (r != SQLITE_ROW && r != SQLITE_DONE)
                return db_code(db, r);
        *ret = r == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
        return 0;
}

int db_text(sqlite3 *db, const char *sql, char *ret, size_t size) {
        _cleanup_(db_finalize) sqlite3_stmt *s = NULL;
        int r = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

        if (r == SQLITE_OK)
                r = sqlite3_step(s);
        if (r != SQLITE_ROW && r != SQLITE_DONE)
                return db_code(db, r);
        const unsigned char *text = r == SQLITE_ROW ? sqlite3_column_text(s, 0) : NULL;
        (void)snprintf(ret, size, "%s", text ? (const char *)text : "");
        return 0;
}

/* SQLite's own file system but for one thing: names stay as they are. It would look at every folder above, and ours may
 * lie below some that we cannot search. */
static int same_name(sqlite3_vfs *vfs, const char *name, int size, char *ret) {
        (void)vfs;
        if (snprintf(ret, (size_t)size, "%s", name) >= size)
                return SQLITE_CANTOPEN;
        return SQLITE_OK;
}

#define DB_VFS "stockade"

static int own_vfs(void) {
        static sqlite3_vfs own;
        const sqlite3_vfs *given = sqlite3_vfs_find(NULL);

        if (sqlite3_vfs_find(DB_VFS))
                return SQLITE_OK;
        if (!given)
                return SQLITE_ERROR;
        own = *given;
        own.zName = DB_VFS;
        own.pNext = NULL;
        own.xFullPathname = same_name;
        return sqlite3_vfs_register(&own, 0);
}

int db_open(sqlite3 **ret, const char *path, bool write, struct err *err) {
        _cleanup_(db_close) sqlite3 *db = NULL;
        int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                    (write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);

        int r = own_vfs();
        if (r == SQLITE_OK)
                r = sqlite3_open_v2(path, &db, flags, DB_VFS);
        if (r != SQLITE_OK)
                return db_fail(db, r, path, "open the store", err);
        (void)sqlite3_extended_result_codes(db, 1);
        (void)sqlite3_busy_timeout(db, DB_BUSY_MS);
        /* what the file says is data: nothing in it may run functions or write to SQLite's own tables */
        (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        (void)sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        int e = db_exec(db, "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -512; PRAGMA foreign_keys = ON;"
                            "PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON; PRAGMA secure_delete = ON;");
        if (e < 0)
                return db_fail(db, sqlite3_errcode(db), path, "open the store", err);
        *ret = TAKE_PTR(db);
        return 0;
}
