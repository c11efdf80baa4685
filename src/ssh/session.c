/* One connection, from its first byte to its last. */
#include "ssh/session.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/log.h"
#include "base/text.h"
#include "ssh/confine.h"

#define GRACE       20 /* seconds until somebody is authenticated */
#define TRIES       6
#define ASK_MS      10000 /* for an answer of the operator's */
#define KEEPALIVE   60000 /* ms without anything happening */
#define REFUSED_MS  100   /* until what libssh did not take is offered again */
#define READS       16    /* of the client's socket at a time */
#define COMMAND_MAX 1500  /* bytes of a command in the ledger */
#define NOTE_MAX    4096  /* bytes of what the operator is told at once */

void session_note(struct session *s, const char *what, const char *command) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "what", what);
        if (command) {
                char *cut = strndup(command, COMMAND_MAX);

                json_str(&j, "command", cut ? cut : "");
                free(cut);
        }
        json_close(&j, '}');
        if (command && b.size > NOTE_MAX) { /* one that is mostly escapes: the run's own record has it */
                session_note(s, what, NULL);
                return;
        }
        if (!buf_ok(&b) || door_put(&s->life, LOCAL_CONTROL, b.data, b.size) < 0 || door_flush(&s->life) < 0)
                s->over = true;
}

/* --- authentication --- */

/* Asks the operator; with `open` the session begins, and its life is kept. */
static bool check(struct session *s, const char *user, ssh_key key, bool open) {
        struct door_request q;
        struct door_frame f;
        char code[32], message[512], *base64 = NULL, *result = NULL;

        if (!text_is_utf8(user) || strlen(user) > 64 || ssh_pki_export_pubkey_base64(key, &base64) != SSH_OK)
                return false;
        door_begin(&q, NULL, "ssh-check");
        json_str(&q.json, "user", user);
        json_str(&q.json, "public_key", base64);
        json_str(&q.json, "from", s->from);
        ssh_string_free_char(base64);
        if (!open) {
                int r = door_ask(&q, ASK_MS, &result, code, message);

                free(result);
                return r == 0;
        }
        json_bool(&q.json, "open", true);
        if (door_go(&q, &s->life) < 0)
                return false;
        if (door_wait(&s->life, ASK_MS, &f) > 0 && f.kind == LOCAL_EVENT &&
            json_find_str((const char *)f.data, "token", s->door.token, sizeof s->door.token) &&
            json_find_str((const char *)f.data, "sandbox", s->door.sandbox, sizeof s->door.sandbox) &&
            json_find_str((const char *)f.data, "cwd", s->door.cwd, sizeof s->door.cwd))
                return true;
        door_close(&s->life);
        return false;
}

static int on_pubkey(ssh_session ssh, const char *user, ssh_key key, char state, void *data) {
        struct session *s = data;

        (void)ssh;
        if (s->in)
                return SSH_AUTH_DENIED;
        /* an offer is asked about without an effect; a signature that libssh has verified begins the session */
        bool proven = state == SSH_PUBLICKEY_STATE_VALID;
        if ((proven || state == SSH_PUBLICKEY_STATE_NONE) && check(s, user, key, proven)) {
                s->in = proven;
                return SSH_AUTH_SUCCESS;
        }
        if (++s->tries >= TRIES)
                s->over = true;
        return SSH_AUTH_DENIED;
}

static int on_none(ssh_session ssh, const char *user, void *data) {
        struct session *s = data;

        (void)ssh, (void)user;
        if (++s->tries >= 2 * TRIES) /* it costs nothing to ask which methods there are, but not for ever */
                s->over = true;
        return SSH_AUTH_DENIED;
}

/* --- channels --- */

static ssh_channel on_open(ssh_session ssh, void *data) {
        struct session *s = data;
        struct lane *c;
        ssh_channel channel = s->in && s->door.token[0] ? ssh_channel_new(ssh) : NULL;

        if (channel && lane_open(s, channel, &c) < 0) {
                ssh_channel_free(channel);
                channel = NULL;
        }
        return channel;
}

/* localhost:PORT inside the sandbox, and nothing else. */
static int open_port(struct session *s, ssh_message m) {
        const char *host = ssh_message_channel_request_open_destination(m);
        int port = ssh_message_channel_request_open_destination_port(m);
        struct lane *c;
        bool inside = host && (str_eq(host, "localhost") || str_eq(host, "127.0.0.1") || str_eq(host, "::1"));
        bool free_place = false;

        for (size_t i = 0; i < SESSION_CHANNELS; i++)
                free_place |= !s->channels[i].ssh;
        if (!inside || port < 1 || port > 65535 || !free_place)
                return 1;
        ssh_channel channel = ssh_message_channel_request_open_reply_accept(m);
        if (!channel)
                return 1;
        if (lane_open(s, channel, &c) < 0) {
                (void)ssh_channel_close(channel);
                ssh_channel_free(channel);
        } else if (lane_port(c, (unsigned)port) < 0)
                lane_close(c);
        return 0;
}

/* Whatever no callback took: all of it is refused but forwarded ports. 1: libssh refuses it. */
static int on_message(ssh_session ssh, ssh_message m, void *data) {
        struct session *s = data;

        (void)ssh;
        if (s->in && s->door.token[0] && ssh_message_type(m) == SSH_REQUEST_CHANNEL_OPEN &&
            ssh_message_subtype(m) == SSH_CHANNEL_DIRECT_TCPIP)
                return open_port(s, m);
        return 1;
}

/* --- the loop --- */

/* The operator says nothing on this stream until the session is over. */
static void watch_life(struct session *s) {
        struct door_frame f;
        int r = door_fill(&s->life);

        if (r < 0 || (r > 0 && door_next(&s->life, &f) != 0))
                s->over = true;
}

static void turn(struct session *s) {
        struct pollfd fds[2 + SESSION_CHANNELS];
        size_t n = 0;
        bool more = false, refused = false;

        fds[n++] = (struct pollfd){
                .fd = s->fd,
                .events = (short)(POLLIN | ((ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING) ? POLLOUT : 0))};
        fds[n++] = (struct pollfd){.fd = s->life.fd,
                                   .events = (short)(POLLIN | (door_waiting(&s->life) ? POLLOUT : 0))};
        for (size_t i = 0; i < SESSION_CHANNELS; i++) {
                if (!s->channels[i].ssh)
                        continue;
                more |= lane_ready(&s->channels[i]);
                refused |= s->channels[i].refused;
                n += lane_poll(&s->channels[i], &fds[n]);
        }
        int wait = more ? 0 : refused ? REFUSED_MS : KEEPALIVE;
        int r = poll(fds, (nfds_t)n, wait);
        if (r < 0 && errno != EINTR)
                s->over = true;
        if (r == 0 && wait == KEEPALIVE)
                (void)ssh_send_keepalive(s->ssh);
        if (fds[1].revents) {
                watch_life(s);
                if (door_flush(&s->life) < 0)
                        s->over = true;
        }
        /* libssh reads a little at a time */
        for (unsigned i = 0; i < READS && !s->over; i++) {
                if (ssh_event_dopoll(s->event, 0) == SSH_ERROR || !ssh_is_connected(s->ssh))
                        s->over = true;
                struct pollfd again = {.fd = s->fd, .events = POLLIN};
                if (poll(&again, 1, 0) <= 0)
                        break;
        }
        for (size_t i = 0; i < SESSION_CHANNELS && !s->over; i++)
                if (s->channels[i].ssh)
                        lane_pump(&s->channels[i]);
}

static bool greet(struct session *s, ssh_bind bind, int fd) {
        s->ssh = ssh_new();
        s->event = ssh_event_new();
        if (!s->ssh || !s->event || ssh_bind_accept_fd(bind, s->ssh, fd) != SSH_OK)
                return false;
        s->fd = fd;
        s->callbacks = (struct ssh_server_callbacks_struct){
                .userdata = s,
                .auth_none_function = on_none,
                .auth_pubkey_function = on_pubkey,
                .channel_open_request_session_function = on_open,
        };
        ssh_callbacks_init(&s->callbacks);
        ssh_set_auth_methods(s->ssh, SSH_AUTH_METHOD_PUBLICKEY);
        ssh_set_message_callback(s->ssh, on_message, s);
        return ssh_set_server_callbacks(s->ssh, &s->callbacks) == SSH_OK && ssh_handle_key_exchange(s->ssh) == SSH_OK &&
               ssh_event_add_session(s->event, s->ssh) == SSH_OK;
}

void session_serve(ssh_bind bind, int fd, const char *from, void (*in)(void)) {
        static struct session session;
        struct session *s = &session;

        (void)alarm(GRACE); /* and then we are gone, whatever we are doing */
        (void)signal(SIGCHLD, SIG_IGN);
        if (confine_connection() < 0) {
                log_line(LOG_LEVEL_ERROR, NULL, "a connection's process cannot confine itself");
                return;
        }
        s->life.fd = -EBADF;
        for (size_t i = 0; i < SESSION_CHANNELS; i++)
                s->channels[i].stream.fd = s->channels[i].sftp = -EBADF;
        (void)snprintf(s->from, sizeof s->from, "%s", from);
        if (!greet(s, bind, fd))
                return;
        while (!s->in && !s->over)
                if (ssh_event_dopoll(s->event, GRACE * 1000) == SSH_ERROR)
                        return;
        if (s->in) {
                (void)alarm(0);
                in();
        }
        ssh_set_blocking(s->ssh, 0);
        while (!s->over)
                turn(s);
        for (size_t i = 0; i < SESSION_CHANNELS; i++)
                if (s->channels[i].ssh)
                        lane_close(&s->channels[i]);
        ssh_disconnect(s->ssh);
}
