/* What the profile that is judged says, as far as it changes what can be expected: asked of the launcher itself. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "verify/judge.h"

enum { PROFILE_MAX = 1024 * 1024 };

/* `stockade profile show --json PROFILE`, its output in *ret (to be freed), its complaint in the error. */
static int show(const struct judge *j, char **ret, struct err *err) {
        const char *const argv[] = {j->launcher, "profile", "show", "--json", j->options.profile, NULL};
        _cleanup_buf_ struct buf said = {.max = PROFILE_MAX};
        int ends[2], status = 0;
        char block[4096];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "cannot make a pipe");
        pid_t pid = fork();
        if (pid == 0) {
                (void)dup2(ends[1], STDOUT_FILENO);
                (void)execv(argv[0], (char *const *)(uintptr_t)argv);
                _exit(127);
        }
        (void)close(ends[1]);
        for (ssize_t n; pid > 0 && (n = read(ends[0], block, sizeof block)) != 0;) {
                if (n < 0 && errno != EINTR)
                        break;
                if (n > 0)
                        buf_add(&said, block, (size_t)n);
        }
        (void)close(ends[0]);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return err_set(err, ERR_INPUT, "the profile '%.100s' cannot be judged", j->options.profile);
        if (!buf_ok(&said) || !said.data)
                return err_set(err, ERR_LIMIT, "the profile '%.100s' is too large", j->options.profile);
        int r = json_check(said.data, said.size, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(said.data);
        return 0;
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
        if (!json_find_str(text, "policy.files.workspace.path", p->workspace, sizeof p->workspace))
                (void)snprintf(p->workspace, sizeof p->workspace, "/tmp");
        return 0;
}
