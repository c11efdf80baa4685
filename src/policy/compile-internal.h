/* Between compile.c and compile-confine.c. */
#pragma once

#include "policy/compile.h"

bool compile_below(const char *path, const char *parent); /* path is parent or inside it */
bool compile_executable(const struct policy *p, const char *path);
const struct policy_place *compile_whole_tree(const struct policy *p); /* the entry "/" of files.write, or NULL */
bool compile_others_tree(const struct policy *p,
                         const struct compile_options *o); /* the root is not one that we made */
const char *compile_home(const struct policy *p);

/* compile-network.c: rules and secrets (outside), variables, files of /etc, and the step itself, last of the tree. */
bool compile_networked(const struct policy *p, const struct compile_options *o);
int compile_reach(const struct policy *p, const struct compile_options *o, struct buf *b, struct err *err);
void compile_network_environment(const struct policy *p, const struct compile_options *o, struct buf *b);
void compile_network_files(const struct policy *p, const struct compile_options *o, struct buf *b);
void compile_network(const struct policy *p, const struct compile_options *o, struct buf *b);

/* PHASE_ENTER to PHASE_EXEC. */
int compile_confine(const struct policy *p, const struct compile_options *o, struct buf *b, struct err *err);
