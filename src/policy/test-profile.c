/* Unit tests of profiles: every error with its place, merging, searching, printing back, options, hashes. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "policy/profile.h"
#include "policy/schema.h"

static int parse(const char *text, struct policy *p, struct err *err) {
        return profile_parse("x.yaml", text, strlen(text), p, err);
}

static void check_error(const char *text, size_t size, const char *expected) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        CHECK(profile_parse("x.yaml", text, size, &p, &err) == ERR_INPUT);
        CHECK_STR(err.text, expected);
        CHECK(p.name == NULL);
}

#define P "profile: 1\nname: x\n"

static void errors_name_the_place(void) {
        static const struct {
                const char *text, *error;
        } rows[] = {
                {P "limits:\n  memry: 1GiB\n", "x.yaml:4:3: unknown key 'memry' in limits (did you mean 'memory'?)"},
                {P "limts: {}\n", "x.yaml:3:1: unknown key 'limts' (did you mean 'limits'?)"},
                {P "qqqqqq: 1\n", "x.yaml:3:1: unknown key 'qqqqqq'"},
                {P "limits.memory: 1GiB\n", "x.yaml:3:1: unknown key 'limits.memory'"},
                {P "\"files.write[]\": {}\n", "x.yaml:3:1: unknown key 'files.write[]'"},
                {P "limits: {memory: 1gib}\n",
                 "x.yaml:3:18: limits.memory: '1gib' is not a size such as 64KiB, 500MB or 1GiB"},
                {P "time: {run: 10}\n", "x.yaml:3:13: time.run: '10' is not a time such as 500ms, 30s, 10m, 24h or 7d"},
                {P "limits: {memory: -1}\n",
                 "x.yaml:3:18: limits.memory: '-1' is not a size such as 64KiB, 500MB or 1GiB"},
                {P "limits: {memory: 1KiB}\n", "x.yaml:3:18: limits.memory: 1KiB is not between 1MiB and 1024TiB"},
                {P "limits: {memory: [1GiB]}\n",
                 "x.yaml:3:18: limits.memory: expected a size such as 64KiB or 1GiB, not a list"},
                {P "limits: {memory: }\n",
                 "x.yaml:3:18: limits.memory: expected a size such as 64KiB or 1GiB, not nothing"},
                {P "limits: 5\n", "x.yaml:3:9: limits: expected a map, not text"},
                {P "limits:\n", "x.yaml:3:8: limits: expected a map, not nothing"},
                {P "files: {read: /usr}\n", "x.yaml:3:15: files.read: expected a list of absolute paths, not text"},
                {P "files: {read: [[/usr]]}\n", "x.yaml:3:16: files.read: expected a word, not a list"},
                {P "sealed: yes\n", "x.yaml:3:9: sealed: expected true or false, not 'yes'"},
                {P "isolation: {at_least: vm}\n",
                 "x.yaml:3:23: isolation.at_least: expected container, gvisor, microvm or tee, not 'vm'"},
                {P "files: &a {}\n", "x.yaml:3:8: anchor '&a': profiles have no anchors"},
                {P "env: {A: &a x, B: *a}\n", "x.yaml:3:10: anchor '&a': profiles have no anchors"},
                {P "env: *a\n", "x.yaml:3:6: alias '*a': profiles have no aliases"},
                {P "limits: {memory: !!str 1GiB}\n", "x.yaml:3:18: tag 'tag:yaml.org,2002:str': profiles have no tags"},
                {P "env: !x {}\n", "x.yaml:3:6: tag '!x': profiles have no tags"},
                {"%YAML 1.1\n---\n" P, "x.yaml:1:1: profiles have no %YAML or %TAG directives"},
                {P "---\nprofile: 1\n", "x.yaml:3:1: a second document: a profile is one document"},
                {P "name: y\n", "x.yaml:3:1: duplicate key 'name', first on line 2"},
                {P "limits: {files: 20, files: 30}\n", "x.yaml:3:21: duplicate key 'files', first on line 3"},
                {P "? [a]\n: b\n", "x.yaml:3:3: a key must be a word, not a list"},
                {P "env: {A: \"a\\0b\"}\n", "x.yaml:3:10: this text contains a NUL byte"},
                {P "env: {A: \"\\e[1m\"}\n", "x.yaml:3:10: this text contains a control character"},
                {P "env: {A: \"\\u202e\"}\n",
                 "x.yaml:3:10: this text contains an invisible character that changes how the line reads"},
                {P "env:\n  A: |\n    two\n    lines\n", "x.yaml:4:6: this text contains a line break"},
                {P "# \x01\n", "x.yaml:3:3: a control character (byte 0x01)"},
                {P "env: {A: \xff}\n", "x.yaml:3:10: a byte that is not UTF-8 (byte 0xff)"},
                {P "env: {A: \xc3\xa4\xed\xa0\x80}\n", "x.yaml:3:11: a byte that is not UTF-8 (byte 0xed)"},
                {P "env: {A: [}\n", "x.yaml:3:11: not well-formed YAML: did not find expected node content"},
                {P "env: {1A: x}\n",
                 "x.yaml:3:7: env: '1A' is not a variable name: letters, digits and '_', at most 128"},
                {P "env: {A: [x]}\n", "x.yaml:3:10: env.A: expected text, not a list"},
                {P "files: {read: [usr]}\n", "x.yaml:3:16: files.read: 'usr' is not an absolute path"},
                {P "files: {read: [/usr/../etc]}\n",
                 "x.yaml:3:16: files.read: '/usr/../etc' is not a plain path: no '//', '.', '..' or '/' at the end"},
                {P "files: {write: [{path: /tmp/}]}\n",
                 "x.yaml:3:24: files.write[].path: '/tmp/' is not a plain path: no '//', '.', '..' or '/' at the end"},
                {P "files: {write: [{size: 1MiB}]}\n", "x.yaml:3:17: files.write: the entry has no path"},
                {P "files: {write: [{pth: /tmp}]}\n",
                 "x.yaml:3:18: unknown key 'pth' in files.write[] (did you mean 'path'?)"},
                {P "files: {write: [/tmp, {path: /tmp}]}\n", "x.yaml:3:23: files.write: '/tmp' is listed twice"},
                {P "files: {read: [/usr, /usr]}\n", "x.yaml:3:22: files.read: '/usr' is listed twice"},
                {P "files: {write: [{path: /tmp, inodes: 0}]}\n",
                 "x.yaml:3:38: files.write[].inodes: 0 is not between 8 and 1000M"},
                {P "network: {allow: [example.org]}\n",
                 "x.yaml:3:19: network.allow: expected a map such as {host: example.org}, not text"},
                {P "network: {allow: [{ports: [80]}]}\n",
                 "x.yaml:3:19: network.allow: the entry needs either host or cidr"},
                {P "network: {allow: [{host: a.b, cidr: 10.0.0.0/8}]}\n",
                 "x.yaml:3:19: network.allow: the entry needs either host or cidr"},
                {P "network: {allow: [{host: 10.0.0.1}]}\n",
                 "x.yaml:3:26: network.allow[].host: '10.0.0.1' is an address: write it as cidr"},
                {P "network: {allow: [{host: \"*.*.org\"}]}\n", "x.yaml:3:26: network.allow[].host: '*.*.org' is not a "
                                                                "host name, '*.' before one, or "
                                                                "'*'"},
                {P "network: {allow: [{cidr: 10.0.0.1/8}]}\n",
                 "x.yaml:3:26: network.allow[].cidr: '10.0.0.1/8' has bits set after its first 8"},
                {P "network: {allow: [{cidr: \"::ffff:0:0/96\"}]}\n",
                 "x.yaml:3:26: network.allow[].cidr: '::ffff:0:0/96' stands for IPv4 addresses: write them as such"},
                {P "network: {allow: [{host: a.b, paths: [/a/..b]}]}\n",
                 "x.yaml:3:39: network.allow[].paths: '/a/..b' is not a plain HTTP path: ASCII, no '//', '/.', '/..', "
                 "'?', '#', '%' or spaces"},
                {P "network: {allow: [{host: a.b, ports: [0]}]}\n",
                 "x.yaml:3:39: network.allow[].ports: expected a port from 1 to 65535"},
                {P "network: {allow: [{host: a.b, paths: [\"/*/x\"]}]}\n",
                 "x.yaml:3:39: network.allow[].paths: '/*/x': a '*' can only be the last character of an HTTP path"},
                {P "network: {allow: [{cidr: 10.0.0.0/8, methods: [GET]}]}\n",
                 "x.yaml:3:19: network.allow: methods, paths, secret and inspect need a host, because a certificate "
                 "has "
                 "a name"},
                {P "devices: [/tmp/x]\n", "x.yaml:3:11: devices: '/tmp/x' is not a device below /dev"},
                {P "user: {name: root}\n",
                 "x.yaml:3:14: user.name: 'root' is not a name for the user: 'user.root' says whether there is one"},
                {"name: x\n", "x.yaml:1:1: 'profile: 1' is missing"},
                {"profile: 2\n", "x.yaml:1:10: profile: this build reads version 1, not '2'"},
                {"profile: [1]\n", "x.yaml:1:10: profile: this build reads version 1, not 'a list'"},
                {"", "x.yaml:1:1: the profile is empty: it must begin with 'profile: 1'"},
                {"- a\n", "x.yaml:1:1: a profile is a map that begins with 'profile: 1', not a list"},
                {"profile: 1\nname: Big_Name\n",
                 "x.yaml:2:7: name: 'Big_Name' is not a name: small letters, digits and '-', at most 64"},
                {"profile: 1\nname: -x\n",
                 "x.yaml:2:7: name: '-x' is not a name: small letters, digits and '-', at most 64"},
                {P "extends: nowhere\n", "x.yaml:3:10: extends: there is no profile 'nowhere'"},
                {P "extends: ./other.yaml\n", "x.yaml:3:10: extends: only built-in profiles can be extended here"},
                {P "extends: Nope\n",
                 "x.yaml:3:10: extends: 'Nope' is not a name: small letters, digits and '-', at most 64"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                check_error(rows[i].text, strlen(rows[i].text), rows[i].error);
        check_error("profile: 1\n\0\n", 13, "x.yaml:2:1: a NUL byte (byte 0x00)");
}

static void bounds_hold(void) {
        _cleanup_buf_ struct buf text = {0};
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        /* a map, its value and 15 lists are 16 levels: fine for YAML, and then no word; one more is too deep */
        buf_str(&text, P "secrets: ");
        for (unsigned i = 0; i < 15; i++)
                buf_str(&text, "[");
        for (unsigned i = 0; i < 15; i++)
                buf_str(&text, "]");
        check_error(text.data, text.size, "x.yaml:3:11: secrets: expected a word, not a list");
        buf_free(&text);
        buf_str(&text, P "secrets: ");
        for (unsigned i = 0; i < 5000; i++)
                buf_str(&text, "[");
        check_error(text.data, text.size, "x.yaml:3:25: nested deeper than 16 levels");

        buf_free(&text);
        buf_str(&text, P "files:\n  read:\n");
        for (unsigned i = 0; i < POLICY_LIST_MAX; i++)
                buf_printf(&text, "    - /p%u\n", i);
        CHECK(parse(text.data, &p, NULL) == 0);
        CHECK(p.files.read.count == POLICY_LIST_MAX);
        policy_free(&p);
        buf_str(&text, "    - /one-more\n");
        check_error(text.data, text.size, "x.yaml:261:7: more than 256 entries");

        buf_free(&text);
        buf_str(&text, P);
        for (unsigned i = 0; i < 5000; i++)
                buf_str(&text, "# a comment that is long enough to fill a file with, and then some more of it\n");
        CHECK(profile_parse("x.yaml", text.data, text.size, &p, &err) == ERR_LIMIT);
        CHECK_STR(err.text, "'x.yaml' is larger than 256 KiB, which no profile is");
}

static const char full_text[] = P
        "sealed: true\n"
        "isolation: {at_least: gvisor, prefer: [gvisor, native]}\n"
        "files:\n"
        "  workspace: {path: /home/agent, size: 2GiB, inodes: 200k}\n"
        "  read: [/usr, /etc/ssl/certs, \"/with space, comma\"]\n"
        "  write: [/home/agent, {path: /tmp, size: 4097}]\n"
        "  hide: [/home/agent/.ssh]\n"
        "network:\n"
        "  allow:\n"
        "    - {host: packages.example.org}\n"
        "    - {host: \"*.files.example.org\", inspect: true}\n"
        "    - {host: db.example.com, ports: [5432, 1], private: true}\n"
        "    - {host: api.example.com, methods: [GET], paths: [\"/repos/acme/*\"], secret: A_TOKEN}\n"
        "    - {cidr: \"2001:db8::/32\", ports: any}\n"
        "tools: {exec: [/usr/bin/python3, /usr/bin/git], call: [search_docs], ask: [git_push]}\n"
        "limits: {cpus: 1.25, memory: 1GiB, processes: 128, files: 1024, disk_read: 50MiB/s, disk_write: 1MB/s,\n"
        "         output: 0, connections: 64, lookups: 10, bandwidth: 1MiB/s}\n"
        "time: {run: 90s, idle: 30m, lifetime: 24h}\n"
        "budget: {tokens: 200k, cpu: 1h, egress: 1GiB, cost_usd: 5.05}\n"
        "record: {exec: true, snapshot: [stop, task]}\n"
        "image: debian-12\n"
        "user: {name: dev, root: namespaced}\n"
        "env: {LANG: C.UTF-8, EMPTY: \"\", QUOTE: \"a \\\"b\\\" \\\\ c: {d} # \\u00e4\", NO: \"no\", TILDE: \"~\"}\n"
        "secrets: [A_TOKEN]\n"
        "devices: [/dev/dri/renderD128]\n"
        "shm: 64MiB\n";

static void every_key_is_understood(void) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        int r = parse(full_text, &p, &err);
        CHECK_STR(err.text, "");
        CHECK(r == 0);
        if (r < 0)
                return;
        CHECK(policy_check(&p, &err) == 0);
        CHECK_STR(err.text, "");
        CHECK(p.sealed && p.at_least == ISOLATION_GVISOR && p.prefer.count == 2);
        CHECK(p.files.workspace.size == 2ULL << 30 && p.files.workspace.inodes == 200000);
        CHECK(p.files.write_count == 2 && p.files.write[0].size == POLICY_UNSET);
        CHECK(p.network.allow_count == 5 && p.network.allow[2].ports[0] == 5432 && p.network.allow[2].private);
        CHECK(p.tools.exec_set && p.tools.exec.count == 2 && p.tools.ask.count == 1);
        CHECK(p.limits.cpus == 1250 && p.limits.disk_write == 1000000 && p.limits.output == 0);
        CHECK(p.time.run == 90000 && p.budget.cost_usd == 505 && p.budget.cpu == 3600000);
        CHECK(p.env_count == 5);
        CHECK_STR(p.env[0].name, "EMPTY");
        CHECK_STR(p.env[3].value, "a \"b\" \\ c: {d} # \xc3\xa4");
        CHECK(p.user.root == ROOT_NAMESPACED && p.shm == 64 << 20);
        /* every row of the table is used by this profile, so that a new key cannot escape this test */
        _cleanup_buf_ struct buf out = {0};
        CHECK(policy_print(&p, &out) == 0);
        for (size_t i = 0; i < schema_row_count; i++)
                if (schema_rows[i].scope == SCOPE_POLICY && !strstr(out.data, schema_leaf(&schema_rows[i])))
                        CHECK_STR(NULL, schema_rows[i].key);
}

static void check_round_trip(const struct policy *p, bool as_json) {
        _cleanup_buf_ struct buf out = {0}, again = {0};
        _cleanup_policy_ struct policy q = {0};
        struct json j = {.out = &out};
        struct err err = {0};
        uint8_t a[HASH_SIZE], b[HASH_SIZE];

        CHECK((as_json ? policy_print_json(p, &j, NULL) : policy_print(p, &out)) == 0);
        CHECK(profile_parse("again", out.data, out.size, &q, &err) == 0);
        CHECK_STR(err.text, "");
        policy_hash(p, a);
        policy_hash(&q, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
        struct json k = {.out = &again};
        CHECK((as_json ? policy_print_json(&q, &k, NULL) : policy_print(&q, &again)) == 0);
        CHECK_STR(again.data, out.data);
}

static void what_is_printed_parses_back(void) {
        static const char *const names[] = {"low", "medium", "high"};
        _cleanup_policy_ struct policy p = {0};

        CHECK(parse(full_text, &p, NULL) == 0);
        check_round_trip(&p, false);
        check_round_trip(&p, true);
        policy_free(&p);
        CHECK(parse(P "tools: {exec: []}\n", &p, NULL) == 0);
        CHECK(p.tools.exec_set);
        check_round_trip(&p, false);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                struct err err = {0};

                policy_free(&p);
                CHECK(profile_load(names[i], &p, NULL, &err) == 0);
                CHECK_STR(err.text, "");
                CHECK(policy_check(&p, &err) == 0);
                check_round_trip(&p, false);
                check_round_trip(&p, true);
        }
}

static void copies_are_equal_and_apart(void) {
        _cleanup_policy_ struct policy p = {0}, q = {0};
        uint8_t a[HASH_SIZE], b[HASH_SIZE];

        CHECK(parse(full_text, &p, NULL) == 0);
        CHECK(policy_copy(&p, &q) == 0);
        policy_hash(&p, a);
        policy_free(&p);
        policy_hash(&q, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
}

static void hash_of(const char *text, uint8_t ret[HASH_SIZE]) {
        _cleanup_policy_ struct policy p = {0};

        CHECK(parse(text, &p, NULL) == 0);
        policy_hash(&p, ret);
}

static void the_hash_sees_meaning_alone(void) {
        uint8_t a[HASH_SIZE], b[HASH_SIZE];

        hash_of(P "limits: {memory: 1GiB, files: 100}\nenv: {A: x, B: y}\n", a);
        hash_of("# comment\n" P "env:\n  B: \"y\"\n  A: x\nlimits:\n  files: 100\n  memory: 1024MiB\n", b);
        CHECK(memcmp(a, b, sizeof a) == 0);
        hash_of(P "limits: {memory: 1GiB, files: 101}\nenv: {A: x, B: y}\n", b);
        CHECK(memcmp(a, b, sizeof a) != 0);
        hash_of(P "tools: {call: [a], ask: []}\n", a);
        hash_of(P "tools: {call: [], ask: [a]}\n", b);
        CHECK(memcmp(a, b, sizeof a) != 0);
        hash_of(P "tools: {exec: []}\n", a);
        hash_of(P, b);
        CHECK(memcmp(a, b, sizeof a) != 0);
}

static void children_override_and_add(void) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        CHECK(parse(P "extends: medium\n"
                      "files: {hide: [/home/agent/.ssh], workspace: {size: 3GiB}, read: [/usr, /opt]}\n"
                      "limits: {memory: 3GiB}\n"
                      "env: {A: b}\n",
                    &p, &err) == 0);
        CHECK_STR(err.text, "");
        CHECK_STR(p.name, "x");
        CHECK(p.limits.memory == 3ULL << 30 && p.limits.processes == 512); /* one replaced, one inherited */
        CHECK(p.files.workspace.size == 3ULL << 30 && p.files.workspace.inodes == 200000);
        CHECK_STR(p.files.workspace.path, "/home/agent");
        CHECK(p.files.read.count == 2 && p.files.write_count == 2);
        CHECK(!p.tools.exec_set);

        policy_free(&p);
        CHECK(parse(P "extends: high\nfiles: {hide: [/srv, /root]}\nnetwork: {allow: []}\n", &p, NULL) == 0);
        CHECK(p.files.hide.count == 3); /* two of the parent's, /root among them */
        CHECK_STR(p.files.hide.items[2], "/srv");
        CHECK(p.network.allow_count == 0);

        policy_free(&p);
        CHECK(parse(P "files: {workspace: {path: /ws}, write: [/tmp]}\n", &p, NULL) == 0);
        CHECK(p.files.write_count == 2); /* the workspace was added */
        CHECK_STR(p.files.write[1].path, "/ws");
}

static void tiers_are_what_they_say(void) {
        _cleanup_policy_ struct policy p = {0};
        struct policy_place places[POLICY_PLACES_MAX];

        CHECK(profile_load("builtin:low", &p, NULL, NULL) == 0);
        CHECK(p.network.allow_count == 0 && p.tools.exec_set && p.files.read.count == 1);
        CHECK(p.limits.memory == 512 << 20 && p.limits.processes == 64 && p.time.run == 600000);
        CHECK(policy_places(&p, places) == 1);
        CHECK_STR(places[0].path, "/tmp");
        CHECK(places[0].size == 64 << 20 && places[0].inodes == 8000);
        CHECK(policy_enforceable(&p, NULL, 0, NULL, NULL) == 0);
        policy_free(&p);
        CHECK(profile_load("builtin:medium", &p, NULL, NULL) == 0);
        CHECK(policy_places(&p, places) == 2 && places[0].size == 1 << 30 && places[1].size == 256 << 20);
        CHECK(policy_enforceable(&p, NULL, 0, NULL, NULL) == 0);
        policy_free(&p);
        CHECK(profile_load("builtin:high", &p, NULL, NULL) == 0);
        CHECK(policy_enforceable(&p, NULL, 0, NULL, NULL) == 0);
}

static void drivers_are_the_daemons(void) {
        static const struct {
                const char *text, *key;
        } rows[] = {
                {"isolation: {at_least: gvisor}\n", "isolation.at_least"},
                {"isolation: {prefer: [docker]}\n", "isolation.prefer"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_policy_ struct policy p = {0};
                struct err err = {0};
                char text[200], expected[100];

                (void)snprintf(text, sizeof text, P "%s", rows[i].text);
                (void)snprintf(expected, sizeof expected, "%s: enforced only in sandboxes of the daemon", rows[i].key);
                CHECK(parse(text, &p, &err) == 0);
                CHECK(policy_enforceable(&p, NULL, 0, NULL, &err) == ERR_UNENFORCED);
                CHECK_STR(err.text, expected);
                CHECK(policy_enforceable_by_daemon(&p, NULL, 0, NULL, NULL) == 0);
        }
        CHECK(policy_driver_level("native") == ISOLATION_CONTAINER);
        CHECK(policy_driver_level("docker") == ISOLATION_CONTAINER);
        CHECK(policy_driver_level("gvisor") == ISOLATION_GVISOR);
        CHECK(policy_driver_level("firecracker") == ISOLATION_MICROVM);
}

static void unenforceable_is_refused(void) {
        static const struct {
                const char *text, *key, *where;
        } rows[] = {
                {"tools: {call: [a]}\n", "tools.call"},
                {"tools: {ask: [a]}\n", "tools.ask"},
                {"budget: {tokens: 0}\n", "budget.tokens"},
                {"budget: {cost_usd: 1}\n", "budget.cost_usd"},
                {"record: {exec: true}\n", "record.exec"},
                {"user: {root: namespaced}\n", "user.root"},
                {"secrets: [A]\n", "secrets"},
                {"files: {read: [/], write: [/]}\ntools: {exec: [/usr]}\n", "tools.exec",
                 ", over the host's whole tree"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_policy_ struct policy p = {0};
                _cleanup_(policy_strings_free) struct policy_strings missing = {0};
                struct err err = {0};
                char text[200], expected[100];

                (void)snprintf(text, sizeof text, P "%s", rows[i].text);
                (void)snprintf(expected, sizeof expected, "%s: not enforceable yet by this build%s", rows[i].key,
                               rows[i].where ? rows[i].where : "");
                CHECK(parse(text, &p, &err) == 0);
                CHECK(policy_enforceable(&p, NULL, 0, &missing, &err) == ERR_UNENFORCED);
                CHECK_STR(err.text, expected);
                CHECK(strstr(err.hint, rows[i].key));
                CHECK(missing.count == 0);
                CHECK(policy_enforceable(&p, &rows[i].key, 1, &missing, NULL) == 0);
                CHECK(missing.count == 1 && str_eq(missing.items[0], rows[i].key));
        }
        _cleanup_policy_ struct policy p = {0};
        const char *const unknown[] = {"limits.memry"}, *const mechanism[] = {"landlock"};
        CHECK(parse(P "isolation: {prefer: [gvisor, native]}\nuser: {root: none}\nrecord: {exec: false}\n", &p, NULL) ==
              0);
        CHECK(policy_enforceable(&p, NULL, 0, NULL, NULL) == 0);
        CHECK(policy_enforceable(&p, unknown, 1, NULL, NULL) == ERR_INPUT);
        CHECK(policy_enforceable(&p, mechanism, 1, NULL, NULL) == 0);
}

static void the_daemon_enforces_more(void) {
        static const struct {
                const char *text, *key;
        } rows[] = {
                {"time: {idle: 1m}\n", "time.idle"},
                {"record: {snapshot: [stop]}\n", "record.snapshot"},
                {"image: debian-12\n", "image"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_policy_ struct policy p = {0};
                _cleanup_(policy_strings_free) struct policy_strings missing = {0}, only = {0}, never = {0};
                _cleanup_buf_ struct buf out = {0};
                struct err err = {0};
                char text[200], expected[100];

                (void)snprintf(text, sizeof text, P "%s", rows[i].text);
                (void)snprintf(expected, sizeof expected, "%s: enforced only in sandboxes of the daemon", rows[i].key);
                CHECK(parse(text, &p, &err) == 0);
                CHECK(policy_enforceable(&p, NULL, 0, NULL, &err) == ERR_UNENFORCED);
                CHECK_STR(err.text, expected);
                CHECK(strstr(err.hint, "stockade create") && strstr(err.hint, rows[i].key));
                CHECK(policy_enforceable(&p, &rows[i].key, 1, &missing, NULL) == 0);
                CHECK(missing.count == 1 && str_eq(missing.items[0], rows[i].key));
                CHECK(policy_enforceable_by_daemon(&p, NULL, 0, NULL, NULL) == 0);
                CHECK(policy_only_daemon(&p, &only) == 0 && only.count == 1 && str_eq(only.items[0], rows[i].key));
                CHECK(policy_missing(&p, &never) == 0 && never.count == 0);
                CHECK(policy_explain(&p, &out) == 0 && strstr(out.data, "Only in sandboxes that the daemon keeps"));
        }
        _cleanup_policy_ struct policy both = {0}, later = {0};
        const char *const image[] = {"image"};
        struct err err = {0};
        CHECK(parse(P "image: debian-12\nfiles: {read: [/usr]}\ntools: {exec: [/usr]}\n", &both, NULL) == 0);
        CHECK(policy_enforceable_by_daemon(&both, NULL, 0, NULL, &err) == ERR_UNENFORCED);
        CHECK(str_starts(err.text, "tools.exec"));
        CHECK(policy_enforceable(&both, image, 1, NULL, NULL) == 0); /* without its image it can */
        CHECK(parse(P "user: {root: namespaced}\n", &later, NULL) == 0);
        CHECK(policy_enforceable_by_daemon(&later, NULL, 0, NULL, NULL) == ERR_UNENFORCED);
}

static void the_whole_must_make_sense(void) {
        static const struct {
                const char *text, *error;
        } rows[] = {
                {"files: {workspace: {size: 1MiB}}\n", "files.workspace: it has a size and no path"},
                {"files: {workspace: {path: /w, size: 1MiB}, write: [{path: /w, size: 2MiB}]}\n",
                 "files.write: '/w' is the workspace and has another size there"},
                {"files: {read: [/usr/share], hide: [/usr]}\n",
                 "files.read: '/usr/share' is inside '/usr', which files.hide hides"},
                {"files: {write: [/home/agent], hide: [/home]}\n",
                 "files.write: '/home/agent' is inside '/home', which files.hide hides"},
                {"files: {read: [/proc/1]}\n", "files.read: '/proc/1': a sandbox has its own /proc"},
                {"files: {write: [/dev]}\n", "files.write: '/dev': a sandbox has its own /dev"},
                {"files: {read: [/usr]}\ntools: {exec: [/bin/sh]}\n",
                 "tools.exec: '/bin/sh' is not below a path of files.read, nor a whole place of files.write"},
                {"files: {read: [/usr], hide: [/usr/sbin]}\ntools: {exec: [/usr/sbin/x]}\n",
                 "tools.exec: '/usr/sbin/x' is inside '/usr/sbin', which files.hide hides"},
                {"files: {write: [/home]}\ntools: {exec: [/home/x]}\n",
                 "tools.exec: '/home/x' is not below a path of files.read, nor a whole place of files.write"},
                {"files: {read: [/usr], write: [/]}\n",
                 "files.write: '/' has to be in both files.read and files.write, or in neither"},
                {"files: {read: [/]}\n", "files.read: '/' has to be in both files.read and files.write, or in neither"},
                {"files: {read: [/srv], write: [/srv]}\n",
                 "files.write: '/srv' starts empty, so it cannot be in files.read too"},
                {"network: {allow: [{host: a.b, secret: A}]}\n",
                 "network.allow: the secret 'A' is not listed under 'secrets'"},
                {"time: {run: 2h, lifetime: 1h}\n", "time.run: a command cannot run longer than time.lifetime"},
                {"limits: {memory: 1MiB}\nshm: 2MiB\n",
                 "shm: it cannot be larger than limits.memory, which it counts toward"},
                {"isolation: {at_least: microvm, prefer: [native, gvisor]}\n",
                 "isolation.prefer: none of these drivers gives isolation.at_least: microvm"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_policy_ struct policy p = {0};
                struct err err = {0};
                char text[300];

                (void)snprintf(text, sizeof text, P "%s", rows[i].text);
                CHECK(parse(text, &p, &err) == 0);
                CHECK(policy_check(&p, &err) == ERR_INPUT);
                CHECK_STR(err.text, rows[i].error);
        }
}

/* --allow adds to what the profile has. */
static void options_allow(struct policy *p) {
        static const struct {
                const char *text, *host, *cidr;
                uint16_t port;
                size_t ports;
        } good[] = {
                {"example.com", "example.com", NULL, 0, 0},
                {"Example.COM.", "example.com", NULL, 0, 0},
                {"*.example.com:8443", "*.example.com", NULL, 8443, 1},
                {"b\xc3\xbc"
                 "cher.example:22,80",
                 "xn--bcher-kva.example", NULL, 22, 2},
                {"example.com:*", "example.com", NULL, 0, 1},
                {"203.0.113.7", NULL, "203.0.113.7/32", 0, 0},
                {"203.0.113.0/24:5432", NULL, "203.0.113.0/24", 5432, 1},
                {"2001:db8::1", NULL, "2001:db8::1/128", 0, 0},
                {"[2001:db8::1]:443", NULL, "2001:db8::1/128", 443, 1},
                {"2001:db8::/32", NULL, "2001:db8::/32", 0, 0},
        };
        static const char *const bad[] = {"",           ":443",          "example.com:", "example.com:0",
                                          "a b",        "a.com:65536",   "a.com:x",      "[::1",
                                          "[::1]443",   "[a.com]:1",     "127.1",        "0x7f.1",
                                          "1.2.3.4/33", "1.2.3.4:",      "a..com",       "*.*.com",
                                          "a.com/path", "https://a.com", "a@b.com",      "*.1.2.3.4"};
        struct err err = {0};

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                CHECK(policy_allow(p, good[i].text, &err) == 0);
                const struct policy_reach *r = &p->network.allow[p->network.allow_count - 1];
                CHECK_STR(r->host ? r->host : "", good[i].host ? good[i].host : "");
                CHECK_STR(r->cidr ? r->cidr : "", good[i].cidr ? good[i].cidr : "");
                CHECK(r->port_count == good[i].ports && (r->port_count == 0 || r->ports[0] == good[i].port));
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                size_t before = p->network.allow_count;
                bool refused = policy_allow(p, bad[i], &err) == ERR_INPUT && p->network.allow_count == before;
                CHECK_STR(refused ? bad[i] : "accepted", bad[i]);
        }
}

static void options_are_set(void) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        CHECK(profile_load("builtin:low", &p, NULL, &err) == 0);
        CHECK(policy_set(&p, "limits.memory", "1GiB", &err) == 0 && p.limits.memory == 1 << 30);
        CHECK(policy_set(&p, "limits.memory", "-1", &err) == ERR_INPUT && p.limits.memory == 1 << 30);
        CHECK_STR(err.text, "limits.memory: '-1' is not a size such as 64KiB, 500MB or 1GiB");
        CHECK(policy_set(&p, "files.read", "/usr,/opt", &err) == 0 && p.files.read.count == 2);
        CHECK(policy_set(&p, "files.read", "", &err) == 0 && p.files.read.count == 0);
        CHECK(policy_set(&p, "files.read", "/usr,", &err) == ERR_INPUT && p.files.read.count == 0);
        CHECK(policy_set(&p, "files.write", "/a,/b", &err) == 0);
        CHECK(p.files.write_count == 3); /* and the workspace */
        CHECK(policy_set(&p, "network.allow", "example.org,10.0.0.0/8", &err) == 0 && p.network.allow_count == 2);
        CHECK_STR(p.network.allow[0].host, "example.org");
        CHECK_STR(p.network.allow[1].cidr, "10.0.0.0/8");
        options_allow(&p);
        CHECK(policy_set(&p, "env.LANG", "C,d", &err) == 0 && p.env_count == 1);
        CHECK_STR(p.env[0].value, "C,d");
        CHECK(policy_set(&p, "env.A=B", "x", &err) == ERR_INPUT);
        CHECK(policy_set(&p, "env", "x", &err) == ERR_INPUT);
        CHECK(policy_set(&p, "env.X", "\x1b[0m", &err) == ERR_INPUT);
        CHECK(policy_set(&p, "sealed", "false", &err) == ERR_INPUT);
        CHECK(policy_set(&p, "files", "x", &err) == ERR_INPUT);
        CHECK_STR(err.text, "'files' is a group of keys: name one of them");
        CHECK(policy_set(&p, "files.write[].path", "/x", &err) == ERR_INPUT);
        CHECK(policy_set(&p, "limits.memry", "1GiB", &err) == ERR_INPUT);
        CHECK_STR(err.text, "unknown key 'limits.memry'");
        CHECK_STR(err.hint, "did you mean 'limits.memory'?");

        policy_free(&p);
        CHECK(profile_load("builtin:medium", &p, NULL, &err) == 0);
        CHECK(policy_set(&p, "files.workspace.path", "/work", &err) == 0);
        CHECK_STR(p.files.write[0].path, "/work"); /* the place moved, and /home/agent is no longer one */
        CHECK(p.files.write_count == 2);
}

/* A folder of its own per test, removed at the end of the test. */
struct folder {
        char path[64];
        int fd;
};

static void folder_make(struct folder *f) {
        (void)snprintf(f->path, sizeof f->path, "/tmp/test-profile-XXXXXX");
        CHECK(mkdtemp(f->path));
        f->fd = open(f->path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        CHECK(f->fd >= 0);
}

static void put(struct folder *f, const char *name, const char *text) {
        CHECK(fd_replace_file(f->fd, name, 0644, text, strlen(text)) == 0);
}

static void folder_remove(struct folder *f, const char *const *names) {
        for (; *names; names++)
                CHECK(unlinkat(f->fd, *names, 0) == 0);
        fd_close(&f->fd);
        CHECK(rmdir(f->path) == 0);
}

static void check_load_error(const struct profile_search *s, const char *name, int code, const char *expected) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        CHECK(profile_load_from(s, name, &p, NULL, &err) == code);
        CHECK(err.code == code);
        if (!strstr(err.text, expected))
                CHECK_STR(err.text, expected);
}

static void chains_end(void) {
        struct folder f;
        char name[40], text[100], path[100];
        const char *names[21] = {"a.yaml", "b.yaml", "self.yaml"};
        static char deep[17][16];

        folder_make(&f);
        const struct profile_search s = {.system_dir = f.path};
        put(&f, "a.yaml", "profile: 1\nextends: b\n");
        put(&f, "b.yaml", "profile: 1\nextends: ./a.yaml\n");
        put(&f, "self.yaml", "profile: 1\nextends: ././self.yaml\n");
        check_load_error(&s, "a", ERR_INPUT, "/b.yaml:2:10: extends: a cycle: a.yaml -> b.yaml -> a.yaml");
        (void)snprintf(path, sizeof path, "%s/self.yaml", f.path);
        check_load_error(&s, path, ERR_INPUT, "/self.yaml:2:10: extends: a cycle: self.yaml -> self.yaml");
        for (unsigned i = 0; i < 17; i++) {
                (void)snprintf(deep[i], sizeof deep[i], "d%u.yaml", i);
                (void)snprintf(text, sizeof text, i > 0 ? "profile: 1\nextends: d%u\n" : "profile: 1\n", i - 1);
                put(&f, deep[i], text);
                names[3 + i] = deep[i];
        }
        _cleanup_policy_ struct policy p = {0};
        (void)snprintf(name, sizeof name, "d15");
        CHECK(profile_load_from(&s, name, &p, NULL, NULL) == 0);
        CHECK_STR(p.name, "d15"); /* from the file's name */
        check_load_error(&s, "d16", ERR_INPUT, "/d1.yaml:2:10: extends: more than 16 profiles extend one another");
        folder_remove(&f, names);
}

static void names_are_searched_in_order(void) {
        static const char *const names[] = {"mine.yaml", NULL}, *const system_names[] = {"mine.yaml", "low.yaml", NULL};
        static const char *const more[] = {"low.yaml", "link.yaml", "big.yaml", "dir.yaml", NULL};
        struct folder a, b, c;
        char list[200], path[100];

        folder_make(&a);
        folder_make(&b);
        folder_make(&c);
        (void)snprintf(list, sizeof list, ":%s:", c.path);
        const struct profile_search s = {.list = list, .user_dir = a.path, .system_dir = b.path};
        put(&a, "mine.yaml", "# Of the user\nprofile: 1\nenv: {FROM: user}\n");
        put(&b, "mine.yaml", "profile: 1\nenv: {FROM: system}\n");
        put(&c, "low.yaml", "profile: 1\nenv: {FROM: list}\n"); /* not the operator's: must not replace the tier */

        _cleanup_policy_ struct policy p = {0};
        _cleanup_sources_ struct profile_sources sources = {0};
        CHECK(profile_load_from(&s, "mine", &p, &sources, NULL) == 0);
        CHECK_STR(p.env[0].value, "user");
        CHECK(sources.count == 2 && sources.items[0].absent && !sources.items[1].absent);
        policy_free(&p);
        CHECK(profile_load_from(&s, "low", &p, NULL, NULL) == 0);
        CHECK(p.env_count == 0 && p.limits.processes == 64);
        put(&b, "low.yaml", "profile: 1\nextends: builtin:low\nenv: {FROM: operator}\n");
        policy_free(&p);
        profile_sources_free(&sources);
        CHECK(profile_load_from(&s, "low", &p, &sources, NULL) == 0);
        CHECK(p.env_count == 1 && p.limits.processes == 64);
        CHECK(sources.count == 2);
        CHECK_STR(sources.items[1].path, "builtin:low");

        struct profile_list all = {0};
        CHECK(profile_list_from(&s, &all, NULL) == 0);
        CHECK(all.count == 4); /* three tiers and mine */
        CHECK_STR(all.items[3].name, "mine");
        CHECK_STR(all.items[3].summary, "Of the user");
        profile_list_free(&all);

        CHECK(symlinkat("/etc/passwd", c.fd, "link.yaml") == 0);
        check_load_error(&s, "link", ERR_REFUSED,
                         "/link.yaml' is a symbolic link, and a name does not leave its folder");
        CHECK(mkdirat(c.fd, "dir.yaml", 0755) == 0);
        check_load_error(&s, "dir", ERR_INPUT, "/dir.yaml' is not a regular file");
        CHECK(unlinkat(c.fd, "dir.yaml", AT_REMOVEDIR) == 0);
        put(&c, "dir.yaml", "");
        check_load_error(&s, "nobody", ERR_INPUT, "there is no profile 'nobody'");
        check_load_error(&s, "Bad", ERR_INPUT, "'Bad' is not a name");
        check_load_error(&s, "/nonexistent/x.yaml", -ENOENT,
                         "cannot open '/nonexistent/x.yaml': No such file or directory");
        put(&c, "big.yaml", "");
        CHECK(truncate((snprintf(path, sizeof path, "%s/big.yaml", c.path), path), 10 << 20) == 0);
        check_load_error(&s, "big", ERR_LIMIT, "/big.yaml' is larger than 256 KiB, which no profile is");

        /* named by path, a link is followed */
        CHECK(unlinkat(c.fd, "link.yaml", 0) == 0);
        (void)snprintf(path, sizeof path, "%s/mine.yaml", a.path);
        CHECK(symlinkat(path, c.fd, "link.yaml") == 0);
        (void)snprintf(path, sizeof path, "%s/link.yaml", c.path);
        policy_free(&p);
        CHECK(profile_load_from(&s, path, &p, NULL, NULL) == 0);
        CHECK_STR(p.env[0].value, "user");
        folder_remove(&a, names);
        folder_remove(&b, system_names);
        folder_remove(&c, more);
}

static void explanations_say_what_happens(void) {
        _cleanup_policy_ struct policy p = {0};
        _cleanup_buf_ struct buf out = {0};

        CHECK(profile_load("builtin:low", &p, NULL, NULL) == 0);
        CHECK(policy_explain(&p, &out) == 0);
        CHECK(strstr(out.data,
                     "When it uses more than 512 MiB of memory the kernel ends the process that asked for it; "
                     "if that is the command, the record says oom."));
        CHECK(strstr(out.data, "A command that takes longer than 10 minutes is ended; the record says timeout."));
        CHECK(strstr(out.data, "It reaches nothing"));
        CHECK(strstr(out.data, "and no others: /usr."));
        policy_free(&p);
        buf_free(&out);
        CHECK(parse(full_text, &p, NULL) == 0);
        CHECK(policy_explain(&p, &out) == 0);
        CHECK(strstr(out.data, "Hidden, as if empty: /home/agent/.ssh."));
        CHECK(strstr(out.data,
                     "It may reach every host below files.example.org on ports 80 and 443, with every request "
                     "checked."));
        CHECK(strstr(out.data, "using the secret A_TOKEN without seeing it"));
        CHECK(strstr(out.data, "\nOnly in sandboxes that the daemon keeps\n  isolation.at_least, "));
}

static void the_manual_has_the_table(void) {
        _cleanup_buf_ struct buf keys = {0};
        _cleanup_free_ char *page = NULL;
        struct err err = {0};

        CHECK(fd_read_file(AT_FDCWD, MAN_PAGE, 1 << 20, false, &page, NULL, &err) == 0);
        CHECK_STR(err.text, "");
        schema_print_man(&keys);
        CHECK(page && strstr(page, keys.data)); /* if not: stockade profile schema --man, into KEYS of the page */
}

TEST_MAIN(TEST(errors_name_the_place), TEST(bounds_hold), TEST(every_key_is_understood),
          TEST(what_is_printed_parses_back), TEST(copies_are_equal_and_apart), TEST(the_hash_sees_meaning_alone),
          TEST(children_override_and_add), TEST(tiers_are_what_they_say), TEST(drivers_are_the_daemons),
          TEST(unenforceable_is_refused), TEST(the_daemon_enforces_more), TEST(the_whole_must_make_sense),
          TEST(options_are_set), TEST(chains_end), TEST(names_are_searched_in_order),
          TEST(explanations_say_what_happens), TEST(the_manual_has_the_table))
