/* Client or server, by the first word. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "bench/load.h"

int main(int argc, char **argv) {
        struct rlimit limit;

        (void)signal(SIGPIPE, SIG_IGN);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* inside a sandbox its PID 1 sees to that */
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
        if (argc == 2 && str_eq(argv[1], "client"))
                return load_client();
        if (argc == 3 && str_eq(argv[1], "server"))
                return load_server(argv[2]);
        (void)fputs("usage: load client | load server FOLDER (see bench/gate)\n", stderr);
        return 2;
}
