/* Fuzz target: the JSON reader. What json_check accepts has one kind at every path, is found again when it is wrapped,
 * and is no longer accepted when its end is missing; strings survive being written and read. */
#include "base/buf.h"
#include "base/json-read.h"
#include "base/json.h"
#include "tests/fuzz/fuzz.h"

enum { STRING_MAX = 4096 };

struct found {
        bool is_string, is_number, is_bool, is_null, is_group, yes;
        char string[STRING_MAX];
        uint64_t number;
        size_t count;
};

/* Everything that can be found at a path. It is of one kind at most. */
static void look(const char *text, const char *path, struct found *ret) {
        *ret = (struct found){0};
        ret->is_string = json_find_str(text, path, ret->string, sizeof ret->string);
        ret->is_number = json_find_u64(text, path, &ret->number);
        ret->is_bool = json_find_bool(text, path, &ret->yes);
        ret->is_null = json_find_null(text, path);
        ret->is_group = json_find_count(text, path, &ret->count);
        assert(ret->is_string + ret->is_number + ret->is_bool + ret->is_null + ret->is_group <= 1);
        assert(!ret->is_string || strlen(ret->string) < STRING_MAX);
}

static void assert_same(const struct found *a, const struct found *b) {
        assert(a->is_string == b->is_string && a->is_number == b->is_number && a->is_bool == b->is_bool);
        assert(a->is_null == b->is_null && a->is_group == b->is_group && a->yes == b->yes);
        assert(str_eq(a->string, b->string) && a->number == b->number && a->count == b->count);
}

static void assert_survives(const char *string) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        char again[STRING_MAX];

        json_open(&j, NULL, '{');
        json_str(&j, "k", string);
        json_close(&j, '}');
        assert(buf_ok(&b) && json_check(b.data, b.size, NULL) == 0);
        assert(json_find_str(b.data, "k", again, sizeof again) && str_eq(again, string));
}

/* The same text as the only element, and as the only member. */
static void assert_wraps(const char *text, size_t size, const struct found *whole) {
        static const char *const forms[][3] = {{"[", "]", "0"}, {" {\"k\" : ", "\n}\t", "k"}};

        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                _cleanup_buf_ struct buf b = {.max = 2 * size + 64};
                static struct found inside;
                size_t count = 0;

                buf_str(&b, forms[i][0]);
                buf_add(&b, text, size);
                buf_str(&b, forms[i][1]);
                int r = json_check(b.data, b.size, NULL);
                assert(buf_ok(&b) && (r == 0 || r == ERR_LIMIT));
                if (r < 0)
                        continue;
                assert(json_find_count(b.data, "", &count) && count == 1);
                look(b.data, forms[i][2], &inside);
                assert_same(whole, &inside);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const paths[] = {"0", "1", "a", "b", "k", "name", "0.0", "a.a", "a.0", "a.b", ".", "result"};
        static struct found whole, part;
        struct err err = {0};
        _cleanup_free_ char *exact = malloc(size + !size), *text = malloc(size + 1);
        char path[32];

        if (!exact || !text || size > 1 << 20)
                return 0;
        memcpy(exact, data, size);
        memcpy(text, data, size);
        text[size] = '\0';
        int r = json_check(exact, size, &err); /* no byte behind it may be read */
        assert(r == json_check(text, size, NULL));
        assert(r == 0 || ((r == ERR_INPUT || r == ERR_LIMIT) && err.text[0]));
        if (r < 0)
                return 0;

        assert(strlen(text) == size);
        look(text, "", &whole);
        if (whole.is_string)
                assert_survives(whole.string);
        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                look(text, paths[i], &part);
                if (part.is_string)
                        assert_survives(part.string);
                assert(whole.is_group ||
                       !(part.is_string || part.is_number || part.is_bool || part.is_null || part.is_group));
        }
        /* an array has exactly as many indices as it has elements: nothing is behind the last */
        (void)snprintf(path, sizeof path, "%zu", whole.count);
        look(text, path, &part);
        assert(strchr(text, '{') ||
               !(part.is_string || part.is_number || part.is_bool || part.is_null || part.is_group));

        assert_wraps(text, size, &whole);
        if (whole.is_group || whole.is_string) {
                size_t last = size;

                while (strchr(" \t\r\n", text[last - 1]))
                        last--;
                for (size_t n = 0; n < last; n += 1 + last / 64)
                        assert(json_check(exact, n, NULL) < 0);
        }
        return 0;
}
