/* How much of the output of runs is kept of one owner: a note per run whose output is on disk, oldest first. It counts
 * into the owner's share of the disk; above owner_logs the oldest output goes.
 *
 * What always holds: an owner's notes add up to log_bytes, and a note is counted as at least one block, so that there
 * are never more of them than the limit has blocks. A run that goes on loses what it wrote, never its file. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "operator/run.h"

#define BLOCK 4096ULL

struct log_note {
        struct log_note *older, *newer; /* of its owner */
        struct log_note *next;          /* of its sandbox, newest first */
        struct sandbox *sandbox;
        struct run *run; /* while it may be written */
        uint32_t number;
        uint64_t bytes;
};

static void count(struct log_note *n, uint64_t bytes) {
        struct owner *owner = n->sandbox->owner;
        uint64_t more = bytes - n->bytes; /* unsigned: also downwards */

        owner->log_bytes += more;
        owner->used.disk += more;
        n->sandbox->o->registry->used.disk += more;
        n->bytes = bytes;
}

/* --- by age --- */

static void append(struct log_note *n) {
        struct owner *owner = n->sandbox->owner;

        n->older = owner->newest_log;
        n->newer = NULL;
        *(n->older ? &n->older->newer : &owner->oldest_log) = n;
        owner->newest_log = n;
}

static void take_out(struct log_note *n) {
        struct owner *owner = n->sandbox->owner;

        *(n->older ? &n->older->newer : &owner->oldest_log) = n->newer;
        *(n->newer ? &n->newer->older : &owner->newest_log) = n->older;
}

/* --- notes --- */

static struct log_note *find(struct sandbox *s, uint32_t number) {
        struct log_note *n = s->log_notes;

        while (n && n->number != number)
                n = n->next;
        return n;
}

static struct log_note *note_new(struct sandbox *s, uint32_t number) {
        struct log_note *n = calloc(1, sizeof *n);

        if (!n)
                return NULL;
        n->sandbox = s;
        n->number = number;
        n->next = s->log_notes;
        s->log_notes = n;
        count(n, BLOCK);
        return n;
}

static void note_free(struct log_note *n) {
        for (struct log_note **p = &n->sandbox->log_notes; *p; p = &(*p)->next)
                if (*p == n) {
                        *p = n->next;
                        break;
                }
        count(n, 0);
        take_out(n);
        if (n->run)
                n->run->note = NULL;
        free(n);
}

void log_share_drop(struct sandbox *s, uint32_t number) {
        struct log_note *n = find(s, number);

        if (n)
                note_free(n);
}

void log_share_forget(struct sandbox *s) {
        while (s->log_notes)
                note_free(s->log_notes);
}

void log_share_leave(struct run *r) {
        if (r->note)
                r->note->run = NULL;
        r->note = NULL;
}

/* --- the limit --- */

static uint64_t kept(const struct run *r) {
        uint64_t bytes = 0;

        for (unsigned side = 0; side < RUN_SIDES; side++)
                if (!r->logs[side].broken)
                        bytes += (r->logs[side].size - r->logs[side].from + BLOCK - 1) / BLOCK * BLOCK;
        return MAX(bytes, BLOCK);
}

static void shrink(struct run *r, unsigned part) {
        for (unsigned side = 0; side < RUN_SIDES; side++)
                run_log_shrink(r, (enum run_side)side, (r->logs[side].size - r->logs[side].from) / part);
        count(r->note, kept(r));
}

/* A little more than has to go, so that not every write comes here. */
static void make_room(struct owner *owner, struct log_note *writer, uint64_t most) {
        uint64_t enough = most - most / 8;

        for (struct log_note *n = owner->oldest_log, *next; n && owner->log_bytes > enough; n = next) {
                next = n->newer;
                if (n == writer || (n->run && n->bytes <= RUN_SIDES * BLOCK))
                        continue;
                if (!n->run)
                        run_log_remove(n->sandbox, n->number); /* and its note */
                else {
                        shrink(n->run, UINT_MAX);
                        take_out(n);
                        append(n); /* what comes next of it is new */
                }
        }
        if (owner->log_bytes > most) /* there is nothing but the one that writes */
                shrink(writer->run, 2);
}

void log_share_grow(struct run *r) {
        struct sandbox *s = r->sandbox;
        struct owner *owner = s->owner;

        if (!owner)
                return;
        if (!r->note) {
                r->note = find(s, r->number);
                if (!r->note) {
                        r->note = note_new(s, r->number);
                        if (!r->note)
                                return;
                        append(r->note);
                }
                r->note->run = r;
        }
        count(r->note, kept(r));
        if (owner->log_bytes > s->o->conf.owner_logs)
                make_room(owner, r->note, s->o->conf.owner_logs);
}

/* --- what an earlier operator left --- */

struct old_log {
        struct timespec when;
        struct log_note *note;
};

struct old_logs {
        struct old_log *items;
        size_t count, room;
};

static int by_age(const void *a, const void *b) {
        const struct timespec *x = &((const struct old_log *)a)->when, *y = &((const struct old_log *)b)->when;

        return x->tv_sec != y->tv_sec ? (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec)
                                      : (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static int take_file(struct sandbox *s, int dir, const char *name, struct old_logs *all) {
        struct stat st;
        char *end;
        unsigned long number = strtoul(name, &end, 10);

        if (number == 0 || number > UINT32_MAX || *end != '.' || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        uint64_t bytes = (uint64_t)st.st_blocks * 512;
        struct log_note *n = find(s, (uint32_t)number);
        if (n) { /* its other side */
                count(n, n->bytes + bytes);
                return 0;
        }
        if (all->count == all->room) {
                size_t room = all->room ? 2 * all->room : 256;
                struct old_log *items = reallocarray(all->items, room, sizeof *items);

                if (!items)
                        return -ENOMEM;
                all->items = items;
                all->room = room;
        }
        n = note_new(s, (uint32_t)number);
        if (!n)
                return -ENOMEM;
        count(n, MAX(bytes, BLOCK));
        n->run = run_find(s, (uint32_t)number);
        if (n->run)
                n->run->note = n;
        all->items[all->count++] = (struct old_log){st.st_mtim, n};
        return 0;
}

int log_share_load(struct core *o) {
        struct old_logs all = {0};
        int r = 0;

        for (struct sandbox *s = o->registry->first; s; s = s->next) {
                char folder[32];

                (void)snprintf(folder, sizeof folder, "logs/%s", s->id);
                int fd = openat(o->state, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
                if (!dir) {
                        fd_close(&fd);
                        continue;
                }
                for (struct dirent *e; r == 0 && (e = readdir(dir));)
                        r = take_file(s, dirfd(dir), e->d_name, &all);
                (void)closedir(dir);
        }
        if (all.count > 0)
                qsort(all.items, all.count, sizeof all.items[0], by_age);
        for (size_t i = 0; i < all.count; i++)
                append(all.items[i].note);
        free(all.items);
        return r;
}
