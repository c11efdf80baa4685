/* Unit tests of addresses: text, the kernel's forms, blocks, and what is not public. */
#include "base/address.h"

#include <arpa/inet.h>

#include "base/test.h"

static struct address parse(const char *text) {
        struct address a = {{0xee}};

        CHECK(address_parse(text, strlen(text), false, &a));
        return a;
}

static const char *kind(const char *text) {
        struct address a = parse(text);
        const char *k = address_special(&a);

        return k ? k : "public";
}

static void kinds(void) {
        static const struct {
                const char *text;
                enum address_kind kind;
        } rows[] = {
                {"8.8.8.8", ADDRESS_PUBLIC},
                {"2600::1", ADDRESS_PUBLIC},
                {"10.0.0.1", ADDRESS_PRIVATE},
                {"::ffff:192.168.0.1", ADDRESS_PRIVATE},
                {"fd00::1", ADDRESS_PRIVATE},
                {"100.64.0.1", ADDRESS_CARRIER},
                {"169.254.1.1", ADDRESS_LINK_LOCAL},
                {"fe80::1", ADDRESS_LINK_LOCAL},
                {"127.0.0.1", ADDRESS_LOOPBACK},
                {"::1", ADDRESS_LOOPBACK},
                {"0.0.0.0", ADDRESS_UNSPECIFIED},
                {"::", ADDRESS_UNSPECIFIED},
                {"169.254.169.254", ADDRESS_METADATA},
                {"100.100.100.200", ADDRESS_METADATA},
                {"fd00:ec2::254", ADDRESS_METADATA},
                {"224.0.0.1", ADDRESS_MULTICAST},
                {"255.255.255.255", ADDRESS_BROADCAST},
                {"198.18.0.1", ADDRESS_BENCHMARK},
                {"240.0.0.1", ADDRESS_RESERVED},
                {"4000::1", ADDRESS_RESERVED},
                /* what is carried gives it a name, and never a better kind */
                {"64:ff9b::8.8.8.8", ADDRESS_TRANSLATED},
                {"64:ff9b::10.0.0.1", ADDRESS_TRANSLATED},
                {"::127.0.0.1", ADDRESS_TRANSLATED},
                {"2002:a00:1::", ADDRESS_TRANSLATED},
                {"fe80::5efe:10.0.0.1", ADDRESS_TRANSLATED},
                {"2600::200:5efe:192.168.0.1", ADDRESS_TRANSLATED},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct address a = parse(rows[i].text);

                CHECK(address_kind(&a) == rows[i].kind);
                CHECK((address_special(&a) == NULL) == (rows[i].kind == ADDRESS_PUBLIC));
        }
}

static void text_comes_back(void) {
        static const char *const rows[][2] = {
                {"1.2.3.4", "1.2.3.4"},
                {"255.255.255.255", "255.255.255.255"},
                {"::ffff:1.2.3.4", "1.2.3.4"},
                {"::FFFF:0102:0304", "1.2.3.4"},
                {"0:0:0:0:0:ffff:1.2.3.4", "1.2.3.4"},
                {"::", "::"},
                {"::1", "::1"},
                {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
                {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
                {"64:ff9b::1.2.3.4", "64:ff9b::102:304"},
                {"1:2:3:4:5:6:255.255.255.255", "1:2:3:4:5:6:ffff:ffff"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct address a = parse(rows[i][0]);
                char text[ADDRESS_TEXT_MAX];

                address_print(&a, text);
                CHECK_STR(text, rows[i][1]);
        }
}

static void other_spellings_are_refused(void) {
        static const char *const bad[] = {
                "",
                ".",
                "1",
                "127.1",
                "1.2.3",
                "1.2.3.4.",
                "1.2.3.4.5",
                ".1.2.3.4",
                "1..3.4",
                "01.2.3.4",
                "1.2.3.04",
                "00.0.0.0",
                "0x7f.0.0.1",
                "0x7f000001",
                "017700000001",
                "2130706433",
                "256.1.1.1",
                "1.2.3.400",
                "1.2.3.4 ",
                " 1.2.3.4",
                "1.2.3.4\n",
                "+1.2.3.4",
                "1.2.3.-4",
                "1.2.3.4/32",
                "1.2.3.4:80",
                ":",
                ":::",
                "1",
                "1:2",
                "::1::",
                "1::2::3",
                "1:2:3:4:5:6:7:8:9",
                "1:2:3:4:5:6:7:8::",
                "::12345",
                "::g",
                "::1%lo",
                "fe80::1%1",
                "::1/128",
                "[::1]",
                "[::1",
                "::1]",
                "::1.2.3",
                "::1.2.3.4.5",
                "::01.2.3.4",
                "1.2.3.4::",
                "::1.2.3.256",
                "1:2:3:4:5:6:7:1.2.3.4",
                "\xef\xbc\x91.2.3.4",
                "1\343\200\2022.3.4",
                "1111:2222:3333:4444:5555:6666:255.255.255.2555",
                "::ffff:0x7f.1",
                "0000:0000:0000:0000:0000:0000:0000:00001",
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct address a = {{0xee}};

                CHECK(!address_parse(bad[i], strlen(bad[i]), false, &a));
                CHECK(a.bytes[0] == 0xee);
        }
        struct address a;
        CHECK(!address_parse("1.2.3.4\0", 8, false, &a));
        CHECK(!address_parse("1.2\0.3.4", 8, false, &a));
        CHECK(address_parse("1.2.3.44", 7, false, &a) && a.bytes[15] == 4); /* size is what counts */
}

static void brackets(void) {
        struct address a;

        CHECK(address_parse("[::1]", 5, true, &a));
        CHECK(!address_parse("::1", 3, true, &a));
        CHECK(!address_parse("[::1]", 5, false, &a));
        CHECK(address_parse("1.2.3.4", 7, true, &a));
        CHECK(!address_parse("[1.2.3.4]", 9, true, &a));
        CHECK(!address_parse("[]", 2, true, &a));
        CHECK(!address_parse("[", 1, true, &a));
        CHECK(!address_parse("[[::1]]", 7, true, &a));
        CHECK(!address_parse("[::1]:80", 8, true, &a));
        CHECK(!address_parse("[fe80::1%25lo]", 14, true, &a));
}

static void kernel_forms(void) {
        struct sockaddr_storage s;
        struct address a = parse("10.1.2.3"), b;
        uint16_t port = 0;

        CHECK(address_to_socket(&a, 80, &s) == sizeof(struct sockaddr_in) && s.ss_family == AF_INET);
        CHECK(((struct sockaddr_in *)&s)->sin_addr.s_addr == htonl(0x0a010203));
        CHECK(address_from_socket(&s, &b, &port) && port == 80 && memcmp(&a, &b, sizeof a) == 0);
        CHECK(address_is_v4(&b));

        a = parse("2001:db8::1");
        CHECK(address_to_socket(&a, 65535, &s) == sizeof(struct sockaddr_in6) && s.ss_family == AF_INET6);
        CHECK(address_from_socket(&s, &b, &port) && port == 65535 && memcmp(&a, &b, sizeof a) == 0);
        CHECK(!address_is_v4(&b));

        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&s; /* what a dual-stack socket says of IPv4 */
        CHECK(inet_pton(AF_INET6, "::ffff:127.0.0.1", &six->sin6_addr) == 1);
        CHECK(address_from_socket(&s, &b, &port) && address_is_v4(&b));
        CHECK_STR(address_special(&b), "loopback");

        s.ss_family = AF_UNIX;
        CHECK(!address_from_socket(&s, &b, &port));
}

static void blocks(void) {
        static const struct {
                const char *address, *block;
                unsigned prefix;
                bool within;
        } rows[] = {
                {"10.1.2.3", "10.0.0.0", 104, true},
                {"11.0.0.0", "10.0.0.0", 104, false},
                {"10.255.255.255", "10.0.0.0", 104, true},
                {"172.31.0.1", "172.16.0.0", 108, true},
                {"172.32.0.1", "172.16.0.0", 108, false},
                {"1.2.3.4", "1.2.3.4", 128, true},
                {"1.2.3.5", "1.2.3.4", 128, false},
                {"1.2.3.5", "1.2.3.4", 127, true},
                {"1.2.3.4", "::", 0, true},
                {"2001:db8::1", "2001:db8::", 32, true},
                {"2001:db9::1", "2001:db8::", 32, false},
                {"2001:db9::1", "2001:db8::", 31, true},
                {"8000::", "::", 1, false},
                {"7fff::", "::", 1, true},
                {"::1", "0.0.0.0", 96, false},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct address a = parse(rows[i].address), b = parse(rows[i].block);

                CHECK(address_within(&a, b.bytes, rows[i].prefix) == rows[i].within);
        }
        struct address a = parse("::");
        CHECK(!address_within(&a, a.bytes, 129));
}

static void special_and_public(void) {
        static const char *const rows[][2] = {
                /* IPv4, with the addresses on both sides of each border */
                {"0.0.0.0", "unspecified"},
                {"0.255.255.255", "unspecified"},
                {"1.0.0.0", "public"},
                {"9.255.255.255", "public"},
                {"10.0.0.0", "private"},
                {"10.255.255.255", "private"},
                {"11.0.0.0", "public"},
                {"100.63.255.255", "public"},
                {"100.64.0.0", "carrier-grade NAT"},
                {"100.127.255.255", "carrier-grade NAT"},
                {"100.128.0.0", "public"},
                {"100.100.100.200", "metadata service"},
                {"100.100.100.201", "carrier-grade NAT"},
                {"126.255.255.255", "public"},
                {"127.0.0.0", "loopback"},
                {"127.255.255.255", "loopback"},
                {"128.0.0.0", "public"},
                {"168.63.129.15", "public"},
                {"168.63.129.16", "metadata service"},
                {"168.63.129.17", "public"},
                {"169.253.255.255", "public"},
                {"169.254.0.0", "link-local"},
                {"169.254.169.254", "metadata service"},
                {"169.254.170.2", "metadata service"},
                {"169.254.0.23", "metadata service"},
                {"169.254.42.42", "metadata service"},
                {"169.254.42.43", "link-local"},
                {"169.254.255.255", "link-local"},
                {"169.255.0.0", "public"},
                {"172.15.255.255", "public"},
                {"172.16.0.0", "private"},
                {"172.31.255.255", "private"},
                {"172.32.0.0", "public"},
                {"191.255.255.255", "public"},
                {"192.0.0.0", "reserved"},
                {"192.0.0.170", "reserved"},
                {"192.0.0.192", "metadata service"},
                {"192.0.0.255", "reserved"},
                {"192.0.1.0", "public"},
                {"192.0.2.1", "public"},
                {"192.88.99.1", "reserved"},
                {"192.88.98.255", "public"},
                {"192.88.100.0", "public"},
                {"192.167.255.255", "public"},
                {"192.168.0.0", "private"},
                {"192.168.255.255", "private"},
                {"192.169.0.0", "public"},
                {"198.17.255.255", "public"},
                {"198.18.0.0", "benchmark"},
                {"198.19.255.255", "benchmark"},
                {"198.20.0.0", "public"},
                {"198.51.100.1", "public"},
                {"203.0.113.1", "public"},
                {"223.255.255.255", "public"},
                {"224.0.0.0", "multicast"},
                {"239.255.255.255", "multicast"},
                {"240.0.0.0", "reserved"},
                {"255.255.255.254", "reserved"},
                {"255.255.255.255", "broadcast"},
                /* IPv6 */
                {"::", "unspecified"},
                {"::1", "loopback"},
                {"2001:db8::1", "public"},
                {"3fff::1", "public"},
                {"2600::1", "public"},
                {"2a00:1450:4001:830::200e", "public"},
                {"2000::", "public"},
                {"1fff:ffff::", "reserved"},
                {"3fff:ffff:ffff::", "public"},
                {"4000::", "reserved"},
                {"5f00::1", "reserved"},
                {"100::1", "reserved"},
                {"200::1", "reserved"},
                {"f000::1", "reserved"},
                {"fbff::1", "reserved"},
                {"fc00::1", "private"},
                {"fd53:746f:636b::1", "private"},
                {"fdff:ffff::", "private"},
                {"fe00::1", "reserved"},
                {"fe80::1", "link-local"},
                {"febf:ffff::", "link-local"},
                {"fec0::1", "private"},
                {"ff02::1", "multicast"},
                {"ff0e::1", "multicast"},
                {"2001:1::1", "reserved"},
                {"2001:2::1", "benchmark"},
                {"2001:2:1::1", "reserved"},
                {"2001:20::1", "reserved"},
                {"2001:1ff:ffff::", "reserved"},
                {"2001:200::1", "public"},
                {"fd00:ec2::254", "metadata service"},
                {"fd00:ec2::23", "metadata service"},
                {"fd20:ce::254", "metadata service"},
                {"fe80::a9fe:a9fe", "metadata service"},
                {"fd00:c1::a9fe:a9fe", "metadata service"},
                {"fd00:42::42", "metadata service"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                CHECK_STR(kind(rows[i][0]), rows[i][1]);
}

static void carried_ipv4_is_judged_too(void) {
        static const char *const rows[][2] = {
                {"::ffff:127.0.0.1", "loopback"},
                {"::ffff:8.8.8.8", "public"},
                {"::127.0.0.1", "loopback"},
                {"::10.0.0.1", "private"},
                {"::8.8.8.8", "translated"},
                {"::ffff:0:169.254.169.254", "metadata service"},
                {"::ffff:0:8.8.8.8", "translated"},
                {"64:ff9b::169.254.169.254", "metadata service"},
                {"64:ff9b::7f00:1", "loopback"},
                {"64:ff9b::8.8.8.8", "translated"},
                {"64:ff9b:1::10.0.0.1", "private"},
                {"64:ff9b:1:c0a8:1:100::", "private"},
                {"64:ff9b:1:808:8:800:808:808", "translated"},
                {"64:ff9b:0:1::1", "reserved"},
                {"64:ff9b:2::1", "reserved"},
                {"2002:7f00:1::", "loopback"},
                {"2002:a9fe:a9fe::1", "metadata service"},
                {"2002:c0a8:101::", "private"},
                {"2002:808:808::1", "translated"},
                /* Teredo: server 8.8.8.8, client inverted */
                {"2001:0:808:808::80ff:fffe", "loopback"},
                {"2001:0:a00:1::f7f7:f7f7", "private"},
                {"2001:0:808:808::f7f7:f7f7", "translated"},
                /* ISATAP below any prefix */
                {"2600::5efe:10.0.0.1", "private"},
                {"2600::200:5efe:127.0.0.1", "loopback"},
                {"2600::5efe:8.8.8.8", "public"},
                {"fe80::5efe:8.8.8.8", "link-local"},
                {"2600::5eff:10.0.0.1", "public"},
                {"2600::400:5efe:10.0.0.1", "public"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                CHECK_STR(kind(rows[i][0]), rows[i][1]);
}

/* Whatever carries an address that is not public is not public either: every form, many addresses. */
static void never_better_than_what_is_carried(void) {
        for (uint32_t v = 0, i = 0; i < 65536; i++, v += 0x10001) {
                uint8_t f[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
                struct address four = {{[10] = 0xff, 0xff, f[0], f[1], f[2], f[3]}};
                struct address forms[] = {
                        {{[12] = f[0], f[1], f[2], f[3]}},
                        {{[8] = 0xff, 0xff, 0, 0, f[0], f[1], f[2], f[3]}},
                        {{0x00, 0x64, 0xff, 0x9b, [12] = f[0], f[1], f[2], f[3]}},
                        {{0x00, 0x64, 0xff, 0x9b, 0, 1, f[0], f[1], 0, f[2], f[3]}},
                        {{0x20, 0x02, f[0], f[1], f[2], f[3]}},
                        {{0x20, 0x01, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0, f[0] ^ 0xff, f[1] ^ 0xff, f[2] ^ 0xff,
                          f[3] ^ 0xff}},
                        {{0x26, 0x00, [10] = 0x5e, 0xfe, f[0], f[1], f[2], f[3]}},
                        {{0x26, 0x00, [8] = 2, 0, 0x5e, 0xfe, f[0], f[1], f[2], f[3]}},
                };
                const char *inner = address_special(&four);

                for (size_t k = 0; inner && k < ELEMENTSOF(forms); k++)
                        CHECK(address_special(&forms[k]) != NULL);
                for (size_t k = 0; k < 6; k++)
                        CHECK(address_special(&forms[k]) != NULL);
        }
}

TEST_MAIN(TEST(text_comes_back), TEST(other_spellings_are_refused), TEST(brackets), TEST(kernel_forms), TEST(blocks),
          TEST(special_and_public), TEST(kinds), TEST(carried_ipv4_is_judged_too),
          TEST(never_better_than_what_is_carried))
