/* The authority as files: what a sandbox is given so that its programs trust the gate, and the key for a gate that
 * takes over. All are sealed memfds: whoever gets one can read it and change nothing.
 *
 * A program that is told to use one of these trusts nothing else, so the host's certificates are in the bundle and in
 * the Java store as well. The key is in GATE_CA_KEY only. */
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "gate/tls-module.h"

#define KEY_FILE_MAX 8192

static int sealed(const char *name, const void *data, size_t size, struct err *err) {
        _cleanup_fd_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return err_set(err, -errno, "could not make a file for the sandbox's authority");
        int r = fd_write_full(fd, data, size);
        if (r < 0)
                return err_set(err, r, "could not write a file for the sandbox's authority");
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return err_set(err, -errno, "could not seal a file for the sandbox's authority");
        return TAKE_FD(fd);
}

static int out_of_memory(struct err *err) {
        return err_set(err, -ENOMEM, "could not write the sandbox's authority down");
}

/* The certificate as PEM, after what is in `before`. */
static int certificate_file(const char *name, const struct buf *before, X509 *certificate, struct err *err) {
        _cleanup_buf_ struct buf all = {.max = before ? before->max : 0};
        BIO *b = BIO_new(BIO_s_mem());
        char *text = NULL;
        long size = 0;

        if (b && PEM_write_bio_X509(b, certificate) == 1)
                size = BIO_get_mem_data(b, &text);
        if (before)
                buf_add(&all, before->data, before->size);
        if (all.size > 0 && all.data[all.size - 1] != '\n')
                buf_str(&all, "\n");
        if (size > 0)
                buf_add(&all, text, (size_t)size);
        BIO_free(b);
        if (size <= 0 || !buf_ok(&all))
                return out_of_memory(err);
        return sealed(name, all.data, all.size, err);
}

/* Key and certificate, PEM. The text of the key passes through memory that OpenSSL wipes. */
static int key_file(X509 *certificate, EVP_PKEY *key, struct err *err) {
        BIO *b = BIO_new(BIO_s_secmem());
        char *text = NULL;
        long size = 0;
        int fd;

        if (b && PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) == 1 &&
            PEM_write_bio_X509(b, certificate) == 1)
                size = BIO_get_mem_data(b, &text);
        fd = size > 0 && size <= KEY_FILE_MAX ? sealed("stockade-ca-key", text, (size_t)size, err) : out_of_memory(err);
        BIO_free(b);
        return fd;
}

/* A Java key store, version 2 of the JKS format: big-endian numbers, texts with a 16-bit length, one entry per trusted
 * certificate, and a SHA-1 over a well-known password, a fixed phrase and the rest. The sum guards against accidents;
 * nothing in here is secret. */
static void put16(struct buf *b, size_t v) {
        buf_add(b, (uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

static void put32(struct buf *b, size_t v) {
        put16(b, v >> 16 & 0xffff);
        put16(b, v & 0xffff);
}

static void put_text(struct buf *b, const char *s) {
        put16(b, strlen(s));
        buf_str(b, s);
}

struct java {
        struct buf out;
        uint64_t now; /* milliseconds */
        unsigned count;
};

static int java_entry(void *context, const uint8_t *der, size_t size) {
        struct java *j = context;
        char alias[32];

        (void)snprintf(alias, sizeof alias, j->count == 0 ? "stockade" : "host-%04u", j->count);
        j->count++;
        put32(&j->out, 2); /* a trusted certificate */
        put_text(&j->out, alias);
        put32(&j->out, j->now >> 32);
        put32(&j->out, j->now & 0xffffffff);
        put_text(&j->out, "X.509");
        put32(&j->out, size);
        buf_add(&j->out, der, size);
        return 0;
}

static bool java_sum(const struct buf *b, uint8_t ret[20]) {
        static const char password[] = "changeit", phrase[] = "Mighty Aphrodite";
        EVP_MD_CTX *c = EVP_MD_CTX_new();
        bool ok = c && EVP_DigestInit_ex(c, EVP_sha1(), NULL) == 1;

        for (const char *p = password; ok && *p; p++)
                ok = EVP_DigestUpdate(c, (char[]){0, *p}, 2) == 1;
        ok = ok && EVP_DigestUpdate(c, phrase, sizeof phrase - 1) == 1 && EVP_DigestUpdate(c, b->data, b->size) == 1 &&
             EVP_DigestFinal_ex(c, ret, NULL) == 1;
        EVP_MD_CTX_free(c);
        return ok;
}

static int java_file(X509 *certificate, struct err *err) {
        struct java j = {.out.max = 8 * 1024 * 1024, .now = (uint64_t)time(NULL) * 1000};
        unsigned char *der = NULL;
        uint8_t sum[20];
        int size = i2d_X509(certificate, &der);
        int fd;

        put32(&j.out, 0xfeedfeed);
        put32(&j.out, 2);
        put32(&j.out, 1 + store_count());
        if (size > 0)
                (void)java_entry(&j, der, (size_t)size);
        OPENSSL_free(der);
        (void)store_each(java_entry, &j);
        if (size > 0 && buf_ok(&j.out) && java_sum(&j.out, sum))
                buf_add(&j.out, sum, sizeof sum);
        else
                j.out.failed = true;
        fd = buf_ok(&j.out) ? sealed("stockade-ca-java", j.out.data, j.out.size, err) : out_of_memory(err);
        buf_free(&j.out);
        return fd;
}

int files_make(X509 *certificate, EVP_PKEY *key, int ret[GATE_CA_COUNT], struct err *err) {
        _cleanup_buf_ struct buf host = {0};
        _cleanup_fd_ int pem = -EBADF, bundle = -EBADF, java = -EBADF, secret = -EBADF;
        int r = store_read_pem(&host, err);

        if (r < 0)
                return r;
        pem = certificate_file("stockade-ca", NULL, certificate, err);
        if (pem < 0)
                return pem;
        bundle = certificate_file("stockade-ca-bundle", &host, certificate, err);
        if (bundle < 0)
                return bundle;
        java = java_file(certificate, err);
        if (java < 0)
                return java;
        secret = key_file(certificate, key, err);
        if (secret < 0)
                return secret;
        ret[GATE_CA_PEM] = TAKE_FD(pem);
        ret[GATE_CA_BUNDLE] = TAKE_FD(bundle);
        ret[GATE_CA_JAVA] = TAKE_FD(java);
        ret[GATE_CA_KEY] = TAKE_FD(secret);
        return 0;
}

/* A passphrase is never asked for: there is nobody to answer. */
static int no_passphrase(char *buf _unused_, int size _unused_, int writing _unused_, void *context _unused_) {
        return -1;
}

int files_read_key(int fd, EVP_PKEY **ret_key, X509 **ret_certificate, struct err *err) {
        char text[KEY_FILE_MAX + 1];
        ssize_t n = pread(fd, text, sizeof text, 0);

        if (n < 0)
                return err_set(err, -errno, "could not read the sandbox's authority");
        if (n == 0 || n > KEY_FILE_MAX)
                return err_set(err, ERR_CORRUPT, "the sandbox's authority is not well-formed");
        BIO *b = BIO_new_mem_buf(text, (int)n);
        EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL) : NULL;
        X509 *certificate = key ? PEM_read_bio_X509(b, NULL, no_passphrase, NULL) : NULL;
        bool ok = certificate && EVP_PKEY_is_a(key, "EC") == 1 && X509_check_private_key(certificate, key) == 1;

        BIO_free(b);
        OPENSSL_cleanse(text, sizeof text);
        (void)tls_complaint((char[128]){0}, 128);
        if (!ok) {
                EVP_PKEY_free(key);
                X509_free(certificate);
                return err_set(err, ERR_CORRUPT, "the sandbox's authority is not well-formed");
        }
        *ret_key = key;
        *ret_certificate = certificate;
        return 0;
}
