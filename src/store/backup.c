/* Copies of the database, made by SQLite itself from a state that was checked just before. A copy is written under
 * another name, synced, and renamed: an old copy is not given up before the new one is whole.
 *
 * Must never: have secrets, sealed as they are. Whoever wipes one does not know of copies; after a restore they are
 * given again. */
#include "store/backup.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

enum { BACKUP_AGE = 24 * 60 * 60 };

int backup_sync_folder(const char *path) {
        char folder[PATH_MAX];
        const char *slash = strrchr(path, '/');

        (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
        _cleanup_fd_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* Of a copy that nobody else knows yet. A store of before schema 5 has none. */
static int leave_secrets_out(const char *name) {
        _cleanup_(db_close) sqlite3 *db = NULL;
        int64_t tables = 0;
        int r = db_open(&db, name, true, NULL);

        if (r == 0)
                r = db_number(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'secret'",
                              &tables);
        if (r == 0 && tables > 0)
                r = db_exec(db, "PRAGMA journal_mode = MEMORY; DELETE FROM secret; DELETE FROM data_key;");
        return r;
}

static int copy_to(sqlite3 *db, const char *name) {
        _cleanup_(db_finalize) sqlite3_stmt *s = NULL;

        (void)unlink(name);
        _cleanup_fd_ int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        int r = sqlite3_prepare_v2(db, "VACUUM INTO ?1", -1, &s, NULL); /* into an empty file is allowed */
        if (r == SQLITE_OK)
                r = sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
        if (r == SQLITE_OK)
                r = sqlite3_step(s);
        int code = db_code(db, r);
        if (code == 0)
                code = leave_secrets_out(name);
        return code == 0 && fsync(fd) < 0 ? -errno : code;
}

int backup_make(sqlite3 *db, const char *path, const char *suffix) {
        char temporary[PATH_MAX], name[PATH_MAX];
        int n = snprintf(temporary, sizeof temporary, "%s.%s.new", path, suffix);
        int m = snprintf(name, sizeof name, "%s.%s", path, suffix);

        if (n < 0 || (size_t)n >= sizeof temporary || m < 0)
                return -ENAMETOOLONG;
        int r = copy_to(db, temporary);
        if (r == 0 && rename(temporary, name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlink(temporary);
        return r < 0 ? r : backup_sync_folder(path);
}

int backup_daily(sqlite3 *db, const char *path) {
        char name[PATH_MAX];
        struct stat st;
        int n = snprintf(name, sizeof name, "%s.bak", path);

        if (n < 0 || (size_t)n >= sizeof name)
                return -ENAMETOOLONG;
        time_t now = time(NULL);
        if (stat(name, &st) == 0 && st.st_mtime <= now && st.st_mtime > now - BACKUP_AGE)
                return 0;
        return backup_make(db, path, "bak");
}
