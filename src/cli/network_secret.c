/* Secrets of a run: what stands for them inside.
 *
 * A value is read once, sent to the gate, and kept for a gate that has to take over; it is in no argument, no
 * environment of ours that a sandbox could see, and no record. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "cli/run.h"
#include "cli/secret.h"

static bool in_plan(const struct run *r, const char *name) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(&r->plan, &walk, &s))
                if (s.op == OP_SECRET && str_eq(s.text[0], name))
                        return true;
        return false;
}

static int make_holder(char ret[GATE_HOLDER_SIZE], struct err *err) {
        static const char digits[] = "0123456789abcdef";
        uint8_t bytes[16];
        size_t n = (size_t)snprintf(ret, GATE_HOLDER_SIZE, "stockade-secret-");

        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
                return err_set(err, -errno, "could not get random bytes");
        for (size_t i = 0; i < sizeof bytes; i++) {
                ret[n++] = digits[bytes[i] >> 4];
                ret[n++] = digits[bytes[i] & 15];
        }
        ret[n] = '\0';
        return 0;
}

static int add(struct run *r, const char *text, struct err *err) {
        struct network *n = &r->network;
        struct secret given;

        if (n->secret_count >= GATE_SECRETS_MAX)
                return err_set(err, ERR_LIMIT, "more than %d secrets", GATE_SECRETS_MAX);
        _cleanup_free_ char *name = strndup(text, strcspn(text, "="));
        if (!name)
                return err_set(err, -ENOMEM, "--secret");
        if (!in_plan(r, name)) {
                (void)err_set(err, ERR_INPUT, "--secret %s: the profile does not use it", name);
                return err_hint(err, "list it under 'secrets' and name it in a rule of network.allow");
        }
        int result = secret_read("--secret", text, &given, err);
        if (result < 0)
                return result;
        struct network_secret *s = &n->secrets[n->secret_count++];
        s->name = given.name; /* lives as long as the process */
        s->value = given.value;
        s->size = given.size;
        return make_holder(s->holder, err);
}

int network_secrets(struct run *r, struct err *err) {
        struct network *n = &r->network;
        struct plan_walk walk = {0};
        struct plan_step s;

        for (size_t i = 0; i < r->options.secret_count; i++) {
                int result = add(r, r->options.secret[i], err);
                if (result < 0)
                        return result;
        }
        while (plan_next(&r->plan, &walk, &s)) {
                bool given = s.op != OP_SECRET;

                for (size_t i = 0; i < n->secret_count; i++)
                        given |= str_eq(n->secrets[i].name, s.text[0] ? s.text[0] : "");
                if (!given) {
                        (void)err_set(err, ERR_INPUT, "the profile uses the secret %s, and nobody gave it", s.text[0]);
                        return err_hint(err, "--secret %s takes it from the variable, --secret %s=@FILE from a file",
                                        s.text[0], s.text[0]);
                }
        }
        return 0;
}

void network_secrets_wipe(struct network *n) {
        for (size_t i = 0; i < n->secret_count; i++) {
                if (n->secrets[i].value)
                        explicit_bzero(n->secrets[i].value, n->secrets[i].size);
                free(n->secrets[i].value);
                n->secrets[i].value = NULL;
        }
}
