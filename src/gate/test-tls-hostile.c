/* Peers that would hold on to a thread: records that carry nothing, without end, and more at once than one call may
 * take. */
#include <openssl/kdf.h>
#include <sys/ioctl.h>

#include "gate/test-tls.h"

/* They ask for new keys so often, or until nothing more fits. */
static void new_keys(struct pair *p, unsigned count, int answer) {
        for (unsigned i = 0; i < count; i++)
                if (SSL_key_update(p->ssl, answer) != 1 || SSL_do_handshake(p->ssl) != 1)
                        break;
        ERR_clear_error();
}

/* The same, in one piece: a socket holds few small ones. Their side can send nothing after it. */
static void many_new_keys(struct pair *p, int answer) {
        char *bytes;

        SSL_set0_wbio(p->ssl, BIO_new(BIO_s_mem()));
        new_keys(p, 2000, answer);
        long size = BIO_get_mem_data(SSL_get_wbio(p->ssl), &bytes);
        CHECK(write(p->theirs, bytes, (size_t)size) == size);
}

static int unread(const struct pair *p) {
        int n = 0;

        CHECK(ioctl(p->ours, FIONREAD, &n) == 0);
        return n;
}

static void check_idle(struct pair *p) {
        char back[8];

        ssize_t n = tls_read(p->tls, back, sizeof back);
        if (n != -EPROTO)
                (void)printf("# read says %zd, %d are left\n", n, unread(p));
        CHECK(n == -EPROTO && strstr(tls_problem(p->tls), "over and over"));
        CHECK(unread(p) > 0); /* it did not look at all of them */
        CHECK(tls_read(p->tls, back, sizeof back) == -EPROTO && tls_write(p->tls, "x", 1) == -EPROTO);
        CHECK(!tls_pending(p->tls) && tls_end(p->tls) == 0);
}

static void test_keys_without_end(void) {
        static const int answers[] = {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED};
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        char back[2048];

        for (size_t i = 0; i < ELEMENTSOF(answers); i++) {
                _cleanup_pair_ struct pair p, q;
                outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
                many_new_keys(&p, answers[i]);
                check_idle(&p);
                inside(&q, a, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_3_VERSION);
                many_new_keys(&q, answers[i]);
                check_idle(&q);
        }
        {
                _cleanup_pair_ struct pair p; /* a few are fine, and so are more if there is data to go with them */
                outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
                CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN);
                memset(back, 'x', sizeof back);
                for (unsigned i = 0; i < 20; i++) {
                        new_keys(&p, 2, SSL_KEY_UPDATE_REQUESTED);
                        CHECK(SSL_write(p.ssl, back, sizeof back) == (int)sizeof back);
                        CHECK(tls_read(p.tls, back, sizeof back) == (ssize_t)sizeof back);
                }
                CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN && !tls_pending(p.tls));
                /* a byte now and then does not buy any number */
                for (unsigned i = 0; i < 20; i++) {
                        new_keys(&p, 2, SSL_KEY_UPDATE_NOT_REQUESTED);
                        CHECK(SSL_write(p.ssl, "x", 1) == 1);
                }
                ssize_t n;
                while ((n = tls_read(p.tls, back, sizeof back)) > 0)
                        ;
                CHECK(n == -EPROTO);
        }
        {
                _cleanup_pair_ struct pair p; /* tickets */
                outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
                for (unsigned i = 0; i < 400 && SSL_new_session_ticket(p.ssl) == 1 && SSL_do_handshake(p.ssl) == 1; i++)
                        ;
                ERR_clear_error();
                check_idle(&p);
        }
        close_all(files);
        tls_authority_destroy(a);
        X509_free(x);
}

/* A record of TLS 1.2 as their side would send it: the session's keys are made again from what it tells. */
static void forge(struct pair *p, bool server, uint64_t number, uint8_t kind, const uint8_t *bytes, size_t size,
                  struct buf *out) {
        uint8_t secret[48], seed[13 + 64] = "key expansion", block[40], record[13 + 512 + 16], label[13], nonce[12];
        EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_id(EVP_PKEY_TLS1_PRF, NULL);
        size_t block_size = sizeof block, key = server ? 16 : 0, start = server ? 36 : 32;
        int n = 0, end = 0;

        assert(SSL_SESSION_get_master_key(SSL_get_session(p->ssl), secret, sizeof secret) == sizeof secret);
        assert(SSL_get_server_random(p->ssl, seed + 13, 32) == 32 &&
               SSL_get_client_random(p->ssl, seed + 45, 32) == 32);
        assert(c && EVP_PKEY_derive_init(c) == 1 && EVP_PKEY_CTX_set_tls1_prf_md(c, EVP_sha256()) == 1 &&
               EVP_PKEY_CTX_set1_tls1_prf_secret(c, secret, sizeof secret) == 1 &&
               EVP_PKEY_CTX_add1_tls1_prf_seed(c, seed, sizeof seed) == 1 &&
               EVP_PKEY_derive(c, block, &block_size) == 1 && size <= 512);
        EVP_PKEY_CTX_free(c);
        for (unsigned i = 0; i < 8; i++)
                label[i] = record[5 + i] = nonce[4 + i] = (uint8_t)(number >> (56 - 8 * i));
        memcpy(nonce, block + start, 4);
        memcpy(label + 8, (uint8_t[]){kind, 3, 3, (uint8_t)(size >> 8), (uint8_t)size}, 5);
        memcpy(record, (uint8_t[]){kind, 3, 3, (uint8_t)((size + 24) >> 8), (uint8_t)(size + 24)}, 5);
        EVP_CIPHER_CTX *e = EVP_CIPHER_CTX_new();
        assert(e && EVP_EncryptInit_ex(e, EVP_aes_128_gcm(), NULL, block + key, nonce) == 1 &&
               EVP_EncryptUpdate(e, NULL, &n, label, sizeof label) == 1 &&
               EVP_EncryptUpdate(e, record + 13, &n, bytes, (int)size) == 1 &&
               EVP_EncryptFinal_ex(e, record + 13 + n, &end) == 1 &&
               EVP_CIPHER_CTX_ctrl(e, EVP_CTRL_AEAD_GET_TAG, 16, record + 13 + size) == 1);
        EVP_CIPHER_CTX_free(e);
        buf_add(out, record, 13 + size + 16);
}

/* TLS 1.2: hellos and requests for them, each of which gets a warning and could go on for ever. */
static void test_hellos_without_end(void) {
        static const uint8_t hello[4 + 38] = {1, 0, 0, 38, 3, 3}, request[4] = {0};
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        char back[8];

        suite = "ECDHE-ECDSA-AES128-GCM-SHA256";
        for (unsigned server = 0; server < 2; server++) {
                _cleanup_pair_ struct pair p;

                if (server)
                        outside(&p, x, "good.test", NULL, NULL, TLS1_2_VERSION);
                else
                        inside(&p, a, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_2_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
                _cleanup_buf_ struct buf few = {0}, many = {0};
                forge(&p, server, 1, SSL3_RT_APPLICATION_DATA, (const uint8_t *)"hi", 2, &few);
                for (unsigned i = 0; i < 1000; i++)
                        forge(&p, server, 2 + i, SSL3_RT_HANDSHAKE, server ? request : hello,
                              server ? sizeof request : sizeof hello, i < TLS_IDLE_MAX ? &few : &many);
                CHECK(write(p.theirs, few.data, few.size) == (ssize_t)few.size);
                CHECK(tls_read(p.tls, back, sizeof back) == 2 && memcmp(back, "hi", 2) == 0);
                CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN);
                CHECK(write(p.theirs, many.data, many.size) == (ssize_t)many.size);
                check_idle(&p);
        }
        suite = NULL;
        close_all(files);
        tls_authority_destroy(a);
        X509_free(x);
}

/* More than one call may take: it says that it has to be called again, and then goes on. */
static void test_budget(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        _cleanup_pair_ struct pair p;
        unsigned again = 0;
        int r = -EAGAIN;

        chain = 250; /* certificates that nobody needs */
        outside_begin(&p, x, "good.test", NULL, NULL, TLS1_2_VERSION);
        CHECK(tls_handshake(p.tls) == -EAGAIN);
        CHECK(SSL_do_handshake(p.ssl) == -1 && unread(&p) > TLS_BUDGET);
        while ((r = tls_handshake(p.tls)) == -EINTR) {
                CHECK(unread(&p) > 0);
                again++;
        }
        CHECK(again == 1 && r == -EAGAIN && tls_wants(p.tls) == EPOLLIN);
        pair_shake(&p);
        CHECK(p.our_result == 0 && p.their_result == 0);
        chain = 0;
        X509_free(x);
}

static void test_load(void) {
        struct err err = {0};

        CHECK(tls_load(&err) == 0);
}

__attribute__((constructor)) static void set_up(void) {
        set_up_store();
}

TEST_MAIN(TEST(test_load), TEST(test_keys_without_end), TEST(test_hellos_without_end), TEST(test_budget))
