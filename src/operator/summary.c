/* What policy_explain says, cut into sentences; so the page, the command line and the policy cannot say different
 * things. */
#include "operator/summary.h"

#include <stdio.h>

#include "policy/schema.h"

static const char *const left_out[] = {"Only in sandboxes that the daemon keeps"}; /* where we are */

static bool is_left_out(const char *title) {
        for (size_t i = 0; i < ELEMENTSOF(left_out); i++)
                if (str_eq(title, left_out[i]))
                        return true;
        return false;
}

/* Each sentence is a line with two blanks in front, or four where it belongs to the one before; titles have none. The
 * text is cut in place by the first walk; the second one finds NULs instead of line ends. */
struct lines {
        char *at, *end;
};

static char *next_line(struct lines *l) {
        char *line = l->at;

        if (line >= l->end)
                return NULL;
        l->at = line + strcspn(line, "\n") + 1;
        l->at[-1] = '\0';
        return line;
}

static void sentences(struct json *j, char *text, size_t size) {
        struct lines l = {text, text + size};
        bool shown = false;
        char *line;

        json_open(j, "summary", '[');
        (void)next_line(&l); /* "A sandbox with the profile …:" */
        while ((line = next_line(&l))) {
                if (line[0] && line[0] != ' ')
                        shown = !is_left_out(line);
                else if (line[0] && shown)
                        json_str(j, NULL, line + strspn(line, " "));
        }
        json_close(j, ']');
}

static void sections(struct json *j, char *text, size_t size) {
        struct lines l = {text, text + size};
        bool open = false;
        char *line;

        json_open(j, "sections", '[');
        (void)next_line(&l);
        while ((line = next_line(&l))) {
                bool title = line[0] && line[0] != ' ';

                if (title && open) {
                        json_close(j, ']');
                        json_close(j, '}');
                        open = false;
                }
                if (title && !is_left_out(line)) {
                        open = true;
                        json_open(j, NULL, '{');
                        json_str(j, "title", line);
                        json_open(j, "sentences", '[');
                } else if (line[0] && open)
                        json_str(j, NULL, line + strspn(line, " "));
        }
        if (open) {
                json_close(j, ']');
                json_close(j, '}');
        }
        json_close(j, ']');
}

static void limits(struct json *j, const struct policy *p) {
        json_open(j, "limits", '{');
        json_u64_or_null(j, "cpus_thousandths", p->limits.cpus);
        json_u64_or_null(j, "memory", p->limits.memory);
        json_u64_or_null(j, "processes", p->limits.processes);
        json_u64_or_null(j, "files", p->limits.files);
        json_u64_or_null(j, "disk", p->files.workspace.path ? p->files.workspace.size : POLICY_UNSET);
        json_u64_or_null(j, "output", p->limits.output);
        json_u64_or_null(j, "run_ms", p->time.run);
        json_u64_or_null(j, "idle_ms", p->time.idle);
        json_u64_or_null(j, "lifetime_ms", p->time.lifetime);
        json_u64_or_null(j, "cpu_ms", p->budget.cpu);
        json_u64_or_null(j, "egress", p->budget.egress);
        json_close(j, '}');
}

/* As --allow takes it; what it leaves out is in "effective". */
static void network(struct json *j, const struct policy *p) {
        json_open(j, "network", '[');
        for (size_t i = 0; i < p->network.allow_count; i++) {
                const struct policy_reach *r = &p->network.allow[i];
                _cleanup_buf_ struct buf b = {0};

                buf_str(&b, r->cidr ? r->cidr : r->host);
                for (size_t k = 0; k < r->port_count; k++)
                        buf_printf(&b, r->ports[k] ? "%s%u" : "%sany", k == 0 ? ":" : ",", r->ports[k]);
                json_str(j, NULL, buf_ok(&b) ? b.data : "");
        }
        json_close(j, ']');
}

static void strings(struct json *j, const char *key, const struct policy_strings *s) {
        json_open(j, key, '[');
        for (size_t i = 0; i < s->count; i++)
                json_str(j, NULL, s->items[i]);
        json_close(j, ']');
}

int summary_json(const struct policy *p, struct json *j) {
        _cleanup_buf_ struct buf text = {0};

        int r = policy_explain(p, &text);
        if (r < 0)
                return r;
        _cleanup_free_ char *copy = strdup(text.data);
        if (!copy)
                return -ENOMEM;
        sentences(j, text.data, text.size);
        sections(j, copy, text.size);
        limits(j, p);
        network(j, p);
        if (p->tools.exec_set)
                strings(j, "programs", &p->tools.exec);
        else
                json_null(j, "programs");
        strings(j, "secrets", &p->secrets);
        return policy_print_json(p, j, "effective");
}

/* --- the schema -----------------------------------------------------------------------------------------------------
 */

/* policy_set takes it: whole values of the policy, one at a time. */
static bool can_be_set(const struct schema_row *row) {
        return row->scope == SCOPE_POLICY && !str_eq(row->key, "name") && !str_eq(row->key, "sealed");
}

static uint64_t ceiling(const struct core *o, const char *key) {
        const struct {
                const char *key;
                uint64_t most;
        } rows[] = {{"limits.memory", o->conf.ceiling_memory},
                    {"limits.cpus", o->conf.ceiling_cpus},
                    {"limits.processes", o->conf.ceiling_processes},
                    {"files.workspace.size", o->conf.ceiling_disk},
                    {"files.workspace.inodes", o->conf.ceiling_inodes}};

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (str_eq(rows[i].key, key))
                        return rows[i].most;
        return UINT64_MAX;
}

static const char *type_of(const struct schema_row *row) {
        static const char *const names[] = {
                [KIND_NUMBER] = "number", [KIND_BOOL] = "boolean", [KIND_CHOICE] = "choice",   [KIND_TEXT] = "text",
                [KIND_STRINGS] = "list",  [KIND_PORTS] = "list",   [KIND_ENTRIES] = "entries", [KIND_ENV] = "map"};
        static_assert(ELEMENTSOF(names) == KIND_ENV + 1, "every kind has a name");

        return names[row->kind];
}

static void number_row(const struct core *o, const struct schema_row *row, struct json *j) {
        static const char *const units[] = {[TEXT_COUNT] = "count", [TEXT_BYTES] = "bytes", [TEXT_RATE] = "bytes/s",
                                            [TEXT_TIME] = "ms",     [TEXT_CPUS] = "cpus",   [TEXT_MONEY] = "money"};
        static_assert(ELEMENTSOF(units) == TEXT_MONEY + 1, "every unit has a name");
        uint64_t most = MIN(row->max, ceiling(o, row->key));
        char text[40];

        json_str(j, "unit", units[row->unit]);
        json_str(j, "min", text_format(text, sizeof text, row->unit, row->min));
        json_str(j, "max", text_format(text, sizeof text, row->unit, most));
        json_u64(j, "min_value", row->min);
        json_u64(j, "max_value", most);
}

void summary_schema_json(const struct core *o, struct json *j, const char *key) {
        json_open(j, key, '[');
        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];
                _cleanup_buf_ struct buf form = {0};

                if (!can_be_set(row))
                        continue;
                schema_describe(row, &form);
                json_open(j, NULL, '{');
                json_str(j, "key", row->key);
                json_str(j, "type", type_of(row));
                json_str(j, "form", buf_ok(&form) ? form.data : "");
                if (row->kind == KIND_NUMBER)
                        number_row(o, row, j);
                if (row->choices) {
                        json_open(j, "choices", '[');
                        for (size_t k = 0; row->choices[k]; k++)
                                json_str(j, NULL, row->choices[k]);
                        json_close(j, ']');
                }
                json_bool(j, "enforced", row->enforce != ENFORCE_LATER);
                json_str(j, "about", row->doc);
                json_close(j, '}');
        }
        json_close(j, ']');
}
