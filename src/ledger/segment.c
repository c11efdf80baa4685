/* Segments as files: their names, their list, their lines.
 *
 * Lines are read in large pieces into memory of a bounded size. What a file contains is not believed: a line that is
 * longer than lines can be ends the reading. */
#include "ledger/segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum { SEGMENT_DIGITS = 20 };

void segment_name(uint64_t first, char ret[SEGMENT_NAME]) {
        (void)snprintf(ret, SEGMENT_NAME, "%020llu" SEGMENT_SUFFIX, (unsigned long long)first);
}

bool segment_number(const char *name, uint64_t *ret) {
        char again[SEGMENT_NAME];
        uint64_t value = 0;

        for (size_t i = 0; i < SEGMENT_DIGITS; i++) {
                if (name[i] < '0' || name[i] > '9')
                        return false;
                value = 10 * value + (uint64_t)(name[i] - '0');
        }
        segment_name(value, again); /* not one that was too large */
        if (!str_eq(name, again))
                return false;
        *ret = value;
        return true;
}

void segment_list_free(struct segment_list *l) {
        free(l->first);
        *l = (struct segment_list){0};
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

static int list_add(struct segment_list *l, uint64_t first) {
        if (l->count == SEGMENT_COUNT_MAX)
                return ERR_LIMIT;
        if ((l->count & (l->count - 1)) == 0) { /* full at every power of two */
                uint64_t *more = realloc(l->first, MAX(2 * l->count, (size_t)1) * sizeof *more);
                if (!more)
                        return -ENOMEM;
                l->first = more;
        }
        l->first[l->count++] = first;
        return 0;
}

static void dir_close(DIR **d) {
        if (*d)
                (void)closedir(*d);
}

int segment_list(int dir, struct segment_list *ret, struct err *err) {
        _cleanup_(segment_list_free) struct segment_list l = {0};
        _cleanup_fd_ int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(dir_close) DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;
        int r = 0;

        if (!d)
                return err_set(err, -errno, "cannot list the ledger's folder");
        fd = -EBADF; /* the stream's now */
        while (r == 0 && (errno = 0, e = readdir(d))) {
                uint64_t first;

                if (segment_number(e->d_name, &first))
                        r = list_add(&l, first);
        }
        if (r == 0 && errno != 0)
                r = -errno;
        if (r < 0)
                return err_set(err, r, "cannot list the ledger's folder");
        if (l.count > 0)
                qsort(l.first, l.count, sizeof *l.first, compare);
        *ret = l;
        l = (struct segment_list){0};
        return 0;
}

int segment_open(int dir, uint64_t first, struct err *err) {
        char name[SEGMENT_NAME];
        struct stat st;

        segment_name(first, name);
        _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot open segment '%s'", name);
        if (!S_ISREG(st.st_mode))
                return err_set(err, ERR_CORRUPT, "segment '%s' is not a regular file", name);
        return TAKE_FD(fd);
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

int segment_lines_open(struct segment_lines *s, int fd, uint64_t from, uint64_t end, size_t room) {
        *s = (struct segment_lines){.fd = fd, .offset = from, .end = end, .room = room, .place = from};
        s->data = malloc(s->room);
        return s->data ? 0 : -ENOMEM;
}

void segment_lines_free(struct segment_lines *s) {
        free(s->data);
        *s = (struct segment_lines){.fd = -EBADF};
}

/* Moves what is left to the front and reads behind it. Bytes that came, or -errno. */
static ssize_t fill(struct segment_lines *s) {
        s->used -= s->next;
        memmove(s->data, s->data + s->next, s->used);
        s->next = 0;
        if (s->used == s->room) { /* a long line; longer than lines can be is not read */
                char *more = realloc(s->data, 2 * s->room);
                if (!more)
                        return -ENOMEM;
                s->data = more;
                s->room *= 2;
        }
        size_t want = (size_t)MIN((uint64_t)(s->room - s->used), s->end - MIN(s->offset, s->end));
        ssize_t n;

        do
                n = want == 0 ? 0 : pread(s->fd, s->data + s->used, want, (off_t)s->offset);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        s->used += (size_t)n;
        s->offset += (size_t)n;
        return n;
}

int segment_lines_next(struct segment_lines *s, const char **ret, size_t *ret_size) {
        for (;;) {
                size_t left = s->used - s->next;
                char *start = s->data + s->next, *end = memchr(start, '\n', MIN(left, (size_t)LINE_BYTES_MAX));

                s->place = s->offset - left;
                if (end) {
                        *ret = start;
                        *ret_size = (size_t)(end - start);
                        s->next += *ret_size + 1;
                        return 1;
                }
                if (left >= LINE_BYTES_MAX)
                        return ERR_CORRUPT;
                ssize_t n = fill(s);
                if (n <= 0)
                        return (int)n;
        }
}

/* The first line that begins at offset or later: its number and place, 0 when there is none before end. */
static int line_from(struct segment_lines *s, uint64_t offset, uint64_t end, uint64_t *ret_seq, uint64_t *ret_place) {
        struct line line;
        const char *text;
        size_t size;

        s->used = s->next = 0;
        s->offset = offset > 0 ? offset - 1 : 0; /* if the byte before is a newline, it is this one */
        s->end = end;
        if (offset > 0) {
                int r = segment_lines_next(s, &text, &size);
                if (r <= 0)
                        return r;
        }
        int r = segment_lines_next(s, &text, &size);
        if (r <= 0)
                return r;
        if (line_parse(text, size, &line) < 0)
                return ERR_CORRUPT;
        *ret_seq = line.seq;
        *ret_place = s->place;
        return 1;
}

int segment_seek(int fd, uint64_t end, uint64_t seq, uint64_t *ret_offset) {
        _cleanup_(segment_lines_free) struct segment_lines s = {0};
        uint64_t low = 0, high = end, found, place;
        int r = segment_lines_open(&s, fd, 0, end, SEGMENT_FEW);

        if (r < 0)
                return r;
        /* the line is at low or later, and before high or right there */
        while (low < high) {
                uint64_t middle = low + (high - low) / 2;

                r = line_from(&s, middle, end, &found, &place);
                if (r < 0)
                        return r;
                if (r == 1 && found < seq)
                        low = place + 1;
                else
                        high = middle;
        }
        r = line_from(&s, low, end, &found, &place);
        if (r < 0)
                return r;
        if (r == 1 && found != seq)
                return ERR_CORRUPT;
        *ret_offset = r == 1 ? place : end;
        return 0;
}
