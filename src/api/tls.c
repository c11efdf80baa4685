/* See tls.h. A pair that was replaced goes with the last connection that was begun with it. */
#include "api/tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "wire/certificate.h"
#include "wire/packet.h"

#define HELLO_MAX (16U * 1024) /* of a message of a handshake */
#define ADVICE    "put the right file there; it is taken up within ten seconds"

/* TLS 1.2 and 1.3, keys that are forgotten after the connection, and ciphers that authenticate what they hide. */
#define PRIORITIES                                                                                                     \
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-128-GCM:"         \
        "+AES-256-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD:-SIGN-RSA-SHA1:-SIGN-ECDSA-SHA1:"                              \
        "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:%SERVER_PRECEDENCE"

struct tls_pair {
        gnutls_certificate_credentials_t credentials;
        unsigned users; /* connections, and one for being the current one */
        uint64_t expires_ms;
};

struct tls {
        struct core *o;
        void (*changed)(struct core *o);
        struct loop_watch watch;
        gnutls_priority_t priorities;
        struct tls_pair *current; /* NULL: none that is good has come yet */
        struct err problem;
};

struct tls_pair *tls_pair_take(struct tls *t) {
        if (t->current)
                t->current->users++;
        return t->current;
}

void tls_pair_drop(struct tls_pair *p) {
        if (!p || --p->users > 0)
                return;
        if (p->credentials) /* GnuTLS wipes the key */
                gnutls_certificate_free_credentials(p->credentials);
        free(p);
}

/* --- looking at a pair ----------------------------------------------------------------------------------------------
 */

static int wrong(struct err *err, const char *what, int code) {
        (void)err_set(err, ERR_INPUT, "%s%s%s", what, code < 0 ? ": " : "", code < 0 ? gnutls_strerror(code) : "");
        return err_hint(err, ADVICE);
}

/* Of the first one, which is ours. */
static int look_at(struct tls_pair *p, gnutls_x509_crt_t leaf, struct err *err) {
        unsigned bits = 0;
        int algorithm = gnutls_x509_crt_get_pk_algorithm(leaf, &bits);
        time_t end = gnutls_x509_crt_get_expiration_time(leaf);

        if (algorithm < 0 ||
            gnutls_pk_bits_to_sec_param((gnutls_pk_algorithm_t)algorithm, bits) < GNUTLS_SEC_PARAM_MEDIUM) {
                (void)err_set(err, ERR_REFUSED, "the certificate's key of %u bits is too weak", bits);
                return err_hint(err, "use an elliptic curve, or RSA of 2048 bits or more");
        }
        p->expires_ms = end > 0 ? (uint64_t)end * 1000 : 0;
        return 0;
}

/* Without a passphrase, an encrypted key cannot be read. */
static int check_apart(const gnutls_datum_t *chain, const gnutls_datum_t *key, struct err *err) {
        gnutls_x509_crt_t crt = NULL;
        gnutls_x509_privkey_t private = NULL;

        int r = gnutls_x509_crt_init(&crt);
        if (r == 0)
                r = gnutls_x509_crt_import(crt, chain, GNUTLS_X509_FMT_PEM);
        if (crt)
                gnutls_x509_crt_deinit(crt);
        if (r < 0)
                return wrong(err, "the certificate cannot be read", r);
        r = gnutls_x509_privkey_init(&private);
        if (r == 0)
                r = gnutls_x509_privkey_import2(private, key, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (private)
                gnutls_x509_privkey_deinit(private);
        return r < 0 ? wrong(err, "the certificate's key cannot be read", r) : 0;
}

static int pair_read(const gnutls_datum_t *chain, const gnutls_datum_t *key, struct tls_pair *p, struct err *err) {
        gnutls_x509_crt_t *list = NULL;
        unsigned count = 0;

        int r = check_apart(chain, key, err);
        if (r < 0)
                return r;
        r = gnutls_certificate_allocate_credentials(&p->credentials);
        if (r == 0)
                r = gnutls_certificate_set_x509_key_mem2(p->credentials, chain, key, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (r == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
                return wrong(err, "the certificate and the key do not belong together", 0);
        if (r >= 0)
                r = gnutls_certificate_get_x509_crt(p->credentials, 0, &list, &count);
        if (r < 0 || count == 0)
                return wrong(err, "the certificate cannot be used", r);
        r = look_at(p, list[0], err);
        for (unsigned i = 0; i < count; i++)
                gnutls_x509_crt_deinit(list[i]);
        gnutls_free(list);
        return r;
}

/* --- what comes -----------------------------------------------------------------------------------------------------
 */

static int read_all(int fd, gnutls_datum_t *ret, struct err *err) {
        ret->data = malloc(CERTIFICATE_FILE_MAX);
        ssize_t n = ret->data ? pread(fd, ret->data, CERTIFICATE_FILE_MAX, 0) : -1;
        if (n < 0)
                return err_set(err, ret->data ? -errno : -ENOMEM, "the certificate could not be taken");
        ret->size = (unsigned)n;
        return 0;
}

static void wipe(gnutls_datum_t *d) {
        if (d->data)
                explicit_bzero(d->data, CERTIFICATE_FILE_MAX);
        free(d->data);
}

static int take_pair(struct tls *t, const int fds[CERTIFICATE_FDS], struct err *err) {
        gnutls_datum_t chain = {0}, key = {0};
        struct tls_pair *p = calloc(1, sizeof *p);

        if (p)
                p->users = 1;
        int r = p ? read_all(fds[0], &chain, err) : err_set(err, -ENOMEM, "the certificate could not be taken");
        if (r == 0)
                r = read_all(fds[1], &key, err);
        if (r == 0)
                r = pair_read(&chain, &key, p, err);
        wipe(&chain);
        wipe(&key);
        if (r < 0) {
                tls_pair_drop(p);
                return r;
        }
        tls_pair_drop(t->current);
        t->current = p;
        return 0;
}

/* A sentence and a hint, of the warden's. */
static int take_words(const char *text, size_t size, struct err *err) {
        size_t first = strnlen(text, size), second = first < size ? strnlen(text + first + 1, size - first - 1) : 0;

        (void)err_set(err, ERR_REFUSED, "%.*s", (int)first, text);
        return second > 0 ? err_hint(err, "%.*s", (int)second, text + first + 1) : err->code;
}

/* False: nothing is there. */
static bool take(struct tls *t) {
        char text[CERTIFICATE_SAY_MAX];
        int fds[CERTIFICATE_FDS];
        size_t count = 0;
        struct err err = {0};

        ssize_t n = packet_receive(t->o->tls_link, text, sizeof text, fds, CERTIFICATE_FDS, &count);
        if (n == -EAGAIN || n == -EINTR)
                return false;
        if (n < 0 || (n == 0 && count == 0)) { /* the warden is gone, and so are we in a moment */
                loop_unwatch(t->o->loop, &t->watch);
                return false;
        }
        if (count == CERTIFICATE_FDS)
                (void)take_pair(t, fds, &err);
        else
                (void)take_words(text, (size_t)n, &err);
        packet_close(fds, count);
        t->problem = err;
        if (err.code < 0)
                log_err(t->current ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, NULL, &err);
        return true;
}

static void on_packet(struct loop_watch *w, uint32_t events) {
        struct tls *t = LOOP_OWNER(w, struct tls, watch);

        (void)events;
        while (take(t))
                t->changed(t->o);
}

/* --- for the API ----------------------------------------------------------------------------------------------------
 */

struct tls *tls_open(struct core *o, void (*changed)(struct core *o)) {
        struct tls *t = calloc(1, sizeof *t);

        if (!t || gnutls_priority_init(&t->priorities, PRIORITIES, NULL) < 0) {
                free(t);
                return NULL;
        }
        t->o = o;
        t->changed = changed;
        t->watch.ready = on_packet;
        (void)err_set(&t->problem, ERR_REFUSED, "there is a certificate in stockade.conf, and none came");
        while (o->tls_link >= 0 && take(t))
                ;
        if (o->tls_link >= 0)
                (void)loop_watch(o->loop, &t->watch, o->tls_link, EPOLLIN);
        return t;
}

void tls_close(struct tls *t) {
        if (!t)
                return;
        loop_unwatch(t->o->loop, &t->watch);
        tls_pair_drop(t->current);
        gnutls_priority_deinit(t->priorities);
        free(t);
}

bool tls_has(const struct tls *t) {
        return t && t->current;
}

const struct err *tls_problem(const struct tls *t) {
        return t->problem.code < 0 ? &t->problem : NULL;
}

uint64_t tls_expires_ms(const struct tls *t) {
        return tls_has(t) ? t->current->expires_ms : 0;
}

int tls_session(struct tls *t, struct tls_pair *p, int fd, gnutls_session_t *ret) {
        static const gnutls_datum_t protocol = {(unsigned char *)(uintptr_t) "http/1.1", 8};
        gnutls_session_t s = NULL;

        int r = gnutls_init(&s, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
        if (r == 0)
                r = gnutls_priority_set(s, t->priorities);
        if (r == 0)
                r = gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, p->credentials);
        if (r == 0)
                r = gnutls_alpn_set_protocols(s, &protocol, 1, 0);
        if (r < 0) {
                if (s)
                        gnutls_deinit(s);
                return -ENOMEM;
        }
        gnutls_handshake_set_max_packet_length(s, HELLO_MAX);
        gnutls_transport_set_int(s, fd);
        *ret = s;
        return 0;
}
