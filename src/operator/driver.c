/* Choosing a driver. Probes are the warden's (one paper for all drivers that stockade.conf declares); what they said is
 * kept until a start fails or it gets old. The native driver needs no probe: without it there is no daemon. */
#include "operator/driver.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/log.h"
#include "operator/call.h"
#include "operator/sandbox.h"
#include "operator/warden-link.h"

#define OLD_MS   (10 * 60 * 1000)
#define NO_MS    (5 * 1000) /* for so long a "no" is believed where somebody wants that driver: he may have mended it */
#define WAITING  64
#define SENTENCE 200

static const char *const levels[] = {"container", "gvisor", "microvm", "tee"};
static_assert(ELEMENTSOF(levels) == ISOLATION_TEE + 1, "every level has a name");

struct found {
        bool offered;
        char version[64], why[SENTENCE], fix[SENTENCE];
        char lacks[GUARANTEE_COUNT][SENTENCE]; /* "": kept */
};

struct waiter {
        struct waiter *next;
        struct call *call;
        void (*verb)(struct call *c);
};

/* One operator in a process. */
static struct {
        struct core *o;
        bool asked, known;
        uint64_t until, mended; /* of the loop: when what is known is old, and a "no" in it */
        unsigned doubted;       /* a bit for each driver that did not work as its probe said */
        struct found found[DRIVER_COUNT];
        struct waiter *waiting;
        unsigned waiting_count;
} all;

/* --- what this host offers ------------------------------------------------------------------------------------------
 */

static bool is_declared(const struct core *o, enum driver d) {
        for (size_t i = 0; i < o->conf.drivers.count; i++)
                if (driver_find(o->conf.drivers.items[i]) == (int)d)
                        return true;
        return false;
}

static bool only_native(const struct core *o) {
        return o->conf.drivers.count == 1 && is_declared(o, DRIVER_NATIVE);
}

static bool is_known(const struct core *o, enum driver d) {
        return d == DRIVER_NATIVE || !is_declared(o, d) ||
               (all.known && loop_now(o->loop) < all.until && !(all.doubted & 1U << d));
}

static bool is_offered(const struct core *o, enum driver d) {
        return is_declared(o, d) && (d == DRIVER_NATIVE || all.found[d].offered);
}

static void read_probe(const char *probe) {
        char name[32] = "", word[SENTENCE];
        bool offered = false;

        (void)json_find_str(probe, "driver", name, sizeof name);
        int d = driver_find(name);
        if (d < 0)
                return;
        struct found *f = &all.found[d];
        *f = (struct found){0};
        f->offered = json_find_bool(probe, "offered", &offered) && offered;
        (void)json_find_str(probe, "version", f->version, sizeof f->version);
        (void)json_find_str(probe, "why", f->why, sizeof f->why);
        (void)json_find_str(probe, "fix", f->fix, sizeof f->fix);
        for (int g = 0; g < GUARANTEE_COUNT; g++) {
                char path[48];

                (void)snprintf(path, sizeof path, "guarantees.%s", guarantee_name((enum guarantee)g));
                bool said = json_find_str(probe, path, word, sizeof word);
                if (!said || !str_eq(word, "kept")) /* what is not promised is not kept */
                        copy_text(f->lacks[g], SENTENCE, said ? word : "its probe says nothing about it");
        }
}

static int read_paper(int fd, uint64_t size, struct err *err) {
        struct json_walk walk;
        struct stat st;

        if (size == 0 || size > WARDEN_PAPER_MAX || fstat(fd, &st) < 0 || (uint64_t)st.st_size != size)
                return call_err(err, ERR_CORRUPT, "the warden's answer is not whole");
        _cleanup_free_ char *text = malloc(size + 1);
        if (!text || pread(fd, text, size, 0) != (ssize_t)size)
                return call_err(err, -EIO, "the warden's answer cannot be read");
        text[size] = '\0';
        int r = json_check(text, size, err);
        if (r < 0)
                return r;
        if (!json_walk_begin(&walk, text, "drivers"))
                return call_err(err, ERR_CORRUPT, "the warden's answer names no drivers");
        while (json_walk_next(&walk))
                read_probe(walk.value);
        return 0;
}

static struct waiter *take_waiter(struct call *c) {
        for (struct waiter **at = &all.waiting; *at; at = &(*at)->next)
                if (!c || (*at)->call == c) {
                        struct waiter *w = *at;

                        *at = w->next;
                        all.waiting_count--;
                        return w;
                }
        return NULL;
}

static void looked(void *data, const struct warden_message *m, int *fds, size_t fd_count) {
        struct core *o = data;
        struct err err = {0};

        memset(all.found, 0, sizeof all.found);
        int r = m->error;
        if (r < 0)
                (void)call_err(&err, r, "%s", m->text);
        else
                r = fd_count == 1 ? read_paper(fds[0], m->numbers[0], &err)
                                  : call_err(&err, ERR_CORRUPT, "the warden's answer is not whole");
        if (r < 0)
                log_err(LOG_LEVEL_WARNING, NULL, &err); /* then none is offered but the native one */
        all.asked = false;
        all.known = true;
        all.doubted = 0;
        all.until = loop_now(o->loop) + OLD_MS;
        all.mended = loop_now(o->loop) + NO_MS;
        for (struct waiter *w, *list = TAKE_PTR(all.waiting); list; list = w) {
                struct call *c = list->call;
                void (*verb)(struct call * c) = list->verb;

                w = list->next;
                all.waiting_count--;
                free(list);
                c->data = NULL;
                c->gone = NULL;
                verb(c);
        }
}

static int ask(struct core *o) {
        struct warden_message m = {.kind = WARDEN_PAPER, .paper = WARDEN_PAPER_DRIVERS};

        if (all.asked)
                return 0;
        all.o = o;
        int r = warden_call(o, &m, NULL, 0, looked, o);
        all.asked = r >= 0;
        return r;
}

void driver_look(struct core *o) {
        if (only_native(o))
                return;
        all.until = 0;
        (void)ask(o);
}

void driver_doubt(struct core *o, enum driver d) {
        if (d == DRIVER_NATIVE)
                return;
        all.doubted |= 1U << d;
        (void)ask(o);
}

static void gone(struct call *c) {
        free(take_waiter(c));
        call_drop(c);
}

void driver_wait(struct call *c, void (*verb)(struct call *c)) {
        struct waiter *w = all.waiting_count < WAITING ? calloc(1, sizeof *w) : NULL;
        int r = w ? ask(c->o) : -EBUSY;

        if (r < 0) {
                free(w);
                call_refuse_text(c, "busy", "try again in a moment", "the drivers of this host are being looked at");
                return;
        }
        *w = (struct waiter){.next = all.waiting, .call = c, .verb = verb};
        all.waiting = w;
        all.waiting_count++;
        c->data = w;
        c->gone = gone;
}

/* --- the choice -----------------------------------------------------------------------------------------------------
 */

/* What the policy needs that this driver does not keep; NULL: nothing. */
static const char *lacking(const struct frozen *f, enum driver d, const char **ret_sentence) {
        for (int g = 0; d != DRIVER_NATIVE && g < GUARANTEE_COUNT; g++)
                if (f->needs & 1U << g && all.found[d].lacks[g][0]) {
                        *ret_sentence = all.found[d].lacks[g];
                        return guarantee_name((enum guarantee)g);
                }
        return NULL;
}

static bool is_strong(const struct frozen *f, enum driver d) {
        return policy_driver_level(driver_name(d)) >= (enum policy_isolation)f->at_least;
}

/* 0, -EAGAIN, or why not. */
static int fits(const struct core *o, const struct frozen *f, enum driver d, struct err *err) {
        const char *name = driver_name(d), *sentence = NULL;

        if (!is_strong(f, d)) {
                (void)err_set(err, ERR_UNENFORCED, "driver %s is weaker than isolation.at_least: %s", name,
                              levels[f->at_least]);
                return err_hint(err, "name a stronger one, or none: then one that fits is chosen");
        }
        if (!is_declared(o, d)) {
                (void)err_set(err, ERR_UNENFORCED, "driver %s is not offered here", name);
                return err_hint(err, "the operator adds it to 'drivers' in stockade.conf");
        }
        if (!is_known(o, d))
                return -EAGAIN;
        if (!is_offered(o, d)) {
                (void)err_set(err, ERR_UNENFORCED, "driver %s does not work on this host: %s", name,
                              all.found[d].why[0] ? all.found[d].why : "its probe failed");
                return err_hint(err, "%s", all.found[d].fix[0] ? all.found[d].fix : "'stockade doctor' says more");
        }
        const char *lack = lacking(f, d, &sentence);
        if (lack) {
                (void)err_set(err, ERR_UNENFORCED, "driver %s cannot enforce what the policy asks for (%s): %s", name,
                              lack, sentence);
                return err_hint(err, "name another driver, or leave that out of the profile");
        }
        return 0;
}

/* A driver that somebody needs and that does not work: whoever was told why may have mended it since. He alone waits
 * for another look. */
static bool may_be_mended(const struct core *o) {
        return !only_native(o) && all.known && loop_now(o->loop) >= all.mended;
}

/* The strongest that works here: what somebody can have instead. */
static int none_fits(const struct core *o, const struct frozen *f, const struct err *last, struct err *err) {
        int best = -1;

        for (int d = 0; d < DRIVER_COUNT; d++)
                if (is_offered(o, (enum driver)d) &&
                    (best < 0 || policy_driver_level(driver_name((enum driver)d)) >
                                         policy_driver_level(driver_name((enum driver)best))))
                        best = d;
        if (is_strong(f, best < 0 ? DRIVER_NATIVE : (enum driver)best) && last->code < 0) {
                *err = *last;
                return ERR_UNENFORCED;
        }
        (void)err_set(err, ERR_UNENFORCED,
                      "no driver of this host gives isolation.at_least: %s; the nearest is %s (%s)",
                      levels[f->at_least], best < 0 ? "none" : driver_name((enum driver)best),
                      best < 0 ? "none" : levels[policy_driver_level(driver_name((enum driver)best))]);
        return err_hint(err, "%s",
                        last->code < 0 && last->hint[0] ? last->hint
                                                        : "ask for less, or see 'stockade doctor' for what is missing");
}

/* The first of these that fits; DRIVER_COUNT if none does. */
static int first_of(const struct core *o, const struct frozen *f, const char *const *names, size_t count,
                    enum driver *ret, struct err *last) {
        for (size_t i = 0; i < count; i++) {
                struct err err = {0};
                int d = driver_find(names[i]);
                int r = d < 0 ? -ENOENT : fits(o, f, (enum driver)d, &err);

                if (r == 0)
                        *ret = (enum driver)d;
                if (r == 0 || r == -EAGAIN)
                        return r;
                if (d >= 0 && is_strong(f, (enum driver)d) && last->code == 0)
                        *last = err; /* strong enough, but: the first such reason is told */
        }
        return -ENOENT;
}

int driver_choose(struct core *o, const struct frozen *f, const char *asked, enum driver *ret, char ret_why[DRIVER_WHY],
                  struct err *err) {
        const char *declared[CONF_LIST_MAX];
        struct err last = {0};

        if (asked[0]) {
                int d = driver_find(asked);

                (void)snprintf(ret_why, DRIVER_WHY, "it was asked for");
                if (d < 0) {
                        (void)call_err(err, ERR_INPUT, "there is no driver '%s'", asked);
                        return err_hint(err, "native, docker, gvisor, microvm or firecracker");
                }
                *ret = (enum driver)d;
                if (is_declared(o, *ret) && is_known(o, *ret) && !is_offered(o, *ret) && may_be_mended(o))
                        return -EAGAIN;
                return fits(o, f, *ret, err);
        }
        for (size_t i = 0; i < o->conf.drivers.count; i++)
                declared[i] = o->conf.drivers.items[i];
        int r = first_of(o, f, f->prefer, f->prefer_count, ret, &last);
        if (r != -ENOENT) {
                (void)snprintf(ret_why, DRIVER_WHY, "the policy prefers it");
                return r;
        }
        r = first_of(o, f, declared, o->conf.drivers.count, ret, &last);
        if (r == 0 && f->at_least > ISOLATION_CONTAINER)
                (void)snprintf(ret_why, DRIVER_WHY, "the first of this operator that gives isolation.at_least: %s",
                               levels[f->at_least]);
        else if (r == 0)
                (void)snprintf(ret_why, DRIVER_WHY, "the first of this operator");
        for (size_t i = 0; r == -ENOENT && i < o->conf.drivers.count; i++)
                if (!is_known(o, (enum driver)driver_find(declared[i])))
                        return -EAGAIN; /* what is nearest has to be known too */
        if (r == -ENOENT && may_be_mended(o))
                return -EAGAIN;
        return r == -ENOENT ? none_fits(o, f, &last, err) : r;
}

void driver_names(const struct core *o, struct json *j) {
        for (size_t i = 0; i < o->conf.drivers.count; i++) {
                int d = driver_find(o->conf.drivers.items[i]);

                if (d >= 0 && is_offered(o, (enum driver)d))
                        json_str(j, NULL, driver_name((enum driver)d));
        }
}

void driver_json(const struct core *o, struct json *j, const char *key) {
        json_open(j, key, '[');
        for (size_t i = 0; i < o->conf.drivers.count; i++) {
                int d = driver_find(o->conf.drivers.items[i]);

                if (d < 0)
                        continue;
                const struct found *f = &all.found[d];
                json_open(j, NULL, '{');
                json_str(j, "name", driver_name((enum driver)d));
                json_str(j, "isolation", levels[policy_driver_level(driver_name((enum driver)d))]);
                json_bool(j, "offered", is_offered(o, (enum driver)d));
                json_str(j, "version", d == DRIVER_NATIVE ? STOCKADE_VERSION : f->version);
                json_str(j, "why", f->why);
                json_str(j, "fix", f->fix);
                json_open(j, "guarantees", '{');
                for (int g = 0; g < GUARANTEE_COUNT; g++)
                        json_str(j, guarantee_name((enum guarantee)g), f->lacks[g][0] ? f->lacks[g] : "kept");
                json_close(j, '}');
                json_close(j, '}');
        }
        json_close(j, ']');
}
