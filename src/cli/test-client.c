/* Unit tests of what the client's verbs are made of: command lines by table, tables for people, words for numbers. */
#include "base/test.h"
#include "cli/args.h"
#include "cli/table.h"
#include "cli/tell.h"

/* --- command lines -------------------------------------------------------------------------------------------- */

struct options {
        struct args_common common;
        bool flag, other;
        const char *text;
        struct args_list list;
        uint64_t count, bytes, time;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option rows[] = {
        {"flag", 'f', NULL, "a flag", ARGS_FLAG, AT(flag)},
        {"other", 'o', NULL, "another", ARGS_FLAG, AT(other)},
        {"text", 't', "TEXT", "a text", ARGS_TEXT, AT(text)},
        {"list", 'l', "ITEM", "several", ARGS_LIST, AT(list)},
        {"memory", 0, "SIZE", "for a key", ARGS_SET, AT(list), "limits.memory"},
        {"count", 0, "N", "a number", ARGS_COUNT, AT(count)},
        {"bytes", 0, "SIZE", "a size", ARGS_BYTES, AT(bytes)},
        {"time", 0, "TIME", "a time", ARGS_TIME, AT(time)},
};

static struct args_verb verb = {.name = "try",
                                .words = "A [B]",
                                .least = 1,
                                .most = 3,
                                .options = rows,
                                .count = ELEMENTSOF(rows),
                                .flags = ARGS_JSON};

static struct options o;
static struct err err;
static char *line[16];

static int parse(const char *text) {
        static char copy[256];
        int argc = 0;

        (void)snprintf(copy, sizeof copy, "%s", text);
        line[argc++] = copy;
        for (char *p = copy; *p; p++)
                if (*p == ' ') {
                        *p = '\0';
                        line[argc++] = p + 1;
                }
        line[argc] = NULL;
        o = (struct options){0};
        err = (struct err){0};
        return args_parse(&verb, argc, line, &o, &err);
}

static void options_and_words_in_any_order(void) {
        CHECK(parse("try a --flag b -t x --text=y") == 2);
        CHECK_STR(line[1], "a");
        CHECK_STR(line[2], "b");
        CHECK(o.flag && !o.other);
        CHECK_STR(o.text, "y");
        CHECK(parse("try -fo a -ttext") == 1 && o.flag && o.other);
        CHECK_STR(o.text, "text");
        CHECK(parse("try -fot text a") == 1 && o.flag && o.other);
        CHECK_STR(o.text, "text");
        CHECK(parse("try -- -f --text") == 2 && !o.flag);
        CHECK_STR(line[1], "-f");
        CHECK(parse("try -") == 1); /* a word */
        CHECK(parse("try a --json --socket /x") == 1 && o.common.json);
        CHECK_STR(o.common.socket, "/x");
        CHECK(parse("try a --text=") == 1);
        CHECK_STR(o.text, "");
}

static void values_by_kind(void) {
        CHECK(parse("try a --count 2k --bytes 1MiB --time 2m") == 1);
        CHECK(o.count == 2000 && o.bytes == 1 << 20 && o.time == 120000);
        CHECK(parse("try a -l x --memory 1GiB -l y=z") == 1 && o.list.count == 3);
        CHECK_STR(o.list.items[1], "1GiB");
        CHECK_STR(o.list.keys[1], "limits.memory");
        CHECK(o.list.keys[0] == NULL && o.list.keys[2] == NULL);
}

static void a_command_keeps_its_dashes(void) {
        verb.flags |= ARGS_COMMAND;
        verb.most = 9;
        CHECK(parse("try -f box ls -f --text -- x") == 6 && o.flag && !o.text);
        CHECK_STR(line[2], "ls");
        CHECK_STR(line[3], "-f");
        CHECK_STR(line[5], "--");
        CHECK(parse("try box -f --text=x ls -o") == 3 && o.flag && !o.other); /* between the two they are ours */
        CHECK_STR(o.text, "x");
        CHECK_STR(line[3], "-o");
        CHECK(parse("try box -f -- -o") == 2 && o.flag && !o.other);
        CHECK(parse("try box -- ls -o") == 3 && !o.other);
        CHECK_STR(line[2], "ls");
        CHECK(parse("try -- box -- ls") == 3);
        CHECK_STR(line[2], "--");
        verb.flags &= ~(unsigned)ARGS_COMMAND;
        verb.most = 3;
}

static void wrong_lines(void) {
        static const struct {
                const char *line, *text, *hint;
        } bad[] = {
                {"try", "'stockade try' got too few words", "stockade try [OPTION…] A [B]"},
                {"try a b c d", "'stockade try' got too many words", "stockade try [OPTION…] A [B]"},
                {"try a --flog", "'stockade try' does not know '--flog'", "did you mean --flag?"},
                {"try a --something", "'stockade try' does not know '--something'",
                 "'stockade try --help' lists what it knows"},
                {"try a -fx", "'stockade try' does not know '-fx'", "'stockade try --help' lists what it knows"},
                {"try a --flag=yes", "--flag takes no value", ""},
                {"try a --text", "--text needs TEXT", "see 'stockade try --help'"},
                {"try a -t", "--text needs TEXT", "see 'stockade try --help'"},
                {"try a --count x", "--count: 'x' is not a whole number such as 128 or 200k", ""},
                {"try a --time 5", "--time: '5' is not a time such as 500ms, 30s, 10m, 24h or 7d", ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                CHECK(parse(bad[i].line) == ERR_INPUT);
                CHECK_STR(err.text, bad[i].text);
                CHECK_STR(err.hint, bad[i].hint);
        }
}

static void lists_have_an_end(void) {
        static struct options many;
        char *argv[2 * ARGS_LIST_MAX + 4];
        int argc = 0;

        argv[argc++] = line[0];
        for (int i = 0; i <= ARGS_LIST_MAX; i++) {
                argv[argc++] = (char *)(uintptr_t) "-l";
                argv[argc++] = (char *)(uintptr_t) "x";
        }
        CHECK(args_parse(&verb, argc, argv, &many, &err) == ERR_LIMIT);
        CHECK(many.list.count == ARGS_LIST_MAX);
}

/* --- tables --------------------------------------------------------------------------------------------------- */

static const struct table_column columns[] = {{"ID", 0}, {"NAME", TABLE_SHRINK}, {"SIZE", TABLE_RIGHT}};

static const char *drawn(const char *const *cells, size_t count, size_t width) {
        static struct buf out;
        struct table t;

        out.size = 0;
        table_begin(&t, columns, ELEMENTSOF(columns));
        for (size_t i = 0; i < count; i++)
                table_cell(&t, cells[i]);
        table_end(&t, &out, width);
        CHECK(buf_ok(&out));
        return out.data;
}

static void tables_fit(void) {
        static const char *const cells[] = {"a1", "short", "5", "b2", "a much longer name", "1234"};

        CHECK_STR(drawn(cells, 6, 0), "ID  NAME                SIZE\n"
                                      "a1  short                  5\n"
                                      "b2  a much longer name  1234\n");
        CHECK_STR(drawn(cells, 6, 20), "ID  NAME        SIZE\n"
                                       "a1  short          5\n"
                                       "b2  a much lo…  1234\n");
        CHECK_STR(drawn(cells, 6, 1), "ID  NAME    SIZE\n"
                                      "a1  short      5\n"
                                      "b2  a muc…  1234\n");
        CHECK_STR(drawn(cells, 0, 80), "ID  NAME  SIZE\n");
}

static void cells_are_inert_and_measured_in_columns(void) {
        static const char *const cells[] = {"\x1b[31m", "\xe6\x97\xa5\xe6\x9c\xac", "1", "e", "\xc3\xa9", "22"};

        CHECK_STR(drawn(cells, 6, 0), "ID        NAME  SIZE\n"
                                      "\\x1b[31m  \xe6\x97\xa5\xe6\x9c\xac     1\n"
                                      "e         \xc3\xa9       22\n");
        CHECK(table_width("\xe6\x97\xa5") == 2 && table_width("\xc3\xa9") == 1 && table_width("\xf0\x9f\x98\x80") == 2);
        CHECK(table_width("") == 0 && table_width("abc") == 3);
}

/* --- words ---------------------------------------------------------------------------------------------------- */

static void sizes_and_spans(void) {
        char b[32];
        static const struct {
                uint64_t value;
                const char *text;
        } sizes[] = {{0, "0B"},           {1023, "1023B"},        {1024, "1.0KiB"},
                     {1536, "1.5KiB"},    {10240, "10KiB"},       {1048575, "1023KiB"},
                     {1048576, "1.0MiB"}, {5ULL << 30, "5.0GiB"}, {UINT64_MAX - 1, "15EiB"},
                     {UINT64_MAX, "-"}},
          spans[] = {{0, "0ms"},     {999, "999ms"},  {1000, "1s"},     {119999, "119s"},
                     {120000, "2m"}, {7200000, "2h"}, {172800000, "2d"}};

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                CHECK_STR(tell_size(b, sizeof b, sizes[i].value), sizes[i].text);
        for (size_t i = 0; i < ELEMENTSOF(spans); i++)
                CHECK_STR(tell_span(b, sizeof b, spans[i].value), spans[i].text);
        CHECK_STR(tell_ago(b, sizeof b, 0), "-");
        CHECK_STR(tell_ago(b, sizeof b, tell_now() + 100000), "0ms"); /* the clock was set */
}

static void fields_of_answers(void) {
        static const char json[] = "{\"a\":\"x\\u001b\",\"n\":5,\"e\":\"\",\"o\":{}}";
        char b[8];

        CHECK_STR(tell_text(b, sizeof b, json, "a"), "x\\x1b");
        CHECK_STR(tell_text(b, sizeof b, json, "n"), "5");
        CHECK_STR(tell_text(b, sizeof b, json, "e"), "-");
        CHECK_STR(tell_text(b, sizeof b, json, "o"), "-");
        CHECK_STR(tell_text(b, sizeof b, json, "none"), "-");
        CHECK_STR(tell_text(b, 3, json, "a"), "x"); /* an escape is not cut */
        CHECK(tell_number(json, "n") == 5 && tell_number(json, "a") == UINT64_MAX);
}

TEST_MAIN(TEST(options_and_words_in_any_order), TEST(values_by_kind), TEST(a_command_keeps_its_dashes),
          TEST(wrong_lines), TEST(lists_have_an_end), TEST(tables_fit), TEST(cells_are_inert_and_measured_in_columns),
          TEST(sizes_and_spans), TEST(fields_of_answers))
