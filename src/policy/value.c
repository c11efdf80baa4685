/* Checks of single words. No locale is consulted, nothing is looked up on the host. */
#include "policy/value.h"

#include <arpa/inet.h>
#include <idn2.h>

#include "base/hostname.h"
#include "base/text.h"

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static void idn2_cleanup(uint8_t **p) {
        idn2_free(*p);
}

/* Whether text is 1 to max bytes, begins with one of `first` and goes on with any of `rest`. */
static bool made_of(const char *text, const char *first, const char *rest, size_t max) {
        size_t length = strlen(text);

        return length >= 1 && length <= max && strchr(first, text[0]) && strspn(text + 1, rest) == length - 1;
}

int value_check_name(const char *text, struct err *err) {
        if (made_of(text, LOWER DIGITS, LOWER DIGITS "-", 64))
                return 0;
        return err_set(err, ERR_INPUT, "'%.80s' is not a name: small letters, digits and '-', at most 64", text);
}

int value_check_extends(const char *text, struct err *err) {
        size_t length = strlen(text);

        if (length >= 1 && length < 4096 && (strchr(text, '/') || (length > 5 && str_eq(text + length - 5, ".yaml"))))
                return 0;
        return value_check_name(str_starts(text, "builtin:") ? text + 8 : text, err);
}

int value_check_path(const char *text, struct err *err) {
        return text_check_path(text, err);
}

int value_check_device(const char *text, struct err *err) {
        int r = text_check_path(text, err);

        if (r == 0 && !str_starts(text, "/dev/"))
                return err_set(err, ERR_INPUT, "'%.200s' is not a device below /dev", text);
        return r;
}

int value_check_user(const char *text, struct err *err) {
        if (str_eq(text, "root"))
                return err_set(err, ERR_INPUT,
                               "'root' is not a name for the user: 'user.root' says whether there is one");
        if (made_of(text, LOWER "_", LOWER DIGITS "_-", 32))
                return 0;
        return err_set(err, ERR_INPUT, "'%.80s' is not a user name: small letters, digits, '_' and '-', at most 32",
                       text);
}

int value_check_image(const char *text, struct err *err) {
        if (made_of(text, LOWER DIGITS, LOWER UPPER DIGITS "._:/@-", 255) && !strstr(text, "..") && !strstr(text, "//"))
                return 0;
        return err_set(err, ERR_INPUT, "'%.80s' is not the name of an image such as debian-12", text);
}

int value_check_variable(const char *text, struct err *err) {
        if (made_of(text, LOWER UPPER "_", LOWER UPPER DIGITS "_", 128))
                return 0;
        return err_set(err, ERR_INPUT, "'%.80s' is not a variable name: letters, digits and '_', at most 128", text);
}

int value_check_tool(const char *text, struct err *err) {
        if (made_of(text, LOWER UPPER DIGITS, LOWER UPPER DIGITS "_.-", 128))
                return 0;
        return err_set(err, ERR_INPUT, "'%.80s' is not a tool's name: letters, digits, '_', '.' and '-', at most 128",
                       text);
}

/* The canonical form of base/hostname.h, with what people write translated: international names have an ASCII form. */
static int settle_host(const char *text, char ret[HOSTNAME_SIZE + 2]) {
        const char *p = text;
        size_t n = 0;
        _cleanup_(idn2_cleanup) uint8_t *ascii = NULL;

        if (str_eq(text, "*")) {
                memcpy(ret, "*", 2);
                return 0;
        }
        if (str_starts(p, "*.")) {
                memcpy(ret, "*.", 2);
                n = 2;
                p += 2;
        }
        for (const char *c = p; *c && !ascii; c++)
                if ((unsigned char)*c >= 0x80 &&
                    idn2_lookup_u8((const uint8_t *)p, &ascii, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK)
                        return ERR_INPUT;
        if (ascii)
                p = (const char *)ascii;
        return hostname_canonical(p, strlen(p), ret + n) < 0 ? ERR_INPUT : 0;
}

int value_check_host(const char *text, struct err *err) {
        char settled[HOSTNAME_SIZE + 2];
        const char *last = strrchr(text, '.');

        if (settle_host(text, settled) == 0)
                return 0;
        last = last ? last + 1 : text;
        if (text[0] && strspn(last, DIGITS) == strlen(last))
                return err_set(err, ERR_INPUT, "'%.80s' is an address: write it as cidr", text);
        if (strlen(text) > 253)
                return err_set(err, ERR_INPUT, "a host name is at most 253 bytes");
        return err_set(err, ERR_INPUT, "'%.80s' is not a host name, '*.' before one, or '*'", text);
}

char *value_settle_host(const char *text) {
        char settled[HOSTNAME_SIZE + 2];

        return settle_host(text, settled) == 0 ? strdup(settled) : NULL;
}

static int parse_cidr(const char *text, uint8_t address[16], unsigned *ret_family, unsigned *ret_bits) {
        const char *slash = strchr(text, '/');
        char host[64];
        unsigned bits = 0;

        if (!slash || (size_t)(slash - text) >= sizeof host || !made_of(slash + 1, DIGITS, DIGITS, 3))
                return -EINVAL;
        memcpy(host, text, (size_t)(slash - text));
        host[slash - text] = '\0';
        for (const char *p = slash + 1; *p; p++)
                bits = bits * 10 + (unsigned)(*p - '0');

        memset(address, 0, 16);
        unsigned family = strchr(host, ':') ? AF_INET6 : AF_INET;
        if (inet_pton((int)family, host, address) != 1 || bits > (family == AF_INET ? 32U : 128U))
                return -EINVAL;
        *ret_family = family;
        *ret_bits = bits;
        return 0;
}

static bool bit(const uint8_t address[16], unsigned i) {
        return address[i / 8] >> (7 - i % 8) & 1;
}

int value_check_cidr(const char *text, struct err *err) {
        uint8_t address[16];
        unsigned family, bits;

        if (parse_cidr(text, address, &family, &bits) < 0)
                return err_set(err, ERR_INPUT,
                               "'%.80s' is not an address block such as 10.0.0.0/8 or \"2001:db8::/32\"", text);
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
        if (family == AF_INET6 && bits >= 96 && memcmp(address, mapped, sizeof mapped) == 0)
                return err_set(err, ERR_INPUT, "'%.80s' stands for IPv4 addresses: write them as such", text);
        for (unsigned i = bits; i < (family == AF_INET ? 32U : 128U); i++)
                if (bit(address, i))
                        return err_set(err, ERR_INPUT, "'%.80s' has bits set after its first %u", text, bits);
        return 0;
}

int value_check_method(const char *text, struct err *err) {
        if (made_of(text, UPPER, UPPER "-", 32))
                return 0;
        return err_set(err, ERR_INPUT, "'%.80s' is not an HTTP method such as GET", text);
}

int value_check_url(const char *text, struct err *err) {
        const char *star = strchr(text, '*');

        if (text[0] != '/' || strlen(text) > 1024)
                return err_set(err, ERR_INPUT, "'%.80s' is not an HTTP path: it begins with '/', at most 1024 bytes",
                               text);
        if (star && star[1] != '\0')
                return err_set(err, ERR_INPUT, "'%.80s': a '*' can only be the last character of an HTTP path", text);
        bool plain = !strpbrk(text, " ?#\\%") && !strstr(text, "//");
        for (const char *part = text + 1; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
                size_t n = strcspn(part, "/");

                plain = plain && !str_starts(part, "..") && !(n == 1 && part[0] == '.');
        }
        for (const unsigned char *c = (const unsigned char *)text; *c; c++)
                plain = plain && *c > 0x20 && *c < 0x7f;
        if (!plain)
                return err_set(
                        err, ERR_INPUT,
                        "'%.80s' is not a plain HTTP path: ASCII, no '//', '/.', '/..', '?', '#', '%%' or spaces",
                        text);
        return 0;
}

int value_check_text(const char *text, struct err *err) {
        for (const unsigned char *p = (const unsigned char *)text; *p;) {
                size_t n = text_utf8_length(p);

                if (n == 0)
                        return err_set(err, ERR_INPUT, "the value is not UTF-8");
                if (*p < 0x20 || *p == 0x7f || (n == 2 && p[0] == 0xc2 && p[1] < 0xa0))
                        return err_set(err, ERR_INPUT, "the value contains a control character");
                p += n;
        }
        return 0;
}

bool value_path_covers(const char *wide, const char *narrow) {
        size_t length = strlen(wide);

        if (str_eq(wide, "/"))
                return true;
        return strncmp(wide, narrow, length) == 0 && (narrow[length] == '/' || narrow[length] == '\0');
}

bool value_host_covers(const char *wide, const char *narrow) {
        if (str_eq(wide, "*") || str_eq(wide, narrow))
                return true;
        if (!str_starts(wide, "*.") || str_eq(narrow, "*"))
                return false;
        /* "*.example.org" stands for every name that ends in ".example.org" */
        const char *tail = wide + 1, *name = str_starts(narrow, "*.") ? narrow + 1 : narrow;
        size_t length = strlen(name);
        return length > strlen(tail) && str_eq(name + length - strlen(tail), tail);
}

bool value_cidr_covers(const char *wide, const char *narrow) {
        uint8_t a[16], b[16];
        unsigned family_a, family_b, bits_a, bits_b;

        if (parse_cidr(wide, a, &family_a, &bits_a) < 0 || parse_cidr(narrow, b, &family_b, &bits_b) < 0)
                return false;
        if (family_a != family_b || bits_b < bits_a)
                return false;
        for (unsigned i = 0; i < bits_a; i++)
                if (bit(a, i) != bit(b, i))
                        return false;
        return true;
}

bool value_url_covers(const char *wide, const char *narrow) {
        size_t length = strlen(wide);

        if (length > 0 && wide[length - 1] == '*')
                return strncmp(wide, narrow, length - 1) == 0;
        return str_eq(wide, narrow);
}
