/* The schema, as steps: each takes a database from one version to the next. Steps are never changed once released. */
#pragma once

#include "store/db.h"

#define MIGRATE_APPLICATION 0x53544b44 /* "STKD": this file is ours */

unsigned migrate_newest(void);

/* What version a database has; 0: it is empty. One that is not ours is refused. */
int migrate_version(sqlite3 *db, const char *path, unsigned *ret, struct err *err);

/* Takes the steps up to a version, each in a transaction of its own. */
int migrate_to(sqlite3 *db, const char *path, unsigned version, struct err *err);
