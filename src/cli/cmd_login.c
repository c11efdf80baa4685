/* `stockade login`, `logout`: sessions on servers elsewhere; `sign-in`: a link for somebody who wants one here.
 *
 * Keys, tokens and links are stockade-remote's: they never pass through here, nor through a command line. */
#include "cli/afar.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/tell.h"

struct options {
        struct args_common common;
        const char *server, *key, *passphrase_file, *signer, *address, *ca, *owner;
        bool new_key, link, insecure_http, force, operator;
};
#define AT(field) offsetof(struct options, field)

#define SERVER_ROW                                                                                                     \
        { "server", 0, "URL", "https://HOST[:PORT] (default: $STOCKADE_SERVER)", ARGS_TEXT, AT(server) }

static const struct args_option login_options[] = {
        SERVER_ROW,
        {"key", 'k', "FILE", "sign with this key and not with the one that is kept", ARGS_TEXT, AT(key), NULL,
         WHAT_FILE},
        {"new-key", 0, NULL, "make a key first, and say its address", ARGS_FLAG, AT(new_key)},
        {"passphrase-file", 0, "FILE", "the passphrase of a keystore; otherwise it is asked for", ARGS_TEXT,
         AT(passphrase_file), NULL, WHAT_FILE},
        {"signer", 0, "COMMAND", "have this program sign, which has the key", ARGS_TEXT, AT(signer)},
        {"address", 0, "0x…", "the wallet of --signer", ARGS_TEXT, AT(address)},
        {"link", 0, NULL, "spend a link of 'stockade sign-in', read from standard input", ARGS_FLAG, AT(link)},
        {"ca", 0, "FILE", "certificates to trust, and not the system's; kept with the session", ARGS_TEXT, AT(ca), NULL,
         WHAT_FILE},
        {"insecure-http", 0, NULL, "http to other hosts, where anybody can read it, or to other users of this one",
         ARGS_FLAG, AT(insecure_http)},
};

const struct args_verb login_verb = {
        .name = "login",
        .words = "",
        .summary = "sign in to a daemon on another host",
        .about = "Signs in to the API of a daemon elsewhere. From then on 'stockade --server URL VERB …', or any verb "
                 "with STOCKADE_SERVER set, is done there, as the owner that one is there.\n\n"
                 "The server gives a text (EIP-4361), and an Ethereum key signs it: one in a file (64 hexadecimal "
                 "digits, or a version 3 keystore as wallets export it), or one that a program keeps, which gets the "
                 "text on its standard input and prints the signature. A text that is not for this server and this "
                 "key is not signed. Without a key, a link of 'stockade sign-in' will do.\n\n"
                 "What is kept is the session, in a file of mode 0600 below the state folder.",
        .flags = ARGS_LOCAL | ARGS_JSON,
        .options = login_options,
        .count = ELEMENTSOF(login_options),
};

static const struct args_option logout_options[] = {
        SERVER_ROW,
        {"force", 0, NULL, "forget the session here, without a word to the server", ARGS_FLAG, AT(force)},
};

const struct args_verb logout_verb = {
        .name = "logout",
        .words = "",
        .summary = "end a session on another host",
        .about = "Revokes the session at the server and removes it here. What it has open there is cut.",
        .flags = ARGS_LOCAL | ARGS_JSON,
        .options = logout_options,
        .count = ELEMENTSOF(logout_options),
};

static const struct args_option sign_in_options[] = {
        {"owner", 0, "OWNER", "of root: for somebody else", ARGS_TEXT, AT(owner)},
        {"operator", 0, NULL, "of root: the session acts for all owners", ARGS_FLAG, AT(operator)},
};

const struct args_verb sign_in_verb = {
        .name = "sign-in",
        .words = "",
        .summary = "print a link that signs in to the API, once",
        .about = "Prints a link to the API of the daemon on this host. Whoever opens it in a browser, or gives it to "
                 "'stockade login --link', is signed in as the user who asked for it: once, within ten minutes.",
        .flags = ARGS_JSON,
        .options = sign_in_options,
        .count = ELEMENTSOF(sign_in_options),
};

struct words {
        char *items[20];
        size_t count;
};

static void add(struct words *w, const char *name, const char *value) {
        _cleanup_buf_ struct buf b = {0};

        if (!value)
                return;
        buf_printf(&b, "%s%s", name, value);
        if (w->count + 1 < ELEMENTSOF(w->items) && buf_ok(&b))
                w->items[w->count++] = TAKE_PTR(b.data);
}

static int hand_over(const char *verb, const struct options *o) {
        const char *server = o->server ? o->server : getenv("STOCKADE_SERVER");
        struct words w = {0};
        struct err err = {0};

        add(&w, "server=", server && server[0] ? server : NULL);
        add(&w, "key=", o->key);
        add(&w, "passphrase-file=", o->passphrase_file);
        add(&w, "signer=", o->signer);
        add(&w, "address=", o->address);
        add(&w, "ca=", o->ca);
        add(&w, "new-key", o->new_key ? "" : NULL);
        add(&w, "link", o->link ? "" : NULL);
        add(&w, "insecure-http", o->insecure_http ? "" : NULL);
        add(&w, "force", o->force ? "" : NULL);
        add(&w, "json", o->common.json ? "" : NULL);
        (void)afar_become(verb, w.items, &err);
        return talk_failed(NULL, &o->common, &err);
}

static bool together(bool one, const char *name, bool other, const char *other_name, struct err *err) {
        if (one && other)
                (void)err_set(err, ERR_INPUT, "--%s and --%s do not go together", name, other_name);
        return one && other;
}

int cmd_login(int argc, char **argv) {
        struct options o = {0};
        struct err err = {0};
        int status;

        if (!client_begin(&login_verb, &argc, argv, &o, &status))
                return status;
        if (together(o.link, "link", o.key || o.new_key, "key", &err) ||
            together(o.link, "link", o.signer != NULL, "signer", &err) ||
            together(o.signer != NULL, "signer", o.key || o.new_key, "key", &err))
                return talk_failed(NULL, &o.common, &err);
        return hand_over("login", &o);
}

int cmd_logout(int argc, char **argv) {
        struct options o = {0};
        int status;

        return client_begin(&logout_verb, &argc, argv, &o, &status) ? hand_over("logout", &o) : status;
}

int cmd_sign_in(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF, .patience = 10000};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        char url[512];
        int status;

        if (!client_begin(&sign_in_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "sign-in");
        talk_str(&q, "owner", o.owner);
        if (o.operator)
                json_bool(&q.json, "operator", true);
        if (talk_ask(&t, &o.common, &q, &result, &err) < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.common.json)
                talk_print(result);
        else
                (void)puts(tell_text(url, sizeof url, result, "url"));
        return 0;
}
