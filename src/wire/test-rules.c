/* Unit tests of network rules as bytes: what is written comes back, and what nobody would write is refused. */
#include "base/test.h"
#include "wire/rules.h"

static const struct rule plain = {.host = "example.com", .ports = {80, 443}, .port_count = 2, .secret = ""};

static int check(const struct buf *b, struct err *err) {
        return rules_check(b->data, b->size, err);
}

static void rules_come_back(void) {
        const struct rule api = {
                .index = 7,
                .flags = RULE_PRIVATE,
                .host = "*.example.com",
                .ports = {443},
                .port_count = 1,
                .methods = {"GET", "POST"},
                .method_count = 2,
                .paths = {"/repos/acme/*", "/"},
                .path_count = 2,
                .secret = "API_TOKEN",
        };
        const struct rule block = {
                .index = 8,
                .flags = RULE_ANY_PORT,
                .address = {[10] = 0xff, 0xff, 10},
                .prefix = 104,
        };
        _cleanup_buf_ struct buf b = {0};
        struct rules_walk walk = {0};
        struct rule r;

        rules_begin(&b);
        CHECK(check(&b, NULL) == 0);
        CHECK(!rules_next(b.data, b.size, &(struct rules_walk){0}, &r));
        rules_add(&b, &plain);
        rules_add(&b, &api);
        rules_add(&b, &block);
        CHECK(buf_ok(&b) && check(&b, NULL) == 3);

        CHECK(rules_next(b.data, b.size, &walk, &r));
        CHECK_STR(r.host, "example.com");
        CHECK(r.index == 0 && r.flags == 0 && r.port_count == 2 && r.ports[0] == 80 && r.ports[1] == 443);
        CHECK(r.method_count == 0 && r.path_count == 0);
        CHECK_STR(r.secret, "");
        CHECK(rules_next(b.data, b.size, &walk, &r));
        CHECK_STR(r.host, "*.example.com");
        CHECK(r.index == 7 && r.flags == (RULE_PRIVATE | RULE_INSPECT)); /* implied, so said */
        CHECK(r.method_count == 2 && r.path_count == 2);
        CHECK_STR(r.methods[1], "POST");
        CHECK_STR(r.paths[0], "/repos/acme/*");
        CHECK_STR(r.secret, "API_TOKEN");
        CHECK(rules_next(b.data, b.size, &walk, &r));
        CHECK_STR(r.host, "");
        CHECK(r.index == 8 && r.prefix == 104 && memcmp(r.address, block.address, 16) == 0);
        CHECK(r.flags == RULE_ANY_PORT && r.port_count == 0);
        CHECK(!rules_next(b.data, b.size, &walk, &r));
}

/* One rule, changed by one thing. */
static int check_one(const struct rule *r) {
        _cleanup_buf_ struct buf b = {0};
        struct err err = {0};

        rules_begin(&b);
        rules_add(&b, r);
        if (!buf_ok(&b))
                return ERR_LIMIT;
        int n = check(&b, &err);
        CHECK((n < 0) == (err.text[0] != '\0'));
        return n;
}

#define WITH(...)                                                                                                      \
        ({                                                                                                             \
                struct rule _r = plain;                                                                                \
                struct rule *r = &_r;                                                                                  \
                __VA_ARGS__;                                                                                           \
                check_one(r);                                                                                          \
        })

static void hosts(void) {
        static const char *const good[] = {"*", "*.com", "a", "xn--bcher-kva.example", "*._tcp.example.com"};
        static const char *const bad[] = {
                "*.",  "**",       "*a",   "*.*", "*.*.com", "a.*",       "*a.com", "A.com", "a.com.", "*.a.com.",
                "*.1", "10.0.0.1", "a..b", "a b", "a\n",     "b\xc3\xbc", ".a",     "-a",    "0x7f",   "*.*a",
        };

        CHECK(WITH((void)r) == 1);
        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                CHECK(WITH(r->host = good[i]) == 1);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(WITH(r->host = bad[i]) == ERR_CORRUPT);
}

static void blocks(void) {
        CHECK(WITH(r->host = "") == 1); /* ::/0 */
        CHECK(WITH(r->host = "", r->prefix = 128, r->address[15] = 1) == 1);
        CHECK(WITH(r->host = "", r->prefix = 127, r->address[15] = 1) == ERR_CORRUPT);
        CHECK(WITH(r->host = "", r->prefix = 127, r->address[15] = 2) == 1);
        CHECK(WITH(r->host = "", r->address[0] = 0x80) == ERR_CORRUPT);
        CHECK(WITH(r->host = "", r->prefix = 1, r->address[0] = 0x80) == 1);
        CHECK(WITH(r->host = "", r->prefix = 129) == ERR_LIMIT);
}

static void ports_methods_paths_secrets(void) {
        char long_text[1100];

        CHECK(WITH(r->ports[1] = 0) == ERR_CORRUPT);
        CHECK(WITH(r->port_count = 0) == ERR_CORRUPT);
        CHECK(WITH(r->flags = RULE_ANY_PORT) == ERR_CORRUPT);
        CHECK(WITH(r->flags = RULE_ANY_PORT, r->port_count = 0) == 1);
        CHECK(WITH(r->flags = 8) == ERR_LIMIT);
        CHECK(WITH(r->port_count = RULES_PORTS_MAX + 1) == ERR_LIMIT);
        CHECK(WITH(r->method_count = RULES_METHODS_MAX + 1) == ERR_LIMIT);
        CHECK(WITH(r->path_count = RULES_PATHS_MAX + 1) == ERR_LIMIT);
        CHECK(WITH(r->index = 65536) == ERR_LIMIT);

        static const char *const methods[] = {"",     "GET POST", "GET\n", "G(T",
                                              "GET/", "\xc3\xbc", "G:T",   "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG"};
        CHECK(WITH(r->methods[0] = "M-SEARCH", r->method_count = 1) == 1);
        for (size_t i = 0; i < ELEMENTSOF(methods); i++)
                CHECK(WITH(r->methods[0] = methods[i], r->method_count = 1) == ERR_CORRUPT);

        static const char *const paths[] = {"", "a", "*", "/a b", "/a\n", "/*/a", "/a?b", "/a#b", "/a\\b", "/\x7f"};
        CHECK(WITH(r->paths[0] = "/*", r->path_count = 1) == 1);
        for (size_t i = 0; i < ELEMENTSOF(paths); i++)
                CHECK(WITH(r->paths[0] = paths[i], r->path_count = 1) == ERR_CORRUPT);
        memset(long_text, '/', sizeof long_text);
        long_text[1024] = '\0';
        CHECK(WITH(r->paths[0] = long_text, r->path_count = 1) == 1);
        long_text[1024] = '/';
        long_text[1025] = '\0';
        CHECK(WITH(r->paths[0] = long_text, r->path_count = 1) == ERR_CORRUPT);

        static const char *const secrets[] = {"1A", "A-B", "A B", "A\n", "A=B"};
        CHECK(WITH(r->secret = "_a1") == 1);
        for (size_t i = 0; i < ELEMENTSOF(secrets); i++)
                CHECK(WITH(r->secret = secrets[i]) == ERR_CORRUPT);
        memset(long_text, 'A', sizeof long_text);
        long_text[129] = '\0';
        CHECK(WITH(r->secret = long_text) == ERR_CORRUPT);
        CHECK(WITH(r->secret = long_text + 1) == 1);
}

/* Conditions without RULE_INSPECT can only be made by hand: nobody would enforce them. */
static void conditions_need_inspection(void) {
        const struct rule r = {.host = "a", .ports = {1}, .port_count = 1, .secret = "S"};
        _cleanup_buf_ struct buf b = {0};

        rules_begin(&b);
        rules_add(&b, &r);
        CHECK(check(&b, NULL) == 1);
        CHECK(b.data[10] == RULE_INSPECT);
        b.data[10] = 0;
        CHECK(check(&b, NULL) == ERR_CORRUPT);
        b.data[10] = RULE_INSPECT | 8;
        CHECK(check(&b, NULL) == ERR_CORRUPT);
}

/* Lists that say they are longer than a rule has room for, with everything in them. */
static void long_lists(void) {
        for (int list = 0; list < 3; list++) {
                for (unsigned extra = 0; extra < 2; extra++) {
                        _cleanup_buf_ struct buf b = {0};
                        unsigned ports = list == 0 ? RULES_PORTS_MAX + extra : 1;
                        unsigned methods = list == 1 ? RULES_METHODS_MAX + extra : 0;
                        unsigned paths = list == 2 ? RULES_PATHS_MAX + extra : 0;

                        rules_begin(&b);
                        wire_put_u16(&b, 0);
                        wire_put_u16(&b, RULE_INSPECT);
                        wire_put_str(&b, "a.test");
                        wire_put_u16(&b, (uint16_t)ports);
                        for (unsigned i = 0; i < ports; i++)
                                wire_put_u16(&b, 443);
                        wire_put_u16(&b, (uint16_t)methods);
                        for (unsigned i = 0; i < methods; i++)
                                wire_put_str(&b, "GET");
                        wire_put_u16(&b, (uint16_t)paths);
                        for (unsigned i = 0; i < paths; i++)
                                wire_put_str(&b, "/");
                        wire_put_str(&b, "");
                        CHECK(check(&b, NULL) == (extra ? ERR_CORRUPT : 1));
                }
        }
}

static void cuts_counts_and_sizes(void) {
        _cleanup_buf_ struct buf b = {0}, large = {0};
        struct rule many = plain;
        struct rule r;

        rules_begin(&b);
        rules_add(&b, &plain);
        size_t one = b.size;
        rules_add(&b, &plain);
        for (size_t n = 0; n < b.size; n++) { /* memory of exactly this size, for the sanitizers */
                uint8_t *copy = malloc(n + !n);

                if (!copy)
                        abort();
                memcpy(copy, b.data, n);
                int result = rules_check(copy, n, NULL);
                CHECK(n == 8 ? result == 0 : n == one ? result == 1 : result == ERR_CORRUPT);
                struct rules_walk walk = {0};
                while (rules_next(copy, n, &walk, &r))
                        ;
                free(copy);
        }
        CHECK(rules_check(NULL, 0, NULL) == ERR_CORRUPT);
        b.data[0] ^= 1;
        CHECK(check(&b, NULL) == ERR_CORRUPT);

        b.data[0] ^= 1;
        for (int i = 2; i < RULES_MAX; i++)
                rules_add(&b, &plain);
        CHECK(check(&b, NULL) == RULES_MAX);
        rules_add(&b, &plain);
        CHECK(check(&b, NULL) == ERR_LIMIT);

        char path[1025];
        memset(path, '/', 1024);
        path[1024] = '\0';
        for (size_t i = 0; i < RULES_PATHS_MAX; i++)
                many.paths[i] = path;
        many.path_count = RULES_PATHS_MAX;
        rules_begin(&large);
        rules_add(&large, &many);
        CHECK(buf_ok(&large) && large.size > RULES_MAX_SIZE && check(&large, NULL) == ERR_LIMIT);
}

TEST_MAIN(TEST(rules_come_back), TEST(hosts), TEST(blocks), TEST(ports_methods_paths_secrets),
          TEST(conditions_need_inspection), TEST(long_lists), TEST(cuts_counts_and_sizes))
