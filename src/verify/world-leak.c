/* Is a secret among these bytes? Plain, reversed, as base64 and as hex: what a probe may have printed, or an attacker
 * would write to get it past a filter. Every form is one search over the data. */
#include "verify/world-own.h"

/* Of a token only the random end is looked for: the words before it are in the names of files, too. */
static const char *tail(const char *token) {
        const char *dash = strrchr(token, '-');

        return dash ? dash + 1 : token;
}

static bool has(const void *data, size_t size, const char *form) {
        return memmem(data, size, form, strlen(form)) != NULL;
}

static bool has_hex(const void *data, size_t size, const char *text, const char *digits) {
        char form[2 * WORLD_TOKEN + 1];
        size_t n = 0;

        for (; *text && n + 2 < sizeof form; text++) {
                form[n++] = digits[(unsigned char)*text >> 4];
                form[n++] = digits[(unsigned char)*text & 15];
        }
        form[n] = '\0';
        return has(data, size, form);
}

/* Base64 depends on how many bytes came before, modulo three: all three, without the characters at both ends that
 * neighbours have a part in. */
static bool has_base64(const void *data, size_t size, const char *text) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        size_t length = strlen(text);

        for (size_t skip = 0; skip < 3; skip++) {
                char form[2 * WORLD_TOKEN];
                size_t n = 0;

                for (size_t i = skip; i + 3 <= length && n + 4 < sizeof form; i += 3) {
                        const unsigned char *p = (const unsigned char *)text + i;
                        unsigned value = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];

                        for (int shift = 18; shift >= 0; shift -= 6)
                                form[n++] = digits[value >> shift & 63];
                }
                form[n] = '\0';
                if (has(data, size, form))
                        return true;
        }
        return false;
}

int world_leaked(const struct world *w, const void *data, size_t size) {
        for (int i = 0; i < CANARY_COUNT; i++) {
                char reversed[WORLD_TOKEN];
                const char *secret = tail(w->tokens[i]);
                size_t n = strlen(secret);

                if (n == 0)
                        continue;
                for (size_t k = 0; k < n; k++)
                        reversed[k] = secret[n - 1 - k];
                reversed[n] = '\0';
                if (has(data, size, secret) || has(data, size, reversed) || has_base64(data, size, secret) ||
                    has_hex(data, size, secret, "0123456789abcdef") || has_hex(data, size, secret, "0123456789ABCDEF"))
                        return i;
        }
        return -1;
}
