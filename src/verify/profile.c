/* What the profile that is judged says, as far as it changes what can be expected: asked of the launcher itself. */
#include "base/json-read.h"
#include "verify/judge.h"

enum { PROFILE_MAX = 1024 * 1024 };

/* `stockade profile show --json PROFILE`, its output in *ret (to be freed). */
static int show(const struct judge *j, char **ret, struct err *err) {
        const char *const argv[] = {j->launcher, "profile", "show", "--json", j->options.profile, NULL};
        _cleanup_buf_ struct buf said = {.max = PROFILE_MAX};

        if (ask_program(argv, &said, err) < 0)
                return err_set(err, ERR_INPUT, "the profile '%.100s' cannot be judged", j->options.profile);
        int r = json_check(said.data, said.size, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(said.data);
        return 0;
}

/* The texts of a list, joined by commas; "" if there is none or they do not fit. */
static void join(const char *text, const char *list, char *ret, size_t size) {
        size_t count = 0, used = 0;

        ret[0] = '\0';
        if (!json_find_count(text, list, &count))
                return;
        for (size_t i = 0; i < count; i++) {
                char item[160], key[80];

                (void)snprintf(key, sizeof key, "%s.%zu", list, i);
                if (!json_find_str(text, key, item, sizeof item) || used + strlen(item) + 2 > size) {
                        ret[0] = '\0';
                        return;
                }
                used += (size_t)snprintf(ret + used, size - used, "%s%s", used ? "," : "", item);
        }
}

int profile_read(struct judge *j, struct err *err) {
        _cleanup_free_ char *text = NULL;
        struct judge_profile *p = &j->profile;
        size_t count = 0;
        char path[160], key[64];

        int r = show(j, &text, err);
        if (r < 0)
                return r;
        if (!json_find_str(text, "name", p->name, sizeof p->name) ||
            !json_find_str(text, "hash", p->hash, sizeof p->hash))
                return err_set(err, ERR_CORRUPT, "the profile '%.100s' has no name or hash", j->options.profile);
        p->exec_list = json_find_count(text, "policy.tools.exec", &count) && count > 0;
        p->network = json_find_count(text, "policy.network.allow", &count) && count > 0;
        if (!json_find_count(text, "policy.files.read", &count))
                count = 0;
        for (size_t i = 0; i < count; i++) {
                (void)snprintf(key, sizeof key, "policy.files.read.%zu", i);
                if (json_find_str(text, key, path, sizeof path) && str_eq(path, "/"))
                        p->shows_host = true;
        }
        join(text, "policy.files.read", p->read, sizeof p->read);
        join(text, "policy.tools.exec", p->exec, sizeof p->exec);
        if (!json_find_str(text, "policy.files.workspace.path", p->workspace, sizeof p->workspace))
                (void)snprintf(p->workspace, sizeof p->workspace, "/tmp");
        return 0;
}
