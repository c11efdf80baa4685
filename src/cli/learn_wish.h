/* `stockade-policy learn`: from notes to a profile that a person reads.
 *
 * Each note becomes a wish: one line of the profile, or, if it has a reason against it, one line of a comment below.
 * Paths are chosen by what ran inside: nothing of them reaches the file but quoted, escaped, on one line. */
#pragma once

#include "base/buf.h"
#include "cli/learn.h"

enum wish_key {
        WISH_READ,    /* files.read */
        WISH_WRITE,   /* files.write: a private place */
        WISH_EXEC,    /* tools.exec */
        WISH_ALLOW,   /* network.allow */
        WISH_NOTHING, /* no key of a profile says this */
        WISH_KEY_COUNT,
};

struct wish {
        enum wish_key key;
        enum learn_kind kind;
        unsigned flags; /* LEARN_… */
        uint64_t count;
        uint64_t asked;   /* WISH_ALLOW: only for its address */
        const char *path; /* or the host */
        const char *real; /* where it leads, or "" */
        const char *why;  /* against it, a clause; NULL: it goes in */
        bool warn;        /* the clause is a warning: it would expose something */
        bool dropped;     /* said by another wish */
        size_t merged;    /* a folder that stands for so many wishes */
        char *folder;     /* its path then */
        struct wish *into;
        uint16_t ports[16];
        size_t port_count;
        char text[416];   /* WISH_ALLOW: the entry itself; the longest name with sixteen ports has 399 */
        char clause[320]; /* where why is kept */
};

struct wishes {
        struct wish *items;
        size_t count, room;
};

/* wish.c: what is known about paths; no file is looked at. */
const char *wish_sensitive(const char *path); /* what is there, as a clause, or NULL */
bool wish_broad(const char *path, const char *home);
bool wish_below(const char *path, const char *parent);
bool wish_plain(const char *path);                          /* whether a profile can name it at all */
struct wish *wish_add(struct wishes *w, enum wish_key key); /* NULL: no memory */
void wish_free(struct wishes *w);

/* Many files of one folder become the folder, folders of one folder too, as long as it is neither broad nor sensitive
 * and nothing below it was held back. */
int wish_merge(struct wishes *w, const char *home);

/* wish_host.c */
int wish_hosts(struct wishes *w, const struct learn_host *hosts, size_t count);

/* wish_print.c: everything that is printed comes through these. */
void wish_quote(struct buf *out, const char *text);   /* as a YAML scalar, of a text that wish_plain takes */
void wish_comment(struct buf *out, const char *text); /* inside a comment */
void wish_tried(struct buf *out, const struct wish *w);
