/* Unit tests of DNS messages: questions as resolvers send them, every way in which one can be wrong, and answers byte
 * by byte. */
#include "base/test.h"
#include "gate/dns.h"

#define MAX_QUERY 70000

struct query {
        uint8_t bytes[MAX_QUERY];
        size_t size;
};
static struct query query;

static void put(const void *bytes, size_t size) {
        memcpy(query.bytes + query.size, bytes, size);
        query.size += size;
}
#define PUT(s) put(s, sizeof(s) - 1)

/* A header with RD, and its counts. */
static void begin(unsigned questions, unsigned answers, unsigned authorities, unsigned additional) {
        query.size = 0;
        PUT("\x12\x34\1\0\0");
        put(&(uint8_t){(uint8_t)questions}, 1);
        PUT("\0");
        put(&(uint8_t){(uint8_t)answers}, 1);
        PUT("\0");
        put(&(uint8_t){(uint8_t)authorities}, 1);
        PUT("\0");
        put(&(uint8_t){(uint8_t)additional}, 1);
}

/* Labels are separated by dots here; a last 0 follows. */
static void put_name(const char *name) {
        while (*name) {
                size_t n = strcspn(name, ".");
                put(&(uint8_t){(uint8_t)n}, 1);
                put(name, n);
                name += n + (name[n] == '.');
        }
        PUT("\0");
}

static void ask(const char *name, unsigned type) {
        begin(1, 0, 0, 0);
        put_name(name);
        put((uint8_t[]){(uint8_t)(type >> 8), (uint8_t)type, 0, 1}, 4);
}

static void ask_edns(const char *name, unsigned type) {
        ask(name, type);
        query.bytes[11] = 1;
        PUT("\0\0\51\x04\xd0\0\0\0\0\0\0");
}

/* From memory that ends where the query ends, so that reading too far shows. */
static int parse_bytes(const uint8_t *bytes, size_t size, struct dns_question *q) {
        uint8_t *copy = malloc(size + 1);

        assert(copy);
        memcpy(copy + 1, bytes, size);
        int r = dns_parse(copy + 1, size, q);
        free(copy);
        return r;
}

static int parse(struct dns_question *q) {
        return parse_bytes(query.bytes, query.size, q);
}

static int parse_now(void) {
        struct dns_question q;

        return parse(&q);
}

static void questions(void) {
        struct dns_question q;

        ask("eXample.COM", DNS_A);
        CHECK(parse(&q) == 0);
        CHECK(q.id == 0x1234 && q.flags == 0x0100 && q.type == DNS_A && q.class == 1 && q.named && !q.edns);
        CHECK(q.end == query.size);
        CHECK_STR(q.name, "example.com");
        ask_edns("a-b_c.example", DNS_HTTPS);
        CHECK(parse(&q) == 0 && q.edns && q.type == DNS_HTTPS && q.end == query.size - 11);
        CHECK_STR(q.name, "a-b_c.example");
        ask("localhost", 255);
        CHECK(parse(&q) == 0 && q.named && q.type == 255);
        /* with options: a cookie and an empty one */
        ask_edns("example.com", DNS_A);
        query.bytes[query.size - 1] = 16;
        PUT("\0\12\0\10cookie!!\0\3\0\0");
        CHECK(parse(&q) == 0 && q.edns);
        /* AD and CD are as good as any */
        ask("example.com", DNS_AAAA);
        query.bytes[3] = 0x30;
        CHECK(parse(&q) == 0);
}

static void every_prefix_is_refused(void) {
        struct dns_question q;

        ask_edns("example.com", DNS_A);
        for (size_t n = 0; n < query.size; n++) {
                CHECK(parse_bytes(query.bytes, n, &q) == (n < 12 ? -ENOMSG : -EBADMSG));
                CHECK(n < 12 || (q.id == 0x1234 && q.end == 12 && !q.edns));
        }
        CHECK(parse(&q) == 0);
        PUT("\0");
        CHECK(parse(&q) == -EBADMSG); /* and one byte more */
        ask("example.com", DNS_A);
        PUT("\0");
        CHECK(parse(&q) == -EBADMSG);
}

static void headers_that_are_no_question(void) {
        static const uint8_t counts[][4] = {{0, 0, 0, 1}, {2, 0, 0, 1}, {255, 0, 0, 1}, {1, 1, 0, 1},
                                            {1, 0, 1, 1}, {1, 0, 0, 2}, {1, 0, 0, 0}};
        struct dns_question q;

        for (size_t i = 0; i < ELEMENTSOF(counts); i++) {
                ask_edns("example.com", DNS_A);
                for (unsigned k = 0; k < 4; k++)
                        query.bytes[5 + 2 * k] = counts[i][k];
                CHECK(parse_now() == -EBADMSG);
        }
        ask("example.com", DNS_A);
        query.bytes[11] = 2; /* promised, and not there */
        CHECK(parse_now() == -EBADMSG);
        ask("example.com", DNS_A);
        query.bytes[4] = 1; /* 257 of them */
        CHECK(parse_now() == -EBADMSG);
        ask("example.com", DNS_A);
        query.bytes[2] |= 0x80;
        CHECK(parse(&q) == -ENOMSG && q.id == 0x1234); /* an answer is never answered */
        for (unsigned opcode = 1; opcode < 16; opcode++) {
                ask("example.com", DNS_A);
                query.bytes[2] = (uint8_t)(opcode << 3);
                CHECK(parse(&q) == -EBADMSG && (q.flags >> 11 & 15) == opcode);
        }
        static const uint8_t classes[] = {0, 2, 3, 4, 254, 255};
        for (size_t i = 0; i < sizeof classes; i++) {
                ask("example.com", DNS_A);
                query.bytes[query.size - 1] = classes[i];
                CHECK(parse_now() == -EBADMSG);
        }
}

static void names_that_are_malformed(void) {
        begin(1, 0, 0, 0);
        PUT("\300\14\0\1\0\1"); /* a pointer to itself */
        CHECK(parse_now() == -EBADMSG);
        begin(1, 0, 0, 0);
        PUT("\3www\300\14\0\1\0\1");
        CHECK(parse_now() == -EBADMSG);
        begin(1, 0, 0, 0);
        PUT("\300\0\0\1\0\1"); /* into the header */
        CHECK(parse_now() == -EBADMSG);
        begin(1, 0, 0, 0);
        PUT("\101\1\200\0\0\1\0\1"); /* other kinds of labels */
        CHECK(parse_now() == -EBADMSG);
        char label[65];
        memset(label, 'a', 64);
        label[63] = '\0';
        ask(label, DNS_A);
        CHECK(parse_now() == 0);
        label[63] = 'a';
        label[64] = '\0';
        ask(label, DNS_A);
        CHECK(parse_now() == -EBADMSG);
        begin(1, 0, 0, 0);
        PUT("\77short\0\0\1\0\1"); /* a length that reaches past the end */
        CHECK(parse_now() == -EBADMSG);
        begin(1, 0, 0, 0);
        PUT("\7example\3com"); /* never ends */
        CHECK(parse_now() == -EBADMSG);
}

/* Names by their length on the wire: 255 is the last that is a name, with or without a label of full length at its
 * end; 65,535 bytes of them end nowhere. */
static void long_names(void) {
        for (unsigned size = 240; size <= 300; size++) {
                struct dns_question q;

                begin(1, 0, 0, 0);
                unsigned left = size - 1;
                while (left > 0) {
                        unsigned label = MIN(left - 1, 63u);
                        if (left - 1 - label == 1)
                                label--; /* what is left must be a label, too */
                        put(&(uint8_t){(uint8_t)label}, 1);
                        for (unsigned i = 0; i < label; i++)
                                PUT("x");
                        left -= label + 1;
                }
                PUT("\0\0\1\0\1");
                CHECK(query.size == 12 + size + 4);
                CHECK(parse(&q) == (size <= 255 ? 0 : -EBADMSG));
                CHECK(size > 255 || (q.named && strlen(q.name) == size - 2));
        }
        begin(1, 0, 0, 0);
        for (unsigned i = 0; i < 65535 / 2; i++)
                PUT("\1x");
        PUT("\0\0\1\0\1");
        CHECK(parse_now() == -EBADMSG);
        begin(1, 0, 0, 1); /* an option that makes the whole too long */
        PUT("\1x\0\0\1\0\1\0\0\51\4\320\0\0\0\0\377\377\0\14\377\373");
        memset(query.bytes + query.size, 0, 65531);
        query.size += 65531;
        CHECK(parse_now() == -EBADMSG);
}

static void names_that_no_host_has(void) {
        static const struct {
                const char *labels;
                size_t size;
                const char *printed;
        } rows[] = {
#define ROW(s, printed) {s, sizeof(s) - 1, printed}
                ROW("", ""),
                ROW("\13example.com", "example.com"), /* one label with a dot in it */
                ROW("\10example.\3com", "example..com"),
                ROW("\7example\4com.", "example.com."),
                ROW("\10evil\0foo\3com", "evil?foo.com"),
                ROW("\5a\nb\033c\3com", "a?b?c.com"),
                ROW("\4a bc\3com", "a?bc.com"),
                ROW("\1*\7example\3com", "?.example.com"),
                ROW("\4-abc\3com", "-abc.com"),
                ROW("\3abc\003127", "abc.127"),
                ROW("\4\303\244bc\3com", "??bc.com"),
#undef ROW
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct dns_question q;
                char printed[HOSTNAME_SIZE];

                begin(1, 0, 0, 0);
                put(rows[i].labels, rows[i].size);
                PUT("\0\0\1\0\1");
                CHECK(parse(&q) == 0);
                CHECK(!q.named);
                CHECK_STR(q.name, "");
                dns_print_name(query.bytes, &q, printed);
                CHECK_STR(printed, rows[i].printed);
        }
}

static void additional_parts_that_are_wrong(void) {
        ask_edns("example.com", DNS_A);
        size_t opt = query.size - 11;
        static const struct {
                size_t at;
                uint8_t byte;
        } rows[] = {
                {0, 1}, {0, 0xc0}, {1, 1}, {2, 250}, {2, 1}, {6, 1}, {9, 1}, {10, 1}, {10, 4},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                ask_edns("example.com", DNS_A);
                query.bytes[opt + rows[i].at] = rows[i].byte;
                CHECK(parse_now() == -EBADMSG);
        }
        ask_edns("example.com", DNS_A); /* two of them, counted as one and as two */
        PUT("\0\0\51\x04\xd0\0\0\0\0\0\0");
        CHECK(parse_now() == -EBADMSG);
        query.bytes[11] = 2;
        CHECK(parse_now() == -EBADMSG);
        ask_edns("example.com", DNS_A); /* an option longer than its record */
        query.bytes[query.size - 1] = 5;
        PUT("\0\12\0\2x");
        CHECK(parse_now() == -EBADMSG);
        ask_edns("example.com", DNS_A); /* three bytes of an option */
        query.bytes[query.size - 1] = 3;
        PUT("\0\12\0");
        CHECK(parse_now() == -EBADMSG);
}

static uint8_t answer[DNS_ANSWER_MAX];

static size_t answer_now(enum dns_code code, const char *addresses, size_t count, const char *text) {
        struct dns_question q;

        (void)parse(&q);
        memset(answer, 0xee, sizeof answer);
        return dns_answer(query.bytes, &q, code, (const uint8_t *)addresses, count, 60, text, answer);
}
#define IS(size, s) ((size) == sizeof(s) - 1 && memcmp(answer, s, sizeof(s) - 1) == 0)

static void answers(void) {
        ask("eX.Com", DNS_A); /* letters as they were asked */
        CHECK(IS(answer_now(DNS_NOERROR, "\306\22\1\0", 1, NULL),
                 "\x12\x34\x81\x80\0\1\0\1\0\0\0\0\2eX\3Com\0\0\1\0\1\xc0\x0c\0\1\0\1\0\0\0\74\0\4\306\22\1\0"));
        CHECK(IS(answer_now(DNS_NOERROR, "\306\22\1\0\306\22\1\1", 2, NULL),
                 "\x12\x34\x81\x80\0\1\0\2\0\0\0\0\2eX\3Com\0\0\1\0\1\xc0\x0c\0\1\0\1\0\0\0\74\0\4\306\22\1\0"
                 "\xc0\x0c\0\1\0\1\0\0\0\74\0\4\306\22\1\1"));
        CHECK(IS(answer_now(DNS_REFUSED, NULL, 0, "no rule"), "\x12\x34\x81\x85\0\1\0\0\0\0\0\0\2eX\3Com\0\0\1\0\1"));
        ask_edns("x", DNS_AAAA);
        CHECK(IS(answer_now(DNS_NOERROR, "0123456789abcdef", 1, "unsaid"),
                 "\x12\x34\x81\x80\0\1\0\1\0\0\0\1\1x\0\0\34\0\1\xc0\x0c\0\34\0\1\0\0\0\74\0\20"
                 "0123456789abcdef\0\0\51\4\320\0\0\0\0\0\0"));
        CHECK(IS(answer_now(DNS_REFUSED, NULL, 0, "no rule"),
                 "\x12\x34\x81\x85\0\1\0\0\0\0\0\1\1x\0\0\34\0\1\0\0\51\4\320\0\0\0\0\0\15\0\17\0\11\0\21no rule"));
        CHECK(IS(answer_now(DNS_REFUSED, NULL, 0, NULL),
                 "\x12\x34\x81\x85\0\1\0\0\0\0\0\1\1x\0\0\34\0\1\0\0\51\4\320\0\0\0\0\0\0"));
        ask("x", DNS_HTTPS); /* there is none, and that is all right */
        CHECK(IS(answer_now(DNS_NOERROR, NULL, 0, NULL), "\x12\x34\x81\x80\0\1\0\0\0\0\0\0\1x\0\0\101\0\1"));
        query.bytes[2] = 0; /* RD and CD come back as they came, AD and Z do not */
        query.bytes[3] = 0x70;
        CHECK(answer_now(DNS_NOERROR, NULL, 0, NULL) > 12 && answer[2] == 0x80 && answer[3] == 0x90);
}

static void answers_to_malformed_questions(void) {
        ask_edns("example.com", DNS_A);
        query.bytes[5] = 2;
        query.bytes[2] = 0x29; /* opcode 5 */
        CHECK(IS(answer_now(DNS_FORMERR, NULL, 0, "text"), "\x12\x34\xa9\x81\0\0\0\0\0\0\0\0"));
        struct dns_question q;
        char printed[HOSTNAME_SIZE] = "x";
        (void)parse(&q);
        dns_print_name(query.bytes, &q, printed);
        CHECK_STR(printed, "");
}

/* The longest question, more addresses than fit, more text than fits: never over 512, and whole. */
static void answers_have_a_bound(void) {
        char name[255], addresses[64 * 16] = {0}, text[2000];

        memset(name, 'x', sizeof name - 1);
        name[253] = '\0';
        for (size_t dot = 63; dot < 253; dot += 64)
                name[dot] = '.';
        memset(text, 't', sizeof text);
        text[sizeof text - 1] = '\0';
        ask(name, DNS_AAAA);
        CHECK(query.size == 271);
        CHECK(answer_now(DNS_NOERROR, addresses, 64, NULL) == 271 + 8 * 28 && answer[7] == 8);
        ask_edns(name, DNS_AAAA);
        CHECK(answer_now(DNS_NOERROR, addresses, 64, NULL) == 271 + 8 * 28 + 11 && answer[7] == 8);
        CHECK(answer_now(DNS_REFUSED, NULL, 0, text) == 512);
        ask_edns(name + 5, DNS_A); /* one more address would leave no room for the last record */
        CHECK(answer_now(DNS_NOERROR, addresses, 64, NULL) == 266 + 14 * 16 + 11 && answer[7] == 14);
        ask_edns(name, DNS_A);
        CHECK(answer_now(DNS_REFUSED, NULL, 0, text) == 512);
        CHECK(answer[271 + 9] == 0 && answer[271 + 10] == 512 - 271 - 11);
        CHECK(answer[512] == 0xee);
}

TEST_MAIN(TEST(questions), TEST(every_prefix_is_refused), TEST(headers_that_are_no_question),
          TEST(names_that_are_malformed), TEST(long_names), TEST(names_that_no_host_has),
          TEST(additional_parts_that_are_wrong), TEST(answers), TEST(answers_to_malformed_questions),
          TEST(answers_have_a_bound))
