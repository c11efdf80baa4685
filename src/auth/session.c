/* Claims to and from a token. What the claims say is checked a second time after the token was opened, and what could
 * not have been made by session_make is refused. */
#include "auth/session.h"

#include <sodium.h>

#include "auth/rfc3339.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/text.h"

enum { CLAIMS = 8, JTI_BYTES = (SESSION_JTI - 1) / 2, IMPLICIT_MAX = SESSION_AUDIENCE + 64 };
static_assert((int)IMPLICIT_MAX <= (int)PASETO_IMPLICIT_MAX, "paseto takes it");

#define FOOTER_BEGIN "{\"kid\":\""
#define FOOTER_END   "\"}"

static const char *const kind_names[] = {
        [SESSION_PERSON] = "person",
        [SESSION_PORT] = "port",
        [SESSION_LINK] = "link",
        [SESSION_DOOR] = "door",
};
static_assert(ELEMENTSOF(kind_names) == SESSION_KINDS, "a kind has no name");

const char *session_kind_name(enum session_kind kind) {
        return (unsigned)kind < SESSION_KINDS ? kind_names[kind] : "unknown";
}

void session_draw_jti(char ret[SESSION_JTI]) {
        uint8_t bytes[JTI_BYTES];

        randombytes_buf(bytes, sizeof bytes);
        (void)sodium_bin2hex(ret, SESSION_JTI, bytes, sizeof bytes);
}

bool session_is_jti(const char *text) {
        return strspn(text, "0123456789abcdef") == SESSION_JTI - 1 && text[SESSION_JTI - 1] == '\0';
}

/* --- what claims may be ----------------------------------------------------------------------------------------- */

/* Ends within its field, is UTF-8, and prints as one line. */
static bool check_text(const char *s, size_t room) {
        if (strnlen(s, room) == room || !text_is_utf8(s))
                return false;
        for (; *s; s++)
                if ((unsigned char)*s < 0x20 || *s == 0x7f)
                        return false;
        return true;
}

static bool check_times(const struct session *s) {
        return s->issued_ms < s->expires_ms && s->expires_ms - s->issued_ms <= SESSION_TTL_MAX_MS &&
               s->not_before_ms < s->expires_ms;
}

static bool check_claims(const struct session *s) {
        return (unsigned)s->kind < SESSION_KINDS && check_text(s->subject, sizeof s->subject) && s->subject[0] &&
               check_text(s->audience, sizeof s->audience) && s->audience[0] && check_text(s->scope, sizeof s->scope) &&
               check_times(s);
}

/* Kinds have no line feed in their names, so this is two things and never others. */
static size_t make_implicit(enum session_kind kind, const char *audience, char ret[IMPLICIT_MAX]) {
        int n = snprintf(ret, IMPLICIT_MAX, "stockade session 1\n%s\n%s", session_kind_name(kind), audience);

        return n > 0 && n < IMPLICIT_MAX ? (size_t)n : 0;
}

/* --- making ----------------------------------------------------------------------------------------------------- */

static bool add_time(struct json *j, const char *key, uint64_t ms) {
        char text[RFC3339_TEXT];

        if (!rfc3339_format(ms, text))
                return false;
        json_str(j, key, text);
        return true;
}

static bool write_claims(const struct session *s, struct buf *out) {
        struct json j = {.out = out};
        bool good;

        json_open(&j, NULL, '{');
        json_str(&j, "sub", s->subject);
        json_str(&j, "aud", s->audience);
        good = add_time(&j, "iat", s->issued_ms) && add_time(&j, "nbf", s->not_before_ms) &&
               add_time(&j, "exp", s->expires_ms);
        json_str(&j, "jti", s->jti);
        json_str(&j, "kind", session_kind_name(s->kind));
        json_str(&j, "scope", s->scope);
        json_close(&j, '}');
        return good && buf_ok(out);
}

int session_make(const struct keyring *k, struct session *s, struct buf *out, struct err *err) {
        _cleanup_keyring_wipe_ struct buf claims = {.max = PASETO_PAYLOAD_MAX};
        struct session made = *s;
        char footer[64], implicit[IMPLICIT_MAX];
        struct paseto_key key;
        int n, r;

        if (made.not_before_ms == 0)
                made.not_before_ms = made.issued_ms;
        session_draw_jti(made.jti);
        if (!check_claims(&made) || !write_claims(&made, &claims))
                return err_set(err, ERR_INPUT, "cannot make a session of kind '%s' with these claims",
                               session_kind_name(made.kind));
        memcpy(key.bytes, keyring_key(k, KEYRING_SESSION, NULL), sizeof key.bytes);
        n = snprintf(footer, sizeof footer, FOOTER_BEGIN "%s" FOOTER_END, keyring_current(k));
        r = paseto_seal(&key, claims.data, claims.size, footer, (size_t)n, implicit,
                        make_implicit(made.kind, made.audience, implicit), out);
        sodium_memzero(&key, sizeof key);
        if (r < 0)
                return err_set(err, r, "could not make a session");
        *s = made;
        return 0;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

static int not_a_token(struct err *err) {
        (void)err_set(err, ERR_INPUT, "this is not a session token");
        (void)err_hint(err, "sign in: POST /api/auth/challenge, then /api/auth/session");
        return ERR_INPUT;
}

static int refuse(struct err *err, const char *what) {
        (void)err_set(err, ERR_REFUSED, "the session %s", what);
        (void)err_hint(err, "sign in again");
        return ERR_REFUSED;
}

static bool read_key_id(const char *token, size_t size, char ret[KEYRING_ID]) {
        const size_t begin = sizeof FOOTER_BEGIN - 1, end = sizeof FOOTER_END - 1, id = KEYRING_ID - 1;
        uint8_t footer[PASETO_FOOTER_MAX];
        size_t n;

        if (paseto_footer(token, size, footer, &n) < 0 || n != begin + id + end ||
            memcmp(footer, FOOTER_BEGIN, begin) != 0 || memcmp(footer + begin + id, FOOTER_END, end) != 0)
                return false;
        memcpy(ret, footer + begin, id);
        ret[id] = '\0';
        return strspn(ret, "0123456789abcdef") == id;
}

static bool read_time(const char *value, uint64_t *ret) {
        char text[64];

        return json_find_str(value, "", text, sizeof text) && rfc3339_parse(text, strlen(text), ret);
}

static bool read_kind(const char *value, enum session_kind *ret) {
        char text[16];

        for (unsigned i = 0; json_find_str(value, "", text, sizeof text) && i < SESSION_KINDS; i++)
                if (str_eq(text, kind_names[i])) {
                        *ret = (enum session_kind)i;
                        return true;
                }
        return false;
}

static bool read_claim(const char *key, const char *value, struct session *s) {
        if (str_eq(key, "sub"))
                return json_find_str(value, "", s->subject, sizeof s->subject);
        if (str_eq(key, "aud"))
                return json_find_str(value, "", s->audience, sizeof s->audience);
        if (str_eq(key, "iat"))
                return read_time(value, &s->issued_ms);
        if (str_eq(key, "nbf"))
                return read_time(value, &s->not_before_ms);
        if (str_eq(key, "exp"))
                return read_time(value, &s->expires_ms);
        if (str_eq(key, "jti"))
                return json_find_str(value, "", s->jti, sizeof s->jti) && session_is_jti(s->jti);
        if (str_eq(key, "kind"))
                return read_kind(value, &s->kind);
        return str_eq(key, "scope") && json_find_str(value, "", s->scope, sizeof s->scope);
}

/* All of them, each once (json_check knows no key twice), and none that is unknown. */
static bool read_claims(const struct buf *b, struct session *ret) {
        struct session s = {.kind = SESSION_KINDS};
        struct json_walk w;
        size_t count = 0;

        if (json_check(b->data, b->size, NULL) < 0 || json_find_kind(b->data, "") != '{' ||
            !json_walk_begin(&w, b->data, ""))
                return false;
        for (; json_walk_next(&w); count++) {
                char key[8];

                if (!json_walk_key(&w, key, sizeof key) || !read_claim(key, w.value, &s))
                        return false;
        }
        if (count != CLAIMS || !check_claims(&s))
                return false;
        *ret = s;
        return true;
}

static bool is_ahead(uint64_t ms, uint64_t now_ms) {
        return ms > now_ms && ms - now_ms > SESSION_SKEW_MS;
}

int session_check(const struct session *s, enum session_kind kind, const char *audience, uint64_t now_ms,
                  struct err *err) {
        if (s->kind != kind || !str_eq(s->audience, audience))
                return refuse(err, "is not one of this service");
        if (now_ms >= s->expires_ms)
                return refuse(err, "has expired");
        if (is_ahead(s->issued_ms, now_ms) || is_ahead(s->not_before_ms, now_ms))
                return refuse(err, "is not valid yet");
        return 0;
}

int session_open(const struct keyring *k, enum session_kind kind, const char *audience, const char *token, size_t size,
                 uint64_t now_ms, struct session *ret, struct err *err) {
        _cleanup_keyring_wipe_ struct buf claims = {.max = PASETO_PAYLOAD_MAX};
        char id[KEYRING_ID], implicit[IMPLICIT_MAX];
        const uint8_t *bytes;
        struct paseto_key key;
        struct session s;
        int r;

        if (!read_key_id(token, size, id))
                return not_a_token(err);
        bytes = keyring_key(k, KEYRING_SESSION, id);
        if (!bytes || strlen(audience) >= SESSION_AUDIENCE || (unsigned)kind >= SESSION_KINDS)
                return refuse(err, "is not one of this service");
        memcpy(key.bytes, bytes, sizeof key.bytes);
        r = paseto_open(&key, token, size, implicit, make_implicit(kind, audience, implicit), &claims);
        sodium_memzero(&key, sizeof key);
        if (r == ERR_INPUT)
                return not_a_token(err);
        if (r < 0 || !read_claims(&claims, &s))
                return refuse(err, "is not one of this service");
        r = session_check(&s, kind, audience, now_ms, err);
        if (r == 0)
                *ret = s;
        return r;
}
