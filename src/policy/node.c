/* YAML to a tree of our own, from libyaml's events.
 *
 * Everything is refused that a reader of the file could misread: see node.h. The bytes are checked before libyaml sees
 * them, the text of every scalar again after it resolved escapes. Nothing here knows what a key means. */
#include "policy/node.h"

#include <stdarg.h>
#include <yaml.h>

#include "base/text.h"
#include "policy/policy.h"

struct reader {
        const char *label;
        yaml_parser_t yaml;
        struct err *err;
};

int node_error(const char *label, const struct node *at, struct err *err, const char *format, ...) {
        char text[sizeof err->text];
        const char *dots = "";
        va_list args;

        va_start(args, format);
        (void)vsnprintf(text, sizeof text, format, args);
        va_end(args);

        if (!label)
                return err_set(err, ERR_INPUT, "%s", text);
        if (strlen(label) > 200) {
                dots = "...";
                label += strlen(label) - 200;
        }
        if (!at || at->line == 0)
                return err_set(err, ERR_INPUT, "%s%s: %s", dots, label, text);
        return err_set(err, ERR_INPUT, "%s%s:%u:%u: %s", dots, label, at->line, at->column, text);
}

const char *node_kind_name(const struct node *n) {
        switch (n->kind) {
        case NODE_LIST:
                return "a list";
        case NODE_MAP:
                return "a map";
        case NODE_TEXT:
        default:
                return n->text && n->text[0] ? "text" : "nothing";
        }
}

void node_free(struct node *n) {
        if (!n)
                return;
        for (size_t i = 0; i < n->count; i++)
                node_free(n->items[i]);
        free(n->items);
        free(n->text);
        free(n);
}

struct node *node_new(enum node_kind kind, const char *text, size_t length) {
        struct node *n = calloc(1, sizeof *n);

        if (!n)
                return NULL;
        n->kind = kind;
        if (kind == NODE_TEXT) {
                n->text = strndup(text, length);
                if (!n->text) {
                        free(n);
                        return NULL;
                }
        }
        return n;
}

int node_append(struct node *parent, struct node *item) {
        if (!item)
                return -ENOMEM;
        if (parent->count % 16 == 0) {
                struct node **more = realloc(parent->items, (parent->count + 16) * sizeof *more);
                if (!more) {
                        node_free(item);
                        return -ENOMEM;
                }
                parent->items = more;
        }
        parent->items[parent->count++] = item;
        return 0;
}

const struct node *node_get(const struct node *map, const char *key) {
        for (size_t i = 0; map->kind == NODE_MAP && i + 1 < map->count; i += 2)
                if (str_eq(map->items[i]->text, key))
                        return map->items[i + 1];
        return NULL;
}

/* What must not be in a profile: control characters, and the invisible ones that break lines where editors do not or
 * turn the direction of text, so that the file reads differently from what it says. s holds one UTF-8 sequence. */
static const char *bad_character(const unsigned char *s, size_t length) {
        if (length == 0)
                return "a byte that is not UTF-8";
        if (length == 1 && s[0] == 0)
                return "a NUL byte";
        if ((length == 1 && (s[0] < 0x20 || s[0] == 0x7f)) || (length == 2 && s[0] == 0xc2 && s[1] < 0xa0))
                return "a control character";
        if (length == 3 && s[0] == 0xe2 &&
            ((s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae) || (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9)))
                return "an invisible character that changes how the line reads";
        return NULL;
}

static int check_bytes(struct reader *r, const char *data, size_t size) {
        struct node at = {.line = 1, .column = 1};
        const unsigned char *p = (const unsigned char *)data, *end = p + size;

        while (p < end) {
                size_t n = text_utf8_length(p);
                const char *bad = bad_character(p, n);

                if (bad && *p != '\n' && *p != '\r' && *p != '\t')
                        return node_error(r->label, &at, r->err, "%s (byte 0x%02x)", bad, *p);
                if (*p == '\n' || (*p == '\r' && p[1] != '\n')) {
                        at.line++;
                        at.column = 1;
                } else if (*p != '\r')
                        at.column++;
                p += n;
        }
        return 0;
}

static struct node mark(yaml_mark_t m) {
        return (struct node){.line = (unsigned)m.line + 1, .column = (unsigned)m.column + 1};
}

static int next(struct reader *r, yaml_event_t *ret) {
        if (yaml_parser_parse(&r->yaml, ret))
                return 0;
        if (r->yaml.error == YAML_MEMORY_ERROR)
                return err_set(r->err, -ENOMEM, "%s: cannot read the profile", r->label);
        struct node at = mark(r->yaml.problem_mark);
        return node_error(r->label, &at, r->err, "not well-formed YAML: %s",
                          r->yaml.problem ? r->yaml.problem : "unknown problem");
}

static int check_decorations(struct reader *r, const struct node *at, const yaml_char_t *anchor,
                             const yaml_char_t *tag) {
        if (anchor)
                return node_error(r->label, at, r->err, "anchor '&%.60s': profiles have no anchors",
                                  (const char *)anchor);
        if (tag)
                return node_error(r->label, at, r->err, "tag '%.60s': profiles have no tags", (const char *)tag);
        return 0;
}

static int check_text(struct reader *r, const struct node *at, const yaml_char_t *text, size_t length) {
        for (const unsigned char *p = text; p < text + length;) {
                size_t n = text_utf8_length(p);
                const char *bad = bad_character(p, n);

                if (bad && *p == '\n')
                        bad = "a line break";
                if (bad)
                        return node_error(r->label, at, r->err, "this text contains %s", bad);
                p += n;
        }
        return 0;
}

static int read_text(struct reader *r, const struct node *at, yaml_event_t *event, struct node **ret) {
        const yaml_char_t *text = event->data.scalar.value;
        size_t length = event->data.scalar.length;

        int e = check_decorations(r, at, event->data.scalar.anchor, event->data.scalar.tag);
        if (e == 0)
                e = check_text(r, at, text, length);
        if (e < 0)
                return e;
        *ret = node_new(NODE_TEXT, (const char *)text, length);
        return *ret ? 0 : err_set(r->err, -ENOMEM, "%s: cannot read the profile", r->label);
}

static int read_node(struct reader *r, yaml_event_t *event, unsigned depth, struct node **ret);

static int check_key(struct reader *r, const struct node *map, const struct node *key) {
        if (key->kind != NODE_TEXT)
                return node_error(r->label, key, r->err, "a key must be a word, not %s", node_kind_name(key));
        for (size_t i = 0; i < map->count; i += 2)
                if (str_eq(map->items[i]->text, key->text))
                        return node_error(r->label, key, r->err, "duplicate key '%.60s', first on line %u", key->text,
                                          map->items[i]->line);
        return 0;
}

static int read_items(struct reader *r, struct node *n, yaml_event_type_t end, unsigned depth) {
        size_t max = n->kind == NODE_MAP ? 2 * POLICY_LIST_MAX : POLICY_LIST_MAX;

        for (;;) {
                _cleanup_(yaml_event_delete) yaml_event_t event = {0};
                _cleanup_node_ struct node *item = NULL;

                int e = next(r, &event);
                if (e < 0)
                        return e;
                if (event.type == end)
                        return 0;
                e = read_node(r, &event, depth, &item);
                if (e < 0)
                        return e;
                if (n->count >= max)
                        return node_error(r->label, item, r->err, "more than %d entries", POLICY_LIST_MAX);
                if (n->kind == NODE_MAP && n->count % 2 == 0)
                        e = check_key(r, n, item);
                if (e < 0)
                        return e;
                if (node_append(n, TAKE_PTR(item)) < 0)
                        return err_set(r->err, -ENOMEM, "%s: cannot read the profile", r->label);
        }
}

/* Recursion is bounded by NODE_DEPTH_MAX. */
static int read_node(struct reader *r, yaml_event_t *event, unsigned depth, struct node **ret) {
        struct node at = mark(event->start_mark);
        _cleanup_node_ struct node *n = NULL;
        int e;

        switch ((int)event->type) {
        case YAML_SCALAR_EVENT:
                e = read_text(r, &at, event, &n);
                break;
        case YAML_SEQUENCE_START_EVENT:
        case YAML_MAPPING_START_EVENT: {
                bool map = event->type == YAML_MAPPING_START_EVENT;

                e = check_decorations(r, &at,
                                      map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
                                      map ? event->data.mapping_start.tag : event->data.sequence_start.tag);
                if (e < 0)
                        return e;
                if (depth >= NODE_DEPTH_MAX)
                        return node_error(r->label, &at, r->err, "nested deeper than %d levels", NODE_DEPTH_MAX);
                n = node_new(map ? NODE_MAP : NODE_LIST, NULL, 0);
                if (!n)
                        return err_set(r->err, -ENOMEM, "%s: cannot read the profile", r->label);
                e = read_items(r, n, map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT, depth + 1);
                break;
        }
        case YAML_ALIAS_EVENT:
                return node_error(r->label, &at, r->err, "alias '*%.60s': profiles have no aliases",
                                  (const char *)event->data.alias.anchor);
        default:
                return node_error(r->label, &at, r->err, "not well-formed YAML: unexpected content");
        }
        if (e < 0)
                return e;
        assert(n);
        n->line = at.line;
        n->column = at.column;
        *ret = TAKE_PTR(n);
        return 0;
}

/* Reads the next event, which must be of this type; anything else is said to be `otherwise`. */
static int expect(struct reader *r, yaml_event_type_t type, const char *otherwise) {
        _cleanup_(yaml_event_delete) yaml_event_t event = {0};

        int e = next(r, &event);
        if (e < 0)
                return e;
        struct node at = mark(event.start_mark);
        if (event.type != type)
                return node_error(r->label, &at, r->err, "%s", otherwise);
        if (type == YAML_DOCUMENT_START_EVENT &&
            (event.data.document_start.version_directive ||
             event.data.document_start.tag_directives.start != event.data.document_start.tag_directives.end))
                return node_error(r->label, &at, r->err, "profiles have no %%YAML or %%TAG directives");
        return 0;
}

static int read_document(struct reader *r, struct node **ret) {
        _cleanup_(yaml_event_delete) yaml_event_t event = {0};
        _cleanup_node_ struct node *root = NULL;

        int e = expect(r, YAML_STREAM_START_EVENT, "not well-formed YAML");
        if (e == 0)
                e = expect(r, YAML_DOCUMENT_START_EVENT, "the profile is empty: it must begin with 'profile: 1'");
        if (e == 0)
                e = next(r, &event);
        if (e == 0)
                e = read_node(r, &event, 0, &root);
        if (e == 0)
                e = expect(r, YAML_DOCUMENT_END_EVENT, "not well-formed YAML: content after the end");
        if (e == 0)
                e = expect(r, YAML_STREAM_END_EVENT, "a second document: a profile is one document");
        if (e == 0)
                *ret = TAKE_PTR(root);
        return e;
}

int node_parse(const char *label, const char *data, size_t size, struct node **ret, struct err *err) {
        struct reader r = {.label = label, .err = err};

        int e = check_bytes(&r, data, size);
        if (e < 0)
                return e;
        if (!yaml_parser_initialize(&r.yaml))
                return err_set(err, -ENOMEM, "%s: cannot read the profile", label);
        yaml_parser_set_encoding(&r.yaml, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&r.yaml, (const unsigned char *)data, size);
        e = read_document(&r, ret);
        yaml_parser_delete(&r.yaml);
        return e;
}
