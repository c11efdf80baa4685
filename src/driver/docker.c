/* stockade-box-docker: a sandbox in a container of a Docker engine.
 *
 * Its pid namespace, network namespace and filter are the engine's; the tree, ids, limits and the rest of the plan are
 * the cell's own (join.c). The container is not below us: it ends with the sandbox's cgroups, into which its first
 * process was moved, or when we end, because the warden then kills them. The engine removes its record by itself; what
 * it could not remove, `destroy` does, for others too. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/kernel.h"
#include "cell/tree.h"
#include "driver/container.h"
#include "driver/inside.h"
#include "driver/join.h"
#include "driver/keeper.h"
#include "driver/link.h"
#include "driver/profile.h"
#include "wire/driver.h"

#define COMING_LOOKS 100 /* two seconds */

/* What stockade.conf says: "socket=PATH", "runtime=NAME"; to destroy also "served=yes" or "served=no". */
struct options {
        const char *socket, *runtime;
        bool served; /* destroy: its guest did; otherwise the engine may still be making it */
};

static int read_options(struct options *ret, struct err *err) {
        char *const *words = keeper_options();

        *ret = (struct options){.socket = ENGINE_SOCKET, .runtime = ""};
        for (; words && *words; words++)
                if (str_starts(*words, "socket="))
                        ret->socket = *words + sizeof "socket=" - 1;
                else if (str_starts(*words, "runtime="))
                        ret->runtime = *words + sizeof "runtime=" - 1;
                else if (str_starts(*words, "served="))
                        ret->served = str_eq(*words, "served=yes");
                else
                        return err_set(err, ERR_INPUT, "the driver docker has no option '%.60s'", *words);
        return 0;
}

/* It becomes part of names that the engine is asked for. */
static int check_id(const char *id, struct err *err) {
        if (id[0] && strlen(id) <= 64 && id[strspn(id, "0123456789abcdef-")] == '\0')
                return 0;
        return err_set(err, ERR_INPUT, "'%.70s' is not a sandbox id", id);
}

/* --- start --- */

/* The guest's socket, on a file system of its own that is attached nowhere but in the container, read-only. */
static int open_door(int *ret_mount, int *ret_door, struct err *err) {
        const struct cell_context nobody = {0};
        struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY};
        _cleanup_fd_ int mount = tree_tmpfs(&nobody, 4096, 4, 0755, false, MOUNT_ATTR_NOEXEC);

        if (mount < 0)
                return err_set(err, mount, "could not make the folder of the guest's socket");
        _cleanup_fd_ int door = keeper_listen(mount, "door", err);
        if (door < 0)
                return door;
        int r = kernel_mount_setattr(mount, "", AT_EMPTY_PATH, &readonly);
        if (r < 0)
                return err_set(err, r, "could not make the folder of the guest's socket read-only");
        *ret_mount = TAKE_FD(mount);
        *ret_door = TAKE_FD(door);
        return 0;
}

/* The process that the engine names, held by a descriptor: asked twice, so that it is the container's in between. */
static int open_process(const struct engine *e, const char *id, int *ret, struct err *err) {
        pid_t pid = 0, again = 0;
        char path[32];

        int r = container_pid(e, id, &pid, err);
        if (r < 0)
                return r;
        (void)snprintf(path, sizeof path, "/proc/%d", pid);
        _cleanup_fd_ int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (process < 0) {
                (void)err_set(err, -errno, "the container's first process is not on this host");
                return err_hint(err, "the engine has to run on the same kernel as Stockade: not in a virtual machine, "
                                     "and not on another host");
        }
        r = container_pid(e, id, &again, err);
        if (r < 0)
                return r;
        if (again != pid)
                return err_set(err, -ESTALE, "the container was started again by somebody else");
        *ret = TAKE_FD(process);
        return 0;
}

/* The engine gives it none; its one link is to the gate's sockets, which are in our network namespace. */
static int open_network(const struct keeper_task *t, int process, int *ret, struct err *err) {
        _cleanup_fd_ int network = openat(process, "ns/net", O_RDONLY | O_CLOEXEC);

        if (network < 0)
                return err_set(err, -errno, "cannot open the container's network namespace");
        int r = t->networked ? link_veth("gate", "eth0", network, err) : 0;
        if (r == 0)
                *ret = TAKE_FD(network);
        return r;
}

static int make_container(const struct engine *e, const struct keeper_task *t, const struct options *o,
                          struct err *err) {
        char image[CONTAINER_IMAGE_SIZE];
        struct container c = {.id = t->id,
                              .image = image,
                              .runtime = o->runtime,
                              .profile = profile_text,
                              .plan = &t->plan,
                              .id_base = t->id_base,
                              .uid = t->uid,
                              .gid = t->gid,
                              .ipv6 = access("/proc/sys/net/ipv6", F_OK) == 0};

        int r = container_image(image, err);
        if (r == 0)
                r = container_make(e, &c, err);
        return r < 0 ? r : container_start(e, t->id, err);
}

static int fill_container(const struct engine *e, const struct keeper_task *t, struct keeper_box *box,
                          struct err *err) {
        _cleanup_fd_ int process = -EBADF, mount = -EBADF, door = -EBADF, network = -EBADF;

        int r = open_process(e, t->id, &process, err);
        if (r == 0)
                r = open_network(t, process, &network, err);
        if (r == 0)
                r = open_door(&mount, &door, err);
        if (r < 0)
                return r;
        struct join j = {.task = t, .process = process, .network = network, .door = mount};
        r = join_container(&j, &box->end, err);
        if (r == 0) {
                box->door = TAKE_FD(door);
                box->secret = true;
        }
        return r;
}

static int start(const struct keeper_task *t, struct keeper_box *ret, struct err *err) {
        struct options o;
        struct engine e;

        int r = check_id(t->id, err);
        if (r == 0)
                r = read_options(&o, err);
        if (r == 0)
                r = engine_open(&e, o.socket, err);
        if (r < 0)
                return r;
        r = make_container(&e, t, &o, err);
        if (r == 0)
                r = fill_container(&e, t, ret, err);
        if (r < 0)
                (void)container_remove(&e, t->id, 0, NULL);
        return r;
}

static int destroy(const char *id, struct err *err) {
        struct options o;
        struct engine e;

        int r = check_id(id, err);
        if (r == 0)
                r = read_options(&o, err);
        if (r < 0)
                return r;
        r = engine_open(&e, o.socket, err);
        /* an engine that does not run has nothing of ours that runs, and removes the record when it starts */
        if (r == -ENOENT || r == -ECONNREFUSED)
                return 0;
        if (r < 0)
                return r;
        container_sweep(&e);
        /* a keeper that was killed may have left the engine making it */
        return container_remove(&e, id, o.served ? 0 : COMING_LOOKS, err);
}

/* --- probe --- */

static int has_runtime(const struct engine *e, const char *runtime, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        struct json_walk walk;
        char name[64];

        int r = engine_ask_json(e, &(struct ask_question){.method = "GET", .path = "/info"}, &a, err);
        if (r < 0)
                return r;
        if (a.status != 200)
                return engine_refused(&a, "could not ask what the engine has", err);
        if (!runtime[0])
                return 0;
        if (json_walk_begin(&walk, a.body.data, "Runtimes"))
                while (json_walk_next(&walk))
                        if (json_walk_key(&walk, name, sizeof name) && str_eq(name, runtime))
                                return 0;
        (void)err_set(err, ERR_UNENFORCED, "the engine has no runtime '%.60s'", runtime);
        return err_hint(err, "'docker info' lists those that it has; docker_runtime of stockade.conf chooses one");
}

static int look(struct engine *e, struct err *err) {
        struct options o;

        if (geteuid() != 0) {
                (void)err_set(err, ERR_UNENFORCED, "the driver docker needs root");
                return err_hint(err, "use a daemon that root started");
        }
        int r = read_options(&o, err);
        if (r == 0)
                r = engine_open(e, o.socket, err);
        return r < 0 ? r : has_runtime(e, o.runtime, err);
}

static int probe(void) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        struct engine e = {0};
        struct err err = {0};
        bool offered = look(&e, &err) >= 0;

        json_open(&j, NULL, '{');
        json_str(&j, "driver", driver_name(DRIVER_DOCKER));
        json_bool(&j, "offered", offered);
        json_str(&j, "version", e.release);
        json_str(&j, "why", err.text);
        json_str(&j, "fix", err.hint);
        json_open(&j, "guarantees", '{');
        for (int g = 0; g < GUARANTEE_COUNT; g++)
                json_str(&j, guarantee_name((enum guarantee)g), "kept");
        json_close(&j, '}');
        json_close(&j, '}');
        (void)printf("%s\n", buf_ok(&out) ? out.data : "{}");
        return 0;
}

int main(int argc, char **argv) {
        static const struct keeper_driver docker = {.probe = probe, .start = start, .destroy = destroy};

        if (argc == 2 && str_eq(argv[1], "inside"))
                return inside_main();
        return keeper_main(&docker, argc, argv);
}
