/* What doctor says of drivers other than native. Their own programs say whether they work here (probe); those that the
 * configuration declares and that work have to pass the self-test, too. Where a driver's program is not installed, what
 * the host has for it is all that is said. */
#include "cli/doctor_driver.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/paths.h"
#include "cli/hear.h"
#include "cli/host_conf.h"
#include "cli/selftest.h"
#include "wire/driver.h"

enum { PROBE_MAX = 64 * 1024 };

static const struct listed {
        const char *name, *means; /* means: the fact about the host that its probe takes the place of */
} drivers[] = {{"docker", "docker"}, {"gvisor", "runsc"}, {"microvm", "qemu"}, {"firecracker", "firecracker"}};

static bool is_declared(const char *driver) {
        const struct conf *conf = host_conf();

        for (size_t i = 0; i < conf->drivers.count; i++)
                if (str_eq(conf->drivers.items[i], driver))
                        return true;
        return false;
}

/* As the warden gives them to it: warden/box.c. */
static void add_options(const char *driver, char text[2][CONF_TEXT + 16], const char **argv) {
        const struct conf *conf = host_conf();

        if (str_eq(driver, "docker")) {
                (void)snprintf(text[0], sizeof text[0], "socket=%s", conf->docker_socket);
                (void)snprintf(text[1], sizeof text[1], "runtime=%s", conf->docker_runtime);
                argv[0] = text[0];
                argv[1] = text[1];
        } else if (conf->microvm_image[0] && !str_eq(driver, "gvisor")) {
                (void)snprintf(text[0], sizeof text[0], "image=%s", conf->microvm_image);
                argv[0] = text[0];
        }
}

/* What its program says of it; false: it is not installed. A probe that fails says that the driver does not work. */
static bool probe(const char *driver, struct buf *ret) {
        char name[64], program[PATH_MAX], text[2][CONF_TEXT + 16];
        const char *argv[5] = {program, "probe"};
        struct hear h = {.argv = argv, .ms = DRIVER_PROBE_MS, .signal = SIGKILL};

        (void)snprintf(name, sizeof name, "stockade-box-%s", driver);
        add_options(driver, text, argv + 2);
        if (paths_helper(name, program, sizeof program, NULL) < 0 || access(program, X_OK) < 0)
                return false;
        if (!hear_program(&h, ret, NULL) || !buf_ok(ret) || !ret->data || json_check(ret->data, ret->size, NULL) < 0) {
                buf_free(ret);
                buf_str(ret, "{\"why\":\"its probe says nothing that could be understood\"}");
        }
        return true;
}

static void say_refused(struct host_fact *f, const char *said) {
        char why[140] = "its probe says no", fix[180] = "";

        (void)json_find_str(said, "why", why, sizeof why);
        (void)json_find_str(said, "fix", fix, sizeof fix);
        f->state = FACT_LIMITED;
        (void)snprintf(f->detail, sizeof f->detail, "not offered: %s", why);
        (void)snprintf(f->cost, sizeof f->cost, "driver %s does not work", f->name);
        (void)snprintf(f->fix, sizeof f->fix, "%s", fix);
}

static void say_tested(struct host_fact *f, const char *version) {
        struct selftest test;

        selftest_run(f->name, &test);
        if (test.passed) {
                (void)snprintf(f->detail, sizeof f->detail, "offered: %.60s, its self-test held, %u attacks in %u ms",
                               version, test.checks, test.ms);
                return;
        }
        f->state = FACT_LIMITED;
        (void)snprintf(f->detail, sizeof f->detail, "not offered: %.140s", test.words);
        (void)snprintf(f->cost, sizeof f->cost, "that sandboxes of driver %s hold on this host has not been shown",
                       f->name);
        (void)snprintf(f->fix, sizeof f->fix,
                       "`stockade verify --driver %s --self-test --verbose` says which attack got through, or why it "
                       "cannot be made",
                       f->name);
}

static void say(struct host_fact *f, const char *said) {
        char version[64] = "";
        bool offered = false;

        (void)json_find_bool(said, "offered", &offered);
        (void)json_find_str(said, "version", version, sizeof version);
        if (!offered)
                say_refused(f, said);
        else if (is_declared(f->name))
                say_tested(f, version[0] ? version : "works");
        else
                (void)snprintf(f->detail, sizeof f->detail,
                               "works here (%.60s), and is not declared: 'drivers' in stockade.conf does not name it",
                               version);
}

size_t doctor_drivers(struct host_fact *facts, size_t count, size_t room) {
        for (size_t d = 0; d < ELEMENTSOF(drivers); d++) {
                _cleanup_buf_ struct buf said = {.max = PROBE_MAX};
                size_t at = 0;

                while (at < count && !str_eq(facts[at].name, drivers[d].means))
                        at++;
                if (at >= room || !probe(drivers[d].name, &said))
                        continue;
                facts[at] = (struct host_fact){.name = drivers[d].name, .group = "drivers", .state = FACT_OK};
                say(&facts[at], said.data);
                count = MAX(count, at + 1);
        }
        return count;
}
