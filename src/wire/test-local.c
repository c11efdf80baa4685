/* Unit tests of the local protocol's frames. */
#include "wire/local.h"

#include "base/test.h"

static const enum local_kind kinds[] = {LOCAL_REQUEST, LOCAL_ANSWER, LOCAL_EVENT,  LOCAL_INPUT,
                                        LOCAL_FINISH,  LOCAL_OUTPUT, LOCAL_ERRORS, LOCAL_CONTROL};

static ssize_t next(const void *bytes, size_t size, size_t max) {
        enum local_kind kind = 0;
        const uint8_t *data = NULL;
        size_t n = 77;
        ssize_t r = local_next(bytes, size, max, &kind, &data, &n);

        if (r <= 0)
                CHECK(kind == 0 && data == NULL && n == 77);
        else
                CHECK(kind != 0 && data == (const uint8_t *)bytes + LOCAL_HEAD && n == (size_t)r - LOCAL_HEAD);
        return r;
}

static void frames_come_back(void) {
        _cleanup_buf_ struct buf b = {0};
        const char *const texts[] = {"", "x", "{\"verb\":\"ping\"}"};
        enum local_kind kind;
        const uint8_t *data;
        size_t size, at = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                for (size_t k = 0; k < ELEMENTSOF(texts); k++)
                        if (kinds[i] != LOCAL_FINISH || k == 0)
                                local_put(&b, kinds[i], texts[k], strlen(texts[k]));
        CHECK(buf_ok(&b));
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                for (size_t k = 0; k < ELEMENTSOF(texts); k++) {
                        if (kinds[i] == LOCAL_FINISH && k > 0)
                                continue;
                        ssize_t n = local_next((const uint8_t *)b.data + at, b.size - at, 1000, &kind, &data, &size);
                        CHECK(n > 0 && kind == kinds[i] && size == strlen(texts[k]));
                        CHECK(memcmp(data, texts[k], size) == 0);
                        at += n > 0 ? (size_t)n : LOCAL_HEAD;
                }
        CHECK(at == b.size);
}

static void the_bytes_are_these(void) {
        _cleanup_buf_ struct buf b = {0};

        local_put(&b, LOCAL_OUTPUT, "hello", 5);
        local_put(&b, LOCAL_FINISH, NULL, 0);
        CHECK(b.size == 21 && memcmp(b.data, "\5\0\0\0O\0\0\0hello\0\0\0\0F\0\0\0", 21) == 0);
}

static void every_prefix_waits(void) {
        _cleanup_buf_ struct buf b = {0};

        local_put(&b, LOCAL_INPUT, "some bytes", 10);
        for (size_t n = 0; n < b.size; n++)
                CHECK(next(b.data, n, 1000) == 0);
        CHECK(next(b.data, b.size, 1000) == (ssize_t)b.size);
        buf_str(&b, "and more");
        CHECK(next(b.data, b.size, 1000) == LOCAL_HEAD + 10);
}

static void what_is_no_frame_is_refused_by_its_head(void) {
        static const char *const bad[] = {
                "\0\0\0\0\0\0\0\0", "\0\0\0\0q\0\0\0", "\0\0\0\0Z\0\0\0", "\0\0\0\0Q\1\0\0",
                "\0\0\0\0Q\0\1\0",  "\0\0\0\0Q\0\0\1", "\1\0\0\0F\0\0\0", "\0\0\0\377F\0\0\0",
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(next(bad[i], LOCAL_HEAD, LOCAL_ANSWER_MAX) == -EBADMSG);
        for (int c = 0; c < 256; c++) {
                char head[LOCAL_HEAD] = {0, 0, 0, 0, (char)c};
                bool known = false;

                for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                        known |= (int)kinds[i] == c;
                CHECK(next(head, sizeof head, 1000) == (known ? LOCAL_HEAD : -EBADMSG));
        }
}

/* The size that a head names, alone: waits (0) or is too much. */
static ssize_t size_of(enum local_kind kind, size_t size, size_t max) {
        uint8_t head[LOCAL_HEAD] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24),
                                    (uint8_t)kind};

        return next(head, sizeof head, max);
}

static void sizes_are_capped_before_they_arrive(void) {
        CHECK(size_of(LOCAL_INPUT, 10, 10) == 0);
        CHECK(size_of(LOCAL_INPUT, 11, 10) == -EMSGSIZE);
        CHECK(size_of(LOCAL_OUTPUT, LOCAL_FRAME_MAX, LOCAL_ANSWER_MAX) == 0);
        CHECK(size_of(LOCAL_OUTPUT, LOCAL_FRAME_MAX + 1, LOCAL_ANSWER_MAX) == -EMSGSIZE);
        CHECK(size_of(LOCAL_REQUEST, LOCAL_JSON_MAX, LOCAL_ANSWER_MAX) == 0);
        CHECK(size_of(LOCAL_REQUEST, LOCAL_JSON_MAX + 1, LOCAL_ANSWER_MAX) == -EMSGSIZE);
        CHECK(size_of(LOCAL_ANSWER, LOCAL_ANSWER_MAX, LOCAL_ANSWER_MAX) == 0);
        CHECK(size_of(LOCAL_ANSWER, LOCAL_ANSWER_MAX + 1, SIZE_MAX) == -EMSGSIZE);
        CHECK(size_of(LOCAL_CONTROL, UINT32_MAX, SIZE_MAX) == -EMSGSIZE);
}

static void too_much_is_not_written(void) {
        static const char many[LOCAL_JSON_MAX + 1];
        _cleanup_buf_ struct buf b = {0}, full = {.max = 20};

        local_put(&b, LOCAL_FINISH, "x", 1);
        CHECK(!buf_ok(&b) && b.size == 0);
        b.failed = false;
        local_put(&b, LOCAL_REQUEST, many, sizeof many);
        CHECK(!buf_ok(&b) && b.size == 0);
        b.failed = false;
        local_put(&b, LOCAL_REQUEST, many, sizeof many - 1);
        CHECK(buf_ok(&b) && b.size == sizeof many - 1 + LOCAL_HEAD);
        local_put(&full, LOCAL_INPUT, many, 13);
        CHECK(!buf_ok(&full));
}

TEST_MAIN(TEST(frames_come_back), TEST(the_bytes_are_these), TEST(every_prefix_waits),
          TEST(what_is_no_frame_is_refused_by_its_head), TEST(sizes_are_capped_before_they_arrive),
          TEST(too_much_is_not_written))
