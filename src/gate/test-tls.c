/* The TLS module over socket pairs, with OpenSSL itself as the other side: as a client that trusts only what a sandbox
 * is given, and as servers with certificates of a test authority that the host's store holds. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "gate/test-tls.h"

static void test_clients_inside(void) {
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
        const unsigned char *chosen;
        unsigned size;

        for (size_t i = 0; i < ELEMENTSOF(versions); i++) {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "api.example.test", "api.example.test", H2 HTTP1, versions[i]);
                CHECK(p.our_result == 0 && p.their_result == 0);
                SSL_get0_alpn_selected(p.ssl, &chosen, &size);
                CHECK(size == 8 && memcmp(chosen, "http/1.1", 8) == 0);
                CHECK(SSL_session_reused(p.ssl) == 0);
                CHECK(SSL_SESSION_has_ticket(SSL_get_session(p.ssl)) == 0);
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "api.example.test", "api.example.test", NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        {
                _cleanup_pair_ struct pair p; /* the certificate is for this name and no other */
                inside(&p, a, files[GATE_CA_PEM], "api.example.test", "other.example.test", NULL, TLS1_3_VERSION);
                CHECK(p.their_result == -EPROTO && SSL_get_verify_result(p.ssl) == X509_V_ERR_HOSTNAME_MISMATCH);
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "192.0.2.7", "192.0.2.7", HTTP1, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "2001:db8::7", "2001:db8::7", HTTP1, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        close_all(files);
        tls_authority_destroy(a);
}

static void test_clients_refused(void) {
        int files[GATE_CA_COUNT], others[GATE_CA_COUNT];
        struct tls_authority *a = authority(files), *b = authority(others);

        {
                _cleanup_pair_ struct pair p; /* only HTTP/2 */
                inside(&p, a, files[GATE_CA_PEM], "a.test", "a.test", H2, TLS1_3_VERSION);
                CHECK(p.our_result == -EPROTO && p.their_result == -EPROTO);
                CHECK(p.their_reason == SSL_AD_REASON_OFFSET + TLS1_AD_NO_APPLICATION_PROTOCOL);
                CHECK(tls_problem(p.tls)[0] != '\0');
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_1_VERSION);
                CHECK(p.our_result == -EPROTO && p.their_result == -EPROTO);
        }
        {
                _cleanup_pair_ struct pair p; /* another sandbox's authority is not trusted */
                inside(&p, a, others[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_3_VERSION);
                CHECK(p.their_result == -EPROTO && p.our_result == -EPROTO);
        }
        close_all(files);
        close_all(others);
        tls_authority_destroy(a);
        tls_authority_destroy(b);
}

static void test_servers(void) {
        static const struct {
                const char *cn, *san, *usage;
                long days;
                bool other;
                const char *name, *literal, *alpn;
                int version, result;
        } cases[] = {
                {"x", "DNS:good.test", "serverAuth", 9, false, "good.test", NULL, HTTP1, TLS1_3_VERSION, 0},
                {"x", "DNS:good.test", "serverAuth", 9, false, "good.test", NULL, NULL, TLS1_2_VERSION, 0},
                {"x", "DNS:good.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, 0},
                {"x", "DNS:*.good.test", NULL, 9, false, "a.good.test", NULL, NULL, TLS1_3_VERSION, 0},
                {"x", "IP:192.0.2.9", NULL, 9, false, NULL, "192.0.2.9", NULL, TLS1_3_VERSION, 0},
                {"x", "IP:2001:db8::9", NULL, 9, false, NULL, "2001:db8::9", NULL, TLS1_3_VERSION, 0},
                {"x", "DNS:*.good.test", NULL, 9, false, "a.b.good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:*.good.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:g*.good.test", NULL, 9, false, "go.good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:bad.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"good.test", NULL, NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, -1, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, 9, true, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, 9, true, "good.test", NULL, NULL, TLS1_2_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", "clientAuth", 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "IP:192.0.2.9", NULL, 9, false, NULL, "192.0.2.8", NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:192.0.2.9", NULL, 9, false, NULL, "192.0.2.9", NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, 9, false, "good.test", NULL, H2, TLS1_3_VERSION, -EPROTO},
                {"x", "DNS:good.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_1_VERSION, -EPROTO},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                X509 *x = certificate(cases[i].other ? other_root : test_root, cases[i].cn, cases[i].san,
                                      cases[i].usage, cases[i].days);
                {
                        _cleanup_pair_ struct pair p;
                        outside(&p, x, cases[i].name, cases[i].literal, cases[i].alpn, cases[i].version);
                        if (p.our_result != cases[i].result)
                                (void)printf("# case %zu: %d, not %d (%s)\n", i, p.our_result, cases[i].result,
                                             tls_problem(p.tls));
                        CHECK(p.our_result == cases[i].result);
                        if (p.our_result == 0) {
                                const char *sni = SSL_get_servername(p.ssl, TLSEXT_NAMETYPE_host_name);
                                CHECK(cases[i].name ? sni && str_eq(sni, cases[i].name) : !sni);
                        } else {
                                CHECK(tls_problem(p.tls)[0] != '\0');
                                CHECK(tls_read(p.tls, (char[1]){0}, 1) == -EPIPE);
                                CHECK(tls_write(p.tls, "x", 1) == -EPIPE);
                        }
                }
                X509_free(x);
        }
        CHECK(tls_connect(0, NULL, NULL) == NULL);
        CHECK(tls_connect(0, "", NULL) == NULL);
}

/* A server that the store itself holds, as operators do with a single self-signed one, and the store's real ones. */
static void test_silence_and_noise(void) {
        struct pair p;

        pair_sockets(&p);
        p.tls = tls_connect(p.ours, "good.test", NULL);
        CHECK(tls_handshake(p.tls) == -EAGAIN && tls_wants(p.tls) == EPOLLIN);
        CHECK(tls_read(p.tls, (char[1]){0}, 1) == -EPIPE); /* nothing before the handshake */
        CHECK(write(p.theirs, "HTTP/1.1 400 no\r\n\r\n", 19) == 19);
        CHECK(tls_handshake(p.tls) == -EPROTO);
        CHECK(tls_handshake(p.tls) == -EPROTO);
        pair_free(&p);

        pair_sockets(&p);
        p.tls = tls_connect(p.ours, "good.test", NULL);
        fd_close(&p.theirs); /* no SIGPIPE either */
        CHECK(tls_handshake(p.tls) == -EPROTO);
        CHECK(tls_end(p.tls) == 0);
        pair_free(&p);
}

static void test_data(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        enum { SIZE = 3 * 1024 * 1024 };
        uint8_t *data = malloc(SIZE), *back = malloc(SIZE + 1);
        size_t sent = 0, echoed = 0, seen = 0, got = 0;
        unsigned waited = 0;

        for (size_t i = 0; i < SIZE; i++)
                data[i] = (uint8_t)random();
        _cleanup_pair_ struct pair p;
        outside(&p, x, "good.test", NULL, HTTP1, TLS1_3_VERSION);
        CHECK(p.our_result == 0);
        uint8_t *server = malloc(SIZE);
        for (unsigned round = 0; round < 100000 && got < SIZE; round++) {
                ssize_t n;
                int r;

                while (sent < SIZE && (n = tls_write(p.tls, data + sent, SIZE - sent)) > 0)
                        sent += (size_t)n;
                waited += sent < SIZE && tls_wants(p.tls) == EPOLLOUT;
                if (seen < SIZE &&
                    (r = SSL_read(p.ssl, server + seen, (int)MIN((size_t)SIZE - seen, (size_t)100000))) > 0)
                        seen += (size_t)r;
                if (echoed < seen &&
                    (r = SSL_write(p.ssl, server + echoed, (int)MIN(seen - echoed, (size_t)16384))) > 0)
                        echoed += (size_t)r;
                /* small reads leave decrypted bytes behind, and say so */
                while ((n = tls_read(p.tls, back + got, MIN((size_t)1000, SIZE + 1 - got))) > 0) {
                        got += (size_t)n;
                        if (n == 1000 && got % 16384 > 0 && got % 16384 < 15000)
                                CHECK(tls_pending(p.tls));
                }
                CHECK(n == -EAGAIN && !tls_pending(p.tls));
        }
        CHECK(waited > 0);
        CHECK(got == SIZE && memcmp(data, back, SIZE) == 0);
        /* an orderly end, both ways */
        CHECK(SSL_shutdown(p.ssl) == 0);
        CHECK(tls_read(p.tls, back, 1) == 0);
        CHECK(tls_end(p.tls) == 0);
        CHECK(SSL_shutdown(p.ssl) == 1);
        free(server);
        free(data);
        free(back);
        X509_free(x);
}

static void test_cut(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

        for (size_t i = 0; i < ELEMENTSOF(versions); i++) {
                _cleanup_pair_ struct pair p;
                char back[8];

                outside(&p, x, "good.test", NULL, NULL, versions[i]);
                CHECK(SSL_write(p.ssl, "half", 4) == 4);
                fd_close(&p.theirs);
                CHECK(tls_read(p.tls, back, sizeof back) == 4);
                CHECK(tls_read(p.tls, back, sizeof back) == -EPIPE);
                CHECK(tls_write(p.tls, "x", 1) == -EPIPE);
                CHECK(tls_end(p.tls) == 0);
        }
        X509_free(x);
}

/* A record that arrives in two halves: until the second nothing is pending, whatever was read of it. */
static void test_half_record(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        _cleanup_pair_ struct pair p;
        char *record, back[300];

        outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
        CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN);
        SSL_set0_wbio(p.ssl, BIO_new(BIO_s_mem()));
        memset(back, 'x', sizeof back);
        CHECK(SSL_write(p.ssl, back, sizeof back) == (int)sizeof back);
        ssize_t size = BIO_get_mem_data(SSL_get_wbio(p.ssl), &record);
        CHECK(write(p.theirs, record, 100) == 100);
        CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN && tls_wants(p.tls) == EPOLLIN && !tls_pending(p.tls));
        CHECK(write(p.theirs, record + 100, (size_t)size - 100) == size - 100);
        CHECK(tls_read(p.tls, back, 100) == 100 && tls_pending(p.tls));
        CHECK(tls_read(p.tls, back, sizeof back) == 200 && !tls_pending(p.tls));
        X509_free(x);
}

static void test_renegotiation(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        _cleanup_pair_ struct pair p;
        char back[8];

        outside(&p, x, "good.test", NULL, NULL, TLS1_2_VERSION);
        CHECK(p.our_result == 0);
        CHECK(SSL_renegotiate(p.ssl) == 1);
        (void)SSL_do_handshake(p.ssl);
        CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN); /* answered with a no_renegotiation warning */
        ERR_clear_error();
        CHECK(SSL_read(p.ssl, back, sizeof back) <= 0);
        CHECK(ERR_GET_REASON(ERR_peek_error()) == SSL_R_NO_RENEGOTIATION);
        X509_free(x);
}

static void test_leaves(void) {
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        X509 *first = NULL;

        for (unsigned i = 0; i < TLS_LEAVES + 5; i++) {
                _cleanup_pair_ struct pair p;
                char name[32];

                (void)snprintf(name, sizeof name, "n%u.test", i % (TLS_LEAVES + 3));
                inside(&p, a, files[GATE_CA_PEM], name, name, NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
                if (i == 0)
                        first = SSL_get1_peer_certificate(p.ssl);
                if (i == TLS_LEAVES + 3) { /* the first again: its old certificate went */
                        X509 *again = SSL_get1_peer_certificate(p.ssl);
                        CHECK(X509_cmp(first, again) != 0);
                        X509_free(again);
                }
        }
        {
                _cleanup_pair_ struct pair p, q; /* kept as long as it lasts */
                inside(&p, a, files[GATE_CA_PEM], "n50.test", "n50.test", NULL, TLS1_3_VERSION);
                inside(&q, a, files[GATE_CA_PEM], "n50.test", "n50.test", NULL, TLS1_3_VERSION);
                X509 *one = SSL_get1_peer_certificate(p.ssl), *two = SSL_get1_peer_certificate(q.ssl);
                CHECK(X509_cmp(one, two) == 0);
                X509_free(one);
                X509_free(two);
        }
        char wide[HOSTNAME_SIZE];
        memset(wide, 'a', sizeof wide);
        for (size_t i = 60; i < sizeof wide; i += 60)
                wide[i] = '.';
        wide[sizeof wide - 3] = '\0';
        {
                _cleanup_pair_ struct pair p; /* longer than a common name may be */
                inside(&p, a, files[GATE_CA_PEM], wide, wide, NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        CHECK(tls_accept(a, 0, "") == NULL);
        X509_free(first);
        close_all(files);
        tls_authority_destroy(a);
}

static char *contents(int fd, size_t *ret) {
        off_t size = lseek(fd, 0, SEEK_END);
        char *data = malloc((size_t)size + 1);

        CHECK(pread(fd, data, (size_t)size, 0) == size);
        data[size] = '\0';
        *ret = (size_t)size;
        return data;
}

static void test_files(void) {
        int files[GATE_CA_COUNT], again[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        struct err err = {0};
        size_t sizes[GATE_CA_COUNT], size;
        char *data[GATE_CA_COUNT];

        for (unsigned i = 0; i < GATE_CA_COUNT; i++) {
                data[i] = contents(files[i], &sizes[i]);
                CHECK(pwrite(files[i], "x", 1, 0) == -1 && errno == EPERM);
                CHECK(ftruncate(files[i], 0) == -1 && errno == EPERM);
                CHECK(i == GATE_CA_KEY || !strstr(data[i], "PRIVATE"));
        }
        CHECK(strstr(data[GATE_CA_KEY], "PRIVATE KEY") != NULL);
        /* the bundle is the host's and ours */
        CHECK(sizes[GATE_CA_BUNDLE] > sizes[GATE_CA_PEM]);
        CHECK_STR(data[GATE_CA_BUNDLE] + sizes[GATE_CA_BUNDLE] - sizes[GATE_CA_PEM], data[GATE_CA_PEM]);
        char *host = NULL;
        CHECK(fd_read_file(AT_FDCWD, getenv("SSL_CERT_FILE"), 1 << 22, false, &host, &size, &err) == 0);
        CHECK(size + sizes[GATE_CA_PEM] == sizes[GATE_CA_BUNDLE] && memcmp(host, data[GATE_CA_BUNDLE], size) == 0);
        unsigned count = 1;
        for (const char *p = host; (p = strstr(p, "BEGIN CERTIFICATE")); p++)
                count++;
        /* the Java store: so many entries, and its sum */
        const uint8_t *java = (const uint8_t *)data[GATE_CA_JAVA];
        CHECK(memcmp(java, "\xfe\xed\xfe\xed\0\0\0\2\0\0", 10) == 0 && (unsigned)(java[10] << 8 | java[11]) == count);
        CHECK(memcmp(java + 12, "\0\0\0\2\0\x08stockade", 14) == 0);
        {
                _cleanup_buf_ struct buf b = {.max = 1 << 23};
                uint8_t sum[20];

                for (const char *p = "changeit"; *p; p++)
                        buf_add(&b, (char[]){0, *p}, 2);
                buf_str(&b, "Mighty Aphrodite");
                buf_add(&b, java, sizes[GATE_CA_JAVA] - 20);
                EVP_Digest(b.data, b.size, sum, NULL, EVP_sha1(), NULL);
                CHECK(memcmp(sum, java + sizes[GATE_CA_JAVA] - 20, 20) == 0);
        }
        /* a gate that takes over goes on with the same authority */
        struct tls_authority *b = tls_authority_create(files[GATE_CA_KEY], &err);
        CHECK(b != NULL);
        CHECK(tls_authority_files(b, again, &err) == 0);
        char *pem = contents(again[GATE_CA_PEM], &size);
        CHECK_STR(pem, data[GATE_CA_PEM]);
        {
                _cleanup_pair_ struct pair p;
                inside(&p, b, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        /* what is not a key is not taken for one */
        CHECK(tls_authority_create(files[GATE_CA_PEM], &err) == NULL && err.code == ERR_CORRUPT);
        CHECK(tls_authority_create(files[GATE_CA_BUNDLE], &err) == NULL && err.code == ERR_CORRUPT);
        tls_authority_destroy(a);
        tls_authority_destroy(b);
        close_all(files);
        close_all(again);
        free(pem);
        free(host);
        for (unsigned i = 0; i < GATE_CA_COUNT; i++)
                free(data[i]);
}

/* The gate has no file system when it talks: nothing may be opened after load. Calls that would end the process. */
static int without_files(void) {
        static struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 6, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 5, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 4, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 3, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlink, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {ELEMENTSOF(code), code};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Both sides are the module's: the handshake goes as far as the certificate that the host's store does not vouch for.
 */
static int confined(void) {
        int files[GATE_CA_COUNT], s[2], ours = -EAGAIN, theirs = -EAGAIN;
        struct err err = {0};

        if (tls_load(&err) < 0) {
                err_print(&err);
                return 2;
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s) < 0 || !without_files())
                return 3;
        struct tls_authority *a = tls_authority_create(-EBADF, &err);
        if (!a || tls_authority_files(a, files, &err) < 0)
                return 4;
        struct tls *client = tls_connect(s[0], "good.test", NULL), *server = tls_accept(a, s[1], "good.test");
        if (!client || !server)
                return 5;
        for (unsigned i = 0; i < 20 && (ours == -EAGAIN || theirs == -EAGAIN); i++) {
                if (ours == -EAGAIN)
                        ours = tls_handshake(client);
                if (theirs == -EAGAIN)
                        theirs = tls_handshake(server);
        }
        return ours == -EKEYREJECTED && theirs == -EPROTO ? 0 : 6;
}

/* In a process of its own that has not used OpenSSL, nor the time zone, before. */
static int confined_status = -1;

static void run_confined(void) {
        pid_t pid = fork();

        if (pid == 0)
                _exit(confined());
        if (pid < 0 || waitpid(pid, &confined_status, 0) != pid)
                confined_status = -1;
}

static void test_confined(void) {
        CHECK(WIFEXITED(confined_status) && WEXITSTATUS(confined_status) == 0);
        if (confined_status)
                (void)printf("# ended with %#x\n", (unsigned)confined_status);
}

static void test_load(void) {
        struct err err = {0};

        CHECK(tls_authority_create(-EBADF, &err) == NULL && err.code == ERR_REFUSED);
        CHECK(!tls_loaded());
        CHECK(tls_accept(NULL, 0, "a.test") == NULL && tls_connect(0, "a.test", NULL) == NULL);
        err = (struct err){0};
        CHECK(tls_load(&err) == 0);
        if (err.code)
                err_print(&err);
        CHECK(tls_loaded() && tls_load(&err) == 0);
}

__attribute__((constructor)) static void set_up(void) {
        run_confined();
        set_up_store();
}

TEST_MAIN(TEST(test_load), TEST(test_confined), TEST(test_clients_inside), TEST(test_clients_refused),
          TEST(test_servers), TEST(test_silence_and_noise), TEST(test_data), TEST(test_cut), TEST(test_half_record),
          TEST(test_renegotiation), TEST(test_leaves), TEST(test_files))
