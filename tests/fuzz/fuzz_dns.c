/* Fuzz target: DNS questions. What dns_parse accepts has a name that is canonical or none at all, and is answered with
 * its own question, within the bound. */
#include "gate/dns.h"
#include "tests/fuzz/fuzz.h"

static void check_answer(const uint8_t *data, const struct dns_question *q, enum dns_code code, size_t count) {
        static const uint8_t addresses[4 * 16];
        uint8_t answer[DNS_ANSWER_MAX];
        size_t n = dns_answer(data, q, code, addresses, count, 60, "a reason", answer);

        assert(n >= q->end && n <= 512);
        assert(answer[0] == data[0] && answer[1] == data[1] && (answer[2] & 0x80) && (answer[3] & 15) == code);
        assert(memcmp(answer + 12, data + 12, q->end - 12) == 0);
        assert(answer[7] <= count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char again[HOSTNAME_SIZE], printed[HOSTNAME_SIZE];
        struct dns_question q;
        int r = dns_parse(data, size, &q);

        if (size < 12) {
                assert(r == -ENOMSG);
                return 0;
        }
        dns_print_name(data, &q, printed);
        assert(strlen(printed) < 254 && !strpbrk(printed, "\n\033 "));
        if (r < 0) {
                assert(q.end == 12 && !q.edns && !q.named);
                check_answer(data, &q, DNS_FORMERR, 0);
                return 0;
        }
        assert(q.end <= size && q.class == 1 && q.named == (q.name[0] != '\0'));
        if (q.named)
                assert(hostname_canonical(q.name, strlen(q.name), again) > 0 && str_eq(again, q.name));
        check_answer(data, &q, DNS_NOERROR, q.type == DNS_A || q.type == DNS_AAAA ? 4 : 0);
        check_answer(data, &q, DNS_REFUSED, 0);
        return 0;
}
