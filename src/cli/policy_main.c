/* stockade-policy: the part of the command line that reads YAML. `stockade` starts it when there is a profile to look
 * at, so that the launcher itself stays small and static. */
#include <stdio.h>

#include "cli/cmd.h"

static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
        const char *usage;
} commands[] = {
        {"profile", cmd_profile, "profile list | show | check | explain | schema"},
        {"compile", cmd_compile, "compile … (for stockade run)"},
        {"learn", cmd_learn, "learn … (for stockade run --learn)"},
};

static void usage(FILE *to) {
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                (void)fprintf(to, "%s stockade-policy %s\n", i == 0 ? "usage:" : "      ", commands[i].usage);
}

int main(int argc, char **argv) {
        if (argc >= 2 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
                usage(stdout);
                return 0;
        }
        for (size_t i = 0; argc >= 2 && i < ELEMENTSOF(commands); i++)
                if (str_eq(commands[i].name, argv[1]))
                        return commands[i].run(argc - 1, argv + 1);
        usage(stderr);
        return EXIT_FAILED;
}
