/* Verbs for whoever is about to make a sandbox: which profiles there are, what a sandbox with one of them may do, and
 * what is wrong with a wish. No sandbox is made here. What takes long is done for one at a time, and whoever had much
 * of it waits, since everybody else is served by the same loop. */
#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "operator/admission.h"
#include "operator/image.h"
#include "operator/life.h"
#include "operator/summary.h"
#include "operator/verbs.h"
#include "operator/wishes.h"

#define PROFILES_MAX 64
#define PROBLEMS_MAX 32
#define PARADES_MAX  32 /* of all who wait */
#define PARADES_OWN  2
/* Looking at wishes, for one owner: the tenth part of the time, and what can be had at once. */
#define CHECK_US_PER_MS 100
#define CHECK_DEBT_US   200000

/* What the warden would refuse because of this host's ceiling, one thing after the other: the first one from *at on.
 * False: there is none any more. It is the warden who holds the ceiling; this only says so early. */
static bool over_ceiling(const struct core *o, const struct policy *p, size_t *at, const char **field,
                         struct err *err) {
        struct policy_place places[POLICY_PLACES_MAX];
        uint64_t size = 0, inodes = 0;
        bool whole = false;
        char asked[40], most[40];

        for (size_t i = policy_places(p, places); i-- > 0;) {
                size = places[i].size == POLICY_UNSET ? size : MAX(size, places[i].size);
                inodes = places[i].inodes == POLICY_UNSET ? inodes : MAX(inodes, places[i].inodes);
                whole |= str_eq(places[i].path, "/") && !p->image;
        }
        const struct {
                const char *field, *key, *what;
                enum text_unit unit;
                uint64_t asked, most;
        } rows[] = {
                {"overrides.limits.memory", "ceiling_memory", NULL, TEXT_BYTES, p->limits.memory,
                 o->conf.ceiling_memory},
                {"overrides.limits.cpus", "ceiling_cpus", NULL, TEXT_CPUS, p->limits.cpus, o->conf.ceiling_cpus},
                {"overrides.limits.processes", "ceiling_processes", NULL, TEXT_COUNT, p->limits.processes,
                 o->conf.ceiling_processes},
                {"overrides.files.workspace.size", "ceiling_disk", NULL, TEXT_BYTES, size, o->conf.ceiling_disk},
                {"overrides.files.workspace.inodes", "ceiling_inodes", NULL, TEXT_COUNT, inodes,
                 o->conf.ceiling_inodes},
                {"overrides.files.write", "ceiling_whole_tree", "the host's whole tree is not for sandboxes here",
                 TEXT_COUNT, whole, o->conf.ceiling_whole_tree},
                {"allow", "ceiling_network", "no sandbox has a network here", TEXT_COUNT, p->network.allow_count > 0,
                 o->conf.ceiling_network},
        };

        for (; *at < ELEMENTSOF(rows); ++*at) {
                if (rows[*at].asked == POLICY_UNSET || rows[*at].asked <= rows[*at].most)
                        continue;
                *err = (struct err){0};
                if (rows[*at].what)
                        (void)call_err(err, ERR_REFUSED, "%s", rows[*at].what);
                else
                        (void)call_err(err, ERR_REFUSED, "%s is more than a sandbox may have here, which is %s",
                                       text_format(asked, sizeof asked, rows[*at].unit, rows[*at].asked),
                                       text_format(most, sizeof most, rows[*at].unit, rows[*at].most));
                (void)err_hint(err, "ask for less, or change %s in stockade.conf", rows[*at].key);
                *field = rows[(*at)++].field;
                return true;
        }
        return false;
}

/* --- which there are: one in each turn of the loop, since resolving one takes as long as starting a sandbox; the
 * others wait behind it -------------------------------------------------------------------------------------------- */

struct parade {
        struct parade *next;
        struct call *call;
        struct core *o;
        struct loop_task task;
        struct profile_list list;
        size_t at;
        struct buf out;
        struct json j;
};

static struct parade *parades; /* the first one's turn it is */

static void parade_free(struct parade *p) {
        profile_list_free(&p->list);
        buf_free(&p->out);
        free(p);
}

/* The profile that it extends: what was read after it. */
static void add_parent(const struct profile_sources *sources, struct json *j) {
        size_t found = 0;

        for (size_t i = 0; i < sources->count; i++) {
                const char *path = sources->items[i].path, *slash = strrchr(path, '/');
                const char *name = slash ? slash + 1 : str_starts(path, "builtin:") ? path + 8 : path;
                size_t length = strlen(name);

                if (sources->items[i].absent || ++found < 2)
                        continue;
                _cleanup_free_ char *bare = strndup(name, length > 5 && str_eq(name + length - 5, ".yaml") ? length - 5
                                                                                                           : length);
                json_str(j, "extends", bare ? bare : name);
                return;
        }
        json_null(j, "extends");
}

static void refusal(struct json *j, const struct err *err) {
        json_str(j, "error", err->text);
        json_str(j, "hint", err->hint[0] ? err->hint : NULL);
}

static void add_profile(struct parade *p, const struct profile_entry *e) {
        _cleanup_policy_ struct policy policy = {0};
        _cleanup_sources_ struct profile_sources sources = {0};
        struct frozen_request q = {.profile = e->name};
        struct err err = {0};
        const char *field;
        size_t at = 0;

        int r = frozen_resolve(p->o, &q, &policy, &sources, &err);
        if (r == 0)
                r = policy_check(&policy, &err);
        if (r == 0)
                r = policy_enforceable_by_daemon(&policy, NULL, 0, NULL, &err);
        if (r == 0 && over_ceiling(p->o, &policy, &at, &field, &err))
                r = ERR_REFUSED;
        json_open(&p->j, NULL, '{');
        json_str(&p->j, "name", e->name);
        json_str(&p->j, "about", e->summary);
        json_bool(&p->j, "builtin", str_starts(e->source, "builtin:"));
        json_bool(&p->j, "standard", str_eq(e->name, p->o->conf.profile));
        json_bool(&p->j, "ok", r == 0);
        if (r < 0)
                refusal(&p->j, &err);
        if (r == 0 || r == ERR_UNENFORCED || r == ERR_REFUSED) {
                add_parent(&sources, &p->j);
                json_bool(&p->j, "sealed", policy.sealed);
                if (summary_json(&policy, &p->j) < 0)
                        p->out.failed = true;
        }
        json_close(&p->j, '}');
}

static void parade_step(struct loop_task *task) {
        struct parade *p = LOOP_OWNER(task, struct parade, task);

        if (p->at < p->list.count && p->at < PROFILES_MAX && p->call->client) {
                add_profile(p, &p->list.items[p->at++]);
                loop_later(p->o->loop, &p->task);
                return;
        }
        json_close(&p->j, ']');
        json_bool(&p->j, "more", p->list.count > PROFILES_MAX);
        json_close(&p->j, '}');
        call_answer(p->call, &p->out);
        parades = p->next;
        parade_free(p);
        if (parades)
                loop_later(parades->o->loop, &parades->task);
}

void verb_profiles(struct call *c) {
        struct parade **last = &parades;
        unsigned count = 0, own = 0;
        struct err err = {0};

        for (; *last; last = &(*last)->next, count++)
                own += str_eq((*last)->call->owner, c->owner);
        if (count >= PARADES_MAX || own >= PARADES_OWN) {
                call_refuse_text(c, "busy", "try again in a moment", "profiles are being described for others");
                return;
        }
        struct parade *p = calloc(1, sizeof *p);
        int r = p ? frozen_profiles(c->o, &p->list, &err) : call_err(&err, -ENOMEM, "out of memory");
        if (r < 0) {
                call_refuse(c, &err);
                if (p)
                        parade_free(p);
                return;
        }
        p->call = c;
        p->o = c->o;
        p->task.run = parade_step;
        p->out.max = LOCAL_ANSWER_MAX - 64;
        p->j.out = &p->out;
        json_open(&p->j, NULL, '{');
        json_open(&p->j, "profiles", '[');
        *last = p;
        if (parades == p)
                loop_later(c->o->loop, &p->task);
}

void verb_profile_schema(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        summary_schema_json(c->o, &j, "keys");
        json_close(&j, '}');
        call_answer(c, &b);
}

/* --- what would come of a wish
 * ----------------------------------------------------------------------------------------
 */

struct trouble {
        struct buf out;
        struct json j;
        unsigned count;
};

static void add_trouble(struct trouble *t, const char *field, const struct err *err) {
        if (++t->count > PROBLEMS_MAX)
                return;
        json_open(&t->j, NULL, '{');
        json_str(&t->j, "field", field);
        json_str(&t->j, "code", call_code(err->code));
        refusal(&t->j, err);
        json_close(&t->j, '}');
}

/* Each field by itself, as they would be laid over the profile one after the other. */
static void look_at_fields(struct core *o, const struct frozen_request *q, struct trouble *t) {
        struct frozen_request bare = {.profile = q->profile, .text = q->text, .text_size = q->text_size};
        _cleanup_policy_ struct policy p = {0};
        _cleanup_sources_ struct profile_sources sources = {0};
        struct err err = {0};
        char field[96];

        if (frozen_resolve(o, &bare, &p, &sources, &err) < 0) {
                add_trouble(t, q->text ? "profile_text" : "profile", &err);
                return;
        }
        for (size_t i = 0; i < q->set_count; i++)
                if (err = (struct err){0}, policy_set(&p, q->set[i].key, q->set[i].value, &err) < 0) {
                        (void)snprintf(field, sizeof field, "overrides.%.80s", q->set[i].key);
                        add_trouble(t, field, &err);
                }
        for (size_t i = 0; i < q->allow_count; i++)
                if (err = (struct err){0}, policy_allow(&p, q->allow[i], &err) < 0) {
                        (void)snprintf(field, sizeof field, "allow.%zu", i);
                        add_trouble(t, field, &err);
                }
        if (q->image && (err = (struct err){0}, policy_set(&p, "image", q->image, &err) < 0))
                add_trouble(t, "image", &err);
}

/* What creating it would meet: an image, room, and a host that takes on something new. */
static void look_around(struct call *c, const struct frozen *f, const struct policy *p, struct trouble *t) {
        struct owner *owner = owner_get(c->o, c->owner);
        struct share share = {.sandboxes = 1,
                              .memory = f->memory == FROZEN_UNSET ? 0 : f->memory,
                              .cpus = f->cpus == FROZEN_UNSET ? 0 : f->cpus,
                              .disk = f->disk ? f->disk_size : 0};
        struct err err = {0};
        const char *field;

        for (size_t at = 0; over_ceiling(c->o, p, &at, &field, &err);)
                add_trouble(t, field, &err);
        err = (struct err){0};
        if (f->image_root && !image_named(c->o, c->owner, f->image)) {
                (void)call_err(&err, -ENOENT, "there is no image '%s'", f->image);
                add_trouble(t, "image", &err);
        }
        err = (struct err){0};
        if (!owner)
                (void)call_err(&err, -ENOMEM, "out of memory");
        else if (!life_refuses(c->o, f->disk, &err))
                (void)admission_check(c->o, owner, &share, &err);
        if (err.code < 0)
                add_trouble(t, "", &err);
}

static void answer_trouble(struct call *c, struct trouble *t) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};

        json_close(&t->j, ']');
        buf_str(&b, "{\"ok\":false,\"problems\":");
        buf_add(&b, t->out.data ? t->out.data : "[]", t->out.data ? t->out.size : 2);
        buf_str(&b, "}");
        call_answer(c, &b);
}

static void answer_summary(struct call *c, const struct frozen *f, const struct policy *p) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_bool(&j, "ok", true);
        json_str(&j, "profile", f->profile);
        json_bool(&j, "persistent", f->disk);
        json_str(&j, "cwd", f->cwd ? f->cwd : "/");
        int r = summary_json(p, &j);
        json_close(&j, '}');
        if (r < 0)
                call_refuse_text(c, "failed", "try again", "out of memory");
        else
                call_answer(c, &b);
}

static uint64_t worked_us(void) {
        struct timespec ts = {0};

        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* What is described is what was compiled: the text that a sandbox would keep. */
static void check(struct call *c) {
        _cleanup_wishes_ struct wishes w = {0};
        _cleanup_policy_ struct policy p = {0};
        struct trouble t = {.j = {.out = &t.out}};
        struct frozen *f = NULL;
        struct err err = {0};

        if (wishes_read(c->text, &w, &err) < 0) {
                call_refuse(c, &err);
                return;
        }
        json_open(&t.j, NULL, '[');
        look_at_fields(c->o, &w.q, &t);
        if (t.count == 0 && (frozen_compile(c->o, &w.q, &f, &err) < 0 ||
                             profile_parse("frozen policy", f->policy, f->policy_size, &p, &err) < 0))
                add_trouble(&t, "", &err);
        if (t.count == 0)
                look_around(c, f, &p, &t);
        if (t.count > 0)
                answer_trouble(c, &t);
        else
                answer_summary(c, f, &p);
        buf_free(&t.out);
        if (f)
                frozen_unref(f);
}

void verb_profile_check(struct call *c) {
        struct owner *owner = owner_get(c->o, c->owner);
        uint64_t now = loop_now(c->o->loop), before = worked_us();

        if (!owner) {
                call_refuse_text(c, "failed", "try again", "out of memory");
                return;
        }
        owner->check_debt_us -= MIN(owner->check_debt_us, (now - owner->check_ms) * CHECK_US_PER_MS);
        owner->check_ms = now;
        if (owner->check_debt_us > CHECK_DEBT_US) {
                call_refuse_text(c, "busy", "try again in a moment", "the last wishes took long to look at");
                return;
        }
        check(c);
        owner->check_debt_us += worked_us() - before;
}
