/* Verbs about snapshots, differences, archives and images. */
#include <stdio.h>

#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/image.h"
#include "operator/life.h"
#include "operator/snapshot.h"
#include "operator/transfer.h"
#include "operator/verbs.h"

static void go(struct task *t) {
        if (t)
                task_go(t);
}

void verb_snapshot(struct call *c) {
        char name[STORE_NAME];

        go(snapshot_make(c->sandbox, c, call_text(c, "name", name, sizeof name)));
}

void verb_rollback(struct call *c) {
        go(snapshot_rollback(c->sandbox, c, c->snapshot));
}

void verb_snapshot_delete(struct call *c) {
        snapshot_delete(c->o, c, c->snapshot);
}

void verb_snapshots(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        struct table *t = &c->o->registry->snapshots;
        bool all = call_bool(c, "all");

        if (all && !c->admin) {
                call_refuse_text(c, "refused", "leave 'all' out", "only root and the operator's own user see others'");
                return;
        }
        json_open(&j, NULL, '{');
        json_open(&j, "snapshots", '[');
        for (struct table_node *n = table_next(t, NULL); n; n = table_next(t, n)) {
                const struct snapshot *p = TABLE_OWNER(n, struct snapshot, node);
                bool his = all || str_eq(p->owner->name, c->owner);

                if (p->fleeting)
                        continue;
                if (c->sandbox ? str_eq(p->sandbox, c->sandbox->id) && (his || c->admin) : his)
                        snapshot_json(p, &j, NULL);
        }
        json_close(&j, ']');
        json_close(&j, '}');
        call_answer(c, &b);
}

/* --- diff -----------------------------------------------------------------------------------------------------------
 */

struct counts {
        uint64_t added, changed, removed;
        struct layers from, to; /* held until it has ended */
};

static void diff_line(struct transfer *t, char *text) {
        struct counts *n = t->data;
        char change[16];

        if (json_check(text, strlen(text), NULL) < 0 || !json_find_str(text, "change", change, sizeof change))
                return;
        n->added += str_eq(change, "added");
        n->changed += str_eq(change, "changed");
        n->removed += str_eq(change, "removed");
        (void)client_send(t->call->client, LOCAL_EVENT, text, strlen(text));
}

static void diff_done(struct transfer *t) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct counts *n = t->data;
        struct call *c = t->call;
        struct err err = t->err;
        int e = t->error;

        json_open(&j, NULL, '{');
        json_u64(&j, "added", n->added);
        json_u64(&j, "changed", n->changed);
        json_u64(&j, "removed", n->removed);
        json_close(&j, '}');
        layers_clear(&n->from);
        layers_clear(&n->to);
        free(n);
        transfer_free(t);
        if (e < 0)
                call_refuse(c, &err);
        else
                call_answer(c, &b);
}

/* A snapshot's layers, or those of a stopped sandbox with its disk. */
static int find_chain(struct call *c, const char *field, struct layers *ret, struct image **image, struct err *err) {
        char text[STORE_NAME];
        struct snapshot *p = verbs_snapshot(c, call_text(c, field, text, sizeof text));
        struct sandbox *s = p ? NULL : verbs_sandbox(c, text);
        int r;

        if (p && !p->ready)
                return call_err(err, -EBUSY, "snapshot %s is not ready", p->id);
        if (p) {
                *image = p->image;
                r = layers_copy(ret, NULL, &p->layers);
        } else if (s && s->disk && !s->up && ops_idle(&s->ops)) {
                *image = s->image;
                r = layers_copy(ret, s->disk, &s->layers);
        } else if (s) {
                (void)call_err(err, -EEXIST, "sandbox %s is %s%s", text, state_name(s->state),
                               s->disk ? "" : " and has no disk");
                return err_hint(err, "stop it, or take a snapshot and compare with that");
        } else {
                (void)call_err(err, -ENOENT, "there is no snapshot '%s', and no sandbox", text);
                return err_hint(err, "'stockade snapshots' shows what there is");
        }
        return r < 0 ? call_err(err, r, "out of memory") : 0;
}

void verb_diff(struct call *c) {
        struct warden_message m = {.kind = WARDEN_DIFF};
        struct image *image = NULL, *other = NULL;
        struct counts *n = calloc(1, sizeof *n);
        struct err err = {0};

        int r = n ? find_chain(c, "from", &n->from, &image, &err) : call_err(&err, -ENOMEM, "out of memory");
        if (r == 0)
                r = find_chain(c, "to", &n->to, &other, &err);
        if (r == 0 && image != other)
                r = call_err(&err, -EEXIST, "the two are over different images");
        if (r == 0 && n->from.count + n->to.count > WARDEN_LAYERS_MAX)
                r = call_err(&err, -EBUSY, "their disks have too many layers");
        struct transfer *t = r == 0 ? transfer_new(c, false, diff_done) : NULL;
        if (!t) {
                if (n) {
                        layers_clear(&n->from);
                        layers_clear(&n->to);
                }
                free(n);
                if (r < 0)
                        call_refuse(c, &err);
                return;
        }
        t->line = diff_line;
        t->data = n;
        copy_text(m.image, sizeof m.image, image ? image->id : "");
        layers_message(&n->from, &m);
        m.split = m.layer_count;
        layers_message(&n->to, &m);
        transfer_begin(t, &m);
}

/* --- export ---------------------------------------------------------------------------------------------------------
 */

static void bytes_json(uint64_t bytes, struct buf *b) {
        struct json j = {.out = b};

        json_open(&j, NULL, '{');
        json_u64(&j, "bytes", bytes);
        json_close(&j, '}');
}

static void exported(struct transfer *t) {
        _cleanup_buf_ struct buf b = {0};
        struct call *c = t->call;
        struct err err = t->err;
        int e = t->error;

        bytes_json(t->bytes, &b);
        snapshot_unref(t->data);
        transfer_free(t);
        if (e < 0)
                call_refuse(c, &err);
        else
                call_answer(c, &b);
}

struct export {
        struct call *call;
        struct snapshot *snapshot;
        struct durable durable;
};

static void export_begin(struct durable *d, int error) {
        struct export *e = LOOP_OWNER(d, struct export, durable);
        struct warden_message m = {.kind = WARDEN_EXPORT};
        struct snapshot *p = e->snapshot;
        struct call *c = e->call;
        struct transfer *t = NULL;

        free(e);
        if (error < 0)
                call_refuse_text(c, "full", "make room on the disk of the ledger", "it could not be recorded: %s",
                                 err_name(error));
        else if (!c->client)
                call_drop(c);
        else
                t = transfer_new(c, false, exported);
        if (!t) {
                snapshot_unref(p);
                return;
        }
        t->data = p;
        copy_text(m.image, sizeof m.image, p->image ? p->image->id : "");
        layers_message(&p->layers, &m);
        transfer_begin(t, &m);
}

void verb_export(struct call *c) {
        struct snapshot *p = c->snapshot;
        struct export *e = calloc(1, sizeof *e);
        char data[64];
        struct err err = {0};

        (void)snprintf(data, sizeof data, "{\"snapshot\":\"%s\"}", p->id);
        if (!p->ready)
                (void)call_err(&err, -EBUSY, "snapshot %s is not ready: try again in a moment", p->id);
        else if (!e)
                (void)call_err(&err, -ENOMEM, "out of memory");
        else
                (void)record_needed(c->o, LEDGER_SNAPSHOT_EXPORT, p->sandbox, c->actor, data, &e->durable.seq, &err);
        if (err.code < 0) {
                free(e);
                call_refuse(c, &err);
                return;
        }
        e->call = c;
        e->snapshot = snapshot_ref(p);
        e->durable.done = export_begin;
        durable_wait(c->o, &e->durable);
}

/* --- import ---------------------------------------------------------------------------------------------------------
 */

struct import {
        struct call *call;
        struct snapshot *snapshot;
        struct disk *disk;
        struct durable durable;
};

static void import_free(struct import *i) {
        disk_unref(i->disk);
        snapshot_unref(i->snapshot);
        free(i);
}

static void import_stored(struct durable *d, int error) {
        struct import *i = LOOP_OWNER(d, struct import, durable);

        if (error < 0)
                call_refuse_text(i->call, "full", "make room on the disk of the state folder",
                                 "it could not be written down: %s", err_name(error));
        else
                call_done(i->call);
        import_free(i);
}

static void imported(struct transfer *t) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct import *i = t->data;
        struct snapshot *p = i->snapshot;
        struct core *o = t->o;
        struct err err = t->err;
        struct layers none = {0};
        char data[64];
        int e = t->error;

        p->bytes = t->bytes;
        transfer_free(t);
        (void)snprintf(data, sizeof data, "{\"snapshot\":\"%s\"}", p->id);
        if (e == 0)
                e = record_needed(o, LEDGER_SNAPSHOT_IMPORT, "", i->call->actor, data, &p->ledger_seq, &err);
        if (e == 0 && layers_copy(&p->layers, i->disk, &none) < 0)
                e = call_err(&err, -ENOMEM, "out of memory");
        if (e < 0) {
                struct call *c = i->call;

                snapshot_unregister(p);
                import_free(i);
                call_refuse(c, &err);
                return;
        }
        p->ready = true;
        i->disk->sealed = true;
        snapshot_json(p, &j, NULL);
        store_begin(o->store);
        i->durable = (struct durable){.seq = p->ledger_seq, .ticket = disk_put(i->disk), .done = import_stored};
        i->durable.ticket = MAX(i->durable.ticket, snapshot_put(p));
        i->durable.ticket = MAX(i->durable.ticket, call_settle(i->call, &b));
        store_end(o->store);
        disk_seal(i->disk);
        durable_wait(o, &i->durable);
}

static int import_prepare(struct call *c, struct frozen *f, struct import *i, struct err *err) {
        struct owner *owner = owner_get(c->o, c->owner);
        char name[STORE_NAME];
        uint64_t size = call_number(c, "size", f->disk_size);

        if (!f->disk || f->image_root) {
                (void)call_err(err, ERR_INPUT, "the profile '%s' keeps no files: a snapshot of it would be empty",
                               f->profile);
                return err_hint(err, "name one with a workspace that is not /tmp: --profile medium");
        }
        int r = owner ? admission_check(c->o, owner, &(struct share){.disk = size}, err)
                      : call_err(err, -ENOMEM, "out of memory");
        if (r == 0)
                r = admission_one_more(c->o, owner, TALLY_SNAPSHOTS, err);
        if (r < 0)
                return r;
        i->disk = disk_new(c->o, owner, size, f->disk_inodes);
        r = i->disk ? snapshot_new(c->o, owner, call_text(c, "name", name, sizeof name), &i->snapshot) : -ENOMEM;
        if (r < 0)
                return call_err(err, r, r == -EEXIST ? "there is a snapshot '%s' already" : "out of memory", name);
        (void)snapshot_ref(i->snapshot);
        i->snapshot->frozen = frozen_ref(f);
        copy_text(i->snapshot->profile, sizeof i->snapshot->profile, f->profile);
        i->call = c;
        return 0;
}

void verb_import(struct call *c) {
        struct warden_message m = {.kind = WARDEN_IMPORT};
        struct frozen_request q = {.profile = "medium"};
        struct import *i = calloc(1, sizeof *i);
        struct frozen *f = NULL;
        struct err err = {0};
        char profile[STORE_NAME];
        _cleanup_free_ char *text = call_strdup(c, "profile_text");

        if (call_text(c, "profile", profile, sizeof profile)[0])
                q.profile = profile;
        if (text) {
                q.text = text;
                q.text_size = strlen(text);
        }
        int r = !i                               ? call_err(&err, -ENOMEM, "out of memory")
                : life_refuses(c->o, true, &err) ? err.code
                                                 : frozen_compile(c->o, &q, &f, &err);
        if (r == 0)
                r = import_prepare(c, f, i, &err);
        if (f)
                frozen_unref(f);
        struct transfer *t = r == 0 ? transfer_new(c, true, imported) : NULL;
        if (!t) {
                if (i) {
                        disk_unref(i->disk);
                        if (i->snapshot) {
                                snapshot_unregister(i->snapshot);
                                snapshot_unref(i->snapshot);
                        }
                        free(i);
                }
                if (r < 0)
                        call_refuse(c, &err);
                return;
        }
        t->data = i;
        copy_text(m.id, sizeof m.id, i->disk->id);
        m.size = i->disk->size;
        m.inodes = i->disk->inodes;
        transfer_begin(t, &m);
}

/* --- images ---------------------------------------------------------------------------------------------------------
 */

void verb_images(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        struct table *t = &c->o->registry->images;

        json_open(&j, NULL, '{');
        json_open(&j, "images", '[');
        for (struct table_node *n = table_next(t, NULL); n; n = table_next(t, n)) {
                const struct image *i = TABLE_OWNER(n, struct image, node);

                if (c->admin || str_eq(i->owner->name, c->owner) || str_eq(i->owner->name, "uid:0"))
                        image_json(i, &j, NULL);
        }
        json_close(&j, ']');
        json_close(&j, '}');
        call_answer(c, &b);
}

void verb_image_import(struct call *c) {
        image_import(c);
}

void verb_image_remove(struct call *c) {
        char name[STORE_NAME];
        struct image *i;

        (void)call_text(c, "name", name, sizeof name);
        i = warden_is_id(name) ? image_find(c->o, name) : image_named(c->o, c->owner, name);
        if (!i || (!c->admin && !str_eq(i->owner->name, c->owner)))
                call_refuse_text(c, "not_found", "'stockade image list' shows what there is", "there is no image '%s'",
                                 name);
        else
                image_remove(c, i);
}
