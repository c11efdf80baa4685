/* Verbs about SSH: which keys may come in, for their owner; and whether this one may, for the door.
 *
 * A key is let in when that is recorded and durable; it is out in the moment that its owner says so, and the answer
 * comes when that is durable. */
#include <stdio.h>
#include <strings.h>

#include "base/base64.h"
#include "base/sha256.h"
#include "base/text.h"
#include "operator/life.h"
#include "operator/ssh-door.h"
#include "operator/verbs.h"

#define REFUSED_MS 10000 /* how often refusals are recorded at most */

/* --- keys in text --- */

static const char *const types[] = {"ssh-ed25519",
                                    "ecdsa-sha2-nistp256",
                                    "ecdsa-sha2-nistp384",
                                    "ecdsa-sha2-nistp521",
                                    "ssh-rsa",
                                    "sk-ssh-ed25519@openssh.com",
                                    "sk-ecdsa-sha2-nistp256@openssh.com"};

/* The bytes of a key begin with its type, as a string with its length. */
static bool has_type(const uint8_t *blob, size_t size, const char *type, size_t length) {
        return size > 4 + length && blob[0] == 0 && blob[1] == 0 && blob[2] == 0 && blob[3] == length &&
               memcmp(blob + 4, type, length) == 0;
}

static void fingerprint(const uint8_t *blob, size_t size, char ret[SSH_FINGERPRINT]) {
        uint8_t sum[SHA256_SIZE];
        char text[BASE64_TEXT(SHA256_SIZE)];

        sha256(blob, size, sum);
        (void)snprintf(ret, SSH_FINGERPRINT, "SHA256:%s", base64_write(sum, sizeof sum, text));
}

bool ssh_key_fingerprint(const char *base64, char ret[SSH_FINGERPRINT]) {
        _cleanup_free_ uint8_t *blob = malloc(SSH_KEY_TEXT_MAX);
        size_t size = 0;

        if (!blob || !base64_read(base64, strlen(base64), blob, SSH_KEY_TEXT_MAX, &size) || size < 16)
                return false;
        fingerprint(blob, size, ret);
        return true;
}

static int bad_key(struct err *err, const char *what) {
        (void)call_err(err, ERR_INPUT, "'public_key' is wrong: %s", what);
        return err_hint(err,
                        "it is one line of a file such as ~/.ssh/id_ed25519.pub, of type ssh-ed25519, ecdsa-sha2-…, "
                        "ssh-rsa or sk-…");
}

static void keep_comment(const char *text, char ret[STORE_NAME]) {
        size_t n = 0;

        for (text += strspn(text, " "); *text && n < STORE_NAME - 1; text++)
                if ((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f)
                        ret[n++] = *text;
        ret[n] = '\0';
}

int ssh_key_parse(const char *text, struct store_ssh_key *ret, struct err *err) {
        size_t length = strcspn(text, " "), type = 0, size = 0;
        const char *key = text + length + strspn(text + length, " ");
        size_t key_length = strcspn(key, " \r\n");
        const char *rest = key + key_length;

        while (type < ELEMENTSOF(types) && !(strlen(types[type]) == length && memcmp(types[type], text, length) == 0))
                type++;
        if (type == ELEMENTSOF(types))
                return bad_key(err, "it does not begin with a type that is taken");
        if (rest[strcspn(rest, "\r\n")] && rest[strcspn(rest, "\r\n") + strspn(rest + strcspn(rest, "\r\n"), "\r\n")])
                return bad_key(err, "it has more than one line");
        _cleanup_free_ uint8_t *blob = malloc(SSH_KEY_TEXT_MAX);
        if (!blob)
                return call_err(err, -ENOMEM, "out of memory");
        if (!base64_read(key, key_length, blob, SSH_KEY_TEXT_MAX, &size) || !has_type(blob, size, text, length))
                return bad_key(err, "what follows the type is no such key");
        copy_text(ret->type, sizeof ret->type, types[type]);
        fingerprint(blob, size, ret->fingerprint);
        keep_comment(rest, ret->comment);
        return 0;
}

/* --- for owners --- */

struct change {
        struct core *o;
        struct call *call;
        struct durable durable;
        struct change *next;
        bool added;
        bool undone; /* the key was taken out again before it was written down */
        struct store_ssh_key row;
};

static struct change *under_way;

uint64_t ssh_keys_end(struct core *o, const char *capability) {
        uint64_t ticket = 0, one;

        for (struct change *h = under_way; h; h = h->next)
                if (h->added && str_eq(h->row.capability, capability)) { /* its row is in the queue before this */
                        h->undone = true;
                        one = store_remove(o->store, STORE_SSH_KEY, &h->row);
                        ticket = MAX(ticket, one);
                }
        for (struct ssh_key *k = ssh_key_next(o, NULL), *next; k; k = next) {
                next = ssh_key_next(o, k);
                if (!str_eq(k->row.capability, capability))
                        continue;
                one = ssh_key_end(o, k, "revoked");
                ticket = MAX(ticket, one);
        }
        return ticket;
}

/* Keys that are only being written down must not come in afterwards. */
static void undo_others(const struct store_ssh_key *row) {
        for (struct change *h = under_way; h; h = h->next)
                h->undone |= h->added && str_eq(h->row.sandbox, row->sandbox) &&
                             str_eq(h->row.fingerprint, row->fingerprint);
}

static void key_json(const struct store_ssh_key *k, struct json *j, const char *key) {
        json_open(j, key, '{');
        json_str(j, "fingerprint", k->fingerprint);
        json_str(j, "type", k->type);
        json_str(j, "username", k->username);
        json_str(j, "comment", k->comment);
        json_u64(j, "created_ms", k->created_ms);
        if (k->capability[0]) {
                json_str(j, "capability", k->capability);
                json_u64(j, "expires_ms", k->expires_ms);
        }
        json_close(j, '}');
}

static void changed(struct durable *d, int error) {
        struct change *h = LOOP_OWNER(d, struct change, durable);
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        struct change **at = &under_way;

        while (*at != h)
                at = &(*at)->next;
        *at = h->next;
        if (error == 0 && h->added && !h->undone && !ssh_key_put(h->o, &h->row))
                error = -ENOMEM;
        if (error < 0) {
                call_refuse_text(h->call, error == -ENOMEM ? "failed" : "full",
                                 "make room on the disk of the state folder, and ask again",
                                 "it could not be written down: %s", err_name(error));
        } else if (h->added && h->undone)
                call_refuse_text(h->call, "conflict", "add it again if it is wanted",
                                 "the key was taken out again meanwhile");
        else {
                if (h->added)
                        key_json(&h->row, &j, NULL);
                call_answer(h->call, &b);
        }
        free(h);
}

static void change(struct call *c, const struct store_ssh_key *row, bool add) {
        struct core *o = c->o;
        struct change *h = calloc(1, sizeof *h);
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct err err = {0};
        uint64_t seq = 0;

        if (!h) {
                call_refuse_text(c, "failed", "try again", "out of memory");
                return;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "by", "ssh");
        json_str(&j, "key", row->fingerprint);
        json_str(&j, "username", row->username);
        json_close(&j, '}');
        if (record_needed(o, add ? LEDGER_GRANT_GIVE : LEDGER_GRANT_END, c->sandbox->id, c->actor,
                          buf_ok(&b) ? b.data : "{}", &seq, &err) < 0) {
                free(h);
                call_refuse(c, &err);
                return;
        }
        *h = (struct change){.o = o, .call = c, .next = under_way, .added = add, .row = *row};
        under_way = h;
        h->durable = (struct durable){.seq = seq, .done = changed};
        h->durable.ticket = add ? store_put(o->store, STORE_SSH_KEY, row) : store_remove(o->store, STORE_SSH_KEY, row);
        durable_wait(o, &h->durable);
}

static unsigned keys_of(struct core *o, const char *sandbox) {
        unsigned n = 0;

        for (const struct ssh_key *k = ssh_key_next(o, NULL); k; k = ssh_key_next(o, k))
                n += str_eq(k->row.sandbox, sandbox);
        return n;
}

static bool is_user(const char *s) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

        return s[0] && s[0] != '-' && s[strspn(s, letters)] == '\0';
}

void verb_ssh_key_add(struct call *c) {
        struct store_ssh_key row = {.created_ms = wall_ms()};
        _cleanup_free_ char *text = call_strdup(c, "public_key");
        struct err err = {0};

        ssh_keys_expire(c->o);
        copy_text(row.sandbox, sizeof row.sandbox, c->sandbox->id);
        if (c->client && c->client->capability) {
                copy_text(row.capability, sizeof row.capability, c->client->capability);
                row.expires_ms = c->client->expires_ms;
        }
        (void)call_text(c, "username", row.username, sizeof row.username);
        if (!call_has(c, "username"))
                copy_text(row.username, sizeof row.username, "agent");
        if (!text)
                (void)call_err(&err, -ENOMEM, "out of memory");
        else if (c->client && c->client->is_over && c->client->is_over(c->client))
                (void)call_err(&err, -EACCES, "the token that this was asked with is not good any more");
        else if (!is_user(row.username))
                (void)call_err(&err, ERR_INPUT,
                               "'username' is wrong: it has to be 1 to 32 letters, digits, '.', '_' or '-'");
        else
                (void)ssh_key_parse(text, &row, &err);
        const struct ssh_key *there = err.code == 0 ? ssh_key_find(c->o, row.sandbox, row.fingerprint) : NULL;
        if (there && !there->row.capability[0]) { /* its owner let it in: it stays so */
                row.capability[0] = '\0';
                row.expires_ms = 0;
        }
        if (err.code == 0 && !there && keys_of(c->o, row.sandbox) >= SSH_KEYS_MAX) {
                (void)call_err(&err, ERR_LIMIT, "the sandbox has %d SSH keys, which is the limit", SSH_KEYS_MAX);
                (void)err_hint(&err, "remove one that is not needed");
        }
        if (err.code < 0)
                call_refuse(c, &err);
        else
                change(c, &row, true);
}

void verb_ssh_key_remove(struct call *c) {
        struct store_ssh_key row = {.created_ms = 0};
        _cleanup_free_ char *text = call_strdup(c, "public_key");
        struct err err = {0};

        if (text)
                (void)ssh_key_parse(text, &row, &err);
        else if (call_has(c, "fingerprint"))
                (void)call_text(c, "fingerprint", row.fingerprint, sizeof row.fingerprint);
        else
                (void)call_err(&err, ERR_INPUT, "'ssh-key-remove' needs 'public_key' or 'fingerprint'");
        if (err.code < 0) {
                call_refuse(c, &err);
                return;
        }
        struct ssh_key *k = ssh_key_find(c->o, c->sandbox->id, row.fingerprint);
        if (!k) {
                call_refuse_text(c, "not_found", "'stockade ssh-key list' shows those that there are",
                                 "the sandbox has no SSH key %s", row.fingerprint);
                return;
        }
        row = k->row;
        row.capability[0] = '\0'; /* whoever let it in */
        undo_others(&row);
        ssh_key_drop(c->o, k, "revoked"); /* whatever becomes of the row: from now on it opens nothing */
        change(c, &row, false);
}

void verb_ssh_keys(struct call *c) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        ssh_keys_expire(c->o);
        json_open(&j, NULL, '{');
        json_open(&j, "keys", '[');
        for (const struct ssh_key *k = ssh_key_next(c->o, NULL); k; k = ssh_key_next(c->o, k))
                if (str_eq(k->row.sandbox, c->sandbox->id))
                        key_json(&k->row, &j, NULL);
        json_close(&j, ']');
        json_close(&j, '}');
        call_answer(c, &b);
}

/* --- for the door --- */

/* Anybody can be refused, as often as he likes: the ledger gets a line now and then, with their number. */
static void note_refusal(struct call *c, const char *user, const char *print, const char *from) {
        static uint64_t noted, refused;
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        uint64_t now = loop_now(c->o->loop);

        refused++;
        if (noted > 0 && now - noted < REFUSED_MS)
                return;
        json_open(&j, NULL, '{');
        json_str(&j, "by", "ssh");
        json_str(&j, "user", user);
        json_str(&j, "key", print);
        json_str(&j, "from", from);
        json_u64(&j, "times", refused);
        json_close(&j, '}');
        if (buf_ok(&b))
                (void)record(c->o, LEDGER_AUTH_REFUSED, "", "ssh", b.data);
        noted = now;
        refused = 0;
}

static bool is_in(const struct conf_list *wallets, const char *owner) {
        for (size_t i = 0; i < wallets->count; i++)
                if (strcasecmp(wallets->items[i], owner + strlen("eth:")) == 0 || str_eq(wallets->items[i], "*"))
                        return true;
        return false;
}

/* A wallet that may not sign in any more has no way in here either. */
static bool owner_is_welcome(const struct core *o, const struct sandbox *s) {
        const char *owner = s->owner ? s->owner->name : "";

        return !str_starts(owner, "eth:") || is_in(&o->conf.wallets, owner) || is_in(&o->conf.operators, owner);
}

void verb_ssh_check(struct call *c) {
        char user[STORE_NAME], from[64], print[SSH_FINGERPRINT] = "";
        _cleanup_free_ char *key = call_strdup(c, "public_key");
        struct sandbox *s = NULL;
        struct buf nothing = {0};

        (void)call_text(c, "user", user, sizeof user);
        (void)call_text(c, "from", from, sizeof from);
        ssh_keys_expire(c->o);
        if (key && ssh_key_fingerprint(key, print))
                s = ssh_key_sandbox(c->o, user, print);
        if (!s || s->state == STATE_DELETED || !owner_is_welcome(c->o, s)) {
                note_refusal(c, user, print, from);
                call_refuse_text(c, "refused", "", "this key does not open that");
        } else if (call_bool(c, "open"))
                ssh_session_begin(c, s, print, from);
        else
                call_answer(c, &nothing);
}
