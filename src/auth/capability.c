/* The chain of tags, and the decision. A part that was verified is read where it stands; nothing of it is kept in
 * another form that could differ. */
#include "auth/capability.h"

#include <sodium.h>

#include "auth/base64url.h"
#include "auth/capability-text.h"
#include "auth/rfc3339.h"
#include "base/json-read.h"

#define ROOT_WORDS  "stockade capability root 1\n"
#define LIMIT_WORDS "stockade capability limit 1\n"

struct capability {
        struct capability_text text;
        char jti[SESSION_JTI];
        char owner[CAPABILITY_OWNER];
        uint64_t expires_ms;
};

static_assert((int)CAPABILITY_TAG == (int)KEYRING_KEY && (int)CAPABILITY_TAG == crypto_generichash_BYTES,
              "a tag is a key");

/* --- tags ------------------------------------------------------------------------------------------------------- */

/* The key id has a fixed length, and one part follows: nothing can be moved from one into the other. */
static void tag_root(const uint8_t key[KEYRING_KEY], const char *kid, const char *part, size_t size,
                     uint8_t ret[CAPABILITY_TAG]) {
        crypto_generichash_state h;

        (void)crypto_generichash_init(&h, key, KEYRING_KEY, CAPABILITY_TAG);
        (void)crypto_generichash_update(&h, (const uint8_t *)ROOT_WORDS, sizeof ROOT_WORDS - 1);
        (void)crypto_generichash_update(&h, (const uint8_t *)kid, KEYRING_ID - 1);
        (void)crypto_generichash_update(&h, (const uint8_t *)part, size);
        (void)crypto_generichash_final(&h, ret, CAPABILITY_TAG);
        sodium_memzero(&h, sizeof h);
}

/* The tag so far is the key of the next; it is not in the token any more once something was appended. */
static void tag_limit(uint8_t tag[CAPABILITY_TAG], const char *part, size_t size) {
        crypto_generichash_state h;

        (void)crypto_generichash_init(&h, tag, CAPABILITY_TAG, CAPABILITY_TAG);
        (void)crypto_generichash_update(&h, (const uint8_t *)LIMIT_WORDS, sizeof LIMIT_WORDS - 1);
        (void)crypto_generichash_update(&h, (const uint8_t *)part, size);
        (void)crypto_generichash_final(&h, tag, CAPABILITY_TAG);
        sodium_memzero(&h, sizeof h);
}

/* --- making and narrowing --------------------------------------------------------------------------------------- */

/* head, ".", part, ".", tag */
static int write_token(struct buf *out, const char *head, size_t head_size, const struct buf *part,
                       const uint8_t tag[CAPABILITY_TAG], struct err *err) {
        _cleanup_buf_ struct buf b = {.max = 4 * CAPABILITY_TOKEN_MAX};

        buf_add(&b, head, head_size);
        buf_str(&b, ".");
        base64url_add(&b, part->data, part->size);
        buf_str(&b, ".");
        base64url_add(&b, tag, CAPABILITY_TAG);
        if (part->size > CAPABILITY_PART_MAX || !buf_ok(&b) || b.size > CAPABILITY_TOKEN_MAX)
                return err_set(err, ERR_LIMIT, "the capability would be larger than %d bytes", CAPABILITY_TOKEN_MAX);
        buf_add(out, b.data, b.size);
        return buf_ok(out) ? 0 : err_set(err, -ENOMEM, "could not make a capability");
}

static int bad_words(struct err *err) {
        (void)err_set(err, ERR_INPUT, "cannot make a capability with these words");
        (void)err_hint(err,
                       "up to %d verbs such as 'exec' and resources such as 'sandbox/0123456789abcdef/*', and "
                       "an expiry",
                       CAPABILITY_WORDS);
        return ERR_INPUT;
}

int capability_make(const struct keyring *k, const struct capability_grant *g, char ret_jti[SESSION_JTI],
                    struct buf *out, struct err *err) {
        _cleanup_buf_ struct buf root = {.max = 4 * CAPABILITY_PART_MAX};
        uint8_t tag[CAPABILITY_TAG];
        char jti[SESSION_JTI], head[64];
        int n, r;

        session_draw_jti(jti);
        if (g->issued_ms >= g->expires_ms || !capability_text_write_root(g, jti, &root))
                return bad_words(err);
        tag_root(keyring_key(k, KEYRING_CAPABILITY, NULL), keyring_current(k), root.data, root.size, tag);
        n = snprintf(head, sizeof head, CAPABILITY_PREFIX "%s", keyring_current(k));
        r = write_token(out, head, (size_t)n, &root, tag, err);
        sodium_memzero(tag, sizeof tag);
        if (r == 0)
                memcpy(ret_jti, jti, sizeof jti);
        return r;
}

static int not_a_capability(struct err *err) {
        return err_set(err, ERR_INPUT, "this is not a capability token");
}

int capability_narrow(const char *token, size_t size, const struct capability_limit *l, struct buf *out,
                      struct err *err) {
        _cleanup_buf_ struct buf limit = {.max = 4 * CAPABILITY_PART_MAX};
        struct capability_text t;
        const char *dot;
        int r;

        if (!capability_text_split(token, size, &t))
                return not_a_capability(err);
        if (t.count == CAPABILITY_PARTS)
                return err_set(err, ERR_LIMIT, "the capability was narrowed %d times already", CAPABILITY_LIMITS);
        if (!capability_text_write_limit(l, &limit))
                return bad_words(err);
        dot = memrchr(token, '.', size);
        tag_limit(t.tag, limit.data, limit.size);
        r = write_token(out, token, (size_t)(dot - token), &limit, t.tag, err);
        sodium_memzero(&t, sizeof t);
        return r;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

void capability_close(struct capability *c) {
        if (!c)
                return;
        sodium_memzero(c, sizeof *c);
        free(c);
}

const char *capability_jti(const struct capability *c) {
        return c->jti;
}

const char *capability_owner(const struct capability *c) {
        return c->owner;
}

uint64_t capability_expires_ms(const struct capability *c) {
        return c->expires_ms;
}

static bool check_tags(const struct keyring *k, const struct capability_text *t) {
        const uint8_t *key = keyring_key(k, KEYRING_CAPABILITY, t->kid);
        uint8_t tag[CAPABILITY_TAG];
        bool good;

        if (!key)
                return false;
        tag_root(key, t->kid, capability_text_part(t, 0), t->size[0], tag);
        for (size_t i = 1; i < t->count; i++)
                tag_limit(tag, capability_text_part(t, i), t->size[i]);
        good = sodium_memcmp(tag, t->tag, sizeof tag) == 0;
        sodium_memzero(tag, sizeof tag);
        return good;
}

/* True if the part has this key; then it is a time. */
static bool find_time(const char *part, const char *key, uint64_t *ret) {
        char text[64];

        return json_find_str(part, key, text, sizeof text) && rfc3339_parse(text, strlen(text), ret);
}

static bool read_parts(struct capability *c) {
        const struct capability_text *t = &c->text;

        c->expires_ms = UINT64_MAX;
        for (size_t i = 0; i < t->count; i++) {
                const char *part = capability_text_part(t, i);
                uint64_t ms;

                if (!capability_text_check(part, t->size[i], i == 0))
                        return false;
                if (find_time(part, "exp", &ms))
                        c->expires_ms = MIN(c->expires_ms, ms);
        }
        const char *root = capability_text_part(t, 0);
        return json_find_str(root, "jti", c->jti, sizeof c->jti) &&
               json_find_str(root, "owner", c->owner, sizeof c->owner) && c->expires_ms < UINT64_MAX;
}

int capability_open(const struct keyring *k, const char *token, size_t size, struct capability **ret, struct err *err) {
        _cleanup_capability_ struct capability *c = NULL;

        if (size > CAPABILITY_TOKEN_MAX || !capability_is(token, size))
                return not_a_capability(err);
        c = calloc(1, sizeof *c);
        if (!c)
                return err_set(err, -ENOMEM, "could not read a capability");
        if (!capability_text_split(token, size, &c->text))
                return not_a_capability(err);
        if (!check_tags(k, &c->text))
                return err_set(err, ERR_REFUSED, "the capability is not one of this service");
        if (!read_parts(c)) {
                (void)err_set(err, ERR_REFUSED, "the capability has a part that cannot be understood, and is void");
                (void)err_hint(err, "a limit has one or more of verbs, resources, exp, nbf, and nothing else");
                return ERR_REFUSED;
        }
        *ret = TAKE_PTR(c);
        return 0;
}

/* --- the decision ----------------------------------------------------------------------------------------------- */

static bool matches_verb(const char *pattern, const char *verb) {
        return str_eq(pattern, "*") || str_eq(pattern, verb);
}

static bool matches_resource(const char *pattern, const char *resource) {
        size_t n = strlen(pattern);

        if (str_eq(pattern, "*") || str_eq(pattern, resource))
                return true;
        if (n < 3 || !str_eq(pattern + n - 2, "/*"))
                return false;
        n -= 2; /* "a/b" of "a/b/∗" */
        return strncmp(pattern, resource, n) == 0 && (resource[n] == '\0' || resource[n] == '/');
}

/* A part that does not name verbs (or resources) leaves them to the others. */
static bool permits(const char *part, const char *key, const char *wanted,
                    bool (*matches)(const char *pattern, const char *wanted)) {
        char word[CAPABILITY_RESOURCE];
        struct json_walk w;

        if (json_find_kind(part, key) == '\0')
                return true;
        if (!json_walk_begin(&w, part, key))
                return false;
        while (json_walk_next(&w))
                if (json_find_str(w.value, "", word, sizeof word) && matches(word, wanted))
                        return true;
        return false;
}

static int refuse(struct err *err, const char *what, const char *which) {
        (void)err_set(err, ERR_REFUSED, "the capability %s%s%s%s", what, *which ? " '" : "", which, *which ? "'" : "");
        (void)err_hint(err, "ask its owner for one that does");
        return ERR_REFUSED;
}

static int judge(const char *part, const char *verb, const char *resource, uint64_t now_ms, struct err *err) {
        uint64_t ms;

        if (!permits(part, "verbs", verb, matches_verb))
                return refuse(err, "does not permit the verb", verb);
        if (!permits(part, "resources", resource, matches_resource))
                return refuse(err, "does not reach", resource);
        if (find_time(part, "nbf", &ms) && now_ms < ms)
                return refuse(err, "is not valid yet", "");
        if (find_time(part, "iat", &ms) && ms > now_ms && ms - now_ms > SESSION_SKEW_MS)
                return refuse(err, "is not valid yet", "");
        return 0;
}

bool capability_may(const struct capability *c, const char *verb, const char *resource, uint64_t now_ms,
                    struct err *err) {
        if (!capability_text_is_verb(verb, false) || !capability_text_is_resource(resource, false)) {
                (void)refuse(err, "is for well-formed verbs and resources only", "");
                return false;
        }
        if (now_ms >= c->expires_ms) {
                (void)refuse(err, "has expired", "");
                return false;
        }
        for (size_t i = 0; i < c->text.count; i++)
                if (judge(capability_text_part(&c->text, i), verb, resource, now_ms, err) < 0)
                        return false;
        return true;
}
