/* Puts src/auth beside other people's implementations: a line in is a question, a line out is the answer.
 *
 *   QUESTION ARGUMENT…    arguments are hexadecimal bytes, "-" for none; numbers are decimal
 *   ok ARGUMENT… | no REASON
 *
 * cross.mjs and test_vectors.py ask. Nothing here decides what is right. */
#include <secp256k1.h>
#include <secp256k1_recovery.h>
#include <sodium.h>

#include "auth/capability.h"
#include "auth/session.h"
#include "auth/siwe.h"

enum { LINE_MAX_SIZE = 256 << 10, ARGUMENTS = 24 };

static char line[LINE_MAX_SIZE];

/* --- arguments and answers -------------------------------------------------------------------------------------- */

/* Decoded in place: NUL-terminated, with its size. */
struct argument {
        char *data;
        size_t size;
};

static char empty[1];
static struct argument nothing = {empty, 0};
static struct argument arguments[ARGUMENTS];
static size_t argument_count;

static const struct argument *arg(size_t i) {
        return i < argument_count ? &arguments[i] : &nothing;
}

static bool has(size_t i) {
        return i < argument_count && !str_eq(arguments[i].data, "-");
}

/* A hexadecimal argument becomes its bytes. Each is decoded once. */
static const struct argument *bytes(size_t i) {
        struct argument *a = &arguments[i];

        if (!has(i))
                return &nothing;
        if (sodium_hex2bin((uint8_t *)a->data, a->size, a->data, a->size, NULL, &a->size, NULL) != 0) {
                (void)fprintf(stderr, "argument %zu is not hexadecimal\n", i);
                exit(2);
        }
        a->data[a->size] = '\0';
        return a;
}

static uint64_t number(size_t i) {
        return strtoull(arg(i)->data, NULL, 10);
}

static void say(const void *data, size_t size) {
        const uint8_t *p = data;

        (void)printf(size ? " " : " -");
        for (size_t i = 0; i < size; i++)
                (void)printf("%02x", p[i]);
}

static int no(int r, const struct err *err) {
        (void)printf("no %d %s\n", r, err->text);
        return 0;
}

static int ok_bytes(const void *data, size_t size) {
        (void)printf("ok");
        say(data, size);
        (void)printf("\n");
        return 0;
}

static int answer(int r, const struct err *err, const struct buf *b) {
        return r < 0 ? no(r, err) : ok_bytes(b->data, b->size);
}

/* --- ethereum --------------------------------------------------------------------------------------------------- */

static int ask_keccak(void) {
        uint8_t hash[KECCAK_SIZE];
        const struct argument *a = bytes(1);

        keccak_256(a->data, a->size, hash);
        return ok_bytes(hash, sizeof hash);
}

static int ask_address(void) {
        const struct argument *a = bytes(1);
        struct ethereum_address address;
        struct err err = {0};
        char text[ETHEREUM_TEXT];
        int r = ethereum_parse(a->data, a->size, number(2) != 0, &address, &err);

        if (r < 0)
                return no(r, &err);
        ethereum_text(&address, text);
        return ok_bytes(text, strlen(text));
}

static int ask_recover(void) {
        const struct argument *message = bytes(1), *text = bytes(2);
        uint8_t signature[ETHEREUM_SIGNATURE];
        struct ethereum_address address;
        struct err err = {0};
        char shown[ETHEREUM_TEXT];
        int r = ethereum_parse_signature(text->data, text->size, signature, &err);

        if (r == 0)
                r = ethereum_recover(message->data, message->size, signature, &address, &err);
        if (r < 0)
                return no(r, &err);
        ethereum_text(&address, shown);
        return ok_bytes(shown, strlen(shown));
}

/* The other direction: a wallet of our own, for others to verify. */
static int ask_sign(void) {
        const struct argument *key = bytes(1), *message = bytes(2);
        secp256k1_context *context = secp256k1_context_create(SECP256K1_CONTEXT_SIGN);
        secp256k1_ecdsa_recoverable_signature s;
        uint8_t digest[KECCAK_SIZE], out[ETHEREUM_SIGNATURE];
        int v = 0;

        ethereum_digest(message->data, message->size, digest);
        if (key->size != 32 ||
            !secp256k1_ecdsa_sign_recoverable(context, &s, digest, (uint8_t *)key->data, NULL, NULL) ||
            !secp256k1_ecdsa_recoverable_signature_serialize_compact(context, out, &v, &s))
                return no(-1, &(struct err){.text = "cannot sign"});
        secp256k1_context_destroy(context);
        out[64] = (uint8_t)(27 + v);
        return ok_bytes(out, sizeof out);
}

/* --- sign-in texts ---------------------------------------------------------------------------------------------- */

static struct siwe_part part(size_t i) {
        if (!has(i))
                return (struct siwe_part){0};
        const struct argument *a = bytes(i);
        return (struct siwe_part){a->data, a->size};
}

static void say_part(struct siwe_part p) {
        if (p.at && p.size == 0)
                (void)printf(" empty");
        else
                say(p.at, p.size);
}

static int ask_siwe_parse(void) {
        const struct argument *a = bytes(1);
        struct err err = {0};
        struct siwe m;
        char address[ETHEREUM_TEXT];
        int r = siwe_parse(a->data, a->size, &m, &err);

        if (r < 0)
                return no(r, &err);
        ethereum_text(&m.address, address);
        (void)printf("ok");
        say_part(m.scheme);
        say_part(m.domain);
        say_part(siwe_part(address));
        say_part(m.statement);
        say_part(m.uri);
        (void)printf(" %llu", (unsigned long long)m.chain_id);
        say_part(m.nonce);
        say_part(m.issued_at.text);
        say_part(m.expiration.text);
        say_part(m.not_before.text);
        say_part(m.request_id);
        (void)printf(" %s %llu %llu %llu", m.has_resources ? "resources" : "-", (unsigned long long)m.issued_at.ms,
                     (unsigned long long)m.expiration.ms, (unsigned long long)m.not_before.ms);
        for (size_t i = 0; i < m.resource_count; i++)
                say_part(m.resources[i]);
        (void)printf("\n");
        return 0;
}

static bool time_of(size_t i, struct siwe_time *ret) {
        ret->text = part(i);
        return ret->text.at && rfc3339_parse(ret->text.at, ret->text.size, &ret->ms);
}

/* scheme domain address statement uri chain nonce issued expiration not-before request-id resource… */
static int ask_siwe_build(void) {
        _cleanup_buf_ struct buf b = {0};
        struct siwe m = {.scheme = part(1),
                         .domain = part(2),
                         .statement = part(4),
                         .uri = part(5),
                         .chain_id = number(6),
                         .nonce = part(7),
                         .request_id = part(11)};
        struct siwe_part address = part(3);
        struct err err = {0};
        int r = ethereum_parse(address.at, address.size, false, &m.address, &err);

        (void)time_of(8, &m.issued_at);
        m.has_expiration = has(9);
        (void)time_of(9, &m.expiration);
        m.has_not_before = has(10);
        (void)time_of(10, &m.not_before);
        for (size_t i = 12; i < argument_count && m.resource_count < SIWE_RESOURCES; i++) {
                m.has_resources = true;
                m.resources[m.resource_count++] = part(i);
        }
        if (r == 0)
                r = siwe_build(&m, &b, &err);
        return answer(r, &err, &b);
}

/* message signature domain uri chain nonce now-ms max-age-ms */
static int ask_siwe_verify(void) {
        const struct argument *message = bytes(1), *signature = bytes(2);
        struct siwe_expect e = {.domain = bytes(3)->data,
                                .uri = bytes(4)->data,
                                .chain_id = number(5),
                                .nonce = bytes(6)->data,
                                .now_ms = number(7),
                                .max_age_ms = number(8)};
        struct ethereum_address who;
        struct err err = {0};
        char text[ETHEREUM_TEXT];
        int r = siwe_verify(message->data, message->size, signature->data, signature->size, &e, &who, &err);

        if (r < 0)
                return no(r, &err);
        ethereum_text(&who, text);
        return ok_bytes(text, strlen(text));
}

/* nonce expires-ms: the text. nonce expires-ms signature now-ms: who signed it */
static int ask_plain(void) {
        _cleanup_buf_ struct buf b = {0};
        const struct argument *nonce = bytes(1);
        struct ethereum_address who;
        struct err err = {0};
        char text[ETHEREUM_TEXT];

        if (argument_count == 3)
                return answer(siwe_build_plain(nonce->data, number(2), &b, &err), &err, &b);
        const struct argument *signature = bytes(3);
        int r = siwe_verify_plain(nonce->data, number(2), signature->data, signature->size, number(4), &who, &err);
        if (r < 0)
                return no(r, &err);
        ethereum_text(&who, text);
        return ok_bytes(text, strlen(text));
}

static int ask_time(void) {
        const struct argument *a = bytes(1);
        uint64_t ms;

        if (!rfc3339_parse(a->data, a->size, &ms))
                return no(ERR_INPUT, &(struct err){.text = "not a time"});
        (void)printf("ok %llu\n", (unsigned long long)ms);
        return 0;
}

/* --- tokens ----------------------------------------------------------------------------------------------------- */

static struct paseto_key key_of(const struct argument *a) {
        struct paseto_key k = {{0}};

        memcpy(k.bytes, a->data, MIN(a->size, sizeof k.bytes));
        return k;
}

/* key payload footer implicit [nonce] */
static int ask_paseto_seal(void) {
        _cleanup_buf_ struct buf b = {0};
        struct paseto_key key = key_of(bytes(1));
        const struct argument *payload = bytes(2), *footer = bytes(3), *implicit = bytes(4);
        int r;

        if (has(5))
                r = paseto_seal_with_nonce(&key, (const uint8_t *)bytes(5)->data, payload->data, payload->size,
                                           footer->data, footer->size, implicit->data, implicit->size, &b);
        else
                r = paseto_seal(&key, payload->data, payload->size, footer->data, footer->size, implicit->data,
                                implicit->size, &b);
        return answer(r, &(struct err){0}, &b);
}

/* key token implicit */
static int ask_paseto_open(void) {
        _cleanup_buf_ struct buf b = {0};
        struct paseto_key key = key_of(bytes(1));
        const struct argument *token = bytes(2), *implicit = bytes(3);

        return answer(paseto_open(&key, token->data, token->size, implicit->data, implicit->size, &b), &(struct err){0},
                      &b);
}

static struct keyring *ring_of(const struct argument *secret) {
        struct keyring *k = NULL;

        if (keyring_open(&k, &(struct keyring_secret){secret->data, secret->size}, 1, NULL) < 0)
                exit(2);
        return k;
}

/* secret purpose: the key's id and the key */
static int ask_key(void) {
        _cleanup_keyring_ struct keyring *k = ring_of(bytes(1));

        (void)printf("ok %s", keyring_current(k));
        say(keyring_key(k, (enum keyring_purpose)number(2), NULL), KEYRING_KEY);
        (void)printf("\n");
        return 0;
}

/* secret subject audience scope kind issued-ms expires-ms */
static int ask_session_make(void) {
        _cleanup_keyring_ struct keyring *k = ring_of(bytes(1));
        _cleanup_buf_ struct buf b = {0};
        struct session s = {.kind = (enum session_kind)number(5), .issued_ms = number(6), .expires_ms = number(7)};
        struct err err = {0};

        (void)snprintf(s.subject, sizeof s.subject, "%s", bytes(2)->data);
        (void)snprintf(s.audience, sizeof s.audience, "%s", bytes(3)->data);
        (void)snprintf(s.scope, sizeof s.scope, "%s", bytes(4)->data);
        return answer(session_make(k, &s, &b, &err), &err, &b);
}

/* secret kind audience now-ms token: subject, scope, jti */
static int ask_session_open(void) {
        _cleanup_keyring_ struct keyring *k = ring_of(bytes(1));
        const struct argument *audience = bytes(3), *token = bytes(5);
        struct err err = {0};
        struct session s;
        int r = session_open(k, (enum session_kind)number(2), audience->data, token->data, token->size, number(4), &s,
                             &err);

        if (r < 0)
                return no(r, &err);
        (void)printf("ok");
        say(s.subject, strlen(s.subject));
        say(s.scope, strlen(s.scope));
        (void)printf(" %s\n", s.jti);
        return 0;
}

/* secret owner verb resource issued-ms expires-ms */
static int ask_capability_make(void) {
        _cleanup_keyring_ struct keyring *k = ring_of(bytes(1));
        _cleanup_buf_ struct buf b = {0};
        const char *verb = bytes(3)->data, *resource = bytes(4)->data;
        struct capability_grant g = {.owner = bytes(2)->data,
                                     .verbs = {&verb, 1},
                                     .resources = {&resource, 1},
                                     .issued_ms = number(5),
                                     .expires_ms = number(6)};
        struct err err = {0};
        char jti[SESSION_JTI];

        return answer(capability_make(k, &g, jti, &b, &err), &err, &b);
}

/* token verb: with a limit to that verb */
static int ask_capability_narrow(void) {
        _cleanup_buf_ struct buf b = {0};
        const struct argument *token = bytes(1);
        const char *verb = bytes(2)->data;
        struct err err = {0};

        return answer(
                capability_narrow(token->data, token->size, &(struct capability_limit){.verbs = {&verb, 1}}, &b, &err),
                &err, &b);
}

/* secret token verb resource now-ms: "may" or "may not" */
static int ask_capability_may(void) {
        _cleanup_keyring_ struct keyring *k = ring_of(bytes(1));
        _cleanup_capability_ struct capability *c = NULL;
        const struct argument *token = bytes(2);
        struct err err = {0};
        int r = capability_open(k, token->data, token->size, &c, &err);

        if (r < 0)
                return no(r, &err);
        (void)printf("ok %s\n", capability_may(c, bytes(3)->data, bytes(4)->data, number(5), NULL) ? "may" : "may-not");
        return 0;
}

/* --- questions -------------------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        int (*ask)(void);
} questions[] = {
        {"keccak", ask_keccak},
        {"address", ask_address},
        {"recover", ask_recover},
        {"sign", ask_sign},
        {"siwe-parse", ask_siwe_parse},
        {"siwe-build", ask_siwe_build},
        {"siwe-verify", ask_siwe_verify},
        {"plain", ask_plain},
        {"time", ask_time},
        {"paseto-seal", ask_paseto_seal},
        {"paseto-open", ask_paseto_open},
        {"key", ask_key},
        {"session-make", ask_session_make},
        {"session-open", ask_session_open},
        {"capability-make", ask_capability_make},
        {"capability-narrow", ask_capability_narrow},
        {"capability-may", ask_capability_may},
};

static int ask(void) {
        argument_count = 0;
        for (char *p = line, *end; *p && argument_count < ARGUMENTS; p = end) {
                end = p + strcspn(p, " \n");
                arguments[argument_count++] = (struct argument){p, (size_t)(end - p)};
                if (*end)
                        *end++ = '\0';
        }
        for (size_t i = 0; argument_count > 0 && i < ELEMENTSOF(questions); i++)
                if (str_eq(arguments[0].data, questions[i].name))
                        return questions[i].ask();
        (void)fprintf(stderr, "unknown question\n");
        return 2;
}

int main(void) {
        if (sodium_init() < 0)
                return 2;
        while (fgets(line, sizeof line, stdin)) {
                int r = ask();

                if (r != 0)
                        return r;
                (void)fflush(stdout);
        }
        return 0;
}
