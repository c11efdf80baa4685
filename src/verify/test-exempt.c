/* The table of what is not tried under which driver: every row names a check, has a reason that fits, and none is
 * native's. */
#include "base/test.h"
#include "verify/exempt.h"
#include "verify/judge.h"

static const char *const names[] = {"docker", "gvisor", "microvm", "firecracker"};

static void test_rows(void) {
        struct err err = {0};

        CHECK(exempt_check(&err) == 0);
        CHECK_STR(err.text, "");
}

static void test_native_has_none(void) {
        for (size_t i = 0; i < check_count(); i++) {
                CHECK(!exempt_why("native", check_at(i)->name));
                CHECK(!exempt_within("native", check_at(i)->name));
        }
}

static void test_reasons(void) {
        for (size_t d = 0; d < ELEMENTSOF(names); d++) {
                size_t left = 0;

                for (size_t i = 0; i < check_count(); i++) {
                        const char *why = exempt_why(names[d], check_at(i)->name);
                        const char *within = exempt_within(names[d], check_at(i)->name);

                        CHECK(!why || strlen(why) < sizeof((struct finding *)0)->why);
                        CHECK(!within || strlen(within) < sizeof((struct finding *)0)->why);
                        CHECK(!why || !within);
                        left += !why && !within;
                }
                CHECK(left > 280); /* the table is for exceptions */
        }
}

static void test_drivers(void) {
        CHECK(exempt_driver("native") == JUDGED_NATIVE && exempt_driver("firecracker") == JUDGED_FIRECRACKER);
        CHECK(exempt_driver("cardboard") == -ENOENT && exempt_driver("") == -ENOENT);
        CHECK(!exempt_why("cardboard", "seen-root"));
        CHECK(exempt_why("gvisor", "seen-root") && !exempt_why("docker", "seen-root"));
        CHECK(exempt_why("docker", "share-clean") && !exempt_why("docker", "host-root-file"));
}

TEST_MAIN(TEST(test_rows), TEST(test_native_has_none), TEST(test_reasons), TEST(test_drivers))
