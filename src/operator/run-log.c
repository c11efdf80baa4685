/* Output of runs on disk: logs/SANDBOX/RUN.out and RUN.err in the operator's folder, each byte at its own offset. Of a
 * long one the newest part is kept: the rest of the file is a hole.
 *
 * Written without fsync: what the guest has no credit for it keeps, so only a crash of the host can lose any of it, and
 * that ends the run as well. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "operator/run.h"

#define PUNCH (4ULL << 20) /* bytes that are given back at a time */
#define BLOCK 4096ULL
#define LATE  4096 /* bytes: far less than the guest would forget before the turn is over */

static const char *const suffixes[] = {[RUN_OUT] = "out", [RUN_ERR] = "err"};

static int open_log(struct run *r, enum run_side side, int flags) {
        const struct sandbox *s = r->sandbox;
        char path[64];

        (void)snprintf(path, sizeof path, "logs/%s/%u.%s", s->id, r->number, suffixes[side]);
        int fd = openat(s->o->state, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno == ENOENT && (flags & O_CREAT)) {
                char folder[32];

                (void)mkdirat(s->o->state, "logs", 0700);
                (void)snprintf(folder, sizeof folder, "logs/%s", s->id);
                (void)mkdirat(s->o->state, folder, 0700);
                fd = openat(s->o->state, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
        }
        return fd < 0 ? -errno : fd;
}

/* A log that cannot be written is given up, from its beginning: what is read from it is never wrong, only missing. */
static void give_up(struct run *r, struct run_log *l, int error) {
        if (!l->broken)
                log_line(LOG_LEVEL_WARNING, NULL, "run %u of %s: its output is not kept: %s", r->number, r->sandbox->id,
                         err_name(error));
        l->broken = true;
        l->from = l->size;
        if (l->fd >= 0)
                (void)!ftruncate(l->fd, 0); /* a beginning that looks like the whole would be a lie */
}

static void punch(struct run *r, struct run_log *l, uint64_t size) {
        if (fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)l->from, (off_t)size) < 0) {
                int e = -errno;

                give_up(r, l, e);
                return;
        }
        l->from += size;
}

void run_log_shrink(struct run *r, enum run_side side, uint64_t keep) {
        struct run_log *l = &r->logs[side];
        uint64_t to = (l->size - MIN(keep, l->size)) / BLOCK * BLOCK; /* a hole begins and ends where blocks do */

        run_log_flush(r);
        if (l->fd >= 0 && !l->broken && to > l->from)
                punch(r, l, to - l->from);
}

static void write_out(struct run *r, enum run_side side, uint64_t offset, const uint8_t *bytes, size_t size) {
        struct run_log *l = &r->logs[side];

        if (l->fd < 0)
                l->fd = open_log(r, side, O_RDWR | O_CREAT);
        if (l->fd < 0) {
                give_up(r, l, l->fd);
                return;
        }
        while (size > 0) {
                ssize_t n = pwrite(l->fd, bytes, size, (off_t)offset);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        give_up(r, l, n < 0 ? -errno : -EIO);
                        return;
                }
                bytes += n;
                offset += (uint64_t)n;
                size -= (size_t)n;
        }
        if (l->size - l->from > RUN_LOG_KEEP + PUNCH)
                punch(r, l, PUNCH);
        log_share_grow(r);
}

void run_log_flush(struct run *r) {
        for (unsigned side = 0; side < RUN_SIDES; side++) {
                struct run_log *l = &r->logs[side];
                _cleanup_free_ uint8_t *late = TAKE_PTR(l->late);

                if (late && !l->broken)
                        write_out(r, (enum run_side)side, 0, late, l->late_size);
        }
}

static void flush_later(struct loop_task *t) {
        run_log_flush(LOOP_OWNER(t, struct run, log_task));
}

/* Most runs print little, and making a file takes longer than all else that has to be done before the client has its
 * answer: the first bytes go to the file behind that, in the same turn. The guest has them until we confirm more. */
static bool postpone(struct run *r, struct run_log *l, uint64_t offset, const uint8_t *bytes, size_t size) {
        uint64_t so_far = l->late ? l->late_size : 0;

        if (l->fd >= 0 || offset != so_far || so_far + size > LATE)
                return false;
        if (!l->late)
                l->late = malloc(LATE);
        if (!l->late)
                return false;
        memcpy(l->late + so_far, bytes, size);
        l->late_size = (size_t)so_far + size;
        r->log_task.run = flush_later;
        loop_later(r->sandbox->o->loop, &r->log_task);
        return true;
}

void run_log_write(struct run *r, enum run_side side, uint64_t offset, const uint8_t *bytes, size_t size) {
        struct run_log *l = &r->logs[side];

        if (offset > l->size) /* a terminal forgot what was between */
                l->from = offset;
        l->size = offset + size;
        if (l->broken) {
                l->from = l->size;
                return;
        }
        if (postpone(r, l, offset, bytes, size))
                return;
        run_log_flush(r);
        if (!l->broken)
                write_out(r, side, offset, bytes, size);
}

ssize_t run_log_read(struct run *r, enum run_side side, uint64_t offset, void *buf, size_t size) {
        struct run_log *l = &r->logs[side];

        run_log_flush(r);
        if (l->fd < 0)
                l->fd = open_log(r, side, O_RDWR);
        if (l->fd < 0)
                return l->fd;
        ssize_t n = pread(l->fd, buf, MIN(size, (size_t)(l->size - offset)), (off_t)offset);
        return n < 0 ? -errno : n;
}

void run_log_close(struct run *r) {
        loop_cancel(r->sandbox->o->loop, &r->log_task);
        run_log_flush(r);
        for (unsigned side = 0; side < RUN_SIDES; side++) {
                struct run_log *l = &r->logs[side];

                if (l->broken && l->fd >= 0)
                        (void)!ftruncate(l->fd, (off_t)l->size); /* a hole takes no room, and says how much there was */
                fd_close(&l->fd);
        }
}

/* Where the data begins: behind the hole that punch left. */
void run_log_open_old(struct run *r) {
        for (unsigned side = 0; side < RUN_SIDES; side++) {
                struct run_log *l = &r->logs[side];
                struct stat st;

                l->fd = open_log(r, (enum run_side)side, O_RDWR);
                if (l->fd < 0 || fstat(l->fd, &st) < 0)
                        continue;
                off_t data = st.st_size > 0 ? lseek(l->fd, 0, SEEK_DATA) : 0;
                l->size = (uint64_t)st.st_size;
                l->from = data >= 0 ? (uint64_t)data : errno == ENXIO ? l->size : 0; /* nothing but a hole */
        }
}

void run_log_remove(struct sandbox *s, uint32_t number) {
        char path[64];

        for (unsigned side = 0; side < RUN_SIDES; side++) {
                (void)snprintf(path, sizeof path, "logs/%s/%u.%s", s->id, number, suffixes[side]);
                (void)unlinkat(s->o->state, path, 0);
        }
        log_share_drop(s, number);
}

void run_log_remove_all(struct core *o, const char *sandbox) {
        char folder[40];

        (void)snprintf(folder, sizeof folder, "logs/%.16s", sandbox);
        int fd = openat(o->state, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir) {
                fd_close(&fd);
                return;
        }
        for (struct dirent *e; (e = readdir(dir));)
                if (e->d_name[0] != '.')
                        (void)unlinkat(dirfd(dir), e->d_name, 0);
        (void)closedir(dir);
        (void)unlinkat(o->state, folder, AT_REMOVEDIR);
}

int run_log_each(struct core *o, void (*fn)(struct core *o, const char *sandbox)) {
        int fd = openat(o->state, "logs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

        if (!dir) {
                int e = -errno;

                fd_close(&fd);
                return e == -ENOENT ? 0 : e;
        }
        for (struct dirent *e; (e = readdir(dir));)
                if (warden_is_id(e->d_name))
                        fn(o, e->d_name);
        (void)closedir(dir);
        return 0;
}
