/* Containers of a Docker engine. See the header. */
#include "driver/container.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/pax.h"

#define PROGRAM_MAX  (8 << 20)
#define LABEL        "stockade"
#define NAME_SIZE    96
#define REMOVE_LOOKS 250 /* five seconds */
#define LEFT_S       60  /* nobody takes longer from making a container to starting it */

/* --- what is asked for --- */

static const char *hostname_of(const struct plan *p) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s))
                if (s.op == OP_HOSTNAME)
                        return s.text[0];
        return "sandbox";
}

static void write_options(const struct container *c, struct json *j) {
        _cleanup_buf_ struct buf filter = {0};

        buf_printf(&filter, "seccomp=%s", c->profile);
        json_open(j, "SecurityOpt", '[');
        json_str(j, NULL, "no-new-privileges:true");
        json_str(j, NULL, buf_ok(&filter) ? filter.data : "seccomp="); /* an empty one is refused by the engine */
        json_close(j, ']');
        json_open(j, "CapDrop", '[');
        json_str(j, NULL, "ALL");
        json_close(j, ']');
        if (c->ipv6) { /* without a network of its own the engine turns it off */
                json_open(j, "Sysctls", '{');
                json_str(j, "net.ipv6.conf.all.disable_ipv6", "0");
                json_close(j, '}');
        }
        json_open(j, "LogConfig", '{');
        json_str(j, "Type", "none");
        json_close(j, '}');
        if (c->runtime[0])
                json_str(j, "Runtime", c->runtime);
}

/* No limits: before anything of others' runs, its first process is moved into the sandbox's own cgroups, which have
 * them. No mounts either: the tree comes in by descriptor. */
static void write_host(const struct container *c, struct json *j) {
        json_open(j, "HostConfig", '{');
        json_str(j, "NetworkMode", "none");
        json_str(j, "IpcMode", "private");
        json_str(j, "CgroupnsMode", "private");
        json_str(j, "UsernsMode", "host"); /* ids are ours, also where the engine maps others */
        json_bool(j, "ReadonlyRootfs", true);
        json_bool(j, "AutoRemove", true);
        write_options(c, j);
        json_close(j, '}');
}

void container_write(const struct container *c, struct buf *out) {
        struct json j = {.out = out};
        char user[32];

        (void)snprintf(user, sizeof user, "%u:%u", c->id_base + c->uid, c->id_base + c->gid);
        json_open(&j, NULL, '{');
        json_str(&j, "Image", c->image);
        json_open(&j, "Entrypoint", '[');
        json_str(&j, NULL, CONTAINER_PROGRAM);
        json_str(&j, NULL, "inside");
        json_close(&j, ']');
        json_str(&j, "User", user);
        json_str(&j, "WorkingDir", "/");
        json_str(&j, "Hostname", hostname_of(c->plan));
        json_str(&j, "StopSignal", "SIGKILL");
        json_open(&j, "Labels", '{');
        json_str(&j, LABEL, c->id);
        json_close(&j, '}');
        write_host(c, &j);
        json_close(&j, '}');
}

/* --- the image --- */

void container_pack(const void *program, size_t size, struct buf *out) {
        static const char zeros[PAX_END_SIZE];
        const struct pax_member folder = {.name = &CONTAINER_TREE[1], .type = '5', .mode = 0755},
                                file = {.name = &CONTAINER_PROGRAM[1], .type = '0', .mode = 0755, .size = size};

        pax_put(out, &folder);
        pax_put(out, &file);
        buf_add(out, program, size);
        buf_add(out, zeros, pax_padding(size));
        buf_add(out, zeros, sizeof zeros);
}

static int has_image(const struct engine *e, const char *name, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        char path[96];

        (void)snprintf(path, sizeof path, "/images/%s/json", name);
        int r = engine_ask(e, &(struct ask_question){.method = "GET", .path = path}, &a, err);
        if (r < 0)
                return r;
        if (a.status == 200 || a.status == 404)
                return a.status == 200;
        return engine_refused(&a, "could not look for the image of boxes", err);
}

static int import_image(const struct engine *e, const char *tag, const void *program, size_t size, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        _cleanup_buf_ struct buf archive = {.max = PROGRAM_MAX + (1 << 16)};
        char path[128];

        container_pack(program, size, &archive);
        if (!buf_ok(&archive))
                return err_set(err, -ENOMEM, "could not pack the image of boxes");
        (void)snprintf(path, sizeof path, "/images/create?fromSrc=-&repo=stockade-box&tag=%s", tag);
        struct ask_question q = {.method = "POST",
                                 .path = path,
                                 .type = "application/x-tar",
                                 .body = archive.data,
                                 .size = archive.size};
        int r = engine_ask(e, &q, &a, err);
        if (r == 0 && a.status != 200)
                return engine_refused(&a, "could not import the image of boxes", err);
        return r;
}

static int read_program(char **ret, size_t *ret_size, char tag[HASH_TEXT_SIZE], struct err *err) {
        uint8_t digest[HASH_SIZE];
        struct hash h;

        int r = fd_read_file(AT_FDCWD, "/proc/self/exe", PROGRAM_MAX, false, ret, ret_size, err);
        if (r < 0)
                return r;
        hash_init(&h);
        hash_add(&h, *ret, *ret_size);
        hash_done(&h, digest);
        hash_text(digest, tag);
        tag[16] = '\0';
        return 0;
}

int container_image(char ret[CONTAINER_IMAGE_SIZE], struct err *err) {
        char tag[HASH_TEXT_SIZE], *program = NULL;
        size_t size;

        int r = read_program(&program, &size, tag, err);
        if (r == 0)
                (void)snprintf(ret, CONTAINER_IMAGE_SIZE, "stockade-box:%.16s", tag);
        free(program);
        return r;
}

static int make_image(const struct engine *e, const char *name, struct err *err) {
        char tag[HASH_TEXT_SIZE], *program = NULL;
        size_t size;

        int r = read_program(&program, &size, tag, err);
        if (r == 0)
                r = import_image(e, tag, program, size, err);
        if (r == 0) { /* a failed import is told within an answer that says that all is well */
                r = has_image(e, name, err);
                if (r == 0)
                        r = err_set(err, -EIO, "the engine took the image '%s' and does not have it", name);
        }
        free(program);
        return MIN(r, 0);
}

/* --- its life --- */

/* What we ask for is always the same but for the runtime. */
static int refused_runtime(const struct ask_answer *a, const char *what, struct err *err) {
        int r = engine_refused(a, what, err);

        (void)err_hint(err, "'docker info' lists the runtimes that the engine has; docker_runtime of stockade.conf "
                            "chooses one");
        return r;
}

static int make_once(const struct engine *e, const struct container *c, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        _cleanup_buf_ struct buf body = {0};
        char path[NAME_SIZE];

        container_write(c, &body);
        if (!buf_ok(&body))
                return err_set(err, -ENOMEM, "could not write what is asked of the engine");
        (void)snprintf(path, sizeof path, "/containers/create?name=stockade-%s", c->id);
        struct ask_question q = {
                .method = "POST", .path = path, .type = "application/json", .body = body.data, .size = body.size};
        int r = engine_ask(e, &q, &a, err);
        return r == 0 && a.status != 201 ? refused_runtime(&a, "could not make a container", err) : r;
}

/* What is seldom needed is looked for only when the engine misses it. */
int container_make(const struct engine *e, const struct container *c, struct err *err) {
        int r = make_once(e, c, err);

        if (r == -EEXIST) {
                r = container_remove(e, c->id, 0, err);
                if (r == 0)
                        r = make_once(e, c, err);
        }
        if (r == -ENOENT) {
                r = make_image(e, c->image, err);
                if (r == 0)
                        r = make_once(e, c, err);
        }
        return r;
}

int container_start(const struct engine *e, const char *id, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        char path[NAME_SIZE];

        (void)snprintf(path, sizeof path, "/containers/stockade-%s/start", id);
        int r = engine_ask(e, &(struct ask_question){.method = "POST", .path = path}, &a, err);
        if (r < 0 || a.status == 204)
                return r;
        return refused_runtime(&a, "could not start the container", err);
}

/* 1: there is one, and a has what the engine says about it. */
static int inspect(const struct engine *e, const char *id, struct ask_answer *a, struct err *err) {
        char path[NAME_SIZE];

        (void)snprintf(path, sizeof path, "/containers/stockade-%s/json", id);
        int r = engine_ask_json(e, &(struct ask_question){.method = "GET", .path = path}, a, err);
        if (r < 0)
                return r;
        if (a->status == 200 || a->status == 404)
                return a->status == 200;
        return engine_refused(a, "could not look for the container", err);
}

int container_pid(const struct engine *e, const char *id, pid_t *ret, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        uint64_t pid = 0;

        int r = inspect(e, id, &a, err);
        if (r < 0)
                return r;
        if (r == 1)
                (void)json_find_u64(a.body.data, "State.Pid", &pid);
        if (pid == 0 || pid > INT32_MAX)
                return err_set(err, -ESRCH, "the container 'stockade-%s' does not run", id);
        *ret = (pid_t)pid;
        return 0;
}

bool container_is_left(const char *item, uint64_t now) {
        char state[16] = "";
        uint64_t created = UINT64_MAX;

        if (!json_find_str(item, "State", state, sizeof state) || !json_find_u64(item, "Created", &created))
                return false;
        if (!str_eq(state, "created") && !str_eq(state, "exited") && !str_eq(state, "dead"))
                return false;
        return created <= now && now - created >= LEFT_S;
}

static void remove_left(const struct engine *e, const char *item) {
        char id[65], path[NAME_SIZE];
        _cleanup_answer_ struct ask_answer a = {0};

        if (!json_find_str(item, "Id", id, sizeof id) || id[strspn(id, "0123456789abcdef")])
                return;
        (void)snprintf(path, sizeof path, "/containers/%s?force=1&v=1", id);
        (void)engine_ask(e, &(struct ask_question){.method = "DELETE", .path = path}, &a, NULL);
}

void container_sweep(const struct engine *e) {
        _cleanup_answer_ struct ask_answer a = {0};
        /* {"label":["stockade"],"status":["created","exited","dead"]} */
        struct ask_question q = {.method = "GET",
                                 .path = "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22" LABEL
                                         "%22%5D%2C%22status%22%3A%5B%22created%22%2C%22exited%22%2C%22dead%22%5D%7D"};
        struct json_walk walk;

        if (engine_ask_json(e, &q, &a, NULL) < 0 || a.status != 200 || !json_walk_begin(&walk, a.body.data, ""))
                return;
        while (json_walk_next(&walk))
                if (container_is_left(walk.value, (uint64_t)time(NULL)))
                        remove_left(e, walk.value);
}

enum { REMOVED, REMOVING, NONE };

/* REMOVING: it is on its way, removed by somebody else. */
static int remove_once(const struct engine *e, const char *id, struct err *err) {
        _cleanup_answer_ struct ask_answer found = {0}, a = {0};
        char path[NAME_SIZE], owner[64] = "";

        int r = inspect(e, id, &found, err);
        if (r <= 0)
                return r < 0 ? r : NONE;
        (void)json_find_str(found.body.data, "Config.Labels." LABEL, owner, sizeof owner);
        if (!str_eq(owner, id)) {
                (void)err_set(err, -EEXIST, "there is a container 'stockade-%s' that is not ours", id);
                (void)err_hint(err, "'docker rm -f stockade-%s' removes it, if it is nobody's", id);
                return -EEXIST;
        }
        (void)snprintf(path, sizeof path, "/containers/stockade-%s?force=1&v=1", id);
        r = engine_ask(e, &(struct ask_question){.method = "DELETE", .path = path}, &a, err);
        if (r < 0 || a.status == 204 || a.status == 404)
                return r;
        return a.status == 409 ? REMOVING : engine_refused(&a, "could not remove the container", err);
}

int container_remove(const struct engine *e, const char *id, unsigned looks, struct err *err) {
        const struct timespec pause = {.tv_nsec = 20L * 1000 * 1000};

        for (unsigned i = 0; i < REMOVE_LOOKS; i++) {
                int r = remove_once(e, id, err);
                if (r == NONE && i >= looks)
                        return 0;
                if (r <= 0)
                        return r;
                (void)nanosleep(&pause, NULL);
        }
        return err_set(err, -EBUSY, "the engine is still removing the container 'stockade-%s'", id);
}
