/* Unit tests of stockade.conf: what is read, what is refused and in which words, and that the manual page says the same
 * as the table. */
#include "base/conf.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/test.h"

static struct conf c, other;

static int parse(const char *text, struct err *err) {
        conf_defaults(&c);
        return conf_parse("x.conf", text, &c, err);
}

static void defaults_are_in_force(void) {
        conf_defaults(&c);
        CHECK_STR(c.profile, "low");
        CHECK(c.ceiling_read.count == 23);
        CHECK_STR(c.ceiling_read.items[0], "/usr");
        CHECK(c.ceiling_write.count == 0 && c.ceiling_devices.count == 0);
        CHECK(!c.ceiling_whole_tree && c.ceiling_network && c.require_recording);
        CHECK(c.ceiling_memory == 16ULL << 30 && c.ceiling_cpus == 16000 && c.ceiling_processes == 16000);
        CHECK(c.max_sandboxes == 0 && c.owner_disk == 0 && c.disk_reserve == 1ULL << 30);
        CHECK(c.idle == CONF_UNLIMITED && c.lifetime == UINT64_MAX);
        CHECK(c.operator_user[0] == '\0');
        CHECK_STR(c.log_level, "info");
        CHECK(conf_load(NULL, &other, NULL) == 0 && memcmp(&other, &c, sizeof c) == 0);
}

static void values_are_read(void) {
        struct err err = {0};

        CHECK(parse("# a comment\n\n"
                    "ceiling_read=/usr   /opt/tools # what they need\r\n"
                    "\tceiling_write = /srv/a#b\n"
                    "ceiling_devices =\n"
                    "ceiling_whole_tree = yes\n"
                    "ceiling_memory = unlimited\n"
                    "ceiling_cpus = 0.5\n"
                    "max_sandboxes = 2k\n"
                    "owner_memory = host\n"
                    "idle = 30m\n"
                    "pool = 0\n"
                    "operator_user = stockade-operator\n"
                    "local_group = *\n"
                    "mode = instance\n"
                    "service_id = 42\n"
                    "log_level = debug",
                    &err) == 0);
        CHECK_STR(err.text, "");
        CHECK(c.ceiling_read.count == 2);
        CHECK_STR(c.ceiling_read.items[1], "/opt/tools");
        CHECK(c.ceiling_write.count == 1);
        CHECK_STR(c.ceiling_write.items[0], "/srv/a#b");
        CHECK(c.ceiling_whole_tree && c.ceiling_memory == CONF_UNLIMITED && c.ceiling_cpus == 500);
        CHECK(c.max_sandboxes == 2000 && c.owner_memory == 0 && c.idle == 1800000 && c.pool == 0);
        CHECK_STR(c.operator_user, "stockade-operator");
        CHECK_STR(c.local_group, "*");
        CHECK_STR(c.log_level, "debug");
        CHECK_STR(c.mode, "instance");
        CHECK(c.service_id == 42 && c.blueprint_id == 0);
        CHECK_STR(c.profile, "low");
}

static void errors_say_where_and_what_would_be_right(void) {
        static const struct {
                const char *text, *error, *hint;
        } bad[] = {
                {"pool = 1\nprofil = low\n", "x.conf:2: unknown key 'profil'", "did you mean 'profile'?"},
                {"something = 1\n", "x.conf:1: unknown key 'something'",
                 "stockade.conf(5) lists the keys; so does 'stockade up --print-config'"},
                {"= 1\n", "x.conf:1: unknown key ''",
                 "stockade.conf(5) lists the keys; so does 'stockade up --print-config'"},
                {"\n\npool 1\n", "x.conf:3: 'pool 1' is not 'key = value'", "write for example: profile = low"},
                {"[section]\n", "x.conf:1: '[section]' is not 'key = value'", "write for example: profile = low"},
                {"pool = 1\n#\npool = 1\n", "x.conf:3: 'pool' is set a second time", "keep one of the two lines"},
                {"idle = 30\n", "x.conf:1: idle: '30' is not a time such as 500ms, 30s, 10m, 24h or 7d",
                 "right would be a time such as 30s, 10m, 24h or 7d, or never"},
                {"idle = 10ms\n", "x.conf:1: idle: '10ms' is too small: 1s is the least",
                 "right would be a time such as 30s, 10m, 24h or 7d, or never"},
                {"max_memory = 0\n", "x.conf:1: max_memory: '0' is too small: 1MiB is the least",
                 "right would be a size such as 64KiB, 500MB or 1GiB, or host"},
                {"max_memory = unlimited\n",
                 "x.conf:1: max_memory: 'unlimited' is not a size such as 64KiB, 500MB or 1GiB",
                 "right would be a size such as 64KiB, 500MB or 1GiB, or host"},
                {"ceiling_cpus = host\n",
                 "x.conf:1: ceiling_cpus: 'host' is not a number of processors such as 0.5 or 2",
                 "right would be a number of processors such as 0.5 or 2, or unlimited"},
                {"pool = 1000\n", "x.conf:1: pool: '1000' is too large: 256 is the most",
                 "right would be a whole number such as 128 or 200k"},
                {"pool = -1\n", "x.conf:1: pool: '-1' is not a whole number such as 128 or 200k",
                 "right would be a whole number such as 128 or 200k"},
                {"ceiling_network = true\n", "x.conf:1: ceiling_network: 'true' is not yes or no",
                 "right would be yes or no"},
                {"ceiling_read = usr\n", "x.conf:1: ceiling_read: 'usr' is not an absolute path",
                 "right would be absolute paths with spaces between them, or nothing"},
                {"ceiling_write = /a /b/../c\n",
                 "x.conf:1: ceiling_write: '/b/../c' is not a plain path: no '//', '.', '..' or '/' at the end",
                 "right would be absolute paths with spaces between them, or nothing"},
                {"profile =\n", "x.conf:1: profile: '' is not a name of letters, digits, '_', '-' and '.'",
                 "right would be a name of letters, digits, '_', '-' and '.'"},
                {"profile = ../x\n", "x.conf:1: profile: '../x' is not a name of letters, digits, '_', '-' and '.'",
                 "right would be a name of letters, digits, '_', '-' and '.'"},
                {"gate_user = a b\n", "x.conf:1: gate_user: 'a b' is not a name of letters, digits, '_', '-' and '.'",
                 "right would be a name of letters, digits, '_', '-' and '.'"},
                {"listen =\n", "x.conf:1: listen: there is no address",
                 "right would be addresses with ports such as 127.0.0.1:7070 or [::1]:7070, or none"},
                {"listen = localhost:80\n", "x.conf:1: listen: 'localhost:80' is not an address with a port",
                 "right would be addresses with ports such as 127.0.0.1:7070 or [::1]:7070, or none"},
                {"listen = ::1:80\n", "x.conf:1: listen: '::1:80' is not an address with a port",
                 "right would be addresses with ports such as 127.0.0.1:7070 or [::1]:7070, or none"},
                {"listen = 127.0.0.1:65536\n", "x.conf:1: listen: '127.0.0.1:65536' is not an address with a port",
                 "right would be addresses with ports such as 127.0.0.1:7070 or [::1]:7070, or none"},
                {"hosts = a,b\n", "x.conf:1: hosts: 'a,b' has characters that do not belong here",
                 "right would be words with spaces between them, or nothing"},
                {"url = a b\n", "x.conf:1: url: 'a b' is not one word, or nothing",
                 "right would be one word, or nothing"},
                {"session_secret_file = x\n", "x.conf:1: session_secret_file: 'x' is not an absolute path",
                 "right would be an absolute path, or nothing"},
                {"log_level = loud\n", "x.conf:1: log_level: 'loud' is not error, warning, info or debug",
                 "right would be error, warning, info or debug"},
                {"mode = info\n", "x.conf:1: mode: 'info' is not cloud or instance",
                 "right would be cloud or instance"},
                {"log_level = cloud\n", "x.conf:1: log_level: 'cloud' is not error, warning, info or debug",
                 "right would be error, warning, info or debug"},
                {"mode = cloud\nmode = cloud\n", "x.conf:2: 'mode' is set a second time", "keep one of the two lines"},
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct err err = {0};

                CHECK(parse(bad[i].text, &err) == ERR_INPUT);
                CHECK_STR(err.text, bad[i].error);
                CHECK_STR(err.hint, bad[i].hint);
                conf_defaults(&other);
                CHECK(memcmp(&c, &other, sizeof c) == 0); /* untouched */
        }
}

static void addresses_are_read(void) {
        struct err err = {0};

        CHECK(parse("listen = 127.0.0.1:0 [::1]:65535\nrate_read = unlimited\n", &err) == 0);
        CHECK(c.listen.count == 2 && c.rate_read == CONF_UNLIMITED);
        CHECK_STR(c.listen.items[1], "[::1]:65535");
        CHECK(parse("listen = none\n", &err) == 0 && c.listen.count == 0);
}

static void lists_are_capped(void) {
        _cleanup_buf_ struct buf b = {0};
        struct err err = {0};

        buf_str(&b, "ceiling_read =");
        for (int i = 0; i < CONF_LIST_MAX; i++)
                buf_printf(&b, " /p%d", i);
        CHECK(parse(b.data, &err) == 0 && c.ceiling_read.count == CONF_LIST_MAX);
        buf_str(&b, " /more");
        CHECK(parse(b.data, &err) == ERR_LIMIT);

        b.size = 0;
        buf_str(&b, "ceiling_read = /");
        for (int i = 0; i < CONF_TEXT; i++)
                buf_str(&b, "a");
        CHECK(parse(b.data, &err) == ERR_LIMIT);
        CHECK_STR(err.text, "x.conf:1: ceiling_read: a path of more than 255 bytes");
}

static void keep(void *data, const char *text) {
        buf_printf(data, "%s\n", text);
}

static void what_is_printed_reads_back(void) {
        _cleanup_buf_ struct buf b = {0};

        CHECK(parse("ceiling_memory = unlimited\nidle = 90s\nlifetime = 7d\nmax_cpus = 1.5\nceiling_write = /a /b\n"
                    "operator_user = op\nceiling_network = no\nmax_disk = 2000001\npool = 0\n",
                    NULL) == 0);
        conf_print(&c, keep, &b);
        CHECK(buf_ok(&b));
        conf_defaults(&other);
        CHECK(conf_parse("printed", b.data, &other, NULL) == 0);
        CHECK(memcmp(&c, &other, sizeof c) == 0);
        CHECK(strstr(b.data, "\n# Whether a sandbox may have a network, through the gate.\nceiling_network = no\n") !=
              NULL);
        for (const char *p = b.data; *p; p += strcspn(p, "\n") + 1)
                CHECK(*p != '#' || strcspn(p, "\n") <= 100);
}

static char folder[] = "/tmp/test-conf-XXXXXX";

static const char *write_file(const char *bytes, size_t size, mode_t mode) {
        static char path[64];
        _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        CHECK(fd_replace_file(dir, "x.conf", 0600, bytes, size) == 0);
        (void)snprintf(path, sizeof path, "%s/x.conf", folder);
        CHECK(chmod(path, mode) == 0);
        return path;
}

static void files_are_looked_at_before_they_are_believed(void) {
        static char many[CONF_SIZE_MAX + 1];
        struct err err = {0};
        const char *path;

        CHECK(mkdtemp(folder) != NULL);
        path = write_file("pool = 7\n", 9, 0644);
        CHECK(conf_load(path, &c, &err) == 0 && c.pool == 7);
        path = write_file("pool = 7\n", 9, 0664);
        CHECK(conf_load(path, &c, &err) == ERR_REFUSED && strstr(err.hint, "chmod go-w"));
        path = write_file("pool = 7\n", 9, 0602);
        CHECK(conf_load(path, &c, &err) == ERR_REFUSED);
        if (geteuid() == 0) {
                path = write_file("pool = 7\n", 9, 0644);
                CHECK(chown(path, 65534, 65534) == 0);
                CHECK(conf_load(path, &c, &err) == ERR_REFUSED);
        }
        path = write_file("pool = 7\n\0pool = 8\n", 19, 0644);
        CHECK(conf_load(path, &c, &err) == ERR_INPUT && strstr(err.text, "zero byte at position 9"));
        memset(many, '\n', sizeof many);
        path = write_file(many, sizeof many, 0644);
        CHECK(conf_load(path, &c, &err) == ERR_LIMIT);
        path = write_file(many, sizeof many - 1, 0644);
        CHECK(conf_load(path, &c, &err) == 0);
        CHECK(conf_load(folder, &c, &err) == ERR_INPUT);
        CHECK(conf_load("/dev/null", &c, &err) == ERR_INPUT);
        CHECK(unlink(path) == 0);
        CHECK(conf_load(path, &c, &err) == -ENOENT);
        CHECK(rmdir(folder) == 0);
}

static void an_open_file_is_read_from_its_beginning(void) {
        _cleanup_fd_ int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), null = open("/dev/null", O_RDONLY);

        CHECK(write(fd, "pool = 9\n", 9) == 9); /* and its position is at the end now */
        CHECK(conf_load_fd(fd, "fd", &c, NULL) == 0 && c.pool == 9);
        CHECK(conf_load_fd(fd, "fd", &c, NULL) == 0 && c.pool == 9);
        CHECK(lseek(fd, 0, SEEK_CUR) == 9);
        CHECK(conf_load_fd(null, "null", &c, NULL) == 0 && c.pool == 2);
        CHECK(conf_load_fd(-EBADF, "none", &c, NULL) == -EBADF);
}

/* With scdoc's own signs kept from meaning anything. */
static void plain(struct buf *b, const char *text) {
        for (; *text; text++)
                buf_printf(b, "%s%c", strchr("_*", *text) ? "\\" : "", *text);
}

/* The part KEYS of the manual page, as the table has it. */
static void describe(struct buf *b) {
        const char *section = NULL;
        struct conf_key key;

        for (size_t i = 0; conf_key(i, &key); i++) {
                if (key.section != section)
                        buf_printf(b, "%s## %s\n\n", section ? "\n" : "", key.section);
                section = key.section;
                buf_str(b, "*");
                plain(b, key.name);
                buf_str(b, "* = _");
                plain(b, key.form);
                buf_str(b, "_\n\t");
                plain(b, key.about);
                if (strlen(key.standard) > 60)
                        buf_printf(b, " Default: what the built-in profiles need of the host.\n");
                else
                        buf_printf(b, " Default: %s.\n", key.standard[0] ? key.standard : "none");
        }
}

static void the_manual_page_has_the_table(void) {
        _cleanup_buf_ struct buf b = {0};
        _cleanup_free_ char *page = NULL;
        struct err err = {0};

        describe(&b);
        CHECK(buf_ok(&b));
        CHECK(fd_read_file(AT_FDCWD, STOCKADE_SOURCE "/docs/man/stockade.conf.5.scd", 1 << 20, false, &page, NULL,
                           &err) == 0);
        CHECK(page && strstr(page, b.data));
        if (page && !strstr(page, b.data))
                (void)printf("# the part KEYS of stockade.conf.5.scd would be:\n%s", b.data);
}

TEST_MAIN(TEST(defaults_are_in_force), TEST(values_are_read), TEST(errors_say_where_and_what_would_be_right),
          TEST(addresses_are_read), TEST(lists_are_capped), TEST(what_is_printed_reads_back),
          TEST(files_are_looked_at_before_they_are_believed), TEST(an_open_file_is_read_from_its_beginning),
          TEST(the_manual_page_has_the_table))
