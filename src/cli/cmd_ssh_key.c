/* `stockade ssh-key`: which keys may come into a sandbox by SSH. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "cli/client.h"
#include "cli/table.h"
#include "cli/tell.h"

#define KEY_MAX 16384

struct options {
        struct args_common common;
        const char *username;
};

static const struct args_option options[] = {
        {"username", 0, "NAME", "add: a word for whoever has the key (default: agent)", ARGS_TEXT,
         offsetof(struct options, username)},
};

const struct args_verb ssh_key_verb = {
        .name = "ssh-key",
        .words = "add SANDBOX FILE | remove SANDBOX FILE|FINGERPRINT | list SANDBOX",
        .summary = "let keys into a sandbox by SSH, or out",
        .about =
                "FILE is a public key, such as ~/.ssh/id_ed25519.pub; - is standard input. Whoever has the private key "
                "comes in with 'ssh -p PORT SANDBOX@HOST', where stockade.conf says ssh_listen. A key that is removed "
                "opens nothing from then on, and what it has open ends.",
        .options = options,
        .count = ELEMENTSOF(options),
        .flags = ARGS_JSON,
        .least = 2,
        .most = 3,
        .what = {WHAT_CHOICE, WHAT_SANDBOX},
        .choices = "add list remove",
};

static int read_key(const char *path, char text[KEY_MAX + 1], struct err *err) {
        bool standard = str_eq(path, "-");
        _cleanup_fd_ int fd = standard ? -EBADF : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (!standard && fd < 0)
                return err_set(err, -errno, "cannot open '%s'", path);
        ssize_t n = fd_read_full(standard ? STDIN_FILENO : fd, text, KEY_MAX);
        if (n < 0)
                return err_set(err, (int)n, "cannot read '%s'", path);
        while (n > 0 && strchr("\r\n", text[n - 1]))
                n--;
        text[n] = '\0';
        if (strstr(text, "PRIVATE KEY")) {
                (void)err_set(err, ERR_REFUSED, "'%s' is a private key, which nobody but you should have", path);
                return err_hint(err, "name the public one: '%s.pub'", path);
        }
        return 0;
}

static int change(const struct options *o, bool add, const char *sandbox, const char *what) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        char text[KEY_MAX + 1], fingerprint[96];
        struct err err = {0};
        const char *result;
        bool by_print = !add && strncmp(what, "SHA256:", 7) == 0;

        int r = by_print ? 0 : read_key(what, text, &err);
        talk_begin(&q, add ? "ssh-key-add" : "ssh-key-remove");
        talk_str(&q, "sandbox", sandbox);
        talk_str(&q, by_print ? "fingerprint" : "public_key", by_print ? what : text);
        if (add)
                talk_str(&q, "username", o->username);
        if (r == 0)
                r = talk_ask(&t, &o->common, &q, &result, &err);
        if (r < 0)
                return talk_failed(&t, &o->common, &err);
        if (o->common.json)
                talk_print(result);
        else if (add && json_find_str(result, "fingerprint", fingerprint, sizeof fingerprint))
                (void)puts(fingerprint);
        return 0;
}

static int list(const struct options *o, const char *sandbox) {
        static const struct table_column columns[] = {{"FINGERPRINT", 0},
                                                      {"TYPE", 0},
                                                      {"USERNAME", TABLE_SHRINK},
                                                      {"AGE", TABLE_RIGHT},
                                                      {"COMMENT", TABLE_SHRINK}};
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct json_walk w;
        struct table table;
        const char *result;
        char text[32];
        int status;

        talk_begin(&q, "ssh-keys");
        talk_str(&q, "sandbox", sandbox);
        if (!client_ask(&t, &o->common, &q, &result, &status))
                return status;
        table_begin(&table, columns, ELEMENTSOF(columns));
        if (json_walk_begin(&w, result, "keys"))
                while (json_walk_next(&w)) {
                        table_json(&table, w.value, "fingerprint");
                        table_json(&table, w.value, "type");
                        table_json(&table, w.value, "username");
                        table_cell(&table, tell_ago(text, sizeof text, tell_number(w.value, "created_ms")));
                        table_json(&table, w.value, "comment");
                }
        table_print(&table);
        return 0;
}

int cmd_ssh_key(int argc, char **argv) {
        struct options o = {0};
        struct err err = {0};
        int status;

        if (!client_begin(&ssh_key_verb, &argc, argv, &o, &status))
                return status;
        if (argc == 3 && (str_eq(argv[1], "add") || str_eq(argv[1], "remove")))
                return change(&o, str_eq(argv[1], "add"), argv[2], argv[3]);
        if (argc == 2 && str_eq(argv[1], "list"))
                return list(&o, argv[2]);
        (void)err_set(&err, ERR_INPUT, "'stockade ssh-key' does not know that");
        (void)err_hint(&err, "stockade ssh-key %s", ssh_key_verb.words);
        return talk_failed(NULL, &o.common, &err);
}
