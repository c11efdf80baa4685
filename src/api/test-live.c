/* The pure parts of what is live: the answer to a WebSocket's key, and the table of ports. */
#include <stdio.h>
#include <string.h>

#include "api/port-table.h"
#include "api/websocket-accept.h"
#include "base/test.h"

static void accepts(void) {
        char text[WEBSOCKET_ACCEPT];

        CHECK(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", text)); /* RFC 6455, section 1.3 */
        CHECK(strcmp(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") == 0);
        CHECK(websocket_accept("AAAAAAAAAAAAAAAAAAAAAA==", text));
        CHECK(strcmp(text, "ICX+Yqv66kxgM0FcWaLWlFLwTAI=") == 0);
}

static void refuses_keys(void) {
        static const char *const bad[] = {"",
                                          "dGhlIHNhbXBsZSBub25jZQ=",
                                          "dGhlIHNhbXBsZSBub25jZQ===",
                                          "dGhlIHNhbXBsZSBub25jZQAA",
                                          "dGhlIHNhbXBsZSBub25j Q==",
                                          "dGhlIHNhbXBsZSBub25_ZQ==",
                                          "=GhlIHNhbXBsZSBub25jZQ=="};
        char text[WEBSOCKET_ACCEPT];

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(!websocket_accept(bad[i], text));
}

static size_t read_table(const char *text, uint16_t ports[PORT_TABLE_MAX]) {
        size_t count = 0;

        port_table_read(text, strlen(text), ports, &count);
        return count;
}

static void reads_tables(void) {
        uint16_t ports[PORT_TABLE_MAX];
        size_t n = read_table("  sl  local_address rem_address   st\n"
                              "   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000\n"
                              "   1: 00000000:0016 00000000:0000 0A 00000000:00000000\n"
                              "   2: 0100007F:1F90 0100007F:0BB8 01 00000000:00000000\n"
                              "   3: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A\n",
                              ports);

        CHECK(n == 2 && ports[0] == 22 && ports[1] == 3000);
}

static void reads_nonsense(void) {
        uint16_t ports[PORT_TABLE_MAX];
        size_t count = 0;
        char line[64];

        CHECK(read_table("", ports) == 0);
        CHECK(read_table("0: 0100007F:0bb8 0 0A\n", ports) == 0);
        CHECK(read_table("0: 0100007F:0000 0 0A\n", ports) == 0);
        CHECK(read_table("0: :0BB8 0 0A\n0: 0100007F:0BB8 0\n0A", ports) == 0);
        for (unsigned i = 1; i <= 300; i++) { /* more than there is room for */
                (void)snprintf(line, sizeof line, "0: 0100007F:%04X 0 0A\n", 1000 - i);
                port_table_read(line, strlen(line), ports, &count);
        }
        CHECK(count == PORT_TABLE_MAX);
        for (size_t i = 1; i < count; i++)
                CHECK(ports[i - 1] < ports[i]);
}

TEST_MAIN(TEST(accepts), TEST(refuses_keys), TEST(reads_tables), TEST(reads_nonsense))
