/* A YAML file as a small tree with positions, for profiles only: plain text, lists and maps.
 *
 * What YAML has beyond that (anchors, aliases, tags, directives, more documents, keys that are not text) is refused,
 * and so are duplicate keys, control bytes, and anything too deep or too long. Positions count from 1. */
#pragma once

#include "base/err.h"

#define NODE_DEPTH_MAX 16

enum node_kind {
        NODE_TEXT,
        NODE_LIST,
        NODE_MAP,
};

struct node {
        enum node_kind kind;
        unsigned line, column; /* 0: not from a file */
        char *text;            /* NODE_TEXT */
        struct node **items;   /* NODE_LIST: values. NODE_MAP: key, value, key, value, ... */
        size_t count;          /* of items: twice the entries of a map */
};

/* label names the file in errors. data must be followed by a NUL byte that size does not count. */
int node_parse(const char *label, const char *data, size_t size, struct node **ret, struct err *err);

/* Trees for values that do not come from a file. NULL when memory ran out. */
struct node *node_new(enum node_kind kind, const char *text, size_t length);
int node_append(struct node *parent, struct node *item); /* takes item, even on failure */

void node_free(struct node *n);
static inline void node_cleanup(struct node **n) {
        node_free(*n);
}
#define _cleanup_node_ _cleanup_(node_cleanup)

/* The value of a key of a map, or NULL. */
const struct node *node_get(const struct node *map, const char *key);

/* "a list", "a map", "nothing" or "text": for errors. */
const char *node_kind_name(const struct node *n);

/* ERR_INPUT with "label:line:column: " in front, as far as they are known; a long label keeps its end. */
int node_error(const char *label, const struct node *at, struct err *err, const char *format, ...) _printf_(4, 5);
