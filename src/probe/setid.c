/* Attempts to leave a set-user-ID file in a folder that the host shares. One per system call that takes a mode. The
 * files stay where share=FOLDER says, so that the judge can look at them from outside; as a control they are made only
 * there. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "probe/probe.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define SETID_MODE 04755

static const char *place(char path[PATH_MAX], const char *name) {
        const char *share = probe_fact("share"), *otherwise = probe_guard() ? "/nonexistent" : probe_folder();

        (void)snprintf(path, PATH_MAX, "%s/setid-%s", share ? share : otherwise, name);
        return path;
}

/* After the call: is the bit there? */
static void look(struct result *r, const char *path, long value) {
        int error = errno;
        struct stat st;

        if (value < 0)
                probe_refused(r, error, "%s", strerror(error));
        else if (stat(path, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)))
                probe_done(r, "%s has mode %o", path, st.st_mode & 07777U);
        else
                probe_refused(r, 0, "the call worked, the bit is not there");
}

static int plain(const char *path) {
        return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755);
}

static void by_chmod(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = plain(place(path, "chmod"));

        look(r, path, fd < 0 ? -1 : chmod(path, SETID_MODE));
}

static void by_fchmod(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = plain(place(path, "fchmod"));

        look(r, path, fd < 0 ? -1 : fchmod(fd, SETID_MODE));
}

static void by_fchmodat(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = plain(place(path, "fchmodat"));

        look(r, path, fd < 0 ? -1 : syscall(SYS_fchmodat, AT_FDCWD, path, SETID_MODE));
}

static void by_fchmodat2(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = plain(place(path, "fchmodat2"));

        look(r, path, fd < 0 ? -1 : syscall(SYS_fchmodat2, AT_FDCWD, path, SETID_MODE, 0));
}

/* The kernel takes 16 bits of a mode: what is above must not hide it. */
static void by_high_bits(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = plain(place(path, "high-bits"));

        look(r, path, fd < 0 ? -1 : syscall(SYS_fchmod, fd, 0xffff00000000UL | 0x10000UL | SETID_MODE));
}

static void by_open(struct result *r) {
        char path[PATH_MAX];

        (void)place(path, "open");
        look(r, path, syscall(SYS_open, path, O_RDWR | O_CREAT | O_EXCL, SETID_MODE));
}

static void by_openat(struct result *r) {
        char path[PATH_MAX];

        (void)place(path, "openat");
        look(r, path, syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, SETID_MODE));
}

static void by_openat2(struct result *r) {
        char path[PATH_MAX];
        int fd = kernel_openat2(AT_FDCWD, place(path, "openat2"), O_RDWR | O_CREAT | O_EXCL, SETID_MODE, 0);

        errno = -fd;
        look(r, path, fd < 0 ? -1 : fd);
}

static void by_creat(struct result *r) {
        char path[PATH_MAX];

        (void)place(path, "creat");
        if (access(path, F_OK) == 0) /* it would be emptied */
                probe_note(r, "%s is there already", path);
        else
                look(r, path, syscall(SYS_creat, path, SETID_MODE));
}

static void by_mknod(struct result *r) {
        char path[PATH_MAX];

        (void)place(path, "mknod");
        look(r, path, syscall(SYS_mknod, path, S_IFREG | SETID_MODE, 0));
}

static void by_mknodat(struct result *r) {
        char path[PATH_MAX];

        (void)place(path, "mknodat");
        look(r, path, syscall(SYS_mknodat, AT_FDCWD, path, S_IFREG | SETID_MODE, 0));
}

/* A file without a name, made set-user-ID and given one afterwards. */
static void by_tmpfile(struct result *r) {
        char path[PATH_MAX], from[64], folder[PATH_MAX];

        (void)place(path, "tmpfile");
        (void)snprintf(folder, sizeof folder, "%s", path);
        *strrchr(folder, '/') = '\0';
        long fd = syscall(SYS_openat, AT_FDCWD, folder, O_TMPFILE | O_RDWR, SETID_MODE);
        if (fd < 0) {
                look(r, path, -1);
                return;
        }
        (void)snprintf(from, sizeof from, "/proc/self/fd/%ld", fd);
        look(r, path, linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW));
}

static void by_setgid(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = plain(place(path, "setgid"));

        look(r, path, fd < 0 ? -1 : fchmod(fd, 02755));
}

const struct attempt setid_attempts[] = {
        {"setid-chmod", by_chmod, QUICK},         {"setid-fchmod", by_fchmod, QUICK},
        {"setid-fchmodat", by_fchmodat, QUICK},   {"setid-fchmodat2", by_fchmodat2, QUICK},
        {"setid-high-bits", by_high_bits, QUICK}, {"setid-open", by_open, QUICK},
        {"setid-openat", by_openat, QUICK},       {"setid-openat2", by_openat2, QUICK},
        {"setid-creat", by_creat, QUICK},         {"setid-mknod", by_mknod, QUICK},
        {"setid-mknodat", by_mknodat, QUICK},     {"setid-tmpfile", by_tmpfile, QUICK},
        {"setid-setgid", by_setgid, QUICK},       {0},
};
