/* Requests about names of files: what is there, folders, moving, space. The guest is confined as the programs beside it
 * are, so a path is resolved by the kernel as it would be for them; nothing here guards against links. */
#include "guest/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES_ONCE 64 /* of one step */

int files_parent(const char *path, char *name, int *ret_dir) {
        char parent[GUEST_PATH_MAX];
        size_t end = strlen(path), start;

        while (end > 1 && path[end - 1] == '/')
                end--;
        for (start = end; start > 0 && path[start - 1] != '/'; start--)
                ;
        size_t n = end - start;
        if (n == 0 || (n == 1 && path[start] == '.') || (n == 2 && path[start] == '.' && path[start + 1] == '.'))
                return -EINVAL;
        if (n > NAME_MAX || start >= sizeof parent)
                return -ENAMETOOLONG;
        memcpy(parent, path, start);
        parent[start] = '\0';
        int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        memcpy(name, path + start, n);
        name[n] = '\0';
        *ret_dir = fd;
        return 0;
}

int files_make_parents(const char *path, mode_t mode) {
        char part[GUEST_PATH_MAX];
        size_t size = strlen(path);
        struct stat st;

        memcpy(part, path, size + 1);
        for (char *p = part + 1; *p; p++) {
                if (*p != '/' || p[-1] == '/')
                        continue;
                *p = '\0';
                int error = mkdir(part, 0755) < 0 ? -errno : 0;
                if (error < 0 && error != -EEXIST && (stat(part, &st) < 0 || !S_ISDIR(st.st_mode)))
                        return error;
                *p = '/';
        }
        if (mkdir(part, mode) == 0)
                return 0;
        if (errno != EEXIST)
                return -errno;
        if (stat(part, &st) < 0)
                return -errno;
        return S_ISDIR(st.st_mode) ? 0 : -EEXIST;
}

uint64_t files_time_ms(const struct stat *st) {
        return st->st_mtim.tv_sec < 0 ? 0
                                      : (uint64_t)st->st_mtim.tv_sec * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000;
}

int files_say_entry(struct guest *g, struct request *r, int dir, const char *name, const char *shown) {
        char target[GUEST_PATH_MAX];
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        struct guest_message m = {
                .kind = GUEST_ENTRY,
                .mode = st.st_mode & 0177777,
                .size = (uint64_t)st.st_size,
                .time_ms = files_time_ms(&st),
                .inode = st.st_ino,
                .uid = st.st_uid,
                .gid = st.st_gid,
                .path = shown,
        };
        if (S_ISLNK(st.st_mode)) {
                ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
                if (n >= 0) {
                        target[n] = '\0';
                        m.target = target;
                }
        }
        r->entries++;
        request_say(g, r, &m);
        return 0;
}

static int stat_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        int error = files_say_entry(g, r, AT_FDCWD, m->path, m->path);

        if (error == 0)
                request_end(g, r, 0, NULL);
        return error;
}
const struct request_kind stat_kind = {.size = sizeof(struct request), .begin = stat_begin};

static int mkdir_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        int error = 0;

        if (r->flags & GUEST_PARENTS)
                error = files_make_parents(m->path, m->mode);
        else if (mkdir(m->path, m->mode) < 0)
                error = -errno;
        if (error == 0)
                request_end(g, r, 0, NULL);
        return error;
}
const struct request_kind mkdir_kind = {.size = sizeof(struct request), .begin = mkdir_begin};

int files_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace) {
        return syscall(SYS_renameat2, from_dir, from, to_dir, to, replace ? 0 : RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static int move_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        int error = files_rename(AT_FDCWD, m->path, AT_FDCWD, m->target, !(r->flags & GUEST_NO_REPLACE));

        request_end(g, r, error, "cannot move '%s' to '%s'%s", m->path, m->target,
                    error == -EXDEV ? ", which is on another disk: copy it" : "");
        return 0;
}
const struct request_kind move_kind = {.size = sizeof(struct request), .begin = move_begin};

static int usage_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct guest_message end = {.kind = GUEST_END};
        struct statvfs v;

        if (statvfs(m->path, &v) < 0)
                return -errno;
        end.numbers[GUEST_BYTES] = (uint64_t)v.f_blocks * v.f_frsize;
        end.numbers[GUEST_BYTES_FREE] = (uint64_t)v.f_bavail * v.f_frsize;
        end.numbers[GUEST_INODES] = v.f_files;
        end.numbers[GUEST_INODES_FREE] = v.f_favail;
        request_end_with(g, r, &end);
        return 0;
}
const struct request_kind usage_kind = {.size = sizeof(struct request), .begin = usage_begin};

struct list {
        struct request request;
        DIR *dir;
};

static int list_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct list *l = (struct list *)r;

        l->dir = opendir(m->path);
        if (!l->dir)
                return -errno;
        request_wake(g, r);
        return 0;
}

static void list_step(struct guest *g, struct request *r) {
        struct list *l = (struct list *)r;

        for (unsigned n = 0; n < ENTRIES_ONCE && link_has_room(&g->link); n++) {
                errno = 0;
                struct dirent *e = readdir(l->dir);

                if (!e)
                        return request_end(g, r, -errno, "could not read the folder");
                if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
                        continue;
                /* one that went away meanwhile is not there */
                (void)files_say_entry(g, r, dirfd(l->dir), e->d_name, e->d_name);
        }
}

static void list_free(struct guest *g, struct request *r) {
        struct list *l = (struct list *)r;

        (void)g;
        if (l->dir)
                (void)closedir(l->dir);
}
const struct request_kind list_kind = {
        .size = sizeof(struct list), .begin = list_begin, .step = list_step, .free = list_free};
