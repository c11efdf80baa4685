/* What the probe said of one attempt.
 *
 * The output comes from inside: it may hold anything, and a line in it may be forged. So nothing is guessed: a line
 * counts if it is whole, well-formed, and says what a probe says; and if two lines speak of the same attempt, neither
 * is believed. The verdict never rests on these words alone. */
#include "base/json-read.h"
#include "verify/launch.h"

enum { LINE_MAX_SIZE = 16 << 10 }; /* the longest that the probe can say, escaped, is a third of it */

static bool is_result(const char *word) {
        static const char *const results[] = {"done", "refused", "killed", "guarded", "not tried"};

        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                if (str_eq(word, results[i]))
                        return true;
        return false;
}

/* As much as there is room for, whole characters only. */
static void copy_text(char *to, size_t size, const char *from) {
        size_t n = strnlen(from, size);

        if (n == size)
                for (n--; n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80;)
                        n--;
        memcpy(to, from, n);
        to[n] = '\0';
}

/* Is this line of the probe's about this attempt? The search for the bare word only saves time: there may be much
 * output, and many names are asked for. */
static bool is_about(const char *line, size_t size, const char *name) {
        char about[64];

        return memmem(line, size, name, strlen(name)) && json_check(line, size, NULL) == 0 &&
               json_find_str(line, "name", about, sizeof about) && str_eq(about, name);
}

static bool read_line(const char *line, struct said *ret) {
        struct said said = {0};
        char evidence[LINE_MAX_SIZE];

        if (!json_find_str(line, "result", said.result, sizeof said.result) || !is_result(said.result) ||
            !json_find_str(line, "evidence", evidence, sizeof evidence) ||
            !(json_find_null(line, "errno") || json_find_str(line, "errno", said.error, sizeof said.error)))
                return false;
        copy_text(said.evidence, sizeof said.evidence, evidence);
        *ret = said;
        return true;
}

bool said_find(const struct buf *out, const char *name, struct said *ret) {
        const char *p = out->data, *end = p ? p + out->size : NULL, *newline;
        struct said said = {0};
        char line[LINE_MAX_SIZE];
        unsigned lines = 0;

        for (; p && (newline = memchr(p, '\n', (size_t)(end - p))); p = newline + 1) {
                while (p < newline && *p == '\r') /* of a terminal */
                        p++;
                size_t size = (size_t)(newline - p);
                if (size == 0 || size >= sizeof line || *p != '{')
                        continue;
                memcpy(line, p, size);
                line[size] = '\0';
                if (!is_about(line, size, name))
                        continue;
                if (++lines > 1 || !read_line(line, &said))
                        return false;
        }
        if (lines != 1)
                return false;
        *ret = said;
        return true;
}
