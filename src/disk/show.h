/* A diff for people and for programs. Names were chosen by the sandbox: they print as inert text. */
#pragma once

#include "base/json.h"
#include "disk/diff.h"

/* One line per change and a last line with the totals:
 *
 *   A src/new.c (1.2 KiB)
 *   M .git/config (310 B)  ! git runs commands that its configuration names
 *   P run.sh (0644 -> 0755)
 *   D old/ (500 files, 3 directories)
 *
 * A added, M content changed, P permissions, T type changed, D removed. Without verbose, a directory that is wholly
 * new or wholly gone is one line, and below it only what carries a warning. Raises out->max when it is 0. */
int show_text(const struct diff *d, bool verbose, struct buf *out);

/* {"added": n, "changed": n, "removed": n, "risky": n, "conflicts": n, "entries": [...]}. An entry whose path is not
 * UTF-8 has "path_hex" with the exact bytes too. */
int show_json(const struct diff *d, struct json *j, const char *key);

const char *show_kind(enum diff_kind kind);
const char *show_type(mode_t mode);
