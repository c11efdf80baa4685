/* DNS messages. Two things are never done here: following a pointer, and reading a byte before it is known to be there.
 *
 * A question is taken apart only as far as it is needed: its name becomes text once, and that text is what is judged.
 * Labels are bytes, and a label may hold a dot: such a name would read like another one, so it is none. In an answer
 * the question is repeated byte for byte, because clients vary the case of letters and look for it. */
#include "gate/dns.h"

#define HEADER_SIZE   12
#define NAME_SIZE_MAX 255 /* bytes of a name, with the lengths of its labels and the last 0 */
#define LABEL_MAX     63
#define UDP_SIZE      512 /* what every client takes */
#define CLASS_IN      1
#define TYPE_OPT      41
#define RECORD_SIZE   12 /* of an address, without it; the name is a pointer */
#define OPT_SIZE      11 /* an OPT record without options */
#define EXTENDED      15 /* the option: RFC 8914 */
#define FILTERED      17
#define FLAG_ANSWER   0x8000
#define FLAG_OPCODE   0x7800
#define FLAG_RD       0x0100
#define FLAG_RA       0x0080
#define FLAG_CD       0x0010

static uint16_t get_u16(const uint8_t *p) {
        return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t *put_u16(uint8_t *p, unsigned v) {
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
        return p + 2;
}

static uint8_t *put_u32(uint8_t *p, uint32_t v) {
        return put_u16(put_u16(p, v >> 16), v & 0xffff);
}

/* Walks the name that begins at `at`: its length in bytes, 0 if it is not one. text gets the labels with dots between
 * them; *ret_plain says that no label has a dot of its own. */
static size_t read_name(const uint8_t *query, size_t size, size_t at, char text[NAME_SIZE_MAX], size_t *ret_length,
                        bool *ret_plain) {
        size_t start = at, length = 0;
        bool plain = true;

        for (;;) {
                if (at >= size || query[at] > LABEL_MAX)
                        return 0; /* cut off, a pointer, or a kind of label that nobody uses */
                size_t label = query[at++];
                if (label == 0)
                        break;
                if (label > size - at || at + label - start >= NAME_SIZE_MAX)
                        return 0; /* cut off, or no room for the last 0 */
                if (length > 0)
                        text[length++] = '.';
                memcpy(text + length, query + at, label);
                plain = plain && !memchr(query + at, '.', label);
                length += label;
                at += label;
        }
        *ret_length = length;
        *ret_plain = plain;
        return at - start;
}

/* One OPT record that ends where the message ends: true. Its options are walked, and none is of interest. */
static bool read_opt(const uint8_t *p, size_t size) {
        if (size < OPT_SIZE || p[0] != 0 || get_u16(p + 1) != TYPE_OPT || p[6] != 0 /* version */)
                return false;
        if (get_u16(p + 9) != size - OPT_SIZE)
                return false;
        for (size_t at = OPT_SIZE; at < size;) {
                if (size - at < 4 || get_u16(p + at + 2) > size - at - 4)
                        return false;
                at += 4u + get_u16(p + at + 2);
        }
        return true;
}

int dns_parse(const uint8_t *query, size_t size, struct dns_question *ret) {
        char text[NAME_SIZE_MAX];
        size_t length, name;
        bool plain;

        *ret = (struct dns_question){.end = HEADER_SIZE};
        if (size < HEADER_SIZE)
                return -ENOMSG;
        struct dns_question q = {.id = get_u16(query), .flags = get_u16(query + 2), .end = HEADER_SIZE};
        *ret = q;
        if (q.flags & FLAG_ANSWER)
                return -ENOMSG;
        unsigned additional = get_u16(query + 10);
        if (q.flags & FLAG_OPCODE || get_u16(query + 4) != 1 || get_u16(query + 6) != 0 || get_u16(query + 8) != 0 ||
            additional > 1 || size > DNS_QUERY_MAX)
                return -EBADMSG;
        name = read_name(query, size, HEADER_SIZE, text, &length, &plain);
        if (name == 0 || size - HEADER_SIZE - name < 4)
                return -EBADMSG;
        q.end = HEADER_SIZE + name + 4;
        q.type = get_u16(query + q.end - 4);
        q.class = get_u16(query + q.end - 2);
        q.edns = additional == 1;
        if (q.class != CLASS_IN || (q.edns ? !read_opt(query + q.end, size - q.end) : size != q.end))
                return -EBADMSG;
        q.named = plain && hostname_canonical(text, length, q.name) > 0;
        if (!q.named)
                q.name[0] = '\0';
        *ret = q;
        return 0;
}

void dns_print_name(const uint8_t *query, const struct dns_question *q, char ret[HOSTNAME_SIZE]) {
        static const char kept[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
        char text[NAME_SIZE_MAX];
        size_t length = 0;
        bool plain;

        if (q->end <= HEADER_SIZE || read_name(query, q->end, HEADER_SIZE, text, &length, &plain) == 0)
                length = 0;
        for (size_t i = 0; i < length; i++)
                ret[i] = text[i] != '\0' && strchr(kept, text[i]) ? text[i] : '?';
        ret[length] = '\0';
}

/* As many addresses as fit before `end`. */
static uint8_t *put_addresses(uint8_t *p, const uint8_t *end, const struct dns_question *q, const uint8_t *addresses,
                              size_t *count, uint32_t ttl) {
        size_t each = q->type == DNS_A ? 4 : q->type == DNS_AAAA ? 16 : 0, put = 0;

        for (; each > 0 && put < *count && (size_t)(end - p) >= RECORD_SIZE + each; put++) {
                p = put_u16(p, 0xc000 | HEADER_SIZE); /* the name: that of the question */
                p = put_u16(p, q->type);
                p = put_u16(p, CLASS_IN);
                p = put_u32(p, ttl);
                p = put_u16(p, (unsigned)each);
                memcpy(p, addresses + put * each, each);
                p += each;
        }
        *count = put;
        return p;
}

/* The OPT record of an answer, and in it the reason of a refusal. */
static uint8_t *put_opt(uint8_t *p, const uint8_t *end, const char *text) {
        size_t option = 0, length = 0;

        if (text) {
                length = strnlen(text, (size_t)(end - p) - OPT_SIZE - 6);
                option = 6 + length;
        }
        *p++ = 0;
        p = put_u16(p, TYPE_OPT);
        p = put_u16(p, DNS_ANSWER_MAX); /* what we take, over UDP */
        p = put_u32(p, 0);
        p = put_u16(p, (unsigned)option);
        if (text) {
                p = put_u16(p, EXTENDED);
                p = put_u16(p, (unsigned)(2 + length));
                p = put_u16(p, FILTERED);
                memcpy(p, text, length);
                p += length;
        }
        return p;
}

size_t dns_answer(const uint8_t *query, const struct dns_question *q, enum dns_code code, const uint8_t *addresses,
                  size_t count, uint32_t ttl, const char *text, uint8_t ret[DNS_ANSWER_MAX]) {
        const uint8_t *end = ret + UDP_SIZE;
        size_t question = q->end - HEADER_SIZE;
        uint8_t *p = ret + HEADER_SIZE;

        assert(q->end >= HEADER_SIZE && question <= NAME_SIZE_MAX + 4);
        if (question > 0)
                memcpy(p, query + HEADER_SIZE, question);
        p = put_addresses(p + question, end - (q->edns ? OPT_SIZE + 6 : 0), q, addresses, &count, ttl);
        if (q->edns)
                p = put_opt(p, end, code != DNS_NOERROR ? text : NULL);

        uint8_t *h = put_u16(ret, q->id);
        h = put_u16(h, FLAG_ANSWER | FLAG_RA | (q->flags & (FLAG_OPCODE | FLAG_RD | FLAG_CD)) | (unsigned)code);
        h = put_u16(h, question > 0);
        h = put_u16(h, (unsigned)count);
        h = put_u16(h, 0);
        (void)put_u16(h, q->edns);
        return (size_t)(p - ret);
}
