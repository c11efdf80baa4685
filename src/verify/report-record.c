/* A record of a run, written again for a report: on one line in plain ASCII, indented, or as a sentence.
 *
 * The text is a record that the launcher wrote. It holds names that code inside chose, so it is checked again before
 * anything else looks at it, and what is not well-formed is never embedded. */
#include "base/json-read.h"
#include "base/text.h"
#include "verify/report-words.h"

bool record_good(const char *text) {
        return text && json_check(text, strlen(text), NULL) == 0;
}

/* The character at p, n bytes of UTF-8, as JSON escapes it. */
static void add_escaped(struct buf *ret, const unsigned char *p, size_t n) {
        unsigned c = n == 2 ? p[0] & 0x1fu : n == 3 ? p[0] & 0x0fu : p[0] & 0x07u;

        for (size_t i = 1; i < n; i++)
                c = c << 6 | (p[i] & 0x3fu);
        if (c < 0x10000) {
                buf_printf(ret, "\\u%04x", c);
                return;
        }
        c -= 0x10000;
        buf_printf(ret, "\\u%04x\\u%04x", 0xd800 | c >> 10, 0xdc00 | (c & 0x3ff));
}

/* One byte or character; returns what follows it. */
static const char *add_character(struct buf *ret, const char *p) {
        size_t n = text_utf8_length((const unsigned char *)p);

        if (n <= 1)
                buf_add(ret, p, 1);
        else
                add_escaped(ret, (const unsigned char *)p, n);
        return p + MAX(n, 1);
}

/* A whole string with its quotes; returns what follows it. */
static const char *add_string(struct buf *ret, const char *p) {
        buf_add(ret, p++, 1);
        while (*p && *p != '"') {
                if (*p == '\\' && p[1])
                        buf_add(ret, p++, 1);
                p = add_character(ret, p);
        }
        buf_str(ret, "\"");
        return *p ? p + 1 : p;
}

static bool blank(char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void record_ascii(const char *text, struct buf *ret) {
        for (const char *p = text; *p;)
                if (*p == '"')
                        p = add_string(ret, p);
                else if (blank(*p))
                        p++;
                else
                        p = add_character(ret, p);
}

static void new_line(struct buf *ret, unsigned depth) {
        buf_printf(ret, "\n%*s", (int)(2 * depth), "");
}

void record_pretty(const char *text, struct buf *ret) {
        unsigned depth = 0;

        for (const char *p = text; *p;) {
                char c = *p;

                if (c == '"') {
                        p = add_string(ret, p);
                        continue;
                }
                p++;
                if (blank(c))
                        continue;
                bool closes = c == '}' || c == ']';
                if (closes && depth > 0) {
                        depth--;
                        if (ret->size > 0 && ret->data[ret->size - 1] != '{' && ret->data[ret->size - 1] != '[')
                                new_line(ret, depth);
                }
                buf_add(ret, &c, 1);
                if (c == '{' || c == '[') {
                        depth++;
                        while (blank(*p))
                                p++;
                        if (*p != '}' && *p != ']')
                                new_line(ret, depth);
                } else if (c == ',')
                        new_line(ret, depth);
                else if (c == ':')
                        buf_str(ret, " ");
        }
}

const char *record_sentence(const char *text, char *buf, size_t size) {
        enum { SHOWN = 3 }; /* words of the command */
        char command[256] = "", reason[32] = "unknown", denial[256] = "", path[32];
        uint64_t status = 0, wall = 0;
        size_t words = 0, denials = 0;

        (void)json_find_count(text, "argv", &words);
        for (size_t i = 0; i < MIN(words, SHOWN); i++) {
                size_t used = strlen(command);
                char word[80];

                (void)snprintf(path, sizeof path, "argv.%zu", i);
                if (!json_find_str(text, path, word, sizeof word))
                        (void)snprintf(word, sizeof word, "…");
                (void)snprintf(command + used, sizeof command - used, "%s%s", used ? " " : "", word);
        }
        (void)json_find_str(text, "reason", reason, sizeof reason);
        (void)json_find_u64(text, "status", &status);
        (void)json_find_u64(text, "usage.wall_us", &wall);
        (void)json_find_count(text, "denials", &denials);
        (void)json_find_str(text, "denials.0.text", denial, sizeof denial);
        int n = snprintf(buf, size, "%s%s: ended as “%s” with status %llu after %llu ms", command,
                         words > SHOWN ? " …" : "", reason, (unsigned long long)status,
                         (unsigned long long)(wall / 1000));
        if (denials > 0 && n > 0 && (size_t)n < size)
                (void)snprintf(buf + n, size - (size_t)n, "; refused, of %zu kind%s: %s", denials,
                               denials == 1 ? "" : "s", denial);
        return buf;
}
