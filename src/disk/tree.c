/* Descriptor-relative opens, listings and removals.
 *
 * openat2 does the checking in the kernel. Where it is missing, components are opened one by one with O_NOFOLLOW and
 * the device is compared, which is the same promise at a higher price. Long paths are opened in pieces. */
#include <dirent.h> /* first: it declares a function that banned.h forbids */

#include "disk/tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PIECE_MAX = 4000, REMOVE_MAX = 1 << 24 };

static bool openat2_missing;

/* A name that can only mean an entry of the directory itself. */
static bool is_plain(const char *name, size_t length) {
        return length > 0 && length <= 255 && !(length == 1 && name[0] == '.') &&
               !(length == 2 && name[0] == '.' && name[1] == '.');
}

static int open_by_component(int root, const char *path, int flags) {
        _cleanup_fd_ int dir = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct stat top, st;

        if (dir < 0 || fstat(dir, &top) < 0)
                return -errno;
        for (const char *p = path;;) {
                const char *end = strchrnul(p, '/');
                char name[256];

                if (!is_plain(p, (size_t)(end - p)))
                        return -EINVAL;
                memcpy(name, p, (size_t)(end - p));
                name[end - p] = '\0';
                int fd = openat(dir, name, *end ? O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW : flags);
                if (fd < 0)
                        return errno == ENOTDIR && *end ? -ELOOP : -errno;
                fd_close(&dir);
                dir = fd;
                if (fstat(dir, &st) < 0)
                        return -errno;
                if (S_ISDIR(st.st_mode) && st.st_dev != top.st_dev)
                        return -EXDEV;
                if (!*end)
                        return TAKE_FD(dir);
                p = end + 1;
        }
}

static int open_piece(int dir, const char *path, int flags) {
        struct open_how how = {
                .flags = (unsigned)flags | O_CLOEXEC | O_NOFOLLOW,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
        };

        for (unsigned tries = 0; !openat2_missing; tries++) {
                long fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
                if (fd >= 0)
                        return (int)fd;
                if (errno == ENOSYS)
                        openat2_missing = true;
                else if ((errno != EAGAIN && errno != EINTR) || tries > 100) /* EAGAIN: raced with a rename */
                        return -errno;
        }
        return open_by_component(dir, path, flags | O_CLOEXEC | O_NOFOLLOW);
}

int tree_open(int root, const char *path, int flags) {
        _cleanup_fd_ int dir = -EBADF;

        if (path[0] == '\0') {
                int fd = openat(root, ".", flags | O_CLOEXEC);
                return fd < 0 ? -errno : fd;
        }
        while (strlen(path) > PIECE_MAX) {
                char piece[PIECE_MAX + 1];
                size_t length = PIECE_MAX;

                while (length > 0 && path[length] != '/')
                        length--;
                if (length == 0)
                        return -ENAMETOOLONG;
                memcpy(piece, path, length);
                piece[length] = '\0';
                int fd = open_piece(dir < 0 ? root : dir, piece, O_PATH | O_DIRECTORY);
                if (fd < 0)
                        return fd;
                fd_close(&dir);
                dir = fd;
                path += length + 1;
        }
        return open_piece(dir < 0 ? root : dir, path, flags);
}

int tree_open_parent(int root, const char *path, const char **ret_name) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

        if (!is_plain(name, strlen(name)))
                return -EINVAL;
        *ret_name = name;
        if (!slash)
                return tree_open(root, "", O_PATH | O_DIRECTORY);
        _cleanup_free_ char *dir = strndup(path, (size_t)(slash - path));
        if (!dir)
                return -ENOMEM;
        return tree_open(root, dir, O_PATH | O_DIRECTORY);
}

int tree_open_scratch(int root, const char *path, int flags) {
        const char *name;
        struct stat st;

        int fd = tree_open(root, path, flags);
        if (fd != -EACCES || path[0] == '\0')
                return fd;
        _cleanup_fd_ int parent = tree_open_parent(root, path, &name);
        if (parent < 0)
                return parent;
        if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return fd;
        mode_t mode = (st.st_mode & 07777) | (S_ISDIR(st.st_mode) ? 0700 : 0400);
        if (fchmodat(parent, name, mode, AT_SYMLINK_NOFOLLOW) < 0)
                return fd;
        return tree_open(root, path, flags);
}

int tree_stat(int dir, const char *name, struct stat *ret) {
        if (!is_plain(name, strlen(name)) || strchr(name, '/'))
                return -EINVAL;
        _cleanup_fd_ int fd = open_piece(dir, name, O_PATH);
        if (fd < 0)
                return fd;
        return fstat(fd, ret) < 0 ? -errno : 0;
}

void tree_names_free(struct tree_names *names) {
        for (size_t i = 0; i < names->count; i++)
                free(names->name[i]);
        free(names->name);
        *names = (struct tree_names){0};
}

static int by_name(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

bool tree_names_has(const struct tree_names *names, const char *name) {
        return names->count > 0 && bsearch(&name, names->name, names->count, sizeof(char *), by_name);
}

static int names_add(struct tree_names *names, size_t *room, const char *name) {
        if (names->count == *room) {
                size_t more = *room ? 2 * *room : 16;
                char **bigger = reallocarray(names->name, more, sizeof(char *));
                if (!bigger)
                        return -ENOMEM;
                names->name = bigger;
                *room = more;
        }
        names->name[names->count] = strdup(name);
        if (!names->name[names->count])
                return -ENOMEM;
        names->count++;
        return 0;
}

static void dir_close(DIR **dir) {
        if (*dir)
                (void)closedir(*dir);
}

int tree_list(int dir, size_t max, struct tree_names *ret) {
        _cleanup_(tree_names_free) struct tree_names names = {0};
        _cleanup_(dir_close) DIR *stream = NULL;
        size_t room = 0;

        int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        stream = fdopendir(fd);
        if (!stream) {
                fd_close(&fd);
                return -ENOMEM;
        }
        for (;;) {
                errno = 0;
                const struct dirent *e = readdir(stream);
                if (!e && errno != 0)
                        return -errno;
                if (!e)
                        break;
                if (!is_plain(e->d_name, strlen(e->d_name)))
                        continue;
                if (names.count >= max)
                        return ERR_LIMIT;
                int r = names_add(&names, &room, e->d_name);
                if (r < 0)
                        return r;
        }
        if (names.count > 0)
                qsort(names.name, names.count, sizeof(char *), by_name);
        *ret = names;
        names = (struct tree_names){0};
        return 0;
}

static int unlink_path(int root, const char *path, int flags) {
        const char *name;
        _cleanup_fd_ int parent = tree_open_parent(root, path, &name);

        if (parent < 0)
                return parent;
        if (unlinkat(parent, name, flags) < 0 && errno != ENOENT)
                return -errno;
        return 0;
}

/* Removes the files of a directory and puts its directories on the stack. */
static int empty_dir(int root, const char *path, struct tree_names *stack, size_t *room) {
        _cleanup_(tree_names_free) struct tree_names names = {0};
        _cleanup_fd_ int dir = tree_open_scratch(root, path, O_RDONLY | O_DIRECTORY);

        if (dir < 0)
                return dir;
        (void)fchmod(dir, 0700);
        int r = tree_list(dir, REMOVE_MAX, &names);
        for (size_t i = 0; r == 0 && i < names.count; i++) {
                if (unlinkat(dir, names.name[i], 0) == 0 || errno == ENOENT)
                        continue;
                if (errno != EISDIR && errno != EPERM)
                        return -errno;
                _cleanup_free_ char *below = tree_join(path, names.name[i]);
                r = below ? names_add(stack, room, below) : -ENOMEM;
        }
        return r;
}

int tree_remove(int dir, const char *name) {
        _cleanup_(tree_names_free) struct tree_names stack = {0};
        size_t room = 0;

        int r = unlink_path(dir, name, 0);
        if (r != -EISDIR && r != -EPERM)
                return r;
        r = names_add(&stack, &room, name);
        while (r == 0 && stack.count > 0) {
                size_t top = stack.count - 1;

                r = unlink_path(dir, stack.name[top], AT_REMOVEDIR);
                if (r == 0) {
                        free(stack.name[top]);
                        stack.count--;
                } else if (r == -ENOTEMPTY || r == -EEXIST || r == -EACCES) {
                        r = empty_dir(dir, stack.name[top], &stack, &room);
                        /* a directory that stays full although nothing is in it would be tried for ever */
                        if (r == 0 && stack.count == top + 1)
                                r = unlink_path(dir, stack.name[top], AT_REMOVEDIR);
                }
        }
        return r;
}

char *tree_join(const char *dir, const char *name) {
        size_t a = strlen(dir), b = strlen(name);
        char *path = malloc(a + b + 2);

        if (!path)
                return NULL;
        memcpy(path, dir, a);
        if (a > 0)
                path[a++] = '/';
        memcpy(path + a, name, b + 1);
        return path;
}

int tree_compare(const char *a, const char *b) {
        while (*a && *a == *b) {
                a++;
                b++;
        }
        /* '/' comes before every other byte, and the end before '/' */
        int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0, y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
        return x - y;
}

bool tree_is_below(const char *path, const char *dir) {
        size_t n = strlen(dir);

        return strncmp(path, dir, n) == 0 && path[n] == '/';
}
