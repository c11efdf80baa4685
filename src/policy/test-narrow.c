/* Unit tests of sealed profiles: everything that widens is refused and named, everything that narrows passes. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "policy/profile.h"

static const char parent_text[] =
        "profile: 1\n"
        "name: sealed-one\n"
        "sealed: true\n"
        "isolation: {at_least: gvisor}\n"
        "files:\n"
        "  workspace: {path: /ws, size: 1GiB, inodes: 1k}\n"
        "  read: [/usr, /etc/ssl]\n"
        "  write: [/ws, {path: /tmp, size: 100MiB, inodes: 1k}, /plain]\n"
        "  hide: [/usr/secret]\n"
        "network:\n"
        "  allow:\n"
        "    - {host: \"*.example.org\", ports: [80, 443, 8080]}\n"
        "    - {host: api.example.com, methods: [GET, HEAD], paths: [\"/repos/*\", /exact], secret: A}\n"
        "    - {cidr: 10.0.0.0/8}\n"
        "    - {host: looked-at.example.net, inspect: true}\n"
        "tools: {exec: [/usr/bin, /usr/local/bin/x], call: [one, two], ask: [three]}\n"
        "limits: {memory: 1GiB, cpus: 2}\n"
        "time: {run: 10m}\n"
        "record: {exec: true, snapshot: [stop]}\n"
        "image: debian-12\n"
        "user: {name: dev}\n"
        "env: {LANG: C}\n"
        "secrets: [A, B]\n"
        "devices: [/dev/a, /dev/b]\n"
        "shm: 1MiB\n";

/* Lays an option over the parent above. */
static int load_child(const char *key, const char *value, struct policy *p, struct err *err) {
        int r = profile_parse("parent.yaml", parent_text, strlen(parent_text), p, err);
        CHECK(r == 0);
        return r < 0 ? r : policy_set(p, key, value, err);
}

struct row {
        const char *key, *value;
        const char *error; /* NULL: it narrows */
};

static void check_rows(const struct row *rows, size_t count) {
        for (size_t i = 0; i < count; i++) {
                _cleanup_policy_ struct policy p = {0};
                struct err err = {0};
                int r = load_child(rows[i].key, rows[i].value, &p, &err);

                if (r != (rows[i].error ? ERR_REFUSED : 0))
                        (void)printf("# %s %s: %d\n", rows[i].key, rows[i].value, r);
                CHECK(r == (rows[i].error ? ERR_REFUSED : 0));
                CHECK_STR(err.text, rows[i].error ? rows[i].error : "");
        }
}

#define ALLOWS " is more than the sealed profile 'sealed-one' allows"

static void numbers(void) {
        static const struct row rows[] = {
                {"limits.memory", "1GiB", NULL},
                {"limits.memory", "512MiB", NULL},
                {"limits.memory", "2GiB",
                 "limits.memory: 2GiB is more than the 1GiB that the sealed profile 'sealed-one' allows"},
                {"limits.cpus", "2.5",
                 "limits.cpus: 2.5 is more than the 2 that the sealed profile 'sealed-one' allows"},
                {"limits.processes", "10", NULL}, /* the parent had no limit */
                {"time.run", "11m", "time.run: 11m is more than the 10m that the sealed profile 'sealed-one' allows"},
                {"shm", "512KiB", NULL},
                {"shm", "2MiB", "shm: 2MiB is more than the 1MiB that the sealed profile 'sealed-one' allows"},
        };
        check_rows(rows, ELEMENTSOF(rows));
}

static void lists(void) {
        static const struct row rows[] = {
                {"files.read", "/usr/bin,/etc/ssl/certs", NULL},
                {"files.read", "", NULL},
                {"files.read", "/usr,/etc", "files.read: '/etc'" ALLOWS},
                {"files.read", "/usrx", "files.read: '/usrx'" ALLOWS},
                {"files.hide", "/usr/other", NULL}, /* is added */
                {"tools.exec", "/usr/bin/git", NULL},
                {"tools.exec", "", NULL},
                {"tools.exec", "/usr", "tools.exec: '/usr'" ALLOWS},
                {"tools.call", "two", NULL},
                {"tools.call", "three", "tools.call: 'three'" ALLOWS},
                {"tools.ask", "one", NULL}, /* was allowed without asking */
                {"tools.ask", "four", "tools.ask: 'four'" ALLOWS},
                {"secrets", "B", NULL},
                {"secrets", "C", "secrets: 'C'" ALLOWS},
                {"devices", "/dev/b", NULL},
                {"devices", "/dev/b/c", "devices: '/dev/b/c'" ALLOWS},
                {"record.snapshot", "stop,task", NULL},
                {"record.snapshot", "task",
                 "record.snapshot: the sealed profile 'sealed-one' lists 'stop', which must stay"},
        };
        check_rows(rows, ELEMENTSOF(rows));
}

static void words(void) {
        static const struct row rows[] = {
                {"isolation.at_least", "microvm", NULL},
                {"isolation.at_least", "container",
                 "isolation.at_least: 'container' is weaker than 'gvisor', which the sealed profile 'sealed-one' asks "
                 "for"},
                {"isolation.prefer", "microvm", NULL},
                {"user.root", "none", NULL},
                {"user.root", "namespaced",
                 "user.root: 'namespaced' is weaker than 'none', which the sealed profile 'sealed-one' asks for"},
                {"user.name", "dev", NULL},
                {"user.name", "other", "user.name: the sealed profile 'sealed-one' sets 'dev', and it must stay"},
                {"image", "other", "image: the sealed profile 'sealed-one' sets 'debian-12', and it must stay"},
                {"record.exec", "false", "record.exec: the sealed profile 'sealed-one' says true, which must stay"},
                {"env.TZ", "UTC", NULL},
                {"env.LANG", "C", NULL},
                {"env.LANG", "D", "env.LANG: the sealed profile 'sealed-one' sets it, and it must stay"},
        };
        check_rows(rows, ELEMENTSOF(rows));
}

static void check_write(const char *value, const char *error) {
        _cleanup_policy_ struct policy p = {0};
        struct err err = {0};

        CHECK(load_child("files.write", value, &p, &err) == (error ? ERR_REFUSED : 0));
        CHECK_STR(err.text, error ? error : "");
}

static void places(void) {
        static const struct row rows[] = {
                {"files.workspace.size", "512MiB", NULL},
                {"files.workspace.size", "2GiB",
                 "files.workspace.size: the size of '/ws' is more than the 1GiB that the sealed profile 'sealed-one' "
                 "allows"},
                {"files.workspace.inodes", "2k",
                 "files.workspace.inodes: the number of inodes of '/ws' is more than the 1k that the sealed profile "
                 "'sealed-one' allows"},
                {"files.workspace.path", "/ws/below", NULL},
                {"files.workspace.path", "/home", "files.workspace.path: '/home'" ALLOWS},
        };
        check_rows(rows, ELEMENTSOF(rows));
        check_write("/ws", NULL);
        check_write("/ws,/plain/below", NULL); /* neither says a size */
        check_write(
                "/ws,/tmp",
                "files.write: the size of '/tmp' is more than the 100MiB that the sealed profile 'sealed-one' allows");
        check_write("/ws,/var", "files.write: '/var'" ALLOWS);
}

static void reach(void) {
        static const struct row rows[] = {
                {"network.allow", "a.example.org", NULL},
                {"network.allow", "*.b.example.org", NULL},
                {"network.allow", "10.1.0.0/16", NULL},
                {"network.allow", "", NULL},
                {"network.allow", "example.org", "network.allow: 'example.org'" ALLOWS},
                {"network.allow", "badexample.org", "network.allow: 'badexample.org'" ALLOWS},
                {"network.allow", "*", "network.allow: '*'" ALLOWS},
                {"network.allow", "0.0.0.0/0", "network.allow: '0.0.0.0/0'" ALLOWS},
                {"network.allow", "11.0.0.0/8", "network.allow: '11.0.0.0/8'" ALLOWS},
                {"network.allow", "api.example.com", "network.allow: 'api.example.com'" ALLOWS}, /* any method */
                {"network.allow", "looked-at.example.net", "network.allow: 'looked-at.example.net'" ALLOWS},
        };
        check_rows(rows, ELEMENTSOF(rows));
}

/* Two files: the parent above and a child that extends it. `child` begins on the child's third line. */
static void check_child(const char *child, const char *error) {
        _cleanup_policy_ struct policy p = {0};
        char folder[] = "/tmp/test-narrow-XXXXXX", text[1024], expected[600] = "";
        struct err err = {0};

        CHECK(mkdtemp(folder));
        _cleanup_fd_ int fd = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
        const struct profile_search search = {.system_dir = folder};
        (void)snprintf(text, sizeof text, "profile: 1\nextends: parent\n%s", child);
        CHECK(fd_replace_file(fd, "parent.yaml", 0644, parent_text, strlen(parent_text)) == 0);
        CHECK(fd_replace_file(fd, "child.yaml", 0644, text, strlen(text)) == 0);
        if (error)
                (void)snprintf(expected, sizeof expected, "%s/child.yaml:%s", folder, error);
        CHECK(profile_load_from(&search, "child", &p, NULL, &err) == (error ? ERR_INPUT : 0));
        CHECK_STR(err.text, expected);
        CHECK(error || p.sealed); /* the seal is inherited */
        CHECK(unlinkat(fd, "parent.yaml", 0) == 0 && unlinkat(fd, "child.yaml", 0) == 0 && rmdir(folder) == 0);
}

static void files(void) {
        check_child("", NULL);
        check_child("limits: {memory: 1GiB}\n", NULL);
        check_child("limits: {memory: 3GiB}\n",
                    "3:18: limits.memory: 3GiB is more than the 1GiB that the sealed profile 'sealed-one' allows");
        check_child("sealed: false\n", "3:9: sealed: the sealed profile 'sealed-one' says true, which must stay");
        check_child("sealed: true\nname: y\n", NULL);
        check_child("env: {LANG: D}\n", "3:6: env.LANG: the sealed profile 'sealed-one' sets it, and it must stay");
        check_child("files: {read: [/]}\n", "3:15: files.read: '/'" ALLOWS);
        check_child("files: {write: [/ws, {path: /tmp/a, size: 50MiB, inodes: 500}, "
                    "{path: /tmp/b, size: 50MiB, inodes: 500}]}\n",
                    NULL);
        /* each fits, both together do not */
        check_child("files: {write: [/ws, {path: /tmp/a, size: 60MiB, inodes: 500}, "
                    "{path: /tmp/b, size: 60MiB, inodes: 500}]}\n",
                    "3:16: files.write: the size of '/tmp/b' is more than the 100MiB that the sealed profile "
                    "'sealed-one' allows");
        check_child(
                "files: {write: [/ws, {path: /plain, size: 1TiB}]}\n",
                "3:16: files.write: the size of '/plain' is set, which the sealed profile 'sealed-one' leaves unset");
}

static void reach_in_files(void) {
        static const struct {
                const char *entry;
                bool fits;
        } rows[] = {
                {"host: a.example.org, ports: [8080]", true},
                {"host: a.example.org, ports: [22]", false},
                {"host: a.example.org, private: true", false},
                {"host: a.example.org, inspect: true", true},
                {"host: a.example.org, methods: [GET]", true},
                {"host: a.example.org, secret: A", false},
                {"cidr: 10.0.0.0/9, ports: [80]", true},
                {"cidr: 10.0.0.0/7", false},
                {"host: api.example.com, methods: [GET], paths: [\"/repos/x/*\"], secret: A", true},
                {"host: api.example.com, methods: [GET], paths: [/exact]", true},
                {"host: api.example.com, methods: [GET], paths: [/exactly]", false},
                {"host: api.example.com, methods: [GET], paths: [\"/repos*\"]", false},
                {"host: api.example.com, methods: [POST], paths: [/exact]", false},
                {"host: api.example.com, paths: [/exact]", false},
                {"host: api.example.com, methods: [GET]", false},
                {"host: api.example.com, methods: [GET], paths: [/exact], secret: B", false},
                {"host: looked-at.example.net, methods: [GET]", true},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char child[200], error[200], *host;

                (void)snprintf(child, sizeof child, "network: {allow: [{%s}]}\n", rows[i].entry);
                host = strchr(rows[i].entry, ' ') + 1;
                (void)snprintf(error, sizeof error, "3:18: network.allow: '%.*s'" ALLOWS, (int)strcspn(host, ","),
                               host);
                check_child(child, rows[i].fits ? NULL : error);
        }
}

TEST_MAIN(TEST(numbers), TEST(lists), TEST(words), TEST(places), TEST(reach), TEST(files), TEST(reach_in_files))
