/* Disks by reference. The last reference goes only after the rows that had it are durable, so that whoever comes after
 * us never finds a sandbox whose disk is gone; a disk that is still there without a reference is dropped then. */
#include "operator/disk.h"

#include "base/log.h"
#include "operator/warden-link.h"

#define RETRY_MS 500 /* a disk may be busy for a moment after its sandbox has ended */

struct disk *disk_find(struct core *o, const char *id) {
        struct table_node *n = table_find(&o->registry->disks, id);

        return n ? TABLE_OWNER(n, struct disk, node) : NULL;
}

static void count(struct disk *d, uint64_t bytes) {
        struct registry *r = d->o->registry;

        if (d->owner) {
                d->owner->used.disk += bytes - d->counted; /* unsigned: also downwards */
                r->used.disk += bytes - d->counted;
        }
        d->counted = d->owner ? bytes : 0;
}

static void forget(struct disk *d) {
        count(d, 0);
        loop_timer_clear(d->o->loop, &d->timer);
        table_remove(&d->o->registry->disks, &d->node);
        free(d);
}

static void drop(struct disk *d);

static void try_again(struct loop_timer *t) {
        drop(LOOP_OWNER(t, struct disk, timer));
}

static void dropped(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct disk *d = data;
        struct store_disk row = {0};

        (void)fds;
        (void)fd_count;
        if (answer->error < 0) {
                if (d->tries++ == 8)
                        log_line(LOG_LEVEL_WARNING, NULL, "disk %s cannot be dropped: %s", d->id, answer->text);
                d->timer.fire = try_again;
                loop_timer_set(d->o->loop, &d->timer, loop_now(d->o->loop) + RETRY_MS * MIN(1U << d->tries, 64U));
                return;
        }
        if (d->stored) {
                copy_text(row.id, sizeof row.id, d->id);
                (void)store_remove(d->o->store, STORE_DISK, &row);
        }
        forget(d);
}

/* A row that we could not read may name it. */
static bool stays(const struct disk *d) {
        return d->o->registry->incomplete && (d->sealed || d->refs_unknown);
}

static void drop(struct disk *d) {
        struct warden_message m = {.kind = WARDEN_DISK_DROP};

        if (stays(d))
                return;
        copy_text(m.id, sizeof m.id, d->id);
        if (warden_call(d->o, &m, NULL, 0, dropped, d) < 0) {
                d->timer.fire = try_again;
                loop_timer_set(d->o->loop, &d->timer, loop_now(d->o->loop) + RETRY_MS);
        }
}

struct disk *disk_ref(struct disk *d) {
        d->refs++;
        return d;
}

void disk_unref(struct disk *d) {
        if (!d || --d->refs > 0 || d->o->registry->closing || d->o->registry->loading)
                return;
        drop(d);
}

static struct disk *add(struct core *o, const char *id, struct owner *owner, uint64_t size, uint64_t inodes) {
        struct disk *d = calloc(1, sizeof *d);

        if (!d)
                return NULL;
        d->o = o;
        copy_text(d->id, sizeof d->id, id);
        d->size = size;
        d->inodes = inodes;
        d->owner = owner;
        if (table_add(&o->registry->disks, &d->node, d->id) < 0) {
                free(d);
                return NULL;
        }
        count(d, size);
        return d;
}

struct disk *disk_new(struct core *o, struct owner *owner, uint64_t size, uint64_t inodes) {
        char id[STORE_ID];

        draw_id(id);
        struct disk *d = add(o, id, owner, size, inodes);
        if (d) {
                d->created_ms = wall_ms();
                d->refs = 1;
        }
        return d;
}

void disk_orphan(struct core *o, const char *id) {
        struct disk *d = add(o, id, NULL, 0, 0);

        if (d)
                drop(d);
}

bool disk_dropping(const struct core *o) {
        for (struct table_node *n = table_next(&o->registry->disks, NULL); n; n = table_next(&o->registry->disks, n))
                if (TABLE_OWNER(n, struct disk, node)->refs == 0 && !stays(TABLE_OWNER(n, struct disk, node)))
                        return true;
        return false;
}

int disk_load(struct core *o, const struct store_disk *row) {
        struct owner *owner = owner_get(o, row->owner);

        if (!owner || !warden_is_id(row->id))
                return owner ? ERR_CORRUPT : -ENOMEM;
        struct disk *d = add(o, row->id, owner, row->size, row->inodes);
        if (!d)
                return -ENOMEM;
        d->created_ms = row->created_ms;
        d->sealed = row->sealed;
        d->stored = true;
        return 0;
}

uint64_t disk_put(struct disk *d) {
        struct store_disk row = {
                .size = d->size, .inodes = d->inodes, .sealed = d->sealed, .created_ms = d->created_ms};

        copy_text(row.id, sizeof row.id, d->id);
        copy_text(row.owner, sizeof row.owner, d->owner->name);
        d->stored = true;
        return store_put(d->o->store, STORE_DISK, &row);
}

void disk_own(struct disk *d, struct owner *owner) {
        d->owner = owner;
        count(d, d->size);
}

static void measured(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct disk *d = data;

        (void)fds;
        (void)fd_count;
        if (answer->error == 0)
                count(d, MIN(answer->numbers[WARDEN_SPACE_HOST], d->size));
        disk_unref(d);
}

static void measure(struct disk *d) {
        struct warden_message m = {.kind = WARDEN_DISK_SPACE};

        copy_text(m.id, sizeof m.id, d->id);
        if (warden_call(d->o, &m, NULL, 0, measured, d) == 0)
                (void)disk_ref(d);
}

void disk_seal(struct disk *d) {
        d->sealed = true;
        measure(d);
}

void disk_settle_all(struct core *o) {
        struct table *t = &o->registry->disks;

        for (struct table_node *n = table_next(t, NULL); n; n = table_next(t, n)) {
                struct disk *d = TABLE_OWNER(n, struct disk, node);

                d->refs_unknown = d->refs == 0;
                if (d->refs == 0)
                        drop(d);
                else if (d->sealed)
                        measure(d);
        }
}

void disks_free(struct core *o) {
        struct table *t = &o->registry->disks;

        for (struct table_node *n; (n = table_next(t, NULL));)
                forget(TABLE_OWNER(n, struct disk, node));
        table_free(t);
}
