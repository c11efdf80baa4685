/* Host names of ports. The name says which sandbox and port; the cookie says who, and for which name it was made.
 *
 * Must never: take a cookie of one name for another; let a page elsewhere use the cookie in the background. */
#include "api/port-host.h"

#include <stdio.h>
#include <strings.h>

#include "api/route.h"
#include "api/signin.h"
#include "api/who.h"

#define ID            (WARDEN_ID_SIZE - 1)
#define COOKIE        "stockade_port"
#define SECURE_COOKIE "__Host-stockade"

static bool is_secure(const struct api *a) {
        return str_starts(a->url, "https://");
}

bool port_host_is(struct exchange *x) {
        const char *domain = x->api->o->conf.ports_domain, *host = x->head.host;
        size_t port = strspn(host, "0123456789"), id = port + 1, size = strcspn(host, ":");

        if (!domain[0] || port == 0 || port > 5 || host[0] == '0' || host[port] != '-' ||
            size != id + ID + 1 + strlen(domain) || host[id + ID] != '.' ||
            strncasecmp(host + id + ID + 1, domain, strlen(domain)) != 0 ||
            (host[size] && (!host[size + 1] || host[size + 1 + strspn(host + size + 1, "0123456789")])))
                return false;
        (void)snprintf(x->params[0], sizeof x->params[0], "%.*s", (int)ID, host + id);
        (void)snprintf(x->params[1], sizeof x->params[1], "%.*s", (int)port, host);
        x->own_host = warden_is_id(x->params[0]);
        return x->own_host;
}

bool port_host_is_cookie(const char *text, size_t size) {
        size_t name = 0;

        while (name < size && text[name] != '=')
                name++;
        return (name == strlen(COOKIE) && strncasecmp(text, COOKIE, name) == 0) ||
               (name == strlen(SECURE_COOKIE) && strncasecmp(text, SECURE_COOKIE, name) == 0);
}

static bool refuse(struct exchange *x, const char *code, const char *hint, const char *message) {
        x->close = x->has_body;
        reply_error(x, code, hint, "%s", message);
        return false;
}

static void become(struct exchange *x, const char *owner, const char *jti, uint64_t expires_ms) {
        (void)snprintf(x->c.owner, sizeof x->c.owner, "%s", owner);
        (void)snprintf(x->jti, sizeof x->jti, "%s", jti);
        x->expires_ms = expires_ms;
        x->c.admin = false;
}

/* --- the cookie -----------------------------------------------------------------------------------------------------
 */

/* "port sandbox jti": of the session that it ends with. */
static bool by_token(struct exchange *x, const char *token, size_t size) {
        struct signin *s = x->api->signin;
        struct session found;
        char scope[SESSION_SCOPE];

        if (session_open(s->keys, SESSION_PORT, x->api->url, token, size, signin_now_ms(), &found, NULL) < 0)
                return false;
        int n = snprintf(scope, sizeof scope, "%.5s %.16s ", x->params[1], x->params[0]);
        const char *jti = found.scope + n;
        if (strncmp(found.scope, scope, (size_t)n) != 0 || !session_is_jti(jti) || revoked_has(s->revoked, jti) ||
            !who_is_welcome(x->api, found.subject))
                return false;
        become(x, found.subject, jti, found.expires_ms);
        return true;
}

static bool by_cookie(struct exchange *x) {
        for (const char *p = x->head.cookie; p && *p; p += strspn(p, "; ")) {
                size_t size = strcspn(p, ";"), name = strcspn(p, "=;");

                if (port_host_is_cookie(p, size) && name < size && by_token(x, p + name + 1, size - name - 1))
                        return true;
                p += size;
        }
        return false;
}

static const char *said(struct exchange *x, const char *name) {
        const char *value = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);

        return value ? value : "";
}

/* A page of another origin may lead a tab here, as links do, and no more: a frame would show it inside that page. */
static bool is_in_background(struct exchange *x) {
        const char *site = said(x, "Sec-Fetch-Site");

        return site[0] && !str_eq(site, "same-origin") && !str_eq(site, "none") &&
               !(str_eq(said(x, "Sec-Fetch-Mode"), "navigate") && str_eq(said(x, "Sec-Fetch-Dest"), "document"));
}

/* --- the ticket -----------------------------------------------------------------------------------------------------
 */

/* "owner jti expires path", as signin.c writes it. */
static bool take_ticket(struct exchange *x, char owner[SESSION_SUBJECT], char jti[SESSION_JTI], uint64_t *expires) {
        struct signin *s = x->api->signin;
        char ticket[SINGLE_USE_ID + 1], note[SINGLE_USE_NOTE], want[64];
        unsigned long long until = 0;
        int at = 0;

        (void)snprintf(want, sizeof want, "//%.5s-%.16s", x->params[1], x->params[0]);
        if (route_query(x, "ticket", ticket, sizeof ticket) <= 0 ||
            single_use_take(s->tickets, ticket, strlen(ticket), loop_now(x->api->o->loop), note, NULL) < 0 ||
            sscanf(note, "%95s %32s %llu %n", owner, jti, &until, &at) < 3 || at == 0 || !str_eq(note + at, want) ||
            revoked_has(s->revoked, jti) || until <= signin_now_ms())
                return false;
        *expires = until;
        return true;
}

static bool let_in(struct exchange *x) {
        struct session made = {.kind = SESSION_PORT, .issued_ms = signin_now_ms()};
        _cleanup_keyring_wipe_ struct buf cookie = {0};
        char jti[SESSION_JTI];

        if (!take_ticket(x, made.subject, jti, &made.expires_ms))
                return refuse(x, "bad_token", "ask for another one: POST /api/auth/ticket", "the ticket is not good");
        (void)snprintf(made.audience, sizeof made.audience, "%s", x->api->url);
        (void)snprintf(made.scope, sizeof made.scope, "%.5s %.16s %s", x->params[1], x->params[0], jti);
        buf_printf(&cookie, "%s=", is_secure(x->api) ? SECURE_COOKIE : COOKIE);
        if (session_make(x->api->signin->keys, &made, &cookie, NULL) < 0)
                cookie.failed = true;
        buf_printf(&cookie, "; Path=/; HttpOnly; SameSite=Lax%s", is_secure(x->api) ? "; Secure" : "");
        if (!buf_ok(&cookie))
                return refuse(x, "failed", "try again", "the cookie could not be made");
        reply_empty(x, 303);
        reply_header(x, "Location", "/");
        reply_header(x, "Set-Cookie", cookie.data);
        return false;
}

bool port_host_who(struct exchange *x) {
        if (str_eq(x->url, PORT_HOST_OPEN)) {
                if (str_eq(x->method, "GET"))
                        return let_in(x);
                return refuse(x, "bad_method", NULL, "this can be asked with GET");
        }
        if (!by_cookie(x))
                return refuse(x, "no_token", "ask for a ticket, and open " PORT_HOST_OPEN "?ticket=… here",
                              "this tab has no cookie for this port, or not any more");
        if (is_in_background(x))
                return refuse(x, "bad_origin", "open it in a tab", "pages of other origins may not use this");
        return true;
}
