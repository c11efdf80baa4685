/* Images: trees that were unpacked once and are below any number of sandboxes, read-only.
 *
 * An image is there when its `about` is, which is written last. Its files carry canonical ids on the host; nobody but
 * root can get to them, since the folder of all images is closed. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/kernel.h"
#include "disk/tree.h"
#include "disk/volume-internal.h"

enum { ABOUT_MAX = 4096 };

static int show(int folder, int user_ns) {
        struct mount_attr attr = {
                .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                .userns_fd = (unsigned long long)user_ns,
        };
        _cleanup_fd_ int tree = kernel_open_tree(folder, "root", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

        if (tree < 0)
                return tree;
        int r = kernel_mount_setattr(tree, "", AT_EMPTY_PATH, &attr);
        return r < 0 ? r : TAKE_FD(tree);
}

int image_begin(struct volumes *v, const char *id, int user_ns, int *ret_root, struct err *err) {
        _cleanup_fd_ int folder = -EBADF, root = -EBADF;

        int r = volume_check_id(id, err);
        if (r < 0)
                return r;
        if (mkdirat(v->images, id, 0700) < 0)
                return err_set(err, -errno, "cannot make the image %s", id);
        folder = openat(v->images, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = folder < 0 || mkdirat(folder, "root", 0755) < 0 ? -errno : 0;
        if (r == 0) {
                root = show(folder, user_ns);
                r = MIN(root, 0);
        }
        if (r < 0) {
                (void)tree_remove(v->images, id);
                (void)err_set(err, r, "cannot make the image %s", id);
                return r == -EINVAL ? err_hint(err, "the state folder's file system does not know idmapped mounts") : r;
        }
        *ret_root = TAKE_FD(root);
        return 0;
}

int image_finish(struct volumes *v, const char *id, const char *about, struct err *err) {
        _cleanup_fd_ int folder = -EBADF;

        int r = volume_check_id(id, err);
        if (r < 0)
                return r;
        if (strlen(about) >= ABOUT_MAX)
                return err_set(err, ERR_LIMIT, "the text about an image is longer than %d bytes", ABOUT_MAX);
        folder = openat(v->images, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        /* what was unpacked is on the host's disk before it counts */
        if (folder < 0 || syncfs(folder) < 0)
                r = -errno;
        if (r == 0)
                r = fd_replace_file(folder, "about", 0600, about, strlen(about));
        if (r == 0 && fsync(folder) < 0)
                r = -errno;
        return r < 0 ? err_set(err, r, "cannot finish the image %s", id) : 0;
}

int image_drop(struct volumes *v, const char *id, struct err *err) {
        int r = volume_check_id(id, err);

        if (r < 0)
                return r;
        r = volume_discard(v, v->images, id);
        return r < 0 && r != -ENOENT ? err_set(err, r, "could not drop the image %s", id) : 0;
}

int image_about(struct volumes *v, const char *id, char *buf, size_t size) {
        char path[VOLUME_ID_SIZE + 8];

        if (!volume_is_id(id))
                return -EINVAL;
        (void)snprintf(path, sizeof path, "%s/about", id);
        return (int)fd_read_at(v->images, path, buf, size);
}
