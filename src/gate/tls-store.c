/* The host's certificate store, for verifying servers and for telling programs inside whom the host trusts.
 *
 * The file is opened before the gate gives up the file system and read from the descriptor when it is first needed.
 * Taking 150 certificates fully apart takes OpenSSL about 28 ms, in which every other connection would wait; of one
 * chain a single one is needed. So only their names are read at first (about 2 ms), and a certificate is taken apart
 * when a chain asks for an issuer of its name. What OpenSSL then believes is decided by OpenSSL. */
#include "gate/tls-module.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

#define STORE_FILE_MAX  (4 * 1024 * 1024)
#define STORE_CERTS_MAX 2048

static const char *const store_places[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
};

struct store_entry {
        size_t at, size;    /* DER, in store.der */
        unsigned long hash; /* of the subject's name */
        bool loaded;        /* in the X509_STORE already */
};

static struct {
        int fd;
        struct buf der;
        struct store_entry entries[STORE_CERTS_MAX];
        size_t count;
        bool parsed, named;
        X509_STORE *verify;
} store = {.fd = -EBADF};

int store_open(struct err *err) {
        const char *own = secure_getenv("SSL_CERT_FILE");
        struct stat st;

        if (own && own[0] == '/') {
                store.fd = open(own, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
                if (store.fd < 0)
                        return err_set(err, -errno, "cannot open the certificates in '%s' (SSL_CERT_FILE)", own);
        }
        for (size_t i = 0; store.fd < 0 && i < ELEMENTSOF(store_places); i++)
                store.fd = open(store_places[i], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (store.fd < 0) {
                (void)err_set(err, -ENOENT, "cannot find the certificates that this host trusts");
                (void)err_hint(err, "install ca-certificates, or name a file with them in SSL_CERT_FILE");
                return -ENOENT;
        }
        if (fstat(store.fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > STORE_FILE_MAX) {
                fd_close(&store.fd);
                return err_set(err, ERR_REFUSED, "the file with this host's certificates is not one, or too large");
        }
        return 0;
}

int store_read_pem(struct buf *out, struct err *err) {
        char piece[16 * 1024];
        off_t at = 0;

        out->max = STORE_FILE_MAX + 64 * 1024;
        for (;;) {
                ssize_t n = pread(store.fd, piece, sizeof piece, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_set(err, -errno, "could not read this host's certificates");
                if (n == 0)
                        break;
                buf_add(out, piece, (size_t)n);
                at += n;
        }
        if (!buf_ok(out))
                return err_set(err, -ENOMEM, "could not read this host's certificates");
        return 0;
}

/* From PEM to DER. Things in the file that are not certificates are passed over. */
static void store_parse(void) {
        _cleanup_buf_ struct buf pem = {0};
        char *name = NULL, *header = NULL;
        unsigned char *der = NULL;
        long size;

        if (store.parsed)
                return;
        store.parsed = true;
        if (store_read_pem(&pem, NULL) < 0 || pem.size == 0)
                return;
        BIO *in = BIO_new_mem_buf(pem.data, (int)pem.size);
        store.der.max = STORE_FILE_MAX;
        while (in && store.count < STORE_CERTS_MAX && PEM_read_bio(in, &name, &header, &der, &size) == 1) {
                if (str_eq(name, PEM_STRING_X509) || str_eq(name, PEM_STRING_X509_OLD)) {
                        size_t at = store.der.size;

                        buf_add(&store.der, der, (size_t)size);
                        if (buf_ok(&store.der))
                                store.entries[store.count++] = (struct store_entry){.at = at, .size = (size_t)size};
                }
                OPENSSL_free(name);
                OPENSSL_free(header);
                OPENSSL_free(der);
        }
        BIO_free(in);
        (void)tls_complaint((char[128]){0}, 128); /* the end of the file is told as an error */
}

static const uint8_t *store_der(const struct store_entry *e) {
        return (const uint8_t *)store.der.data + e->at;
}

int store_each(int (*take)(void *context, const uint8_t *der, size_t size), void *context) {
        int r = 0;

        store_parse();
        for (size_t i = 0; r == 0 && i < store.count; i++)
                r = take(context, store_der(&store.entries[i]), store.entries[i].size);
        return r;
}

size_t store_count(void) {
        store_parse();
        return store.count;
}

/* Steps over one DER element of this tag, or into it. */
static bool der_element(const uint8_t **p, const uint8_t *end, int tag, int class, bool into) {
        const uint8_t *at = *p;
        long size;
        int has_tag, has_class;
        int r = ASN1_get_object(&at, &size, &has_tag, &has_class, end - *p);

        if ((r & 0x80) || has_tag != tag || has_class != class || size > end - at)
                return false;
        *p = into ? at : at + size;
        return true;
}

/* The hash of a certificate's subject, without taking the whole apart: certificate, to be signed, version, serial
 * number, algorithm, issuer, validity, subject. */
static bool subject_hash(const uint8_t *der, size_t size, unsigned long *ret) {
        const uint8_t *p = der, *end = der + size;
        int ok = 0;

        if (!der_element(&p, end, V_ASN1_SEQUENCE, V_ASN1_UNIVERSAL, true) ||
            !der_element(&p, end, V_ASN1_SEQUENCE, V_ASN1_UNIVERSAL, true))
                return false;
        (void)der_element(&p, end, 0, V_ASN1_CONTEXT_SPECIFIC, false);
        if (!der_element(&p, end, V_ASN1_INTEGER, V_ASN1_UNIVERSAL, false) ||
            !der_element(&p, end, V_ASN1_SEQUENCE, V_ASN1_UNIVERSAL, false) ||
            !der_element(&p, end, V_ASN1_SEQUENCE, V_ASN1_UNIVERSAL, false) ||
            !der_element(&p, end, V_ASN1_SEQUENCE, V_ASN1_UNIVERSAL, false))
                return false;
        X509_NAME *name = d2i_X509_NAME(NULL, &p, end - p);
        if (!name)
                return false;
        *ret = X509_NAME_hash_ex(name, NULL, NULL, &ok);
        X509_NAME_free(name);
        return ok == 1;
}

/* Takes apart what has this name and was not before. */
static void store_want(X509_STORE *s, const X509_NAME *name) {
        int ok = 0;
        unsigned long hash = X509_NAME_hash_ex(name, NULL, NULL, &ok);

        for (size_t i = 0; ok == 1 && i < store.count; i++) {
                struct store_entry *e = &store.entries[i];

                if (e->hash != hash || e->loaded)
                        continue;
                const uint8_t *p = store_der(e);
                X509 *x = d2i_X509(NULL, &p, (long)e->size);
                if (x)
                        (void)X509_STORE_add_cert(s, x);
                X509_free(x);
                e->loaded = true;
        }
}

static int store_issuer(X509 **issuer, X509_STORE_CTX *c, X509 *x) {
        store_want(X509_STORE_CTX_get0_store(c), X509_get_issuer_name(x));
        return X509_STORE_CTX_get1_issuer(issuer, c, x);
}

static STACK_OF(X509) * store_certificates(X509_STORE_CTX *c, const X509_NAME *name) {
        store_want(X509_STORE_CTX_get0_store(c), name);
        return X509_STORE_CTX_get1_certs(c, name);
}

X509_STORE *store_verify(void) {
        if (store.verify)
                return store.verify;
        store_parse();
        for (size_t i = 0; !store.named && i < store.count; i++)
                if (!subject_hash(store_der(&store.entries[i]), store.entries[i].size, &store.entries[i].hash))
                        store.entries[i].loaded = true; /* not a certificate: never used */
        store.named = true;
        if (store.count == 0)
                return NULL;
        X509_STORE *s = X509_STORE_new();
        if (s) {
                X509_STORE_set_get_issuer(s, store_issuer);
                X509_STORE_set_lookup_certs(s, store_certificates);
        }
        return store.verify = s;
}
