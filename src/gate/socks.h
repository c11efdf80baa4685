/* SOCKS5 (RFC 1928), CONNECT only, no authentication. Pure and stateless: called with all bytes so far. */
#pragma once

#include "base/address.h"
#include "wire/gate.h"

#define SOCKS_MAX 600

enum socks_result { SOCKS_MORE, SOCKS_BAD, SOCKS_DONE };

/* The greeting: *ret_size is its length when DONE; no_auth: the client offers "no authentication". */
enum socks_result socks_greeting(const uint8_t *bytes, size_t size, size_t *ret_size, bool *ret_no_auth);

struct socks_request {
        uint8_t command;          /* 1 CONNECT; others are refused with reply 7 */
        bool named;               /* a name was given; otherwise an address */
        char name[HOSTNAME_SIZE]; /* canonical, or "" if it is not a name. A name that is an address in its exact text
                                     form counts as that address */
        struct address address;
        uint16_t port;
};
enum socks_result socks_request(const uint8_t *bytes, size_t size, size_t *ret_size, struct socks_request *ret);

#define SOCKS_REPLY_SIZE 10
void socks_reply(uint8_t code, uint8_t ret[SOCKS_REPLY_SIZE]);
