/* The authority of one ward: a P-256 key and a certificate that only this ward's sandbox is told to trust, and the
 * certificates made with it, one per name that the sandbox connects to.
 *
 * The key signs nothing but leaves for servers: one name or one address each, no longer valid than the authority.
 * Leaves share a second key, which is not the authority's. Both live in OpenSSL's locked memory, which is kept out of
 * core dumps and wiped when freed. */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "gate/tls-module.h"

#define AUTHORITY_DAYS 30
#define DAY            (24L * 60 * 60)

struct leaf {
        char name[HOSTNAME_SIZE];
        X509 *certificate;
};

struct tls_authority {
        EVP_PKEY *key, *leaf_key;
        X509 *certificate;
        SSL_CTX *context;
        struct leaf leaves[TLS_LEAVES]; /* a ring: the oldest is overwritten */
        size_t made;
};

static bool serial_set(X509 *x) {
        unsigned char bytes[16];

        if (RAND_bytes(bytes, sizeof bytes) != 1)
                return false;
        bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and always 16 bytes */
        BIGNUM *n = BN_bin2bn(bytes, sizeof bytes, NULL);
        bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
        BN_free(n);
        return ok;
}

static bool subject_set(X509 *x, const char *text) {
        X509_NAME *n = X509_get_subject_name(x);

        return X509_NAME_add_entry_by_txt(n, "O", MBSTRING_ASC, (const unsigned char *)"Stockade", -1, -1, 0) == 1 &&
               X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, (const unsigned char *)text, -1, -1, 0) == 1;
}

static bool extension_add(X509 *x, X509 *issuer, int nid, const char *value) {
        X509V3_CTX c = {0};

        X509V3_set_ctx(&c, issuer, x, NULL, NULL, 0);
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &c, nid, value);
        bool ok = e && X509_add_ext(x, e, -1) == 1;
        X509_EXTENSION_free(e);
        return ok;
}

/* What both kinds of certificate have. */
static X509 *certificate_new(EVP_PKEY *key, const char *subject) {
        X509 *x = X509_new();

        if (x && X509_set_version(x, X509_VERSION_3) == 1 && serial_set(x) && X509_set_pubkey(x, key) == 1 &&
            subject_set(x, subject))
                return x;
        X509_free(x);
        return NULL;
}

static X509 *authority_certificate(EVP_PKEY *key) {
        unsigned char random[8];
        char subject[64];

        if (RAND_bytes(random, sizeof random) != 1)
                return NULL;
        (void)snprintf(subject, sizeof subject, "sandbox authority %02x%02x%02x%02x%02x%02x%02x%02x", random[0],
                       random[1], random[2], random[3], random[4], random[5], random[6], random[7]);
        X509 *x = certificate_new(key, subject);
        if (x && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
            X509_gmtime_adj(X509_getm_notBefore(x), -DAY) &&
            X509_gmtime_adj(X509_getm_notAfter(x), AUTHORITY_DAYS * DAY) &&
            extension_add(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
            extension_add(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
            extension_add(x, x, NID_subject_key_identifier, "hash") && X509_sign(x, key, EVP_sha256()) > 0)
                return x;
        X509_free(x);
        return NULL;
}

/* The one name or address that a leaf is for. */
static bool leaf_subject(X509 *x, const char *name) {
        uint8_t bytes[16];
        GENERAL_NAMES *names = GENERAL_NAMES_new();
        GENERAL_NAME *one = GENERAL_NAME_new();
        ASN1_STRING *value = ASN1_STRING_new();
        int size = inet_pton(AF_INET, name, bytes) == 1 ? 4 : inet_pton(AF_INET6, name, bytes) == 1 ? 16 : 0;
        bool ok = names && one && value;

        if (ok)
                ok = size ? ASN1_STRING_set(value, bytes, size) == 1 : ASN1_STRING_set(value, name, -1) == 1;
        if (ok) {
                GENERAL_NAME_set0_value(one, size ? GEN_IPADD : GEN_DNS, value);
                value = NULL;
                ok = sk_GENERAL_NAME_push(names, one) > 0;
                if (ok)
                        one = NULL;
        }
        ok = ok && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
        ASN1_STRING_free(value);
        GENERAL_NAME_free(one);
        GENERAL_NAMES_free(names);
        return ok;
}

static X509 *leaf_certificate(struct tls_authority *a, const char *name) {
        X509 *x = certificate_new(a->leaf_key, strlen(name) <= 64 ? name : "a long name");

        if (x && X509_set_issuer_name(x, X509_get_subject_name(a->certificate)) == 1 &&
            X509_set1_notBefore(x, X509_get0_notBefore(a->certificate)) == 1 &&
            X509_set1_notAfter(x, X509_get0_notAfter(a->certificate)) == 1 && leaf_subject(x, name) &&
            extension_add(x, a->certificate, NID_basic_constraints, "critical,CA:FALSE") &&
            extension_add(x, a->certificate, NID_key_usage, "critical,digitalSignature") &&
            extension_add(x, a->certificate, NID_ext_key_usage, "serverAuth") &&
            extension_add(x, a->certificate, NID_subject_key_identifier, "hash") &&
            extension_add(x, a->certificate, NID_authority_key_identifier, "keyid:always") &&
            X509_sign(x, a->key, EVP_sha256()) > 0)
                return x;
        X509_free(x);
        return NULL;
}

static X509 *leaf_find(struct tls_authority *a, const char *name) {
        for (size_t i = 0; i < MIN(a->made, (size_t)TLS_LEAVES); i++)
                if (str_eq(a->leaves[i].name, name))
                        return a->leaves[i].certificate;
        if (name[0] == '\0' || strlen(name) >= HOSTNAME_SIZE)
                return NULL;
        X509 *x = leaf_certificate(a, name);
        if (!x)
                return NULL;
        struct leaf *l = &a->leaves[a->made++ % TLS_LEAVES];
        X509_free(l->certificate);
        l->certificate = x;
        (void)snprintf(l->name, sizeof l->name, "%s", name);
        return x;
}

/* A client that offers protocols has to offer ours; one that offers none gets HTTP/1.1 as it expects. */
static int choose_protocol(SSL *ssl _unused_, const unsigned char **out, unsigned char *out_size,
                           const unsigned char *offered, unsigned offered_size, void *context _unused_) {
        for (unsigned at = 0; at < offered_size && offered[at] < offered_size - at; at += 1U + offered[at])
                if (offered[at] == sizeof tls_alpn_http1 - 1 &&
                    memcmp(offered + at, tls_alpn_http1, sizeof tls_alpn_http1) == 0) {
                        *out = offered + at + 1;
                        *out_size = offered[at];
                        return SSL_TLSEXT_ERR_OK;
                }
        return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *server_context(void) {
        SSL_CTX *c = SSL_CTX_new(TLS_server_method());

        if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 || SSL_CTX_set_num_tickets(c, 0) != 1) {
                SSL_CTX_free(c);
                return NULL;
        }
        tls_context_common(c);
        SSL_CTX_set_alpn_select_cb(c, choose_protocol, NULL);
        return c;
}

void authority_destroy(struct tls_authority *a) {
        for (size_t i = 0; i < TLS_LEAVES; i++)
                X509_free(a->leaves[i].certificate);
        SSL_CTX_free(a->context);
        X509_free(a->certificate);
        EVP_PKEY_free(a->leaf_key);
        EVP_PKEY_free(a->key);
        free(a);
}

struct tls_authority *authority_create(int key, struct err *err) {
        struct tls_authority *a = calloc(1, sizeof *a);
        char complaint[128];

        ERR_clear_error();
        if (!a) {
                (void)err_set(err, -ENOMEM, "could not make an authority for the sandbox");
                return NULL;
        }
        if (key >= 0 && files_read_key(key, &a->key, &a->certificate, err) < 0) {
                authority_destroy(a);
                return NULL;
        }
        if (!a->key)
                a->key = EVP_EC_gen("P-256");
        if (a->key && !a->certificate)
                a->certificate = authority_certificate(a->key);
        a->leaf_key = EVP_EC_gen("P-256");
        a->context = server_context();
        if (!a->key || !a->certificate || !a->leaf_key || !a->context) {
                (void)err_set(err, -EIO, "could not make an authority for the sandbox (%s)",
                              tls_complaint(complaint, sizeof complaint));
                authority_destroy(a);
                return NULL;
        }
        return a;
}

SSL *authority_session(struct tls_authority *a, const char *name) {
        X509 *leaf = leaf_find(a, name);
        SSL *ssl = leaf ? SSL_new(a->context) : NULL;

        if (ssl && SSL_use_cert_and_key(ssl, leaf, a->leaf_key, NULL, 1) == 1)
                return ssl;
        SSL_free(ssl);
        return NULL;
}

int authority_files(struct tls_authority *a, int ret[GATE_CA_COUNT], struct err *err) {
        ERR_clear_error();
        return files_make(a->certificate, a->key, ret, err);
}
