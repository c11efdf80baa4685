/* The first bytes of a TLS connection: which server does the client name? Pure, and stateless: it is called again with
 * all bytes so far (peeked from the socket) until it knows.
 *
 * Handles a hello in several records and records in several packets. What follows the hello is not looked at. */
#pragma once

#include "wire/gate.h"

#define HELLO_MAX         (64 * 1024) /* bytes that are looked at, records' headers included: with as many it always knows */
#define HELLO_RECORDS_MAX 1024        /* pieces that a hello may come in */

enum hello_result {
        HELLO_MORE,    /* so far it may be one */
        HELLO_NOT_TLS, /* the first bytes are not a TLS handshake record */
        HELLO_BAD, /* TLS, but malformed, too large, or with two server names; or the hello of SSL 2, which names none
                      and which servers may still answer */
        HELLO_DONE,
};

struct hello {
        bool named;               /* it has a server name */
        char name[HOSTNAME_SIZE]; /* canonical; "" if the name it has is not one */
        bool encrypted;           /* it carries an encrypted hello (ECH): the name above is the outer one */
        bool alpn_http1, alpn_h2, alpn_other;
        bool acme; /* offers acme-tls/1 */
};

/* *ret is untouched unless the result is HELLO_DONE. */
enum hello_result hello_parse(const uint8_t *bytes, size_t size, struct hello *ret);
/* A fatal alert record (handshake_failure 40, unrecognized_name 112, access_denied 49) to refuse with. */
#define HELLO_ALERT_SIZE 7
void hello_alert(uint8_t description, uint8_t ret[HELLO_ALERT_SIZE]);
