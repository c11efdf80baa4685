/* A sandbox as a container of the engine: the image that it is made from, what is asked for, and its record.
 *
 * The container is only the outer half. It gives namespaces, a filter and an entry in the engine's list; the tree, the
 * ids, the limits and the rest of the plan are put into it by join.c and inside.c. Its image therefore has nothing but
 * our own program, which is the container's first process, and an empty folder. */
#pragma once

#include <sys/types.h>

#include "driver/engine.h"
#include "wire/plan.h"

#define CONTAINER_PROGRAM    "/stockade-box-docker" /* in the image */
#define CONTAINER_TREE       "/tree"                /* an empty folder in it */
#define CONTAINER_IMAGE_SIZE 40

struct container {
        const char *id; /* of the sandbox */
        const char *image;
        const char *runtime; /* "": the engine's own choice */
        const char *profile; /* seccomp, as the engine wants it: JSON */
        const struct plan *plan;
        uint32_t id_base;
        uid_t uid; /* inside */
        gid_t gid;
        bool ipv6;
};

/* The body of the question that makes it. */
void container_write(const struct container *c, struct buf *out);

/* The name of the image that has this very program. */
int container_image(char ret[CONTAINER_IMAGE_SIZE], struct err *err);

/* The image's contents: an archive with the program in it. */
void container_pack(const void *program, size_t size, struct buf *out);

/* Makes the image too, if the engine does not have it, and removes what is left of an earlier container of ours. */
int container_make(const struct engine *e, const struct container *c, struct err *err);
int container_start(const struct engine *e, const char *id, struct err *err);

/* Removes containers of ours that never ran, or ended and are still there: what a keeper that was killed while it made
 * one left, or an engine that did not come to remove it. Young ones may be somebody's who is about to start them. What
 * cannot be removed stays for the next time. */
void container_sweep(const struct engine *e);

/* Whether one of the engine's list is such a leftover. */
bool container_is_left(const char *item, uint64_t now);

/* Its first process, as the engine's host numbers it. -ESRCH: it does not run. */
int container_pid(const struct engine *e, const char *id, pid_t *ret, struct err *err);

/* Ends it and removes its record; 0 also when there is none. Refuses one of that name that is not ours. */
/* If there is none, one that the engine may still be making is waited for, for as many looks of 20 ms. */
int container_remove(const struct engine *e, const char *id, unsigned looks, struct err *err);
