/* What `stockade run --learn` saw being refused, on its way to a profile.
 *
 * The new profile extends the one that was used. Whatever the notes say, the result passes `stockade profile check`,
 * has nothing of what ran inside in it but quoted or in comments, and nothing that is sensitive outside comments. */
#pragma once

#include "cli/learn_wish.h"
#include "policy/profile.h"

#define LESSON_LIST_MAX 128

struct lesson {
        const char *profile;
        const char *sets[LESSON_LIST_MAX], *allows[LESSON_LIST_MAX];
        size_t set_count, allow_count;
        const char *home;

        struct wishes wishes;
        struct learn_host hosts[LEARN_HOSTS_MAX];
        size_t host_count;
        uint64_t more, unread, more_hosts;
        struct buf command;

        struct policy before, after;
        struct buf whole; /* the policy before, printed */
        size_t used;      /* of LINES_MAX */
};

/* In this order; profile, sets, allows and home are set before. A wish points into bytes, which must stay. */
int lesson_resolve(struct lesson *l, struct err *err);             /* the policy that was in force */
int lesson_read(struct lesson *l, const void *bytes, size_t size); /* the notes; -EBADMSG if they are none */
int lesson_write(struct lesson *l, struct buf *out, struct err *err);
void lesson_free(struct lesson *l);
