/* Connections from stockade-ssh, sessions, and the keys that make them. */
#include "operator/ssh-door.h"

#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/fd.h"
#include "base/log.h"
#include "operator/life.h"
#include "operator/run.h"
#include "operator/verbs.h"

#define TOKEN_SIZE   33
#define SESSIONS_MAX 256
#define OWNER_MAX    64 /* of these, of one owner: others must get in too */
#define TAKE_AT_ONCE 16
#define LOOK_MS      500  /* how often it is asked whether sandboxes of sessions are still there */
#define COMMAND_MAX  4096 /* bytes of a command in the ledger */

struct session {
        struct session *next;
        struct core *o;
        struct call *call;
        uint64_t number;
        char token[TOKEN_SIZE];
        char sandbox[STORE_ID];
        char owner[STORE_OWNER];
        char fingerprint[SSH_FINGERPRINT];
        char from[64];
        const char *reason; /* of its end */
};

struct ssh_door {
        struct core *o;
        struct loop_watch watch;
        struct loop_timer look;
        struct table keys;
        uint64_t soonest; /* when the next key expires, since 1970; 0: none does */
        size_t swept;     /* how many keys there were after those of deleted sandboxes were dropped */
        struct session *first;
        size_t count;
        uint64_t next;
};

void ssh_door_listen(const struct core *o, struct json *j, const char *key) {
        json_open(j, key, '[');
        for (size_t i = 0; o->ssh_link >= 0 && i < o->conf.ssh_listen.count; i++) {
                uint16_t port = (uint16_t)(i < 4 ? o->facts[WARDEN_FACT_SSH] >> 16 * i : 0);
                char text[ENDPOINT_TEXT];
                union endpoint at;

                if (port == 0 || endpoint_parse(o->conf.ssh_listen.items[i], &at, NULL) < 0)
                        continue; /* nothing listens there */
                endpoint_set_port(&at, port);
                json_str(j, NULL, endpoint_format(&at, text));
        }
        json_close(j, ']');
}

/* --- keys --- */

static void key_free(struct ssh_door *d, struct ssh_key *k) {
        table_remove(&d->keys, &k->node);
        free(k->name);
        free(k);
}

struct ssh_key *ssh_key_find(struct core *o, const char *sandbox, const char *fingerprint) {
        _cleanup_free_ char *name = table_key(sandbox, fingerprint);
        struct table_node *n = o->ssh && name ? table_find(&o->ssh->keys, name) : NULL;

        return n ? TABLE_OWNER(n, struct ssh_key, node) : NULL;
}

struct ssh_key *ssh_key_next(struct core *o, const struct ssh_key *after) {
        struct table_node *n = o->ssh ? table_next(&o->ssh->keys, after ? &after->node : NULL) : NULL;

        return n ? TABLE_OWNER(n, struct ssh_key, node) : NULL;
}

/* Those of sandboxes that are gone went with them in the store. */
static void sweep(struct ssh_door *d) {
        if (d->keys.count < 2 * d->swept + 64)
                return;
        for (struct ssh_key *k = ssh_key_next(d->o, NULL), *next; k; k = next) {
                next = ssh_key_next(d->o, k);
                if (!sandbox_find(d->o, k->row.sandbox))
                        key_free(d, k);
        }
        d->swept = d->keys.count;
}

struct ssh_key *ssh_key_put(struct core *o, const struct store_ssh_key *row) {
        struct ssh_key *k = ssh_key_find(o, row->sandbox, row->fingerprint);

        if (!o->ssh)
                return NULL;
        if (row->expires_ms > 0)
                o->ssh->soonest = MIN(o->ssh->soonest > 0 ? o->ssh->soonest : UINT64_MAX, row->expires_ms);
        if (k) {
                bool owners = !k->row.capability[0];

                k->row = *row;
                if (owners) { /* a machine does not take away what its owner let in */
                        k->row.capability[0] = '\0';
                        k->row.expires_ms = 0;
                }
                return k;
        }
        sweep(o->ssh);
        k = calloc(1, sizeof *k);
        char *name = table_key(row->sandbox, row->fingerprint);
        if (!k || !name || table_add(&o->ssh->keys, &k->node, name) < 0) {
                free(name);
                free(k);
                return NULL;
        }
        k->name = name;
        k->row = *row;
        return k;
}

struct sandbox *ssh_key_sandbox(struct core *o, const char *user, const char *fingerprint) {
        struct sandbox *found = NULL;

        if (warden_is_id(user))
                return ssh_key_find(o, user, fingerprint) ? sandbox_find(o, user) : NULL;
        for (const struct ssh_key *k = ssh_key_next(o, NULL); k; k = ssh_key_next(o, k)) {
                struct sandbox *s = str_eq(k->row.fingerprint, fingerprint) ? sandbox_find(o, k->row.sandbox) : NULL;

                if (!s || !str_eq(s->name, user))
                        continue;
                if (found) /* two owners let this key in by the same name: only an id says which is meant */
                        return NULL;
                found = s;
        }
        return found;
}

/* --- sessions --- */

static void session_data(const struct session *s, struct buf *b) {
        struct json j = {.out = b};

        json_open(&j, NULL, '{');
        json_str(&j, "by", "ssh");
        json_u64(&j, "session", s->number);
        json_str(&j, "key", s->fingerprint);
        json_str(&j, "from", s->from);
        if (s->reason)
                json_str(&j, "reason", s->reason);
        json_close(&j, '}');
}

/* Who came by SSH is named by the key. */
static void actor_of(const struct session *s, char ret[STORE_OWNER]) {
        (void)snprintf(ret, STORE_OWNER, "ssh:%s", s->fingerprint);
}

/* What it left running hears that its terminal is gone, or, if the key was revoked, is killed. */
static void end_runs(const struct session *s, bool kill) {
        struct sandbox *box = sandbox_find(s->o, s->sandbox);
        char actor[STORE_OWNER];

        actor_of(s, actor);
        for (struct run *r = box ? box->runs : NULL, *next; r; r = next) {
                next = r->next;
                if (r->session != s->number || r->phase == RUN_ENDED)
                        continue;
                if (kill)
                        run_kill(r, REASON_CANCELLED);
                else
                        (void)run_signal(r, SIGHUP, actor);
        }
}

static void session_free(struct session *s, bool kill) {
        struct ssh_door *d = s->o->ssh;
        _cleanup_buf_ struct buf b = {0};
        char actor[STORE_OWNER];

        for (struct session **p = &d->first; *p; p = &(*p)->next)
                if (*p == s) {
                        *p = s->next;
                        break;
                }
        d->count--;
        actor_of(s, actor);
        session_data(s, &b);
        if (buf_ok(&b))
                (void)record(s->o, LEDGER_SESSION_END, s->sandbox, actor, b.data);
        server_cut(s->o, s->number);
        end_runs(s, kill);
        explicit_bzero(s->token, sizeof s->token);
        free(s);
}

static void session_gone(struct call *c) {
        struct session *s = c->data;

        s->reason = "closed";
        session_free(s, false);
        call_drop(c);
}

static void session_cut(struct session *s, const char *reason) {
        struct call *c = s->call;
        _cleanup_buf_ struct buf b = {0};

        s->reason = reason;
        c->gone = NULL;
        session_free(s, true);
        buf_printf(&b, "{\"ended\":\"%s\"}", reason);
        call_answer(c, &b);
}

void ssh_key_drop(struct core *o, struct ssh_key *k, const char *reason) {
        struct ssh_door *d = o->ssh;

        for (struct session *s = d->first, *next; s; s = next) {
                next = s->next;
                if (str_eq(s->sandbox, k->row.sandbox) && str_eq(s->fingerprint, k->row.fingerprint))
                        session_cut(s, reason);
        }
        key_free(d, k);
}

uint64_t ssh_key_end(struct core *o, struct ssh_key *k, const char *reason) {
        uint64_t ticket = store_remove(o->store, STORE_SSH_KEY, &k->row);
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "by", "ssh");
        json_str(&j, "key", k->row.fingerprint);
        json_str(&j, "jti", k->row.capability);
        json_str(&j, "reason", reason);
        json_close(&j, '}');
        if (buf_ok(&b))
                (void)record(o, LEDGER_GRANT_END, k->row.sandbox, "operator", b.data);
        ssh_key_drop(o, k, reason);
        return ticket;
}

void ssh_keys_expire(struct core *o) {
        uint64_t now = wall_ms(), soonest = UINT64_MAX;

        if (!o->ssh || o->ssh->soonest == 0 || now < o->ssh->soonest)
                return;
        for (struct ssh_key *k = ssh_key_next(o, NULL), *next; k; k = next) {
                next = ssh_key_next(o, k);
                if (k->row.expires_ms == 0)
                        continue;
                if (k->row.expires_ms <= now)
                        (void)ssh_key_end(o, k, "expired"); /* not durable: it is refused by its time in any case */
                else
                        soonest = MIN(soonest, k->row.expires_ms);
        }
        o->ssh->soonest = soonest < UINT64_MAX ? soonest : 0;
}

static void look(struct loop_timer *t) {
        struct ssh_door *d = LOOP_OWNER(t, struct ssh_door, look);

        ssh_keys_expire(d->o);
        for (struct session *s = d->first, *next; s; s = next) {
                const struct sandbox *box = sandbox_find(d->o, s->sandbox);

                next = s->next;
                if (!box || box->state == STATE_DELETED || !str_eq(box->owner->name, s->owner))
                        session_cut(s, "deleted");
        }
        if (d->first)
                loop_timer_set(d->o->loop, t, loop_now(d->o->loop) + LOOK_MS);
}

/* What is done in a session: {"what": "exec", "command": "…"}. */
static void session_input(struct client *client, enum local_kind kind, const uint8_t *data, size_t size) {
        struct call *c = client->data;
        const struct session *s = c->data;
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        char what[32], command[COMMAND_MAX + 1], actor[STORE_OWNER];

        (void)size;
        if (kind != LOCAL_CONTROL || !json_find_str((const char *)data, "what", what, sizeof what))
                return;
        json_open(&j, NULL, '{');
        json_str(&j, "by", "ssh");
        json_u64(&j, "session", s->number);
        json_str(&j, "what", what);
        if (json_find_str((const char *)data, "command", command, sizeof command))
                json_str(&j, "command", command);
        json_close(&j, '}');
        actor_of(s, actor);
        if (buf_ok(&b))
                (void)record(s->o, LEDGER_SESSION_USE, s->sandbox, actor, b.data);
}

static bool draw_token(char ret[TOKEN_SIZE]) {
        uint8_t bytes[TOKEN_SIZE / 2];

        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
                return false;
        for (size_t i = 0; i < sizeof bytes; i++)
                (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
        explicit_bzero(bytes, sizeof bytes);
        return true;
}

static void tell_token(const struct session *s, const struct sandbox *box) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "token", s->token);
        json_str(&j, "sandbox", s->sandbox);
        json_str(&j, "cwd", box->frozen && box->frozen->cwd ? box->frozen->cwd : "/");
        json_close(&j, '}');
        call_event(s->call, &b);
        if (b.data)
                explicit_bzero(b.data, b.size);
}

static bool has_place(const struct ssh_door *d, const char *owner) {
        size_t his = 0;

        for (const struct session *s = d->first; s; s = s->next)
                his += str_eq(s->owner, owner);
        return d->count < SESSIONS_MAX && his < OWNER_MAX;
}

void ssh_session_begin(struct call *c, struct sandbox *box, const char *fingerprint, const char *from) {
        struct ssh_door *d = c->o->ssh;
        struct session *s = has_place(d, box->owner->name) ? calloc(1, sizeof *s) : NULL;
        _cleanup_buf_ struct buf b = {0};
        char actor[STORE_OWNER];
        struct err err = {0};
        uint64_t seq;

        if (!s || !draw_token(s->token)) {
                free(s);
                call_refuse_text(c, "busy", "try again", "there are too many SSH sessions");
                return;
        }
        s->o = c->o;
        s->call = c;
        s->number = ++d->next;
        copy_text(s->sandbox, sizeof s->sandbox, box->id);
        copy_text(s->owner, sizeof s->owner, box->owner->name);
        copy_text(s->fingerprint, sizeof s->fingerprint, fingerprint);
        copy_text(s->from, sizeof s->from, from);
        actor_of(s, actor);
        session_data(s, &b);
        if (record_needed(c->o, LEDGER_SESSION_BEGIN, s->sandbox, actor, buf_ok(&b) ? b.data : "{}", &seq, &err) < 0) {
                free(s);
                call_refuse(c, &err);
                return;
        }
        s->next = d->first;
        d->first = s;
        d->count++;
        c->data = s;
        c->gone = session_gone;
        c->client->input = session_input;
        tell_token(s, box);
        if (d->look.place == 0)
                loop_timer_set(d->o->loop, &d->look, loop_now(d->o->loop) + LOOK_MS);
}

static const struct session *session_find(const struct ssh_door *d, const char *token) {
        for (const struct session *s = d->first; s; s = s->next) {
                unsigned different = 0;

                for (size_t i = 0; i < TOKEN_SIZE - 1; i++)
                        different |= (unsigned)(s->token[i] ^ token[i]);
                if (different == 0)
                        return s;
        }
        return NULL;
}

bool ssh_session_admit(struct call *c) {
        char token[TOKEN_SIZE];

        if (c->verb->flags & VERB_FRONT_ONLY)
                return true;
        (void)call_text(c, "door", token, sizeof token);
        const struct session *s = c->o->ssh && strlen(token) == TOKEN_SIZE - 1 ? session_find(c->o->ssh, token) : NULL;
        if (!s || !(c->verb->flags & VERB_FRONT)) {
                call_refuse_text(c, "refused", "", "that is not for the SSH door");
                return false;
        }
        copy_text(c->owner, sizeof c->owner, s->owner);
        actor_of(s, c->actor);
        c->client->session = s->number;
        return true;
}

bool ssh_session_has(const struct call *c, const struct sandbox *box) {
        const struct session *s = c->o->ssh->first;

        while (s && s->number != c->client->session)
                s = s->next;
        return s && box && str_eq(s->sandbox, box->id);
}

/* --- the link --- */

static void close_all(struct msghdr *m) {
        for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
                if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t at = 0; at + sizeof(int) <= h->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(h) + at, sizeof fd);
                        (void)close(fd);
                }
        }
}

/* One packet of one byte, with one descriptor: a connection. -EAGAIN: none is there. */
static int take_one(int link) {
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(4 * sizeof(int))];
        } control;
        char byte[8];
        struct iovec part = {byte, sizeof byte};
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};

        ssize_t n = recvmsg(link, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0)
                return errno == EINTR ? -EAGAIN : -errno;
        if (n == 0 && m.msg_controllen == 0)
                return -EPIPE;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        if (!h || h->cmsg_len != CMSG_LEN(sizeof(int)) || CMSG_NXTHDR(&m, h) || h->cmsg_type != SCM_RIGHTS ||
            (m.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
                close_all(&m);
                return -EBADMSG;
        }
        int fd;
        memcpy(&fd, CMSG_DATA(h), sizeof fd);
        return fd;
}

static void link_ready(struct loop_watch *w, uint32_t events) {
        struct ssh_door *d = LOOP_OWNER(w, struct ssh_door, watch);

        (void)events;
        for (unsigned i = 0; i < TAKE_AT_ONCE; i++) {
                int fd = take_one(d->o->ssh_link);

                if (fd >= 0)
                        server_take(d->o, fd);
                else if (fd == -EAGAIN)
                        return;
                else if (fd != -EBADMSG) { /* the warden, which has its other end, is gone */
                        log_line(LOG_LEVEL_ERROR, NULL, "the SSH door is shut: %s", err_name(fd));
                        loop_unwatch(d->o->loop, w);
                        return;
                }
        }
}

static int load_key(void *data, const void *found) {
        struct ssh_door *d = data;

        return ssh_key_put(d->o, found) ? 0 : -ENOMEM;
}

static void door_open(struct core *o) {
        struct err err = {0};
        struct ssh_door *d = calloc(1, sizeof *d);

        o->ssh = d;
        if (!d)
                return;
        d->o = o;
        d->next = wall_ms(); /* the ledger has numbers of earlier ones: they are not used again */
        d->look.fire = look;
        d->watch.ready = link_ready;
        if (store_load(o->store, STORE_SSH_KEY, load_key, d, &err) < 0)
                log_err(LOG_LEVEL_ERROR, NULL, &err);
        else if (o->ssh_link >= 0 && loop_watch(o->loop, &d->watch, o->ssh_link, EPOLLIN) < 0)
                log_line(LOG_LEVEL_ERROR, NULL, "the SSH door cannot be watched");
}

static void door_drain(struct core *o) {
        if (o->ssh)
                loop_unwatch(o->loop, &o->ssh->watch);
}

/* Called before the clients are cut; sessions go with their clients. */
static void door_close(struct core *o) {
        struct ssh_door *d = o->ssh;

        if (!d)
                return;
        while (d->first) { /* what runs is the next operator's: it goes on */
                struct session *s = d->first;

                d->first = s->next;
                s->call->gone = NULL;
                s->call->data = NULL;
                call_drop(s->call);
                free(s);
        }
        loop_timer_clear(o->loop, &d->look);
        for (struct ssh_key *k; (k = ssh_key_next(o, NULL));)
                key_free(d, k);
        table_free(&d->keys);
        free(d);
        o->ssh = NULL;
}

const struct front ssh_front = {.open = door_open, .drain = door_drain, .close = door_close};
