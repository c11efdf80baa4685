/* Archives in POSIX pax format (tar), as bytes: what stands before a member's contents, and a reader for the whole.
 *
 * Nothing here touches a file. The writer appends header blocks to a buf; the caller then sends as many bytes of
 * contents as it said, and the padding. The reader is given bytes as they come, from anybody, and says what is in them;
 * it allocates nothing and believes nothing: checksums, sizes and names are checked and capped. It reads ustar, pax
 * extended headers (path, linkpath, size, mtime; anything else is passed over) and GNU's long names and large numbers.
 * Sparse members and members of unknown type are errors, never files with wrong contents. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"

enum {
        PAX_BLOCK = 512,
        PAX_NAME_SIZE = 4096,        /* of a name or a link's target, with its NUL */
        PAX_HEADER_MAX = 64 * 1024,  /* bytes of one extended header */
        PAX_END_SIZE = 2 * PAX_BLOCK /* zeros at the end of an archive */
};

struct pax_member {
        const char *name; /* a folder's may end in '/' */
        const char *link; /* target of '1' and '2'; NULL for others */
        char type;        /* '0' file, '1' another name of a member before, '2' symbolic link, '3' and '4' devices,
                           * '5' folder, '6' fifo */
        uint32_t mode;    /* permission bits, set-id bits and sticky bit */
        uint64_t size;    /* bytes that follow */
        int64_t mtime;    /* seconds since 1970 */
        uint32_t mtime_ns;
        uint32_t uid, gid;
        const struct buf *records; /* when writing: more for its extended header (pax_record); NULL: nothing */
};

void pax_put(struct buf *b, const struct pax_member *m);
void pax_record(struct buf *b, const char *key, const char *value);
size_t pax_padding(uint64_t size); /* zero bytes that follow contents of this size */

enum pax_item {
        PAX_MORE,   /* all bytes were used: give the next ones */
        PAX_MEMBER, /* reader.member is the next one; its texts stay until the next call */
        PAX_DATA,   /* data and size: contents of that member */
        PAX_DONE,   /* the member's contents were complete */
        PAX_END,    /* the end of the archive: what follows is not looked at */
};

struct pax_reader {
        struct pax_member member; /* of PAX_MEMBER */
        const uint8_t *data;      /* of PAX_DATA, inside the bytes that were given */
        size_t size;
        uint64_t entries, bytes; /* so far: members, and bytes of contents */

        /* inside */
        int state;
        uint64_t left, padding; /* of what is being read */
        size_t filled;
        uint8_t block[PAX_BLOCK];
        char header[PAX_HEADER_MAX + 1]; /* an extended header, or a long name */
        char name[PAX_NAME_SIZE], target[PAX_NAME_SIZE];
        bool has_name, has_target, has_size, has_mtime; /* from extended headers, for the next member */
        uint64_t next_size;
        int64_t next_mtime;
        uint32_t next_mtime_ns;
};

/* A zeroed struct begins (it is large: not for a stack). Takes bytes from *bytes, *size, moving both, until there is
 * something to say: enum pax_item, or -EBADMSG (not an archive, or a broken one), -ENAMETOOLONG, -EFBIG (numbers or
 * headers that are larger than we take), -EOPNOTSUPP (a kind of member that we do not read). After an error there is
 * nothing more. Bytes that end before PAX_END are an archive that was cut: the caller sees that it never came. */
int pax_next(struct pax_reader *r, const uint8_t **bytes, size_t *size);

/* Makes of a member's name a relative plain path in buf (PAX_NAME_SIZE bytes): "./a//b/" becomes "a/b", "." and "./"
 * become "". -EBADMSG for an absolute name, for "..", and for an empty name. */
int pax_plain(const char *name, char *buf);
