/* Reading a secret's value. It lies in this process's memory alone: no argument, no record, no core dump. */
#include "cli/secret.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "wire/gate.h"

static int read_value(const char *option, struct secret *s, const char *file, struct err *err) {
        char *data = NULL;
        size_t size = 0;

        if (file) {
                int r = fd_read_file(AT_FDCWD, file, GATE_SECRET_MAX, false, &data, &size, err);
                if (r < 0)
                        return err_prefix(err, r, "%s %s", option, s->name);
                if (size > 0 && data[size - 1] == '\n')
                        data[--size] = '\0';
        } else {
                char *value = getenv(s->name);

                if (!value) {
                        (void)err_set(err, ERR_INPUT, "%s %s: the variable is not set", option, s->name);
                        return err_hint(err, "set it, or name a file: %s %s=@FILE", option, s->name);
                }
                data = strdup(value);
                size = strlen(value);
                if (!data)
                        return err_set(err, -ENOMEM, "%s %s", option, s->name);
                explicit_bzero(value, size); /* from what /proc shows of us, and of the keeper */
        }
        s->value = (uint8_t *)data;
        s->size = size;
        /* fewer bytes would be found in any answer, and a line end would make two headers of one */
        if (size < 8 || size > GATE_SECRET_MAX)
                return err_set(err, ERR_INPUT, "%s %s: a value has 8 to %d bytes", option, s->name, GATE_SECRET_MAX);
        if (s->value[0] == ' ' || s->value[size - 1] == ' ')
                return err_set(err, ERR_INPUT, "%s %s: the value begins or ends with a blank", option, s->name);
        /* answers are overwritten where the value stands: a short number can be found by trying all of them */
        if (size < 16 && strspn((const char *)s->value, "0123456789") >= size)
                return err_set(err, ERR_INPUT, "%s %s: fewer than 16 digits can be guessed", option, s->name);
        for (size_t i = 0; i < size; i++)
                if (s->value[i] < 0x20 || s->value[i] == 0x7f)
                        return err_set(err, ERR_INPUT, "%s %s: the value has control bytes", option, s->name);
        return 0;
}

int secret_read(const char *option, const char *text, struct secret *ret, struct err *err) {
        static const struct rlimit none = {1, 1}; /* 1, not 0: a handler behind a pipe is not started either */
        const char *equals = strchr(text, '=');
        struct secret s = {0};

        if (setrlimit(RLIMIT_CORE, &none) < 0 && errno != EPERM)
                return err_set(err, -errno, "could not rule out core dumps");
        if (equals && equals[1] != '@') {
                (void)err_set(err, ERR_INPUT, "%s takes NAME or NAME=@FILE", option);
                return err_hint(err, "a value on the command line would be seen by every user of this host");
        }
        s.name = equals ? strndup(text, (size_t)(equals - text)) : strdup(text);
        if (!s.name)
                return err_set(err, -ENOMEM, "%s", option);
        int r = read_value(option, &s, equals ? equals + 2 : NULL, err);
        if (r < 0) {
                secret_free(&s);
                return r;
        }
        *ret = s;
        return 0;
}

void secret_free(struct secret *s) {
        if (s->value)
                explicit_bzero(s->value, s->size);
        free(s->value);
        free(s->name);
        *s = (struct secret){0};
}
