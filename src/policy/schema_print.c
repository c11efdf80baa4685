/* The schema table as documentation. The manual page's key list is this text; a test compares them. */
#include "base/json.h"
#include "policy/schema.h"

static const char *const unit_forms[] = {
        [TEXT_COUNT] = "a whole number such as 128 or 200k",
        [TEXT_BYTES] = "a size such as 64KiB or 1GiB",
        [TEXT_RATE] = "a rate such as 50MiB/s",
        [TEXT_TIME] = "a time such as 30s, 10m or 24h",
        [TEXT_CPUS] = "a number of processors such as 0.5",
        [TEXT_MONEY] = "an amount such as 5 or 2.50",
};
static_assert(ELEMENTSOF(unit_forms) == TEXT_MONEY + 1, "every unit has a form");

static const struct {
        value_check check;
        const char *one, *many;
} words[] = {
        {value_check_name, "a name", "names"},
        {value_check_extends, "a name or a path", "names"},
        {value_check_path, "an absolute path", "absolute paths"},
        {value_check_device, "a path below /dev", "paths below /dev"},
        {value_check_user, "a user name", "user names"},
        {value_check_image, "an image's name", "images"},
        {value_check_variable, "a name such as GITHUB_TOKEN", "names such as GITHUB_TOKEN"},
        {value_check_tool, "a tool's name", "tool names"},
        {value_check_host, "a host name", "host names"},
        {value_check_cidr, "an address block", "address blocks"},
        {value_check_method, "an HTTP method", "HTTP methods"},
        {value_check_url, "an HTTP path", "HTTP paths"},
};

static const char *const merge_words[] = {
        [MERGE_OWN] = "not inherited",
        [MERGE_REPLACE] = "replaces the parent's",
        [MERGE_UNION] = "is added to the parent's",
        [MERGE_MAP] = "merges with the parent's",
};

static const char *const narrow_words[] = {
        [NARROW_FREE] = "free",
        [NARROW_LIMIT] = "at most the parent's",
        [NARROW_GRANT] = "at most the parent's, none if it has none",
        [NARROW_RISE] = "the parent's or stricter",
        [NARROW_FALL] = "the parent's or stricter",
        [NARROW_KEEP] = "what the parent set stays",
        [NARROW_PATHS] = "at or below the parent's",
        [NARROW_SUBSET] = "some of the parent's",
        [NARROW_ASK] = "some that the parent may call or ask for",
        [NARROW_GROW] = "the parent's and more",
        [NARROW_PLACES] = "at or below the parent's, together no larger",
        [NARROW_REACH] = "covered by one of the parent's",
};
static_assert(ELEMENTSOF(narrow_words) == NARROW_REACH + 1, "every way to narrow is named");

static void describe_word(const struct schema_row *row, bool many, struct buf *out) {
        if (row->choices) {
                for (size_t i = 0; row->choices[i]; i++)
                        buf_printf(out, "%s%s", i == 0 ? "" : row->choices[i + 1] ? ", " : " or ", row->choices[i]);
                return;
        }
        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (words[i].check == row->check) {
                        buf_str(out, many ? words[i].many : words[i].one);
                        return;
                }
        buf_str(out, many ? "words" : "a word");
}

void schema_describe(const struct schema_row *row, struct buf *out) {
        switch (row->kind) {
        case KIND_NUMBER:
                if (row->min == row->max)
                        buf_printf(out, "%llu", (unsigned long long)row->min);
                else
                        buf_str(out, unit_forms[row->unit]);
                break;
        case KIND_BOOL:
                buf_str(out, "true or false");
                break;
        case KIND_CHOICE:
        case KIND_TEXT:
                describe_word(row, false, out);
                break;
        case KIND_STRINGS:
                buf_str(out, "a list of ");
                describe_word(row, true, out);
                break;
        case KIND_PORTS:
                buf_str(out, "a list of ports, or any");
                break;
        case KIND_ENTRIES:
                buf_str(out, row->element == SCOPE_PLACE ? "a list of paths or maps" : "a list of maps");
                break;
        case KIND_ENV:
                buf_str(out, "a map of names and values");
                break;
        }
}

/* " (8 to 1000M)", for numbers whose range says something. */
static void describe_range(const struct schema_row *row, struct buf *out) {
        char low[40], high[40];

        if (row->kind == KIND_NUMBER && row->scope != SCOPE_FILE)
                buf_printf(out, ", %s to %s", text_format(low, sizeof low, row->unit, row->min),
                           text_format(high, sizeof high, row->unit, row->max));
}

static const char *enforced_words(const struct schema_row *row) {
        switch (row->enforce) {
        case ENFORCE_NOW:
                return "yes";
        case ENFORCE_DRIVER:
                return "in sandboxes of a daemon that offers such a driver";
        case ENFORCE_SECRET:
                return "if a rule of network.allow names each";
        case ENFORCE_EXEC:
                return "unless files.write has '/', or there is an image";
        case ENFORCE_DAEMON:
                return "in sandboxes of the daemon";
        case ENFORCE_LATER:
        default:
                return row->kind == KIND_CHOICE ? "the first choice only" : "not yet";
        }
}

/* Rows of entries and of the file have no say in merging: their list or the loader has. */
static bool merges(const struct schema_row *row) {
        return row->scope == SCOPE_POLICY;
}

void schema_print(struct buf *out) {
        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];

                buf_printf(out, "%s%s: ", i > 0 ? "\n" : "", row->key);
                schema_describe(row, out);
                describe_range(row, out);
                buf_printf(out, "\n    %s\n", row->doc);
                if (merges(row))
                        buf_printf(out, "    in a child: %s; under a sealed parent: %s; enforced: %s\n",
                                   merge_words[row->merge], narrow_words[row->narrow], enforced_words(row));
        }
}

void schema_print_json(struct buf *out) {
        struct json j = {.out = out};

        json_open(&j, NULL, '[');
        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];
                _cleanup_buf_ struct buf value = {0};
                char text[40];

                schema_describe(row, &value);
                json_open(&j, NULL, '{');
                json_str(&j, "key", row->key);
                json_str(&j, "value", value.data);
                if (row->kind == KIND_NUMBER) {
                        json_str(&j, "min", text_format(text, sizeof text, row->unit, row->min));
                        json_str(&j, "max", text_format(text, sizeof text, row->unit, row->max));
                }
                if (merges(row)) {
                        json_str(&j, "child", merge_words[row->merge]);
                        json_str(&j, "sealed", narrow_words[row->narrow]);
                        json_str(&j, "enforced", enforced_words(row));
                }
                json_str(&j, "doc", row->doc);
                json_close(&j, '}');
        }
        json_close(&j, ']');
        buf_str(out, "\n");
}

/* scdoc's own characters in a sentence. */
static void man_text(struct buf *out, const char *s) {
        for (; *s; s++) {
                if (strchr("*_\\#`", *s))
                        buf_str(out, "\\");
                buf_add(out, s, 1);
        }
}

void schema_print_man(struct buf *out) {
        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];
                _cleanup_buf_ struct buf value = {0};

                schema_describe(row, &value);
                describe_range(row, &value);
                buf_printf(out, "%s*%s*: ", i > 0 ? "\n" : "", row->key);
                man_text(out, value.data ? value.data : "");
                buf_str(out, "\n\t");
                man_text(out, row->doc);
                if (merges(row)) {
                        if (row->merge != MERGE_REPLACE)
                                buf_printf(out, " In a child it %s%s.", row->merge == MERGE_OWN ? "is " : "",
                                           row->merge == MERGE_OWN ? "not inherited" : merge_words[row->merge]);
                        if (row->narrow != NARROW_FREE)
                                buf_printf(out, " Sealed: %s.", narrow_words[row->narrow]);
                        if (row->enforce == ENFORCE_LATER)
                                buf_printf(out, " Not enforceable yet%s.",
                                           row->kind == KIND_CHOICE ? " beyond the first choice" : "");
                        if (row->enforce == ENFORCE_DAEMON)
                                buf_str(out, " Only in sandboxes of the daemon.");
                        if (row->enforce == ENFORCE_DRIVER)
                                buf_str(out, " The daemon chooses; a sandbox of 'stockade run' is native.");
                }
                buf_str(out, "\n");
        }
}
