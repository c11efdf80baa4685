/* Files of snapshots, without a sandbox: the verbs snapshot-stat, snapshot-ls and snapshot-get.
 *
 * Paths are those that the sandbox had. What is on a disk was written by strangers: it is read by stockade-pack in its
 * cell alone (docs/protocol/warden.md), and what that says is taken as from a stranger, too. */
#include <stdio.h>

#include "base/json-read.h"
#include "base/text.h"
#include "operator/disk.h"
#include "operator/image.h"
#include "operator/snapshot.h"
#include "operator/transfer.h"
#include "operator/verbs.h"

#define ITEMS_MAX   100000
#define ANSWER_ROOM (12U << 20)

enum what { WHAT_STAT, WHAT_LIST, WHAT_READ };

struct look {
        enum what what;
        struct snapshot *snapshot; /* held until it has ended */
        struct buf list;
        unsigned items;
};

static void look_free(struct look *l) {
        if (l->snapshot)
                snapshot_unref(l->snapshot);
        buf_free(&l->list);
        free(l);
}

static void entry_line(struct transfer *t, char *text) {
        struct look *l = t->data;

        if (text[0] != '{' || json_check(text, strlen(text), NULL) < 0 || ++l->items > ITEMS_MAX)
                return;
        if (l->items > 1)
                buf_str(&l->list, ",");
        buf_str(&l->list, text);
}

/* Whether what came is an answer to what was asked. */
static int look_check(const struct look *l, struct err *err) {
        if (l->what == WHAT_STAT && l->items != 1)
                return call_err(err, ERR_CORRUPT, "the snapshot could not be read");
        if (l->items > ITEMS_MAX || l->list.failed) {
                (void)call_err(err, -EFBIG, "there are more entries than can be listed");
                return err_hint(err, "export the snapshot, or look at a smaller folder");
        }
        return 0;
}

static void look_done(struct transfer *t) {
        _cleanup_buf_ struct buf b = {.max = ANSWER_ROOM + 64};
        struct json j = {.out = &b};
        struct look *l = t->data;
        struct call *c = t->call;
        struct err err = t->err;
        int e = t->error < 0 ? t->error : look_check(l, &err);

        if (e == -ELOOP)
                (void)err_hint(&err, "links are not followed in a snapshot: name what it leads to");
        if (e == ERR_LIMIT)
                err.code = -EFBIG;
        if (l->what == WHAT_READ) {
                json_open(&j, NULL, '{');
                json_u64(&j, "bytes", t->bytes);
                json_close(&j, '}');
        } else {
                buf_str(&b, l->what == WHAT_LIST ? "{\"entries\":[" : "");
                buf_add(&b, l->list.data ? l->list.data : "", l->list.size);
                buf_str(&b, l->what == WHAT_LIST ? "]}" : "");
        }
        look_free(l);
        transfer_free(t);
        if (e < 0)
                call_refuse_as(c, e == -ELOOP ? "conflict" : call_code(err.code), &err);
        else
                call_answer(c, &b);
}

/* Without what says nothing: "/a//b/./" to "/a/b", "/" to "". What goes up would have to know what is a link. */
static int tidy(char *path) {
        char *out = path;

        for (const char *p = path; *p;) {
                size_t n = strcspn(p, "/");

                if (n == 2 && memcmp(p, "..", 2) == 0)
                        return -EINVAL;
                if (n > 0 && !(n == 1 && *p == '.')) {
                        *out++ = '/';
                        memmove(out, p, n);
                        out += n;
                }
                p += n;
                p += *p == '/';
        }
        *out = '\0';
        return 0;
}

/* Where the files of a snapshot are inside: how much of the path says that. */
static int find_root(const struct snapshot *p, char *path, size_t *ret_skip, struct err *err) {
        const char *root = p->frozen->disk_path;
        size_t skip = root && root[1] ? strlen(root) : 0;

        if (tidy(path) < 0) {
                (void)call_err(err, ERR_INPUT, "'..' is not followed in a snapshot");
                return err_hint(err, "send the path without it");
        }
        if (strncmp(path, root ? root : "", skip) != 0 || (path[skip] && path[skip] != '/')) {
                (void)call_err(err, -ENOENT, "snapshot %s has nothing outside of %s", p->id, root);
                return err_hint(err, "the rest is not kept when a snapshot is taken");
        }
        *ret_skip = skip;
        return 0;
}

static int tell_ledger(struct call *c, const struct snapshot *p, const char *path, struct err *err) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        uint64_t seq;

        json_open(&j, NULL, '{');
        json_str(&j, "verb", "read");
        json_str(&j, "path", path);
        json_str(&j, "snapshot", p->id);
        json_close(&j, '}');
        return buf_ok(&b) ? record_needed(c->o, LEDGER_FILE_READ, p->sandbox, c->actor, b.data, &seq, err)
                          : call_err(err, -ENOMEM, "out of memory");
}

static int make_question(struct call *c, enum what what, const char *path, size_t skip, struct buf *q) {
        uint64_t length = call_number(c, "length", INT64_MAX);

        if (what == WHAT_READ)
                buf_printf(q, "read %zu %llu %llu\n", skip, (unsigned long long)call_number(c, "offset", 0),
                           (unsigned long long)MIN(length, (uint64_t)INT64_MAX));
        else
                buf_printf(q, "%s %zu\n", what == WHAT_LIST ? "list" : "stat", skip);
        buf_str(q, path[0] ? path : "/");
        return buf_ok(q) ? 0 : -ENOMEM;
}

static int prepare(struct call *c, enum what what, struct buf *q, struct err *err) {
        _cleanup_free_ char *path = call_strdup(c, "path");
        size_t skip = 0;

        if (!path)
                return call_err(err, -ENOMEM, "out of memory");
        if (!c->snapshot->ready)
                return call_err(err, -EBUSY, "snapshot %s is not ready: try again in a moment", c->snapshot->id);
        int r = find_root(c->snapshot, path, &skip, err);
        if (r == 0 && make_question(c, what, path, skip, q) < 0)
                r = call_err(err, -ENOMEM, "out of memory");
        if (r == 0 && what == WHAT_READ)
                r = tell_ledger(c, c->snapshot, path, err);
        return r;
}

static void look(struct call *c, enum what what) {
        struct warden_message m = {.kind = WARDEN_READ};
        struct look *l = calloc(1, sizeof *l);
        struct buf q = {0};
        struct err err = {0};
        int r = l ? prepare(c, what, &q, &err) : call_err(&err, -ENOMEM, "out of memory");
        struct transfer *t = r == 0 ? transfer_new(c, false, look_done) : NULL;

        if (!t) {
                free(l);
                buf_free(&q);
                if (r < 0)
                        call_refuse(c, &err);
                return;
        }
        l->what = what;
        l->snapshot = snapshot_ref(c->snapshot);
        l->list.max = ANSWER_ROOM;
        t->data = l;
        t->question = q.data;
        t->question_size = q.size;
        t->brief = true;
        t->line = what == WHAT_READ ? NULL : entry_line;
        copy_text(m.image, sizeof m.image, l->snapshot->image ? l->snapshot->image->id : "");
        layers_message(&l->snapshot->layers, &m);
        transfer_begin(t, &m);
}

void verb_snapshot_stat(struct call *c) {
        look(c, WHAT_STAT);
}

void verb_snapshot_ls(struct call *c) {
        look(c, WHAT_LIST);
}

void verb_snapshot_get(struct call *c) {
        look(c, WHAT_READ);
}
