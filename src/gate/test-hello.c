/* Unit tests of the TLS hello: what real clients send is read, however it is cut; what could mean two things is not. */
#include "base/buf.h"
#include "base/test.h"
#include "gate/hello.h"

/* Sent by OpenSSL 3.0 (TLS 1.2 with one cipher suite; TLS 1.3; without a name) and by Node. */
static const char small[] =
        "16030100920100008e030388c00ad7ec12e1db691761437b351fa1374af5bcfe5e31290f55c5620ddabd7e000004c02f00ff01000061"
        "0000000b0009000006612e74657374000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d00"
        "2a0028040305030603080708080809080a080b080408050806040105010601030303010302040205020602";
static const char tls13[] =
        "16030100f1010000ed03030993e8b5db3cb7dc4f4e514e1d9c0aa2dc1d9dc538f874de6a7e9f7b8b3c395920fd9d899960dee729aab5"
        "57e5c019eefbe7f65ecd083f9d3730a3458f6641bd92000813021303130100ff0100009c00000011000f00000c4578616d706c652e54"
        "455354000b000403000102000a00160014001d0017001e0019001801000101010201030104002300000016000000170000000d001e00"
        "1c040305030603080708080809080a080b080408050806040105010601002b0003020304002d00020101003300260024001d0020edfa"
        "b1b96ea3a8eda84cc4bcf585c8c18eea1605ddee0d8f5606af28f8566a69";
static const char no_name[] =
        "16030101240100012003031750499b36d8fa4a8abc7e1ec876a7e59a6f68b66668138fdb00c589175bf0be200aa78e0c2b5f72499228"
        "b9ae1b3209a964581e3a98beb2b0f89a403d0fde9e6c003e130213031301c02cc030009fcca9cca8ccaac02bc02f009ec024c028006b"
        "c023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f00ff01000099000b000403000102000a00160014001d0017"
        "001e0019001801000101010201030104002300000016000000170000000d002a0028040305030603080708080809080a080b08040805"
        "0806040105010601030303010302040205020602002b0009080304030303020301002d00020101003300260024001d0020b54702f693"
        "680dc263b8b77be747f3019a7ba68571adcc72ea2937a1d4e7841b";
static const char node[] =
        "1603010188010001840303f0ed88d09e64838397ca173795d1bc4e2758920316f6e953410c1bdf17062ec8206f22b137fb94eaedac76"
        "26842fd7ea1258a085260c94bb5d25793bd683fa96ed0076130213031301c02fc02bc030c02c009ec0270067c028006b00a3009fcca9"
        "cca8ccaac0afc0adc0a3c09fc05dc061c057c05300a2c0aec0acc0a2c09ec05cc060c056c052c024006ac0230040c00ac01400390038"
        "c009c01300330032009dc0a1c09dc051009cc0a0c09cc050003d003c0035002f00ff010000c50000001a001800001572656769737472"
        "792e6578616d706c652e74657374000b000403000102000a00160014001d0017001e0019001801000101010201030104002300000010"
        "000e000c02683208687474702f312e310016000000170000000d002a0028040305030603080708080809080a080b0804080508060401"
        "05010601030303010302040205020602002b00050403040303002d00020101003300260024001d00202a819568a1ec86a1fe7f16a9d0"
        "df7c59ff0b3d2313521a55105b4f2a84212a48";

static void put_hex(struct buf *b, const char *hex) {
        for (; *hex; hex += 2) {
                unsigned byte = 0;
                char c;

                CHECK(sscanf(hex, "%2x", &byte) == 1);
                c = (char)byte;
                buf_add(b, &c, 1);
        }
}

/* From memory of exactly this size, so that a sanitizer sees every byte too far. */
static enum hello_result parse(const void *bytes, size_t size, struct hello *ret) {
        _cleanup_free_ uint8_t *copy = calloc(1, size ? size : 1);

        if (!copy)
                abort();
        memcpy(copy, bytes, size);
        return hello_parse(copy, size, ret);
}

static void put_number(struct buf *b, size_t width, size_t value) {
        while (width-- > 0) {
                char c = (char)(value >> (8 * width));
                buf_add(b, &c, 1);
        }
}

/* The message of a hello with these extensions; NULL: without the block of them. */
static void put_message(struct buf *b, const struct buf *extensions) {
        static const char zeros[32];
        size_t size = 2 + 32 + 1 + 2 + 2 + 2 + (extensions ? 2 + extensions->size : 0);

        put_number(b, 1, 1);
        put_number(b, 3, size);
        put_number(b, 2, 0x0303);
        buf_add(b, zeros, sizeof zeros);
        put_number(b, 1, 0);
        put_number(b, 2, 2);
        put_number(b, 2, 0x1301);
        put_number(b, 2, 0x0100);
        if (extensions) {
                put_number(b, 2, extensions->size);
                buf_add(b, extensions->data, extensions->size);
        }
}

/* Cuts a message into records of `piece` bytes. */
static void put_records(struct buf *b, const char *message, size_t size, size_t piece) {
        b->max = 1 << 20;
        for (size_t at = 0; at < size; at += piece) {
                size_t n = MIN(piece, size - at);

                put_number(b, 1, 22);
                put_number(b, 2, 0x0301);
                put_number(b, 2, n);
                buf_add(b, message + at, n);
        }
}

static void put_extension(struct buf *b, unsigned type, const void *data, size_t size) {
        put_number(b, 2, type);
        put_number(b, 2, size);
        buf_add(b, data, size);
}

static void put_name(struct buf *b, const void *name, size_t size) {
        _cleanup_buf_ struct buf x = {0};

        put_number(&x, 2, size + 3);
        put_number(&x, 1, 0);
        put_number(&x, 2, size);
        buf_add(&x, name, size);
        put_extension(b, 0, x.data, x.size);
}

/* Parses a hello made of these extensions. */
static enum hello_result parse_with(const struct buf *extensions, struct hello *ret) {
        _cleanup_buf_ struct buf message = {0}, bytes = {0};

        *ret = (struct hello){0};
        put_message(&message, extensions);
        put_records(&bytes, message.data, message.size, 16384);
        return parse(bytes.data, bytes.size, ret);
}

static enum hello_result parse_one(unsigned type, const void *data, size_t size, struct hello *ret) {
        _cleanup_buf_ struct buf x = {0};

        put_extension(&x, type, data, size);
        return parse_with(&x, ret);
}
#define PARSE_ONE(type, text, ret) parse_one(type, text, sizeof(text) - 1, ret)

static void real_hellos_are_read(void) {
        static const struct {
                const char *hex, *name;
                bool named, http1, h2;
        } real[] = {{small, "a.test", true, false, false},
                    {tls13, "example.test", true, false, false},
                    {no_name, "", false, false, false},
                    {node, "registry.example.test", true, true, true}};

        for (size_t i = 0; i < ELEMENTSOF(real); i++) {
                _cleanup_buf_ struct buf b = {0};
                struct hello h = {0};

                put_hex(&b, real[i].hex);
                for (size_t n = 0; n < b.size; n++)
                        CHECK(parse(b.data, n, &h) == HELLO_MORE);
                CHECK(!h.named && h.name[0] == '\0');
                CHECK(parse(b.data, b.size, &h) == HELLO_DONE);
                CHECK_STR(h.name, real[i].name);
                CHECK(h.named == real[i].named && h.alpn_http1 == real[i].http1 && h.alpn_h2 == real[i].h2);
                CHECK(!h.alpn_other && !h.acme && !h.encrypted);
                buf_str(&b, "what follows is not looked at");
                CHECK(parse(b.data, b.size, &h) == HELLO_DONE);
        }
}

static void records_may_be_cut_anywhere(void) {
        static const char *const real[] = {small, tls13, node};

        for (size_t i = 0; i < ELEMENTSOF(real); i++) {
                _cleanup_buf_ struct buf b = {0};
                struct hello whole;

                put_hex(&b, real[i]);
                CHECK(parse(b.data, b.size, &whole) == HELLO_DONE);
                for (size_t piece = 1; piece < b.size; piece += piece < 16 ? 1 : 37) {
                        _cleanup_buf_ struct buf cut = {0};
                        struct hello h;

                        put_records(&cut, b.data + 5, b.size - 5, piece);
                        for (size_t n = 0; n < cut.size; n++)
                                CHECK(parse(cut.data, n, &h) == HELLO_MORE);
                        memset(&h, 0xff, sizeof h);
                        CHECK(parse(cut.data, cut.size, &h) == HELLO_DONE);
                        CHECK_STR(h.name, whole.name);
                        CHECK(h.named && h.alpn_h2 == whole.alpn_h2 && h.encrypted == whole.encrypted);
                }
        }
}

static void a_name_that_is_none_is_empty(void) {
        static const struct {
                const char *sent, *name;
                size_t size;
        } cases[] = {
#define NAME(sent, name) {sent, name, sizeof(sent) - 1}
                NAME("Example.Test", "example.test"),
                NAME("example.test.", "example.test"),
                NAME("example.test\0.evil.test", ""),
                NAME("exam ple.test", ""),
                NAME("127.0.0.1", ""),
                NAME("127.1", ""),
                NAME("::1", ""),
                NAME("[::1]", ""),
                NAME("example.test..", ""),
                NAME("b\303\274cher.test", ""),
                NAME("*.example.test", ""),
                NAME("example.test:443", ""),
                NAME("a@example.test", "")};
        char longest[70000];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_buf_ struct buf x = {0};
                struct hello h;

                put_name(&x, cases[i].sent, cases[i].size);
                CHECK(parse_with(&x, &h) == HELLO_DONE);
                CHECK(h.named);
                CHECK_STR(h.name, cases[i].name);
        }
        memset(longest, 'a', sizeof longest);
        for (size_t size = 250; size < 65000; size = size < 260 ? size + 1 : size * 2) {
                _cleanup_buf_ struct buf x = {0};
                struct hello h;

                put_name(&x, longest, size);
                CHECK(parse_with(&x, &h) == HELLO_DONE);
                CHECK(h.named && h.name[0] == '\0');
        }
}

static void only_one_name_is_accepted(void) {
        _cleanup_buf_ struct buf twice = {0};
        struct hello h;

        put_name(&twice, "a.test", 6);
        CHECK(parse_with(&twice, &h) == HELLO_DONE);
        put_name(&twice, "a.test", 6);
        CHECK(parse_with(&twice, &h) == HELLO_BAD);
        CHECK(!h.named);

        CHECK(PARSE_ONE(0, "\0\011\0\0\006a.test", &h) == HELLO_DONE);
        CHECK(PARSE_ONE(0, "\0\022\0\0\006a.test\0\0\006b.test", &h) == HELLO_BAD); /* two in a list */
        CHECK(PARSE_ONE(0, "\0\022\0\0\006a.test\1\0\006b.test", &h) == HELLO_BAD); /* of another kind */
        CHECK(PARSE_ONE(0, "\0\011\1\0\006a.test", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(0, "\0\012\0\0\006a.test", &h) == HELLO_BAD);  /* list longer than it is */
        CHECK(PARSE_ONE(0, "\0\010\0\0\006a.test", &h) == HELLO_BAD);  /* shorter */
        CHECK(PARSE_ONE(0, "\0\011\0\0\005a.test", &h) == HELLO_BAD);  /* name shorter */
        CHECK(PARSE_ONE(0, "\0\011\0\0\007a.test", &h) == HELLO_BAD);  /* longer */
        CHECK(PARSE_ONE(0, "\0\011\0\0\006a.testx", &h) == HELLO_BAD); /* something behind */
        CHECK(PARSE_ONE(0, "\0\x03\0\0\0", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(0, "\0\0", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(0, "", &h) == HELLO_BAD);
}

static void an_encrypted_hello_is_noticed(void) {
        static const unsigned drafts[] = {0xfe08, 0xfe09, 0xfe0a, 0xff02, 0xffce};
        _cleanup_buf_ struct buf x = {0};
        struct hello h;

        put_name(&x, "outer.test", 10);
        put_extension(&x, 0xfe0d, "\0\0\1\0\1\0\0\0\0\2xx", 12);
        CHECK(parse_with(&x, &h) == HELLO_DONE);
        CHECK(h.encrypted && h.named);
        CHECK_STR(h.name, "outer.test");
        put_extension(&x, 0xfe0d, "\0\0\1\0\1\0\0\0\0\2xx", 12);
        CHECK(parse_with(&x, &h) == HELLO_BAD);

        CHECK(PARSE_ONE(0xfe0d, "\1", &h) == HELLO_BAD); /* inner */
        CHECK(PARSE_ONE(0xfe0d, "\2", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(0xfe0d, "", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(0xfe0e, "\0", &h) == HELLO_DONE && !h.encrypted);
        for (size_t i = 0; i < ELEMENTSOF(drafts); i++)
                CHECK(PARSE_ONE(drafts[i], "\0", &h) == HELLO_DONE && h.encrypted);
}

static void protocols_are_told_apart(void) {
        _cleanup_buf_ struct buf x = {0};
        struct hello h;

        CHECK(PARSE_ONE(16, "\0\x09\x08http/1.1", &h) == HELLO_DONE);
        CHECK(h.alpn_http1 && !h.alpn_h2 && !h.alpn_other && !h.acme);
        CHECK(PARSE_ONE(16, "\0\x0c\x02h2\x08http/1.1", &h) == HELLO_DONE);
        CHECK(h.alpn_http1 && h.alpn_h2 && !h.alpn_other);
        CHECK(PARSE_ONE(16, "\0\013\012acme-tls/1", &h) == HELLO_DONE);
        CHECK(h.acme && !h.alpn_http1 && !h.alpn_other);
        CHECK(PARSE_ONE(16, "\0\x04\x03h2c", &h) == HELLO_DONE);
        CHECK(h.alpn_other && !h.alpn_h2);
        CHECK(PARSE_ONE(16, "\0\x03\x02H2", &h) == HELLO_DONE);
        CHECK(h.alpn_other && !h.alpn_h2);
        CHECK(PARSE_ONE(16, "\0\x06\x02\x3a\x3a\x02h2", &h) == HELLO_DONE); /* a value that means nothing */
        CHECK(!h.alpn_other && h.alpn_h2);
        CHECK(PARSE_ONE(16, "\0\0", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(16, "\0\x01\0", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(16, "\0\x04\x02h2\0", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(16, "\0\x03\x03h2", &h) == HELLO_BAD);
        CHECK(PARSE_ONE(16, "\0\x02\x02h2", &h) == HELLO_BAD);
        put_extension(&x, 16, "\0\x03\x02h2", 5);
        put_extension(&x, 16, "\0\x03\x02h2", 5);
        CHECK(parse_with(&x, &h) == HELLO_BAD);
}

static void other_protocols_are_not_tls(void) {
        struct hello h;
#define PARSE(text) parse(text, sizeof(text) - 1, &h)
        CHECK(PARSE("") == HELLO_MORE);
        CHECK(PARSE("GET / HTTP/1.1\r\n") == HELLO_NOT_TLS);
        CHECK(PARSE("S") == HELLO_NOT_TLS);
        CHECK(PARSE("\0\0\0\x08\x04\xd2\x16\x2f") == HELLO_NOT_TLS); /* PostgreSQL asks for TLS */
        CHECK(PARSE("\x16") == HELLO_MORE);
        CHECK(PARSE("\x16\x02") == HELLO_NOT_TLS);
        CHECK(PARSE("\x16\xfe\xff") == HELLO_NOT_TLS); /* datagrams have no place here */
        CHECK(PARSE("\x15\x03\x01\0\x02\x02\x28") == HELLO_NOT_TLS);
        CHECK(PARSE("\x80") == HELLO_MORE);
        CHECK(PARSE("\x80\x2e\x02") == HELLO_NOT_TLS);
        CHECK(PARSE("\x80\x2e\x01\x05") == HELLO_NOT_TLS);
        CHECK(PARSE("\x80\x2e\x01\0\x03") == HELLO_NOT_TLS);
        /* SSL 2's hello, which may ask for TLS and has no room for a name */
        CHECK(PARSE("\x80\x2e\x01\x03") == HELLO_MORE);
        CHECK(PARSE("\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10") == HELLO_BAD);
        CHECK(PARSE("\x80\x2e\x01\0\x02\0\x15\0\0\0\x10") == HELLO_BAD);
}

static void records_are_checked(void) {
        struct hello h;
        _cleanup_buf_ struct buf b = {0}, message = {0}, bare = {0};

        CHECK(PARSE("\x16\x03\x01\0\0") == HELLO_BAD);                   /* empty */
        CHECK(PARSE("\x16\x03\x01\0\1\1\x16\x03\x01\0\0") == HELLO_BAD); /* the second */
        CHECK(PARSE("\x16\x03\x01\x40\0\1\0\0") == HELLO_MORE);          /* the largest there is */
        CHECK(PARSE("\x16\x03\x01\x40\1") == HELLO_BAD);                 /* larger */
        CHECK(PARSE("\x16\x03\x05") == HELLO_BAD);                       /* a version from the future */
        CHECK(PARSE("\x16\x03\x01\0\x10\x02") == HELLO_BAD);             /* a server's hello */
        CHECK(PARSE("\x16\x03\x01\0\1\1\x14") == HELLO_BAD);             /* another kind in between */
        CHECK(PARSE("\x16\x03\x01\0\1\1\x16\x02") == HELLO_BAD);
        CHECK(PARSE("\x16\x03\x01\0\4\1\0\xff\xfc") == HELLO_MORE); /* as long as may be */
        CHECK(PARSE("\x16\x03\x01\0\4\1\0\xff\xfd") == HELLO_BAD);  /* 64 KiB and more */
        CHECK(PARSE("\x16\x03\x01\0\4\1\xff\xff\xff") == HELLO_BAD);
        CHECK(PARSE("\x16\x03\x01\0\4\1\0\0\0") == HELLO_BAD); /* nothing in it */

        put_message(&message, NULL); /* extensions are optional */
        put_records(&b, message.data, message.size, 16384);
        h = (struct hello){.named = true};
        CHECK(parse(b.data, b.size, &h) == HELLO_DONE && !h.named);
        message.data[3]++; /* one byte more in the message than it has use for */
        buf_add(&message, "", 1);
        put_records(&bare, message.data, message.size, 16384);
        CHECK(parse(bare.data, bare.size, &h) == HELLO_BAD);
}

/* A hello filled up to `size` bytes of message. */
static void put_padded(struct buf *message, size_t size) {
        _cleanup_buf_ struct buf x = {0};
        static const char zeros[HELLO_MAX];

        put_name(&x, "big.test", 8);
        put_extension(&x, 21, zeros, size - 4 - 43 - x.size - 4);
        put_message(message, &x);
        CHECK(message->size == size);
}

/* Takes one byte of a good hello for another: is it refused then? */
static bool bad_with(size_t at, char before, char after) {
        _cleanup_buf_ struct buf x = {0}, message = {0}, bytes = {0};
        struct hello h;

        put_name(&x, "a.test", 6);
        put_message(&message, &x);
        put_records(&bytes, message.data, message.size, 16384);
        CHECK(bytes.data[at] == before && parse(bytes.data, bytes.size, &h) == HELLO_DONE);
        bytes.data[at] = after;
        return parse(bytes.data, bytes.size, &h) == HELLO_BAD;
}

static void the_fixed_part_is_checked(void) {
        _cleanup_buf_ struct buf x = {0}, b = {0};
        char session[64] = {0};
        struct hello h;

        CHECK(bad_with(9, 3, 2));  /* version */
        CHECK(bad_with(43, 0, 1)); /* session: every length shifts what follows */
        CHECK(bad_with(45, 2, 0)); /* cipher suites */
        CHECK(bad_with(45, 2, 3));
        CHECK(bad_with(48, 1, 0));   /* compression */
        CHECK(bad_with(51, 15, 14)); /* extensions: shorter than the message, longer */
        CHECK(bad_with(51, 15, 16));

        for (unsigned variant = 0; variant < 4; variant++) { /* whole otherwise, with one block of a wrong length */
                size_t id = variant == 1 ? 33 : 32, suites = variant == 2 ? 3 : 2, methods = variant == 3 ? 0 : 1;
                _cleanup_buf_ struct buf message = {0}, bytes = {0};

                put_number(&message, 1, 1);
                put_number(&message, 3, 2 + 32 + 1 + id + 2 + suites + 1 + methods);
                put_number(&message, 2, 0x0303);
                buf_add(&message, session, 32);
                put_number(&message, 1, id);
                buf_add(&message, session, id);
                put_number(&message, 2, suites);
                buf_add(&message, session, suites);
                put_number(&message, 1, methods);
                buf_add(&message, session, methods);
                put_records(&bytes, message.data, message.size, 16384);
                CHECK(parse(bytes.data, bytes.size, &h) == (variant ? HELLO_BAD : HELLO_DONE));
        }

        put_name(&x, "a.test", 6); /* a whole block of extensions, and a byte behind it */
        put_message(&b, &x);
        b.data[3]++;
        buf_add(&b, "", 1);
        x.size = 0;
        put_records(&x, b.data, b.size, 16384);
        CHECK(parse(x.data, x.size, &h) == HELLO_BAD);
}

static void size_is_bounded(void) {
        for (size_t overhead = 0; overhead < 2; overhead++) {
                _cleanup_buf_ struct buf message = {0}, b = {0};
                struct hello h = {0};

                put_padded(&message, HELLO_MAX - (size_t)4 * 5 + overhead);
                put_records(&b, message.data, message.size, 16384);
                CHECK(b.size == HELLO_MAX + overhead);
                CHECK(parse(b.data, HELLO_MAX - 1, &h) == HELLO_MORE);
                CHECK(parse(b.data, b.size, &h) == (overhead ? HELLO_BAD : HELLO_DONE));
                CHECK(overhead || str_eq(h.name, "big.test"));
        }
        for (size_t extra = 0; extra < 2; extra++) {
                _cleanup_buf_ struct buf message = {0}, b = {0};
                struct hello h = {0};

                put_padded(&message, HELLO_RECORDS_MAX + extra);
                put_records(&b, message.data, message.size, 1);
                CHECK(parse(b.data, b.size, &h) == (extra ? HELLO_BAD : HELLO_DONE));
        }
}

/* Whatever bit is wrong: a result, within the bytes, and never a name with bytes that no name has. */
static void damage_is_survived(void) {
        static const char *const real[] = {small, node};

        for (size_t i = 0; i < ELEMENTSOF(real); i++) {
                _cleanup_buf_ struct buf b = {0};

                put_hex(&b, real[i]);
                for (size_t bit = 0; bit < 8 * b.size; bit++) {
                        struct hello h = {0};
                        char again[HOSTNAME_SIZE];

                        b.data[bit / 8] = (char)(b.data[bit / 8] ^ (1 << bit % 8));
                        if (parse(b.data, b.size, &h) == HELLO_DONE && h.name[0])
                                CHECK(hostname_canonical(h.name, strlen(h.name), again) > 0 && str_eq(again, h.name));
                        b.data[bit / 8] = (char)(b.data[bit / 8] ^ (1 << bit % 8));
                }
        }
}

static void the_alert_is_one_record(void) {
        uint8_t alert[HELLO_ALERT_SIZE];

        hello_alert(112, alert);
        CHECK(memcmp(alert, "\x15\x03\x03\0\x02\x02\x70", sizeof alert) == 0);
}

TEST_MAIN(TEST(real_hellos_are_read), TEST(records_may_be_cut_anywhere), TEST(a_name_that_is_none_is_empty),
          TEST(only_one_name_is_accepted), TEST(an_encrypted_hello_is_noticed), TEST(protocols_are_told_apart),
          TEST(other_protocols_are_not_tls), TEST(records_are_checked), TEST(the_fixed_part_is_checked),
          TEST(size_is_bounded), TEST(damage_is_survived), TEST(the_alert_is_one_record))
