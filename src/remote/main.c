/* stockade-remote: what `stockade` needs of a server that is elsewhere. It is started by that program alone.
 *
 *   stockade-remote connect URL     standard input is a socket pair: first one byte, 'y' or 'n', then the local
 * protocol; after 'n' an answer that says why not stockade-remote login  WORD…    server=URL key=FILE
 * passphrase-file=FILE signer=COMMAND address=0x… ca=FILE stockade-remote logout WORD…    new-key link insecure-http
 * force json
 *
 * Keys, tokens and links are never words of a command line, nor variables: they come from files and the terminal, and
 * stay in this process, which nobody but root may look into. */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/lockdown.h"
#include "base/text.h"
#include "remote/bridge.h"
#include "remote/login.h"
#include "wire/local.h"

enum { FAILED = 125 };

/* --- connect --------------------------------------------------------------------------------------------------------
 */

static void say_no(int local, int code, const struct err *err) {
        _cleanup_buf_ struct buf text = {0}, b = {0};
        struct json j = {.out = &text};
        bool session = code == -ENOENT || code == -EKEYREJECTED;

        json_open(&j, NULL, '{');
        json_bool(&j, "ok", false);
        json_open(&j, "error", '{');
        json_str(&j, "code", session ? "no_session" : "no_server");
        json_str(&j, "message", err->text);
        json_str(&j, "hint", err->hint);
        json_close(&j, '}');
        json_close(&j, '}');
        buf_str(&b, "n");
        if (buf_ok(&text))
                local_put(&b, LOCAL_ANSWER, text.data, text.size);
        if (buf_ok(&b))
                (void)send(local, b.data, b.size, MSG_NOSIGNAL);
}

static int open_session(struct bridge *b, const char *server, struct err *err) {
        _cleanup_keep_ struct keep k = {0};
        struct url u;
        struct timespec now;
        int r = url_parse(server, &u, err);

        if (r == 0)
                r = keep_read(&u, &k, err);
        if (r < 0)
                return r;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (k.expires_ms <= (uint64_t)now.tv_sec * 1000) {
                (void)err_set(err, ERR_REFUSED, "the session at '%s' has expired", u.text);
                (void)err_hint(err, "stockade login --server %s", u.text);
                return -EKEYREJECTED;
        }
        return bridge_open(b, &u, &k, err);
}

static int cmd_connect(const char *server) {
        _cleanup_bridge_ struct bridge b = {.line = {.fd = -EBADF}};
        struct pollfd gone = {.fd = STDIN_FILENO};
        struct err err = {0};

        /* until there is a connection nothing is lost by ending, and nobody would wait for us */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || poll(&gone, 1, 0) > 0)
                return FAILED;
        int r = open_session(&b, server, &err);
        (void)prctl(PR_SET_PDEATHSIG, 0);
        if (r < 0) {
                say_no(STDIN_FILENO, r, &err);
                return FAILED;
        }
        (void)lockdown_files(NULL, 0); /* from here on there is no file that it needs */
        if (send(STDIN_FILENO, "y", 1, MSG_NOSIGNAL) == 1)
                bridge_run(&b, STDIN_FILENO);
        return 0;
}

/* --- login, logout --------------------------------------------------------------------------------------------------
 */

static bool take_word(struct login *o, const char *word) {
        const struct {
                const char *name;
                const char **text;
                bool *flag;
        } rows[] = {
                {"server=", &o->server, NULL},
                {"key=", &o->key, NULL},
                {"passphrase-file=", &o->passphrase_file, NULL},
                {"signer=", &o->signer, NULL},
                {"address=", &o->address, NULL},
                {"ca=", &o->ca, NULL},
                {"new-key", NULL, &o->new_key},
                {"link", NULL, &o->link},
                {"insecure-http", NULL, &o->insecure_http},
                {"force", NULL, &o->force},
                {"json", NULL, &o->json},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (rows[i].text && str_starts(word, rows[i].name))
                        *rows[i].text = word + strlen(rows[i].name);
                else if (rows[i].flag && str_eq(word, rows[i].name))
                        *rows[i].flag = true;
                else
                        continue;
                return true;
        }
        return false;
}

static int fail(const struct login *o, const struct err *err) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (!o->json) {
                err_print(err);
                return FAILED;
        }
        json_open(&j, NULL, '{');
        json_open(&j, "error", '{');
        json_str(&j, "code", err->code == ERR_INPUT ? "bad_request" : "failed");
        json_str(&j, "message", err->text);
        json_str(&j, "hint", err->hint);
        json_close(&j, '}');
        json_close(&j, '}');
        (void)fprintf(stderr, "%s\n", buf_ok(&b) ? b.data : "{}");
        return FAILED;
}

int main(int argc, char **argv) {
        struct login o = {0};
        struct err err = {0};

        (void)signal(SIGPIPE, SIG_IGN);
        if (lockdown_private() < 0 || lockdown_no_new_privileges() < 0)
                return FAILED;
        if (argc == 3 && str_eq(argv[1], "connect"))
                return cmd_connect(argv[2]);
        bool in = argc > 1 && str_eq(argv[1], "login"), good = in || (argc > 1 && str_eq(argv[1], "logout"));
        for (int i = 2; good && i < argc; i++)
                good = take_word(&o, argv[i]);
        if (!good) {
                (void)fputs("stockade-remote is started by stockade: see stockade-login(1)\n", stderr);
                return FAILED;
        }
        return (in ? login(&o, &err) : logout(&o, &err)) < 0 ? fail(&o, &err) : 0;
}
