/* Blank disks: one template per size and number of inodes, made by mke2fs once, and copies of it.
 *
 * A copy takes a fraction of a millisecond, because a blank file system has few blocks; some are kept ready under fixed
 * names, and on the host's disk, so that taking one is a rename. Others are young until somebody has waited for the
 * host's disk: that takes longer than all the rest. Templates can always be made again; the oldest go when there are
 * many kinds.
 *
 * What a template is like, and why:
 *   - a journal of 4 MiB: after a power cut, and in a copy that was taken of a running sandbox's disk, the kernel puts
 * it right by itself. It costs half a millisecond at mount and 40 KiB while mounted; without one we would have to run a
 *     checker, as root, on what a sandbox wrote;
 *   - nothing is initialized later: images stay as small as what was written to them;
 *   - exact quotas: what is left over (rounding, the kernel's own reserve) is taken up by `reserve`, so that as many
 *     bytes and files are free as were asked for, no more and no less;
 *   - checksums do not depend on the UUID, so that each copy gets one of its own by changing one block. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel.h"
#include "disk/copy.h"
#include "disk/superblock.h"
#include "disk/tree.h"
#include "disk/volume-internal.h"

enum {
        KINDS_MAX = 32,    /* templates that are kept */
        PER_GROUP = 32768, /* blocks of 4 KiB */
        INODE_SIZE = 256,
        JOURNAL = 1024,     /* blocks: the least that there can be */
        OWN_INODES = 16,    /* reserved ones, upper, work, work/work, reserve, fill */
        FILLERS_MAX = 8192, /* beyond, a few inodes more than asked for are free: disks above 64 GiB */
        SPARE = 256,        /* blocks for the last group's bookkeeping, and folders */
        TRIES = 4,
};

#define KIND_SIZE 48

static void kind_name(uint64_t blocks, uint64_t inodes, char buf[KIND_SIZE]) {
        (void)snprintf(buf, KIND_SIZE, "%llu-%llu", (unsigned long long)blocks, (unsigned long long)inodes);
}

int volume_copy(int from, int to) {
        struct stat st;

        if (fstat(from, &st) < 0)
                return -errno;
        int r = ioctl(to, FICLONE, from) == 0 ? 0 : copy_sparse(from, to, (uint64_t)st.st_size);
        return r < 0 ? r : superblock_rename(to);
}

/* --- making a template --- */

static uint64_t groups_of(uint64_t blocks) {
        return (blocks + PER_GROUP - 1) / PER_GROUP;
}

/* Blocks that an image needs so that this many are free in it; rather a few too many. */
static uint64_t total_blocks(uint64_t blocks, uint64_t inodes) {
        uint64_t total = blocks;

        for (unsigned i = 0; i < 4; i++) {
                uint64_t groups = groups_of(total), table = (inodes + groups * 16) * INODE_SIZE / VOLUME_BLOCK + groups;
                total = blocks + table + 3 * groups + groups * 64 / VOLUME_BLOCK + JOURNAL + SPARE +
                        MIN(blocks / 48 + 64, 4200U);
        }
        /* a group has one block to say which of its inodes are taken */
        total = MAX(total, inodes / (PER_GROUP - 64) * PER_GROUP + 1024);
        /* a last group that is too small for its own bookkeeping would be left out */
        return total + (total % PER_GROUP < 1024 ? 1024 : 0);
}

static _noreturn_ void exec_mke2fs(int image, int said, uint64_t blocks, uint64_t inodes, const char *label) {
        static const char *const programs[] = {"/sbin/mke2fs", "/usr/sbin/mke2fs"};
        char count[24], total[24];
        char *const argv[] = {
                (char *)"mke2fs",
                (char *)"-q",
                (char *)"-F",
                (char *)"-t",
                (char *)"ext4",
                (char *)"-b",
                (char *)"4096",
                (char *)"-I",
                (char *)"256",
                (char *)"-m",
                (char *)"0",
                (char *)"-e",
                (char *)"remount-ro",
                (char *)"-J",
                (char *)"size=4",
                (char *)"-L",
                (char *)(uintptr_t)label,
                (char *)"-N",
                count,
                (char *)"-O",
                (char *)"none,has_journal,extent,flex_bg,dir_index,filetype,large_file,huge_file,dir_nlink,extra_isize,"
                        "ext_attr,metadata_csum,metadata_csum_seed,sparse_super2",
                (char *)"-E",
                (char *)"lazy_itable_init=0,lazy_journal_init=1,num_backup_sb=0,root_owner=0:0",
                (char *)"/proc/self/fd/3",
                total,
                NULL};
        /* the same on every host, whatever its configuration says */
        char *const envp[] = {(char *)"MKE2FS_CONFIG=/dev/null", (char *)"LC_ALL=C", NULL};
        int null = open("/dev/null", O_RDWR);

        (void)snprintf(count, sizeof count, "%llu", (unsigned long long)inodes);
        (void)snprintf(total, sizeof total, "%llu", (unsigned long long)blocks);
        /* both are above 3 for the time being, so that neither overwrites the other */
        image = fcntl(image, F_DUPFD, 10);
        said = fcntl(said, F_DUPFD, 10);
        if (null >= 0 && image >= 0 && said >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(said, 2) == 2 &&
            dup2(image, 3) == 3) {
                (void)close(image);
                (void)close(said);
                for (size_t i = 0; i < ELEMENTSOF(programs); i++)
                        (void)execve(programs[i], argv, envp);
        }
        _exit(127);
}

static int make_fs(int image, uint64_t blocks, uint64_t inodes, const char *label, struct err *err) {
        char said[300] = "";
        int pipes[2], status;

        if (pipe2(pipes, O_CLOEXEC) < 0)
                return err_set(err, -errno, "cannot start mke2fs");
        _cleanup_fd_ int in = pipes[0], out = pipes[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_set(err, -errno, "cannot start mke2fs");
        if (pid == 0)
                exec_mke2fs(image, out, blocks, inodes, label);
        fd_close(&out);
        /* it says little; what is more than this is not waited for by anybody */
        ssize_t n = fd_read_full(in, said, sizeof said - 1);
        said[MAX(n, 0)] = '\0';
        fd_close(&in);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return err_set(err, -errno, "cannot wait for mke2fs");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
                (void)err_set(err, ERR_UNENFORCED, "there is no mke2fs to make disks with");
                (void)err_hint(err, "install e2fsprogs");
                return ERR_UNENFORCED;
        }
        said[strcspn(said, "\n")] = '\0';
        (void)err_set(err, ERR_LIMIT, "mke2fs could not make a disk of %llu blocks and %llu inodes: %.200s",
                      (unsigned long long)blocks, (unsigned long long)inodes, said);
        return ERR_LIMIT;
}

/* upper and work, and `reserve` with as many empty files as there are inodes too many. upper belongs to nobody until it
 * is mounted for the first time. */
static int furnish(int root, uint64_t inodes) {
        struct statvfs fs;
        char name[16];

        if (mkdirat(root, "upper", 0) < 0 || mkdirat(root, "work", 0700) < 0 || mkdirat(root, "work/work", 0) < 0 ||
            mkdirat(root, "reserve", 0700) < 0 || unlinkat(root, "lost+found", AT_REMOVEDIR) < 0)
                return -errno;
        _cleanup_fd_ int reserve = openat(root, "reserve", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fill = -EBADF;
        if (reserve < 0)
                return -errno;
        fill = openat(reserve, "fill", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fill < 0 || fstatvfs(root, &fs) < 0)
                return -errno;
        if (fs.f_ffree < inodes)
                return -ENOSPC;
        for (uint64_t i = MIN(fs.f_ffree - inodes, (uint64_t)FILLERS_MAX); i > 0; i--) {
                (void)snprintf(name, sizeof name, "%llu", (unsigned long long)i);
                _cleanup_fd_ int fd = openat(reserve, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (fd < 0)
                        return -errno;
        }
        return 0;
}

/* Takes blocks away until exactly so many are free. They are never written: the image does not grow. */
static int fill_up(int root, uint64_t blocks) {
        _cleanup_fd_ int fill = openat(root, "reserve/fill", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        uint64_t filled = 0;
        struct statvfs fs;

        if (fill < 0)
                return -errno;
        for (unsigned i = 0; i < TRIES; i++) {
                if (syncfs(root) < 0 || fstatvfs(root, &fs) < 0)
                        return -errno;
                if (fs.f_bavail == blocks)
                        return 0;
                if (fs.f_bavail < blocks) { /* the extents of the filling itself took some */
                        if (blocks - fs.f_bavail > filled)
                                return -ENOSPC;
                        filled -= blocks - fs.f_bavail;
                        if (ftruncate(fill, (off_t)(filled * VOLUME_BLOCK)) < 0)
                                return -errno;
                        continue;
                }
                filled += fs.f_bavail - blocks;
                if (fallocate(fill, 0, 0, (off_t)(filled * VOLUME_BLOCK)) < 0)
                        return -errno;
        }
        return -ENOSPC;
}

/* -ENOSPC: a few blocks more are needed. */
static int build_once(struct volumes *v, int image, uint64_t total, uint64_t blocks, uint64_t inodes, struct err *err) {
        char label[SUPERBLOCK_LABEL_SIZE];

        if (ftruncate(image, 0) < 0 || ftruncate(image, (off_t)(total * VOLUME_BLOCK)) < 0)
                return err_set(err, -errno, "cannot make a blank disk");
        int r = make_fs(image, total, inodes + OWN_INODES, superblock_label(blocks, inodes, label), err);
        if (r < 0)
                return r;
        _cleanup_fd_ int mount = volume_ext4_plain(v, image), root = -EBADF;
        if (mount < 0)
                return err_set(err, mount, "cannot mount a blank disk");
        root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = root < 0 ? -errno : furnish(root, inodes);
        if (r == 0)
                r = fill_up(root, blocks);
        return r < 0 && r != -ENOSPC ? err_set(err, r, "cannot furnish a blank disk") : r;
}

static int build(struct volumes *v, int image, uint64_t blocks, uint64_t inodes, struct err *err) {
        uint64_t total = total_blocks(blocks, inodes);
        struct superblock sb;
        int r = -ENOSPC;

        for (unsigned i = 0; r == -ENOSPC && i < TRIES; i++, total += total / 32 + SPARE)
                r = build_once(v, image, total, blocks, inodes, err);
        if (r == -ENOSPC)
                return err_set(err, r, "cannot make a blank disk of %llu blocks", (unsigned long long)blocks);
        if (r < 0)
                return r;
        r = superblock_read(image, &sb);
        if (r < 0 || sb.dirty || sb.quota_blocks != blocks || sb.quota_inodes != inodes)
                return err_set(err, r < 0 ? r : ERR_CORRUPT, "the blank disk is not as it should be");
        return 0;
}

/* --- keeping templates --- */

/* Makes room for one more: the template that was used least lately goes. */
static void prune(struct volumes *v) {
        struct tree_names names = {0};
        size_t oldest = SIZE_MAX, kinds = 0;
        struct timespec when = {0};

        if (tree_list(v->blank, 4096, &names) < 0)
                return;
        for (size_t i = 0; i < names.count; i++) {
                struct stat st;

                if (names.name[i][0] < '0' || names.name[i][0] > '9' ||
                    fstatat(v->blank, names.name[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                kinds++;
                if (oldest == SIZE_MAX || st.st_mtim.tv_sec < when.tv_sec) {
                        oldest = i;
                        when = st.st_mtim;
                }
        }
        if (kinds >= KINDS_MAX)
                (void)tree_remove(v->blank, names.name[oldest]);
        tree_names_free(&names);
}

static void sweep_names(int dir, bool kinds) {
        struct tree_names names = {0};

        if (tree_list(dir, 1 << 16, &names) < 0)
                return;
        for (size_t i = 0; i < names.count; i++) {
                if (str_starts(names.name[i], "new-"))
                        (void)tree_remove(dir, names.name[i]);
                else if (kinds && names.name[i][0] >= '0' && names.name[i][0] <= '9') {
                        _cleanup_fd_ int kind = openat(dir, names.name[i],
                                                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                        if (kind >= 0)
                                sweep_names(kind, false);
                }
        }
        tree_names_free(&names);
}

void volume_blank_sweep(struct volumes *v) {
        sweep_names(v->blank, true);
}

/* The folder of a kind, with its template in it, made under another name first. */
static int make_kind(struct volumes *v, const char *kind, uint64_t blocks, uint64_t inodes, struct err *err) {
        char new[64];
        _cleanup_fd_ int folder = -EBADF, rough = -EBADF, template = -EBADF;

        (void)snprintf(new, sizeof new, "new-%ld", (long)getpid());
        (void)tree_remove(v->blank, new);
        prune(v);
        if (mkdirat(v->blank, new, 0700) < 0)
                return err_set(err, -errno, "cannot make a blank disk");
        folder = openat(v->blank, new, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int r = folder < 0 ? -errno : 0;
        if (r == 0) {
                rough = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
                template = openat(folder, "template", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                r = rough < 0 || template <0 ? -errno : 0;
        }
        if (r < 0)
                (void)err_set(err, r, "cannot make a blank disk");
        if (r == 0)
                r = build(v, rough, blocks, inodes, err);
        if (r == 0) {
                /* mke2fs reserves room for what it leaves empty; a copy has only what is there */
                struct stat st;
                r = fstat(rough, &st) < 0 ? -errno : copy_sparse(rough, template, (uint64_t)st.st_size);
                /* every disk comes from it: it must not be hollow after a loss of power */
                if (r == 0 && (fsync(template) < 0 || fsync(folder) < 0))
                        r = -errno;
                if (r == 0 && renameat(v->blank, new, v->blank, kind) < 0 && errno != ENOTEMPTY && errno != EEXIST)
                        r = -errno;
                if (r < 0)
                        (void)err_set(err, r, "cannot keep a blank disk");
        }
        (void)tree_remove(v->blank, new);
        return r;
}

/* One that lost its contents is made again. */
static int open_template(int folder) {
        _cleanup_fd_ int fd = openat(folder, "template", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct superblock sb;

        if (fd < 0)
                return -errno;
        return superblock_read(fd, &sb) < 0 ? -ENOENT : TAKE_FD(fd);
}

/* The folder of a kind and its template. */
static int open_kind(struct volumes *v, uint64_t blocks, uint64_t inodes, int *ret_template, struct err *err) {
        char kind[KIND_SIZE];

        kind_name(blocks, inodes, kind);
        for (unsigned i = 0;; i++) {
                _cleanup_fd_ int folder = openat(v->blank, kind, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                int fd = folder < 0 ? -errno : open_template(folder);
                if (fd >= 0) {
                        *ret_template = fd;
                        return TAKE_FD(folder);
                }
                if (fd != -ENOENT || i > 0)
                        return err_set(err, fd, "cannot open the blank disk '%s'", kind);
                if (folder >= 0) /* somebody took its template away */
                        (void)tree_remove(v->blank, kind);
                int r = make_kind(v, kind, blocks, inodes, err);
                if (r < 0)
                        return r;
        }
}

static int check_size(uint64_t size, uint64_t inodes, struct err *err) {
        if (size == 0 || inodes == 0 || size > VOLUME_SIZE_MAX || inodes > VOLUME_INODES_MAX ||
            inodes > MAX(size / 1024, (uint64_t)1 << 20)) {
                (void)err_set(err, ERR_LIMIT, "a disk cannot have %llu bytes and %llu files", (unsigned long long)size,
                              (unsigned long long)inodes);
                (void)err_hint(err, "at most 8 TiB, and no more files than a million or one for each KiB");
                return ERR_LIMIT;
        }
        return 0;
}

/* settled: it is on the host's disk when this returns. */
static int copy_to(int template, int folder, const char *name, bool settled) {
        _cleanup_fd_ int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        int r = volume_copy(template, fd);
        if (r == 0 && settled && fsync(fd) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(folder, name, 0);
        return r;
}

bool volume_quick(struct volumes *v, uint64_t size, uint64_t inodes) {
        char path[KIND_SIZE + 16], kind[KIND_SIZE];
        struct stat st;

        kind_name(size / VOLUME_BLOCK + (size % VOLUME_BLOCK != 0), inodes, kind);
        (void)snprintf(path, sizeof path, "%s/template", kind);
        return fstatat(v->blank, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* One that is ready; -ENOENT: there is none. */
static int take_ready(struct volumes *v, const char *kind, int folder, const char *name) {
        _cleanup_fd_ int dir = openat(v->blank, kind, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct tree_names names = {0};

        if (dir < 0)
                return -errno;
        int r = tree_list(dir, 4096, &names), taken = -ENOENT;
        for (size_t i = 0; r == 0 && taken == -ENOENT && i < names.count; i++)
                if (str_starts(names.name[i], "ready-")) /* one that another child takes first is not there any more */
                        taken = renameat(dir, names.name[i], folder, name) < 0 ? -errno : 0;
        tree_names_free(&names);
        return r < 0 ? r : taken;
}

static int mark_young(int folder) {
        int fd = openat(folder, VOLUME_YOUNG, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
                return -errno;
        (void)close(fd);
        return 0;
}

int volume_blank(struct volumes *v, uint64_t size, uint64_t inodes, int folder, const char *name, struct err *err) {
        uint64_t blocks = size / VOLUME_BLOCK + (size % VOLUME_BLOCK != 0);
        char kind[KIND_SIZE];
        _cleanup_fd_ int kinds = -EBADF, template = -EBADF;

        int r = check_size(size, inodes, err);
        if (r < 0)
                return r;
        kind_name(blocks, inodes, kind);
        r = take_ready(v, kind, folder, name);
        if (r != -ENOENT)
                return r < 0 ? err_set(err, r, "cannot take a blank disk") : 0;
        kinds = open_kind(v, blocks, inodes, &template, err);
        if (kinds < 0)
                return kinds;
        (void)futimens(kinds, NULL);
        r = mark_young(folder); /* before the image has its name: where the one is the other is */
        if (r == 0)
                r = copy_to(template, folder, "new", false);
        if (r == 0 && renameat(folder, "new", folder, name) < 0)
                r = -errno;
        return r < 0 ? err_set(err, r, "cannot copy a blank disk") : 0;
}

int volume_prepare(struct volumes *v, uint64_t size, uint64_t inodes, unsigned count, struct err *err) {
        uint64_t blocks = size / VOLUME_BLOCK + (size % VOLUME_BLOCK != 0);
        _cleanup_fd_ int kinds = -EBADF, template = -EBADF;
        char ready[32], new[32];

        int r = check_size(size, inodes, err);
        if (r < 0)
                return r;
        kinds = open_kind(v, blocks, inodes, &template, err);
        if (kinds < 0)
                return kinds;
        (void)futimens(kinds, NULL);
        (void)snprintf(new, sizeof new, "new-%ld", (long)getpid());
        for (unsigned i = 0; i < MIN(count, (unsigned)VOLUME_READY_MAX); i++) {
                struct stat st;

                (void)snprintf(ready, sizeof ready, "ready-%u", i);
                if (fstatat(kinds, ready, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        continue;
                (void)unlinkat(kinds, new, 0);
                r = copy_to(template, kinds, new, true);
                if (r == 0)
                        r = (int)kernel_result(syscall(SYS_renameat2, kinds, new, kinds, ready, RENAME_NOREPLACE));
                if (r == -EEXIST)
                        r = 0; /* another child was faster */
                if (r < 0)
                        return err_set(err, r, "cannot keep a blank disk ready");
        }
        (void)unlinkat(kinds, new, 0);
        return 0;
}
