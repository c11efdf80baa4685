/* Tests of disks on a real kernel, as root: what is written by a sandbox's ids, up to the last byte and file; layers,
 * seals, clones; and that nothing is left, whatever failed. Each runs twice: as on this kernel, and as on an old one.
 */
#include "disk/test-volume.h"

#define D1 "00000000000000d1"
#define D2 "00000000000000d2"
#define D3 "00000000000000d3"
#define D4 "00000000000000d4"
#define D5 "00000000000000d5"
#define D6 "00000000000000d6"
#define I1 "00000000000000e1"

static void canonical_ids(bool old) {
        struct world w;
        int a = -EBADF, b = -EBADF;

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, 8 * MIB, 100, &err));
                CHECK(volume_make(w.v, D1, 8 * MIB, 100, NULL) == -EEXIST);
                CHECK(volume_busy(w.v, D1) == 0 && volume_busy(w.v, D2) == -ENOENT);
                GOOD(view(&w, NULL, false, &a, &err, D1, NULL));
                CHECK(volume_busy(w.v, D1) == 1);
                CHECK(USER_A(&w, a, "test $(stat -c %u:%g:%a .) = 1000:1000:755 && mkdir d && echo hi > d/f") == 0);
                CHECK(USER_A(&w, a, "test \"$(ls -A)\" = d") == 0); /* nothing of ours is in sight */
                CHECK(ROOT_A(&w, a, "echo root > r && chown 33:33 r && chmod 4755 r") == 0);
                CHECK(sh(-EBADF, 0, a, "touch x") != 0); /* the host's root is in nobody's map */
                CHECK(USER_B(&w, a, "touch x") != 0);
                fd_close(&a);
                /* another sandbox with other host ids sees the same ids */
                struct volume_view other = {.disk = D1, .id_base = BASE_B, .user_ns = w.ns_b};
                GOOD(volume_mount(w.v, &other, &b, &err));
                CHECK(USER_B(&w, b,
                             "test $(stat -c %u:%g d/f) = 1000:1000 && test $(stat -c %u r) = 33 && echo > d/f") == 0);
                CHECK(USER_B(&w, b, ": > new") == 0);
                struct statvfs fs;
                CHECK(fstatvfs(b, &fs) == 0 && (fs.f_flag & ST_NOSUID) && (fs.f_flag & ST_NODEV));
                fd_close(&b);
        }
        world_close(&w);
}

/* Writes until it cannot, and counts. */
static uint64_t pour(struct world *w, int dir, unsigned id) {
        int pipes[2], status;
        uint64_t total = 0;

        if (pipe2(pipes, O_CLOEXEC) < 0)
                return 0;
        pid_t pid = fork();
        if (pid == 0) {
                static char block[4096];
                if (setns(w->ns_a, CLONE_NEWUSER) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
                        _exit(1);
                int fd = openat(dir, id ? "big" : "roots", O_WRONLY | O_CREAT | O_EXCL, 0600);
                memset(block, 'x', sizeof block);
                for (ssize_t n; (n = write(fd, block, sizeof block)) > 0;)
                        total += (uint64_t)n;
                int error = errno;
                (void)!write(pipes[1], &total, sizeof total);
                _exit(error == ENOSPC ? 0 : 1);
        }
        CHECK(read(pipes[0], &total, sizeof total) == sizeof total);
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        return total;
}

static void exact_quota(struct world *w, uint64_t size, uint64_t inodes, const char *disk, const char *const *layers) {
        struct volume_space s = {0};
        struct statvfs fs;
        char command[200];
        int m = -EBADF;

        GOOD(volume_make(w->v, disk, size, inodes, &err));
        GOOD(view(w, NULL, false, &m, &err, disk, layers));
        if (m < 0)
                return;
        CHECK(fstatvfs(m, &fs) == 0 && fs.f_bavail * fs.f_frsize == size && fs.f_ffree == inodes);
        GOOD(volume_space(w->v, disk, &s, &err));
        CHECK(s.bytes == size && s.bytes_used == 0 && s.inodes == inodes && s.inodes_used == 0);
        CHECK(s.host_bytes < 2 * MIB); /* a blank one takes next to nothing */

        /* one more file than asked for does not fit */
        (void)snprintf(command, sizeof command, "i=0; while [ $i -lt %llu ]; do : > f$i || exit 1; i=$((i+1)); done",
                       (unsigned long long)inodes);
        CHECK(USER_A(w, m, command) == 0);
        CHECK(USER_A(w, m, ": > more") != 0);
        CHECK(volume_space(w->v, disk, &s, NULL) == 0 && s.inodes_used == inodes);
        CHECK(USER_A(w, m, "rm -f f*") == 0);
        CHECK(fstatvfs(m, &fs) == 0 && fs.f_ffree == inodes);

        uint64_t room = fs.f_bavail * fs.f_frsize, got = pour(w, m, 1000);
        CHECK(got <= size && got + 16 * VOLUME_BLOCK >= room); /* a few blocks say where the others are */
        CHECK(pour(w, m, 0) <= 16 * VOLUME_BLOCK);             /* nor has its root a reserve */
        CHECK(volume_space(w->v, disk, &s, NULL) == 0 && s.bytes_used >= got && s.bytes_used <= size);
        fd_close(&m);
        CHECK(volume_space(w->v, disk, &s, NULL) == 0 && s.bytes == size && s.bytes_used >= got &&
              s.bytes_used <= size);
}

static void quotas_are_exact(bool old) {
        static const uint64_t sizes[][2] = {
                {4096, 8}, {MIB, 16}, {5 * MIB + 4096, 333}, {64 * MIB, 2000}, {200 * MIB, 100}};
        struct world w;

        if (world_open(&w, old)) {
                for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                        exact_quota(&w, sizes[i][0], sizes[i][1], D1, NULL);
                        GOOD(volume_drop(w.v, D1, &err));
                }
                GOOD(volume_make(w.v, D2, MIB, 20, &err));
                exact_quota(&w, 3 * MIB, 40, D1, LAYERS(D2));
                CHECK(volume_make(w.v, D3, 0, 100, &err) == ERR_LIMIT &&
                      volume_make(w.v, D3, MIB, 0, &err) == ERR_LIMIT);
                CHECK(volume_make(w.v, D3, VOLUME_SIZE_MAX + 1, 100, &err) == ERR_LIMIT);
                CHECK(volume_make(w.v, D3, MIB, 1 << 30, &err) == ERR_LIMIT);
                CHECK(volume_busy(w.v, D3) == -ENOENT);
        }
        world_close(&w);
}

/* Somebody was killed while he made a new disk's root the user's. */
static void half_adopted_is_adopted(bool old) {
        struct world w;
        struct stat st;
        int m = -EBADF;

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, MIB, 20, &err));
                CHECK(sh(-EBADF, 0, w.state,
                         "debugfs -w -R 'set_inode_field upper uid 1000' disks/" D1 "/disk.img 2>/dev/null") == 0);
                GOOD(view(&w, NULL, false, &m, &err, D1, NULL));
                CHECK(m >= 0 && fstat(m, &st) == 0 && (st.st_mode & 07777) == 0755);
                CHECK(m >= 0 && USER_A(&w, m, "echo 1 > f") == 0);
                fd_close(&m);
        }
        world_close(&w);
}

/* Five layers, each of which changes what is below it in all the ways there are. */
static void layers_stack(bool old) {
        static const char *const steps[] = {
                "mkdir -p a/b/c keep; echo 1 > a/b/c/f; echo 1 > keep/f; echo 1 > gone; ln -s gone link; chmod 750 .",
                "rm gone && echo 2 > keep/f && mv a/b a/moved",    /* whiteout, copy up, renamed folder */
                "rm -r keep && mkdir keep && echo 3 > keep/other", /* an opaque folder */
                "mv a/moved/c a/moved/d && echo 4 > a/moved/d/g && echo 4 > gone", /* renamed below a renamed one */
                "rm -rf a/moved/d/f && ln gone hard && mkdir -p x/y && touch x/y/z",
        };
        static const char *const disks[] = {D5, D4, D3, D2, D1};
        struct world w;
        int m = -EBADF;

        if (world_open(&w, old)) {
                for (size_t i = 0; i < 5; i++) {
                        const char *const *layers = i == 0 ? NULL : (const char *const *)disks + 5 - i;
                        const char *below[6] = {0};
                        for (size_t k = 0; layers && k < i; k++)
                                below[k] = layers[k];
                        GOOD(volume_make(w.v, disks[4 - i], 8 * MIB, 200, &err));
                        GOOD(view(&w, NULL, false, &m, &err, disks[4 - i], below));
                        CHECK(USER_A(&w, m, steps[i]) == 0);
                        fd_close(&m);
                }
                GOOD(volume_make(w.v, D6, 8 * MIB, 200, &err));
                GOOD(view(&w, NULL, false, &m, &err, D6, LAYERS(D5, D4, D3, D2, D1)));
                CHECK(USER_A(&w, m,
                             "test \"$(find . | LC_ALL=C sort | tr '\\n' ' ')\" = "
                             "'. ./a ./a/moved ./a/moved/d ./a/moved/d/g ./gone ./hard ./keep ./keep/other ./link ./x "
                             "./x/y ./x/y/z '") == 0);
                CHECK(USER_A(&w, m, "test $(cat gone) = 4 && test $(cat link) = 4 && test $(cat keep/other) = 3") == 0);
                CHECK(USER_A(&w, m, "test $(stat -c %a .) = 750 && test $(stat -c %u .) = 1000") == 0);
                CHECK(USER_A(&w, m,
                             "mv a z && mv z/moved . && test -e moved/d/g && rmdir z && rm -rf x && ! test -e x") == 0);
                fd_close(&m);
                /* what was, as it was, by any prefix of the chain */
                GOOD(view(&w, NULL, true, &m, &err, NULL, LAYERS(D2, D1)));
                CHECK(USER_A(&w, m, "test $(cat keep/f) = 2 && test $(cat a/moved/c/f) = 1 && ! test -e gone") == 0);
                CHECK(USER_A(&w, m, "touch x") != 0);
                fd_close(&m);
                GOOD(view(&w, NULL, true, &m, &err, NULL, LAYERS(D1)));
                CHECK(USER_A(&w, m, "test $(cat gone) = 1 && test $(cat a/b/c/f) = 1") == 0);
                fd_close(&m);
        }
        world_close(&w);
}

static void read_sum(struct world *w, const char *id, char ret[80]) {
        char command[200];

        ret[0] = '\0';
        (void)snprintf(command, sizeof command, "sha256sum disks/%s/disk.img > sum", id);
        CHECK(sh(-EBADF, 0, w->state, command) == 0);
        CHECK(fd_read_at(w->state, "sum", ret, 65) > 0);
}

static void sealed_layers_stay(bool old) {
        struct world w;
        int m = -EBADF, n = -EBADF;
        char before[80], after[80];

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, 8 * MIB, 100, &err));
                GOOD(volume_make(w.v, D2, 8 * MIB, 100, &err));
                GOOD(volume_make(w.v, D3, 8 * MIB, 100, &err));
                GOOD(view(&w, NULL, false, &m, &err, D1, NULL));
                CHECK(USER_A(&w, m, "mkdir d; echo one > d/f; echo two > g") == 0);
                /* it is still written to */
                CHECK(view(&w, NULL, false, &n, &err, D2, LAYERS(D1)) == -EBUSY && err.hint[0]);
                CHECK(view(&w, NULL, false, &n, &err, D1, NULL) == -EBUSY);
                fd_close(&m);
                GOOD(view(&w, NULL, false, &m, &err, D2, LAYERS(D1)));
                read_sum(&w, D1, before);
                GOOD(view(&w, NULL, false, &n, &err, D3, LAYERS(D1))); /* a second sandbox on the same layer */
                CHECK(USER_A(&w, m, "rm -r d && echo mine > g") == 0);
                CHECK(USER_A(&w, n, "test $(cat d/f) = one && test $(cat g) = two && echo other >> d/f") == 0);
                CHECK(volume_drop(w.v, D1, &err) == -EBUSY && volume_drop(w.v, D2, &err) == -EBUSY && err.hint[0]);
                int third = -EBADF;
                CHECK(view(&w, NULL, false, &third, &err, D1, NULL) == ERR_REFUSED);
                CHECK(volume_abandon(w.v, D1, NULL) == 0); /* does nothing to others */
                CHECK(USER_A(&w, n, "grep -q other d/f && sync -f .") == 0);
                fd_close(&m);
                CHECK(volume_busy(w.v, D1) == 1);
                fd_close(&n);
                CHECK(volume_busy(w.v, D1) == 0);
                read_sum(&w, D1, after);
                CHECK_STR(after, before);
                /* rollback: the top goes, a new one comes */
                GOOD(volume_drop(w.v, D2, &err));
                GOOD(volume_make(w.v, D2, 8 * MIB, 100, &err));
                GOOD(view(&w, NULL, false, &m, &err, D2, LAYERS(D1)));
                CHECK(USER_A(&w, m, "test $(cat d/f) = one && test $(cat g) = two") == 0);
                fd_close(&m);
        }
        world_close(&w);
}

static void running_disks_are_cloned(bool old) {
        struct world w;
        int m = -EBADF, n = -EBADF;

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, 32 * MIB, 1000, &err));
                GOOD(view(&w, NULL, false, &m, &err, D1, NULL));
                CHECK(USER_A(&w, m, "mkdir d; i=0; while [ $i -lt 50 ]; do echo $i > d/$i; i=$((i+1)); done") == 0);
                CHECK(USER_A(&w, m, "head -c 5000000 /dev/urandom > big; sha256sum big > sum") == 0);
                GOOD(volume_order(w.v, D1, &err));
                CHECK(USER_A(&w, m, "echo ordered > o && sync o") == 0);
                GOOD(volume_flush(w.v, D1, &err));
                GOOD(volume_clone(w.v, D1, D2, &err));
                GOOD(volume_sync(w.v, D2, &err));
                CHECK(volume_clone(w.v, D1, D2, NULL) == -EEXIST);
                CHECK(USER_A(&w, m, "rm -r d; echo later > big") == 0);
                GOOD(volume_make(w.v, D3, 8 * MIB, 100, &err));
                GOOD(view(&w, NULL, false, &n, &err, D3, LAYERS(D2))); /* its journal is replayed by that */
                CHECK(USER_A(&w, n,
                             "sha256sum --status -c sum && test $(ls d | wc -l) = 50 && test $(cat d/49) = 49") == 0);
                fd_close(&n);
                struct volume_space s;
                GOOD(volume_space(w.v, D2, &s, &err));
                CHECK(s.host_bytes > 5 * MIB && s.host_bytes < 12 * MIB && s.bytes == 32 * MIB);
                /* read while it runs */
                GOOD(view(&w, NULL, true, &n, &err, D1, NULL));
                CHECK(USER_A(&w, n, "test $(cat big) = later") == 0);
                fd_close(&n);
                CHECK(USER_A(&w, m, "echo again > big") == 0);
                fd_close(&m);
                GOOD(volume_order(w.v, D1, &err)); /* not mounted: nothing to do */
                GOOD(volume_order(w.v, D2, &err)); /* sealed: likewise */
                GOOD(volume_flush(w.v, D1, &err));
                CHECK(volume_flush(w.v, D4, NULL) == -ENOENT);
        }
        world_close(&w);
}

static void dropped_is_gone(bool old) {
        struct world w;
        int m = -EBADF;

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, 64 * MIB, 100, &err));
                GOOD(view(&w, NULL, false, &m, &err, D1, NULL));
                CHECK(volume_drop(w.v, D1, &err) == -EBUSY);
                CHECK(USER_A(&w, m, "head -c 40000000 /dev/zero | tr '\\0' x > big") == 0);
                GOOD(volume_flush(w.v, D1, &err));
                CHECK(USER_A(&w, m,
                             "rm big && sync -f . && head -c 30000000 /dev/zero | tr '\\0' x > big && sync -f .") == 0);
                struct volume_space s;
                GOOD(volume_space(w.v, D1, &s, &err));
                CHECK(s.host_bytes < 40 * MIB); /* what was removed inside is free outside */
                GOOD(volume_abandon(w.v, D1, &err));
                CHECK(USER_A(&w, m, "echo x > y") != 0);
                fd_close(&m);
                GOOD(volume_drop(w.v, D1, &err));
                GOOD(volume_drop(w.v, D1, &err));
                CHECK(volume_busy(w.v, D1) == -ENOENT);
                CHECK(sh(-EBADF, 0, w.state, "test $(ls disks | wc -l) = 0 && test $(ls blank/trash | wc -l) = 1") ==
                      0);
                GOOD(volume_reclaim(w.v, &err));
                CHECK(sh(-EBADF, 0, w.state, "test $(ls blank/trash | wc -l) = 0") == 0);
                GOOD(volume_make(w.v, D1, 64 * MIB, 100, &err));
                GOOD(volume_drop(w.v, D1, &err));
                CHECK(sh(-EBADF, 0, w.state, "test $(ls blank/trash | wc -l) = 0") == 0); /* small ones at once */
        }
        world_close(&w);
}

static int count_id(void *data, const char *id) {
        (void)id;
        return ++*(int *)data, 0;
}

static void failures_leave_nothing(bool old) {
        struct world w;
        int m = -EBADF, n = 0;

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, 8 * MIB, 100, &err));
                GOOD(volume_make(w.v, D2, 8 * MIB, 100, &err));
                GOOD(volume_make(w.v, D3, 8 * MIB, 100, &err));
                unsigned fds = count_fds();
                CHECK(view(&w, NULL, false, &m, &err, D2, LAYERS(D1, D4)) == -ENOENT);
                CHECK(view(&w, I1, false, &m, &err, D2, LAYERS(D1)) == -ENOENT);
                CHECK(view(&w, "../x", false, &m, &err, D2, NULL) == ERR_INPUT);
                CHECK(view(&w, NULL, false, &m, &err, "../disks/" D2, NULL) == ERR_INPUT);
                CHECK(view(&w, NULL, false, &m, &err, NULL, LAYERS(D1)) == ERR_INPUT);
                CHECK(view(&w, NULL, true, &m, &err, NULL, NULL) == ERR_INPUT);
                CHECK(volume_make(w.v, "00000000000000D1", MIB, 8, &err) == ERR_INPUT);
                CHECK(volume_clone(w.v, D4, D5, NULL) == -ENOENT && volume_clone(w.v, D1, D2, NULL) == -EEXIST);
                /* a user namespace that is none */
                struct volume_view wrong = {.disk = D3, .id_base = BASE_A, .user_ns = w.state};
                CHECK(volume_mount(w.v, &wrong, &m, &err) < 0);
                /* ids that are not in the map would make it read-only in silence */
                wrong = (struct volume_view){
                        .disk = D3, .layers = LAYERS(D1), .layer_count = 1, .id_base = BASE_B, .user_ns = w.ns_a};
                CHECK(volume_mount(w.v, &wrong, &m, &err) < 0);
                /* an image that is damaged, cut, or none */
                CHECK(sh(-EBADF, 0, w.state, "dd if=/dev/zero of=disks/" D3 "/disk.img bs=4096 count=1 conv=notrunc") ==
                      0);
                CHECK(view(&w, NULL, false, &m, &err, D3, NULL) < 0 && err.text[0]);
                CHECK(view(&w, NULL, false, &m, &err, D2, LAYERS(D3)) < 0);
                CHECK(volume_clone(w.v, D3, D5, NULL) == ERR_CORRUPT && volume_busy(w.v, D5) == -ENOENT);
                CHECK(sh(-EBADF, 0, w.state, "truncate -s 100 disks/" D3 "/disk.img") == 0);
                CHECK(view(&w, NULL, false, &m, &err, D3, NULL) < 0);
                CHECK(loops_of(&w) == 0 && count_fds() == fds);
                CHECK(volume_drop(w.v, D3, NULL) == 0);
                /* a number of somebody else's device, or nonsense, is no device of ours */
                CHECK(sh(-EBADF, 0, w.state, "ln -sfn 0 disks/" D2 "/loop; ln -sfn ../../x disks/" D1 "/loop") == 0);
                CHECK(volume_busy(w.v, D2) == 0 && volume_busy(w.v, D1) == 0);
                GOOD(view(&w, NULL, false, &m, &err, D2, NULL));
                fd_close(&m);
                /* what is half-made goes when the state is opened */
                CHECK(sh(-EBADF, 0, w.state,
                         "mkdir disks/" D5 " disks/strange blank/new-1 && "
                         "touch disks/" D5 "/new blank/new-1/template blank/2048-100/new-2") == 0);
                CHECK(volume_each(w.v, false, count_id, &n) == 0 && n == 2);
                volumes_close(w.v);
                GOOD(volumes_open(&w.v, w.state, &err));
                CHECK(sh(-EBADF, 0, w.state, "test $(ls disks | wc -l) = 2") == 0);
                CHECK(sh(-EBADF, 0, w.state, "! ls -d blank/new-* blank/*/new-* && test -e blank/2048-100/template") ==
                      0);
        }
        world_close(&w);
}

/* An export takes its time: meanwhile its disks are resumed, sealed and forked. */
static void readers_are_in_nobodys_way(bool old) {
        struct world w;
        int reader = -EBADF, m = -EBADF, n = -EBADF;

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, 8 * MIB, 100, &err));
                GOOD(volume_make(w.v, D2, 8 * MIB, 100, &err));
                GOOD(volume_make(w.v, D3, 8 * MIB, 100, &err));
                GOOD(view(&w, NULL, false, &m, &err, D1, NULL));
                CHECK(USER_A(&w, m, "echo one > f") == 0);
                fd_close(&m);
                GOOD(view(&w, NULL, true, &reader, &err, NULL, LAYERS(D1)));
                GOOD(view(&w, NULL, false, &m, &err, D1, NULL)); /* resumed */
                CHECK(USER_A(&w, m, "echo two > f") == 0 && USER_A(&w, reader, "echo three > f") != 0);
                CHECK(view(&w, NULL, false, &n, &err, D1, NULL) == -EBUSY); /* by one sandbox only */
                fd_close(&m);
                CHECK(USER_A(&w, reader, "test $(cat f) = two") == 0);
                fd_close(&reader);
                GOOD(view(&w, NULL, true, &reader, &err, NULL, LAYERS(D1)));
                GOOD(view(&w, NULL, false, &m, &err, D2, LAYERS(D1))); /* sealed, with a disk on top */
                GOOD(view(&w, NULL, false, &n, &err, D3, LAYERS(D1))); /* forked */
                CHECK(USER_A(&w, m, "echo mine > f") == 0 && USER_A(&w, n, "test $(cat f) = two && echo x > f") == 0);
                CHECK(USER_A(&w, reader, "test $(cat f) = two") == 0);
                fd_close(&reader);
                CHECK(view(&w, NULL, false, &reader, &err, D1, NULL) == ERR_REFUSED && volume_busy(w.v, D1) == 1);
                fd_close(&m);
                fd_close(&n);
                CHECK(volume_busy(w.v, D1) == 0);
                GOOD(view(&w, NULL, true, &reader, &err, D2, LAYERS(D1)));
                CHECK(USER_A(&w, reader, "test $(cat f) = mine") == 0);
                fd_close(&reader);
        }
        world_close(&w);
}

static void as_many_layers_as_there_can_be(bool old) {
        static char names[VOLUME_LAYERS_MAX + 2][VOLUME_ID_SIZE];
        const char *layers[VOLUME_LAYERS_MAX + 2] = {0};
        struct world w;
        int m = -EBADF;

        if (world_open(&w, old)) {
                for (size_t i = 0; i < VOLUME_LAYERS_MAX + 2; i++) {
                        (void)snprintf(names[i], sizeof names[i], "%016zx", i);
                        GOOD(volume_make(w.v, names[i], MIB, 32, &err));
                }
                for (size_t i = 0; i < VOLUME_LAYERS_MAX; i++)
                        layers[i] = names[VOLUME_LAYERS_MAX - i];
                GOOD(view(&w, NULL, false, &m, &err, layers[VOLUME_LAYERS_MAX - 1], NULL));
                CHECK(USER_A(&w, m, "echo bottom > f") == 0);
                fd_close(&m);
                GOOD(view(&w, NULL, false, &m, &err, names[0], layers));
                CHECK(USER_A(&w, m, "test $(cat f) = bottom && echo top > f") == 0);
                fd_close(&m);
                layers[VOLUME_LAYERS_MAX] = names[VOLUME_LAYERS_MAX + 1];
                CHECK(view(&w, NULL, false, &m, &err, names[0], layers) == ERR_LIMIT);
        }
        world_close(&w);
}

static void successors_know(bool old) {
        struct world w;
        int m = -EBADF, n = -EBADF;

        if (world_open(&w, old)) {
                GOOD(volume_make(w.v, D1, 8 * MIB, 100, &err));
                GOOD(volume_make(w.v, D2, 8 * MIB, 100, &err));
                GOOD(view(&w, NULL, false, &m, &err, D2, LAYERS(D1)));
                volumes_close(w.v);
                GOOD(volumes_open(&w.v, w.state, &err));
                CHECK(volume_busy(w.v, D1) == 1 && volume_busy(w.v, D2) == 1);
                CHECK(volume_drop(w.v, D2, NULL) == -EBUSY);
                CHECK(view(&w, NULL, false, &n, NULL, D2, LAYERS(D1)) == -EBUSY);
                GOOD(volume_flush(w.v, D2, &err));
                fd_close(&m);
                GOOD(view(&w, NULL, false, &n, &err, D2, LAYERS(D1)));
                fd_close(&n);
        }
        world_close(&w);
}

/* The host has no room: a tmpfs of 3 MiB holds a template and one disk, not ten. */
static void a_full_host(bool old) {
        struct world w;

        if (world_open(&w, old)) {
                char command[200];
                (void)snprintf(command, sizeof command, "mkdir small && mount -t tmpfs -o size=3m none %s/small",
                               w.path);
                CHECK(sh(-EBADF, 0, w.state, command) == 0);
                _cleanup_fd_ int small = openat(w.state, "small", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                struct volumes *v = NULL;
                GOOD(volumes_open(&v, small, &err));
                unsigned made = 0;
                int r = 0;
                for (char id[] = "00000000000000a0"; v && r == 0 && made < 100; made += r == 0, id[15]++) {
                        if (made % 10 == 9)
                                id[14]++, id[15] = '0';
                        r = volume_make(v, id, 64 * MIB, 1000, &err);
                }
                CHECK(r == -ENOSPC && made > 0 && made < 90);
                CHECK(strstr(err.text, "No space left"));
                (void)snprintf(command, sizeof command, "test $(ls small/disks | wc -l) = %u", made);
                CHECK(sh(-EBADF, 0, w.state, command) == 0);
                CHECK(v && volume_prepare(v, 64 * MIB, 1000, 2, NULL) == -ENOSPC);
                CHECK(v && volume_make(v, D1, 32 * MIB, 1000, NULL) < 0); /* no template either */
                CHECK(sh(-EBADF, 0, w.state,
                         "test $(ls small/blank | wc -l) = 3 && test $(ls small/blank/16384-1000 | wc -l) = 1") == 0);
                volumes_close(v);
                fd_close(&small);
                CHECK(loops_of(&w) == 0);
                (void)snprintf(command, sizeof command, "umount %s/small", w.path);
                CHECK(sh(-EBADF, 0, w.state, command) == 0);
        }
        world_close(&w);
}

static void images_are_below(bool old) {
        struct world w;
        int root = -EBADF, m = -EBADF, n = -EBADF, count = 0;
        char text[64];

        if (world_open(&w, old)) {
                GOOD(image_begin(w.v, I1, w.ns_a, &root, &err));
                CHECK(ROOT_A(&w, root,
                             "mkdir -p etc usr/bin home && echo image > etc/issue && chown 1000:1000 home && "
                             "chown 33:33 usr/bin && chmod 755 .") == 0);
                fd_close(&root);
                CHECK(view(&w, I1, true, &m, NULL, NULL, NULL) == -ENOENT); /* not finished */
                GOOD(image_finish(w.v, I1, "a test", &err));
                CHECK(image_about(w.v, I1, text, sizeof text) == 6 && str_eq(text, "a test"));
                CHECK(volume_each(w.v, true, count_id, &count) == 0 && count == 1);
                CHECK(sh(-EBADF, 0, w.state, "test $(stat -c %u images/" I1 "/root/usr/bin) = 33") == 0);

                GOOD(volume_make(w.v, D1, 8 * MIB, 100, &err));
                GOOD(view(&w, I1, false, &m, &err, D1, NULL));
                CHECK(USER_A(&w, m,
                             "test $(stat -c %u:%a .) = 0:755 && test $(cat etc/issue) = image && echo x > home/x") ==
                      0);
                CHECK(USER_A(&w, m, "echo x > etc/issue") != 0);
                CHECK(ROOT_A(&w, m, "rm etc/issue && echo changed > etc/motd") == 0);
                fd_close(&m);
                GOOD(volume_make(w.v, D2, 8 * MIB, 100, &err));
                GOOD(view(&w, I1, false, &m, &err, D2, LAYERS(D1)));
                CHECK(USER_A(&w, m, "! test -e etc/issue && test $(cat etc/motd) = changed && test -e home/x") == 0);
                GOOD(view(&w, I1, true, &n, &err, NULL, NULL)); /* the image alone is as it was */
                CHECK(USER_A(&w, n, "test $(cat etc/issue) = image && ! test -e etc/motd") == 0);
                fd_close(&m);
                fd_close(&n);

                int other = -EBADF;
                GOOD(image_begin(w.v, D1, w.ns_a, &other, &err));
                CHECK(image_begin(w.v, D1, w.ns_a, &other, NULL) == -EEXIST);
                fd_close(&other);
                volumes_close(w.v);
                GOOD(volumes_open(&w.v, w.state, &err)); /* unfinished ones go */
                CHECK(sh(-EBADF, 0, w.state, "test $(ls images | wc -l) = 1") == 0);
                GOOD(image_drop(w.v, I1, &err));
                GOOD(image_drop(w.v, I1, &err));
                CHECK(view(&w, I1, true, &m, NULL, NULL, NULL) == -ENOENT);
                GOOD(volume_reclaim(w.v, &err));
        }
        world_close(&w);
}

static void blanks_are_ready(bool old) {
        struct world w;

        if (world_open(&w, old)) {
                CHECK(!volume_quick(w.v, 16 * MIB, 500));
                GOOD(volume_prepare(w.v, 16 * MIB, 500, 3, &err));
                CHECK(volume_quick(w.v, 16 * MIB, 500) && !volume_quick(w.v, 16 * MIB, 501));
                CHECK(sh(-EBADF, 0, w.state, "test $(ls blank/4096-500/ready-* | wc -l) = 3") == 0);
                GOOD(volume_make(w.v, D1, 16 * MIB, 500, &err));
                GOOD(volume_make(w.v, D2, 16 * MIB, 500, &err));
                CHECK(sh(-EBADF, 0, w.state, "test $(ls blank/4096-500/ready-* | wc -l) = 1") == 0);
                GOOD(volume_prepare(w.v, 16 * MIB, 500, 2, &err));
                CHECK(sh(-EBADF, 0, w.state, "test $(ls blank/4096-500/ready-* | wc -l) -ge 2") == 0);
                /* no two have one UUID */
                CHECK(sh(-EBADF, 0, w.state,
                         "for f in disks/*/disk.img blank/*/ready-* blank/*/template; do dumpe2fs -h $f 2>&1 | grep "
                         "UUID; done "
                         "| sort | uniq -d | grep -q . && exit 1; exit 0") == 0);
                CHECK(sh(-EBADF, 0, w.state,
                         "for f in disks/*/disk.img blank/*/*; do e2fsck -fn $f >/dev/null || exit 1; done") == 0);
                /* many kinds: the oldest go */
                for (uint64_t i = 0; i < 34; i++)
                        CHECK(volume_prepare(w.v, (i + 1) * 4096, 8, 0, NULL) == 0);
                CHECK(sh(-EBADF, 0, w.state, "test $(ls -d blank/*-* | wc -l) -le 32") == 0);
                /* somebody cleaned up by hand */
                CHECK(sh(-EBADF, 0, w.state, "rm -r blank/* && mkdir blank/4096-500") == 0);
                CHECK(volume_make(w.v, D3, 16 * MIB, 500, NULL) == 0);
        }
        world_close(&w);
}

/* Mounted before it is anybody's disk; and a disk like any other when that mount is gone. */
static void warm_disks_are_disks(bool old) {
        static const char name[] = "00000000000000f1", other[] = "00000000000000f2";
        struct world w;
        int warm = -EBADF, m = -EBADF, n = -EBADF;

        if (world_open(&w, old)) {
                struct volume_view at = {.disk = D1, .id_base = BASE_A, .user_ns = w.ns_a, .warm = &warm};

                CHECK(volume_warm(w.v, "../x", 8 * MIB, 100, false, &warm, NULL) < 0 && warm < 0);
                GOOD(volume_warm(w.v, name, 8 * MIB, 100, false, &warm, &err));
                CHECK(volume_warm(w.v, name, 8 * MIB, 100, false, &n, NULL) == -EEXIST);
                CHECK(loops_of(&w) == 1 && volume_busy(w.v, D1) == -ENOENT);
                GOOD(volume_make(w.v, D2, 8 * MIB, 100, &err));
                CHECK(volume_make_warm(w.v, D2, name, NULL) == -EEXIST);
                GOOD(volume_make_warm(w.v, D1, name, &err));
                CHECK(volume_busy(w.v, D1) == 1 && volume_drop(w.v, D1, NULL) == -EBUSY);
                GOOD(volume_mount(w.v, &at, &m, &err));
                CHECK(USER_A(&w, m, "test $(stat -c %u:%g .) = 1000:1000 && echo kept > f") == 0);
                CHECK(loops_of(&w) == 1);
                GOOD(volume_order(w.v, D1, &err));
                fd_close(&warm); /* the view holds it */
                CHECK(volume_busy(w.v, D1) == 1 && USER_A(&w, m, "test $(cat f) = kept") == 0);
                fd_close(&m);
                GOOD(view(&w, NULL, false, &m, &err, D2, LAYERS(D1)));
                CHECK(USER_A(&w, m, "test $(cat f) = kept") == 0);
                fd_close(&m);
                /* on top of layers; and one whose mount goes before it is used */
                GOOD(volume_warm(w.v, other, 8 * MIB, 100, false, &warm, &err));
                GOOD(volume_make_warm(w.v, D3, other, &err));
                at = (struct volume_view){.disk = D3,
                                          .layers = LAYERS(D1),
                                          .layer_count = 1,
                                          .id_base = BASE_A,
                                          .user_ns = w.ns_a,
                                          .warm = &warm};
                GOOD(volume_mount(w.v, &at, &m, &err));
                CHECK(USER_A(&w, m, "test $(cat f) = kept && echo more > g") == 0);
                fd_close(&m);
                fd_close(&warm);
                GOOD(volume_warm(w.v, name, 8 * MIB, 100, false, &warm, &err));
                GOOD(volume_make_warm(w.v, D4, name, &err));
                fd_close(&warm);
                GOOD(view(&w, NULL, false, &m, &err, D4, NULL));
                fd_close(&m);
                /* nobody's: it goes when the state is opened */
                GOOD(volume_warm(w.v, name, 8 * MIB, 100, false, &warm, &err));
                fd_close(&warm);
                volumes_close(w.v);
                GOOD(volumes_open(&w.v, w.state, &err));
                CHECK(sh(-EBADF, 0, w.state, "test $(ls blank/disks | wc -l) = 0 && test $(ls disks | wc -l) = 4") ==
                      0);
        }
        world_close(&w);
}

#define BOTH(function)                                                                                                 \
        static void function##_new(void) {                                                                             \
                function(false);                                                                                       \
        }                                                                                                              \
        static void function##_old(void) {                                                                             \
                function(true);                                                                                        \
        }
BOTH(canonical_ids)
BOTH(quotas_are_exact)
BOTH(half_adopted_is_adopted)
BOTH(layers_stack)
BOTH(sealed_layers_stay)
BOTH(running_disks_are_cloned)
BOTH(dropped_is_gone)
BOTH(failures_leave_nothing)
BOTH(successors_know)
BOTH(a_full_host)
BOTH(images_are_below)
BOTH(blanks_are_ready)
BOTH(warm_disks_are_disks)
BOTH(readers_are_in_nobodys_way)
BOTH(as_many_layers_as_there_can_be)
#define TESTS(function) TEST(function##_new), TEST(function##_old)

TEST_MAIN(TESTS(canonical_ids), TESTS(quotas_are_exact), TESTS(half_adopted_is_adopted), TESTS(layers_stack),
          TESTS(sealed_layers_stay), TESTS(running_disks_are_cloned), TESTS(dropped_is_gone),
          TESTS(failures_leave_nothing), TESTS(successors_know), TESTS(a_full_host), TESTS(images_are_below),
          TESTS(blanks_are_ready), TESTS(warm_disks_are_disks), TESTS(readers_are_in_nobodys_way),
          TESTS(as_many_layers_as_there_can_be))
