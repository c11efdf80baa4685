/* Secrets of a run: where their values come from, and what stands for them inside.
 *
 * A value is read once, sent to the gate, and kept for a gate that has to take over; it is in no argument, no
 * environment of ours that a sandbox could see, and no record. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "cli/run.h"

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

static int read_value(struct network_secret *s, const char *file, struct err *err) {
        char *data = NULL;
        size_t size = 0;

        if (file) {
                int r = fd_read_file(AT_FDCWD, file, GATE_SECRET_MAX, false, &data, &size, err);
                if (r < 0)
                        return err_prefix(err, r, "--secret %s", s->name);
                if (size > 0 && data[size - 1] == '\n')
                        size--;
        } else {
                char *value = getenv(s->name);

                if (!value) {
                        (void)err_set(err, ERR_INPUT, "--secret %s: the variable is not set", s->name);
                        return err_hint(err, "set it, or name a file: --secret %s=@FILE", s->name);
                }
                data = strdup(value);
                size = strlen(value);
                if (!data)
                        return err_set(err, -ENOMEM, "--secret %s", s->name);
                explicit_bzero(value, size); /* from what /proc shows of us, and of the keeper */
        }
        s->value = (uint8_t *)data;
        s->size = size;
        /* fewer bytes would be found in any answer, and a line end would make two headers of one */
        if (size < 8 || size > GATE_SECRET_MAX)
                return err_set(err, ERR_INPUT, "--secret %s: a value has 8 to %d bytes", s->name, GATE_SECRET_MAX);
        if (s->value[0] == ' ' || s->value[size - 1] == ' ')
                return err_set(err, ERR_INPUT, "--secret %s: the value begins or ends with a blank", s->name);
        /* answers are overwritten where the value stands: a short number can be found by trying all of them */
        if (size < 16 && strspn((const char *)s->value, "0123456789") >= size)
                return err_set(err, ERR_INPUT, "--secret %s: fewer than 16 digits can be guessed", s->name);
        for (size_t i = 0; i < size; i++)
                if (s->value[i] < 0x20 || s->value[i] == 0x7f)
                        return err_set(err, ERR_INPUT, "--secret %s: the value has control bytes", s->name);
        return 0;
}

static int add(struct run *r, const char *text, struct err *err) {
        struct network *n = &r->network;
        const char *equals = strchr(text, '=');

        if (n->secret_count >= GATE_SECRETS_MAX)
                return err_set(err, ERR_LIMIT, "more than %d secrets", GATE_SECRETS_MAX);
        if (equals && equals[1] != '@') {
                (void)err_set(err, ERR_INPUT, "--secret takes NAME or NAME=@FILE");
                return err_hint(err, "a value on the command line would be seen by every user of this host");
        }
        char *name = equals ? strndup(text, (size_t)(equals - text)) : strdup(text);
        if (!name)
                return err_set(err, -ENOMEM, "--secret");
        struct network_secret *s = &n->secrets[n->secret_count++];
        s->name = name; /* lives as long as the process */
        if (!in_plan(r, name)) {
                (void)err_set(err, ERR_INPUT, "--secret %s: the profile does not use it", name);
                return err_hint(err, "list it under 'secrets' and name it in a rule of network.allow");
        }
        int result = read_value(s, equals ? equals + 2 : NULL, err);
        return result < 0 ? result : make_holder(s->holder, err);
}

int network_secrets(struct run *r, struct err *err) {
        static const struct rlimit none = {1, 1}; /* 1, not 0: a handler behind a pipe is not started either */
        struct network *n = &r->network;
        struct plan_walk walk = {0};
        struct plan_step s;

        if (r->options.secret_count > 0 && setrlimit(RLIMIT_CORE, &none) < 0 && errno != EPERM)
                return err_set(err, -errno, "could not rule out core dumps");

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
