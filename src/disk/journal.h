/* The journal of an apply: what will be done to a directory, written down before it is done.
 *
 * On disk, in a state directory of ours (never in the workspace), one file per apply, whose name is its state:
 *
 *   apply-ID.new        being written; nothing in the workspace was touched
 *   apply-ID.staging    whole and synced; new content is being put beside its targets as .stockade-ID-N
 *   apply-ID.committed  all new content is on disk; the changes are being made, in the order of the journal
 *   (no file)           done, or undone
 *
 * Moves between states are renames followed by fsync of the directory. Whoever works on a journal holds a lock on the
 * file, so a journal that can be locked belongs to a process that is dead. Each operation can be repeated, and touches
 * a target only while it still is what the journal says it was. */
#pragma once

#include "base/buf.h"
#include "disk/diff.h"

enum journal_kind {
        JOURNAL_REMOVE, /* unlink a file */
        JOURNAL_RMDIR,  /* remove an empty directory */
        JOURNAL_PLACE,  /* rename what is staged as number n to its place */
        JOURNAL_MODE,   /* set permission bits */
};

struct journal_op {
        enum journal_kind kind;
        uint32_t n;          /* of what is staged; for a removal: what takes the place afterwards, or UINT32_MAX */
        uint32_t mode;       /* permission bits to set */
        struct diff_old old; /* what is there now; mode 0: nothing */
        char *path;
};

enum journal_state { JOURNAL_NONE, JOURNAL_NEW, JOURNAL_STAGING, JOURNAL_COMMITTED };

struct journal {
        enum journal_state state;
        char id[33];
        char *root; /* absolute path of the workspace, for recovery */
        uint64_t root_ino;
        struct journal_op *op;
        size_t count, room;
        int file; /* the locked journal file */
};

void journal_free(struct journal *j);
int journal_init(struct journal *j, int root, const char *root_path);
int journal_add(struct journal *j, const struct journal_op *op); /* takes a copy, of the path too */

/* ".../.stockade-ID-N" beside path. NULL when there is no memory. */
char *journal_stage_path(const struct journal *j, const char *path, uint32_t n);

int journal_write(struct journal *j, int state_dir);  /* (none) -> new -> staging */
int journal_commit(struct journal *j, int state_dir); /* staging -> committed */
int journal_end(struct journal *j, int state_dir);    /* removes the file */

/* Does all operations below root. step, when not NULL, is called before each. On failure the rest is still tried; the
 * first failure is returned, and a second call finishes what can be finished then. */
int journal_execute(const struct journal *j, int root, void (*step)(void *data), void *data, struct err *err);

/* Removes everything staged. */
int journal_undo(const struct journal *j, int root, struct err *err);

/* Whether a target still is what it was: 0, -ESTALE, or another -errno. Inode, type, and the size and time of what is
 * not a directory always count; strict adds permission bits, or the time of a directory (which says that no name came
 * or went). */
enum { JOURNAL_SAME_MODE = 1, JOURNAL_SAME_NAMES = 2 };
int journal_check(int root, const char *path, const struct diff_old *old, unsigned strict);

/* Flushes the whole file system that root is on. */
int journal_sync(int root);

/* The bytes of a journal file. journal_unpack reads them for j, whose id is set and which has no operations yet;
 * ERR_CORRUPT when they are not a whole journal of this id. The caller frees j either way. */
void journal_pack(const struct journal *j, struct buf *out);
int journal_unpack(struct journal *j, const char *data, size_t size);

/* Takes over one journal file of a dead process; ret->state tells how far that came. -EWOULDBLOCK when somebody alive
 * works on it, -ENOENT when it is gone meanwhile, ERR_CORRUPT when it is not well-formed. */
int journal_load(int state_dir, const char *name, struct journal *ret, struct err *err);
