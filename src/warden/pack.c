/* Requests that look into disks and archives: diff, export, import, flatten, image, read.
 *
 * We never do that ourselves. The trees are mounted here, shown in ids of their own; a program that has nothing else
 * (disk/packer.h) reads and writes them, and what it says in the end is taken as from a stranger. What it was making is
 * kept only if it is whole. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/paths.h"
#include "cell/cell.h"
#include "cell/ids.h"
#include "cell/spawn.h"
#include "disk/packer.h"
#include "warden/step.h"
#include "warden/warden.h"

/* --- what the trees are shown in --- */

static int take_ids(struct work_job *j, struct err *err) {
        uint32_t slot;
        char map[48];

        j->ids = ids_open(err);
        if (j->ids < 0)
                return j->ids;
        int r = ids_take(j->ids, false, &slot, err);
        if (r < 0)
                return r;
        (void)snprintf(map, sizeof map, "0 %u %u", CELL_ID_FIRST + slot * CELL_ID_RANGE, CELL_ID_RANGE);
        j->user_ns = cell_user_namespace(map, map, err);
        j->id_base = CELL_ID_FIRST + slot * CELL_ID_RANGE;
        cell_user_namespace_reap();
        return MIN(j->user_ns, 0);
}

/* Of nothing at all. */
static int empty_tree(int *ret, struct err *err) {
        _cleanup_fd_ int fs = kernel_fsopen("tmpfs");
        int r = fs < 0 ? fs : kernel_fsconfig(fs, FSCONFIG_SET_STRING, "size", "4096", 0);

        if (r >= 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        int mount = r < 0 ? r
                          : kernel_fsmount(fs, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                                       MOUNT_ATTR_NOEXEC);
        if (mount < 0)
                return err_set(err, mount, "could not make an empty tree");
        *ret = mount;
        return 0;
}

/* Layers from..to of the message over its image; top: a disk that is written to, or NULL. */
static int show(struct work_job *j, uint32_t from, uint32_t to, const char *top, int *ret, struct err *err) {
        const char *layers[WARDEN_LAYERS_MAX];
        struct volume_view view = {.disk = top,
                                   .layers = layers,
                                   .layer_count = to - from,
                                   .image = j->m.image,
                                   .id_base = j->id_base,
                                   .user_ns = j->user_ns};

        for (uint32_t i = from; i < to; i++)
                layers[i - from] = j->m.layers[i];
        if (top)
                return volume_mount(j->w->volumes, &view, ret, err);
        if (to == from && !j->m.image[0])
                return empty_tree(ret, err);
        return volume_mount_readonly(j->w->volumes, &view, ret, err);
}

/* --- before --- */

static int prepare_diff(struct work_job *j, struct err *err) {
        int r = take_ids(j, err);

        if (r == 0)
                r = show(j, 0, j->m.split, NULL, &j->trees[0], err);
        return r < 0 ? r : show(j, j->m.split, j->m.layer_count, NULL, &j->trees[1], err);
}

static int prepare_export(struct work_job *j, struct err *err) {
        int r = take_ids(j, err);

        return r < 0 ? r : show(j, 0, j->m.layer_count, NULL, &j->trees[0], err);
}

/* A new disk, which is dropped again if the work fails. */
static int make_disk(struct work_job *j, const char *id, struct err *err) {
        int r = volume_make(j->w->volumes, id, j->m.size, j->m.inodes, err);

        if (r < 0)
                return r;
        j->made = true;
        return show(j, 0, 0, id, &j->trees[1], err);
}

static int prepare_import(struct work_job *j, struct err *err) {
        int r = take_ids(j, err);

        return r < 0 ? r : make_disk(j, j->m.id, err);
}

static int prepare_flatten(struct work_job *j, struct err *err) {
        int r = prepare_export(j, err);

        return r < 0 ? r : make_disk(j, j->m.target, err);
}

static int prepare_image(struct work_job *j, struct err *err) {
        int r = take_ids(j, err);

        if (r == 0)
                r = image_begin(j->w->volumes, j->m.id, j->user_ns, &j->trees[1], err);
        j->made = r == 0;
        return r;
}

/* --- in the child --- */

static int run_packer(const struct packer_job *job, struct work_result *ret, struct err *err) {
        struct packer_call call;
        struct packer_result result;
        char program[PATH_MAX], *env[] = {(char *)(uintptr_t) "LANG=C.UTF-8", NULL};
        pid_t pid;

        int r = paths_helper(PACKER_PROGRAM, program, sizeof program, err);
        if (r == 0)
                r = packer_prepare(job, &call, err);
        if (r < 0)
                return r;
        struct spawn_how how = {.program = program,
                                .argv = call.argv,
                                .env = env,
                                .fds = call.fds,
                                .fd_count = ELEMENTSOF(call.fds),
                                .tied = true};
        r = spawn_start(&how, &pid, NULL, err);
        fd_close(&call.theirs);
        if (r == 0) {
                r = packer_result(call.ours, &result, err);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        packer_call_end(&call);
        if (r < 0)
                return r;
        ret->numbers[0] = result.bytes;
        ret->numbers[1] = result.entries;
        ret->numbers[2] = result.skipped;
        (void)snprintf(ret->text, sizeof ret->text, "%s", result.text);
        return 0;
}

/* What was made is on the host's disk before anybody hears of it; that may take long. */
static int keep(const struct work_job *j, struct err *err) {
        const char *id = j->m.kind == WARDEN_FLATTEN ? j->m.target : j->m.id;

        if (!j->made)
                return 0;
        if (j->m.kind == WARDEN_IMAGE)
                return image_finish(j->w->volumes, id, j->m.text, err);
        int r = volume_flush(j->w->volumes, id, err);
        return r < 0 ? r : volume_sync(j->w->volumes, id, err);
}

static int run(const struct work_job *j, struct work_result *ret, struct err *err) {
        struct packer_job job = {.user_ns = j->user_ns, .max_bytes = j->m.size, .max_entries = j->m.inodes};

        switch ((int)j->m.kind) {
        case WARDEN_DIFF:
                job.verb = PACKER_DIFF;
                job.fds[0] = j->trees[0];
                job.fds[1] = j->trees[1];
                job.fds[2] = j->fds[0];
                break;
        case WARDEN_EXPORT:
                job.verb = PACKER_PACK;
                job.fds[0] = j->trees[0];
                job.fds[1] = j->fds[0];
                break;
        case WARDEN_READ:
                job.verb = PACKER_READ;
                job.fds[0] = j->trees[0];
                job.fds[1] = j->fds[0];
                job.fds[2] = j->fds[1];
                break;
        case WARDEN_IMPORT:
        case WARDEN_IMAGE:
                job.verb = j->m.kind == WARDEN_IMAGE ? PACKER_IMAGE : PACKER_UNPACK;
                job.fds[0] = j->fds[0];
                job.fds[1] = j->trees[1];
                break;
        case WARDEN_FLATTEN:
                job.verb = PACKER_FLATTEN;
                job.fds[0] = j->trees[0];
                job.fds[1] = j->trees[1];
                break;
        default:
                return err_set(err, -EOPNOTSUPP, "'%s' is no work for %s", warden_kind_name(j->m.kind), PACKER_PROGRAM);
        }
        step("packing");
        int r = run_packer(&job, ret, err);
        return r < 0 ? r : keep(j, err);
}

/* --- after --- */

static int finish_disk(struct work_job *j, struct work_result *result, struct err *err) {
        struct err ignored = {0};
        const char *id = j->m.kind == WARDEN_FLATTEN ? j->m.target : j->m.id;

        (void)err;
        if (result->code < 0 && j->made)
                (void)volume_drop(j->w->volumes, id, &ignored);
        return 0;
}

static int finish_image(struct work_job *j, struct work_result *result, struct err *err) {
        struct err ignored = {0};

        (void)err;
        if (result->code < 0 && j->made)
                (void)image_drop(j->w->volumes, j->m.id, &ignored);
        return 0;
}

/* --- requests --- */

static const struct {
        struct work_how how;
        bool sized;            /* makes something of a size */
        struct work_how blank; /* what comes before, if that is a disk of a size that is not known yet */
} rows[] = {
        [WARDEN_DIFF] = {{prepare_diff, run, NULL, WORK_PACKING, NULL}, false, {0}},
        [WARDEN_EXPORT] = {{prepare_export, run, NULL, WORK_PACKING, NULL}, false, {0}},
        [WARDEN_IMPORT] = {{prepare_import, run, finish_disk, WORK_PACKING, NULL},
                           true,
                           {NULL, disks_blank, NULL, WORK_COPYING, &rows[WARDEN_IMPORT].how}},
        [WARDEN_FLATTEN] = {{prepare_flatten, run, finish_disk, WORK_PACKING, NULL},
                            true,
                            {NULL, disks_blank, NULL, WORK_COPYING, &rows[WARDEN_FLATTEN].how}},
        [WARDEN_IMAGE] = {{prepare_image, run, finish_image, WORK_PACKING, NULL}, true, {0}},
        [WARDEN_READ] = {{prepare_export, run, NULL, WORK_READING, NULL}, false, {0}},
};

int pack_request(struct request *q) {
        struct stat st;
        int r;

        for (size_t i = 0; i < q->fd_count; i++)
                if (fstat(q->fds[i], &st) < 0 || S_ISDIR(st.st_mode))
                        return err_set(&q->err, ERR_REFUSED, "a descriptor is not of a stream");
        r = rows[q->m->kind].sized ? disks_check_size(q) : 0;
        if (r == 0 && rows[q->m->kind].sized)
                r = disks_check_space(q);
        const char *made = q->m->kind == WARDEN_FLATTEN ? q->m->target : q->m->kind == WARDEN_IMPORT ? q->m->id : "";
        if (r == 0 && made[0] && work_writes_disk(q->w, made))
                r = err_set(&q->err, -EEXIST, "disk '%s' is being made", made);
        if (r < 0)
                return r;
        bool quick = !made[0] || volume_quick(q->w->volumes, q->m->size, q->m->inodes);
        return work_begin(q, quick ? &rows[q->m->kind].how : &rows[q->m->kind].blank);
}
