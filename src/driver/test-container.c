/* What is asked of the engine for a sandbox, and the image that its containers are made from. */
#include <stdlib.h>

#include "base/json-read.h"
#include "base/pax.h"
#include "base/test.h"
#include "driver/container.h"

static void add_plan(struct buf *out) {
        static const uint8_t hash[HASH_SIZE];

        plan_begin(out, hash);
        plan_add(out, OP_HOSTNAME, 0, "box\"1");
}

static void find(const char *json, const char *path, const char *expected) {
        char value[256] = "";

        CHECK(json_find_str(json, path, value, sizeof value));
        CHECK_STR(value, expected);
}

static void asks_for_an_empty_shell(void) {
        _cleanup_buf_ struct buf plan = {0}, out = {0};
        bool flag = false;

        add_plan(&plan);
        struct plan p = {.bytes = (const uint8_t *)plan.data, .size = plan.size};
        struct container c = {.id = "0123456789abcdef",
                              .image = "stockade-box:x",
                              .runtime = "crun",
                              .profile = "{\"a\":[\"b\"]}",
                              .plan = &p,
                              .id_base = 1073741824U,
                              .uid = 1000,
                              .gid = 1001,
                              .ipv6 = true};
        container_write(&c, &out);
        CHECK(buf_ok(&out) && json_check(out.data, out.size, NULL) == 0);
        find(out.data, "User", "1073742824:1073742825");
        find(out.data, "Hostname", "box\"1");
        find(out.data, "Entrypoint.0", CONTAINER_PROGRAM);
        find(out.data, "Labels.stockade", "0123456789abcdef");
        find(out.data, "HostConfig.NetworkMode", "none");
        find(out.data, "HostConfig.UsernsMode", "host");
        find(out.data, "HostConfig.CapDrop.0", "ALL");
        find(out.data, "HostConfig.SecurityOpt.0", "no-new-privileges:true");
        find(out.data, "HostConfig.SecurityOpt.1", "seccomp={\"a\":[\"b\"]}");
        find(out.data, "HostConfig.Runtime", "crun");
        find(out.data, "HostConfig.LogConfig.Type", "none");
        CHECK(json_find_bool(out.data, "HostConfig.ReadonlyRootfs", &flag) && flag);
        CHECK(json_find_bool(out.data, "HostConfig.AutoRemove", &flag) && flag);
        CHECK(strstr(out.data, "\"net.ipv6.conf.all.disable_ipv6\":\"0\""));
        CHECK(!strstr(out.data, "Binds") && !strstr(out.data, "Mounts") && !strstr(out.data, "Privileged"));
}

static void leaves_out_what_is_not_wanted(void) {
        _cleanup_buf_ struct buf plan = {0}, out = {0};

        add_plan(&plan);
        struct plan p = {.bytes = (const uint8_t *)plan.data, .size = plan.size};
        struct container c = {.id = "0", .image = "i", .runtime = "", .profile = "{}", .plan = &p};
        container_write(&c, &out);
        CHECK(buf_ok(&out) && !strstr(out.data, "Runtime") && !strstr(out.data, "Sysctls"));
}

static void packs_the_program(void) {
        _cleanup_buf_ struct buf out = {0};
        struct pax_reader *r = calloc(1, sizeof *r);
        size_t files = 0, folders = 0;

        container_pack("program", 7, &out);
        CHECK(buf_ok(&out) && out.size % PAX_BLOCK == 0);
        const uint8_t *at = (const uint8_t *)out.data;
        size_t left = out.size;
        int item;
        while ((item = pax_next(r, &at, &left)) > PAX_MORE && item != PAX_END) {
                if (item == PAX_MEMBER && r->member.type == '0') {
                        files++;
                        CHECK_STR(r->member.name, "stockade-box-docker");
                        CHECK(r->member.mode == 0755 && r->member.size == 7);
                }
                folders += item == PAX_MEMBER && r->member.type == '5';
        }
        CHECK(item == PAX_END && files == 1 && folders == 1);
        free(r);
}

static void finds_what_was_left(void) {
        CHECK(container_is_left("{\"State\":\"created\",\"Created\":1000}", 1060));
        CHECK(container_is_left("{\"State\":\"exited\",\"Created\":1000}", 9000));
        CHECK(!container_is_left("{\"State\":\"created\",\"Created\":1000}", 1059));
        CHECK(!container_is_left("{\"State\":\"created\",\"Created\":1000}", 900)); /* a clock that went back */
        CHECK(!container_is_left("{\"State\":\"running\",\"Created\":1000}", 9000));
        CHECK(!container_is_left("{\"State\":\"paused\",\"Created\":1000}", 9000));
        CHECK(!container_is_left("{\"State\":\"created\"}", 9000));
        CHECK(!container_is_left("{}", 9000));
}

TEST_MAIN(TEST(asks_for_an_empty_shell), TEST(leaves_out_what_is_not_wanted), TEST(packs_the_program),
          TEST(finds_what_was_left))
