/* `stockade-policy compile`: for `stockade run`, not for people. Resolves a profile, lays the options over it, and
 * writes the plan with its sources to standard output. */
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cmd.h"
#include "cli/plan_file.h"
#include "policy/compile.h"
#include "policy/profile.h"

#define LIST_MAX 128

struct request {
        const char *profile;
        const char *sets[LIST_MAX];
        size_t set_count;
        const char *allows[LIST_MAX];
        size_t allow_count;
        struct compile_share shares[LIST_MAX];
        const char *accepted[LIST_MAX];
        struct compile_options options;
};

static int read_request(int argc, char **argv, struct request *q, struct err *err) {
        for (int i = 1; i < argc; i++) {
                const char *word = argv[i];
                const char *value = i + 1 < argc ? argv[i + 1] : NULL;
                struct compile_options *o = &q->options;

                if (str_eq(word, "--rootless")) {
                        o->rootless = true;
                        continue;
                }
                if (str_eq(word, "--gate")) {
                        o->gate = true;
                        continue;
                }
                if (!value)
                        return err_set(err, ERR_INPUT, "compile: '%s' needs a value", word);
                i++;
                if (str_eq(word, "--profile"))
                        q->profile = value;
                else if (str_eq(word, "--guest"))
                        o->guest = value;
                else if (str_eq(word, "--workspace"))
                        o->workspace = value;
                else if (str_eq(word, "--root"))
                        o->root = value;
                else if (str_eq(word, "--cwd"))
                        o->cwd = value;
                else if (str_eq(word, "--set") && q->set_count < LIST_MAX)
                        q->sets[q->set_count++] = value;
                else if (str_eq(word, "--allow") && q->allow_count < LIST_MAX)
                        q->allows[q->allow_count++] = value;
                else if (str_eq(word, "--accept-missing") && o->accepted_count < LIST_MAX)
                        q->accepted[o->accepted_count++] = value;
                else if ((str_eq(word, "--ro") || str_eq(word, "--rw")) && i + 1 < argc && o->share_count < LIST_MAX)
                        q->shares[o->share_count++] = (struct compile_share){value, argv[++i], word[3] == 'w'};
                else
                        return err_set(err, ERR_INPUT, "compile: '%s' is not understood", word);
        }
        if (!q->profile || !q->options.guest)
                return err_set(err, ERR_INPUT, "compile: --profile and --guest are needed");
        q->options.shares = q->shares;
        q->options.accepted = q->accepted;
        return 0;
}

/* Keys of the profile are known by its schema; these are not keys, or have no dot. */
static int check_accepted(const struct request *q, struct err *err) {
        static const char *const words[] = {"landlock", "image", "secrets"};

        for (size_t i = 0; i < q->options.accepted_count; i++) {
                const char *key = q->accepted[i];
                bool known = strchr(key, '.') != NULL;

                for (size_t k = 0; k < ELEMENTSOF(words); k++)
                        known = known || str_eq(key, words[k]);
                if (!known)
                        return err_set(err, ERR_INPUT, "--accept-missing '%s': there is no such key", key);
        }
        return 0;
}

static int lay_options(const struct request *q, struct policy *p, struct err *err) {
        for (size_t i = 0; i < q->set_count; i++) {
                _cleanup_free_ char *key = strdup(q->sets[i]);
                if (!key)
                        return err_set(err, -ENOMEM, "--set");
                char *equals = strchr(key, '=');
                if (!equals)
                        return err_set(err, ERR_INPUT, "--set '%s' is not KEY=VALUE", key);
                *equals = '\0';
                int r = policy_set(p, key, equals + 1, err);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < q->allow_count; i++) {
                int r = policy_allow(p, q->allows[i], err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Options can widen what a profile allows in ways that have no key in it. A sealed one forbids that. */
static int check_sealed(const struct request *q, const struct policy *p, struct err *err) {
        const struct compile_options *o = &q->options;
        const char *option = o->root                 ? "--root"
                             : o->workspace          ? "--workspace"
                             : o->accepted_count > 0 ? "--accept-missing"
                             : o->share_count == 0   ? NULL
                             : o->shares[0].writable ? "--rw"
                                                     : "--ro";

        if (!p->sealed || !option)
                return 0;
        (void)err_set(err, ERR_REFUSED, "profile '%s' is sealed: %s would allow more than it does", p->name, option);
        return err_hint(err, "whoever sealed it can say what else may be shared");
}

/* What was accepted as missing is not asked for any more: the plan must not pretend. */
static int build(const struct request *q, struct buf *plan, struct profile_sources *sources, struct err *err) {
        _cleanup_policy_ struct policy p = {0};
        struct policy_strings missing = {0};
        uint8_t hash[HASH_SIZE];

        int r = profile_load(q->profile, &p, sources, err);
        if (r < 0)
                return r;
        r = check_accepted(q, err);
        if (r == 0)
                r = check_sealed(q, &p, err);
        if (r == 0)
                r = lay_options(q, &p, err);
        if (r == 0)
                r = policy_check(&p, err);
        if (r == 0)
                r = policy_enforceable(&p, q->options.accepted, q->options.accepted_count, &missing, err);
        for (size_t i = 0; i < missing.count; i++)
                free(missing.items[i]);
        free(missing.items);
        if (r < 0)
                return r;
        policy_hash(&p, hash);
        return compile_plan(&p, hash, &q->options, plan, err);
}

int cmd_compile(int argc, char **argv) {
        static struct request q;
        _cleanup_buf_ struct buf plan = {0}, file = {.max = PLAN_FILE_MAX};
        _cleanup_sources_ struct profile_sources sources = {0};
        struct err err = {0};

        int r = read_request(argc, argv, &q, &err);
        if (r == 0)
                r = build(&q, &plan, &sources, &err);
        if (r < 0) {
                err_print(&err);
                return 125;
        }
        plan_file_begin(&file, sources.count);
        for (size_t i = 0; i < sources.count; i++)
                plan_file_add(&file, &(struct plan_source){.path = sources.items[i].path,
                                                           .absent = sources.items[i].absent,
                                                           .hash = sources.items[i].hash});
        plan_file_end(&file, plan.data, plan.size);
        if (!buf_ok(&file) || fd_write_full(STDOUT_FILENO, file.data, file.size) < 0) {
                (void)fprintf(stderr, "stockade: could not write the plan\n");
                return 125;
        }
        return 0;
}
