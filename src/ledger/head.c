/* The head: two places in one small file, written in turn and in place, each with a count and a sum. One that was half
 * written when we were killed, or that a reader meets half written, is known by its sum; the other is the one before.
 */
#include "ledger/head.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "ledger/line.h"

#define HEAD_FORM "stockade-ledger 1\ncount %020llu\nseq %020llu\nsegment %020llu\nsize %020llu\nhash %s\n"

enum {
        HEAD_COUNT = 18 + 6, /* where the numbers begin */
        HEAD_SEQ = HEAD_COUNT + 21 + 4,
        HEAD_SEGMENT = HEAD_SEQ + 21 + 8,
        HEAD_SIZE = HEAD_SEGMENT + 21 + 5,
        HEAD_HASH = HEAD_SIZE + 21 + 5,
        HEAD_SUMMED = HEAD_HASH + LINE_HEX + 1,
        HEAD_BYTES = HEAD_SUMMED + 4 + LINE_HEX + 1,
        HEAD_PLACE = 512, /* a sector each */
        HEAD_FILE_SIZE = HEAD_PLACE + HEAD_BYTES,
};

static void format(const struct head *h, char ret[HEAD_BYTES + 1]) {
        char hash[HASH_TEXT_SIZE], sum[HASH_TEXT_SIZE];
        uint8_t bytes[HASH_SIZE];
        struct hash state;

        hash_text(h->hash, hash);
        int n = snprintf(ret, HEAD_BYTES + 1, HEAD_FORM, (unsigned long long)h->count, (unsigned long long)h->seq,
                         (unsigned long long)h->segment, (unsigned long long)h->size, hash);
        assert(n == HEAD_SUMMED);
        hash_init(&state);
        hash_add(&state, ret, HEAD_SUMMED);
        hash_done(&state, bytes);
        hash_text(bytes, sum);
        (void)snprintf(ret + n, HEAD_BYTES + 1 - (size_t)n, "sum %s\n", sum);
}

static uint64_t number_at(const char *p) {
        uint64_t value = 0;

        for (size_t i = 0; i < 20; i++)
                value = 10 * value + (uint64_t)(unsigned char)(p[i] - '0');
        return value;
}

/* Reads the fields where they ought to be; they are right if they give the same bytes again. */
bool head_parse(const char *text, size_t size, struct head *ret) {
        if (size != HEAD_BYTES)
                return false;

        struct head h = {.count = number_at(text + HEAD_COUNT),
                         .seq = number_at(text + HEAD_SEQ),
                         .segment = number_at(text + HEAD_SEGMENT),
                         .size = number_at(text + HEAD_SIZE)};
        char again[HEAD_BYTES + 1];

        if (!line_unhex(text + HEAD_HASH, HASH_SIZE, h.hash))
                return false;
        format(&h, again);
        if (memcmp(text, again, HEAD_BYTES) != 0)
                return false;
        *ret = h;
        return true;
}

int head_read(int fd, struct head *ret, struct err *err) {
        char text[HEAD_FILE_SIZE];

        for (unsigned tries = 0; tries < 20; tries++) {
                struct head one, two;
                ssize_t n = pread(fd, text, sizeof text, 0);

                if (n < 0)
                        return err_set(err, -errno, "cannot read the ledger's file '" HEAD_FILE "'");
                bool first = n >= HEAD_BYTES && head_parse(text, HEAD_BYTES, &one);
                bool second = n == HEAD_FILE_SIZE && head_parse(text + HEAD_PLACE, HEAD_BYTES, &two);
                if (first || second) {
                        *ret = first && (!second || one.count > two.count) ? one : two;
                        return 0;
                }
                struct timespec moment = {.tv_nsec = 1000000};
                (void)nanosleep(&moment, NULL); /* both at once should never be */
        }
        (void)err_set(err, ERR_CORRUPT,
                      "the ledger's file '" HEAD_FILE "' is damaged: nobody can say where its end was");
        (void)err_hint(err, "restore it from a backup, or move the ledger's folder aside to begin a new one");
        return ERR_CORRUPT;
}

int head_write(int fd, const struct head *h) {
        char text[HEAD_BYTES + 1];

        format(h, text);
        ssize_t n = pwrite(fd, text, HEAD_BYTES, h->count % 2 * HEAD_PLACE);
        return n < 0 ? -errno : n == HEAD_BYTES ? 0 : -ENOSPC;
}

/* Made under another name, so that it is there whole or not at all. */
static int make_file(int dir) {
        struct head h = {0}, next = {.count = 1};
        char blank[HEAD_PLACE];

        memset(blank, '\n', sizeof blank);
        (void)unlinkat(dir, ".head.new", 0);
        _cleanup_fd_ int fd = openat(dir, ".head.new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        int r = fd < 0 ? -errno : fd_write_full(fd, blank, sizeof blank);
        if (r == 0)
                r = head_write(fd, &h);
        if (r == 0)
                r = head_write(fd, &next);
        if (r == 0 && (fsync(fd) < 0 || linkat(dir, ".head.new", dir, HEAD_FILE, 0) < 0))
                r = errno == EEXIST ? 0 : -errno;
        (void)unlinkat(dir, ".head.new", 0);
        return r == 0 && fsync(dir) < 0 ? -errno : r;
}

int head_open(int dir, bool make, int *ret_fd, struct err *err) {
        int flags = (make ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
        _cleanup_fd_ int fd = openat(dir, HEAD_FILE, flags);

        if (fd < 0 && errno == ENOENT && make) {
                int r = make_file(dir);
                if (r < 0)
                        return err_set(err, r, "could not begin a ledger");
                fd = openat(dir, HEAD_FILE, flags);
        }
        if (fd < 0)
                return err_set(err, -errno, "cannot open the ledger's file '" HEAD_FILE "'");
        if (make && flock(fd, LOCK_EX | LOCK_NB) < 0) {
                (void)err_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno, "another process writes this ledger");
                return err_hint(err, "there is one writer per ledger: is a daemon running on the same state folder?");
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}
