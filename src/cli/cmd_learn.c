/* `stockade-policy learn`: for `stockade run --learn`, not for people. Notes on standard input, a profile that a person
 * reads on standard output. */
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cmd.h"
#include "cli/lesson.h"

static int read_options(int argc, char **argv, struct lesson *l, struct err *err) {
        for (int i = 1; i + 1 < argc; i += 2) {
                if (str_eq(argv[i], "--profile"))
                        l->profile = argv[i + 1];
                else if (str_eq(argv[i], "--set") && l->set_count < LESSON_LIST_MAX)
                        l->sets[l->set_count++] = argv[i + 1];
                else if (str_eq(argv[i], "--allow") && l->allow_count < LESSON_LIST_MAX)
                        l->allows[l->allow_count++] = argv[i + 1];
                else
                        return err_set(err, ERR_INPUT, "learn: '%s' is not understood", argv[i]);
        }
        return l->profile ? 0 : err_set(err, ERR_INPUT, "learn: --profile is needed");
}

int cmd_learn(int argc, char **argv) {
        static struct lesson l;
        static char bytes[LEARN_FILE_MAX];
        _cleanup_buf_ struct buf out = {.max = LEARN_FILE_MAX};
        struct err err = {0};

        l.home = getenv("HOME");
        l.whole.max = l.command.max = LEARN_FILE_MAX;
        int r = read_options(argc, argv, &l, &err);
        if (r == 0)
                r = lesson_resolve(&l, &err);
        if (r == 0) {
                ssize_t n = fd_read_full(STDIN_FILENO, bytes, sizeof bytes);
                if (n < 0 || lesson_read(&l, bytes, (size_t)n) < 0)
                        r = err_set(&err, ERR_CORRUPT, "what was refused could not be read");
        }
        if (r == 0)
                r = lesson_write(&l, &out, &err);
        if (r == 0) {
                r = fd_write_full(STDOUT_FILENO, out.data, out.size);
                if (r < 0)
                        (void)err_set(&err, r, "could not write the learned profile");
        }
        lesson_free(&l);
        if (r < 0) {
                err_print(&err);
                return EXIT_FAILED;
        }
        return 0;
}
