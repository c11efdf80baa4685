/* DNS messages as the gate needs them: one question in, one answer out. Pure.
 *
 * Everything that is not a plain question (one question, class IN, opcode 0, no answers; one OPT record at most in the
 * additional part) is malformed. Names are read without compression pointers: a question has no use for them. */
#pragma once

#include "wire/gate.h"

#define DNS_QUERY_MAX  4096
#define DNS_ANSWER_MAX 1232

enum dns_type { DNS_A = 1, DNS_AAAA = 28, DNS_SVCB = 64, DNS_HTTPS = 65 };
enum dns_code { DNS_NOERROR = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_question {
        uint16_t id;
        uint16_t flags;
        uint16_t type, class;
        bool edns;
        bool named;               /* it is a host name; otherwise it had bytes or labels that none has */
        char name[HOSTNAME_SIZE]; /* canonical; "" if it is not a host name */
        size_t end;               /* where the question section ends in the query, for copying it back */
};

/* 0; -EBADMSG: answer FORMERR (id and flags are set, the question is not repeated); -ENOMSG: say nothing, it is shorter
 * than a header or is an answer itself. */
int dns_parse(const uint8_t *query, size_t size, struct dns_question *ret);

/* The question's name for a person, whatever its bytes are: what is not a letter, digit, '-', '_' or '.' is a '?'. ""
 * if there is no question that could be read. */
void dns_print_name(const uint8_t *query, const struct dns_question *q, char ret[HOSTNAME_SIZE]);

/* Writes an answer: the question copied from the query, and count addresses (4 or 16 bytes each, as type says; count is
 * 0 for other types) with a TTL. An EDNS question gets an EDNS answer. Refusals of EDNS questions carry an extended
 * error (RFC 8914: 17 filtered, with text) when text is not NULL. Returns its size, which is at most 512: what does not
 * fit (addresses, then text) is left out, so that no answer has to be asked for again over TCP. */
size_t dns_answer(const uint8_t *query, const struct dns_question *q, enum dns_code code, const uint8_t *addresses,
                  size_t count, uint32_t ttl, const char *text, uint8_t ret[DNS_ANSWER_MAX]);
