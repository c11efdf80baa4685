/* What else a request may be taken for: frameworks read another method, or another path, from headers of their own. The
 * request line and each of these are judged in every combination, because which of them a server heeds is unknown. */
#include "gate/override.h"

static const struct {
        const char *name;
        bool path; /* instead of the path; otherwise of the method */
} overrides[] = {
        {"X-HTTP-Method-Override", false}, {"X-HTTP-Method", false}, {"X-Method-Override", false},
        {"X-Original-URL", true},          {"X-Rewrite-URL", true},
};

struct meanings { /* of one request */
        char methods[4][HTTP_METHOD_MAX + 1];
        struct http_span paths[4];
        size_t method_count, path_count;
};

static bool add_meaning(struct meanings *m, bool path, const struct http_span *value) {
        if (path) {
                const char *query = memchr(value->data, '?', value->size);

                if (value->size == 0 || m->path_count == ELEMENTSOF(m->paths))
                        return false;
                m->paths[m->path_count++] = (struct http_span){value->data,
                                                               query ? (size_t)(query - value->data) : value->size};
                return true;
        }
        if (value->size == 0 || value->size > HTTP_METHOD_MAX || m->method_count == ELEMENTSOF(m->methods) ||
            http_token_size(value->data, value->size) != value->size)
                return false;
        for (size_t i = 0; i < value->size; i++) /* servers do not mind its case */
                m->methods[m->method_count][i] = (char)(value->data[i] >= 'a' && value->data[i] <= 'z'
                                                                ? value->data[i] - 0x20
                                                                : value->data[i]);
        m->methods[m->method_count][value->size] = '\0';
        m->method_count++;
        return true;
}

bool override_asked(const struct http_head *h) {
        for (size_t i = 0; i < h->header_count; i++)
                for (size_t j = 0; j < ELEMENTSOF(overrides); j++)
                        if (http_name_is(&h->headers[i].name, overrides[j].name))
                                return true;
        return false;
}

bool override_permitted(const struct exchange_setup *s, const struct http_head *h, const char *method) {
        struct meanings m = {.paths = {h->path}, .method_count = 1, .path_count = 1};

        (void)snprintf(m.methods[0], sizeof m.methods[0], "%s", method);
        for (size_t i = 0; i < h->header_count; i++)
                for (size_t j = 0; j < ELEMENTSOF(overrides); j++)
                        if (http_name_is(&h->headers[i].name, overrides[j].name) &&
                            !add_meaning(&m, overrides[j].path, &h->headers[i].value))
                                return false;
        for (size_t i = 0; i < m.method_count; i++)
                for (size_t j = 0; j < m.path_count; j++)
                        if (i + j > 0 && decide_request(s->rules, s->name, &s->address, s->port, m.methods[i],
                                                        m.paths[j].data, m.paths[j].size)
                                                         .reason != GATE_USED)
                                return false;
        return true;
}
