/* Host names in canonical form. Pure: no allocation, no locale, nothing is looked up.
 *
 * A name is accepted or refused as a whole and before a byte of it is written; apart from lower-casing and one dot at
 * the end nothing is changed, so two spellings that another program may take for different hosts never become one. */
#include "base/hostname.h"

#define NAME_MAX_LENGTH  253
#define LABEL_MAX_LENGTH 63

static_assert(NAME_MAX_LENGTH < HOSTNAME_SIZE, "a name fits with its NUL");

static char lower(uint8_t c) {
        return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_label(const uint8_t *label, size_t length) {
        if (length == 0 || length > LABEL_MAX_LENGTH || label[0] == '-' || label[length - 1] == '-')
                return false;
        for (size_t i = 0; i < length; i++) {
                char c = lower(label[i]);

                if (!((c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_'))
                        return false;
        }
        return true;
}

/* As the last label this makes the whole an address to some parser: "1", "0x7f", "017". */
static bool is_number(const uint8_t *label, size_t length) {
        size_t digits = 0;

        if (length >= 2 && label[0] == '0' && lower(label[1]) == 'x')
                return true;
        while (digits < length && is_digit((char)label[digits]))
                digits++;
        return digits == length;
}

int hostname_canonical(const void *bytes, size_t size, char ret[HOSTNAME_SIZE]) {
        const uint8_t *name = bytes;
        size_t start = 0;

        if (size > 0 && name[size - 1] == '.')
                size--;
        if (size == 0 || size > NAME_MAX_LENGTH)
                return ERR_INPUT;
        for (size_t end = 0; end <= size; end++) {
                if (end < size && name[end] != '.')
                        continue;
                if (!is_label(name + start, end - start) || (end == size && is_number(name + start, end - start)))
                        return ERR_INPUT;
                start = end + 1;
        }
        for (size_t i = 0; i < size; i++)
                ret[i] = lower(name[i]);
        ret[size] = '\0';
        return (int)size;
}

bool hostname_matches(const char *pattern, const char *name) {
        if (name[0] == '\0')
                return false;
        if (str_eq(pattern, "*"))
                return true;
        if (!str_starts(pattern, "*."))
                return str_eq(pattern, name);
        /* ".example.com" at the end, and at least one byte, so one label, before it */
        const char *tail = pattern + 1;
        size_t length = strlen(name), tail_length = strlen(tail);
        return length > tail_length && str_eq(name + length - tail_length, tail);
}
