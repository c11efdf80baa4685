/* One table says what the root holds, so that the floor's tmpfs, the template, the runc bundle and bwrap's /etc are the
 * same tree. Nothing here is executable: programs come from the host's /usr, mounted on "usr". */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/tree.h"

const char *const tree_devices[6] = {"null", "zero", "full", "random", "urandom", "tty"};

struct tree_entry {
        char kind; /* d: directory, f: file, l: link */
        const char *name;
        const char *text; /* content of a file, target of a link */
};

static const struct tree_entry tree_entries[] = {
        {'d', "usr", NULL},
        {'d', "etc", NULL},
        {'d', "proc", NULL},
        {'d', "dev", NULL},
        {'d', "tmp", NULL},
        {'d', "run", NULL},
        {'d', "home", NULL},
        {'l', "bin", "usr/bin"},
        {'l', "sbin", "usr/sbin"},
        {'l', "lib", "usr/lib"},
        {'l', "lib64", "usr/lib64"},
        {'f', "etc/passwd", "root:x:0:0:root:/:/bin/sh\nagent:x:1000:1000:agent:/tmp:/bin/sh\n"},
        {'f', "etc/group", "root:x:0:\ntty:x:5:\nagent:x:1000:\n"},
        {'f', "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
        {'f', "etc/hostname", "sandbox\n"},
        {'f', "etc/resolv.conf", ""},
        {'f', "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
        {'f', "etc/machine-id", "00000000000000000000000000000000\n"},
        {'d', "etc/alternatives", NULL},
        {'d', "etc/chromium.d", NULL},
        {'d', "etc/fonts", NULL},
        {'d', "etc/java-17-openjdk", NULL},
        {'d', "etc/ssl", NULL},
        {'d', "etc/ssl/certs", NULL},
        {'l', "etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
        {'l', "etc/mtab", "/proc/self/mounts"},
        {'l', "dev/fd", "/proc/self/fd"},
        {'l', "dev/stdin", "/proc/self/fd/0"},
        {'l', "dev/stdout", "/proc/self/fd/1"},
        {'l', "dev/stderr", "/proc/self/fd/2"},
        {'l', "dev/ptmx", "pts/ptmx"},
        {'d', "dev/pts", NULL},
        {'f', "dev/null", ""},
        {'f', "dev/zero", ""},
        {'f', "dev/full", ""},
        {'f', "dev/random", ""},
        {'f', "dev/urandom", ""},
        {'f', "dev/tty", ""},
};

static int tree_file(int root, const char *name, const char *text) {
        _cleanup_fd_ int fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
                return -errno;
        return text[0] != '\0' ? fd_write_full(fd, text, strlen(text)) : 0;
}

int tree_fill(int root) {
        for (size_t i = 0; i < ELEMENTSOF(tree_entries); i++) {
                const struct tree_entry *e = &tree_entries[i];
                int r = 0;
                switch (e->kind) {
                case 'd':
                        r = mkdirat(root, e->name, 0755) < 0 ? -errno : 0;
                        break;
                case 'l':
                        r = symlinkat(e->text, root, e->name) < 0 ? -errno : 0;
                        break;
                default:
                        r = tree_file(root, e->name, e->text);
                        break;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

int tree_remove(int dir, const char *name) {
        if (unlinkat(dir, name, 0) == 0)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        DIR *d = fdopendir(fd);
        if (!d) {
                fd_close(&fd);
                return -ENOMEM;
        }
        int r = 0;
        for (struct dirent *e; r == 0 && (e = readdir(d));)
                if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
                        r = tree_remove(fd, e->d_name);
        (void)closedir(d);
        if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
                r = -errno;
        return r;
}
