/* What a request says about the policy that it wants: a profile or its text, keys over it, what may be reached, an
 * image. Read once, for whoever makes a sandbox of it and for whoever only wants to know what would come of it. */
#pragma once

#include "operator/call.h"
#include "operator/frozen.h"

struct wishes {
        struct frozen_request q; /* its texts are in items */
        char *items[3 + 2 * FROZEN_SET_MAX + FROZEN_ALLOW_MAX];
        size_t count;
        bool failed;
};

/* -ENOMEM; whatever it says, what was read is freed by wishes_free. */
int wishes_read(const char *json, struct wishes *ret, struct err *err);
void wishes_free(struct wishes *w);
#define _cleanup_wishes_ _cleanup_(wishes_free)
