/* Copies of the database: one that is not older than a day at a start, and one before every migration. */
#pragma once

#include "store/db.h"

/* Copies to PATH.SUFFIX, whole and durable or not at all. 0 or our code. */
int backup_make(sqlite3 *db, const char *path, const char *suffix);
/* PATH.bak, if there is none or it is older than a day. */
int backup_daily(sqlite3 *db, const char *path);
/* Makes the names in the file's folder durable. */
int backup_sync_folder(const char *path);
