/* Signing in and out. */
#include "api/signin.h"

#include <stdio.h>
#include <time.h>

#include "api/instance.h"
#include "api/rates.h"
#include "api/renew.h"
#include "api/token.h"
#include "api/who.h"
#include "auth/siwe.h"
#include "base/fd.h"
#include "base/json-read.h"
#include "base/log.h"
#include "operator/sandbox.h"
#include "operator/secret-vault.h"

#define NONCES      10000
#define NONCES_EACH 100 /* of one address */
#define TICKETS     4096
#define LINKS       16
#define LINK_MS     (600 * 1000)
#define REVOKED_MAX 200000
#define TIDY_MS     30000
#define STATEMENT   "Sign in to Stockade."

uint64_t signin_now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- the beginning ---------------------------------------------------------------------------------------------------
 */

static int load_revoked(void *data, const void *found) {
        const struct store_revoked *row = found;
        struct signin *s = data;

        if (row->expires_ms <= signin_now_ms()) {
                (void)store_remove(s->api->o->store, STORE_REVOKED, row);
                return 0;
        }
        return revoked_add(s->revoked, row->jti, row->expires_ms);
}

static int find_keys(struct signin *s, struct err *err) {
        s->keys = secret_vault_keys(s->api->o);
        return s->keys ? 0 : err_set(err, ERR_REFUSED, "the API has no session secret");
}

static void tidy(struct loop_timer *timer) {
        struct signin *s = LOOP_OWNER(timer, struct signin, timer);
        uint64_t now = signin_now_ms(), loop = loop_now(s->api->o->loop);

        token_tidy(s);
        (void)revoked_sweep(s->revoked, now);
        (void)single_use_sweep(s->nonces, loop);
        (void)single_use_sweep(s->tickets, loop);
        (void)single_use_sweep(s->links, loop);
        loop_timer_set(s->api->o->loop, timer, loop + TIDY_MS);
}

int signin_open(struct api *a, struct err *err) {
        struct signin *s = calloc(1, sizeof *s);
        int r;

        if (!s)
                return err_set(err, -ENOMEM, "could not open the API");
        a->signin = s;
        s->api = a;
        s->timer.fire = tidy;
        if ((r = session_memo_open(&s->memo, SIGNIN_MEMO, err)) < 0 || (r = find_keys(s, err)) < 0 ||
            (r = revoked_open(&s->revoked, REVOKED_MAX, err)) < 0 ||
            (r = single_use_open(&s->nonces, NONCES, NONCES_EACH, SINGLE_USE_NONCE_MS, err)) < 0 ||
            (r = single_use_open(&s->tickets, TICKETS, NONCES_EACH, SINGLE_USE_TICKET_MS, err)) < 0 ||
            (r = single_use_open(&s->links, LINKS, LINKS, LINK_MS, err)) < 0 ||
            (r = store_load(a->o->store, STORE_REVOKED, load_revoked, s, err)) < 0 ||
            (r = store_load(a->o->store, STORE_CAPABILITY, token_load, s, err)) < 0)
                return r;
        loop_timer_set(a->o->loop, &s->timer, loop_now(a->o->loop) + TIDY_MS);
        return 0;
}

void signin_close(struct api *a) {
        struct signin *s = TAKE_PTR(a->signin);

        if (!s)
                return;
        loop_timer_clear(a->o->loop, &s->timer);
        token_close(s);
        revoked_close(s->revoked);
        single_use_close(s->nonces);
        single_use_close(s->tickets);
        single_use_close(s->links);
        session_memo_close(s->memo);
        free(s);
}

/* --- challenges ------------------------------------------------------------------------------------------------------
 */

/* Whoever these belong to; of IPv6 the first half. */
static const char *client_name(const struct exchange *x, char ret[SINGLE_USE_WHO]) {
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
        size_t size = memcmp(x->address, mapped, 12) == 0 ? 16 : 8;

        for (size_t i = 0; i < size; i++)
                (void)snprintf(ret + 2 * i, 3, "%02x", x->address[i]);
        return ret;
}

static int build(struct api *a, const struct ethereum_address *who, const char *nonce, uint64_t issued_ms,
                 struct buf *out, struct err *err) {
        struct siwe m = {.domain = siwe_part(a->domain),
                         .address = *who,
                         .statement = siwe_part(STATEMENT),
                         .uri = siwe_part(a->url),
                         .chain_id = a->o->conf.chain,
                         .nonce = siwe_part(nonce),
                         .issued_at = {.ms = issued_ms},
                         .has_expiration = true,
                         .expiration = {.ms = issued_ms + SIWE_TTL_MS}};

        return siwe_build(&m, out, err);
}

static void answer_challenge(struct exchange *x, const char *nonce, struct buf *text, uint64_t expires_ms) {
        struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "nonce", nonce);
        json_str(&j, "message", buf_ok(text) ? text->data : "");
        json_u64(&j, "expires_at", expires_ms / 1000);
        json_u64(&j, "expires_at_ms", expires_ms);
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

void signin_challenge(struct exchange *x) {
        struct signin *s = x->api->signin;
        _cleanup_buf_ struct buf text = {0};
        char address[64] = "", who[SINGLE_USE_WHO], note[SINGLE_USE_NOTE], nonce[SINGLE_USE_ID];
        struct ethereum_address wallet;
        struct err err = {0};
        uint64_t now = signin_now_ms();
        bool plain = x->api->o->conf.plain_sign_in && json_find_kind(x->body.data, "address") == '\0';

        if (!plain && (!json_find_str(x->body.data, "address", address, sizeof address) ||
                       ethereum_parse(address, strlen(address), true, &wallet, &err) < 0)) {
                reply_error(x, "bad_request", "send {\"address\": \"0x…\"}", "%s",
                            err.text[0] ? err.text : "a sign-in text names the wallet that signs it");
                return;
        }
        now -= now % 1000; /* so that both texts have whole seconds */
        if (plain)
                (void)snprintf(note, sizeof note, "plain %llu", (unsigned long long)now + SIWE_TTL_MS);
        else
                (void)snprintf(note, sizeof note, "siwe %llu %s", (unsigned long long)now, address);
        int r = single_use_add(s->nonces, client_name(x, who), note, loop_now(x->api->o->loop), nonce, &err);
        if (r == 0)
                r = plain ? siwe_build_plain(nonce, now + SIWE_TTL_MS, &text, &err)
                          : build(x->api, &wallet, nonce, now, &text, &err);
        if (r < 0)
                reply_error(x, r == -ENOSPC ? "unavailable" : "failed", "try again in a minute", "%s", err.text);
        else
                answer_challenge(x, nonce, &text, now + SIWE_TTL_MS);
}

/* --- sessions --------------------------------------------------------------------------------------------------------
 */

const char *signin_owner(const char *subject) {
        return subject + (str_starts(subject, SIGNIN_ADMIN) ? strlen(SIGNIN_ADMIN) : 0);
}

void signin_give(struct exchange *x, const struct session *wanted, const char *renews) {
        const char *owner = signin_owner(wanted->subject);
        struct signin *s = x->api->signin;
        struct session session = *wanted;
        _cleanup_buf_ struct buf token = {0};
        struct buf b = {0};
        struct json j = {.out = &b};
        struct err err = {0};
        uint64_t seq = 0;
        char time[RFC3339_TEXT] = "", data[128];

        session.kind = SESSION_PERSON;
        (void)snprintf(session.audience, sizeof session.audience, "%s", x->api->url);
        int r = session_make(s->keys, &session, &token, &err);
        (void)snprintf(data, sizeof data, "{\"jti\":\"%s\"%s%s%s}", session.jti, renews ? ",\"renews\":\"" : "",
                       renews ? renews : "", renews ? "\"" : "");
        if (r == 0)
                r = record_needed(x->api->o, LEDGER_SESSION_BEGIN, "", owner, data, &seq, &err);
        if (r < 0) {
                reply_error(x, "failed", "try again", "%s", err.text);
                return;
        }
        (void)rfc3339_format(session.expires_ms, time);
        json_open(&j, NULL, '{');
        json_str(&j, "token", token.data);
        json_str(&j, "address", str_starts(owner, "eth:") ? owner + 4 : owner);
        json_str(&j, "owner", owner);
        json_u64(&j, "expires_at", session.expires_ms / 1000);
        json_u64(&j, "expires_at_ms", session.expires_ms);
        json_str(&j, "expires", time);
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

static void give_session(struct exchange *x, const char *subject) {
        struct session session = {.issued_ms = signin_now_ms()};

        /* what can be begun must be possible to end: the rest of the room is for those who are in */
        if (revoked_count(x->api->signin->revoked) > REVOKED_MAX / 4 * 3) {
                reply_error(x, "busy", "try again in an hour", "too many sessions were ended lately");
                return;
        }
        session.expires_ms = session.issued_ms + x->api->o->conf.session;
        (void)snprintf(session.subject, sizeof session.subject, "%s", subject);
        signin_give(x, &session, NULL);
}

static void refuse_sign_in(struct exchange *x, const char *why) {
        reply_error(x, "bad_token", "ask for a new challenge: each is good once, for five minutes", "%s", why);
}

/* The note says what was to be signed. */
static int verify(struct exchange *x, const char *note, const char *nonce, const char *message, const char *signature,
                  struct ethereum_address *ret, struct err *err) {
        _cleanup_buf_ struct buf text = {0};
        struct ethereum_address wallet;
        unsigned long long when = 0;
        char address[64];
        uint64_t now = signin_now_ms();

        if (sscanf(note, "plain %llu", &when) == 1)
                return siwe_verify_plain(nonce, when, signature, strlen(signature), now, ret, err);
        if (sscanf(note, "siwe %llu %63s", &when, address) != 2 ||
            ethereum_parse(address, strlen(address), true, &wallet, err) < 0)
                return err_set(err, ERR_REFUSED, "the challenge is damaged");
        struct siwe_expect e = {.domain = x->api->domain,
                                .uri = x->api->url,
                                .chain_id = x->api->o->conf.chain,
                                .nonce = nonce,
                                .now_ms = now,
                                .max_age_ms = SIWE_TTL_MS,
                                .address = &wallet};
        if (!message[0]) {
                int r = build(x->api, &wallet, nonce, when, &text, err);
                if (r < 0)
                        return r;
                message = text.data;
        }
        return siwe_verify(message, strlen(message), signature, strlen(signature), &e, ret, err);
}

static void by_link(struct exchange *x, const char *link) {
        char owner[SINGLE_USE_NOTE];

        if (single_use_take(x->api->signin->links, link, strlen(link), loop_now(x->api->o->loop), owner, NULL) < 0)
                reply_error(x, "bad_token", "'stockade up' and 'stockade sign-in' print a new one",
                            "the link is not good, or not any more");
        else
                give_session(x, owner);
}

void signin_session(struct exchange *x) {
        char signature[256] = "", nonce[SIWE_NONCE_MAX + 1] = "", note[SINGLE_USE_NOTE], owner[ETHEREUM_OWNER],
             link[SINGLE_USE_ID + 1] = "";
        static char message[SIWE_MAX + 1]; /* one loop, one at a time */
        struct ethereum_address wallet;
        struct siwe parsed;
        struct err err = {0};

        message[0] = '\0';
        if (json_find_kind(x->body.data, "link")) {
                (void)json_find_str(x->body.data, "link", link, sizeof link);
                by_link(x, link);
                return;
        }
        (void)json_find_str(x->body.data, "nonce", nonce, sizeof nonce);
        (void)json_find_str(x->body.data, "message", message, sizeof message);
        if (!json_find_str(x->body.data, "signature", signature, sizeof signature) || (!nonce[0] && !message[0])) {
                reply_error(x, "bad_request", "send {\"nonce\", \"signature\"}, or {\"message\", \"signature\"}",
                            "a signature is needed, and what was signed");
                return;
        }
        if (message[0] && !nonce[0] && siwe_parse(message, strlen(message), &parsed, &err) == 0 &&
            parsed.nonce.size < sizeof nonce) {
                memcpy(nonce, parsed.nonce.at, parsed.nonce.size);
                nonce[parsed.nonce.size] = '\0';
        }
        if (single_use_take(x->api->signin->nonces, nonce, strlen(nonce), loop_now(x->api->o->loop), note, NULL) < 0)
                refuse_sign_in(x, "the nonce is not ours, or was used, or is too old");
        else if (verify(x, note, nonce, message, signature, &wallet, &err) < 0)
                refuse_sign_in(x, err.text);
        else {
                ethereum_owner(&wallet, owner);
                unsigned wait = rates_ask(x->api->rates, RATE_AUTH, owner, strlen(owner), loop_now(x->api->o->loop));

                if (wait > 0) /* each session that was ended is remembered until it would have expired */
                        reply_error(x, "rate_limited", "wait a minute", "the wallet %s signs in too often", owner + 4);
                else if (who_is_welcome(x->api, owner))
                        give_session(x, owner);
                else
                        reply_error(x, "not_permitted", "name it in 'wallets' of stockade.conf",
                                    "the wallet %s may not sign in here", owner + 4);
        }
}

void signin_whoami(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "owner", x->c.owner);
        json_str(&j, "address", str_starts(x->c.owner, "eth:") ? x->c.owner + 4 : x->c.owner);
        json_bool(&j, "operator", x->c.admin);
        json_str(&j, "jti", x->jti);
        json_u64(&j, "expires_at_ms", x->expires_ms);
        json_close(&j, '}');
        reply_json(x, 200, &b);
}

/* Whoever listens on the way could take such a link. */
static bool is_private(const struct api *a) {
        bool here = true;

        for (size_t i = 0; i < a->door_count; i++)
                here &= endpoint_is_loopback(&a->doors[i].at);
        return here || str_starts(a->url, "https://");
}

int signin_link(struct api *a, const char *owner, struct buf *url, struct err *err) {
        char id[SINGLE_USE_ID];

        if (str_starts(owner, SIGNIN_ADMIN) && !is_private(a))
                return err_set(err, ERR_REFUSED, "links for operators are not made where others can listen");
        int r = single_use_add(a->signin->links, "local", owner, loop_now(a->o->loop), id, err);

        if (r == 0)
                buf_printf(url, "%s/#link=%s", a->url, id);
        return r;
}

/* --- the end of a session or capability
 * -------------------------------------------------------------------------------- */

struct ending {
        struct exchange *x;
        struct durable durable;
        char jti[SESSION_JTI];
        uint64_t expires_ms;
};

static void ended(struct durable *d, int error) {
        struct ending *e = LOOP_OWNER(d, struct ending, durable);
        struct exchange *x = e->x;
        struct buf b = {0};

        if (!x->connection)
                ;
        else if (error < 0)
                reply_error(x, "full", "make room on the disk of the state folder",
                            "it could not be written down, and is not sure to last: %s", err_name(error));
        else {
                buf_str(&b, "{\"revoked\":true}");
                reply_json(x, 200, &b);
        }
        free(e);
        exchange_release(x);
}

/* From this moment on it is not good; that this lasts is answered when it is so. */
void signin_revoke(struct exchange *x, enum ledger_kind kind, const char *jti, uint64_t expires_ms, uint64_t ticket) {
        struct ending *e = calloc(1, sizeof *e);
        struct err err = {0};
        char data[64];

        (void)revoked_sweep(x->api->signin->revoked, signin_now_ms());
        int r = e ? revoked_add(x->api->signin->revoked, jti, expires_ms) : -ENOMEM;
        (void)snprintf(data, sizeof data, "{\"jti\":\"%s\"}", jti);
        if (r == 0)
                r = record_needed(x->api->o, kind, "", x->c.owner, data, &e->durable.seq, &err);
        if (r < 0) {
                free(e);
                reply_error(x, "failed", "try again", "it could not be revoked");
                return;
        }
        e->x = x;
        e->durable.ticket = ticket;
        e->durable.done = ended;
        exchange_hold(x);
        store_hurry(x->api->o->store);
        durable_wait(x->api->o, &e->durable);
}

void signin_end(struct exchange *x) {
        struct store_revoked row = {.revoked_ms = signin_now_ms()};

        row.expires_ms = renew_over(row.revoked_ms, x->expires_ms);

        (void)snprintf(row.jti, sizeof row.jti, "%s", x->jti);
        (void)snprintf(row.owner, sizeof row.owner, "%s", x->c.owner);
        x->jti[0] = '\0'; /* what the session opened is cut, but not the answer to this */
        signin_revoke(x, LEDGER_SESSION_END, row.jti, row.expires_ms, store_put(x->api->o->store, STORE_REVOKED, &row));
}

/* --- tickets
 * ------------------------------------------------------------------------------------------------------------ */

void signin_ticket(struct exchange *x) {
        struct buf b = {0};
        struct json j = {.out = &b};
        char path[SINGLE_USE_NOTE], meant[SINGLE_USE_NOTE], note[SINGLE_USE_NOTE], who[SINGLE_USE_WHO];
        char id[SINGLE_USE_ID];
        struct err err = {0};

        bool given = json_find_str(x->body.data, "path", path, sizeof path) && path[0] == '/';
        bool other = given && instance_rename(x->api, path, meant, sizeof meant);
        /* of paths where only whoever acts for all is let in, it may do what its session may; elsewhere it is one of
         * its owner's, as ever */
        bool admin = given && x->c.admin && str_starts(path, "/api/operator/") && !str_starts(x->c.owner, "eth:");
        if (!given || snprintf(note, sizeof note, "%s%s %s %llu %s", admin ? SIGNIN_ADMIN : "", x->c.owner, x->jti,
                               (unsigned long long)x->expires_ms, other ? meant : path) >= (int)sizeof note) {
                reply_error(x, "bad_request", "send {\"path\": \"/api/…\"}",
                            "a ticket is for the path of one stream, without its query");
                return;
        }
        if (single_use_add(x->api->signin->tickets, client_name(x, who), note, loop_now(x->api->o->loop), id, &err) <
            0) {
                reply_error(x, "unavailable", "try again in a minute", "%s", err.text);
                return;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "ticket", id);
        json_u64(&j, "expires_in_ms", SINGLE_USE_TICKET_MS);
        json_close(&j, '}');
        reply_json(x, 200, &b);
}
