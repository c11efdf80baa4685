/* Admission. Limits of sandboxes are promises that are seldom used whole, so "what the host has" stands for a multiple
 * of it; whoever wants it exact says numbers. Disks are sparse: without a number, the free space of the host decides,
 * by the mark below which writers are paused. */
#include "operator/admission.h"

#include <stdio.h>

#include "base/text.h"

#define MEMORY_FACTOR 64
#define CPUS_FACTOR   1024
#define COUNT_DEFAULT 1024

static uint64_t times(uint64_t value, uint64_t factor) {
        uint64_t product;

        return value == 0 || __builtin_mul_overflow(value, factor, &product) ? UINT64_MAX : product;
}

static uint64_t either(uint64_t configured, uint64_t otherwise) {
        return configured ? configured : otherwise;
}

void admission_open(struct core *o) {
        const struct conf *c = &o->conf;
        struct registry *r = o->registry;

        r->most = (struct share){
                .sandboxes = either(c->max_sandboxes, COUNT_DEFAULT),
                .memory = either(c->max_memory, times(o->facts[WARDEN_FACT_MEMORY], MEMORY_FACTOR)),
                .cpus = either(c->max_cpus, times(o->facts[WARDEN_FACT_CPUS], CPUS_FACTOR)),
                .disk = either(c->max_disk, UINT64_MAX),
        };
        r->most_each = (struct share){
                .sandboxes = either(c->owner_sandboxes, r->most.sandboxes),
                .memory = either(c->owner_memory, r->most.memory),
                .cpus = either(c->owner_cpus, r->most.cpus),
                .disk = either(c->owner_disk, r->most.disk),
        };
}

/* One row per thing that is counted. */
static const struct {
        size_t offset;
        enum text_unit unit;
        const char *what, *host_key, *owner_key, *remedy;
} rows[] = {
        {offsetof(struct share, sandboxes), TEXT_COUNT, "sandboxes", "max_sandboxes", "owner_sandboxes",
         "stop or delete one that is not needed"},
        {offsetof(struct share, memory), TEXT_BYTES, "memory", "max_memory", "owner_memory",
         "stop a sandbox, ask for less (limits.memory)"},
        {offsetof(struct share, cpus), TEXT_CPUS, "processors", "max_cpus", "owner_cpus",
         "stop a sandbox, ask for fewer (limits.cpus)"},
        {offsetof(struct share, disk), TEXT_BYTES, "disk space", "max_disk", "owner_disk",
         "delete snapshots, images and sandboxes that are not needed, ask for a smaller workspace"},
};

static uint64_t value(const struct share *s, size_t i) {
        uint64_t v;

        memcpy(&v, (const char *)s + rows[i].offset, sizeof v);
        return v;
}

static int refuse(size_t i, bool host, uint64_t used, uint64_t more, uint64_t most, struct err *err) {
        char a[32], b[32], c[32];

        (void)err_set(err, ERR_LIMIT, "no room for more %s%s: %s in use, %s asked for, %s is the limit", rows[i].what,
                      host ? "" : " of this owner", text_format(a, sizeof a, rows[i].unit, used),
                      text_format(b, sizeof b, rows[i].unit, more), text_format(c, sizeof c, rows[i].unit, most));
        (void)err_hint(err, "%s, or raise %s in stockade.conf", rows[i].remedy,
                       host ? rows[i].host_key : rows[i].owner_key);
        return ERR_LIMIT;
}

static bool fits(uint64_t used, uint64_t more, uint64_t most) {
        return more == 0 || (used <= most && more <= most - used);
}

int admission_check(struct core *o, const struct owner *owner, const struct share *more, struct err *err) {
        const struct registry *r = o->registry;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                uint64_t want = value(more, i);

                if (!fits(value(&r->used, i), want, value(&r->most, i)))
                        return refuse(i, true, value(&r->used, i), want, value(&r->most, i), err);
                if (!fits(value(&owner->used, i), want, value(&r->most_each, i)))
                        return refuse(i, false, value(&owner->used, i), want, value(&r->most_each, i), err);
        }
        return 0;
}

uint64_t admission_disk_left(struct core *o, const struct owner *owner) {
        const struct registry *r = o->registry;
        uint64_t host = r->most.disk - MIN(r->used.disk, r->most.disk);

        return MIN(host, r->most_each.disk - MIN(owner->used.disk, r->most_each.disk));
}

int admission_one_more(struct core *o, const struct owner *owner, enum tally what, struct err *err) {
        static const struct {
                size_t offset; /* of its key in struct conf */
                const char *what, *key, *remedy;
        } tallies[] = {
                [TALLY_SNAPSHOTS] = {offsetof(struct conf, owner_snapshots), "snapshots", "owner_snapshots",
                                     "delete some that are not needed"},
                [TALLY_IMAGES] = {offsetof(struct conf, owner_images), "images", "owner_images",
                                  "remove some that are not needed"},
                [TALLY_KEYS] = {offsetof(struct conf, owner_keys), "requests with a key", "owner_keys",
                                "they are forgotten after a day; leave 'key' out where a retry does no harm"},
                [TALLY_WATCHERS] = {offsetof(struct conf, owner_watchers), "readers of events and watchers of files",
                                    "owner_watchers", "end some of them"},
        };
        static_assert(ELEMENTSOF(tallies) == TALLIES, "every tally has a row");
        uint64_t most;

        memcpy(&most, (const char *)&o->conf + tallies[what].offset, sizeof most);
        if (owner->tally[what] < most)
                return 0;
        (void)err_set(err, ERR_LIMIT, "this owner has %llu %s, which is the limit", (unsigned long long)most,
                      tallies[what].what);
        (void)err_hint(err, "%s, or raise %s in stockade.conf", tallies[what].remedy, tallies[what].key);
        return ERR_LIMIT;
}

static struct share share_of(const struct frozen *f) {
        return (struct share){
                .sandboxes = 1,
                .memory = f->memory == FROZEN_UNSET ? 0 : f->memory,
                .cpus = f->cpus == FROZEN_UNSET ? 0 : f->cpus,
        };
}

static void add(struct share *to, const struct share *s, bool more) {
        to->sandboxes += more ? s->sandboxes : -s->sandboxes;
        to->memory += more ? s->memory : -s->memory;
        to->cpus += more ? s->cpus : -s->cpus;
}

static void count(struct sandbox *s, bool in) {
        struct share share = share_of(s->frozen);

        if (s->admitted == in)
                return;
        add(&s->owner->used, &share, in);
        add(&s->o->registry->used, &share, in);
        s->admitted = in;
}

int admission_enter(struct sandbox *s, uint64_t disk, struct err *err) {
        struct share share = s->admitted ? (struct share){0} : share_of(s->frozen);

        share.disk = disk;
        int r = admission_check(s->o, s->owner, &share, err);
        if (r == 0)
                count(s, true);
        return r;
}

void admission_count(struct sandbox *s) {
        count(s, true);
}

void admission_leave(struct sandbox *s) {
        count(s, false);
}
