/* The whole unit test frame: a test program is a list of TEST functions and TEST_MAIN. Prints TAP. */
#pragma once

#include <stdio.h>

#include "base/macro.h"

struct test_case {
        const char *name;
        void (*run)(void);
};

static unsigned test_failures;

/* Says what failed and goes on, so that one run shows all. */
#define CHECK(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        test_failures++;                                                                               \
                        (void)printf("# %s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                         \
                }                                                                                                      \
        } while (0)

#define CHECK_STR(actual, expected)                                                                                    \
        do {                                                                                                           \
                const char *_a = (actual), *_e = (expected);                                                           \
                if (!_a || strcmp(_a, _e) != 0) {                                                                      \
                        test_failures++;                                                                               \
                        (void)printf("# %s:%d: got '%s', not '%s'\n", __FILE__, __LINE__, _a ? _a : "(null)", _e);     \
                }                                                                                                      \
        } while (0)

#define TEST_MAIN(...)                                                                                                 \
        int main(void) {                                                                                               \
                static const struct test_case cases[] = {__VA_ARGS__};                                                 \
                unsigned bad = 0;                                                                                      \
                (void)printf("1..%zu\n", ELEMENTSOF(cases));                                                           \
                for (size_t i = 0; i < ELEMENTSOF(cases); i++) {                                                       \
                        test_failures = 0;                                                                             \
                        cases[i].run();                                                                                \
                        bad += test_failures > 0;                                                                      \
                        (void)printf("%sok %zu - %s\n", test_failures ? "not " : "", i + 1, cases[i].name);            \
                }                                                                                                      \
                return bad > 0;                                                                                        \
        }
#define TEST(function)                                                                                                 \
        { #function, function }
