/* SQLite, as this folder uses it: connections, errors as our codes and sentences. */
#pragma once

#include <sqlite3.h>

#include "base/err.h"

/* A connection for one thread. Not made if there is none; write: else read only. 0, or a sentence in err. */
int db_open(sqlite3 **ret, const char *path, bool write, struct err *err);
void db_close(sqlite3 **db);
void db_finalize(sqlite3_stmt **s);

/* A result of SQLite as -errno or ERR_CORRUPT; 0 for OK, ROW and DONE. */
int db_code(sqlite3 *db, int result);

/* The same with a sentence, and the next step in the hint. "could not <what>" */
int db_fail(sqlite3 *db, int result, const char *path, const char *what, struct err *err);
int db_damaged(const char *path, const char *says, struct err *err);

int db_exec(sqlite3 *db, const char *sql); /* our code */

/* The first column of the first row as a number, 0 if there is none; or as text, "" if there is none. */
int db_number(sqlite3 *db, const char *sql, int64_t *ret);
int db_text(sqlite3 *db, const char *sql, char *ret, size_t size);
