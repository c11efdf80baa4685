/* Fuzz target: host names and addresses as text. A name that is accepted is canonical, is the same name when it is read
 * again, and is never an address; an address that is accepted is the same address when it is printed and read again. */
#include "base/address.h"
#include "base/hostname.h"
#include "tests/fuzz/fuzz.h"

static void check_name(const uint8_t *data, size_t size) {
        char name[HOSTNAME_SIZE], again[HOSTNAME_SIZE], pattern[HOSTNAME_SIZE + 8];
        struct address a;
        int n = hostname_canonical(data, size, name);

        if (n < 0)
                return;
        assert(n > 0 && n <= 253 && strlen(name) == (size_t)n);
        assert(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == (size_t)n && name[n - 1] != '.');
        assert(hostname_canonical(name, (size_t)n, again) == n && str_eq(name, again));
        assert(!address_parse(name, (size_t)n, false, &a));
        assert(hostname_matches("*", name) && hostname_matches(name, name));
        (void)snprintf(pattern, sizeof pattern, "*.%s", name);
        assert(!hostname_matches(pattern, name)); /* a star is at least one label */
        const char *dot = strchr(name, '.');
        if (dot) {
                (void)snprintf(pattern, sizeof pattern, "*%s", dot);
                assert(hostname_matches(pattern, name) && !hostname_matches(dot + 1, name));
        }
}

static void check_address(const char *data, size_t size, bool brackets) {
        struct address a, again;
        char text[ADDRESS_TEXT_MAX], name[HOSTNAME_SIZE];

        if (!address_parse(data, size, brackets, &a))
                return;
        assert(size < 64 && (brackets && data[0] != '[' ? address_is_v4(&a) : true));
        address_print(&a, text);
        assert(strlen(text) < sizeof text && address_parse(text, strlen(text), false, &again));
        assert(memcmp(&a, &again, sizeof a) == 0);
        assert(address_kind(&a) < ADDRESS_KIND_COUNT);
        assert((address_kind(&a) == ADDRESS_PUBLIC) == (address_special(&a) == NULL));
        assert(hostname_canonical(data, size, name) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        check_name(data, size);
        check_address((const char *)data, size, false);
        check_address((const char *)data, size, true);
        return 0;
}
