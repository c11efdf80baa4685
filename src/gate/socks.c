/* SOCKS5. A client is told nothing until what it said is whole, and a message is judged by its first byte that is
 * wrong: nobody can make the gate wait for the rest of something that is bad already.
 *
 * The name in a request has a length in front, so it may hold any byte. It is never treated as a C string before it
 * has become canonical: what stands before a NUL is not the name. */
#include "gate/socks.h"

#define VERSION      5
#define NO_AUTH      0
#define TYPE_V4      1
#define TYPE_NAME    3
#define TYPE_V6      4
#define REQUEST_HEAD 4 /* version, command, a zero, type of address */

enum socks_result socks_greeting(const uint8_t *bytes, size_t size, size_t *ret_size, bool *ret_no_auth) {
        if (size > 0 && bytes[0] != VERSION)
                return SOCKS_BAD;
        if (size < 2)
                return SOCKS_MORE;
        size_t methods = bytes[1];
        if (methods == 0)
                return SOCKS_BAD;
        if (size - 2 < methods)
                return SOCKS_MORE;
        *ret_no_auth = memchr(bytes + 2, NO_AUTH, methods) != NULL;
        *ret_size = 2 + methods;
        return SOCKS_DONE;
}

/* A name, or what a client that does not know better sends as one: an address as text. */
static void read_host(const uint8_t *bytes, size_t size, struct socks_request *r) {
        if (address_parse((const char *)bytes, size, false, &r->address))
                return;
        r->named = true;
        if (hostname_canonical(bytes, size, r->name) <= 0)
                r->name[0] = '\0';
}

enum socks_result socks_request(const uint8_t *bytes, size_t size, size_t *ret_size, struct socks_request *ret) {
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
        struct socks_request r = {0};
        size_t at = REQUEST_HEAD, length;

        if ((size > 0 && bytes[0] != VERSION) || (size > 2 && bytes[2] != 0))
                return SOCKS_BAD;
        if (size < REQUEST_HEAD)
                return SOCKS_MORE;
        switch (bytes[3]) {
        case TYPE_V4:
                length = 4;
                break;
        case TYPE_V6:
                length = 16;
                break;
        case TYPE_NAME:
                if (size <= at)
                        return SOCKS_MORE;
                length = bytes[at++];
                break;
        default:
                return SOCKS_BAD;
        }
        if (size - at < length + 2)
                return SOCKS_MORE;
        r.command = bytes[1];
        if (bytes[3] == TYPE_NAME) {
                read_host(bytes + at, length, &r);
        } else {
                memcpy(r.address.bytes, mapped, sizeof mapped);
                memcpy(r.address.bytes + sizeof r.address.bytes - length, bytes + at, length);
        }
        r.port = (uint16_t)(bytes[at + length] << 8 | bytes[at + length + 1]);
        *ret = r;
        *ret_size = at + length + 2;
        return SOCKS_DONE;
}

void socks_reply(uint8_t code, uint8_t ret[SOCKS_REPLY_SIZE]) {
        static const uint8_t reply[SOCKS_REPLY_SIZE] = {VERSION, 0, 0,
                                                        TYPE_V4}; /* bound to 0.0.0.0:0 as far as they know */

        memcpy(ret, reply, sizeof reply);
        ret[1] = code;
}
