/* What sandboxes use: asked of the warden when somebody wants to know. */
#include <stdio.h>

#include "operator/disk.h"
#include "operator/life.h"
#include "operator/run.h"
#include "operator/verbs.h"
#include "operator/warden-link.h"

#define SHOWN_RUNS 20

/* One request: so many sandboxes, each with one or two answers to come. */
struct survey {
        struct call *call;
        bool show; /* one sandbox, in detail */
        unsigned waiting;
        size_t count;
        struct one {
                struct survey *survey;
                char id[STORE_ID];
                bool known;
                struct warden_usage usage;
                uint64_t disk_used, disk_size;
        } items[];
};

static void usage_json(const struct one *i, struct json *j, const char *key) {
        json_open(j, key, '{');
        json_str(j, "sandbox", i->id);
        json_u64_or_null(j, "cpu_us", i->usage.cpu_us);
        json_u64_or_null(j, "memory", i->usage.memory_now);
        json_u64_or_null(j, "memory_peak", i->usage.memory_peak);
        json_u64_or_null(j, "processes", i->usage.processes_now);
        json_u64_or_null(j, "read_bytes", i->usage.read_bytes);
        json_u64_or_null(j, "write_bytes", i->usage.write_bytes);
        json_u64_or_null(j, "oom_kills", i->usage.oom_kills);
        json_u64_or_null(j, "throttled_us", i->usage.throttled_us);
        json_u64(j, "disk_used", i->disk_used);
        json_u64(j, "disk_size", i->disk_size);
        json_close(j, '}');
}

static void show(struct survey *v, struct sandbox *s) {
        _cleanup_buf_ struct buf b = {.max = 4U << 20};
        struct json j = {.out = &b};
        struct err err = {0};

        sandbox_json_open(s, &j, NULL);
        json_str(&j, "policy", s->frozen->policy);
        json_str(&j, "cwd", s->frozen->cwd ? s->frozen->cwd : "/");
        state_allowed_json(s->state, &j, "allowed");
        if (v->items[0].known)
                usage_json(&v->items[0], &j, "usage");
        else
                json_null(&j, "usage");
        int e = verbs_list_runs(s, &j, "runs", UINT64_MAX, SHOWN_RUNS, &err);
        json_close(&j, '}');
        if (e < 0)
                call_refuse(v->call, &err);
        else
                call_answer(v->call, &b);
}

static void finish(struct survey *v) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};

        if (v->show) {
                struct sandbox *s = sandbox_find(v->call->o, v->items[0].id);

                if (s)
                        show(v, s);
                else
                        call_refuse_text(v->call, "not_found", "", "sandbox %s has been deleted", v->items[0].id);
                free(v);
                return;
        }
        json_open(&j, NULL, '{');
        json_open(&j, "usage", '[');
        for (size_t i = 0; i < v->count; i++)
                if (v->items[i].known)
                        usage_json(&v->items[i], &j, NULL);
        json_close(&j, ']');
        json_close(&j, '}');
        call_answer(v->call, &b);
        free(v);
}

static void one_less(struct survey *v) {
        if (--v->waiting == 0)
                finish(v);
}

static void used(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct one *i = data;

        (void)fds;
        (void)fd_count;
        if (answer->error == 0) {
                i->usage = answer->usage;
                i->known = true;
        }
        one_less(i->survey);
}

static void space(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct one *i = data;
        struct sandbox *s = sandbox_find(i->survey->call->o, i->id);

        (void)fds;
        (void)fd_count;
        if (answer->error == 0) {
                i->disk_used = answer->numbers[WARDEN_SPACE_BYTES_USED];
                if (s && s->disk)
                        s->disk->used = i->disk_used;
        }
        one_less(i->survey);
}

static void ask(struct survey *v, struct sandbox *s) {
        struct one *i = &v->items[v->count++];
        struct warden_message m = {.kind = WARDEN_USAGE};

        i->survey = v;
        copy_text(i->id, sizeof i->id, s->id);
        copy_text(m.id, sizeof m.id, s->id);
        i->disk_size = s->disk ? s->disk->size : 0;
        i->disk_used = s->disk ? s->disk->used : 0;
        if (s->up && warden_call(s->o, &m, NULL, 0, used, i) == 0)
                v->waiting++;
        if (!s->disk || !v->show)
                return;
        m = (struct warden_message){.kind = WARDEN_DISK_SPACE};
        copy_text(m.id, sizeof m.id, s->disk->id);
        if (warden_call(s->o, &m, NULL, 0, space, i) == 0)
                v->waiting++;
}

static struct survey *begin(struct call *c, size_t count) {
        struct survey *v = calloc(1, sizeof *v + count * sizeof v->items[0]);

        if (!v) {
                call_refuse_text(c, "failed", "try again", "out of memory");
                return NULL;
        }
        v->call = c;
        v->waiting = 1; /* ourselves, until everything was asked */
        return v;
}

void verb_show(struct call *c) {
        struct survey *v = begin(c, 1);

        if (!v)
                return;
        v->show = true;
        ask(v, c->sandbox);
        one_less(v);
}

void verb_usage(struct call *c) {
        bool all = call_bool(c, "all");

        if (all && !c->admin) {
                call_refuse_text(c, "refused", "leave 'all' out", "only root and the operator's own user see others'");
                return;
        }
        struct survey *v = begin(c, c->sandbox ? 1 : c->o->registry->sandboxes.count + 1);
        if (!v)
                return;
        for (struct sandbox *s = c->o->registry->first; s; s = s->next)
                if (c->sandbox ? s == c->sandbox : s->up && (all || str_eq(s->owner->name, c->owner)))
                        ask(v, s);
        one_less(v);
}
