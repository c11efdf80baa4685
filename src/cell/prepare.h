/* What has to be looked at or made before a cell is started, whoever starts it: a run's launcher or the warden. */
#pragma once

#include "cell/cell.h"

/* Root: the user namespace that the cell joins last (c->id_base), and one for every owner of a writable share that
 * shows that owner as the user inside (c->tree_uid, c->tree_gid). prepare_done closes them. Rootless: nothing. */
int prepare_namespaces(struct cell_context *c, const struct plan *p, struct err *err);
void prepare_done(struct cell_context *c);

/* Refuses shares that have kernel file systems mounted below them: those speak of the host, not of files. */
int prepare_submounts(const struct plan *p, struct err *err);

/* Adds the file systems that disk limits are about: what is bound from the host. */
int prepare_devices(const struct plan *p, struct cgroup_limits *l, struct err *err);

/* Refuses to start where a crash inside would be handed to the host's core handler. */
int prepare_core_handler(struct err *err);

/* What options named was resolved: a link on the way now was put there since. */
int prepare_open_exact(const char *path, uint64_t flags);
