/* Wards: what a gate should know about one sandbox, and marks for what it has been told already. Telling is bringing
 * the two together, as far as the socket takes it, in an order in which nothing is more open than it should be: names
 * and key, rules, secrets, and the sockets last. A gate that died is replaced by clearing the marks.
 *
 * Must never: let a secret's value out of a ward but to its gate; call back from inside gate_ward_open. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "operator/gate-private.h"
#include "wire/packet.h"

#define AUTHORITY_MS 10000 /* on a busy host */
#define MEMORIES     (1U << GATE_MEMORY | 1U << GATE_KEY)
#define SOCKETS      ((1U << GATE_MEMORY) - 1)

static void secret_drop(struct secret *s) {
        if (s->value) {
                explicit_bzero(s->value, s->size);
                free(s->value);
        }
        *s = (struct secret){0};
}

void gate_ward_drop(struct gate_ward *w) {
        struct gate *g = w->gate;

        for (struct gate_ward **at = &g->wards; *at; at = &(*at)->next)
                if (*at == w) {
                        *at = w->next;
                        break;
                }
        g->by_number[w->number] = NULL;
        g->count--;
        loop_timer_clear(g->o->loop, &w->deadline);
        for (size_t i = 0; i < w->secret_count; i++)
                secret_drop(&w->secrets[i]);
        free(w->secrets);
        free(w->rules);
        packet_close(w->fds, GATE_FD_COUNT);
        free(w);
        if (g->count == 0)
                gate_link_emptied(g);
}

void gate_ward_untold(struct gate_ward *w) {
        w->told = false;
        w->told_fds = w->told_generation = w->applied = 0;
        for (size_t i = 0; i < w->secret_count; i++)
                w->secrets[i].told = false;
}

/* Whoever waits for the authority hears of it, once, from the loop. The ward may be gone afterwards. */
static void answer_authority(struct gate_ward *w, int error, int fds[GATE_CA_COUNT]) {
        void (*fn)(void *data, int error, int fds[GATE_CA_COUNT]) = TAKE_PTR(w->authority);

        loop_timer_clear(w->gate->o->loop, &w->deadline);
        if (fn)
                fn(w->data, error, fds);
}

void gate_ward_fail(struct gate_ward *w, int error) {
        if (!w->authority)
                return;
        w->failure = error;
        loop_timer_set(w->gate->o->loop, &w->deadline, 0);
}

void gate_ward_authority(struct gate_ward *w, int fds[GATE_CA_COUNT]) {
        if (w->closing || !w->trust)
                return;
        if (w->fds[GATE_KEY] < 0) {
                w->fds[GATE_KEY] = fcntl(fds[GATE_CA_KEY], F_DUPFD_CLOEXEC, 0);
                w->told_fds |= 1U << GATE_KEY; /* it made it */
                w->key_new = w->fds[GATE_KEY] >= 0;
        }
        answer_authority(w, 0, fds);
}

static void authority_fails(struct loop_timer *t) {
        struct gate_ward *w = LOOP_OWNER(t, struct gate_ward, deadline);
        int none[GATE_CA_COUNT] = {-EBADF, -EBADF, -EBADF, -EBADF};

        answer_authority(w, w->failure ? w->failure : -ETIMEDOUT, none);
}

/* --- telling --- */

static int say(struct gate *g, const struct gate_message *m, const int *fds, size_t count) {
        return g->control >= 0 ? gate_send(g->control, m, fds, count) : -EAGAIN;
}

/* The ward itself, and of these descriptors those that it has and the gate has not. */
static int tell_fds(struct gate_ward *w, uint32_t which) {
        struct gate_message m = {.kind = GATE_ADD, .ward = w->number, .limits = w->limits};
        int fds[GATE_FDS_MAX];
        size_t count = 0;

        for (unsigned i = 0; i < GATE_FD_COUNT; i++)
                if (w->fds[i] >= 0 && which & 1U << i && !(w->told_fds & 1U << i)) {
                        m.fds |= 1U << i;
                        fds[count++] = w->fds[i];
                }
        if (w->told && count == 0)
                return 0;
        int r = say(w->gate, &m, fds, count);
        if (r == 0) {
                w->told = true;
                w->told_fds |= m.fds;
        }
        return r;
}

static int tell_rules(struct gate_ward *w) {
        struct gate_message m = {.kind = GATE_RULES,
                                 .ward = w->number,
                                 .token = w->generation,
                                 .rules = w->rules,
                                 .rules_size = w->rules_size};

        if (w->told_generation == w->generation)
                return 0;
        int r = say(w->gate, &m, NULL, 0);
        if (r == 0) {
                w->told_generation = w->generation;
                w->told_at = loop_now(w->gate->o->loop);
                if (!w->gate->apply.place)
                        loop_timer_set(w->gate->o->loop, &w->gate->apply, w->told_at + APPLY_MS);
        }
        return r;
}

static int tell_secrets(struct gate_ward *w) {
        for (size_t i = 0; i < w->secret_count; i++) {
                struct secret *s = &w->secrets[i];
                struct gate_message m = {.kind = GATE_SECRET,
                                         .ward = w->number,
                                         .name = s->name,
                                         .holder = s->holder,
                                         .value = s->value ? s->value : (const uint8_t *)"",
                                         .value_size = s->size};

                if (s->told)
                        continue;
                int r = say(w->gate, &m, NULL, 0);
                if (r < 0)
                        return r;
                s->told = true;
                if (!s->value) { /* wiped there; nothing of it is left here either */
                        *s = w->secrets[--w->secret_count];
                        i--;
                }
        }
        return 0;
}

/* REMOVE, and then a question about the ward: by the time that the gate says that there is no such ward, everything
 * about it has been said, and its number is free. */
static int tell_end(struct gate_ward *w) {
        struct gate_message remove = {.kind = GATE_REMOVE, .ward = w->number};
        struct gate_message echo = {.kind = GATE_FLUSH, .ward = w->number};
        int r = w->told_remove ? 0 : say(w->gate, &remove, NULL, 0);

        if (r == 0) {
                w->told_remove = true;
                r = w->told_echo ? 0 : say(w->gate, &echo, NULL, 0);
        }
        w->told_echo = w->told_echo || r == 0;
        return r;
}

int gate_ward_tell(struct gate_ward *w) {
        int r;

        if (w->closing)
                return tell_end(w);
        if (w->refused)
                return 0;
        if (w->trust && !w->authority && !w->given && w->fds[GATE_KEY] < 0)
                return 0; /* adopted: its gate has to know the old key before it makes a new one */
        if ((r = tell_fds(w, MEMORIES)) < 0 || (r = tell_rules(w)) < 0 || (r = tell_secrets(w)) < 0)
                return r;
        return w->given ? tell_fds(w, SOCKETS) : 0;
}

/* --- for the owner of a sandbox --- */

int gate_ward_open(struct core *o, const struct gate_ward_plan *plan,
                   void (*authority)(void *data, int error, int fds[GATE_CA_COUNT]), void *data, struct gate_ward **ret,
                   struct err *err) {
        struct gate *g = gate_link_for(o, plan->owner, plan->trust, err);

        if (!g)
                return err && err->code ? err->code : -ENOMEM;
        struct gate_ward *w = calloc(1, sizeof *w);
        void *rules = malloc(MAX(plan->rules_size, (size_t)1));
        if (!w || !rules) {
                free(w);
                free(rules);
                return err_set(err, -ENOMEM, "could not make a ward");
        }
        memcpy(rules, plan->rules, plan->rules_size);
        *w = (struct gate_ward){.gate = g,
                                .next = g->wards,
                                .limits = plan->limits,
                                .trust = plan->trust,
                                .rules = rules,
                                .rules_size = plan->rules_size,
                                .generation = 1,
                                .authority = plan->trust ? authority : NULL,
                                .data = data};
        for (size_t i = 0; i < GATE_FD_COUNT; i++)
                w->fds[i] = -EBADF;
        (void)snprintf(w->sandbox, sizeof w->sandbox, "%s", plan->sandbox);
        w->deadline.fire = authority_fails;
        do
                w->number = g->last_number = g->last_number % (GATE_WARDS_MAX - 1) + 1;
        while (g->by_number[w->number]);
        g->by_number[w->number] = w;
        g->wards = w;
        g->count++;
        loop_timer_clear(o->loop, &g->idle);
        if (w->authority)
                loop_timer_set(o->loop, &w->deadline, loop_now(o->loop) + AUTHORITY_MS);
        *ret = w;
        gate_link_tell(g);
        return 0;
}

static void key_kept(void *data, const struct warden_message *a, int *fds, size_t fd_count) {
        (void)data;
        (void)fds;
        (void)fd_count;
        if (a->error < 0)
                log_line(LOG_LEVEL_ERROR, NULL, "a TLS key could not be kept for a later gate: %s",
                         a->text[0] ? a->text : err_name(a->error));
}

/* The key outlives us with the warden, so that the sandbox goes on believing the next gate. */
static void keep_key(struct gate_ward *w) {
        struct warden_message m = {.kind = WARDEN_KEEP_KEY};

        (void)snprintf(m.id, sizeof m.id, "%s", w->sandbox);
        int r = warden_call(w->gate->o, &m, &w->fds[GATE_KEY], 1, key_kept, NULL);
        if (r < 0)
                log_line(LOG_LEVEL_ERROR, w->sandbox, "its TLS key could not be kept for a later gate: %s",
                         err_name(r));
        w->key_new = false;
}

void gate_ward_sockets(struct gate_ward *w, int *fds, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (i < GATE_FD_COUNT && w->fds[i] < 0)
                        w->fds[i] = TAKE_FD(fds[i]);
                fd_close(&fds[i]);
        }
        w->given = true;
        if (w->key_new)
                keep_key(w);
        gate_link_tell(w->gate);
}

int gate_ward_rules(struct gate_ward *w, const void *rules, size_t size) {
        void *copy = malloc(MAX(size, (size_t)1));

        if (!copy)
                return -ENOMEM;
        memcpy(copy, rules, size);
        free(w->rules);
        w->rules = copy;
        w->rules_size = size;
        w->generation++;
        gate_link_tell(w->gate);
        return 0;
}

int gate_ward_secret(struct gate_ward *w, const char *name, const char *holder, const void *value, size_t size) {
        struct secret *s = NULL;

        if (strlen(name) >= sizeof s->name || strlen(holder) >= sizeof s->holder || size > GATE_SECRET_MAX)
                return -EINVAL;
        for (size_t i = 0; i < w->secret_count && !s; i++)
                if (str_eq(w->secrets[i].name, name))
                        s = &w->secrets[i];
        if (!s && !w->secrets && !(w->secrets = calloc(GATE_SECRETS_MAX, sizeof *w->secrets)))
                return -ENOMEM;
        if (!s && w->secret_count >= GATE_SECRETS_MAX)
                return -ENOSPC;
        if (!s)
                s = &w->secrets[w->secret_count++];
        secret_drop(s);
        (void)snprintf(s->name, sizeof s->name, "%s", name);
        (void)snprintf(s->holder, sizeof s->holder, "%s", holder);
        if (size > 0 && (s->value = malloc(size))) {
                memcpy(s->value, value, size);
                s->size = size;
        }
        gate_link_tell(w->gate);
        return size > 0 && !s->value ? -ENOMEM : 0; /* without memory it is wiped, never half there */
}

void gate_ward_moved(const struct gate_ward *w, uint64_t *ret_sent, uint64_t *ret_received) {
        *ret_sent = w->sent;
        *ret_received = w->received;
}

void gate_ward_close(struct gate_ward *w) {
        struct gate *g = w->gate;

        w->authority = NULL;
        loop_timer_clear(g->o->loop, &w->deadline);
        for (size_t i = 0; i < w->secret_count; i++)
                secret_drop(&w->secrets[i]);
        w->secret_count = 0;
        packet_close(w->fds, GATE_FD_COUNT);
        w->closing = true;
        if (!w->told) /* its gate has never heard of it */
                gate_ward_drop(w);
        else
                gate_link_tell(g);
}
