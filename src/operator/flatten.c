/* Long chains of layers become one, in the background. Layers are never written, so this disturbs nobody; the sandbox
 * takes the new one at its next start. One at a time for each sandbox. */
#include "base/log.h"
#include "operator/disk.h"
#include "operator/life.h"
#include "operator/warden-link.h"

#define CHAIN_MAX 16

struct flatten {
        struct core *o;
        struct sandbox *sandbox; /* NULL: it is gone; what is made is for nobody */
        struct layers layers;    /* that become one */
        struct disk *target;
        bool ready;
};

static void flatten_free(struct flatten *f) {
        if (f->sandbox)
                f->sandbox->flattening = NULL;
        layers_clear(&f->layers);
        disk_unref(f->target);
        free(f);
}

static void made(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct flatten *f = data;

        (void)fds;
        (void)fd_count;
        if (answer->error < 0 && f->sandbox)
                log_line(LOG_LEVEL_WARNING, NULL, "sandbox %s: its layers stay as they are: %s", f->sandbox->id,
                         answer->text);
        if (answer->error < 0 || !f->sandbox)
                flatten_free(f);
        else
                f->ready = true;
}

void flatten_look(struct sandbox *s) {
        struct warden_message m = {.kind = WARDEN_FLATTEN};
        struct layers older;
        struct flatten *f;

        if (s->flattening || s->layers.count <= CHAIN_MAX || s->o->registry->pressure || !s->owner)
                return;
        f = calloc(1, sizeof *f);
        if (!f)
                return;
        f->o = s->o;
        older = (struct layers){s->layers.items + 1, s->layers.count - 1}; /* the newest was never below another yet */
        f->target = disk_new(s->o, s->owner, s->disk->size, s->disk->inodes);
        if (!f->target || layers_copy(&f->layers, NULL, &older) < 0) {
                flatten_free(f);
                return;
        }
        f->sandbox = s;
        s->flattening = f;
        copy_text(m.target, sizeof m.target, f->target->id);
        copy_text(m.image, sizeof m.image, s->image ? s->image->id : "");
        m.size = f->target->size;
        m.inodes = f->target->inodes;
        layers_message(&f->layers, &m);
        if (warden_call(s->o, &m, NULL, 0, made, f) < 0)
                flatten_free(f);
}

/* The oldest layers of the sandbox are those that became one? */
static bool still_fits(const struct sandbox *s, const struct flatten *f) {
        if (s->layers.count < f->layers.count)
                return false;
        size_t newer = s->layers.count - f->layers.count;
        for (size_t i = 0; i < f->layers.count; i++)
                if (s->layers.items[newer + i] != f->layers.items[i])
                        return false;
        return true;
}

void flatten_apply(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct flatten *f = s->flattening;
        struct layers chain = {0};

        if (!f || !f->ready)
                return;
        size_t newer = s->layers.count - f->layers.count;
        if (!still_fits(s, f) || !(chain.items = calloc(newer + 1, sizeof *chain.items))) {
                flatten_free(f);
                return;
        }
        for (size_t i = 0; i < newer; i++)
                chain.items[chain.count++] = disk_ref(s->layers.items[i]);
        chain.items[chain.count++] = disk_ref(f->target);
        t->layers = s->layers; /* given back when the row is durable and the task ends */
        s->layers = chain;
        f->target->sealed = true;
        task_rows(t, disk_put(f->target));
        disk_seal(f->target);
        flatten_free(f);
}

void flatten_drop(struct sandbox *s) {
        struct flatten *f = s->flattening;

        if (!f)
                return;
        f->sandbox = NULL;
        s->flattening = NULL;
        if (f->ready)
                flatten_free(f);
}
