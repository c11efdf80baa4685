/* From a tree of YAML nodes to values in a policy. */
#pragma once

#include "policy/node.h"
#include "policy/schema.h"

/* What the file says about itself. The strings belong to the tree; name and extends are NULL when absent. */
struct parse_head {
        const struct node *name;
        const struct node *extends;
};

/* The root is a map, says `profile: 1`, and name and extends are well-formed. */
int parse_head(const char *label, const struct node *root, struct parse_head *ret, struct err *err);

/* Lays everything that the tree says over *p, which holds the parent (or nothing). When the parent is sealed, nothing
 * may become wider than it was. *p is half-changed on failure: the caller drops it. label may be NULL. */
int parse_apply(const char *label, const struct node *root, struct policy *p, struct err *err);

/* Lays one value over *p; `at` carries the position for errors. The same promise about failure. */
int parse_value(const char *label, const struct schema_row *row, const struct node *value, void *base, struct err *err);
