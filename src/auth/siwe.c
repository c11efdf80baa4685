/* EIP-4361, built and parsed by one order of lines. Foreign text: every part is checked against its own set of bytes,
 * and nothing is looked for anywhere but where the grammar has it. */
#include "auth/siwe.h"

#include "auth/uri.h"

#define WANTS       " wants you to sign in with your Ethereum account:"
#define URI         "URI: "
#define VERSION     "Version: "
#define CHAIN_ID    "Chain ID: "
#define NONCE       "Nonce: "
#define ISSUED_AT   "Issued At: "
#define EXPIRATION  "Expiration Time: "
#define NOT_BEFORE  "Not Before: "
#define REQUEST_ID  "Request ID: "
#define RESOURCES   "Resources:"
#define RESOURCE    "- "
#define PLAIN_TEXT  "Sign this message to authenticate with Tangle Sandbox."
#define PLAIN_NONCE 64

bool siwe_is(struct siwe_part p, const char *s) {
        return p.at && p.size == strlen(s) && memcmp(p.at, s, p.size) == 0;
}

/* --- the fields ------------------------------------------------------------------------------------------------- */

static bool check_statement(struct siwe_part p) {
        for (size_t i = 0; i < p.size; i++)
                if (p.at[i] != ' ' && !uri_is_unreserved(p.at[i]) && !uri_is_reserved(p.at[i]))
                        return false;
        return p.size > 0;
}

static bool check_nonce(struct siwe_part p) {
        for (size_t i = 0; i < p.size; i++)
                if (!uri_is_unreserved(p.at[i]) || strchr("-._~", p.at[i]))
                        return false;
        return p.size >= SIWE_NONCE_MIN && p.size <= SIWE_NONCE_MAX;
}

static bool check_time(const struct siwe_time *t) {
        uint64_t ms;

        return rfc3339_parse(t->text.at, t->text.size, &ms) && ms == t->ms;
}

/* Those that have the same bytes in a struct and in a message. The rest is numbers, which are right when they parse. */
static int check_fields(const struct siwe *m, struct err *err) {
        if (m->scheme.at && !uri_check_scheme(m->scheme.at, m->scheme.size))
                return err_set(err, ERR_INPUT, "the sign-in text's scheme is not one of RFC 3986");
        if (!m->domain.at || !uri_check_authority(m->domain.at, m->domain.size))
                return err_set(err, ERR_INPUT, "the sign-in text's domain is not an authority of RFC 3986");
        if (m->statement.at && !check_statement(m->statement))
                return err_set(err, ERR_INPUT,
                               "the sign-in text's statement has characters that EIP-4361 does not have");
        if (!m->uri.at || !uri_check(m->uri.at, m->uri.size))
                return err_set(err, ERR_INPUT, "the sign-in text's URI is not one of RFC 3986");
        if (!m->nonce.at || !check_nonce(m->nonce))
                return err_set(err, ERR_INPUT, "the sign-in text's nonce is not %d to %d letters and digits",
                               SIWE_NONCE_MIN, SIWE_NONCE_MAX);
        if (m->request_id.at && !uri_check_pchars(m->request_id.at, m->request_id.size))
                return err_set(err, ERR_INPUT, "the sign-in text's request id has characters that a path cannot have");
        if (m->resource_count > (m->has_resources ? SIWE_RESOURCES : 0))
                return err_set(err, ERR_LIMIT, "the sign-in text has more than %d resources", SIWE_RESOURCES);
        for (size_t i = 0; i < m->resource_count; i++)
                if (!m->resources[i].at || !uri_check(m->resources[i].at, m->resources[i].size))
                        return err_set(err, ERR_INPUT, "resource %zu of the sign-in text is not a URI of RFC 3986",
                                       i + 1);
        return 0;
}

/* --- building --------------------------------------------------------------------------------------------------- */

static void add_part(struct buf *out, const char *before, struct siwe_part p) {
        buf_str(out, before);
        buf_add(out, p.at, p.size);
}

static int add_time(struct buf *out, const char *before, const struct siwe_time *t, struct err *err) {
        char text[RFC3339_TEXT];

        if (t->text.at ? !check_time(t) : t->ms == 0 || !rfc3339_format(t->ms, text))
                return err_set(err, ERR_INPUT, "a time of the sign-in text is missing, or not one of RFC 3339");
        add_part(out, before, t->text.at ? t->text : siwe_part(text));
        return 0;
}

int siwe_build(const struct siwe *m, struct buf *out, struct err *err) {
        _cleanup_buf_ struct buf b = {.max = SIWE_MAX + 1};
        char address[ETHEREUM_TEXT];
        int r = check_fields(m, err);

        if (r < 0)
                return r;
        if (m->scheme.at) {
                add_part(&b, "", m->scheme);
                buf_str(&b, "://");
        }
        add_part(&b, "", m->domain);
        ethereum_text(&m->address, address);
        buf_printf(&b, WANTS "\n%s\n\n", address);
        if (m->statement.at) {
                add_part(&b, "", m->statement);
                buf_str(&b, "\n");
        }
        add_part(&b, "\n" URI, m->uri);
        buf_printf(&b, "\n" VERSION "1\n" CHAIN_ID "%llu", (unsigned long long)m->chain_id);
        add_part(&b, "\n" NONCE, m->nonce);
        r = add_time(&b, "\n" ISSUED_AT, &m->issued_at, err);
        if (r == 0 && m->has_expiration)
                r = add_time(&b, "\n" EXPIRATION, &m->expiration, err);
        if (r == 0 && m->has_not_before)
                r = add_time(&b, "\n" NOT_BEFORE, &m->not_before, err);
        if (r < 0)
                return r;
        if (m->request_id.at)
                add_part(&b, "\n" REQUEST_ID, m->request_id);
        if (m->has_resources)
                buf_str(&b, "\n" RESOURCES);
        for (size_t i = 0; i < m->resource_count; i++)
                add_part(&b, "\n" RESOURCE, m->resources[i]);
        if (!buf_ok(&b) || b.size > SIWE_MAX)
                return err_set(err, ERR_LIMIT, "the sign-in text would be larger than %d bytes", SIWE_MAX);
        buf_add(out, b.data, b.size);
        return buf_ok(out) ? 0 : err_set(err, -ENOMEM, "could not write the sign-in text");
}

/* --- parsing ---------------------------------------------------------------------------------------------------- */

/* A line at a time. A line feed stands between two lines: behind the last one there is none. */
struct reader {
        const char *at;
        size_t left;
        bool more; /* there is a line at `at`, be it empty */
        unsigned number;
        struct err *err;
};

static struct siwe_part peek(const struct reader *r) {
        const char *end = r->more && r->left ? memchr(r->at, '\n', r->left) : NULL;

        return (struct siwe_part){r->at, end ? (size_t)(end - r->at) : r->left};
}

static void advance(struct reader *r, size_t size) {
        r->more = size < r->left;
        if (r->more)
                size++;
        r->at += size;
        r->left -= size;
        r->number++;
}

static int wrong(struct reader *r, const char *wanted) {
        (void)err_set(r->err, ERR_INPUT, "line %u of the sign-in text is not %s", r->number, wanted);
        (void)err_hint(r->err, "EIP-4361 has every line in one order, with single line feeds between them");
        return ERR_INPUT;
}

/* The next line, if it begins like that: the rest of it. */
static bool read_if(struct reader *r, const char *begin, struct siwe_part *ret) {
        struct siwe_part line = peek(r);
        size_t n = strlen(begin);

        if (!r->more || line.size < n || memcmp(line.at, begin, n) != 0)
                return false;
        advance(r, line.size);
        *ret = (struct siwe_part){line.at + n, line.size - n};
        return true;
}

static int read_empty(struct reader *r) {
        struct siwe_part rest;

        if (peek(r).size != 0 || !read_if(r, "", &rest))
                return wrong(r, "empty");
        return 0;
}

static int read_head(struct reader *r, struct siwe *m) {
        struct siwe_part line = peek(r);
        size_t n = strlen(WANTS);
        const char *colon;

        if (line.size <= n || memcmp(line.at + line.size - n, WANTS, n) != 0)
                return wrong(r, "'DOMAIN" WANTS "'");
        m->domain = (struct siwe_part){line.at, line.size - n};
        colon = memmem(m->domain.at, m->domain.size, "://", 3);
        if (colon) {
                m->scheme = (struct siwe_part){line.at, (size_t)(colon - line.at)};
                m->domain = (struct siwe_part){colon + 3, m->domain.size - m->scheme.size - 3};
        }
        advance(r, line.size);
        line = peek(r);
        if (ethereum_parse(line.at, line.size, false, &m->address, NULL) < 0)
                return wrong(r, "an address with its EIP-55 checksum");
        advance(r, line.size);
        return read_empty(r);
}

static int read_statement(struct reader *r, struct siwe *m) {
        struct siwe_part line = peek(r);

        if (line.size > 0) {
                m->statement = line;
                advance(r, line.size);
        }
        return read_empty(r);
}

/* One form only: no sign, no zero before it. */
static bool parse_number(struct siwe_part p, uint64_t *ret) {
        uint64_t v = 0;

        if (p.size == 0 || (p.size > 1 && p.at[0] == '0'))
                return false;
        for (size_t i = 0; i < p.size; i++)
                if (p.at[i] < '0' || p.at[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
                    __builtin_add_overflow(v, (uint64_t)(p.at[i] - '0'), &v))
                        return false;
        *ret = v;
        return true;
}

static int read_needed(struct reader *r, struct siwe *m) {
        struct siwe_part version, chain;

        if (!read_if(r, URI, &m->uri))
                return wrong(r, "'" URI "…'");
        if (!read_if(r, VERSION, &version))
                return wrong(r, "'" VERSION "1'");
        if (!siwe_is(version, "1"))
                return err_set(r->err, ERR_INPUT, "the sign-in text's version is not 1");
        if (!read_if(r, CHAIN_ID, &chain) || !parse_number(chain, &m->chain_id))
                return wrong(r, "'" CHAIN_ID "' and a number");
        if (!read_if(r, NONCE, &m->nonce))
                return wrong(r, "'" NONCE "…'");
        return 0;
}

static int read_time(struct reader *r, const char *begin, struct siwe_time *ret, bool *ret_has) {
        struct siwe_time t = {0};

        if (!read_if(r, begin, &t.text))
                return 0;
        if (!rfc3339_parse(t.text.at, t.text.size, &t.ms))
                return err_set(r->err, ERR_INPUT, "what is behind '%s' in the sign-in text is not a time of RFC 3339",
                               begin);
        *ret = t;
        *ret_has = true;
        return 0;
}

static int read_rest(struct reader *r, struct siwe *m) {
        struct siwe_part rest;
        bool issued = false;
        int n = read_time(r, ISSUED_AT, &m->issued_at, &issued);

        if (n < 0)
                return n;
        if (!issued)
                return wrong(r, "'" ISSUED_AT "…'");
        n = read_time(r, EXPIRATION, &m->expiration, &m->has_expiration);
        if (n == 0)
                n = read_time(r, NOT_BEFORE, &m->not_before, &m->has_not_before);
        if (n < 0)
                return n;
        (void)read_if(r, REQUEST_ID, &m->request_id);
        if (siwe_is(peek(r), RESOURCES) && read_if(r, RESOURCES, &rest)) {
                m->has_resources = true;
                while (r->more) {
                        if (m->resource_count == SIWE_RESOURCES)
                                return err_set(r->err, ERR_LIMIT, "the sign-in text has more than %d resources",
                                               SIWE_RESOURCES);
                        if (!read_if(r, RESOURCE, &m->resources[m->resource_count]))
                                return wrong(r, "'" RESOURCE "' and a URI");
                        m->resource_count++;
                }
        }
        return r->more ? wrong(r, "a field of EIP-4361, or not in its place") : 0;
}

int siwe_parse(const char *text, size_t size, struct siwe *ret, struct err *err) {
        struct reader r = {.at = text, .left = size, .more = true, .number = 1, .err = err};
        struct siwe m = {0};
        int n;

        if (size > SIWE_MAX)
                return err_set(err, ERR_LIMIT, "the sign-in text is larger than %d bytes", SIWE_MAX);
        n = read_head(&r, &m);
        if (n == 0)
                n = read_statement(&r, &m);
        if (n == 0)
                n = read_needed(&r, &m);
        if (n == 0)
                n = read_rest(&r, &m);
        if (n == 0)
                n = check_fields(&m, err);
        if (n < 0)
                return n;
        *ret = m;
        return 0;
}

/* --- checking --------------------------------------------------------------------------------------------------- */

static int refuse(struct err *err, const char *what, const char *hint) {
        (void)err_set(err, ERR_REFUSED, "the sign-in text %s", what);
        (void)err_hint(err, "%s", hint);
        return ERR_REFUSED;
}

#define AGAIN "ask for a new challenge and sign that"

static int check_times(const struct siwe *m, const struct siwe_expect *e, struct err *err) {
        uint64_t issued = m->issued_at.ms, now = e->now_ms;

        if (m->has_expiration && now >= m->expiration.ms)
                return refuse(err, "has expired", AGAIN);
        if (m->has_not_before && now < m->not_before.ms)
                return refuse(err, "is not valid yet", "is the client's clock right?");
        if (e->max_age_ms == 0)
                return 0;
        if (issued > now && issued - now > SIWE_SKEW_MS)
                return refuse(err, "was issued in the future", "is the client's clock right?");
        if (now > issued && now - issued > e->max_age_ms)
                return refuse(err, "was issued too long ago", AGAIN);
        return 0;
}

int siwe_check(const struct siwe *m, const struct siwe_expect *e, struct err *err) {
        if (e->scheme && m->scheme.at && !siwe_is(m->scheme, e->scheme))
                return refuse(err, "is for another scheme", AGAIN);
        if (!e->domain || !siwe_is(m->domain, e->domain))
                return refuse(err, "is for another domain",
                              "if you saw it on another site, that site wanted to be you");
        if (!e->uri || !siwe_is(m->uri, e->uri))
                return refuse(err, "is for another URI", AGAIN);
        if (m->chain_id != e->chain_id)
                return refuse(err, "is for another chain", "the challenge says which chain id this service expects");
        if (!e->nonce || !siwe_is(m->nonce, e->nonce))
                return refuse(err, "has another nonce", AGAIN);
        if (e->address && !ethereum_same(&m->address, e->address))
                return refuse(err, "is of another account", AGAIN);
        return check_times(m, e, err);
}

static int check_signer(const void *message, size_t size, const char *signature, size_t signature_size,
                        struct ethereum_address *ret, struct err *err) {
        uint8_t bytes[ETHEREUM_SIGNATURE];
        int r = ethereum_parse_signature(signature, signature_size, bytes, err);

        return r < 0 ? r : ethereum_recover(message, size, bytes, ret, err);
}

int siwe_verify(const char *text, size_t size, const char *signature, size_t signature_size,
                const struct siwe_expect *e, struct ethereum_address *ret, struct err *err) {
        struct ethereum_address signer;
        struct siwe m;
        int r = siwe_parse(text, size, &m, err);

        if (r == 0)
                r = siwe_check(&m, e, err);
        if (r == 0)
                r = check_signer(text, size, signature, signature_size, &signer, err);
        if (r < 0)
                return r;
        if (!ethereum_same(&signer, &m.address))
                return refuse(err, "was not signed by the account that it names",
                              "sign exactly the text that is sent, with that account; contract wallets do not work");
        *ret = signer;
        return 0;
}

/* --- T clients -------------------------------------------------------------------------------------------------- */

int siwe_build_plain(const char *nonce, uint64_t expires_ms, struct buf *out, struct err *err) {
        if (strlen(nonce) != PLAIN_NONCE || strspn(nonce, "0123456789abcdef") != PLAIN_NONCE)
                return err_set(err, ERR_INPUT, "the nonce is not %d hexadecimal digits", PLAIN_NONCE);
        buf_printf(out, PLAIN_TEXT "\n\n" NONCE "%s\nExpires: %llu", nonce, (unsigned long long)(expires_ms / 1000));
        return buf_ok(out) ? 0 : err_set(err, -ENOMEM, "could not write the sign-in text");
}

int siwe_verify_plain(const char *nonce, uint64_t expires_ms, const char *signature, size_t signature_size,
                      uint64_t now_ms, struct ethereum_address *ret, struct err *err) {
        _cleanup_buf_ struct buf text = {.max = SIWE_MAX};
        int r;

        if (now_ms >= expires_ms)
                return refuse(err, "has expired", AGAIN);
        r = siwe_build_plain(nonce, expires_ms, &text, err);
        return r < 0 ? r : check_signer(text.data, text.size, signature, signature_size, ret, err);
}
