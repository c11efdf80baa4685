/* The one table of what a profile may say.
 *
 * A row stands for one key: where its value lives in struct policy (or in an entry of one of its lists), what it may
 * look like, how a child's value meets its parent's, how a sealed parent confines it, and whether this build enforces
 * it. Parsing, checking, merging, narrowing, printing, hashing, copying, freeing and documentation all walk this table,
 * so a new key is a new row. Rows are in the order in which a profile is printed. */
#pragma once

#include "base/buf.h"
#include "base/text.h"
#include "policy/policy.h"
#include "policy/value.h"

/* What a row's offset is relative to. */
enum schema_scope {
        SCOPE_FILE,   /* concerns the file alone; not in the policy */
        SCOPE_POLICY, /* struct policy */
        SCOPE_PLACE,  /* struct policy_place: an entry of files.write */
        SCOPE_REACH,  /* struct policy_reach: an entry of network.allow */
};

enum schema_kind {
        KIND_NUMBER,  /* uint64_t with a unit */
        KIND_BOOL,    /* bool */
        KIND_CHOICE,  /* an enum; choices in the order of its values */
        KIND_TEXT,    /* char * */
        KIND_STRINGS, /* struct policy_strings */
        KIND_PORTS,   /* uint16_t[16], and a count at `count` */
        KIND_ENTRIES, /* an array of structs with rows of their own (`element`), and a count at `count` */
        KIND_ENV,     /* struct policy_variable array sorted by name, and a count at `count` */
};

enum schema_merge {
        MERGE_OWN,     /* not inherited */
        MERGE_REPLACE, /* the child's value replaces the parent's */
        MERGE_UNION,   /* the child's list is added to the parent's: the key restricts */
        MERGE_MAP,     /* the child's entries are added, or replace those of the same name */
};

enum schema_narrow {
        NARROW_FREE,   /* any value */
        NARROW_LIMIT,  /* at most the parent's; anything if the parent set none */
        NARROW_GRANT,  /* at most the parent's; nothing if the parent set none */
        NARROW_RISE,   /* the same or a later choice; true stays true */
        NARROW_FALL,   /* the same or an earlier choice */
        NARROW_KEEP,   /* what the parent set stays */
        NARROW_PATHS,  /* each at or below one of the parent's */
        NARROW_SUBSET, /* each one of the parent's */
        NARROW_ASK,    /* each one that the parent may call or ask for */
        NARROW_GROW,   /* all of the parent's, and any more */
        NARROW_PLACES, /* each at or below one of the parent's, together no larger */
        NARROW_REACH,  /* each covered by one of the parent's */
};

enum schema_enforce {
        ENFORCE_NOW,    /* by the native cell, or nothing to enforce */
        ENFORCE_LATER,  /* refused when asked for */
        ENFORCE_DAEMON, /* by the daemon; refused for `stockade run`, whose sandbox ends with its command */
        ENFORCE_DRIVER, /* by the daemon's choice of driver; refused for `stockade run` unless `native` will do */
        ENFORCE_SECRET, /* refused unless a rule of network.allow names it: the gate puts it in */
        ENFORCE_EXEC, /* refused over a copy-on-write '/' or an image, whose programs cannot be told apart by mounts */
};

struct schema_row {
        const char *key;
        enum schema_scope scope;
        enum schema_kind kind;
        size_t offset;
        size_t count;               /* offset of the number of entries, for the kinds that have one */
        size_t flag;                /* offset of a bool that says that the list was given; 0: there is none */
        enum schema_scope element;  /* KIND_ENTRIES */
        enum text_unit unit;        /* KIND_NUMBER */
        uint64_t min, max;          /* KIND_NUMBER, inclusive */
        value_check check;          /* KIND_TEXT and KIND_STRINGS; NULL with choices */
        value_settle settle;        /* KIND_TEXT: gives the one form in which it is kept; NULL: as it is */
        const char *const *choices; /* KIND_CHOICE, or the words that KIND_STRINGS may have; ends with NULL */
        enum schema_merge merge;
        enum schema_narrow narrow;
        enum schema_enforce enforce;
        const char *doc; /* one sentence */
};

extern const struct schema_row schema_rows[];
extern const size_t schema_row_count;

/* The row of a full key such as "limits.memory" or "files.write[].size", or NULL. */
const struct schema_row *schema_find(const char *key);

/* Whether keys begin with this one and a dot: "files", "files.workspace". */
bool schema_is_section(const char *key);

/* The last part of a row's key: "memory". */
const char *schema_leaf(const struct schema_row *row);

/* The known key below section ("" for the top) that is nearest to a wrong one, or NULL. Returned in buf. */
const char *schema_suggest(const char *section, const char *wrong, char *buf, size_t size);

/* Size of one entry of a KIND_ENTRIES row. */
size_t schema_element_size(enum schema_scope element);

/* "a size such as 1GiB", "true or false", "a list of paths", ...: what the value should look like. */
void schema_describe(const struct schema_row *row, struct buf *out);

/* The table for people, for scripts, and as the key list of the manual page. */
void schema_print(struct buf *out);
void schema_print_json(struct buf *out);
void schema_print_man(struct buf *out);
