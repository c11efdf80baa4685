/* The one sandbox of instance mode.
 *
 * Looked for now and then, by owner and name; what it costs is one lookup. When it is not there it is asked for, by a
 * client of our own that acts for its owner; when that is refused, again later. One that died, or was lost with
 * its host, is resumed; one that somebody stopped, or that is quarantined or failed, stays as it is: that was decided.
 */
#include "api/instance.h"

#include <ctype.h>
#include <stdio.h>

#include "base/json-read.h"
#include "base/log.h"
#include "operator/sandbox.h"

#define LOOK_MS   500
#define AGAIN_MS  5000  /* after it could not be made */
#define STEADY_MS 60000 /* one that ran for so long died for a new reason */

struct instance {
        struct client c; /* first: of the verbs that we ask */
        struct api *api;
        struct loop_timer timer;
        bool busy;       /* a verb is under way */
        bool closed;     /* nothing is asked for any more */
        unsigned deaths; /* of late: it is resumed again, but not in a hurry */
        uint64_t again;  /* not before */
        char owner[STORE_OWNER];
        char why[512]; /* there is none; "": there is one, or we have not looked yet */
        struct buf request;
};

bool instance_mode(const struct api *a) {
        return str_eq(a->o->conf.mode, "instance");
}

static const struct sandbox *find(const struct instance *i) {
        const struct core *o = i->api->o;
        const struct sandbox *s = sandbox_named(i->api->o, i->owner, o->conf.instance_name);

        return s && s->state != STATE_CREATING && s->state != STATE_DELETING && s->state != STATE_DELETED ? s : NULL;
}

/* --- made --- */

static struct instance *of(struct client *c) {
        return LOOP_OWNER(c, struct instance, c);
}

static void later(struct instance *i, uint64_t ms) {
        if (!i->closed)
                loop_timer_set(i->api->o->loop, &i->timer, loop_now(i->api->o->loop) + ms);
}

static void door_send(struct client *c, enum local_kind kind, const void *data, size_t size) {
        (void)c;
        (void)kind;
        (void)data;
        (void)size;
}

static bool door_has_room(const struct client *c) {
        (void)c;
        return true;
}

static void door_hold_input(struct client *c, bool hold) {
        (void)c;
        (void)hold;
}

static void door_answer(struct client *c, const char *result) {
        struct instance *i = of(c);
        char id[STORE_ID] = "";

        (void)json_find_str(result, "id", id, sizeof id);
        i->busy = false;
        i->why[0] = '\0';
        log_line(LOG_LEVEL_INFO, id[0] ? id : NULL, "it is the sandbox of this instance");
        later(i, LOOK_MS);
}

static void door_refuse(struct client *c, const char *code, const char *message, const char *hint) {
        struct instance *i = of(c);

        (void)hint;
        i->busy = false;
        if (!str_eq(i->why, message))
                log_line(LOG_LEVEL_ERROR, NULL, "the sandbox of this instance could not be started (%s): %s", code,
                         message);
        (void)snprintf(i->why, sizeof i->why, "%s", message);
        later(i, AGAIN_MS);
}

static const struct client_door door = {door_send, door_has_room, door_hold_input, door_answer, door_refuse};

static void ask(struct instance *i, const char *verb, const char *id) {
        const struct conf *conf = &i->api->o->conf;
        struct json j = {.out = &i->request};

        buf_free(&i->request);
        i->request = (struct buf){0};
        json_open(&j, NULL, '{');
        json_str(&j, "verb", verb);
        if (id)
                json_str(&j, "sandbox", id);
        else {
                json_str(&j, "name", conf->instance_name);
                json_str(&j, "owner", i->owner);
                if (conf->instance_profile[0])
                        json_str(&j, "profile", conf->instance_profile);
                if (conf->instance_image[0])
                        json_str(&j, "image", conf->instance_image);
        }
        json_close(&j, '}');
        i->busy = true;
        i->c = (struct client){
                .door = &door, .o = i->api->o, .uid = i->api->o->own_uid, .admin = true, .request = "{}"};
        (void)snprintf(i->c.owner, sizeof i->c.owner, "%s", i->owner);
        if (!buf_ok(&i->request)) {
                client_refuse_text(&i->c, "failed", "try again", "out of memory");
                return;
        }
        i->c.request = i->request.data;
        i->c.request_size = i->request.size;
        verbs_dispatch(&i->c);
}

/* It ended, and nobody wanted that. */
static bool died(const struct sandbox *s) {
        return s->state == STATE_STOPPED && (s->reason == REASON_LOST || s->reason == REASON_SIGNAL ||
                                             s->reason == REASON_OOM || s->reason == REASON_DRIVER_FAILED);
}

static void look(struct loop_timer *t) {
        struct instance *i = LOOP_OWNER(t, struct instance, timer);
        const struct core *o = i->api->o;
        const struct sandbox *named = sandbox_named(i->api->o, i->owner, o->conf.instance_name), *s = find(i);
        uint64_t now = loop_now(o->loop);

        if (i->busy || o->draining || i->api->draining)
                return;
        if (!named)
                ask(i, "create", NULL);
        else if (s && died(s) && now >= i->again) {
                i->again = now + ((uint64_t)AGAIN_MS << MIN(i->deaths, 4U));
                i->deaths++;
                ask(i, "resume", s->id);
        } else {
                if (s && s->up && wall_ms() > s->started_ms + STEADY_MS)
                        i->deaths = 0;
                if (s)
                        i->why[0] = '\0';
                later(i, LOOK_MS);
        }
}

/* A wallet's address is written as its owner's name is: in small letters. */
static void name_owner(struct instance *i) {
        const struct core *o = i->api->o;
        const char *text = o->conf.instance_owner;

        if (!text[0])
                (void)snprintf(i->owner, sizeof i->owner, "uid:%u", o->rootless ? (unsigned)o->own_uid : 0U);
        else
                (void)snprintf(i->owner, sizeof i->owner, "%s%.80s", str_starts(text, "0x") ? "eth:" : "", text);
        for (char *p = i->owner; *p; p++)
                *p = (char)tolower((unsigned char)*p);
}

int instance_open(struct api *a, struct err *err) {
        if (!instance_mode(a))
                return 0;
        struct instance *i = a->instance = calloc(1, sizeof *i);
        if (!i)
                return err_set(err, -ENOMEM, "could not open the API");
        i->api = a;
        i->timer.fire = look;
        name_owner(i);
        later(i, 0);
        return 0;
}

/* What it asked for last may still be under way: it answers to us, and the process ends. */
void instance_close(struct api *a) {
        if (!a->instance)
                return;
        a->instance->closed = true;
        loop_timer_clear(a->o->loop, &a->instance->timer);
}

/* --- meant --- */

const char *instance_problem(const struct api *a) {
        if (!a->instance || find(a->instance))
                return NULL;
        return a->instance->why[0] ? a->instance->why : "the sandbox of this instance is being made";
}

bool instance_rename(struct api *a, const char *path, char *buf, size_t size) {
        static const char one[] = "/api/sandbox";
        const struct sandbox *s = a->instance ? find(a->instance) : NULL;
        const char *rest = path + sizeof one - 1;

        if (!s || !str_starts(path, one) || (*rest && *rest != '/'))
                return false;
        return (size_t)snprintf(buf, size, "/api/sandboxes/%s%s", s->id, rest) < size;
}

void instance_path(struct exchange *x) {
        if (!x->api->instance || x->own_host)
                return;
        size_t size = strlen(x->url) + sizeof "/api/sandboxes/" + STORE_ID;
        char *path = malloc(size);
        if (path && instance_rename(x->api, x->url, path, size)) {
                free(x->path);
                x->url = x->path = path;
        } else
                free(path);
}

void instance_refuse(struct exchange *x) {
        if (!instance_mode(x->api))
                reply_error(x, "not_instance", "use /api/sandboxes/{id}/…",
                            "this operator has many sandboxes, and not one of its own");
        else
                reply_error(x, "not_provisioned", "GET /readyz says when it is there",
                            "the instance is not provisioned yet");
}
