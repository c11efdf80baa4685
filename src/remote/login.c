/* A session: the server's text is signed by an Ethereum key (EIP-4361), or a link that the host printed is spent.
 *
 * Must never: sign a text that is for another server, or for another wallet, or is no sign-in text at all. A server
 * that lies could otherwise sign in elsewhere in our name. */
#include "remote/login.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "auth/rfc3339.h"
#include "auth/siwe.h"
#include "base/fd.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/text.h"
#include "remote/ask.h"
#include "remote/keep.h"
#include "remote/key.h"

#define CHALLENGE "/api/auth/challenge"
#define SESSION   "/api/auth/session"

/* --- signing --------------------------------------------------------------------------------------------------------
 */

/* Who signs. */
struct signer {
        struct ethereum_address address;
        uint8_t key[WALLET_KEY];
        const char *command; /* NULL: the key does */
};

static void signer_wipe(struct signer *s) {
        explicit_bzero(s->key, sizeof s->key);
}

static int find_signer(const struct login *o, struct signer *ret, struct err *err) {
        ret->command = o->signer;
        if (o->signer) {
                if (o->address)
                        return ethereum_parse(o->address, strlen(o->address), true, &ret->address, err);
                (void)err_set(err, ERR_INPUT, "--signer needs --address");
                return err_hint(err, "the text to be signed names the wallet: --address 0x…");
        }
        int r = o->new_key ? key_make(o->key, ret->key, err) : key_read(o->key, o->passphrase_file, ret->key, err);
        if (r == 0)
                r = wallet_address(ret->key, &ret->address, err);
        if (r == 0 && o->address) {
                struct ethereum_address wanted;

                r = ethereum_parse(o->address, strlen(o->address), true, &wanted, err);
                if (r == 0 && !ethereum_same(&wanted, &ret->address))
                        r = err_set(err, ERR_INPUT, "the key is not that of --address");
        }
        return r;
}

/* Is this text about signing in to this server, with this wallet, and nothing else? */
static int check_text(const struct url *u, const struct signer *s, const char *text, struct err *err) {
        struct siwe m;
        char nonce[SIWE_NONCE_MAX + 1] = "", domain[128] = "";
        int r = siwe_parse(text, strlen(text), &m, err);

        if (r < 0)
                return err_prefix(err, r, "the server wants a signature for something else than a sign-in");
        if (m.nonce.size < sizeof nonce)
                memcpy(nonce, m.nonce.at, m.nonce.size);
        (void)snprintf(domain, sizeof domain, "%.*s", (int)MIN(m.domain.size, (size_t)100), m.domain.at);
        /* a server of ours sends none of these; elsewhere such lines are a permission for something */
        if (m.has_resources || m.request_id.at)
                return err_set(err, ERR_REFUSED,
                               "the server wants a signature for more than a sign-in: its text has %s",
                               m.has_resources ? "resources" : "a request id");
        struct siwe_expect e = {.scheme = u->tls ? "https" : "http",
                                .domain = u->domain,
                                .uri = u->text,
                                .chain_id = m.chain_id,
                                .nonce = nonce,
                                .now_ms = m.issued_at.ms, /* whether it is too late is the server's to say */
                                .address = &s->address};
        r = siwe_check(&m, &e, err);
        if (r == 0)
                return 0;
        (void)err_prefix(err, r, "the text to be signed is not for '%s'", u->text);
        if (str_starts(domain, "0.0.0.0") || str_starts(domain, "[::]"))
                return err_hint(err, "the server does not know its own name: set url = %s in its stockade.conf",
                                u->text);
        return err_hint(err, "the server calls itself '%s': use that with --server if it is the right one", domain);
}

static int sign(const struct signer *s, const char *text, char ret[WALLET_SIGNATURE], struct err *err) {
        uint8_t bytes[ETHEREUM_SIGNATURE];
        struct ethereum_address who;
        int r = s->command ? key_sign_elsewhere(s->command, text, strlen(text), ret, err)
                           : wallet_sign(s->key, text, strlen(text), ret, err);

        if (r < 0 || !s->command)
                return r;
        r = ethereum_parse_signature(ret, strlen(ret), bytes, err);
        if (r == 0)
                r = ethereum_recover(text, strlen(text), bytes, &who, err);
        if (r == 0 && !ethereum_same(&who, &s->address))
                r = err_set(err, ERR_REFUSED, "the signer signed with another wallet than that of --address");
        return r;
}

/* --- sessions -------------------------------------------------------------------------------------------------------
 */

static int by_wallet(const struct url *u, const struct trust *trust, const struct signer *s, struct ask_answer *ret,
                     struct err *err) {
        _cleanup_answer_ struct ask_answer challenge = {0};
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        char address[ETHEREUM_TEXT], text[SIWE_MAX + 1] = "", signature[WALLET_SIGNATURE];

        ethereum_text(&s->address, address);
        json_open(&j, NULL, '{');
        json_str(&j, "address", address);
        json_close(&j, '}');
        struct ask q = {.method = "POST", .path = CHALLENGE, .body = body.data};
        int r = ask(u, trust, &q, &challenge, NULL, err);
        if (r < 0)
                return r;
        if (!json_find_str(challenge.body.data, "message", text, sizeof text))
                return err_set(err, ERR_CORRUPT, "'%s' gives no text to be signed", u->text);
        r = check_text(u, s, text, err);
        if (r == 0)
                r = sign(s, text, signature, err);
        if (r < 0)
                return r;
        buf_free(&body);
        body = (struct buf){0};
        j = (struct json){.out = &body};
        json_open(&j, NULL, '{');
        json_str(&j, "message", text);
        json_str(&j, "signature", signature);
        json_close(&j, '}');
        q = (struct ask){.method = "POST", .path = SESSION, .body = body.data};
        return ask(u, trust, &q, ret, NULL, err);
}

static int by_link(const struct url *u, const struct trust *trust, const char *link, struct ask_answer *ret,
                   struct err *err) {
        struct buf body = {0};
        struct json j = {.out = &body};

        json_open(&j, NULL, '{');
        json_str(&j, "link", link);
        json_close(&j, '}');
        struct ask q = {.method = "POST", .path = SESSION, .body = body.data};
        int r = ask(u, trust, &q, ret, NULL, err);
        if (body.data)
                explicit_bzero(body.data, body.size);
        buf_free(&body);
        return r;
}

/* What is trusted: what was said now; otherwise what was said at the last sign-in to this server. */
static int find_trust(const struct login *o, const struct url *u, struct keep *k, struct trust *ret, struct err *err) {
        char *text = NULL;
        size_t size = 0;

        if (keep_read(u, k, NULL) < 0)
                keep_wipe(k);
        k->insecure_http |= o->insecure_http;
        if (o->ca) {
                int r = fd_read_file(AT_FDCWD, o->ca, KEEP_CA, false, &text, &size, err);

                if (r < 0)
                        return err_prefix(err, r, "--ca");
                bool good = strlen(text) == size && text_is_utf8(text) && strstr(text, "-----BEGIN ");
                (void)snprintf(k->ca, sizeof k->ca, "%s", good ? text : "");
                free(text);
                if (!good) {
                        (void)err_set(err, ERR_INPUT, "cannot read certificates from '%.200s'", o->ca);
                        return err_hint(err, "PEM is wanted: -----BEGIN CERTIFICATE-----");
                }
        }
        keep_trust(k, ret);
        ret->any_listener = o->insecure_http;
        ret->ret_listener = &k->listener;
        return 0;
}

static int keep_answer(const struct login *o, const struct url *u, struct keep *k, const struct ask_answer *a,
                       struct err *err) {
        char time[RFC3339_TEXT] = "";
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (!json_find_str(a->body.data, "token", k->token, sizeof k->token) ||
            !json_find_str(a->body.data, "owner", k->owner, sizeof k->owner) ||
            !json_find_u64(a->body.data, "expires_at_ms", &k->expires_ms))
                return err_set(err, ERR_CORRUPT, "'%s' gives no session", u->text);
        int r = keep_write(u, k, err);
        if (r < 0)
                return r;
        if (o->json) {
                json_open(&j, NULL, '{');
                json_str(&j, "server", u->text);
                json_str(&j, "owner", k->owner);
                json_u64(&j, "expires_at_ms", k->expires_ms);
                json_close(&j, '}');
                (void)puts(buf_ok(&b) ? b.data : "{}");
                return 0;
        }
        char owner[2 * sizeof k->owner];
        text_escape(owner, sizeof owner, k->owner);
        (void)rfc3339_format(k->expires_ms, time);
        (void)printf("signed in to %s as %s until %s\n  try: stockade --server %s list\n", u->text, owner, time,
                     u->text);
        return 0;
}

/* From the terminal without echo, or from a pipe. Not from the command line, which every user of the host can read. */
static int read_link(char *ret, size_t size, struct err *err) {
        if (isatty(STDIN_FILENO))
                return key_ask("the link: ", ret, size, err);
        if (!fgets(ret, (int)size, stdin))
                return err_set(err, ERR_INPUT, "no link came on standard input");
        ret[strcspn(ret, "\r\n")] = '\0';
        return 0;
}

static int login_by_link(const struct login *o, struct err *err) {
        _cleanup_keep_ struct keep k = {0};
        struct trust trust;
        _cleanup_answer_ struct ask_answer answer = {0};
        struct url u, named;
        const char *link = NULL;
        char text[1024];

        int r = read_link(text, sizeof text, err);
        if (r == 0)
                r = url_parse_link(text, &u, &link, err);
        if (r == 0 && o->server)
                r = url_parse(o->server, &named, err);
        if (r == 0 && o->server && !str_eq(u.text, named.text))
                r = err_set(err, ERR_INPUT, "the link is for '%s', not for '%s'", u.text, named.text);
        if (r == 0)
                r = find_trust(o, &u, &k, &trust, err);
        if (r == 0)
                r = by_link(&u, &trust, link, &answer, err);
        explicit_bzero(text, sizeof text);
        return r < 0 ? r : keep_answer(o, &u, &k, &answer, err);
}

static void say_key(const struct signer *s, bool json) {
        char address[ETHEREUM_TEXT];

        ethereum_text(&s->address, address);
        if (json)
                (void)printf("{\"address\":\"%s\"}\n", address);
        else
                (void)printf("the new key's address is %s\n"
                             "  a server lets it in when it stands in 'wallets' of its stockade.conf\n",
                             address);
        (void)fflush(stdout);
}

int login(const struct login *o, struct err *err) {
        _cleanup_keep_ struct keep k = {0};
        struct trust trust;
        _cleanup_answer_ struct ask_answer answer = {0};
        _cleanup_(signer_wipe) struct signer s = {0};
        struct url u;

        if (o->link)
                return login_by_link(o, err);
        int r = o->server ? url_parse(o->server, &u, err) : 0;
        if (r == 0 && !o->server && !o->new_key) {
                (void)err_set(err, ERR_INPUT, "which server?");
                r = err_hint(err, "stockade login --server https://HOST[:PORT]; or set STOCKADE_SERVER");
        }
        if (r == 0 && o->server)
                r = find_trust(o, &u, &k, &trust, err);
        if (r == 0)
                r = find_signer(o, &s, err);
        if (r < 0)
                return r;
        if (o->new_key && (!o->json || !o->server))
                say_key(&s, o->json);
        if (!o->server)
                return 0;
        r = by_wallet(&u, &trust, &s, &answer, err);
        return r < 0 ? r : keep_answer(o, &u, &k, &answer, err);
}

int logout(const struct login *o, struct err *err) {
        _cleanup_answer_ struct ask_answer answer = {0};
        _cleanup_keep_ struct keep k = {0};
        struct trust trust;
        struct url u;
        unsigned status = 0;

        if (!o->server) {
                (void)err_set(err, ERR_INPUT, "which server?");
                return err_hint(err, "stockade logout --server URL; or set STOCKADE_SERVER");
        }
        int r = url_parse(o->server, &u, err);
        if (r == 0)
                r = keep_read(&u, &k, err);
        if (r < 0)
                return r == ERR_CORRUPT || (o->force && r != ERR_INPUT) ? keep_forget(&u, err) : r;
        keep_trust(&k, &trust);
        struct ask q = {.method = "DELETE", .path = SESSION, .token = k.token};
        r = o->force ? 0 : ask(&u, &trust, &q, &answer, &status, err);
        if (r < 0 && status != 401) /* 401: it is not good any more anyway */
                return err->hint[0] ? r
                                    : err_hint(err, "the session stays until it expires; 'stockade logout --force' "
                                                    "forgets it here");
        r = keep_forget(&u, err);
        if (r == 0 && !o->json)
                (void)printf("signed out of %s%s\n", u.text, o->force ? ", here: there the session stays" : "");
        return r;
}
