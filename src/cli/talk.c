/* The client's end of the local protocol. */
#include "cli/talk.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/afar.h"
#include "cli/cmd.h"

void talk_close(struct talk *t) {
        fd_close(&t->fd);
        afar_end(&t->helper);
        free(t->in);
        free(t->answer);
        *t = (struct talk){.fd = -EBADF};
}

/* --- requests ------------------------------------------------------------------------------------------------- */

void talk_begin(struct talk_request *q, const char *verb) {
        *q = (struct talk_request){.text = {.max = LOCAL_JSON_MAX}};
        q->json.out = &q->text;
        json_open(&q->json, NULL, '{');
        json_str(&q->json, "verb", verb);
}

void talk_str(struct talk_request *q, const char *key, const char *value) {
        if (!value)
                return;
        q->bad |= !text_is_utf8(value);
        json_str(&q->json, key, value);
}

void talk_list(struct talk_request *q, const char *key, const char *const *items, size_t count) {
        if (count == 0)
                return;
        json_open(&q->json, key, '[');
        for (size_t i = 0; i < count; i++)
                talk_str(q, NULL, items[i]);
        json_close(&q->json, ']');
}

/* It may have held secrets. */
void talk_request_free(struct talk_request *q) {
        if (q->text.data)
                explicit_bzero(q->text.data, q->text.size);
        buf_free(&q->text);
}

/* --- finding and connecting ----------------------------------------------------------------------------------- */

bool talk_place(const struct args_common *o, size_t i, char *ret, size_t size) {
        const char *named = o->socket ? o->socket : getenv("STOCKADE_SOCKET"), *state = getenv("STOCKADE_STATE");
        char folder[PATH_MAX];
        int n = -1;

        if (named && named[0]) {
                (void)snprintf(ret, size, "%s", named);
                return i == 0;
        }
        switch (i) {
        case 0:
                n = state && state[0] ? snprintf(ret, size, "%s/run/" LOCAL_SOCKET, state) : 0;
                break;
        case 1:
                n = snprintf(ret, size, ".stockade/run/" LOCAL_SOCKET);
                break;
        case 2:
                n = paths_state_name("run/" LOCAL_SOCKET, false, folder, sizeof folder) < 0
                            ? 0
                            : snprintf(ret, size, "%s", folder);
                break;
        case 3:
                n = snprintf(ret, size, "/run/stockade/" LOCAL_SOCKET);
                break;
        default:
                return false;
        }
        if (n <= 0 || (size_t)n >= size)
                ret[0] = '\0';
        return true;
}

/* Who made the socket: root, or we ourselves. A sandbox of an ordinary user has that user's id, and may be able to
 * write to the folder that we stand in: what listens there must not be in a user namespace of its own. */
static int check_peer(int fd, const char *path, struct err *err) {
        struct ucred peer = {0};
        socklen_t size = sizeof peer;
        struct stat own, theirs;
        char name[64];

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return err_set(err, -errno, "cannot tell who listens at '%s'", path);
        if (peer.uid == 0)
                return 0;
        (void)snprintf(name, sizeof name, "/proc/%d/ns/user", (int)peer.pid);
        if (peer.uid == geteuid() && peer.pid > 0 && stat("/proc/self/ns/user", &own) == 0 &&
            stat(name, &theirs) == 0 && own.st_ino == theirs.st_ino && own.st_dev == theirs.st_dev)
                return 0;
        (void)err_set(err, ERR_REFUSED, "the socket '%s' is neither root's nor yours, or its maker is gone", path);
        return err_hint(err, "if it is left over, remove it; name the right one with --socket");
}

static int connect_to(const char *path, int *ret, struct err *err) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return err_set(err, -errno, "cannot make a socket");
        if (strlen(path) >= sizeof address.sun_path)
                return err_set(err, ERR_INPUT, "'%.200s' is too long for a socket", path);
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
                return err_set(err, -errno, "could not connect to '%s'", path);
        int r = check_peer(fd, path, err);
        if (r == 0)
                *ret = TAKE_FD(fd);
        return r;
}

int talk_connect(struct talk *t, const struct args_common *o, struct err *err) {
        struct err first = {0}, other;
        char path[sizeof t->socket];

        *t = (struct talk){.fd = -EBADF, .patience = t->patience, .go_on = t->go_on, .go_on_data = t->go_on_data};
        if (o->socket && o->server)
                return err_set(err, ERR_INPUT, "--socket and --server do not go together");
        if (afar_server(o))
                return afar_connect(t, afar_server(o), err);
        for (size_t i = 0; talk_place(o, i, path, sizeof path); i++) {
                int r = path[0] ? connect_to(path, &t->fd, &other) : -ENOENT;

                if (r == 0) {
                        memcpy(t->socket, path, sizeof path);
                        return 0;
                }
                /* nothing there, or left over by one that is gone: the next place. Anything else is worth a word */
                if (path[0] && r != -ENOENT && r != -ECONNREFUSED && r != -ENOTDIR && first.code == 0)
                        first = other;
        }
        if (first.code != 0) {
                if (err)
                        *err = first;
                return first.code == -EACCES
                               ? err_hint(err, "root may, and whoever is in the group that local_group of "
                                               "stockade.conf names "
                                               "(usermod -aG stockade USER); or start one of your own: stockade up")
                               : first.code;
        }
        const char *named = o->socket ? o->socket : getenv("STOCKADE_SOCKET");
        if (named && named[0])
                (void)err_set(err, ERR_REFUSED, "no daemon answers at '%.200s'", named);
        else
                (void)err_set(err, ERR_REFUSED, "no daemon is running");
        (void)err_hint(err, "start one with 'stockade up' (it says where it listens)");
        (void)snprintf(t->code, sizeof t->code, "no_daemon");
        return -ENOENT;
}

int talk_go(struct talk *t, const struct args_common *o, struct talk_request *q, struct err *err) {
        json_close(&q->json, '}');
        if (q->bad) {
                (void)err_set(err, ERR_INPUT, "a word on the command line is not UTF-8");
                return err_hint(err, "such names can be copied with the folder that they are in");
        }
        if (!buf_ok(&q->text)) {
                (void)err_set(err, ERR_LIMIT, "the request is larger than %u bytes", LOCAL_JSON_MAX);
                return err_hint(err, "pass long input through standard input or a file");
        }
        int r = talk_connect(t, o, err);
        if (r == 0)
                r = talk_send(t, LOCAL_REQUEST, q->text.data, q->text.size, err);
        return r == -EPIPE ? 0 : r; /* refused before it was asked: the words wait in the socket */
}

/* --- frames --------------------------------------------------------------------------------------------------- */

/* An operator that answers early does not read what is still sent: its words wait in the socket. */
int talk_send(struct talk *t, enum local_kind kind, const void *data, size_t size, struct err *err) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_FRAME_MAX + LOCAL_HEAD};
        size_t done = 0;

        local_put(&b, kind, data, size);
        if (!buf_ok(&b))
                return err_set(err, -ENOMEM, "cannot send %zu bytes", size);
        while (done < b.size) {
                ssize_t n = send(t->fd, b.data + done, b.size - done, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_set(err, -errno, "the connection to the daemon broke");
                done += (size_t)n;
        }
        return 0;
}

static int make_room(struct talk *t, size_t more) {
        if (t->start > 0) {
                memmove(t->in, t->in + t->start, t->end - t->start);
                t->end -= t->start;
                t->start = 0;
        }
        if (t->room - t->end >= more)
                return 0;
        size_t room = t->end + more;
        char *in = realloc(t->in, room);
        if (!in)
                return -ENOMEM;
        t->in = in;
        t->room = room;
        return 0;
}

int talk_fill(struct talk *t) {
        int r = make_room(t, 64 * 1024);

        if (r < 0)
                return r;
        ssize_t n = recv(t->fd, t->in + t->end, t->room - t->end, MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : errno == ECONNRESET ? -EPIPE : -errno;
        t->end += (size_t)n;
        return n > 0 ? 1 : -EPIPE;
}

/* JSON is copied out, so that a NUL can stand behind it. */
static int take_json(struct talk *t, const uint8_t *data, size_t size, struct err *err) {
        char *text = malloc(size + 1);

        if (!text)
                return err_set(err, -ENOMEM, "cannot take %zu bytes", size);
        memcpy(text, data, size);
        text[size] = '\0';
        free(t->answer);
        t->answer = text;
        if (json_check(text, size, NULL) == 0)
                return 0;
        return err_set(err, ERR_CORRUPT, "the daemon said something that is not JSON");
}

int talk_take(struct talk *t, struct talk_frame *ret, struct err *err) {
        const uint8_t *data;
        enum local_kind kind;
        size_t size;
        ssize_t n = local_next((const uint8_t *)t->in + t->start, t->end - t->start, LOCAL_ANSWER_MAX, &kind, &data,
                               &size);

        if (n < 0)
                return err_set(err, ERR_CORRUPT, "the daemon said something that is no frame");
        if (n == 0)
                return 0;
        t->start += (size_t)n;
        ret->kind = kind;
        ret->data = (const char *)data;
        ret->size = size;
        switch (kind) {
        case LOCAL_ANSWER:
        case LOCAL_EVENT: {
                int r = take_json(t, data, size, err);
                ret->data = t->answer;
                return r < 0 ? r : 1;
        }
        case LOCAL_OUTPUT:
        case LOCAL_ERRORS:
        case LOCAL_FINISH:
                return 1;
        case LOCAL_REQUEST:
        case LOCAL_INPUT:
        case LOCAL_CONTROL:
        default:
                return err_set(err, ERR_CORRUPT, "the daemon sent a frame of a kind that is the client's");
        }
}

int talk_next(struct talk *t, struct talk_frame *ret, struct err *err) {
        for (;;) {
                int r = talk_take(t, ret, err);

                if (r < 0)
                        return r;
                if (r > 0)
                        return ret->kind == LOCAL_ANSWER ? 0 : 1;
                struct pollfd p = {.fd = t->fd, .events = POLLIN};
                r = poll(&p, 1, t->patience > 0 ? t->patience : -1);
                if (r == 0)
                        return err_set(err, -ETIMEDOUT, "the daemon does not answer");
                r = talk_fill(t);
                if (r < 0) {
                        (void)err_set(err, r, "the daemon ended the connection without an answer");
                        return err_hint(err, "look at its log; 'stockade health' says whether it is well");
                }
        }
}

/* --- answers -------------------------------------------------------------------------------------------------- */

int talk_result(struct talk *t, const char **ret, struct err *err) {
        char message[sizeof err->text], hint[sizeof err->hint] = "";
        bool ok = false;

        if (json_find_bool(t->answer, "ok", &ok) && ok && (*ret = json_at(t->answer, "result", NULL)))
                return 0;
        if (!json_find_str(t->answer, "error.code", t->code, sizeof t->code) ||
            !json_find_str(t->answer, "error.message", message, sizeof message))
                return err_set(err, ERR_CORRUPT, "the daemon's answer is none that we know");
        (void)err_set(err, ERR_REFUSED, "%s", message);
        /* what is said to those who write requests by hand is of no use to those who do not */
        if (json_find_str(t->answer, "error.hint", hint, sizeof hint) && hint[0] && !str_starts(hint, "docs/protocol/"))
                (void)err_hint(err, "%s", hint);
        return ERR_REFUSED;
}

int talk_wait(struct talk *t, const char **ret, void (*event)(void *data, const char *json), void *data,
              struct err *err) {
        struct talk_frame f;
        int r;

        while ((r = talk_next(t, &f, err)) > 0)
                if (f.kind == LOCAL_EVENT && event)
                        event(data, f.data);
        return r < 0 ? r : talk_result(t, ret, err);
}

int talk_ask(struct talk *t, const struct args_common *o, struct talk_request *q, const char **ret, struct err *err) {
        int r = talk_go(t, o, q, err);

        return r < 0 ? r : talk_wait(t, ret, NULL, NULL, err);
}

int talk_failed(const struct talk *t, const struct args_common *o, const struct err *err) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (!o->json) {
                err_print(err);
                return EXIT_FAILED;
        }
        json_open(&j, NULL, '{');
        json_open(&j, "error", '{');
        json_str(&j, "code", t && t->code[0] ? t->code : err->code == ERR_INPUT ? "bad_request" : "failed");
        json_str(&j, "message", err->text);
        json_str(&j, "hint", err->hint);
        json_close(&j, '}');
        json_close(&j, '}');
        (void)fprintf(stderr, "%s\n", buf_ok(&b) ? b.data : "{}");
        return EXIT_FAILED;
}

void talk_print_to(FILE *out, const char *json) {
        size_t size;

        (void)json_at(json, "", &size);
        (void)fprintf(out, "%.*s\n", (int)size, json);
}

void talk_print(const char *json) {
        talk_print_to(stdout, json);
}
