/* stockade-vm-image: makes what a microVM boots from a kernel that is installed.
 *
 *     stockade-vm-image KERNEL MODULES INIT FOLDER
 *
 * KERNEL is /boot/vmlinuz-RELEASE, MODULES /lib/modules/RELEASE, INIT our stockade-vm-init. FOLDER gets `kernel`, the
 * uncompressed kernel, and `initrd`, an archive with INIT and the modules that it loads, in the order of their names,
 * and nothing else. The same input gives the same bytes. Needs no privilege. Each file appears whole or not at all, the
 * kernel last: where there is a kernel, the image is complete. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "driver/vm-kernel.h"

#define IMAGE_MAX   (64U << 20)
#define KERNEL_MAX  (256U << 20)
#define MODULE_MAX  (8U << 20)
#define ARCHIVE_MAX (64U << 20)

/* Each needs those before it. ext4 and tmpfs are built into the kernels that we take. */
static const char *const modules[] = {
        "kernel/drivers/virtio/virtio.ko",
        "kernel/drivers/virtio/virtio_ring.ko",
        "kernel/drivers/virtio/virtio_mmio.ko",
        "kernel/drivers/char/virtio_console.ko",
        "kernel/drivers/block/virtio_blk.ko",
        "kernel/net/core/failover.ko",
        "kernel/drivers/net/net_failover.ko",
        "kernel/drivers/net/virtio_net.ko",
        "kernel/fs/fuse/fuse.ko",
        "kernel/fs/fuse/virtiofs.ko",
        "kernel/fs/overlayfs/overlay.ko",
};

/* What machines without virtio-serial load besides (vm-stream.h), and where random numbers come from there. */
static const char *const vsock_modules[] = {
        "kernel/net/vmw_vsock/vsock.ko",
        "kernel/net/vmw_vsock/vmw_vsock_virtio_transport_common.ko",
        "kernel/net/vmw_vsock/vmw_vsock_virtio_transport.ko",
        "kernel/drivers/char/hw_random/virtio-rng.ko",
};

struct archive {
        struct buf bytes;
        unsigned entries;
};

/* One entry of a "newc" archive: everybody's times are 0, all are root's. */
static void add_entry(struct archive *a, const char *name, unsigned mode, const void *data, size_t size) {
        buf_printf(&a->bytes, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", ++a->entries, mode, 0U, 0U,
                   1U, 0U, (unsigned)size, 0U, 0U, 0U, 0U, (unsigned)strlen(name) + 1, 0U);
        buf_add(&a->bytes, name, strlen(name) + 1);
        buf_pad(&a->bytes, 4);
        buf_add(&a->bytes, data, size);
        buf_pad(&a->bytes, 4);
}

static int add_module(struct archive *a, int folder, const char *path, const char *name, const char *release,
                      struct err *err) {
        _cleanup_free_ char *bytes = NULL;
        size_t size;
        int r = fd_read_file(folder, path, MODULE_MAX, true, &bytes, &size, err);

        if (r == 0)
                r = vm_module_check((const uint8_t *)bytes, size, release, err);
        if (r < 0)
                return err_prefix(err, r, "%s", path);
        add_entry(a, name, S_IFREG | 0644, bytes, size);
        return 0;
}

/* at: the folder in the archive. */
static int add_modules(struct archive *a, int folder, const char *at, const char *const *paths, size_t count,
                       const char *release, struct err *err) {
        char name[96];
        int r = 0;

        add_entry(a, at, S_IFDIR | 0755, NULL, 0);
        for (size_t i = 0; r == 0 && i < count; i++) {
                (void)snprintf(name, sizeof name, "%s/%02zu-%s", at, i, strrchr(paths[i], '/') + 1);
                r = add_module(a, folder, paths[i], name, release, err);
        }
        return r;
}

static int make_archive(struct archive *a, const char *init, int folder, const char *release, struct err *err) {
        _cleanup_free_ char *bytes = NULL;
        size_t size;

        int r = fd_read_file(AT_FDCWD, init, MODULE_MAX, false, &bytes, &size, err);
        if (r < 0)
                return r;
        if (size < 4 || memcmp(bytes, "\177ELF", 4) != 0)
                return err_set(err, ERR_INPUT, "'%s' is no program", init);
        add_entry(a, "init", S_IFREG | 0755, bytes, size);
        r = add_modules(a, folder, "modules", modules, ELEMENTSOF(modules), release, err);
        if (r == 0)
                r = add_modules(a, folder, "modules-vsock", vsock_modules, ELEMENTSOF(vsock_modules), release, err);
        if (r < 0)
                return r;
        add_entry(a, "TRAILER!!!", 0, NULL, 0);
        return buf_ok(&a->bytes) ? 0 : err_set(err, ERR_LIMIT, "the archive has more than %u bytes", ARCHIVE_MAX);
}

static int write_file(int folder, const char *name, const struct buf *b, struct err *err) {
        int r = fd_replace_file(folder, name, 0644, b->data, b->size);

        return r < 0 ? err_set(err, r, "could not write '%s'", name) : 0;
}

static int make_image(char **argv, struct err *err) {
        _cleanup_(buf_free) struct buf kernel = {.max = KERNEL_MAX};
        struct archive a = {.bytes.max = ARCHIVE_MAX};
        _cleanup_free_ char *image = NULL;
        char release[VM_RELEASE_SIZE];
        size_t size;
        _cleanup_fd_ int folder = -EBADF, tree = -EBADF;

        int r = fd_read_file(AT_FDCWD, argv[1], IMAGE_MAX, false, &image, &size, err);
        if (r < 0)
                return r;
        r = vm_kernel_unpack((const uint8_t *)image, size, &kernel, release, err);
        if (r < 0)
                return err_prefix(err, r, "'%s'", argv[1]);
        tree = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (tree < 0)
                return err_set(err, -errno, "cannot open the modules '%s'", argv[2]);
        folder = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0)
                return err_set(err, -errno, "cannot open the folder '%s'", argv[4]);
        r = make_archive(&a, argv[3], tree, release, err);
        if (r == 0)
                r = write_file(folder, "initrd", &a.bytes, err);
        if (r == 0)
                r = write_file(folder, "kernel", &kernel, err);
        buf_free(&a.bytes);
        return r;
}

int main(int argc, char **argv) {
        struct err err = {0};

        if (argc != 5) {
                (void)err_set(&err, ERR_INPUT, "stockade-vm-image takes a kernel, its modules, an init and a folder");
                (void)err_hint(&err, "stockade-vm-image /boot/vmlinuz-RELEASE /lib/modules/RELEASE stockade-vm-init "
                                     "FOLDER");
        } else if (make_image(argv, &err) == 0)
                return 0;
        err_print(&err);
        return 1;
}
