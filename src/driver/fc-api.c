/* See fc-api.h for the order of things. Nothing that a sandbox says gets into a question; what Firecracker answers is
 * read as hostile, because a machine that took it over speaks here. */
#include "driver/fc-api.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json-read.h"
#include "base/json.h"

#define MINOR_LEAST 16   /* of 1.x, whose description this was written from */
#define WORDS_MAX   2048 /* of an x86 kernel's command line */
#define ANSWER_S    5    /* it has nothing to wait for, and somebody waits for the machine */

/* One question: in which states it may be asked, and what it is called when it is refused. */
struct call {
        const char *method, *path, *what;
        unsigned in; /* bits of enum fc_state */
};

#define IN(state) (1U << FC_##state)
#define BEFORE    (IN(FRESH) | IN(DESCRIBED))

static const struct call set_machine = {"PUT", "/machine-config", "could not size the machine", BEFORE},
                         set_boot = {"PUT", "/boot-source", "could not say what the machine boots", BEFORE},
                         set_drive = {"PUT", "/drives/", "could not give the machine a drive", BEFORE},
                         set_link = {"PUT", "/network-interfaces/", "could not give the machine a link", BEFORE},
                         set_vsock = {"PUT", "/vsock", "could not give the machine its line", BEFORE},
                         set_entropy = {"PUT", "/entropy", "could not give the machine random numbers", BEFORE},
                         start = {"PUT", "/actions", "could not start the machine", IN(DESCRIBED)},
                         pause_it = {"PATCH", "/vm", "could not pause the machine", IN(RUNNING)},
                         resume_it = {"PATCH", "/vm", "could not resume the machine", IN(PAUSED)},
                         save = {"PUT", "/snapshot/create", "could not keep the machine", IN(PAUSED)},
                         load = {"PUT", "/snapshot/load", "could not bring the machine back", IN(FRESH)};

static const char *state_name(enum fc_state s) {
        static const char *const names[] = {[FC_FRESH] = "was told nothing yet",
                                            [FC_DESCRIBED] = "does not run yet",
                                            [FC_RUNNING] = "runs",
                                            [FC_PAUSED] = "is paused"};

        static_assert(ELEMENTSOF(names) == FC_STATE_COUNT, "every state has a name");
        return (unsigned)s < ELEMENTSOF(names) ? names[s] : "is not known";
}

static struct ask_peer peer_of(const struct fc *f) {
        return (struct ask_peer){.socket = f->socket,
                                 .who = "Firecracker",
                                 .host = "localhost",
                                 .prefix = "",
                                 .reason = "fault_message",
                                 .hint = "its log, or 'stockade doctor', says why it does not run",
                                 .seconds = ANSWER_S};
}

/* --- asking --- */

static int may(const struct fc *f, const struct call *c, struct err *err) {
        if ((unsigned)f->state < FC_STATE_COUNT && c->in & 1U << f->state)
                return 0;
        return err_set(err, -EBUSY, "%s: it %s", c->what, state_name(f->state));
}

/* id: the last part of the path, "" for none. */
static int tell(const struct fc *f, const struct call *c, const char *id, const struct buf *body, struct err *err) {
        const struct ask_peer p = peer_of(f);
        _cleanup_answer_ struct ask_answer a = {0};
        char path[64];

        if (!buf_ok(body) || !body->data)
                return err_set(err, -ENOMEM, "%s", c->what);
        (void)snprintf(path, sizeof path, "%s%s", c->path, id);
        const struct ask_question q = {
                .method = c->method, .path = path, .type = "application/json", .body = body->data, .size = body->size};
        int r = ask(&p, &q, &a, err);
        if (r < 0)
                return err_prefix(err, r, "%s", c->what);
        return a.status == 204 ? 0 : ask_refused(&p, &a, c->what, err);
}

static int describe(struct fc *f, const struct call *c, const char *id, const struct buf *body, struct err *err) {
        int r = tell(f, c, id, body, err);

        if (r == 0)
                f->state = FC_DESCRIBED;
        return r;
}

/* A question whose body is one object with one word. */
static int tell_word(const struct fc *f, const struct call *c, const char *key, const char *word, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = may(f, c, err);

        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_str(&j, key, word);
        json_close(&j, '}');
        return tell(f, c, "", &body, err);
}

/* --- what may be said --- */

static int check_id(const struct call *c, const char *id, struct err *err) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
        size_t size = strlen(id);

        if (size > 0 && size <= FC_ID_MAX && strspn(id, letters) == size)
                return 0;
        return err_set(err, ERR_INPUT, "%s: '%.40s' is no name for it", c->what, id);
}

static int check_path(const struct call *c, const char *path, struct err *err) {
        if (path[0] == '/' && strlen(path) < PATH_MAX)
                return 0;
        return err_set(err, ERR_INPUT, "%s: '%.100s' is not a path in its root", c->what, path);
}

/* --- the machine before it runs --- */

static int read_release(struct fc *f, const char *said, struct err *err) {
        char *end = NULL;
        long minor = str_starts(said, "1.") ? strtol(said + 2, &end, 10) : -1;

        (void)snprintf(f->release, sizeof f->release, "%.31s", said);
        if (end && *end == '.' && said[2] >= '0' && said[2] <= '9' && minor >= MINOR_LEAST)
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "this Firecracker is not 1.%d or a newer 1.x", MINOR_LEAST);
        (void)err_hint(err, "install a newer release of it, with its jailer, in /usr/local/bin");
        return ERR_UNENFORCED;
}

int fc_open(struct fc *f, const char *socket, struct err *err) {
        _cleanup_answer_ struct ask_answer a = {0};
        char state[32] = "", release[32] = "";

        *f = (struct fc){.socket = socket};
        const struct ask_peer p = peer_of(f);
        int r = ask_json(&p, &(struct ask_question){.method = "GET", .path = "/"}, &a, err);
        if (r < 0)
                return r;
        if (a.status != 200)
                return ask_refused(&p, &a, "could not ask who is there", err);
        if (!json_find_str(a.body.data, "state", state, sizeof state) ||
            !json_find_str(a.body.data, "vmm_version", release, sizeof release))
                return err_set(err, ERR_CORRUPT, "Firecracker does not say who it is");
        if (!str_eq(state, "Not started"))
                return err_set(err, -EBUSY, "this Firecracker has a machine already");
        return read_release(f, release, err);
}

int fc_set_machine(struct fc *f, uint64_t mib, unsigned cpus, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = may(f, &set_machine, err);

        if (r < 0)
                return r;
        if (mib < 1 || mib > INT_MAX || cpus < 1 || cpus > FC_CPUS_MAX)
                return err_set(err, ERR_INPUT, "%s: %u processors and %llu MiB cannot be had", set_machine.what, cpus,
                               (unsigned long long)mib);
        json_open(&j, NULL, '{');
        json_u64(&j, "vcpu_count", cpus);
        json_u64(&j, "mem_size_mib", mib);
        json_bool(&j, "smt", false);
        json_close(&j, '}');
        return describe(f, &set_machine, "", &body, err);
}

int fc_set_boot(struct fc *f, const struct fc_boot *b, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = may(f, &set_boot, err);

        if (r == 0)
                r = check_path(&set_boot, b->kernel, err);
        if (r == 0)
                r = check_path(&set_boot, b->initrd, err);
        if (r == 0 && strlen(b->words) >= WORDS_MAX)
                r = err_set(err, ERR_INPUT, "%s: its command line is too long", set_boot.what);
        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_str(&j, "kernel_image_path", b->kernel);
        json_str(&j, "initrd_path", b->initrd);
        json_str(&j, "boot_args", b->words);
        json_close(&j, '}');
        r = describe(f, &set_boot, "", &body, err);
        f->bootable = f->bootable || r == 0;
        return r;
}

int fc_set_drive(struct fc *f, const struct fc_drive *d, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = may(f, &set_drive, err);

        if (r == 0)
                r = check_id(&set_drive, d->id, err);
        if (r == 0)
                r = check_path(&set_drive, d->path, err);
        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_str(&j, "drive_id", d->id);
        json_str(&j, "path_on_host", d->path);
        json_bool(&j, "is_root_device", false);
        json_bool(&j, "is_read_only", d->read_only);
        json_str(&j, "cache_type", "Writeback"); /* what is flushed inside is on the host's disk */
        json_close(&j, '}');
        return describe(f, &set_drive, d->id, &body, err);
}

int fc_set_link(struct fc *f, const char *id, const char *tap, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = may(f, &set_link, err);

        if (r == 0)
                r = check_id(&set_link, id, err);
        if (r == 0)
                r = check_id(&set_link, tap, err);
        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_str(&j, "iface_id", id);
        json_str(&j, "host_dev_name", tap);
        json_close(&j, '}');
        return describe(f, &set_link, id, &body, err);
}

int fc_set_vsock(struct fc *f, const char *path, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = may(f, &set_vsock, err);

        if (r == 0)
                r = check_path(&set_vsock, path, err);
        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_u64(&j, "guest_cid", FC_CID);
        json_str(&j, "uds_path", path);
        json_close(&j, '}');
        return describe(f, &set_vsock, "", &body, err);
}

int fc_set_entropy(struct fc *f, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        int r = may(f, &set_entropy, err);

        if (r < 0)
                return r;
        buf_str(&body, "{}");
        return describe(f, &set_entropy, "", &body, err);
}

/* --- and from then on --- */

int fc_start(struct fc *f, struct err *err) {
        if (f->state == FC_DESCRIBED && !f->bootable)
                return err_set(err, -EBUSY, "%s: it was not told what to boot", start.what);
        int r = tell_word(f, &start, "action_type", "InstanceStart", err);
        if (r == 0)
                f->state = FC_RUNNING;
        return r;
}

int fc_pause(struct fc *f, struct err *err) {
        int r = tell_word(f, &pause_it, "state", "Paused", err);

        if (r == 0)
                f->state = FC_PAUSED;
        return r;
}

int fc_resume(struct fc *f, struct err *err) {
        int r = tell_word(f, &resume_it, "state", "Resumed", err);

        if (r == 0)
                f->state = FC_RUNNING;
        return r;
}

static int check_files(const struct fc *f, const struct call *c, const struct fc_files *files, struct err *err) {
        int r = may(f, c, err);

        if (r == 0)
                r = check_path(c, files->state, err);
        return r < 0 ? r : check_path(c, files->memory, err);
}

int fc_save(struct fc *f, const struct fc_files *to, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = check_files(f, &save, to, err);

        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_str(&j, "snapshot_type", "Full");
        json_str(&j, "snapshot_path", to->state);
        json_str(&j, "mem_file_path", to->memory);
        json_close(&j, '}');
        return tell(f, &save, "", &body, err);
}

int fc_load(struct fc *f, const struct fc_files *from, bool resume, struct err *err) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        int r = check_files(f, &load, from, err);

        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_str(&j, "snapshot_path", from->state);
        json_open(&j, "mem_backend", '{');
        json_str(&j, "backend_type", "File");
        json_str(&j, "backend_path", from->memory);
        json_close(&j, '}');
        json_bool(&j, "resume_vm", resume);
        json_close(&j, '}');
        r = tell(f, &load, "", &body, err);
        if (r == 0)
                f->state = resume ? FC_RUNNING : FC_PAUSED;
        return r;
}
