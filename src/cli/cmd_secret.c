/* `stockade secret`: gives a sandbox's gate the value of a secret: another one, or one that was wiped. The daemon keeps
 * it sealed and gives it to every later gate of the sandbox by itself. */
#include "cli/client.h"

struct options {
        struct args_common common;
};

const struct args_verb secret_verb = {
        .name = "secret",
        .words = "SANDBOX NAME[=@FILE]…",
        .summary = "give a sandbox's gate the value of a secret",
        .about = "The value is that of the variable NAME, or what is in FILE; never an argument, which every user of "
                 "the "
                 "host could read. The gate puts it into requests on their way out, to the hosts whose rules name it. "
                 "Inside the sandbox there is a placeholder. The value is kept sealed, for this sandbox alone, until "
                 "another one is given or the sandbox is deleted.",
        .flags = ARGS_JSON,
        .least = 2,
        .most = 1 + ARGS_LIST_MAX,
        .what = {WHAT_SANDBOX, WHAT_TEXT},
};

int cmd_secret(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct args_list list = {0};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&secret_verb, &argc, argv, &o, &status))
                return status;
        for (int i = 2; i <= argc; i++)
                list.items[list.count++] = argv[i];
        talk_begin(&q, "secret");
        talk_str(&q, "sandbox", argv[1]);
        int r = client_secrets(&q, "secrets", "secret", &list, &err);
        if (r == 0)
                r = talk_ask(&t, &o.common, &q, &result, &err);
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.common.json)
                talk_print(result);
        return 0;
}
