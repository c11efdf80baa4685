/* Between the files of disk/volume*.c and image.c. */
#pragma once

#include <sys/stat.h>

#include "base/fd.h"
#include "disk/volume.h"

#define VOLUME_BLOCK 4096ULL
#define VOLUME_IMAGE "disk.img"
#define VOLUME_YOUNG "young" /* beside an image whose bytes were never waited for: power may have taken them */

struct volumes {
        int disks, images, blank, trash, warm;
        int control;   /* /dev/loop-control */
        bool detached; /* this kernel clones and stacks mounts that are attached nowhere (Linux 6.15) */
};

/* One disk, looked up: nothing is done by name after that. */
struct volume {
        const char *id;
        int folder;
        int image;      /* open for writing unless sealed */
        struct stat st; /* of the image */
        bool sealed;
};

int volume_open(struct volumes *v, const char *id, struct volume *ret, struct err *err);
void volume_end(struct volume *d);
#define _cleanup_volume_ _cleanup_(volume_end)

int volume_check_id(const char *id, struct err *err); /* sixteen hexadecimal digits */
bool volume_is_id(const char *id);

/* The loop device that a disk is on. */
struct volume_device {
        unsigned number;
        bool readonly; /* nothing can be written to it */
        bool reading;  /* was attached to be read: no sandbox writes to it */
};
int volume_device(const struct volume *d, struct volume_device *ret); /* a descriptor of it, or -ENXIO */

/* Moves name out of dir into the trash, under another name. */
int volume_discard(struct volumes *v, int dir, const char *name);

/* The fresh folder <disks>/<id>, and its removal if something goes wrong. */
int volume_folder(struct volumes *v, const char *id, struct err *err);
void volume_unfold(struct volumes *v, const char *id);

/* volume-ext4.c: one disk's own file system as a detached mount, not idmapped, with the root of the file system in
 * sight. Shares the device and the file system with whoever has it mounted already. */
enum volume_use {
        VOLUME_WRITE,  /* the top of a sandbox's view: nobody else may have it */
        VOLUME_SEAL,   /* a layer: sealed by this */
        VOLUME_READ,   /* to be read as it is, sealed or not */
        VOLUME_ATTACH, /* as it is mounted now; -ENXIO if it is not */
};
int volume_ext4(struct volumes *v, const struct volume *d, enum volume_use use, struct err *err);

/* The same for an image that is nobody's disk yet; it is on a device of its own for as long as the mount lives. */
int volume_ext4_plain(struct volumes *v, int image);

/* The bytes of an image are on the host's disk, and so are its names; it is not young any more. */
int volume_settle(const struct volume *d);

/* volume-blank.c. In the folder it is young, unless one was ready. */
int volume_blank(struct volumes *v, uint64_t size, uint64_t inodes, int folder, const char *name, struct err *err);
void volume_blank_sweep(struct volumes *v); /* what is half-made there */
int volume_copy(int from, int to);          /* an image into an empty file, with a UUID of its own */

/* volume-warm.c */
void volume_warm_sweep(struct volumes *v); /* a predecessor's */
