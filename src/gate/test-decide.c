/* Unit tests of decisions: names, addresses, ports, requests, secrets. The rules are real bytes, loaded as the gate
 * loads them. */
#include "gate/decide.h"

#include "base/test.h"

static struct rules rules;

static void load(const struct rule *items, size_t count) {
        _cleanup_buf_ struct buf b = {0};

        rules_begin(&b);
        for (size_t i = 0; i < count; i++)
                rules_add(&b, &items[i]);
        CHECK(buf_ok(&b) && rules_load(&rules, b.data, b.size) == 0 && rules.count == count);
}
#define LOAD(...)                                                                                                      \
        load((const struct rule[]){__VA_ARGS__}, sizeof((const struct rule[]){__VA_ARGS__}) / sizeof(struct rule))

#define WEB            .ports = {80, 443}, .port_count = 2
#define METHODS(...)   .methods = {__VA_ARGS__}, .method_count = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)
#define PATHS(...)     .paths = {__VA_ARGS__}, .path_count = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)
#define V4(a, b, c, d) .address = {[10] = 0xff, 0xff, a, b, c, d}

static struct decision name(const char *n, uint16_t port) {
        return decide_connect(&rules, n, NULL, port);
}

static struct decision literal(const char *text, uint16_t port) {
        struct address a = {0};

        CHECK(address_parse(text, strlen(text), false, &a));
        return decide_connect(&rules, NULL, &a, port);
}

static struct decision request(const char *n, const char *method, const char *path) {
        return decide_request(&rules, n, NULL, 443, method, path, strlen(path));
}

static bool secret(const char *n, const char *method, const char *path, const char *s) {
        return decide_secret(&rules, n, 443, method, path, strlen(path), s);
}

#define IS(d, why, which)                                                                                              \
        ({                                                                                                             \
                struct decision _d = (d);                                                                              \
                _d.reason == (why) && _d.rule == (which);                                                              \
        })

static void nothing_is_allowed_by_nothing(void) {
        struct decision d;

        rules_unload(&rules);
        CHECK(!decide_name(&rules, "example.com"));
        CHECK(IS(name("example.com", 443), GATE_NO_RULE, -1));
        load(NULL, 0);
        CHECK(!decide_name(&rules, "example.com"));
        CHECK(IS(name("example.com", 443), GATE_NO_RULE, -1));
        CHECK(IS(literal("8.8.8.8", 443), GATE_NO_RULE, -1));
        CHECK(IS(request("example.com", "GET", "/"), GATE_NO_RULE, -1));
        CHECK(!secret("example.com", "GET", "/", "S"));
        d = decide_connect(&rules, NULL, NULL, 443);
        CHECK(d.reason == GATE_NO_RULE && !d.inspect && !d.private);
}

static void a_failed_load_changes_nothing(void) {
        LOAD({.host = "a.test", WEB}, {.host = "b.test", WEB});
        CHECK(rules_load(&rules, "garbage", 7) < 0);
        CHECK(rules_load(&rules, "", 0) < 0);
        CHECK(rules.count == 2 && decide_name(&rules, "b.test"));
        LOAD({.host = "c.test", WEB});
        CHECK(!decide_name(&rules, "b.test") && decide_name(&rules, "c.test"));
        rules_unload(&rules);
        CHECK(!decide_name(&rules, "c.test") && rules.bytes == NULL);
}

static void names_and_ports(void) {
        LOAD({.host = "a.test", WEB}, {.host = "a.test", .ports = {5432}, .port_count = 1, .flags = RULE_PRIVATE},
             {.host = "*.wild.test", .flags = RULE_ANY_PORT | RULE_INSPECT}, {V4(0, 0, 0, 0), .prefix = 96, WEB});

        CHECK(IS(name("a.test", 443), GATE_USED, 0));
        CHECK(IS(name("a.test", 5432), GATE_USED, 1));
        CHECK(IS(name("a.test", 22), GATE_NO_PORT, 0));
        CHECK(IS(name("a.test", 0), GATE_NO_PORT, 0));
        CHECK(IS(name("b.a.test", 443), GATE_NO_RULE, -1));
        CHECK(IS(name("x.y.wild.test", 1), GATE_USED, 2));
        CHECK(IS(name("x.wild.test", 0), GATE_NO_PORT, 2));
        CHECK(IS(name("wild.test", 443), GATE_NO_RULE, -1));
        CHECK(IS(name("", 443), GATE_NO_RULE, -1));
        CHECK(decide_name(&rules, "a.test") && decide_name(&rules, "x.wild.test"));
        CHECK(!decide_name(&rules, "wild.test") && !decide_name(&rules, "evil.test") && !decide_name(&rules, ""));

        /* what is said for another port or another name does not count */
        CHECK(!name("a.test", 443).private && name("a.test", 5432).private && !name("a.test", 22).private);
        CHECK(name("x.wild.test", 443).inspect && !name("a.test", 443).inspect);
        CHECK(name("a.test", 5432).exact && !name("a.test", 443).exact);

        /* a name never matches a block, whatever it looks like or resolves to */
        struct address a = {{[10] = 0xff, 0xff, 8, 8, 8, 8}};
        CHECK(decide_connect(&rules, "evil.test", &a, 443).reason == GATE_NO_RULE);
        CHECK(decide_connect(&rules, "8.8.8.8", &a, 443).reason == GATE_NO_RULE);
}

static void alternatives_add_up(void) {
        LOAD({.host = "*", WEB}, {.host = "api.test", .ports = {443}, .port_count = 1, METHODS("GET"), .secret = "S"});
        CHECK(IS(name("api.test", 443), GATE_USED, 0));
        CHECK(name("api.test", 443).inspect && !name("api.test", 80).inspect && !name("other.test", 443).inspect);
        CHECK(IS(request("api.test", "DELETE", "/"), GATE_USED, 0));
        CHECK(secret("api.test", "GET", "/", "S"));
        CHECK(!secret("api.test", "DELETE", "/", "S")); /* permitted, but not by the rule that has the secret */
        CHECK(!secret("other.test", "GET", "/", "S"));
        CHECK(IS(literal("8.8.8.8", 443), GATE_NO_RULE, -1)); /* "*" is any name, not any address */
}

static void exact_names_say_more_than_wildcards(void) {
        LOAD({.host = "*", WEB, .flags = RULE_PRIVATE}, {.host = "*.a.test", WEB, .flags = RULE_PRIVATE},
             {.host = "b.a.test", WEB}, {.host = "c.a.test", WEB, .flags = RULE_PRIVATE},
             {V4(10, 0, 0, 0), .prefix = 104, WEB, .flags = RULE_PRIVATE});
        CHECK(name("x.a.test", 443).private && !name("x.a.test", 443).exact);
        CHECK(name("b.a.test", 443).private && !name("b.a.test", 443).exact); /* the exact one does not say private */
        CHECK(name("c.a.test", 443).private && name("c.a.test", 443).exact);
        CHECK(!name("c.a.test", 22).exact);
        CHECK(literal("10.0.0.1", 443).private && !literal("10.0.0.1", 443).exact);
}

static void literal_addresses(void) {
        LOAD({V4(203, 0, 113, 0), .prefix = 120, WEB}, {V4(10, 0, 0, 0), .prefix = 104, WEB, .flags = RULE_PRIVATE},
             {V4(0, 0, 0, 0), .prefix = 96, .ports = {53}, .port_count = 1},
             {.address = {0x20, 0x01, 0x0d, 0xb8}, .prefix = 32, WEB});

        CHECK(IS(literal("203.0.113.9", 443), GATE_USED, 0));
        CHECK(IS(literal("203.0.114.9", 443), GATE_NO_PORT, 2));
        CHECK(IS(literal("203.0.113.9", 22), GATE_NO_PORT, 0));
        CHECK(IS(literal("10.1.2.3", 80), GATE_USED, 1) && literal("10.1.2.3", 80).private);
        CHECK(IS(literal("10.1.2.3", 53), GATE_PRIVATE, 2)); /* the rule for this port does not say private */
        CHECK(IS(literal("169.254.169.254", 53), GATE_PRIVATE, 2));
        CHECK(IS(literal("127.0.0.1", 53), GATE_PRIVATE, 2));
        CHECK(IS(literal("198.18.0.5", 53), GATE_PRIVATE, 2)); /* the gate's own addresses */
        CHECK(IS(literal("8.8.8.8", 53), GATE_USED, 2));
        CHECK(IS(literal("::ffff:8.8.8.8", 53), GATE_USED, 2));       /* the same address */
        CHECK(IS(literal("64:ff9b::808:808", 53), GATE_PRIVATE, -1)); /* no rule covers it, and one would not do */
        CHECK(IS(literal("169.254.169.254", 22), GATE_PRIVATE, 2));
        CHECK(IS(literal("2001:db8::5", 443), GATE_USED, 3));
        CHECK(IS(literal("2001:db9::5", 443), GATE_NO_RULE, -1));
}

static void the_families_are_apart(void) {
        LOAD({.prefix = 0, WEB, .flags = RULE_PRIVATE}); /* ::/0 */
        CHECK(IS(literal("2600::1", 443), GATE_USED, 0));
        CHECK(IS(literal("::1", 443), GATE_USED, 0));
        CHECK(IS(literal("8.8.8.8", 443), GATE_NO_RULE, -1));
        LOAD({.prefix = 80, WEB}); /* ::/80 has the IPv4 addresses in it as bytes, and does not mean them */
        CHECK(IS(literal("8.8.8.8", 443), GATE_NO_RULE, -1));
        LOAD({V4(0, 0, 0, 0), .prefix = 96, WEB});
        CHECK(IS(literal("8.8.8.8", 443), GATE_USED, 0));
        CHECK(IS(literal("2600::1", 443), GATE_NO_RULE, -1));
        CHECK(IS(name("a.test", 443), GATE_NO_RULE, -1));
}

static void requests(void) {
        LOAD({.host = "api.test", WEB, METHODS("GET"), PATHS("/repos/acme/*", "/user")},
             {.host = "api.test", WEB, METHODS("POST", "PUT"), PATHS("/hooks"), .secret = "HOOK"},
             {.host = "open.test", WEB});

        CHECK(IS(request("api.test", "GET", "/repos/acme/x/y"), GATE_USED, 0));
        CHECK(IS(request("api.test", "GET", "/repos/acme/"), GATE_USED, 0));
        CHECK(IS(request("api.test", "GET", "/repos/acme"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "/repos/acme-evil/x"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "/user"), GATE_USED, 0));
        CHECK(IS(request("api.test", "GET", "/user/"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "/use"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "/users"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "/User"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "/"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", ""), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "*"), GATE_NO_PATH, 0));
        CHECK(IS(request("api.test", "GET", "/repos/acme/*"), GATE_USED, 0));
        CHECK(IS(request("api.test", "GET", "/hooks"), GATE_NO_METHOD, 1));
        CHECK(IS(request("api.test", "PUT", "/hooks"), GATE_USED, 1));
        CHECK(IS(request("api.test", "PUT", "/user"), GATE_NO_METHOD, 0));
        CHECK(IS(request("api.test", "get", "/user"), GATE_NO_METHOD, 0));
        CHECK(IS(request("api.test", "HEAD", "/user"), GATE_NO_METHOD, 0));
        CHECK(IS(request("api.test", "GETS", "/user"), GATE_NO_METHOD, 0));
        CHECK(IS(request("api.test", "", "/user"), GATE_NO_METHOD, 0));
        CHECK(IS(request("open.test", "BREW", "/../%2e%00"), GATE_USED, 2));
        CHECK(IS(request("evil.test", "GET", "/user"), GATE_NO_RULE, -1));
        CHECK(IS(decide_request(&rules, "api.test", NULL, 8080, "GET", "/user", 5), GATE_NO_PORT, 0));
        CHECK(IS(decide_request(&rules, "api.test", NULL, 443, "GET", "/user?x", 5), GATE_USED, 0));
        CHECK(request("api.test", "GET", "/user").inspect);

        CHECK(secret("api.test", "POST", "/hooks", "HOOK"));
        CHECK(!secret("api.test", "GET", "/hooks", "HOOK"));
        CHECK(!secret("api.test", "POST", "/user", "HOOK"));
        CHECK(!secret("api.test", "GET", "/user", "HOOK"));
        CHECK(!secret("open.test", "POST", "/hooks", "HOOK"));
        CHECK(!secret("api.test", "POST", "/hooks", "OTHER"));
        CHECK(!secret("open.test", "POST", "/hooks", ""));
        CHECK(!secret(NULL, "POST", "/hooks", "HOOK"));
        CHECK(!decide_secret(&rules, "api.test", 8080, "POST", "/hooks", 6, "HOOK"));
}

static void requests_to_addresses(void) {
        struct address a = {{[10] = 0xff, 0xff, 203, 0, 113, 1}};

        LOAD({V4(203, 0, 113, 0), .prefix = 120, WEB, METHODS("GET"), PATHS("/a*"), .secret = "S"});
        CHECK(IS(decide_request(&rules, NULL, &a, 80, "GET", "/abc", 4), GATE_USED, 0));
        CHECK(IS(decide_request(&rules, NULL, &a, 80, "PUT", "/abc", 4), GATE_NO_METHOD, 0));
        CHECK(IS(decide_request(&rules, NULL, &a, 80, "GET", "/b", 2), GATE_NO_PATH, 0));
        CHECK(!decide_secret(&rules, NULL, 80, "GET", "/abc", 4, "S"));
}

static void paths_that_mean_something_else(void) {
        static const char *const bad[] = {
                "/..",
                "/.",
                "//",
                "/a/..",
                "/a/.",
                "/a/../b",
                "/a/./b",
                "/a//b",
                "a",
                "",
                "*",
                "/a/..;/b",
                "/a/..;x=y/b",
                "/a/.;/b",
                "/a/..%3b/b",
                "/a/..%20/b",
                "/a/.%20/b",
                "/a/...",
                "/a/..b",
                "/a%2eb",
                "/a%2Eb",
                "/a/%2e%2e/b",
                "/a%2fb",
                "/a%2Fb",
                "/a%5cb",
                "/a%5Cb",
                "/a\\b",
                "/a/..\\b",
                "/a%25b",
                "/a/%252e%252e/b",
                "/a%00",
                "/a%0d%0aX:y",
                "/a%1f",
                "/a%7f",
                "/a\x01",
                "/a\x7f",
                "/a b",
                "/a\t",
                "/a?b",
                "/a#b",
                "/a%",
                "/a%2",
                "/a%g0",
                "/a%0g",
                "/a%+1",
                "/a%c0%ae",
                "/a%c1%9c",
                "/a%e0%80%ae",
                "/a%f0%80%80%ae",
                "/a\xc0\xae",
                "/a\xe0\x80\xaf",
                "/a/.%2e/b",
                "/a/%2e",
                "/a/./",
        };
        static const char *const good[] = {
                "/",      "/a",     "/a/",    "/a/b",    "/a.b",       "/a/.b",      "/.well-known/x", "/a..b",
                "/a../b", "/a./b",  "/a%20b", "/%c3%bc", "/\xc3\xbc",  "/%E2%82%AC", "/%f0%9f%92%a9",  "/a;b=c/d",
                "/a~b",   "/a%3bb", "/a:b@c", "/a+b",    "/%e0%a4%85",
        };

        LOAD({.host = "p.test", WEB, PATHS("/*")});
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(IS(request("p.test", "GET", bad[i]), GATE_NO_PATH, 0));
        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                CHECK(IS(request("p.test", "GET", good[i]), GATE_USED, 0));
        CHECK(IS(decide_request(&rules, "p.test", NULL, 443, "GET", "/a\0b", 4), GATE_NO_PATH, 0));
        CHECK(IS(decide_request(&rules, "p.test", NULL, 443, "GET", "/.\0b", 4), GATE_NO_PATH, 0));
        CHECK(IS(decide_request(&rules, "p.test", NULL, 443, "GET", "/a%20", 4), GATE_NO_PATH, 0));
        CHECK(IS(decide_request(&rules, "p.test", NULL, 443, "GET", "/..", 1), GATE_USED, 0));
}

static void the_first_of_equals_is_named(void) {
        LOAD({.index = 4, .host = "*.a.test", WEB}, {.index = 9, .host = "x.a.test", WEB},
             {.index = 12, .host = "x.a.test", .ports = {22}, .port_count = 1});
        CHECK(IS(name("x.a.test", 443), GATE_USED, 0) && rules.items[0].index == 4);
        CHECK(IS(name("x.a.test", 22), GATE_USED, 2) && rules.items[2].index == 12);
        rules_unload(&rules);
}

TEST_MAIN(TEST(nothing_is_allowed_by_nothing), TEST(a_failed_load_changes_nothing), TEST(names_and_ports),
          TEST(alternatives_add_up), TEST(exact_names_say_more_than_wildcards), TEST(literal_addresses),
          TEST(the_families_are_apart), TEST(requests), TEST(requests_to_addresses),
          TEST(paths_that_mean_something_else), TEST(the_first_of_equals_is_named))
