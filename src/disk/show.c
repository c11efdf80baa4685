/* Listing and JSON of a diff. */
#include "disk/show.h"

#include "base/text.h"
#include "disk/tree.h"

static const struct {
        char letter;
        const char *name;
} kinds[] = {
        [DIFF_ADDED] = {'A', "added"},       [DIFF_CHANGED] = {'M', "changed"},   [DIFF_REMOVED] = {'D', "removed"},
        [DIFF_MODE] = {'P', "mode-changed"}, [DIFF_TYPE] = {'T', "type-changed"},
};
static_assert(ELEMENTSOF(kinds) == DIFF_TYPE + 1, "every kind has a row");

static const struct {
        unsigned flag;
        const char *warning;
} warnings[] = {
        {DIFF_CONFLICT, "changed outside the sandbox since the run began"},
        {DIFF_SPECIAL, "a device, socket or fifo"},
        {DIFF_SETID, "setuid or setgid bit"},
        {DIFF_MOUNT, "at a mount point that the sandbox did not see"},
};

struct totals {
        size_t kind[DIFF_TYPE + 1];
        size_t files, directories, risky, conflicts;
        uint64_t size;
};

const char *show_kind(enum diff_kind kind) {
        return kinds[kind].name;
}

const char *show_type(mode_t mode) {
        switch (mode & S_IFMT) {
        case S_IFREG:
                return "file";
        case S_IFDIR:
                return "dir";
        case S_IFLNK:
                return "symlink";
        case S_IFIFO:
                return "fifo";
        case S_IFSOCK:
                return "socket";
        default:
                return "device";
        }
}

static mode_t mode_of(const struct diff_entry *e) {
        return e->mode ? e->mode : e->old.mode;
}

static void add_size(struct buf *out, uint64_t size) {
        static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        uint64_t whole = size, rest = 0;
        size_t i = 0;

        if (size < 1024) {
                buf_printf(out, "%u B", (unsigned)size);
                return;
        }
        for (; whole >= 1024 && i < ELEMENTSOF(units); i++) {
                rest = whole % 1024;
                whole /= 1024;
        }
        buf_printf(out, "%u.%u %s", (unsigned)whole, (unsigned)(rest * 10 / 1024), units[i - 1]);
}

static void add_name(struct buf *out, const char *path, bool directory) {
        size_t room = 4 * strlen(path) + 8;
        _cleanup_free_ char *escaped = malloc(room);

        if (!escaped) {
                out->failed = true;
                return;
        }
        text_escape(escaped, room, path);
        buf_str(out, escaped);
        if (directory)
                buf_str(out, "/");
}

static void count_in(struct totals *t, const struct diff_entry *e) {
        t->kind[e->kind]++;
        t->risky += e->risk != NULL;
        t->conflicts += (e->flags & DIFF_CONFLICT) != 0;
        if (S_ISDIR(mode_of(e)))
                t->directories++;
        else {
                t->files++;
                t->size += e->size;
        }
}

static void add_counts(struct buf *out, const struct totals *t, bool with_size) {
        buf_printf(out, " (%zu file%s", t->files, t->files == 1 ? "" : "s");
        if (t->directories > 0)
                buf_printf(out, ", %zu director%s", t->directories, t->directories == 1 ? "y" : "ies");
        if (with_size) {
                buf_str(out, ", ");
                add_size(out, t->size);
        }
        buf_str(out, ")");
}

/* One entry; inside says what a collapsed directory holds, or is NULL. */
static void add_line(struct buf *out, const struct diff_entry *e, const struct totals *inside) {
        buf_printf(out, "%c ", kinds[e->kind].letter);
        add_name(out, e->path, S_ISDIR(mode_of(e)));
        if (e->kind == DIFF_TYPE)
                buf_printf(out, " (%s -> %s)", show_type(e->old.mode), show_type(e->mode));
        else if (inside && inside->files + inside->directories > 0)
                add_counts(out, inside, e->kind == DIFF_ADDED);
        else if (S_ISREG(e->mode) && e->kind != DIFF_MODE) {
                buf_str(out, " (");
                add_size(out, e->size);
                buf_str(out, ")");
        }
        if (e->mode && e->old.mode && e->kind != DIFF_TYPE && !S_ISLNK(e->mode) &&
            (e->mode & 07777) != (e->old.mode & 07777))
                buf_printf(out, " (%04o -> %04o)", (unsigned)(e->old.mode & 07777), (unsigned)(e->mode & 07777));
        if (e->risk)
                buf_printf(out, "  ! %s", e->risk);
        for (size_t i = 0; i < ELEMENTSOF(warnings); i++)
                if (e->flags & warnings[i].flag)
                        buf_printf(out, "  ! %s", warnings[i].warning);
        buf_str(out, "\n");
}

static bool collapses(const struct diff_entry *e) {
        return e->kind == DIFF_ADDED || e->kind == DIFF_REMOVED ? S_ISDIR(mode_of(e)) : e->kind == DIFF_TYPE;
}

int show_text(const struct diff *d, bool verbose, struct buf *out) {
        struct totals all = {0};

        if (out->max == 0)
                out->max = (size_t)1 << 30;
        for (size_t i = 0; i < d->count;) {
                const struct diff_entry *e = &d->entry[i];
                struct totals inside = {0};
                size_t end = i + 1;

                count_in(&all, e);
                if (!verbose && collapses(e))
                        for (; end < d->count && tree_is_below(d->entry[end].path, e->path); end++) {
                                count_in(&inside, &d->entry[end]);
                                count_in(&all, &d->entry[end]);
                        }
                add_line(out, e, &inside);
                for (i++; i < end; i++)
                        if (d->entry[i].flags || d->entry[i].risk)
                                add_line(out, &d->entry[i], NULL);
        }
        buf_printf(out, "%zu added, %zu changed, %zu removed", all.kind[DIFF_ADDED],
                   all.kind[DIFF_CHANGED] + all.kind[DIFF_MODE] + all.kind[DIFF_TYPE], all.kind[DIFF_REMOVED]);
        if (all.risky > 0)
                buf_printf(out, ", %zu that the host's tools would execute or obey", all.risky);
        if (all.conflicts > 0)
                buf_printf(out, ", %zu in conflict", all.conflicts);
        buf_str(out, "\n");
        return buf_ok(out) ? 0 : -ENOMEM;
}

static void json_mode(struct json *j, const char *key, mode_t mode) {
        char text[8];

        (void)snprintf(text, sizeof text, "%04o", (unsigned)(mode & 07777));
        json_str(j, key, mode ? text : NULL);
}

static void json_path(struct json *j, const char *path) {
        bool exact = true;

        json_str(j, "path", path);
        for (const unsigned char *p = (const unsigned char *)path; *p && exact;) {
                size_t n = text_utf8_length(p);
                exact = n > 0;
                p += n;
        }
        if (exact)
                return;
        size_t length = strlen(path);
        _cleanup_free_ char *hex = malloc(2 * length + 1);
        if (!hex) {
                j->out->failed = true;
                return;
        }
        for (size_t i = 0; i < length; i++)
                (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)path[i]);
        json_str(j, "path_hex", hex);
}

static void json_entry(struct json *j, const struct diff_entry *e) {
        json_open(j, NULL, '{');
        json_path(j, e->path);
        json_str(j, "kind", show_kind(e->kind));
        json_str(j, "type", show_type(mode_of(e)));
        if (e->kind == DIFF_TYPE)
                json_str(j, "old_type", show_type(e->old.mode));
        json_u64(j, "size", e->size);
        json_mode(j, "old_mode", e->old.mode);
        json_mode(j, "new_mode", e->mode);
        json_str(j, "risk", e->risk);
        json_open(j, "warnings", '[');
        for (size_t i = 0; i < ELEMENTSOF(warnings); i++)
                if (e->flags & warnings[i].flag)
                        json_str(j, NULL, warnings[i].warning);
        json_close(j, ']');
        json_close(j, '}');
}

int show_json(const struct diff *d, struct json *j, const char *key) {
        struct totals all = {0};

        if (j->out->max == 0)
                j->out->max = (size_t)1 << 30;
        for (size_t i = 0; i < d->count; i++)
                count_in(&all, &d->entry[i]);
        json_open(j, key, '{');
        json_u64(j, "added", all.kind[DIFF_ADDED]);
        json_u64(j, "changed", all.kind[DIFF_CHANGED] + all.kind[DIFF_MODE] + all.kind[DIFF_TYPE]);
        json_u64(j, "removed", all.kind[DIFF_REMOVED]);
        json_u64(j, "risky", all.risky);
        json_u64(j, "conflicts", all.conflicts);
        json_open(j, "entries", '[');
        for (size_t i = 0; i < d->count; i++)
                json_entry(j, &d->entry[i]);
        json_close(j, ']');
        json_close(j, '}');
        return buf_ok(j->out) ? 0 : -ENOMEM;
}
