/* What the verbs that talk to the daemon share. */
#include "cli/client.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/secret.h"
#include "cli/tell.h"

bool client_begin(const struct args_verb *v, int *argc, char **argv, void *options, int *ret) {
        struct err err = {0};
        int n = args_parse(v, *argc, argv, options, &err);

        if (n == ARGS_HELP)
                *ret = 0;
        else if (n < 0)
                *ret = talk_failed(NULL, options, &err);
        else {
                *argc = n;
                return true;
        }
        return false;
}

bool client_ask(struct talk *t, const struct args_common *o, struct talk_request *q, const char **ret_result,
                int *ret) {
        struct err err = {0};

        if (talk_ask(t, o, q, ret_result, &err) < 0)
                *ret = talk_failed(t, o, &err);
        else if (o->json) {
                talk_print(*ret_result);
                *ret = 0;
        } else
                return true;
        return false;
}

int client_secrets(struct talk_request *q, const char *key, const char *option, const struct args_list *list,
                   struct err *err) {
        if (list->count == 0)
                return 0;
        json_open(&q->json, key, '{');
        for (size_t i = 0; i < list->count; i++) {
                struct secret s;
                int r = secret_read(option, list->items[i], &s, err);

                if (r < 0)
                        return r;
                talk_str(q, s.name, (const char *)s.value);
                secret_free(&s);
        }
        json_close(&q->json, '}');
        return 0;
}

/* The key of a pair, which is not ended by a NUL, and its value; NULL if there is none. */
static const char *split(const struct args_list *list, size_t i, size_t *ret_size, const char **ret_value) {
        const char *text = list->items[i];

        if (list->keys[i]) {
                *ret_size = strlen(list->keys[i]);
                *ret_value = text;
                return list->keys[i];
        }
        *ret_size = strcspn(text, "=");
        *ret_value = text[*ret_size] == '=' ? text + *ret_size + 1 : NULL;
        return text;
}

static bool is_last(const struct args_list *list, size_t i) {
        const char *value;
        size_t n, m;
        const char *key = split(list, i, &n, &value);

        for (size_t k = i + 1; k < list->count; k++) {
                const char *other = split(list, k, &m, &value);
                if (n == m && strncmp(key, other, n) == 0)
                        return false;
        }
        return true;
}

int client_pairs(struct talk_request *q, const char *key, const char *option, const struct args_list *list,
                 bool from_environment, struct err *err) {
        if (list->count == 0)
                return 0;
        json_open(&q->json, key, '{');
        for (size_t i = 0; i < list->count; i++) {
                const char *value;
                size_t n;
                const char *text = split(list, i, &n, &value);
                _cleanup_free_ char *name = strndup(text, n);

                if (n == 0 || (!value && !from_environment))
                        return err_set(err, ERR_INPUT, "--%s takes KEY=VALUE, not '%.60s'", option, text);
                if (!name)
                        return err_set(err, -ENOMEM, "cannot read --%s", option);
                if (!value)
                        value = getenv(name);
                if (value && is_last(list, i))
                        talk_str(q, name, value);
        }
        json_close(&q->json, '}');
        return 0;
}

int client_profile(struct talk_request *q, const char *profile, struct err *err) {
        _cleanup_free_ char *text = NULL;

        if (!profile || !strchr(profile, '/')) {
                talk_str(q, "profile", profile);
                return 0;
        }
        int r = fd_read_file(AT_FDCWD, profile, 96 << 10, false, &text, NULL, err);
        if (r < 0)
                return err_prefix(err, r, "--profile");
        talk_str(q, "profile_text", text);
        return 0;
}

int client_number(const char *text, const char *what, uint64_t most, uint64_t *ret, struct err *err) {
        uint64_t value;

        if (text[strspn(text, "0123456789")] || text_parse(text, TEXT_COUNT, &value, NULL) < 0 || value == 0 ||
            value > most)
                return err_set(err, ERR_INPUT, "'%.40s' is not %s", text, what);
        *ret = value;
        return 0;
}

int client_id(const struct args_common *o, const char *json) {
        char id[64];

        if (o->json)
                talk_print(json);
        else
                (void)puts(tell_text(id, sizeof id, json, "id"));
        return 0;
}

void client_sandbox(const struct args_common *o, const char *json) {
        char id[64], name[128], state[64];

        if (o->json) {
                talk_print(json);
                return;
        }
        (void)tell_text(name, sizeof name, json, "name");
        (void)printf("%s  %s%s%s\n", tell_text(id, sizeof id, json, "id"), str_eq(name, "-") ? "" : name,
                     str_eq(name, "-") ? "" : "  ", tell_text(state, sizeof state, json, "state"));
}
