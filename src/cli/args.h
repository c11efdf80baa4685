/* What a verb takes on its command line: one table of options and a line about its words. Parsing, --help, the manual
 * pages (a test compares) and completion all walk it. Values land in a struct of the verb's own, which begins with
 * struct args_common: some options are the same everywhere. */
#pragma once

#include "base/err.h"

#define ARGS_LIST_MAX 64

struct args_common {
        const char *socket; /* --socket */
        const char *server; /* --server */
        bool json;          /* --json */
};

struct args_list {
        const char *items[ARGS_LIST_MAX];
        const char *keys[ARGS_LIST_MAX]; /* of ARGS_SET; NULL for others */
        size_t count;
};

enum args_kind {
        ARGS_FLAG,  /* bool */
        ARGS_TEXT,  /* const char * */
        ARGS_LIST,  /* struct args_list; may be given several times */
        ARGS_SET,   /* struct args_list; the option stands for a key, which goes along */
        ARGS_COUNT, /* uint64_t, and so on, by base/text.h */
        ARGS_BYTES,
        ARGS_TIME,
};

/* What a word or an option's value names, for completion. */
enum args_what {
        WHAT_TEXT, /* nothing that we could guess */
        WHAT_SANDBOX,
        WHAT_SNAPSHOT,
        WHAT_ORIGIN, /* a snapshot or a sandbox */
        WHAT_IMAGE,
        WHAT_PROFILE,
        WHAT_FILE,
        WHAT_PLACE,  /* a file, or SANDBOX:PATH */
        WHAT_CHOICE, /* one of the verb's choices */
};

struct args_option {
        const char *name;
        char letter;
        const char *argument; /* NULL: a flag */
        const char *help;
        enum args_kind kind;
        size_t offset;
        const char *key; /* ARGS_SET */
        enum args_what what;
};

enum {
        ARGS_JSON = 1 << 0,    /* takes --json */
        ARGS_LOCAL = 1 << 1,   /* does not talk to a daemon: no --socket, no --server */
        ARGS_COMMAND = 1 << 2, /* from the second word on everything is a command's, dashes and all */
};

struct args_verb {
        const char *name;
        const char *words;   /* "SANDBOX [COMMAND…]" */
        const char *summary; /* one line, for the list of verbs */
        const char *about;   /* paragraphs of plain text, separated by an empty line; NULL: the summary says it all */
        unsigned flags;
        size_t least, most;     /* words */
        enum args_what what[2]; /* the first word; those behind it */
        const char *choices;    /* WHAT_CHOICE: separated by blanks */
        const struct args_option *options;
        size_t count;
};

/* Fills *ret, which the caller set to its defaults, and moves the words to the front of argv (behind argv[0]). Returns
 * how many there are, ARGS_HELP when --help was asked for and printed, or an error. */
enum { ARGS_HELP = 1 << 30 };
int args_parse(const struct args_verb *v, int argc, char **argv, void *ret, struct err *err);

void args_help(const struct args_verb *v);
void args_manual(const struct args_verb *v); /* the same in scdoc, for the manual page */

/* The i-th option with those that all verbs have; NULL past the last. */
const struct args_option *args_option(const struct args_verb *v, size_t i);
