/* Finding the end of a ledger after whatever happened to its writer.
 *
 * The last segment is followed line by line, and the one before too if the last has no whole line yet. What the head
 * says was durable has to be there and right, or the ledger is refused: it is not for us to go on as if nothing were
 * missing. What lies behind the head is kept as far as it is good, and the first byte that is not, with everything
 * after it, was being written when we were killed: it is cut off. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "ledger/segment.h"
#include "ledger/writer.h"

#define RECOVER_HINT                                                                                                   \
        "`stockade ledger verify` says what is broken; restore the folder from a backup, or move it aside to begin a " \
        "new ledger"

/* Follows a segment as far as it is good. */
static int follow(struct ledger *l, int fd, uint64_t first, uint64_t *ret_good, struct err *err) {
        _cleanup_(segment_lines_free) struct segment_lines s = {0};
        struct line line;
        const char *text;
        size_t size;
        int r = segment_lines_open(&s, fd, 0, UINT64_MAX, SEGMENT_WHOLE);

        chain_begin(&l->chain);
        while (r == 0 && (r = segment_lines_next(&s, &text, &size)) == 1) {
                if (s.place == 0 && line_parse(text, size, &line) == 0 && line.seq == first)
                        chain_begin_at(&l->chain, &line);
                r = chain_take(&l->chain, text, size, &line);
        }
        if (r < 0 && r != ERR_CORRUPT)
                return err_set(err, r, "cannot read the ledger's last segment");
        *ret_good = s.place;
        return 0;
}

static int refuse(struct ledger *l, struct err *err, const char *what) {
        (void)err_set(err, ERR_CORRUPT, "the ledger %s after event %llu%s%s", what, (unsigned long long)l->chain.seq,
                      l->chain.what[0] ? ": " : "", l->chain.what);
        return err_hint(err, RECOVER_HINT);
}

static int follow_segment(struct ledger *l, uint64_t first, uint64_t *ret_good, uint64_t *ret_size, struct err *err) {
        _cleanup_fd_ int fd = segment_open(l->dir, first, err);
        struct stat st;

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot read the ledger's last segment");
        *ret_size = (uint64_t)st.st_size;
        return follow(l, fd, first, ret_good, err);
}

/* Is everything there that the head says was durable? */
static int compare_head(struct ledger *l, uint64_t segment, uint64_t good, struct err *err) {
        const struct head *h = &l->durable;

        if (l->chain.seq < h->seq || (segment == h->segment && good < h->size))
                return refuse(l, err, "has lost events or is damaged");
        if (l->chain.seq == h->seq && h->seq > 0 && memcmp(l->chain.raw, h->hash, HASH_SIZE) != 0)
                return refuse(l, err, "does not end with the event that it ended with");
        return 0;
}

/* Cuts the last segment, makes what is left of it durable, and opens it for writing. */
static int settle(struct ledger *l, uint64_t first, uint64_t good, uint64_t size, struct err *err) {
        char name[SEGMENT_NAME];

        segment_name(first, name);
        _cleanup_fd_ int fd = openat(l->dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return err_set(err, -errno, "cannot open segment '%s'", name);
        if (good < size && ftruncate(fd, (off_t)good) < 0)
                return err_set(err, -errno, "could not cut segment '%s'", name);
        if (fsync(fd) < 0 || fsync(l->dir) < 0)
                return err_set(err, -errno, "could not sync segment '%s'", name);
        l->segment = first;
        l->segment_size = l->segment_allocated = good;
        l->segment_fd = TAKE_FD(fd);
        return 0;
}

static int check_keys(struct ledger *l, struct err *err) {
        /* a ledger that has begun has keys: to make new ones would be to disown it */
        int r = keys_open(&l->keys, l->dir, l->chain.seq == 0, err);

        if (r == -ENOENT)
                return err_hint(err, "restore it from a backup, or move the ledger's folder aside to begin a new one");
        if (r < 0)
                return r;
        if (l->chain.have_keys && memcmp(&l->chain.keys, keys_public(l->keys), sizeof l->chain.keys) != 0) {
                (void)err_set(err, ERR_CORRUPT,
                              "the ledger was signed with other keys than those in its file '" KEYS_FILE "'");
                return err_hint(err, RECOVER_HINT);
        }
        return 0;
}

/* The state from which events are queued and written. */
static int go_on(struct ledger *l, struct err *err) {
        struct head h = {
                .count = l->durable.count + 1, .seq = l->chain.seq, .segment = l->segment, .size = l->segment_size};

        memcpy(h.hash, l->chain.raw, HASH_SIZE);
        if (h.seq > 0) {
                int r = head_write(l->head_fd, &h);
                if (r < 0)
                        return err_set(err, r, "could not write the ledger's file '" HEAD_FILE "'");
                l->durable = h;
        }
        l->next_seq = h.seq + 1;
        l->planned = l->segment_size;
        l->covered = l->chain.seq - l->chain.checkpoint;
        l->uncovered_ms = writer_now_ms();
        return 0;
}

int recover_end(struct ledger *l, uint64_t *ret_cut, struct err *err) {
        _cleanup_(segment_list_free) struct segment_list list = {0};
        uint64_t good = 0, size = 0;

        chain_begin(&l->chain);
        int r = segment_list(l->dir, &list, err);
        if (r < 0)
                return r;
        if (list.count > 0 && list.first[list.count - 1] < l->durable.segment)
                list.count = 0; /* the one that the head names is not there */
        if (list.count == 0) {
                r = compare_head(l, 0, 0, err);
                if (r == 0)
                        r = check_keys(l, err);
                return r < 0 ? r : go_on(l, err);
        }
        uint64_t last = list.first[list.count - 1];
        r = follow_segment(l, last, &good, &size, err);
        if (r < 0)
                return r;
        if (good == 0 && list.count > 1) { /* nothing whole in it: the chain goes on from the one before */
                uint64_t before = list.first[list.count - 2], before_good, before_size;

                r = follow_segment(l, before, &before_good, &before_size, err);
                if (r < 0)
                        return r;
                if (before_good < before_size || l->chain.checkpoint != l->chain.seq)
                        return refuse(l, err, "is damaged");
                r = compare_head(l, before, before_good, err);
        } else
                r = compare_head(l, last, good, err);
        if (r < 0)
                return r;
        if (last != (good > 0 ? last : l->chain.seq + 1))
                return refuse(l, err, "has a segment that does not continue it");
        r = check_keys(l, err);
        if (r == 0)
                r = settle(l, last, good, size, err);
        if (r < 0)
                return r;
        *ret_cut = size - good;
        return go_on(l, err);
}
