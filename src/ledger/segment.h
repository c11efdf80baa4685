/* Segment files: NUMBER.jsonl, where NUMBER is the first event's with leading zeros. */
#pragma once

#include "ledger/line.h"

#define SEGMENT_SUFFIX ".jsonl"
enum { SEGMENT_NAME = 32, SEGMENT_COUNT_MAX = 1 << 20 };

void segment_name(uint64_t first, char ret[SEGMENT_NAME]);
bool segment_number(const char *name, uint64_t *ret); /* false: not a segment's name */

struct segment_list {
        uint64_t *first; /* rising */
        size_t count;
};
void segment_list_free(struct segment_list *l);
int segment_list(int dir, struct segment_list *ret, struct err *err);

int segment_open(int dir, uint64_t first, struct err *err); /* for reading: a descriptor or -errno */

/* Gives the whole lines of a file between two offsets, one by one. The descriptor stays the caller's. */
struct segment_lines {
        int fd;
        uint64_t offset, end; /* of the file: what is not read yet, and where to stop */
        char *data;           /* what was read */
        size_t room, used, next;
        uint64_t place; /* where the line that was given last begins in the file */
};
enum {
        SEGMENT_WHOLE = 256 << 10, /* memory for somebody who reads all of it */
        SEGMENT_FEW = 8 << 10,     /* for one of many who follow; a line that does not fit makes it grow */
};
int segment_lines_open(struct segment_lines *s, int fd, uint64_t from, uint64_t end, size_t room); /* -ENOMEM */
void segment_lines_free(struct segment_lines *s);
/* 1 and a line without its newline; 0 at the end, or where no whole line is left (s->place is where it would begin);
 * ERR_CORRUPT for a line that is too long; -errno. */
int segment_lines_next(struct segment_lines *s, const char **ret, size_t *ret_size);

/* Where the line with this number begins, in a file whose lines are good up to end: by halves, without reading it all.
 * ERR_CORRUPT when the numbers are not in order. */
int segment_seek(int fd, uint64_t end, uint64_t seq, uint64_t *ret_offset);
