/* Images by name. A row is written when an image is whole; what is at the warden without one is removed. */
#include "operator/image.h"

#include <stdio.h>

#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/life.h"
#include "operator/transfer.h"

#define IMAGE_BYTES  (16ULL << 30)
#define IMAGE_INODES 2000000ULL
#define PATIENCE_MS  10000 /* for a full disk, when something was removed from it */

struct image *image_find(struct core *o, const char *id) {
        struct table_node *n = table_find(&o->registry->images, id);

        return n ? TABLE_OWNER(n, struct image, node) : NULL;
}

static struct image *named(struct core *o, const char *owner, const char *name) {
        _cleanup_free_ char *key = table_key(owner, name);
        struct table_node *n = key ? table_find(&o->registry->image_names, key) : NULL;

        return n ? TABLE_OWNER(n, struct image, by_name) : NULL;
}

struct image *image_named(struct core *o, const char *owner, const char *name) {
        struct image *i = named(o, owner, name);

        return i ? i : named(o, "uid:0", name);
}

/* Counted from the moment that it is being made, then as large as it may become. */
static void count(struct core *o, struct image *i, bool in) {
        if (i->counted == in)
                return;
        i->counted = in;
        i->owner->tally[TALLY_IMAGES] += in ? UINT64_C(1) : -UINT64_C(1);
        i->owner->used.disk += in ? i->bytes : -i->bytes;
        o->registry->used.disk += in ? i->bytes : -i->bytes;
}

static void image_free(struct core *o, struct image *i) {
        count(o, i, false);
        table_remove(&o->registry->images, &i->node);
        table_remove(&o->registry->image_names, &i->by_name);
        free(i->name_key);
        free(i);
}

static int add(struct core *o, struct image *i) {
        i->name_key = table_key(i->owner->name, i->name);
        if (!i->name_key)
                return -ENOMEM;
        int r = table_add(&o->registry->image_names, &i->by_name, i->name_key);
        if (r == 0)
                r = table_add(&o->registry->images, &i->node, i->id);
        if (r == 0)
                count(o, i, true);
        return r;
}

int image_load(struct core *o, const struct store_image *row) {
        struct image *i = calloc(1, sizeof *i);
        struct owner *owner = owner_get(o, row->owner);

        if (!i || !owner || !warden_is_id(row->id)) {
                free(i);
                return owner && i ? ERR_CORRUPT : -ENOMEM;
        }
        copy_text(i->id, sizeof i->id, row->id);
        copy_text(i->name, sizeof i->name, row->name);
        copy_text(i->about, sizeof i->about, row->about);
        i->owner = owner;
        i->created_ms = row->created_ms;
        i->bytes = row->bytes;
        i->entries = row->entries;
        int r = add(o, i);
        if (r < 0)
                image_free(o, i);
        return r;
}

static uint64_t put(struct core *o, const struct image *i) {
        struct store_image row = {.created_ms = i->created_ms, .bytes = i->bytes, .entries = i->entries};

        copy_text(row.id, sizeof row.id, i->id);
        copy_text(row.owner, sizeof row.owner, i->owner->name);
        copy_text(row.name, sizeof row.name, i->name);
        copy_text(row.about, sizeof row.about, i->about);
        return store_put(o->store, STORE_IMAGE, &row);
}

void image_json(const struct image *i, struct json *j, const char *key) {
        json_open(j, key, '{');
        json_str(j, "id", i->id);
        json_str(j, "name", i->name);
        json_str(j, "owner", i->owner->name);
        json_str(j, "about", i->about);
        json_u64(j, "created_ms", i->created_ms);
        json_u64(j, "bytes", i->bytes);
        json_u64(j, "entries", i->entries);
        json_u64(j, "used_by", i->refs);
        json_close(j, '}');
}

void images_free(struct core *o) {
        for (struct table_node *n; (n = table_next(&o->registry->images, NULL));)
                image_free(o, TABLE_OWNER(n, struct image, node));
        table_free(&o->registry->images);
        table_free(&o->registry->image_names);
}

static void told(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        (void)data;
        (void)answer;
        (void)fds;
        (void)fd_count;
}

static void drop(struct core *o, const char *id) {
        struct warden_message m = {.kind = WARDEN_IMAGE_DROP};

        copy_text(m.id, sizeof m.id, id);
        (void)warden_call(o, &m, NULL, 0, told, NULL); /* what is left is found at the next start */
}

/* --- import ---------------------------------------------------------------------------------------------------------
 */

struct import {
        struct core *o;
        struct call *call;
        struct image *image;
        struct durable durable;
        bool dropped;
};

static void stored(struct durable *d, int error) {
        struct import *m = LOOP_OWNER(d, struct import, durable);

        if (error < 0)
                call_refuse_text(m->call, "full", "make room on the disk of the state folder",
                                 "the image is there, but could not be written down: %s", err_name(error));
        else
                call_done(m->call);
        free(m);
}

static void unpacked(struct transfer *t) {
        struct image *i = t->data;
        struct import *m = calloc(1, sizeof *m);
        struct call *c = t->call;
        struct core *o = t->o;
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct err err = t->err;
        uint64_t seq = 0;
        int e = t->error;

        count(o, i, false);
        if (e == 0) {
                i->bytes = t->answer.numbers[0];
                i->entries = t->answer.numbers[1];
                copy_text(i->about, sizeof i->about, t->text);
                e = !m ? call_err(&err, -ENOMEM, "out of memory") : add(o, i);
                if (e == -EEXIST)
                        (void)call_err(&err, e, "there is an image '%s' already", i->name);
                image_json(i, &j, NULL);
                if (e == 0)
                        e = record_needed(o, LEDGER_IMAGE_IMPORT, "", c->actor, b.data, &seq, &err);
        }
        transfer_free(t);
        if (e < 0) {
                drop(o, i->id);
                table_remove(&o->registry->image_names, &i->by_name);
                image_free(o, i);
                free(m);
                call_refuse(c, &err);
                return;
        }
        *m = (struct import){.o = o, .call = c, .image = i};
        store_begin(o->store);
        m->durable = (struct durable){.seq = seq, .ticket = put(o, i), .done = stored};
        uint64_t ticket = call_settle(c, &b);
        store_end(o->store);
        m->durable.ticket = MAX(m->durable.ticket, ticket);
        durable_wait(o, &m->durable);
}

void image_import(struct call *c) {
        struct core *o = c->o;
        struct warden_message m = {.kind = WARDEN_IMAGE};
        struct image *i = calloc(1, sizeof *i);
        struct owner *owner = owner_get(o, c->owner);
        char kind[32];
        struct err err = {0};

        if (!i || !owner)
                (void)call_err(&err, -ENOMEM, "out of memory");
        else if (o->rootless) {
                (void)call_err(&err, ERR_UNENFORCED, "images cannot be had without root");
                (void)err_hint(&err, "run the daemon as root");
        } else if (!life_refuses(o, true, &err) && admission_one_more(o, owner, TALLY_IMAGES, &err) == 0)
                (void)admission_check(o, owner, &(struct share){.disk = 1}, &err);
        if (i)
                (void)call_text(c, "name", i->name, sizeof i->name);
        if (err.code == 0 && named(o, c->owner, i->name)) {
                (void)call_err(&err, -EEXIST, "there is an image '%s' already", i->name);
                (void)err_hint(&err, "choose another name, or remove that one");
        }
        struct transfer *t = err.code == 0 ? transfer_new(c, true, unpacked) : NULL;
        if (!t) {
                free(i);
                if (err.code < 0)
                        call_refuse(c, &err);
                return;
        }
        draw_id(i->id);
        i->owner = owner;
        i->created_ms = wall_ms();
        t->data = i;
        copy_text(m.id, sizeof m.id, i->id);
        m.size = MIN(MIN(IMAGE_BYTES, o->conf.ceiling_disk), admission_disk_left(o, owner));
        i->bytes = m.size;
        count(o, i, true);
        m.inodes = MIN(IMAGE_INODES, o->conf.ceiling_inodes);
        m.text = call_text(c, "kind", kind, sizeof kind);
        m.hint = "";
        transfer_begin(t, &m);
}

/* --- remove ---------------------------------------------------------------------------------------------------------
 */

static void removed(struct durable *d, int error) {
        struct import *m = LOOP_OWNER(d, struct import, durable);
        struct buf nothing = {0};

        if (!m->dropped)
                drop(m->o, m->image->id);
        if (error < 0 && !m->dropped) { /* what has gone makes room for its row */
                m->dropped = true;
                d->patience = loop_now(m->o->loop) + PATIENCE_MS;
                durable_wait(m->o, d);
                return;
        }
        if (error < 0)
                call_refuse_text(m->call, "full", "make room on the disk of the state folder",
                                 "it is removed, but that could not be written down yet: %s", err_name(error));
        else
                call_answer(m->call, &nothing);
        free(m->image->name_key);
        free(m->image);
        free(m);
}

void image_remove(struct call *c, struct image *i) {
        struct core *o = c->o;
        struct store_image row = {0};

        if (o->registry->incomplete) {
                call_refuse_text(c, "conflict", "the log says which row it is; repair the store first",
                                 "some of the store could not be read, and what that is may use image %s", i->name);
                return;
        }
        if (i->refs > 0) {
                call_refuse_text(c, "conflict", "delete them first: 'stockade list' and 'stockade snapshots' show them",
                                 "image %s is used by %u sandboxes and snapshots", i->name, i->refs);
                return;
        }
        struct import *m = calloc(1, sizeof *m);
        int64_t seq = m ? record_text(o, LEDGER_IMAGE_REMOVE, "", c->actor, "image", i->id) : -ENOMEM;
        if (!m || (seq < 0 && o->conf.require_recording)) {
                free(m);
                call_refuse_text(c, "full", "make room on the disk of the ledger", "it cannot be recorded now");
                return;
        }
        count(o, i, false);
        table_remove(&o->registry->images, &i->node);
        table_remove(&o->registry->image_names, &i->by_name);
        *m = (struct import){.o = o, .call = c, .image = i};
        copy_text(row.id, sizeof row.id, i->id);
        m->durable = (struct durable){.seq = seq > 0 ? (uint64_t)seq : 0,
                                      .ticket = store_remove(o->store, STORE_IMAGE, &row),
                                      .done = removed};
        durable_wait(o, &m->durable);
}
