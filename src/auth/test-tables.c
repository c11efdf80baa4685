/* Single-use tables and the set of what was revoked. */
#include "auth/revoked.h"
#include "auth/single-use.h"
#include "base/test.h"

#define NOW 1000000ull

static struct single_use *table(size_t places, size_t per_address) {
        struct single_use *t = NULL;

        CHECK(single_use_open(&t, places, per_address, SINGLE_USE_NONCE_MS, NULL) == 0);
        return t;
}

static int take(struct single_use *t, const char *id, uint64_t now) {
        char note[SINGLE_USE_NOTE];

        return single_use_take(t, id, strlen(id), now, note, NULL);
}

static void once(void) {
        _cleanup_single_use_ struct single_use *t = table(10, 10);
        char a[SINGLE_USE_ID], b[SINGLE_USE_ID], note[SINGLE_USE_NOTE] = "untouched";
        uint64_t left = 1;

        CHECK(single_use_add(t, "192.0.2.1", "first", NOW, a, NULL) == 0 &&
              single_use_add(t, "192.0.2.1", "", NOW, b, NULL) == 0);
        CHECK(strlen(a) == 64 && strspn(a, "0123456789abcdef") == 64 && !str_eq(a, b));
        CHECK(single_use_take(t, a, 63, NOW, note, &left) == -ENOENT && left == 1);
        CHECK_STR(note, "untouched");
        CHECK(single_use_take(t, a, 64, NOW + 1000, note, &left) == 0 && left == SINGLE_USE_NONCE_MS - 1000);
        CHECK_STR(note, "first");
        CHECK(take(t, a, NOW + 1000) == -ENOENT);
        CHECK(single_use_count(t) == 1);
        CHECK(take(t, b, NOW) == 0 && single_use_count(t) == 0);
}

static void ids_that_are_none(void) {
        _cleanup_single_use_ struct single_use *t = table(10, 10);
        char id[SINGLE_USE_ID], other[SINGLE_USE_ID], note[SINGLE_USE_NOTE];

        do
                CHECK(single_use_add(t, "a", "", NOW, id, NULL) == 0);
        while (strspn(id, "0123456789") == 64); /* has a letter */
        CHECK(take(t, "", NOW) == -ENOENT);
        memcpy(other, id, sizeof other);
        for (char *p = other; *p; p++)
                if (*p >= 'a')
                        *p = (char)(*p - 'a' + 'A');
        CHECK(take(t, other, NOW) == -ENOENT);
        for (size_t i = 0; i < 64; i++) {
                memcpy(other, id, sizeof other);
                other[i] = other[i] == '0' ? '1' : '0';
                CHECK(take(t, other, NOW) == -ENOENT);
                other[i] = '\0';
                CHECK(single_use_take(t, other, 64, NOW, note, NULL) == -ENOENT);
        }
        CHECK(take(t, id, NOW) == 0);
}

static void expiry(void) {
        _cleanup_single_use_ struct single_use *t = table(10, 10);
        char a[SINGLE_USE_ID], b[SINGLE_USE_ID], c[SINGLE_USE_ID];

        CHECK(single_use_add(t, "a", "", NOW, a, NULL) == 0 && single_use_add(t, "a", "", NOW, b, NULL) == 0);
        CHECK(take(t, a, NOW + SINGLE_USE_NONCE_MS - 1) == 0);
        CHECK(take(t, b, NOW + SINGLE_USE_NONCE_MS) == -ENOENT);
        CHECK(single_use_count(t) == 0); /* looking it up has removed it */
        CHECK(single_use_add(t, "a", "", NOW, a, NULL) == 0 && single_use_add(t, "b", "", NOW + 10, b, NULL) == 0);
        CHECK(single_use_sweep(t, NOW + SINGLE_USE_NONCE_MS) == 1 && single_use_count(t) == 1);
        CHECK(single_use_add(t, "c", "", NOW + 10 + SINGLE_USE_NONCE_MS, c, NULL) == 0 && single_use_count(t) == 1);
        CHECK(take(t, c, UINT64_MAX) == -ENOENT);
        CHECK(single_use_add(t, "c", "", UINT64_MAX - 1, c, NULL) == 0 && take(t, c, UINT64_MAX - 1) == 0);
}

static void one_address_has_its_share(void) {
        _cleanup_single_use_ struct single_use *t = table(10, 3);
        char ids[5][SINGLE_USE_ID];

        for (size_t i = 0; i < 5; i++)
                CHECK(single_use_add(t, "a", "", NOW + i, ids[i], NULL) == 0);
        CHECK(single_use_count(t) == 3);
        CHECK(take(t, ids[0], NOW) == -ENOENT && take(t, ids[1], NOW) == -ENOENT);
        CHECK(take(t, ids[2], NOW) == 0 && take(t, ids[3], NOW) == 0 && take(t, ids[4], NOW) == 0);
}

/* A flood of one address does not touch the entries of others, and does not keep newcomers out. */
static void flood(void) {
        _cleanup_single_use_ struct single_use *t = table(100, 100);
        char friends[10][SINGLE_USE_ID], who[16], late[SINGLE_USE_ID], id[SINGLE_USE_ID];

        for (size_t i = 0; i < 10; i++) {
                (void)snprintf(who, sizeof who, "10.0.0.%zu", i);
                CHECK(single_use_add(t, who, who, NOW, friends[i], NULL) == 0);
        }
        for (size_t i = 0; i < 1000; i++)
                CHECK(single_use_add(t, "203.0.113.7", "flood", NOW + 1, id, NULL) == 0);
        CHECK(single_use_count(t) == 100);
        CHECK(single_use_add(t, "10.0.0.99", "late", NOW + 2, late, NULL) == 0);
        for (size_t i = 0; i < 1000; i++)
                CHECK(single_use_add(t, "203.0.113.7", "flood", NOW + 3, id, NULL) == 0);
        for (size_t i = 0; i < 10; i++)
                CHECK(take(t, friends[i], NOW + 4) == 0);
        CHECK(take(t, late, NOW + 4) == 0 && take(t, id, NOW + 4) == 0);
}

static void full_of_others(void) {
        _cleanup_single_use_ struct single_use *t = table(50, 5);
        char ids[50][SINGLE_USE_ID], who[16], id[SINGLE_USE_ID];
        struct err err = {0};

        for (size_t i = 0; i < 50; i++) {
                (void)snprintf(who, sizeof who, "%zu", i);
                CHECK(single_use_add(t, who, "", NOW, ids[i], NULL) == 0);
        }
        CHECK(single_use_add(t, "new", "", NOW, id, &err) == -ENOSPC && err.hint[0]);
        CHECK(single_use_add(t, "7", "", NOW, id, NULL) == 0); /* at the cost of its own */
        CHECK(take(t, ids[7], NOW) == -ENOENT && take(t, ids[8], NOW) == 0);
        CHECK(single_use_add(t, "new", "", NOW, id, NULL) == 0);
        CHECK(single_use_add(t, "newer", "", NOW + SINGLE_USE_NONCE_MS, id, NULL) == 0 && single_use_count(t) == 1);
}

static void tables_that_cannot_be(void) {
        _cleanup_single_use_ struct single_use *t = table(1, 1);
        struct single_use *none = NULL;
        char long_text[SINGLE_USE_NOTE + 1], id[SINGLE_USE_ID];

        memset(long_text, 'x', sizeof long_text);
        long_text[SINGLE_USE_NOTE] = '\0';
        CHECK(single_use_open(&none, 0, 1, 1, NULL) == -EINVAL && single_use_open(&none, 1, 0, 1, NULL) == -EINVAL);
        CHECK(single_use_open(&none, 1, 1, 0, NULL) == -EINVAL && single_use_open(&none, 65537, 1, 1, NULL) == -EINVAL);
        CHECK(single_use_add(t, "a", long_text, NOW, id, NULL) == ERR_LIMIT);
        CHECK(single_use_add(t, long_text + SINGLE_USE_NOTE - SINGLE_USE_WHO, "", NOW, id, NULL) == ERR_LIMIT);
        CHECK(single_use_add(t, long_text + SINGLE_USE_NOTE - SINGLE_USE_WHO + 1, long_text + 1, NOW, id, NULL) == 0);
        CHECK(take(t, id, NOW) == 0);
        single_use_close(NULL);
}

/* Against a slow model: an array, oldest first. */
static void as_a_model_says(void) {
        enum { PLACES = 12, SHARE = 4, ADDRESSES = 9 };
        _cleanup_single_use_ struct single_use *t = table(PLACES, SHARE);
        struct {
                char id[SINGLE_USE_ID];
                unsigned who;
                uint64_t until;
        } model[PLACES + 1];
        size_t count = 0;
        uint64_t now = NOW;
        unsigned seed = 3;

        for (unsigned step = 0; step < 20000; step++) {
                unsigned who, of[ADDRESSES] = {0}, victim = ADDRESSES;
                char text[16], id[SINGLE_USE_ID];

                seed = seed * 1103515245 + 12345;
                now += seed >> 16 & 0x3fff;
                size_t live = 0;
                for (size_t i = 0; i < count; i++)
                        if (model[i].until > now)
                                model[live++] = model[i];
                count = live;
                if ((seed >> 12 & 3) == 0 && count > 0) {
                        size_t i = (seed >> 20) % count;

                        CHECK(take(t, model[i].id, now) == 0 && take(t, model[i].id, now) == -ENOENT);
                        memmove(&model[i], &model[i + 1], (count - i - 1) * sizeof model[0]);
                        count--;
                        continue;
                }
                who = (seed >> 24) % ADDRESSES;
                for (size_t i = 0; i < count; i++)
                        of[model[i].who]++;
                if (of[who] >= SHARE || (count == PLACES && of[who] > 0))
                        victim = who;
                (void)snprintf(text, sizeof text, "%u", who);
                bool crowded = count == PLACES && of[who] == 0;
                CHECK(single_use_add(t, text, text, now, id, NULL) ==
                      0); /* nine addresses, twelve places: one has two */
                if (crowded) {
                        /* one of those with most has lost its oldest; which of them is the table's affair */
                        unsigned most = 0;
                        for (unsigned i = 0; i < ADDRESSES; i++)
                                most = MAX(most, of[i]);
                        for (unsigned i = 0; i < ADDRESSES && victim == ADDRESSES; i++)
                                for (size_t j = 0; of[i] == most && j < count; j++)
                                        if (model[j].who == i) {
                                                /* asking takes it, so the model loses it too */
                                                if (take(t, model[j].id, now) == -ENOENT) {
                                                        victim = i;
                                                } else {
                                                        memmove(&model[j], &model[j + 1],
                                                                (count - j - 1) * sizeof model[0]);
                                                        count--;
                                                }
                                                break;
                                        }
                        CHECK(victim < ADDRESSES);
                }
                for (size_t i = 0; i < count && victim < ADDRESSES; i++)
                        if (model[i].who == victim) {
                                memmove(&model[i], &model[i + 1], (count - i - 1) * sizeof model[0]);
                                count--;
                                break;
                        }
                memcpy(model[count].id, id, sizeof id);
                model[count].who = who;
                model[count++].until = now + SINGLE_USE_NONCE_MS;
                CHECK(single_use_count(t) == count);
        }
        for (size_t i = 0; i < count; i++)
                CHECK(take(t, model[i].id, now) == 0);
        CHECK(single_use_count(t) == 0);
}

/* --- revoked ---------------------------------------------------------------------------------------------------- */

static void revoking(void) {
        _cleanup_revoked_ struct revoked *r = NULL;
        char a[SESSION_JTI], b[SESSION_JTI];

        CHECK(revoked_open(&r, 100, NULL) == 0);
        session_draw_jti(a);
        session_draw_jti(b);
        CHECK(!revoked_has(r, a));
        CHECK(revoked_add(r, a, NOW) == 0 && revoked_add(r, a, NOW) == 0 && revoked_count(r) == 1);
        CHECK(revoked_has(r, a) && !revoked_has(r, b));
        CHECK(revoked_add(r, a, NOW + 10) == 0 && revoked_add(r, a, 5) == 0);
        CHECK(revoked_sweep(r, NOW) == 0 && revoked_has(r, a)); /* the later expiry counts */
        CHECK(revoked_sweep(r, NOW + 10) == 1 && !revoked_has(r, a) && revoked_count(r) == 0);
        CHECK(revoked_add(r, "", NOW) == ERR_INPUT && revoked_add(r, "xyz", NOW) == ERR_INPUT);
        CHECK(revoked_add(r, b, 0) == ERR_INPUT && !revoked_has(r, b)); /* not taken for done */
        CHECK(revoked_has(r, "") && revoked_has(r, "0011"));            /* not a jti: not good */
        CHECK(revoked_add(r, b, UINT64_MAX) == 0 && revoked_sweep(r, UINT64_MAX - 1) == 0 && revoked_has(r, b));
}

static void many_revoked(void) {
        enum { MANY = 20000 };
        _cleanup_revoked_ struct revoked *r = NULL;
        _cleanup_free_ char *jtis = calloc(MANY + 1, SESSION_JTI);

        CHECK(jtis && revoked_open(&r, MANY, NULL) == 0);
        for (size_t i = 0; i <= MANY; i++)
                session_draw_jti(jtis + i * SESSION_JTI);
        for (size_t i = 0; i < MANY; i++)
                CHECK(revoked_add(r, jtis + i * SESSION_JTI, NOW + i) == 0);
        CHECK(revoked_add(r, jtis + (size_t)MANY * SESSION_JTI, NOW) == -ENOSPC); /* never at the cost of another */
        CHECK(!revoked_has(r, jtis + (size_t)MANY * SESSION_JTI));
        for (size_t i = 0; i < MANY; i++)
                CHECK(revoked_has(r, jtis + i * SESSION_JTI));
        CHECK(revoked_sweep(r, NOW + MANY / 2) == MANY / 2 + 1 && revoked_count(r) == MANY / 2 - 1);
        for (size_t i = 0; i < MANY; i++)
                CHECK(revoked_has(r, jtis + i * SESSION_JTI) == (i > MANY / 2));
        CHECK(revoked_add(r, jtis + (size_t)MANY * SESSION_JTI, NOW + MANY) == 0);
        CHECK(revoked_sweep(r, UINT64_MAX) == MANY / 2 && revoked_count(r) == 0);
        struct revoked *none = NULL;
        CHECK(revoked_open(&none, 0, NULL) == -EINVAL);
        revoked_close(NULL);
}

TEST_MAIN(TEST(once), TEST(ids_that_are_none), TEST(expiry), TEST(one_address_has_its_share), TEST(flood),
          TEST(full_of_others), TEST(tables_that_cannot_be), TEST(as_a_model_says), TEST(revoking), TEST(many_revoked))
