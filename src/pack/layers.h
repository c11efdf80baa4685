/* What an image's own papers say: which files of the archive are its layers. Pure: for layers.c, tests and fuzzers. */
#pragma once

#include "base/err.h"

enum { LAYERS_MAX = 256, LAYERS_NAME_SIZE = 256, LAYERS_PAPER_MAX = 4 << 20 };

struct layers {
        char name[LAYERS_MAX][LAYERS_NAME_SIZE]; /* the lowest first; plain paths in the archive */
        size_t count;
        char tag[128];                 /* "debian:12", or "" */
        char config[LAYERS_NAME_SIZE]; /* of `docker save`: the paper about them, or "" */
};

/* manifest.json of `docker save`. The text must have passed json_check. 0, or ERR_INPUT with a sentence. */
int layers_from_docker(const char *text, struct layers *ret, struct err *err);

/* index.json of OCI's layout, or an index that it points to: the name of the file that is the next paper. *ret_index:
 * that is an index again. */
int layers_next_paper(const char *text, char ret[LAYERS_NAME_SIZE], bool *ret_index, struct err *err);

/* A manifest of OCI's. */
int layers_from_oci(const char *text, struct layers *ret, struct err *err);
