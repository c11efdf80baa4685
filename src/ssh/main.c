/* stockade-ssh: started by the warden, with the link to the operator as descriptor 3, the host key's file as 4, and
 * listening sockets from 5 on.
 *
 * It reads or makes the key, locks itself in, and accepts. Each connection gets a process of its own, so that nothing
 * that one client does can stop another: here they are only counted. Nothing that a client sends is read in this
 * process. */
#include <fcntl.h>
#include <libssh/server.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/fd.h"
#include "base/kernel.h"
#include "base/knockout.h"
#include "base/log.h"
#include "ssh/confine.h"
#include "ssh/door.h"
#include "ssh/session.h"

#define KEY_FD       4
#define LISTEN_FD    5
#define LISTEN_MAX   4
#define KEY_MAX      16384
#define ALL_MAX      128 /* connections */
#define STRANGER_MAX 48  /* of these, not authenticated yet */
#define ADDRESS_MAX  32  /* of one address */
#define UNKNOWN_MAX  8   /* and of these, not authenticated yet */
#define IDLE_SECONDS 60  /* until TCP asks whether the other end is there */
#define LOST_MS      120000
#define PAUSE_MS     100 /* after accept had no descriptor left */

static struct child {
        pid_t pid; /* 0: this place is free */
        bool stranger;
        uint8_t address[16];
} children[ALL_MAX];

static int known[2] = {-EBADF, -EBADF}; /* a pipe: children say their number when they know whom they serve */
static ssh_bind binding;
static size_t door_count;

/* --- the host key --- */

/* The first of us makes it; from then on it is the same, so that clients know whom they talk to. */
static int make_key(struct err *err) {
        ssh_key key = NULL;
        char *text = NULL;

        if (ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &key) != SSH_OK ||
            ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &text) != SSH_OK) {
                ssh_key_free(key);
                return err_set(err, -EIO, "could not make a host key");
        }
        int r = fd_write_full(KEY_FD, text, strlen(text));
        if (r == 0 && fsync(KEY_FD) < 0)
                r = -errno;
        if (r < 0 && ftruncate(KEY_FD, 0) < 0) /* half a key is worse than none */
                log_line(LOG_LEVEL_ERROR, NULL, "a host key was half written: remove the file ssh-host-key");
        explicit_bzero(text, strlen(text));
        ssh_string_free_char(text);
        ssh_key_free(key);
        return r < 0 ? err_set(err, r, "could not write the host key") : 0;
}

static int read_key(ssh_key *ret, struct err *err) {
        char text[KEY_MAX + 1];
        struct stat st;

        int r = fstat(KEY_FD, &st) < 0 ? err_set(err, -errno, "descriptor %d is not the host key", KEY_FD) : 0;
        if (r == 0 && st.st_size == 0)
                r = make_key(err);
        if (r < 0)
                return r;
        ssize_t n = pread(KEY_FD, text, KEY_MAX, 0);
        text[MAX(n, (ssize_t)0)] = '\0';
        bool good = n > 0 && ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, ret) == SSH_OK &&
                    ssh_key_type(*ret) == SSH_KEYTYPE_ED25519;
        explicit_bzero(text, sizeof text);
        if (good)
                return 0;
        (void)err_set(err, ERR_CORRUPT, "the file ssh-host-key is no Ed25519 key");
        return err_hint(err, "restore it, or remove it from the state folder: clients will see another key then");
}

static int open_binding(struct err *err) {
        static const char kex[] = "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,"
                                  "ecdh-sha2-nistp384,ecdh-sha2-nistp521";
        static const char ciphers[] = "chacha20-poly1305@openssh.com,aes256-gcm@openssh.com,aes128-gcm@openssh.com,"
                                      "aes256-ctr,aes128-ctr";
        static const char macs[] = "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,"
                                   "hmac-sha2-512";
        static const bool no_config = false;
        static const struct {
                enum ssh_bind_options_e option;
                const void *value;
        } options[] = {
                {SSH_BIND_OPTIONS_PROCESS_CONFIG, &no_config},
                {SSH_BIND_OPTIONS_BANNER, "stockade"},
                {SSH_BIND_OPTIONS_KEY_EXCHANGE, kex},
                {SSH_BIND_OPTIONS_CIPHERS_C_S, ciphers},
                {SSH_BIND_OPTIONS_CIPHERS_S_C, ciphers},
                {SSH_BIND_OPTIONS_HMAC_C_S, macs},
                {SSH_BIND_OPTIONS_HMAC_S_C, macs},
        };
        ssh_key key = NULL;

        if (ssh_init() != SSH_OK || !(binding = ssh_bind_new()))
                return err_set(err, -ENOMEM, "libssh cannot be used");
        int r = read_key(&key, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                if (ssh_bind_options_set(binding, options[i].option, options[i].value) != SSH_OK)
                        return err_set(err, -EINVAL, "libssh refuses an option: %s", ssh_get_error(binding));
        if (ssh_bind_options_set(binding, SSH_BIND_OPTIONS_IMPORT_KEY, key) != SSH_OK)
                return err_set(err, -EINVAL, "libssh refuses the host key: %s", ssh_get_error(binding));
        (void)close(KEY_FD);
        return 0;
}

/* --- connections --- */

static void say_known(void) {
        pid_t me = getpid();

        if (write(known[1], &me, sizeof me) < 0) /* it fits into a pipe whole, or is counted as a stranger on */
                log_line(LOG_LEVEL_WARNING, NULL, "a session could not be told from strangers: %s", err_name(-errno));
        fd_close(&known[1]);
}

static struct child *find(pid_t pid) {
        for (struct child *c = children; c < children + ALL_MAX; c++)
                if (c->pid == pid)
                        return c;
        return NULL;
}

static void reap(void) {
        pid_t pid;

        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
                struct child *c = find(pid);

                if (c)
                        *c = (struct child){0};
        }
        while (read(known[0], &pid, sizeof pid) == (ssize_t)sizeof pid) {
                struct child *c = pid > 0 ? find(pid) : NULL;

                if (c)
                        c->stranger = false;
        }
}

/* Whoever has an IPv6 address has all that begin with the same half. */
static bool is_same(const uint8_t a[16], const uint8_t b[16]) {
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

        return memcmp(a, b, memcmp(a, mapped, sizeof mapped) == 0 ? 16 : 8) == 0;
}

/* Strangers must not keep others out: one of them, by chance, makes room. address NULL: of all, and not of one alone.
 */
static void make_room(unsigned strangers, const uint8_t *address) {
        uint32_t chance = 0;

        (void)!getrandom(&chance, sizeof chance, 0);
        chance %= strangers;
        for (struct child *c = children; c < children + ALL_MAX; c++)
                if (c->pid && c->stranger && (!address || is_same(c->address, address)) && chance-- == 0) {
                        (void)kill(c->pid, SIGKILL);
                        c->stranger = false; /* it is gone in a moment */
                        return;
                }
}

static struct child *place_for(const uint8_t address[16]) {
        unsigned strangers = 0, his = 0, unknown = 0;

        for (const struct child *c = children; c < children + ALL_MAX; c++) {
                bool same = c->pid && is_same(c->address, address);

                strangers += c->pid && c->stranger;
                his += same;
                unknown += same && c->stranger;
        }
        if (his >= ADDRESS_MAX)
                return NULL;
        if (unknown >= UNKNOWN_MAX)
                make_room(unknown, address);
        else if (strangers >= STRANGER_MAX)
                make_room(strangers, NULL);
        return find(0);
}

static void prepare_socket(int fd) {
        static const struct {
                int level, option, value;
        } options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                       {IPPROTO_TCP, TCP_KEEPIDLE, IDLE_SECONDS},
                       {IPPROTO_TCP, TCP_USER_TIMEOUT, LOST_MS},
                       {IPPROTO_TCP, TCP_NODELAY, 1}};

        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                (void)setsockopt(fd, options[i].level, options[i].option, &options[i].value, sizeof options[i].value);
}

static void serve(int fd, const union endpoint *from) {
        char text[ENDPOINT_TEXT];

        for (size_t i = 0; i < door_count; i++)
                (void)close(LISTEN_FD + (int)i);
        (void)close(known[0]);
        prepare_socket(fd);
        session_serve(binding, fd, endpoint_format(from, text), say_known);
        _exit(0);
}

/* False: there is nothing to accept, or nothing to accept it with. */
static bool accept_one(int listener, bool *pause) {
        union endpoint from = {0};
        socklen_t size = sizeof from;
        uint8_t address[16];
        int fd = accept4(listener, &from.any, &size, SOCK_CLOEXEC);

        if (fd < 0) {
                *pause |= errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
                return false;
        }
        struct child *place = endpoint_bytes(&from.any, address) ? place_for(address) : NULL;
        pid_t pid = place ? fork() : -1;
        if (pid == 0)
                serve(fd, &from);
        if (pid > 0) {
                *place = (struct child){.pid = pid, .stranger = true};
                memcpy(place->address, address, sizeof address);
        }
        (void)close(fd);
        return true;
}

static void on_child(int number) {
        (void)number; /* poll ends: that is all */
}

static int run(struct err *err) {
        struct pollfd fds[LISTEN_MAX];

        for (size_t i = 0; i < door_count; i++)
                fds[i] = (struct pollfd){.fd = LISTEN_FD + (int)i, .events = POLLIN};
        for (;;) {
                bool pause = false;
                int r = poll(fds, (nfds_t)door_count, 1000); /* a child that ended just before is seen then */

                if (r < 0 && errno != EINTR)
                        return err_set(err, -errno, "cannot wait for connections");
                reap();
                for (size_t i = 0; r > 0 && i < door_count; i++)
                        if (fds[i].revents)
                                (void)accept_one(fds[i].fd, &pause);
                if (pause)
                        (void)poll(NULL, 0, PAUSE_MS);
        }
}

static int prepare(struct err *err) {
        static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTSTP};
        struct sigaction child = {.sa_handler = on_child};

        log_open("ssh", LOG_LEVEL_INFO);
        for (size_t i = 0; i < ELEMENTSOF(ignored); i++) /* a terminal's keys are for the warden */
                (void)signal(ignored[i], SIG_IGN);
        (void)sigaction(SIGCHLD, &child, NULL);
        while (door_count < LISTEN_MAX && fcntl(LISTEN_FD + (int)door_count, F_SETFD, FD_CLOEXEC) == 0)
                door_count++;
        if (fcntl(DOOR_LINK_FD, F_SETFD, FD_CLOEXEC) < 0 || door_count == 0) {
                (void)err_set(err, -EBADF, "the descriptors of the warden are missing");
                return err_hint(err, "stockade-ssh is started by stockaded when stockade.conf has ssh_listen");
        }
        (void)kernel_close_range(LISTEN_FD + (unsigned)door_count, ~0U, 0);
        if (pipe2(known, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_set(err, -errno, "cannot make a pipe");
        return 0;
}

int main(void) {
        struct err err = {0};
        int r;

        knockout_read();
        if ((r = prepare(&err)) == 0 && (r = open_binding(&err)) == 0 && (r = confine_listener(&err)) == 0)
                r = run(&err);
        log_err(LOG_LEVEL_ERROR, NULL, &err);
        return r < 0;
}
