/* A reader: goes through the segments, never past what the writer says is durable.
 *
 * The head is asked only when everything known to be durable was given. A segment that the head is past is complete;
 * the next one begins with the next number. */
#include "ledger/head.h"
#include "ledger/segment.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"

struct ledger_reader {
        int dir, head_fd;
        uint64_t next;    /* the number that is given next */
        struct head head; /* as of the last look */
        int fd;           /* the segment, or -EBADF before the first */
        uint64_t segment; /* its first number */
        struct segment_lines lines;
        bool placed; /* lines stands at `next` */
};

void ledger_reader_close(struct ledger_reader *r) {
        if (!r)
                return;
        segment_lines_free(&r->lines);
        fd_close(&r->fd);
        fd_close(&r->head_fd);
        fd_close(&r->dir);
        free(r);
}

static void reader_closep(struct ledger_reader **r) {
        ledger_reader_close(*r);
}

int ledger_reader_open(struct ledger_reader **ret, int dir, uint64_t from_seq, struct err *err) {
        _cleanup_(reader_closep) struct ledger_reader *r = calloc(1, sizeof *r);

        if (!r)
                return err_set(err, -ENOMEM, "cannot read the ledger");
        r->next = MAX(from_seq, (uint64_t)1);
        r->fd = r->head_fd = -EBADF;
        r->dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
        if (r->dir < 0)
                return err_set(err, -errno, "cannot open the ledger's folder");
        int e = head_open(r->dir, false, &r->head_fd, err);
        if (e == 0)
                e = head_read(r->head_fd, &r->head, err);
        if (e < 0)
                return e;
        *ret = TAKE_PTR(r);
        return 0;
}

int ledger_last(int dir, uint64_t *ret_seq, struct err *err) {
        _cleanup_fd_ int fd = -EBADF;
        struct head h;

        int r = head_open(dir, false, &fd, err);
        if (r == 0)
                r = head_read(fd, &h, err);
        if (r < 0)
                return r;
        *ret_seq = h.seq;
        return 0;
}

/* The segment that has this number: the last one that begins at it or before. */
static int find_segment(int dir, uint64_t seq, uint64_t *ret, struct err *err) {
        _cleanup_(segment_list_free) struct segment_list l = {0};
        int r = segment_list(dir, &l, err);

        if (r < 0)
                return r;
        for (size_t i = l.count; i-- > 0;)
                if (l.first[i] <= seq) {
                        *ret = l.first[i];
                        return 0;
                }
        return err_set(err, ERR_CORRUPT, "no segment of the ledger has event %llu", (unsigned long long)seq);
}

/* Where the open segment ends, as far as it may be read. */
static int readable_end(struct ledger_reader *r, uint64_t *ret, struct err *err) {
        struct stat st;

        if (r->segment == r->head.segment) {
                *ret = r->head.size;
                return 0;
        }
        if (fstat(r->fd, &st) < 0)
                return err_set(err, -errno, "cannot read the ledger");
        *ret = (uint64_t)st.st_size;
        return 0;
}

/* Opens the segment that has r->next and stands there. */
static int place(struct ledger_reader *r, struct err *err) {
        uint64_t end, offset;

        segment_lines_free(&r->lines);
        fd_close(&r->fd);
        int e = find_segment(r->dir, r->next, &r->segment, err);
        if (e < 0)
                return e;
        r->fd = segment_open(r->dir, r->segment, err);
        if (r->fd < 0)
                return r->fd;
        e = readable_end(r, &end, err);
        if (e < 0)
                return e;
        e = segment_seek(r->fd, end, r->next, &offset);
        if (e == 0)
                e = segment_lines_open(&r->lines, r->fd, offset, end, SEGMENT_FEW);
        if (e < 0)
                return err_set(err, e, "cannot find event %llu in the ledger", (unsigned long long)r->next);
        r->placed = true;
        return 0;
}

int ledger_reader_next(struct ledger_reader *r, const char **ret_line, size_t *ret_size, struct err *err) {
        struct line line;
        const char *text = NULL;
        size_t size = 0;
        int e;

        if (r->next > r->head.seq) {
                e = head_read(r->head_fd, &r->head, err);
                if (e < 0)
                        return e;
                if (r->next > r->head.seq)
                        return 0;
                if (r->placed) { /* more of this segment may be read now */
                        e = readable_end(r, &r->lines.end, err);
                        if (e < 0)
                                return e;
                }
        }
        for (unsigned tries = 0; tries < 2; tries++) {
                if (!r->placed) {
                        e = place(r, err);
                        if (e < 0)
                                return e;
                }
                e = segment_lines_next(&r->lines, &text, &size);
                if (e < 0)
                        return err_set(err, e, "cannot read event %llu of the ledger", (unsigned long long)r->next);
                if (e == 1)
                        break;
                r->placed = false; /* this segment is done: the next begins here */
        }
        if (!text || line_parse(text, size, &line) < 0 || line.seq != r->next) {
                (void)err_set(err, ERR_CORRUPT, "event %llu of the ledger is damaged or missing",
                              (unsigned long long)r->next);
                return err_hint(err, "`stockade ledger verify` says what is broken");
        }
        r->next++;
        *ret_line = text;
        *ret_size = size;
        return 1;
}
