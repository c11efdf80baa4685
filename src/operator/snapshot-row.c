/* Snapshots in memory and in the store. */
#include <stdio.h>

#include "base/log.h"
#include "operator/disk.h"
#include "operator/image.h"
#include "operator/snapshot.h"

struct snapshot *snapshot_find(struct core *o, const char *id) {
        struct table_node *n = table_find(&o->registry->snapshots, id);

        return n ? TABLE_OWNER(n, struct snapshot, node) : NULL;
}

struct snapshot *snapshot_named(struct core *o, const char *owner, const char *name) {
        _cleanup_free_ char *key = table_key(owner, name);
        struct table_node *n = key ? table_find(&o->registry->snapshot_names, key) : NULL;

        return n ? TABLE_OWNER(n, struct snapshot, by_name) : NULL;
}

struct snapshot *snapshot_ref(struct snapshot *p) {
        p->refs++;
        return p;
}

void snapshot_unref(struct snapshot *p) {
        if (--p->refs > 0)
                return;
        layers_clear(&p->layers);
        if (p->image)
                p->image->refs--;
        if (p->frozen)
                frozen_unref(p->frozen);
        free(p->name_key);
        free(p);
}

void snapshot_unregister(struct snapshot *p) {
        if (!p->node.key)
                return;
        p->owner->tally[TALLY_SNAPSHOTS]--;
        table_remove(&p->o->registry->snapshots, &p->node);
        table_remove(&p->o->registry->snapshot_names, &p->by_name);
        snapshot_unref(p);
}

static int add(struct snapshot *p, const char *name) {
        struct registry *r = p->o->registry;
        int e = 0;

        copy_text(p->name, sizeof p->name, name);
        if (name[0]) {
                p->name_key = table_key(p->owner->name, name);
                e = p->name_key ? table_add(&r->snapshot_names, &p->by_name, p->name_key) : -ENOMEM;
        }
        if (e == 0)
                e = table_add(&r->snapshots, &p->node, p->id);
        if (e < 0 && p->by_name.key)
                table_remove(&r->snapshot_names, &p->by_name);
        p->owner->tally[TALLY_SNAPSHOTS] += e == 0;
        return e;
}

int snapshot_new(struct core *o, struct owner *owner, const char *name, struct snapshot **ret) {
        struct snapshot *p = calloc(1, sizeof *p);

        if (!p)
                return -ENOMEM;
        p->o = o;
        p->owner = owner;
        p->refs = 1;
        p->created_ms = wall_ms();
        draw_id(p->id);
        int e = add(p, name);
        if (e < 0) {
                snapshot_unref(p);
                return e;
        }
        *ret = p;
        return 0;
}

void snapshot_set(struct snapshot *p, const struct sandbox *s) {
        copy_text(p->sandbox, sizeof p->sandbox, s->id);
        copy_text(p->profile, sizeof p->profile, s->profile);
        p->frozen = frozen_ref(s->frozen);
        p->image = s->image;
        if (p->image)
                p->image->refs++;
}

uint64_t snapshot_put(struct snapshot *p) {
        struct store_snapshot row = {
                .created_ms = p->created_ms,
                .ledger_seq = p->ledger_seq,
                .bytes = p->bytes,
                .pause_us = p->pause_us,
                .policy = p->frozen->policy,
                .policy_size = p->frozen->policy_size,
                .plan = p->frozen->bytes,
                .plan_size = p->frozen->size,
        };

        copy_text(row.id, sizeof row.id, p->id);
        copy_text(row.sandbox, sizeof row.sandbox, p->sandbox);
        copy_text(row.owner, sizeof row.owner, p->owner->name);
        copy_text(row.name, sizeof row.name, p->name);
        copy_text(row.state, sizeof row.state, !p->ready ? "making" : p->fleeting ? "fork" : "ready");
        copy_text(row.image, sizeof row.image, p->image ? p->image->id : "");
        copy_text(row.profile, sizeof row.profile, p->profile);
        layers_print(&p->layers, row.layers, sizeof row.layers);
        return store_put(p->o->store, STORE_SNAPSHOT, &row);
}

uint64_t snapshot_remove_row(struct snapshot *p) {
        struct store_snapshot row = {0};

        copy_text(row.id, sizeof row.id, p->id);
        return store_remove(p->o->store, STORE_SNAPSHOT, &row);
}

uint64_t snapshot_bury(struct snapshot *p) {
        struct store_snapshot row = {.created_ms = wall_ms(), .policy = "", .plan = ""};

        copy_text(row.id, sizeof row.id, p->id);
        copy_text(row.owner, sizeof row.owner, p->owner->name);
        copy_text(row.state, sizeof row.state, "deleted");
        grave_add(p->o, p->id, p->owner->name, row.created_ms);
        return store_put(p->o->store, STORE_SNAPSHOT, &row);
}

int snapshot_load(struct core *o, const struct store_snapshot *row, struct err *err) {
        struct owner *owner = owner_get(o, row->owner);
        struct snapshot *p = calloc(1, sizeof *p);

        if (!p || !owner) {
                free(p);
                return err_set(err, -ENOMEM, "could not load snapshot %s", row->id);
        }
        p->o = o;
        p->owner = owner;
        p->refs = 1;
        copy_text(p->id, sizeof p->id, row->id);
        copy_text(p->sandbox, sizeof p->sandbox, row->sandbox);
        copy_text(p->profile, sizeof p->profile, row->profile);
        p->fleeting = str_eq(row->state, "fork");
        p->ready = p->fleeting || str_eq(row->state, "ready");
        p->created_ms = row->created_ms;
        p->ledger_seq = row->ledger_seq;
        p->bytes = row->bytes;
        p->pause_us = row->pause_us;
        int r = frozen_load(o, row->policy, row->policy_size, row->plan, row->plan_size, &p->frozen, err);
        if (r == 0 && row->image[0]) {
                p->image = image_find(o, row->image);
                if (p->image)
                        p->image->refs++;
                else
                        r = err_set(err, ERR_CORRUPT, "its image %s is not in the store", row->image);
        }
        if (r == 0 && layers_parse(o, row->layers, &p->layers) < 0)
                r = err_set(err, ERR_CORRUPT, "a layer of it is not in the store");
        if (r == 0 && add(p, row->name) < 0)
                r = err_set(err, ERR_CORRUPT, "another one has its name");
        if (r < 0) {
                snapshot_unref(p);
                return err_prefix(err, r, "snapshot %s", row->id);
        }
        return 0;
}

void snapshot_json(const struct snapshot *p, struct json *j, const char *key) {
        json_open(j, key, '{');
        json_str(j, "id", p->id);
        json_str(j, "name", p->name);
        json_str(j, "sandbox", p->sandbox);
        json_str(j, "owner", p->owner->name);
        json_str(j, "state", p->ready ? "ready" : "making");
        json_str(j, "profile", p->profile);
        json_str(j, "image", p->image ? p->image->name : "");
        json_u64(j, "created_ms", p->created_ms);
        json_u64(j, "bytes", p->bytes);
        json_u64(j, "layers", p->layers.count);
        json_u64(j, "ledger_seq", p->ledger_seq);
        json_u64(j, "pause_us", p->pause_us);
        json_str(j, "root", p->frozen ? p->frozen->disk_path : NULL);
        json_close(j, '}');
}

void snapshots_free(struct core *o) {
        struct table *t = &o->registry->snapshots;

        for (struct table_node *n; (n = table_next(t, NULL));)
                snapshot_unregister(TABLE_OWNER(n, struct snapshot, node));
        table_free(t);
        table_free(&o->registry->snapshot_names);
}
