/* Disks: sparse ext4 images with hard limits on blocks and inodes, on loop devices; the layers that sealed disks
 * become; and the one mount that a sandbox gets of them. For the warden, as root.
 *
 * A disk is the folder <state>/disks/<id> with disk.img, made by copying a blank file system of the same size that was
 * made before (copying the few blocks that a blank one has takes a fraction of a millisecond, mke2fs ten). Inside it
 * are upper/ and work/. A sealed disk is never written again: it is mounted read-only, once, however many sandboxes
 * have it below theirs. What a sandbox sees is upper/ alone when nothing is below it, otherwise an overlay of upper/
 * over the upper/ of each layer, newest first, over the image.
 *
 * Always holds: ids on a disk are canonical (0 to 65535), shown to each sandbox through an idmapped mount; every mount
 * is nosuid and nodev; nothing of a guest's is ever interpreted by anything but the kernel's file system code; one disk
 * is never attached to two loop devices. What fails says so and leaves nothing: no loop device, no mount, no half-made
 * folder. Nothing is kept in memory: which loop device a disk is on is written beside it and asked of the kernel each
 * time, so that a successor knows as much as its predecessor did. */
#pragma once

#include "base/err.h"

#define VOLUME_ID_SIZE    17
#define VOLUME_LAYERS_MAX 64
#define VOLUME_SIZE_MAX   (8ULL << 40)
#define VOLUME_INODES_MAX 1000000000ULL
#define VOLUME_READY_MAX  64 /* blank disks of one kind */

struct volumes; /* one state folder: its disks, images and blank file systems */

/* Opens <state>/disks, images and blank below a descriptor of the state folder; makes them if needed, and removes what
 * somebody who was killed left half-made there. */
int volumes_open(struct volumes **ret, int state, struct err *err);
void volumes_close(struct volumes *v);

/* size bytes of data and as many files and folders as inodes can be put on it, exactly: what a file system needs for
 * itself comes on top. -EEXIST if there is one of this id. */
int volume_make(struct volumes *v, const char *id, uint64_t size, uint64_t inodes, struct err *err);

/* 0 also when it is not there; -EBUSY while it is mounted. Large ones only move to the trash here, since removing them
 * takes time: volume_reclaim does that, in a child. */
int volume_drop(struct volumes *v, const char *id, struct err *err);
int volume_reclaim(struct volumes *v, struct err *err);

/* A disk that is made waits for no disk of the host's: that comes with volume_order, a moment later. If the power goes
 * in between it may come back hollow, or not at all, though its owner was told that it is there: whether this one did,
 * which could not be mounted with this error. There was next to nothing on it: it is to be dropped and made again. */
bool volume_lost(struct volumes *v, const char *id, int error);

/* 1 while it is mounted anywhere, as a disk or as a layer, also if nobody of ours knows of it; 0; -ENOENT; -errno. A
 * sandbox that has just ended may hold its disk for a moment: it writes back what was not on the host yet. */
int volume_busy(struct volumes *v, const char *id);

/* What was written to this mounted disk and has not reached the host need not: it is going to be dropped. Writes fail
 * from here on. Makes the end of its sandbox fast. 0 also if it is not mounted. */
int volume_abandon(struct volumes *v, const char *id, struct err *err);

/* A copy of the image as it is on the host now: reflink where that works, otherwise data extents alone. Run in a child:
 * it may take long. Flush first with volume_flush if the source is mounted writable (and its users are frozen). When
 * the copy is there they can go on; it survives a power cut after volume_sync, which is for a child, too. (A disk that
 * was mounted and ordered (volume_order) is on the host's disk once it is unmounted.) */
int volume_flush(struct volumes *v, const char *id, struct err *err); /* 0 also if it is not mounted */
int volume_clone(struct volumes *v, const char *id, const char *target, struct err *err);
int volume_sync(struct volumes *v, const char *id, struct err *err);

struct volume_space {
        uint64_t host_bytes;        /* allocated on the host */
        uint64_t bytes, bytes_used; /* its quota, and what of it is in use, as its file system says */
        uint64_t inodes, inodes_used;
};
int volume_space(struct volumes *v, const char *id, struct volume_space *ret, struct err *err);

/* Whether volume_make of this size is quick: a template is there. Otherwise it first makes one, which takes as long as
 * mke2fs and the host's disk do: call volume_prepare in a child before. */
bool volume_quick(struct volumes *v, uint64_t size, uint64_t inodes);

/* Keeps so many blank disks of this size ready as files, on the host's disk, so that volume_make is a rename. Called
 * when there is time; may be called in a child. */
int volume_prepare(struct volumes *v, uint64_t size, uint64_t inodes, unsigned count, struct err *err);

/* A blank disk of this size that is mounted already, for a disk to come; in a child, because it takes milliseconds of
 * waiting. Its name looks like an id, and is nobody's. ret_mount: its own file system; whoever owns that descriptor
 * keeps it mounted. settled: it is on the host's disk when this returns, which takes longer. volume_make_warm makes a
 * disk of it, volume_warm_drop (once it is not mounted) nothing. */
int volume_warm(struct volumes *v, const char *name, uint64_t size, uint64_t inodes, bool settled, int *ret_mount,
                struct err *err);
int volume_make_warm(struct volumes *v, const char *id, const char *name, struct err *err);
void volume_warm_drop(struct volumes *v, const char *name);

/* Closes every descriptor of this process but those of v, keep, and the standard streams: for a child that lives. */
void volumes_alone(const struct volumes *v, int keep);

struct volume_view {
        const char *disk;          /* the writable top; "" or NULL in a read-only view: the layers alone */
        const char *const *layers; /* newest first */
        size_t layer_count;
        const char *image; /* "" or NULL: none */
        uint32_t id_base;  /* 65,536 host ids from here show the disk's ids 0 to 65535 */
        int user_ns;       /* a user namespace with that map */
        const int *warm;   /* NULL; or the mount of the disk itself that volume_warm gave, which stays the caller's */
};

/* Mounts what a sandbox sees, as a detached mount: the caller hands it to the cell, which attaches it. The loop device
 * and the file systems go by themselves when the last user of the mount is gone (LOOP_AUTOCLEAR), so that nothing is
 * left when we die. A mount that came up read-only is an error. Disks below the top are sealed by this, for ever.
 * -EBUSY while somebody has the top mounted, or writes to a layer; a sandbox that is just ending is waited for,
 * shortly.
 *
 * The root of a new disk belongs to the user (id 1000) when nothing is below it, otherwise it looks as the root of what
 * is below. Only processes whose file system ids are in the map can make files there. */
int volume_mount(struct volumes *v, const struct volume_view *view, int *ret_mount, struct err *err);

/* From here on a program's fsync means that its bytes are on the host's disk, and a power cut finds the journal in
 * order. volume_mount does not begin like that, because mounting would wait for the host's disk, behind whatever others
 * write; to switch takes some 15 ms of waiting for the kernel. So: in a child, soon after the start. 0 also if it is
 * not mounted any more. Without it nothing is lost unless the host itself stops. What was made in a hurry is waited for
 * here; volume_order_names then waits for the names of all of them, and volume_order_late does both for one that was
 * unmounted before it came to that. */
void volume_order_begin(struct volumes *v, const char *id); /* of many: so that one of them waits for all */
int volume_order(struct volumes *v, const char *id, struct err *err);
int volume_order_names(struct volumes *v, struct err *err);
int volume_order_late(struct volumes *v, const char *id, struct err *err);

/* The same, read-only: for diff, export, flatten. Seals nothing: its layers may be disks that sandboxes write to, or
 * will write to, or that get sealed meanwhile. */
int volume_mount_readonly(struct volumes *v, const struct volume_view *view, int *ret_mount, struct err *err);

/* Walks the finished ones: fn is called with each id; what it returns below 0 ends the walk. */
int volume_each(struct volumes *v, bool images, int (*fn)(void *data, const char *id), void *data);

/* Images: a folder <state>/images/<id> with root/ (ids canonical) and a line of text about where it came from.
 * image_begin makes an unfinished one and returns its root for the unpacker, as a detached mount that shows canonical
 * ids in user_ns; image_finish waits until it is on the host's disk (in a child: that may take long) and seals it.
 * image_drop also drops an unfinished one; whether sandboxes use it is the caller's to know. */
int image_begin(struct volumes *v, const char *id, int user_ns, int *ret_root, struct err *err);
int image_finish(struct volumes *v, const char *id, const char *about, struct err *err);
int image_drop(struct volumes *v, const char *id, struct err *err);
int image_about(struct volumes *v, const char *id, char *buf, size_t size); /* length, or -errno */
