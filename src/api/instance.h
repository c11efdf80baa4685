/* Instance mode: one sandbox, which is there from the start and made again if it is gone, and the routes that mean it.
 *
 * Which one it is, is said by its owner and its name, both of stockade.conf: so whoever comes after a restart finds the
 * same one. In cloud mode all of this does nothing. */
#pragma once

#include "api/exchange.h"

struct instance;

int instance_open(struct api *a, struct err *err);
void instance_close(struct api *a);

/* "/api/sandbox/exec" becomes "/api/sandboxes/{its id}/exec" while there is one. */
void instance_path(struct exchange *x);
/* The same of a path that is not that of a request; false: it is as it was. */
bool instance_rename(struct api *a, const char *path, char *buf, size_t size);
const char *instance_problem(const struct api *a); /* why there is none; NULL: there is one, or there need not be */
bool instance_mode(const struct api *a);

void instance_refuse(struct exchange *x); /* of /api/sandbox… where it means nothing */
