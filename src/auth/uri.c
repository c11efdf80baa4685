/* RFC 3986, appendix A, as predicates over bytes. */
#include "auth/uri.h"

#include <arpa/inet.h>

static bool is_alpha(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
        return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_one_of(char c, const char *set) {
        return c && strchr(set, c);
}

bool uri_is_unreserved(char c) {
        return is_alpha(c) || is_digit(c) || is_one_of(c, "-._~");
}

static bool is_sub_delim(char c) {
        return is_one_of(c, "!$&'()*+,;=");
}

bool uri_is_reserved(char c) {
        return is_sub_delim(c) || is_one_of(c, ":/?#[]@");
}

/* unreserved, sub-delims, percent-encoded bytes, and those of extra. */
static bool check_chars(const char *s, size_t size, const char *extra) {
        for (size_t i = 0; i < size; i++) {
                if (s[i] == '%') {
                        if (size - i < 3 || !is_hex(s[i + 1]) || !is_hex(s[i + 2]))
                                return false;
                        i += 2;
                } else if (!uri_is_unreserved(s[i]) && !is_sub_delim(s[i]) && !is_one_of(s[i], extra)) {
                        return false;
                }
        }
        return true;
}

bool uri_check_pchars(const char *text, size_t size) {
        return check_chars(text, size, ":@");
}

bool uri_check_scheme(const char *text, size_t size) {
        if (size == 0 || !is_alpha(text[0]))
                return false;
        for (size_t i = 1; i < size; i++)
                if (!is_alpha(text[i]) && !is_digit(text[i]) && !is_one_of(text[i], "+-."))
                        return false;
        return true;
}

/* What is between brackets: IPv6, or "v", a version, and something that nobody has defined yet. */
static bool check_literal(const char *s, size_t size) {
        char text[INET6_ADDRSTRLEN + 1];
        struct in6_addr address;
        size_t i = 1;

        if (size > 0 && (s[0] == 'v' || s[0] == 'V')) {
                while (i < size && is_hex(s[i]))
                        i++;
                return i > 1 && i + 1 < size && s[i] == '.' && !memchr(s + i, '%', size - i) &&
                       check_chars(s + i + 1, size - i - 1, ":");
        }
        if (size == 0 || size >= sizeof text || memchr(s, '\0', size))
                return false;
        memcpy(text, s, size);
        text[size] = '\0';
        return inet_pton(AF_INET6, text, &address) == 1;
}

bool uri_check_authority(const char *text, size_t size) {
        const char *at = memchr(text, '@', size);

        if (at) {
                size_t user = (size_t)(at - text);

                if (!check_chars(text, user, ":"))
                        return false;
                text += user + 1;
                size -= user + 1;
        }
        if (size > 0 && text[0] == '[') {
                const char *end = memchr(text, ']', size);

                if (!end || !check_literal(text + 1, (size_t)(end - text) - 1))
                        return false;
                size -= (size_t)(end + 1 - text);
                text = end + 1;
                if (size > 0 && text[0] != ':')
                        return false;
        } else {
                const char *colon = memchr(text, ':', size);
                size_t host = colon ? (size_t)(colon - text) : size;

                if (host == 0 || !check_chars(text, host, ""))
                        return false;
                text += host;
                size -= host;
        }
        for (size_t i = 1; i < size; i++)
                if (!is_digit(text[i]))
                        return false;
        return true;
}

static bool check_path(const char *s, size_t size) {
        return check_chars(s, size, ":@/");
}

bool uri_check(const char *text, size_t size) {
        const char *colon = memchr(text, ':', size), *mark;

        if (!colon || !uri_check_scheme(text, (size_t)(colon - text)))
                return false;
        size -= (size_t)(colon + 1 - text);
        text = colon + 1;
        /* the fragment is behind the first '#', the query before it and behind the first '?' */
        for (const char *marks = "#?"; *marks; marks++) {
                mark = memchr(text, *marks, size);
                if (!mark)
                        continue;
                if (!check_chars(mark + 1, size - (size_t)(mark + 1 - text), ":@/?"))
                        return false;
                size = (size_t)(mark - text);
        }
        if (size >= 2 && text[0] == '/' && text[1] == '/') {
                const char *slash = memchr(text + 2, '/', size - 2);
                size_t authority = slash ? (size_t)(slash - text) - 2 : size - 2;

                /* "file:///x": the grammar's host may be empty, as long as there is neither user nor port */
                return (authority == 0 || uri_check_authority(text + 2, authority)) &&
                       check_path(text + 2 + authority, size - 2 - authority);
        }
        return check_path(text, size);
}
