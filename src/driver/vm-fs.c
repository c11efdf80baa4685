/* Looking for virtiofsd. Two programs have this name: QEMU's own, which QEMU 8 no longer has and which the driver is
 * written for, and a later one that is not part of QEMU and has other options. What each says of its version tells them
 * apart; at the first place there is never the other one, and nobody has to wait for an answer. */
#include "driver/vm-fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "driver/vm-qemu.h"

static const char *const places[] = {VM_FS_PROGRAM, "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd"};

_noreturn_ static void ask(const char *program, int to) {
        char *const words[] = {(char *)(uintptr_t)program, (char[]){"--version"}, NULL};
        char *const environment[] = {NULL};
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0 &&
            dup2(to, STDOUT_FILENO) >= 0)
                (void)execve(program, words, environment);
        _exit(126);
}

/* The first line of what it says; "" if it says nothing. */
static void read_version(const char *program, char *ret, size_t size) {
        char said[256] = "";
        int ends[2];

        ret[0] = '\0';
        if (pipe2(ends, O_CLOEXEC) < 0)
                return;
        _cleanup_fd_ int from = ends[0], to = ends[1];
        pid_t pid = fork();
        if (pid == 0)
                ask(program, to);
        fd_close(&to);
        ssize_t n = pid > 0 ? fd_read_full(from, said, sizeof said - 1) : 0;
        fd_close(&from); /* who says more is not waited for */
        if (pid > 0)
                (void)waitpid(pid, NULL, 0);
        said[MAX(n, 0)] = '\0';
        *strchrnul(said, '\n') = '\0';
        text_escape(ret, size, said);
}

int vm_fs_find(char ret[PATH_MAX], struct err *err) {
        char version[80], other[80] = "";
        const char *at = NULL;

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                if (access(places[i], X_OK) < 0)
                        continue;
                if (i > 0)
                        read_version(places[i], version, sizeof version);
                if (i == 0 || str_starts(version, "virtiofsd version ")) {
                        (void)snprintf(ret, PATH_MAX, "%s", places[i]);
                        return 0;
                }
                at = places[i];
                memcpy(other, version, sizeof other);
        }
        if (!at) {
                (void)err_set(err, ERR_UNENFORCED, "'%s' is not installed", VM_FS_PROGRAM);
                return err_hint(err, "as root: apt-get install qemu-system-common");
        }
        (void)err_set(err, ERR_UNENFORCED, "'%s' (%s) is not the virtiofsd of QEMU 7.2 or before, which microVMs need",
                      at, other[0] ? other : "of an unknown version");
        return err_hint(err, "install QEMU 7.2 with its own (Debian 12: qemu-system-common), or name another driver");
}
